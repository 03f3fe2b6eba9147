"""The hoist that a robot which cannot get up hangs on: a rope, and a crane that rolls along.

A model with a site `hoist` is tied there. The rope goes slack as the robot comes to stand and
catches it while it leans; once it has been slack for a while the robot stands by itself, and
whoever minds the hoist takes it off. When the motors go soft while it still stands, it is put on
again: that is how such a robot is let down.
"""

from typing import Any

import mujoco

SITE = "hoist"
CRANE = "hoist_crane"
CRANE_HEIGHT = 3.0  # m above the robot's base when it stands
SLACK = 0.05  # m the robot may sink before the rope holds it
OFF_AFTER_NS = 2_000_000_000
SOFT = 0.25  # of the stiffness it stands with: less does not hold it
STANDS = 0.8  # of its standing height, at least
FOLLOW_S = 0.5  # time constant with which the crane comes after the robot


class Hoist:
    """`add` goes into the model before it is compiled, the rest works on the compiled one."""

    @staticmethod
    def add(spec: Any, standing: float) -> None:
        """A crane above the robot's site, where it has one; `standing` is its base's height."""
        if spec.site(SITE) is None:
            return
        crane = spec.worldbody.add_body(name=CRANE, mocap=True, pos=[0, 0, standing + CRANE_HEIGHT])
        crane.add_site(name=CRANE, group=5)
        rope = spec.add_tendon(name=SITE, limited=True, range=[0, CRANE_HEIGHT])
        rope.wrap_site(CRANE)
        rope.wrap_site(SITE)

    @classmethod
    def of(cls, model: Any, data: Any, base: int) -> "Hoist | None":
        tied = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_TENDON, SITE) >= 0
        return cls(model, data, base) if tied else None

    def __init__(self, model: Any, data: Any, base: int) -> None:
        self._model, self._data = model, data
        self._rope = model.tendon(SITE).id
        mujoco.mj_kinematics(model, data)
        tied = data.site(SITE).xpos[2] - data.xpos[base][2]
        model.tendon_range[self._rope, 1] = CRANE_HEIGHT - tied + SLACK
        self.hanging_height = data.mocap_pos[0, 2] - CRANE_HEIGHT - SLACK  # of the base
        self.hang_up()

    def hang_up(self) -> None:
        self._model.tendon_limited[self._rope] = 1
        self.on = True
        self._slack_since_ns: int | None = None
        self._last_ns = 0

    def update(self, now_ns: int, stiffness: float) -> None:
        """Roll the crane along; come off when the rope has been slack for long enough, and go on
        again when motors of this `stiffness` (of what it stands with) let a standing robot go."""
        data = self._data
        if not self.on:
            if stiffness < SOFT and data.qpos[2] > STANDS * self.hanging_height and _upright(data):
                data.mocap_pos[0, :2] = data.qpos[:2]
                self.hang_up()
                self._last_ns = now_ns
            return
        share = (now_ns - self._last_ns) / 1e9 / FOLLOW_S
        self._last_ns = now_ns
        data.mocap_pos[0, :2] += share * (data.qpos[:2] - data.mocap_pos[0, :2])
        if data.ten_length[self._rope] >= self._model.tendon_range[self._rope, 1]:
            self._slack_since_ns = None
        elif self._slack_since_ns is None:
            self._slack_since_ns = now_ns
        elif now_ns - self._slack_since_ns > OFF_AFTER_NS:
            self.on = False
            self._model.tendon_limited[self._rope] = 0


def _upright(data: Any) -> bool:
    _, x, y, _ = data.qpos[3:7]
    return bool(1.0 - 2.0 * (x * x + y * y) > 0.9)
