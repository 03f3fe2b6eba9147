"""Getting up from any pose: the robot is dropped, joints and attitude at random, and asked to
recover, in the imperfect twin and with the limits of a stage."""

from dataclasses import asdict, dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.control.limits import pd_torque
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.gate.drive import Drive
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.robots.geometry import tilt
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.robot import TwinRobot

SUCCESS = 0.97
LONGEST_S = 8.0
LIE_S, STAND_S = 1.5, 0.5  # damped after the drop; watched when it stands
DROP = 0.45  # m, of the trunk
STANDING_HEIGHT, STANDING_TILT = 0.85, 0.2  # of the height it stands at; rad
ROUNDING = 1e-4  # single precision
KNOCK = 300.0  # N between two parts of the robot


@dataclass(slots=True)
class Recovery:
    """One attempt."""

    seed: int
    upside_down: bool
    seconds: float = 0.0
    stands: bool = False
    words: str = ""
    asked: float = 0.0  # peak of commanded torque, share of the joint's limit
    torque: float = 0.0  # peak of delivered torque, as a share as well
    knock: float = 0.0  # N, peak contact force between two parts of the robot


class _Fallen:
    """A dropped robot; `result` collects its largest torques and knocks."""

    def __init__(self, spec: RobotSpec, stage: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        floor = Floor(friction=rng.uniform(0.5, 1.0))
        self.spec = spec
        self.robot = TwinRobot(spec, floor, load_imperfections(robot=spec.name), seed=seed)
        self.robot.reset(seed)
        self.drive = Drive(None, self.robot, stage)
        self.controller = self.drive.controller
        attitude = rng.normal(size=4)
        attitude /= np.linalg.norm(attitude)
        joints = rng.uniform(spec.position_low, spec.position_high)
        base = np.array([0.0, 0.0, DROP, *attitude])
        self.robot.place(base, np.zeros(6), joints, np.zeros(spec.joint_count))
        self.result = Recovery(seed, upside_down=False)

    def run(self, seconds: float, until: tuple[Mode, ...] = ()) -> float:
        """Run until one of these modes is reached; returns the seconds that took."""
        ticks = round(seconds * self.spec.wire.rate_hz)
        for tick in range(ticks):
            if self.controller.mode in until:
                return tick / self.spec.wire.rate_hz
            state, command = self.drive.tick(), self.drive.sent
            seen = self.result
            seen.torque = max(seen.torque, self._share(self.robot.truth.joint_torque))
            driving = self.controller.mode is not Mode.DAMPING
            if driving and command is not None and state is not None:
                seen.asked = max(seen.asked, self._share(pd_torque(command, state)))
            seen.knock = max(seen.knock, self._hardest_knock())
        return seconds

    def _share(self, torque: npt.NDArray[np.floating]) -> float:
        return float((np.abs(torque) / self.spec.torque_limit).max())

    def _hardest_knock(self) -> float:
        model, data = self.robot.model, self.robot.data
        hardest, force = 0.0, np.zeros(6)
        for number in range(data.ncon):
            if model.geom_bodyid[data.contact.geom[number]].min() > 0:
                mujoco.mj_contactForce(model, data, number, force)
                hardest = max(hardest, float(force[0]))
        return hardest


def recover(spec: RobotSpec, stage: str, seed: int) -> Recovery:
    """Drop the robot, ask it to recover, watch until it stands or gives up."""
    fallen = _Fallen(spec, stage, seed)
    controller, link = fallen.controller, fallen.drive.link
    fallen.run(0.05)
    controller.request(ModeEvent.DAMP, link.now_ns())
    fallen.run(LIE_S)
    lying = float(np.cos(tilt(fallen.robot.truth.quaternion)))
    result = fallen.result = Recovery(seed, upside_down=lying < 0)
    decision = controller.request(ModeEvent.RECOVER, link.now_ns())
    if not decision.accepted:
        result.words = decision.words
        return result
    result.seconds = fallen.run(LONGEST_S, until=(Mode.STANDING, Mode.DAMPING))
    fallen.run(STAND_S)
    truth = fallen.robot.truth
    high = truth.position[2] > STANDING_HEIGHT * spec.base_height
    result.stands = bool(
        controller.mode is Mode.STANDING and high and tilt(truth.quaternion) < STANDING_TILT
    )
    result.words = "" if result.stands else f"{controller.mode.words}: {controller.reason}"
    return result


def run(robot: str, stage: str, poses: int, first: int, progress: Progress) -> BenchResult:
    """One pose for each seed from `first` on."""
    spec = load_robot(robot)
    recoveries = []
    for number in range(poses):
        progress("random poses", number / poses)
        recoveries.append(recover(spec, stage, first + number))
    stood = [one for one in recoveries if one.stands]
    most = load_stage(stage).torque_fraction + ROUNDING
    checks = [
        Check.at_least("stands", len(stood) / poses, SUCCESS, "of the poses"),
        Check.at_most("longest", max(one.seconds for one in recoveries), LONGEST_S, "s"),
        Check.at_most("asked torque", max(one.asked for one in recoveries), most, "of the limit"),
        Check.at_most("delivered", max(one.torque for one in recoveries), most, "of the limit"),
        Check.at_most("knock", max(one.knock for one in recoveries), KNOCK, "N"),
    ]
    return BenchResult(
        f"{len(stood)} of {poses} get up ({sum(one.upside_down for one in recoveries)} lay on "
        "their backs)",
        checks,
        {"poses": [asdict(one) for one in recoveries]},
    )
