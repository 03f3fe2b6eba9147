"""The legs on a clamped trunk, without contacts: cheap to roll out, many candidates at a time.

Motors and time step are the twin's. The legs do not affect each other, so one rollout tries a
candidate for each leg.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco import rollout

from sim2real_deploy.identify.figures import JointFigures
from sim2real_deploy.identify.recording import Recording
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.model import BASE, KD, KP, build_model, build_spec, set_presliding

Array = npt.NDArray[np.float64]

STEPS = 2  # of physics per wire period, as in the twin
STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS
_LAG = 0  # where a motor keeps its time constant in actuator_dynprm
GRAVITY = 9.81
REMEMBERED = 60  # rows of motion before a window from which its initial friction follows


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a recording that is rolled out from its first row."""

    recording: int
    start: int
    rows: int


def no_corrections(windows: Sequence[Window], joints: int) -> Array:
    """Corrections of zero: windows begin exactly in the recorded states."""
    return np.zeros((len(windows), 2, joints))


def legs_model(robot: RobotSpec, lags: bool, presliding: bool = False) -> Any:
    """The model with its trunk welded to the world, no contacts, a torque sensor on each motor."""
    lag = 1e-4 if lags else 0.0
    timestep = 1 / robot.wire.rate_hz / STEPS
    spec = build_spec(
        robot, Floor(), timestep=timestep, lag=lag, presliding=presliding, sensors=False
    )
    for joint in spec.body(BASE).joints:
        spec.delete(joint)
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    for joint in robot.joints:
        spec.add_sensor(
            name=joint.name,
            type=mujoco.mjtSensor.mjSENS_ACTUATORFRC,
            objtype=mujoco.mjtObj.mjOBJ_ACTUATOR,
            objname=joint.name,
        )
    return spec.compile()


def gravity(roll: float, pitch: float) -> Array:
    """In the axes of a trunk with this attitude."""
    return GRAVITY * np.array(
        (np.sin(pitch), -np.sin(roll) * np.cos(pitch), -np.cos(roll) * np.cos(pitch))
    )


def _through_play(q: Array, play: Array, began: Array) -> Array:
    """Position of each gear's motor side, which follows once the play is used up."""
    if not play.any():
        return q
    seen, at = np.empty_like(q), began
    for row in range(q.shape[2]):
        at = np.clip(at, q[:, :, row] - play / 2, q[:, :, row] + play / 2)
        seen[:, :, row] = at
    return seen


def _helped(figures: JointFigures, kp: Array) -> Array:
    """Torque by which backlash helps the motion; rollouts subtract it from the dry friction.

    A board sees its own side of the gear, which trails the joint by half the play.
    """
    return figures.strength * kp * figures.backlash / 2


