"""A policy that runs: robot state and velocity command in, joint targets in SDK order out.

The policy's own joint order exists in here and nowhere else.
"""

import math
from collections.abc import Sequence

import numpy as np

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import Contract
from sim2real_deploy.policy.observations import Observation, Seen, gravity_in_body
from sim2real_deploy.policy.session import Session
from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.robots.state import Floats

SMALLEST_STD = 1e-3  # a term that hardly moved in training must not make every value surprising


class Policy:
    """`observe`, then `infer`: two calls so that each can be timed. Buffers are reused."""

    def __init__(self, contract: Contract, spec: RobotSpec, model: bytes, where: str):
        self.contract = contract
        self._order = np.array([spec.joint_names.index(name) for name in contract.joints])
        self._seen = Seen.nothing(np.array(contract.default_position, np.float32))
        self._seen.q = self._seen.default_q.copy()
        self._observations = [
            Observation(group, self._seen.default_q, contract.joints, f"{where}: observations.{i}")
            for i, group in enumerate(contract.observations)
        ]
        self.labels = tuple(label for item in self._observations for label in item.labels)
        self.observation = np.zeros(len(self.labels), np.float32)  # all inputs, one after another
        start = 0
        for item in self._observations:
            end = start + len(item.labels)
            item.place(self.observation[start:end])
            start = end
        inputs = {
            group.input: item.values
            for group, item in zip(contract.observations, self._observations, strict=True)
        }
        self.session = Session(model, contract, inputs, where)
        self._statistics = self._read_statistics(where)

        action = contract.action
        self._scale = np.array(action.scale, np.float32)
        self._offset = np.array(action.offset, np.float32)
        clip = np.array(action.clip or [(-np.inf, np.inf)] * len(contract.joints), np.float32)
        self._clip_low, self._clip_high = clip[:, 0].copy(), clip[:, 1].copy()
        ranges = contract.command_ranges
        command = np.array([ranges.vx, ranges.vy, ranges.wz], np.float32)
        self.command_low, self.command_high = command[:, 0].copy(), command[:, 1].copy()

        held = contract.held
        self._held = [spec.joint_names.index(joint.joint) for joint in held]
        self.kp = self._to_sdk(contract.kp, [joint.kp for joint in held])
        self.kd = self._to_sdk(contract.kd, [joint.kd for joint in held])
        self.target = self._to_sdk(action.offset, [joint.position for joint in held])
        self._clipped = np.zeros(len(contract.joints), np.float32)
        self._steps = 0

    @property
    def action(self) -> Floats:
        """What the network gave, unclipped, in the policy's joint order."""
        return self.session.action

    def reset(self) -> None:
        """Forget: history, last action, network state, clock."""
        for item in self._observations:
            item.reset()
        self.session.reset()
        self._seen.action[:] = 0.0
        self._steps = 0

    def observe(self, state: RobotState, command: Floats) -> None:
        seen = self._seen
        seen.gyroscope = state.gyroscope
        gravity_in_body(state.attitude(), seen.gravity)
        np.maximum(command, self.command_low, out=seen.command)  # np.clip costs several times this
        np.minimum(seen.command, self.command_high, out=seen.command)
        np.take(state.q, self._order, out=seen.q, mode="clip")
        np.take(state.dq, self._order, out=seen.dq, mode="clip")
        seen.time_s = self._steps / self.contract.rate_hz
        for item in self._observations:
            item.push(seen)

    def infer(self) -> Floats:
        """The joint targets, SDK order. Not finite where the network is not: the caller judges."""
        self.session.run()
        np.maximum(self.session.action, self._clip_low, out=self._clipped)
        np.minimum(self._clipped, self._clip_high, out=self._clipped)
        observed = self.contract.action.observed
        self._seen.action[:] = self.session.action if observed == "raw" else self._clipped
        self._steps += 1
        self.target[self._order] = self._offset + self._scale * self._clipped
        return self.target

    def rehearse(self) -> None:
        """Go through the motions, so that the next step finds the processor's caches warm: a
        policy that rested for 20 ms takes several times as long as one that did not."""
        for item in self._observations:
            item.rehearse(self._seen)
        self.session.rehearse()

    def surprise(self) -> float:
        """Root mean square of the observation's z-scores: about 1 in training, 0 if not told."""
        worst = 0.0
        for values, mean, std in self._statistics:
            z = values - mean
            z /= std
            worst = max(worst, float(z.dot(z)) / z.size)
        return math.sqrt(worst)

    def _to_sdk(self, moved: Sequence[float], held: Sequence[float]) -> Floats:
        array = np.zeros(len(moved) + len(held), np.float32)
        array[self._order] = moved
        array[self._held] = held
        return array

    def _read_statistics(self, where: str) -> list[tuple[Floats, Floats, Floats]]:
        rows = []
        for i, item in enumerate(self.contract.statistics):
            values_seen = self.session.inputs.get(item.input)
            if values_seen is None:
                raise Refusal(f"{where}: statistics.{i}.input: there is no input '{item.input}'")
            for field, values in (("mean", item.mean), ("std", item.std)):
                if len(values) != values_seen.size:
                    raise Refusal(
                        f"{where}: statistics.{i}.{field}: {len(values)} values, "
                        f"input '{item.input}' has {values_seen.size}"
                    )
            std = np.maximum(np.array(item.std, np.float32), SMALLEST_STD)
            rows.append((values_seen, np.array(item.mean, np.float32), std))
        return rows
