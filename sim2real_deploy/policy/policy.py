"""A running policy: robot state and velocity command in, joint targets in SDK order out.

The policy's own joint order is confined to this module.
"""

import math
import struct
from collections.abc import Sequence
from operator import itemgetter

import numpy as np

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy import compiled_step
from sim2real_deploy.policy.compiled_step import COMMAND, JOINTS, STEPS, CompiledStep
from sim2real_deploy.policy.contract import Contract
from sim2real_deploy.policy.estimates import MISSED
from sim2real_deploy.policy.height_grid import HEIGHT_SCAN
from sim2real_deploy.policy.motion import open_player
from sim2real_deploy.policy.observations import Observation
from sim2real_deploy.policy.session import Session
from sim2real_deploy.policy.terms import TERMS, TermInput
from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.geometry import Rows, gravity_in_body
from sim2real_deploy.robots.odometry import LegOdometry
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.robots.vectors import Numbers, clip

OUTSIDE_STEPS = 10  # policy steps after which a velocity given from outside is stale
BLIND_S = 0.5  # after this long without a height scan the last one is not walked on
SMALLEST_STD = 1e-3  # or a term that hardly varied in training would make any value surprising


class Policy:
    """`observe`, then `infer`: two calls, to time each. Buffers are reused."""

    def __init__(self, contract: Contract, spec: RobotSpec, model: bytes, where: str):
        self.contract = contract
        self._order = [spec.joint_names.index(name) for name in contract.joints]
        self._to_policy = itemgetter(*self._order)
        self._inputs = TermInput.nothing(_float32(contract.default_position), len(spec.legs))
        self.odometry = _odometry(contract, spec, where)  # `update` it with every state
        self._observations = [
            Observation(group, self._inputs, contract.joints, f"{where}: observations.{i}")
            for i, group in enumerate(contract.observations)
        ]
        self.labels = tuple(label for item in self._observations for label in item.labels)
        sizes = {item.group.input: len(item.labels) for item in self._observations}
        self.session = Session(model, contract, sizes, where)
        self.observation = self.session.observation  # all inputs, concatenated
        for item in self._observations:
            item.place(self.session.inputs[item.group.input])
        self._motion = open_player(contract, spec, self.session.metadata, where)
        self._statistics, self._judged = self._read_statistics(where)
        self.estimated = tuple(name for told in self.session.told for name in told.names)
        # Places of the velocity missed; empty where the network does not tell it.
        self.missed = [self.estimated.index(n) for n in MISSED.names if n in self.estimated]

        action, held = contract.action, contract.held
        self._scaled = [*zip(_float32(action.offset), _float32(action.scale), strict=True)]
        bounds = (_float32(pair) for pair in action.clip or ())
        self._clips = [(low, high) for low, high in bounds]  # empty: nothing is clipped
        ranges = contract.command_ranges
        self._commands = [(low, high) for low, high in (ranges.vx, ranges.vy, ranges.wz)]

        names = [*contract.joints, *(joint.joint for joint in held)]
        self._places = [names.index(name) for name in spec.joint_names]
        self._to_sdk = itemgetter(*self._places)
        self._held = _float32([joint.position for joint in held])
        self.kp, self.kd, self.target = (
            np.array(self._to_sdk([*moved, *rest]), np.float32)
            for moved, rest in (
                (contract.kp, [joint.kp for joint in held]),
                (contract.kd, [joint.kd for joint in held]),
                (action.offset, self._held),
            )
        )
        # Wheels: their places among the robot's joints, and their target velocity, rad/s.
        self.wheels = [spec.joint_names.index(name) for name in contract.action.speeds]
        self._wheel_places = [contract.joints.index(name) for name in contract.action.speeds]
        self.speed = np.zeros_like(self.target)
        self.extras = _extras(contract)  # number of values, by name
        self._read_action = struct.Struct(f"={len(contract.joints)}f").unpack_from
        self._write_target = struct.Struct(f"={len(names)}f").pack_into
        # Kept, because asking an array for its memory in every step takes longer than using it.
        self._action_memory, self._target_memory = self.action.data, self.target.data
        self._steps = 0
        self.gait_period_s = _gait_period(contract)
        self._outside: tuple[Numbers, int] | None = None  # a velocity, and the step it came in
        self._scanned = False  # a height scan came since the last reset
        self._scan_step = 0  # in which it came, or of the reset
        self._compiled: CompiledStep | None = None

    @property
    def action(self) -> Floats:
        """The network's output, unclipped, in the policy's joint order."""
        return self.session.action

    @property
    def estimates(self) -> Floats:
        """What the network believed in its last step, in the order of `estimated`."""
        return self.session.estimates

    @property
    def steps(self) -> int:
        """Since the last reset; a gait clock taken over from another policy counts."""
        return self._steps

    def reset(self) -> None:
        """Clear the history, last action, network state and gait clock."""
        for item in self._observations:
            item.reset()
        self.session.reset()
        if self._motion is not None:
            self._motion.reset()
        self._inputs.action = (0.0,) * len(self.contract.joints)
        self._outside = None
        self._scanned = False
        self._steps = self._scan_step = 0

    def keep_time(self, other: "Policy") -> None:
        """After `reset`: start the gait clock at the phase of another policy's."""
        own, theirs = self.gait_period_s, other.gait_period_s
        if own and theirs:
            phase = other._steps / other.contract.rate_hz / theirs
            self._steps = self._scan_step = round(phase * own * self.contract.rate_hz)

    def observe(self, state: RobotState, command: Numbers) -> None:
        self._see(state, command)
        for item in self._observations:
            item.push(self._inputs)

    def _see(self, state: RobotState, command: Numbers) -> None:
        inputs = self._inputs
        inputs.gyroscope = state.rates()
        inputs.attitude = attitude = state.attitude()
        inputs.gravity = gravity_in_body(attitude)
        inputs.command = clip(command, self._commands)
        q, dq = state.motion().tolist()
        inputs.q, inputs.dq = self._to_policy(q), self._to_policy(dq)
        if self.wheels:  # how far a wheel has turned is not observed
            angles = list(inputs.q)
            for place in self._wheel_places:
                angles[place] = inputs.default_q[place]
            inputs.q = angles
        inputs.time_s = self._steps / self.contract.rate_hz
        if self._motion is not None:
            self._motion.show(inputs, self._steps, attitude, q)
        odometry = self.odometry
        if odometry is not None:
            if odometry.last_ns != state.received_ns:
                odometry.update(state)
            inputs.velocity, inputs.loads = odometry.velocity, odometry.loads
            if self._outside is not None and self._steps - self._outside[1] <= OUTSIDE_STEPS:
                inputs.velocity = self._outside[0]

    def give_velocity(self, velocity: Numbers) -> None:
        """The base velocity, in the body frame, from another estimator. Leg odometry takes over
        again after some steps without one."""
        if len(velocity) == 3 and all(map(math.isfinite, velocity)):
            self._outside = tuple(velocity), self._steps

    def give(self, name: str, values: Numbers) -> None:
        """The values of an `extra_command` or `height_scan` term from the next step on."""
        size = self.extras.get(name)
        if size != len(values):
            known = ", ".join(f"{key} ({count})" for key, count in self.extras.items()) or "none"
            raise Refusal(f"'{name}' with {len(values)} values: the policy takes {known}")
        if not all(map(math.isfinite, values)):
            raise Refusal(f"'{name}': a value is not finite; the last finite ones stay in force")
        self._inputs.given[name] = tuple(values)
        if name == HEIGHT_SCAN:
            self._scanned, self._scan_step = True, self._steps

    @property
    def scan_overdue(self) -> bool:
        """It observes a height scan, and the last one is too old."""
        since = self._steps - self._scan_step
        return HEIGHT_SCAN in self.extras and since > BLIND_S * self.contract.rate_hz

    @property
    def blind(self) -> bool:
        """It observes a height scan and has none, or only an old one: it must not go anywhere."""
        return self.scan_overdue or (HEIGHT_SCAN in self.extras and not self._scanned)

    def infer(self) -> Floats:
        """The joint targets in SDK order; not checked for being finite, the caller does that."""
        self.session.run()
        self._inputs.action, target = self._decide()
        if self.wheels:
            target = list(target)
            for joint in self.wheels:
                self.speed[joint], target[joint] = target[joint], 0.0
        self._write_target(self._target_memory, 0, *target)
        self._steps += 1
        return self.target

    def _decide(self) -> tuple[Sequence[float], Sequence[float]]:
        """The action for the next observation, and the joint targets in SDK order."""
        raw = self._read_action(self._action_memory)
        clipped = clip(raw, self._clips) if self._clips else raw
        moved = [at + scale * x for x, (at, scale) in zip(clipped, self._scaled, strict=True)]
        seen = raw if self.contract.action.observed == "raw" else clipped
        return seen, self._to_sdk([*moved, *self._held])

    def compile(self) -> CompiledStep | None:
        """For compiled loops; None if the network or a term has no form for them."""
        if not self.odometry and self._motion is None:
            self._compiled = compiled_step.describe(
                compiled_step.Parts(
                    contract=self.contract,
                    session=self.session,
                    order=self._order,
                    to_sdk=self._places,
                    wheels=self.wheels,
                    observations=self._observations,
                    target=self.target,
                    speed=self.speed,
                    statistics=self._statistics,
                    judged=self._judged,
                )
            )
        return self._compiled

    def compiled(self) -> CompiledStep | None:
        """The policy for compiled loops, which continue from its last step; None without any, and
        before its first step."""
        step = self._compiled
        if step is None or any(item.fresh for item in self._observations):
            return None
        step.memo[STEPS] = self._steps
        step.sources[self._last_action] = self._inputs.action
        return step

    def catch_up(self) -> None:
        """After a compiled loop: continue from its last step."""
        step = self._compiled
        assert step is not None
        self._steps = int(step.memo[STEPS])
        self._inputs.action = step.sources[self._last_action].tolist()
        self._inputs.command = step.sources[COMMAND : COMMAND + 3].tolist()

    @property
    def _last_action(self) -> slice:
        joints = len(self.contract.joints)
        return slice(JOINTS + 2 * joints, JOINTS + 3 * joints)

    def surprise(self) -> float:
        """RMS of the observation's z-scores: about 1 in training; 0 without statistics."""
        return float(compiled_step.surprise(self.observation, self._statistics, self._judged))

    def _read_statistics(self, where: str) -> tuple[Rows, Rows]:
        """Mean and inverse standard deviation of each observed number, and which have them."""
        rows, judged = np.zeros((2, self.observation.size)), []
        places, start = {}, 0
        for name, values_seen in self.session.inputs.items():
            places[name] = start
            start += values_seen.size
        for i, item in enumerate(self.contract.statistics):
            values_seen = self.session.inputs.get(item.input)  # type: ignore[assignment]
            if values_seen is None:
                raise Refusal(f"{where}: statistics.{i}.input: there is no input '{item.input}'")
            for field, values in (("mean", item.mean), ("std", item.std)):
                if len(values) != values_seen.size:
                    raise Refusal(
                        f"{where}: statistics.{i}.{field}: {len(values)} values, "
                        f"input '{item.input}' has {values_seen.size}"
                    )
            place = slice(places[item.input], places[item.input] + values_seen.size)
            rows[:, place] = item.mean, 1 / np.maximum(item.std, SMALLEST_STD)
            judged.append((place.start, place.stop))
        return rows, np.array(judged, np.int64).reshape(-1, 2)