class Legs:
    """Rolls recordings out from many windows at once."""

    def __init__(
        self,
        robot: RobotSpec,
        recordings: Sequence[Recording],
        lags: bool,
        presliding: bool = False,
    ) -> None:
        self.robot, self.recordings = robot, recordings
        self.plain = legs_model(robot, lags, presliding)
        self._presliding = presliding
        self._free = build_model(robot, Floor(), sensors=False)
        self._free_data = mujoco.MjData(self._free)
        self.lags = lags
        self._data = mujoco.MjData(self.plain)
        self._rollout = rollout.Rollout(nthread=1)
        self._size = mujoco.mj_stateSize(self.plain, STATE)

    def close(self) -> None:
        self._rollout.close()

    def model(self, figures: JointFigures, down: Array, kp: Array, kd: Array) -> Any:
        model = copy.copy(self.plain)
        model.dof_armature[:] = figures.armature
        model.dof_invweight0[:] = self._softness(figures.armature)
        model.dof_damping[:] = figures.damping
        friction = np.maximum(figures.friction - _helped(figures, kp), 0.0)
        if self._presliding:
            set_presliding(model, friction, figures.presliding)
            friction = np.where(figures.presliding > 0, 0.0, friction)
        model.dof_frictionloss[:] = friction
        model.opt.gravity[:] = down
        motors = slice(0, self.robot.joint_count)
        model.actuator_gainprm[motors, KP] = figures.strength * kp
        damps = figures.strength * kd * figures.speed_gain
        model.actuator_gainprm[motors, KD] = np.where(kd > 0, damps - figures.speed_feed, 0.0)
        if self.lags:
            model.actuator_dynprm[motors, _LAG] = np.maximum(figures.lag, 1e-4)
        return model

    def _softness(self, armature: Array) -> Array:
        """The inverse inertia by which MuJoCo scales the softness of dry friction.

        MuJoCo computes it for a free trunk however the twin's trunk is held; a welded trunk would
        give other values, and friction would stick differently.
        """
        self._free.dof_armature[-self.robot.joint_count :] = armature
        mujoco.mj_setConst(self._free, self._free_data)
        return np.asarray(self._free.dof_invweight0[-self.robot.joint_count :])

    def run(
        self,
        windows: Sequence[Window],
        candidates: Sequence[tuple[JointFigures, Sequence[Array]]],
        starts_off: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """Readings of q, dq and torque: candidates x windows x rows x joints.

        A candidate is figures and, for each recording, the direction of gravity. `starts_off` is
        how far each window begins from its recorded q and dq (windows x 2 x joints).
        """
        if starts_off is None:
            starts_off = no_corrections(windows, self.robot.joint_count)
        rows = windows[0].rows
        count, joints = len(windows), self.robot.joint_count
        starts = np.zeros((len(candidates) * count, self._size))
        told = np.zeros((len(candidates) * count, rows * STEPS, self.plain.nu))
        models: list[Any] = []
        for number, (figures, downs) in enumerate(candidates):
            made: dict[Any, Any] = {}
            here = slice(number * count, (number + 1) * count)
            self._prepare(windows, figures, starts[here], told[here])
            starts[here, 1 : 1 + 2 * joints] += starts_off.reshape(count, -1)
            for window in windows:
                recording = self.recordings[window.recording]
                kp, kd = recording["kp"][window.start], recording["kd"][window.start]
                key = (window.recording, kp.tobytes(), kd.tobytes())
                if key not in made:
                    made[key] = self.model(figures, downs[window.recording], kp, kd)
                models.append(made[key])
        states, sensed = self._rollout.rollout(models, [self._data], starts, told)
        shape = (len(candidates), count, rows, -1)
        states = states[:, STEPS - 1 :: STEPS].reshape(shape)
        torque = sensed[:, STEPS - 1 :: STEPS].reshape(shape)
        q, dq = states[..., 1 : 1 + joints], states[..., 1 + joints : 1 + 2 * joints]
        offsets = np.stack([figures.offset for figures, _ in candidates])[:, None]
        plays = np.stack([figures.backlash for figures, _ in candidates])[:, None]
        starting = [w.start for w in windows]
        began = self._at(windows, "start_q", starting) + starts_off[:, 0]
        seen = _through_play(q, plays, began - offsets)
        if plays.any():
            gains = self._at(windows, "kp", starting)
            gains = np.stack([figures.strength for figures, _ in candidates])[:, None] * gains
            torque = torque - gains[:, :, None] * (seen - q)
        return seen + offsets[:, None], dq, torque

    def _at(self, windows: Sequence[Window], column: str, rows: Sequence[Any]) -> Array:
        """These rows of each window's recording."""
        found = zip(windows, rows, strict=True)
        return np.stack([self.recordings[w.recording][column][at] for w, at in found])

    def _deflected(self, windows: Sequence[Window], figures: JointFigures) -> Array:
        """Deflection of the friction's bristles (rad) at the start of each window, from the motion
        before it."""
        reach = np.maximum(figures.presliding, 1e-9)
        before = np.arange(-REMEMBERED, 1)
        rows = [np.maximum(w.start + before, 0) for w in windows]
        q = self._at(windows, "start_q", rows)
        deflected = np.zeros((len(windows), self.robot.joint_count))
        for moved in np.diff(q, axis=1).transpose(1, 0, 2):
            full = reach * np.sign(moved)
            deflected = full + (deflected - full) * np.exp(-np.abs(moved) / reach)
        return deflected

    def _prepare(
        self, windows: Sequence[Window], figures: JointFigures, starts: Array, told: Array
    ) -> None:
        joints = self.robot.joint_count
        if self._presliding:
            starts[:, -joints:] = self._deflected(windows, figures)
        late = np.rint(figures.delay * STEPS * self.robot.wire.rate_hz).astype(int)
        for number, window in enumerate(windows):
            recording = self.recordings[window.recording]
            at = window.start
            starts[number, 1 : 1 + joints] = recording["start_q"][at] - figures.offset
            starts[number, 1 + joints : 1 + 2 * joints] = recording["start_dq"][at]
            if self.lags:
                starts[number, 1 + 2 * joints : 1 + 3 * joints] = recording["start_torque"][at]
            steps = at * STEPS + np.arange(window.rows * STEPS)
            row = np.maximum((steps[:, None] - late) // STEPS, 0)
            inputs = told[number].reshape(len(steps), joints, 3)
            each = np.arange(joints)
            inputs[..., 0] = recording["target_q"][row, each] - figures.offset
            speed = recording["target_dq"][row, each] - figures.speed_offset
            inputs[..., 1] = speed / figures.speed_gain
            asked = figures.strength * recording["feed_forward"][row, each]
            inputs[..., 2] = asked + figures.torque_bias
