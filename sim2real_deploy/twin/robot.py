"""The twin: a MuJoCo simulation with the robot's own interface.

It takes rt/lowcmd samples and returns rt/lowstate samples, so what works with the twin works with
the robot. It starts lying down. The same seed and commands give the same states, bit for bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.geometry import to_body_rows
from sim2real_deploy.twin import config
from sim2real_deploy.twin.actuator_net import ActuatorNet, load_actuator
from sim2real_deploy.twin.battery import BatteryModel
from sim2real_deploy.twin.boards import Boards
from sim2real_deploy.twin.bus import MessageBus
from sim2real_deploy.twin.delay_line import DelayLine
from sim2real_deploy.twin.delta_action import DeltaAction, load_delta
from sim2real_deploy.twin.disturbances import Disturbances, Push, Slip
from sim2real_deploy.twin.faults import Fault, Faults
from sim2real_deploy.twin.floors import FLOOR_GEOM, Floor
from sim2real_deploy.twin.hoist import Hoist
from sim2real_deploy.twin.message import StateMessage
from sim2real_deploy.twin.model import BASE, build_spec, shape_body
from sim2real_deploy.twin.motors import MotorCommand, MotorModel
from sim2real_deploy.twin.mount import Mount
from sim2real_deploy.twin.per_joint import per_joint
from sim2real_deploy.twin.physics import MujocoPhysics, Physics
from sim2real_deploy.twin.sensors import EncoderModel, ImuModel
from sim2real_deploy.twin.sport import SportMode, folded_pose
from sim2real_deploy.wire import remote

Vector = npt.NDArray[np.float64]

_SLOW_EVERY = 20  # wire periods between two updates of heat and battery
_SETTLE_S = 0.6  # to come to rest lying down
_FREE = 7  # coordinates of the free joint


@dataclass(frozen=True, slots=True)
class BaseTruth:
    """The true pose and motion of the trunk."""

    position: Vector  # m, in the world
    quaternion: Vector  # w, x, y, z
    velocity: Vector  # m/s, in the world
    rate: Vector  # rad/s, in the body

    @property
    def body_velocity(self) -> Vector:
        """m/s, in the body frame."""
        return np.asarray(to_body_rows(self.quaternion[None], self.velocity[None])[0])


@dataclass(frozen=True, slots=True)
class Truth(BaseTruth):
    """The robot's true state: for evaluation and pictures, never for control."""

    joint_position: Vector
    joint_velocity: Vector
    joint_torque: Vector
    foot_force: Vector  # N under each foot, leg order
    foot_position: Vector  # m, in the world: the centre of each foot, one row each
    contacts: tuple[str, ...]  # names of geoms, other than feet, that touch the floor or each other