def _odometry(contract: Contract, spec: RobotSpec, where: str) -> LegOdometry | None:
    names = [term.name for group in contract.observations for term in group.terms]
    needing = [name for name in names if name in TERMS and TERMS[name].odometry]
    if not needing:
        return None
    if not LegOdometry.possible(spec):
        raise Refusal(
            f"{where}: observations: '{needing[0]}' comes from leg odometry, and the leg "
            f"geometry of {spec.name} is not known (legs.*.geometry in its file)"
        )
    return LegOdometry(spec)


def _gait_period(contract: Contract) -> float | None:
    """The period of the policy's gait clock, s; None if it has none."""
    for group in contract.observations:
        for term in group.terms:
            if term.name == "gait_phase":
                return float(term.params["period"])  # type: ignore[arg-type]
    return None


def _extras(contract: Contract) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for group in contract.observations:
        for term in group.terms:
            if term.name == "extra_command":
                default = term.params["default"]
                sizes[str(term.params["name"])] = len(default) if isinstance(default, tuple) else 1
            elif term.name == HEIGHT_SCAN:
                sizes[term.name] = int(float(term.params["count"]))  # type: ignore[arg-type]
    return sizes


def _float32(values: Sequence[float]) -> list[float]:
    """Rounded to single precision, as on the wire and in the network."""
    rounded: list[float] = np.array(values, np.float32).tolist()
    return rounded