class TwinRobot:
    """One robot on one floor. Implements `Plant`, for an InProcessLink or TwinOnWire."""

    def __init__(
        self,
        robot: RobotSpec,
        floor: Floor | None = None,
        imperfections: config.Imperfections | None = None,
        *,
        seed: int = 0,
        sport_mode: bool = False,
        mount: Mount | None = None,
        physics: type[Physics] = MujocoPhysics,
    ) -> None:
        self.robot = robot
        self.floor = floor or Floor()
        self.imperfections = imperfections or config.Imperfections()
        self._sport_at_boot = sport_mode
        self._period = 1 / robot.wire.rate_hz
        self.mount = mount or Mount()
        motors, timestep = self.imperfections.motors, self._period / physics.steps
        lag = per_joint(motors.lag, robot, "motors.lag")
        delay = per_joint(motors.delay, robot, "motors.delay")
        learned = self.imperfections.learned
        self._actuator = learned.actuator and load_actuator(learned.actuator, robot)
        self._delta = learned.action and load_delta(learned.action, robot)
        self._late = np.rint(delay / timestep).astype(np.int64)  # physics steps
        presliding = bool(per_joint(motors.presliding, robot, "motors.presliding").any())
        spec = build_spec(robot, self.floor, timestep=timestep, lag=lag, presliding=presliding)
        Hoist.add(spec, robot.base_height + float(self.floor.height(0.0, 0.0)))
        self.mount.add(spec)
        self.model = spec.compile()
        shape_body(self.model, robot, self.imperfections)
        self.mount.hold(self.model)
        self.data = mujoco.MjData(self.model)
        self._physics = physics(self.model, self.data)
        base = self.model.body(BASE).id
        names = [self.model.geom(i).name for i in range(self.model.ngeom)]
        floor_geoms = np.array([i for i, n in enumerate(names) if n.startswith(FLOOR_GEOM)])
        self.disturbances = Disturbances(self.model, self.data, base, floor_geoms)
        self.hoist = Hoist.of(self.model, self.data, base)
        self._standing_kp = float(robot.kp.sum())
        self._geom_names = names
        self._feet = np.array([names.index(foot) for foot in robot.foot_names], np.intp)
        self._expected = {*self._feet.tolist(), *floor_geoms.tolist()}  # may touch each other
        self._message = StateMessage(robot)
        self._qpos, self._qvel = self.data.qpos[_FREE:], self.data.qvel[_FREE - 1 :]
        self._quaternion, self._rate = self.data.qpos[3:7], self.data.qvel[3:6]
        self._acceleration = self.data.sensordata[:3]
        self._foot_force = self.data.sensordata[3:]
        self._found = self._lie_down()
        self.reset(seed)
        self.exchange(())  # compiles the loops, which takes seconds, before real time matters
        self.reset(seed)

    def reset(self, seed: int) -> None:
        """Lying down and just switched on, with all random errors drawn again from the seed."""
        errors = self.imperfections
        streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(5)]
        self.disturbances.clear()
        if self.hoist is not None:
            self.hoist.hang_up()
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = self._found
        self.motors = MotorModel(self.robot, errors.motors, self.model, self.data)
        if self._actuator:
            self.motors.learn(ActuatorNet(self._actuator, self._period))
        self._action: DeltaAction | None = None
        if self._delta:
            offset = per_joint(errors.encoders.offset, self.robot, "encoders.offset")
            self._action = DeltaAction(self._delta, self._period, offset)
            self.motors.shift(self._action.delta)
        mujoco.mj_forward(self.model, self.data)
        self._now_ns = 0
        self._periods = 0
        strength = errors.motors.strengths(self.robot)
        gain_step = per_joint(errors.motors.gain_step, self.robot, "motors.gain_step")
        self.boards = Boards(self.robot, errors.command_timeout, strength, gain_step)
        self._line = DelayLine(self._late, self._physics.steps, self.boards.command)
        self.sport = SportMode(self.robot, self._sport_at_boot, self._qpos)
        self.battery = BatteryModel(self.robot, errors.power)
        readings = self._message.motors
        self.encoders = EncoderModel(self.robot, readings, errors.encoders, streams[0])
        self.imu = ImuModel(errors.imu, streams[1])
        self._command_bus = MessageBus(errors.command_bus, streams[2])
        self._state_bus = MessageBus(errors.state_bus, streams[3])
        self.faults = Faults(self.robot, streams[4])
        self.hold_remote(remote.Remote())
        self.motors.engage()
        self._measure_joints()
        self._slow_things()

    def place(
        self,
        base: Vector,
        base_velocity: Vector,
        q: Vector,
        dq: Vector,
        torque: Vector | None = None,
    ) -> None:
        """Set the state of motion; `base` is x, y, z and w, x, y, z, velocities as in MuJoCo.

        If z is NaN, the lowest foot is put on the floor. For motors with lag, `torque` is part of
        the state.
        """
        data = self.data
        data.qpos[:_FREE], data.qvel[: _FREE - 1] = base, base_velocity
        self._qpos[:], self._qvel[:] = q, dq
        if torque is not None:
            self.motors.current[:] = torque[: len(self.motors.current)]
        if np.isnan(base[2]):
            data.qpos[2] = 0.0
            mujoco.mj_kinematics(self.model, data)
            lowest = min(self._lowest_point(name) for name in self.robot.foot_names)
            data.qpos[2] = self.floor.height(*base[:2]) - lowest
        mujoco.mj_forward(self.model, data)
        self.motors.engage()
        self._measure_joints()

    def _lowest_point(self, foot: str) -> float:
        geom, shape = self.data.geom(foot), self.model.geom(foot)
        round_foot = shape.type[0] == mujoco.mjtGeom.mjGEOM_SPHERE
        down = shape.size[0] if round_foot else np.abs(geom.xmat[6:]) @ shape.size
        return float(geom.xpos[2] - down)

    def now_ns(self) -> int:
        return self._now_ns

    def advance(self, command: bytes | None) -> bytes | None:
        """One wire period in lockstep; returns the newest state that arrived, if any."""
        states = self.exchange((command,) if command is not None else ())
        return states[-1] if states else None

    def exchange(self, commands: Sequence[bytes]) -> list[bytes]:
        """One wire period: takes the commands sent to the robot, returns the states that arrive."""
        now = self._now_ns
        if self.faults.in_force:
            self.faults.expire(now)
        for sample in commands:
            faulty = self.faults.message("command", sample, now) if self.faults.in_force else sample
            if faulty is not None:
                self._command_bus.put(faulty, now)
        for arrived in self._command_bus.arrived(now):
            self.boards.receive(arrived, now)
        self.boards.watch(now)
        self.disturbances.update(now)
        if self.hoist is not None:
            self.hoist.update(now, float(self.boards.command.kp.sum()) / self._standing_kp)
        self._live()
        self._periods += 1
        self._now_ns = now = round(self._periods * self._period * 1e9)
        if self._periods % _SLOW_EVERY == 0:
            self._slow_things()
        self._send_state(now)
        return self._state_bus.arrived(now)

    def inject(self, fault: Fault) -> None:
        self.faults.inject(fault, self._now_ns)

    def clear_faults(self) -> None:
        self.faults.clear()
        self._message.slow.motor_mode[:] = 1
        self.disturbances.clear()
        self.boards.weaken(self.imperfections.motors.strengths(self.robot))

    def push(self, push: Push) -> None:
        self.disturbances.push(push, self._now_ns)

    def slip(self, slip: Slip) -> None:
        self.disturbances.slip(slip, self._now_ns)

    def hold_remote(self, held: remote.Remote) -> None:
        """Set the wireless controller: sticks, buttons, on or off."""
        self._message.slow.remote = remote.encode(held)
        self.sport.watch(held)

    def carry(self, kg: float) -> None:
        """Add mass to the trunk."""
        self.model.body_mass[self.model.body(BASE).id] += kg
        mujoco.mj_setConst(self.model, mujoco.MjData(self.model))

    @property
    def mass(self) -> float:
        """kg, including payload."""
        return float(self.model.body_subtreemass[self.model.body(BASE).id])

    @property
    def hangs(self) -> bool:
        """Whether a hoist or mount still holds it."""
        return self.mount.kind == "hung" or (self.hoist is not None and self.hoist.on)

    def unhook(self) -> None:
        """Take the hoist's rope off, as the person at the crane does."""
        if self.hoist is not None:
            self.hoist.take_off()

    @property
    def remote(self) -> remote.Remote:
        """The wireless controller's present sticks and buttons."""
        return remote.decode(self._message.slow.remote)

    @property
    def base_truth(self) -> BaseTruth:
        data = self.data
        return BaseTruth(
            position=data.qpos[:3].copy(),
            quaternion=data.qpos[3:7].copy(),
            velocity=data.qvel[:3].copy(),
            rate=data.qvel[3:6].copy(),
        )

    @property
    def truth(self) -> Truth:
        data = self.data
        touching = set(data.contact.geom.ravel().tolist()) - self._expected
        return Truth(
            position=data.qpos[:3].copy(),
            quaternion=self._quaternion.copy(),
            velocity=data.qvel[:3].copy(),
            rate=self._rate.copy(),
            joint_position=self._qpos.copy(),
            joint_velocity=self._qvel.copy(),
            joint_torque=self.motors.delivered.copy(),
            foot_force=self._foot_force.copy(),
            foot_position=data.geom_xpos[self._feet],
            contacts=tuple(sorted(self._geom_names[geom] for geom in touching)),
        )

    def _live(self) -> None:
        """Simulate one period, with the boards' PD law evaluated at every physics step."""
        command = self.boards.command
        if self.sport.mode and (not self.boards.alive or self._periods % 2):
            command = self.sport.update(self._now_ns)
        self.encoders.draw()
        self._line.put(command)
        faulty = self.faults.in_force and self.faults.concern("motor", "encoder")
        for chunk, steps in enumerate(self._line.chunks):
            late = self._line.take(chunk)
            if self._action is not None and chunk == 0:
                self._action.update(self._qpos, self._qvel, self._rate, self._quaternion, late.q)
            if faulty:
                self._live_with_faults(late, steps)
            else:
                self.motors.drive(late, self.encoders.noise, self.encoders.speed_gain, chunk == 0)
                self._physics.step(steps)
        self._measure_joints()

    def _live_with_faults(self, command: MotorCommand, steps: int) -> None:
        """Evaluate the PD law here, so that faults can act between reading and torque."""
        for _ in range(steps):
            torque = self.motors.ask(command, self.encoders.q_and_dq)
            self.faults.readings("motor", torque, self._now_ns, joints=True)
            self.motors.drive_at(torque)
            self._physics.step(1)
            self._measure_joints()

    def _measure_joints(self) -> None:
        encoders = self.encoders
        self.motors.follow(encoders.noise, encoders.gains, encoders.readings)
        if self.faults.in_force:
            self.faults.readings("encoder", self.encoders.readings, self._now_ns, joints=True)

    def _slow_things(self) -> None:
        """Temperature and battery change slowly: 25 Hz is enough."""
        seconds = _SLOW_EVERY * self._period
        state, battery, now = self._message.slow, self.battery, self._now_ns
        self.motors.warm(seconds)
        self.imu.drift(seconds)
        battery.draw(self.motors.torque, self._qvel, seconds)
        self.motors.set_supply(battery.supply)
        temperature = self.motors.temperature.copy()
        power = np.array((battery.percent, battery.voltage, battery.current))
        if self.faults.in_force:
            self.faults.readings("temperature", temperature, now, joints=True)
            self.faults.readings("battery", power, now)
            power[:] = np.clip(power, (0, 0, -200), (100, 80, 200))
            np.clip(temperature, -50, 190, temperature)
        state.temperature[:] = np.rint(temperature)
        percent, state.voltage, state.current = power.tolist()
        state.battery_percent = round(percent)
        state.battery_current_ma = round(-1000 * state.current)
        cells = self.robot.battery.cells
        state.cell_millivolts[:cells] = round(1000 * state.voltage / cells)
        self._message.refresh()

    def _send_state(self, now: int) -> None:
        message, imu = self._message, self.imu
        imu.measure(self._quaternion, self._rate, self._acceleration)
        if self.faults.in_force:
            self.faults.readings("imu", imu.readings, now)
            self._drop_boards()
        message.set_body(imu.readings, self._foot_force)
        sample: bytes | None = message.finish(now // 1_000_000)
        if self.faults.in_force and sample is not None:
            sample = self.faults.message("state", sample, now)
        if sample is not None:
            self._state_bus.put(sample, now)

    def _drop_boards(self) -> None:
        """A board that is off does not answer: until the fault is cleared, its motor's mode is 0
        and the robot counts lost packets."""
        slow = self._message.slow
        slow.motor_mode[:] = 1
        for fault in self.faults.active:
            if fault.word == "off" and fault.target in ("motor", "encoder"):
                joint = self.robot.joint_names.index(fault.joint or "")
                slow.lost[joint] += 1
                slow.motor_mode[joint] = 0

    def _lie_down(self) -> Vector:
        """The initial state: at rest on its belly or on its hoist, legs folded. On a mount the
        weight does not press the legs against their stops."""
        data, held = self.data, self.mount.kind != "free"
        pose = self.robot.sit_pose if held else folded_pose(self.robot)
        data.qpos[3:7] = self.floor.attitude
        data.qpos[2] = 0.15 + self.floor.height(0.0, 0.0)
        if self.hoist is not None:
            data.qpos[2] = self.hoist.hanging_height
        if held:
            data.qpos[:_FREE] = self.mount.pose
        self._qpos[:] = pose
        hold = MotorCommand(self.robot.joint_count)
        hold.q[:], hold.kp[:], hold.kd[:] = pose, self.robot.kp, self.robot.kd
        motors = MotorModel(self.robot, config.Motors(), self.model, data)
        motors.drive(hold, np.zeros_like(hold.targets), np.ones_like(hold.q))
        self._physics.step(round(_SETTLE_S / self.model.opt.timestep))
        return np.asarray(data.qpos.copy())
