"""The hoist of a robot that cannot get up by itself: a rope, and a crane that follows the robot.

The rope is tied to the model's site `hoist`, if it has one. It goes slack as the robot stands up,
and holds a robot that leans. Once it has been slack for a while, the robot stands by itself and the
rope is taken off. If the motors of a standing robot are soft, or become softer and softer, the rope
is attached again: this is how such a robot is lowered. Frozen in the middle of a step, it would
topple long before they are soft.
"""

from typing import Any

import mujoco

SITE = "hoist"
CRANE = "hoist_crane"
CRANE_HEIGHT = 3.0  # m above the robot's base when it stands
SLACK = 0.05  # m that the robot may sink before the rope holds it
OFF_AFTER_NS = 2_000_000_000
SOFT = 0.25  # of its stiffness when standing: less does not carry it
LOOK_NS = 20_000_000  # between two looks at whether its motors become softer
LET_DOWN_NS = 100_000_000  # softer at each look for so long: it is being let down
STANDS = 0.8  # of its standing height, at least
FOLLOW_S = 0.5  # time constant with which the crane follows the robot


class Hoist:
    """`add` changes the model before it is compiled; the rest uses the compiled one."""

    @staticmethod
    def add(spec: Any, standing: float) -> None:
        """A crane above the robot's site, if it has one; `standing` is the height of its base."""
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
        self._seen, self._seen_ns, self._softer_since_ns = 0.0, 0, 0

    def take_off(self) -> None:
        self.on = False
        self._model.tendon_limited[self._rope] = 0

    def update(self, now_ns: int, stiffness: float) -> None:
        """Follow the robot. Detach the rope when it has been slack for long enough; attach it again
        when a standing robot's motors, with this `stiffness` relative to standing, go soft."""
        data = self._data
        soft = self._is_let_down(now_ns, stiffness) or stiffness < SOFT
        if not self.on:
            if soft and data.qpos[2] > STANDS * self.hanging_height and _upright(data):
                data.mocap_pos[0, :2] = data.qpos[:2]
                self.hang_up()
                self._last_ns = now_ns
            return
        share = (now_ns - self._last_ns) / 1e9 / FOLLOW_S
        self._last_ns = now_ns
        data.mocap_pos[0, :2] += share * (data.qpos[:2] - data.mocap_pos[0, :2])
        if soft or data.ten_length[self._rope] >= self._model.tendon_range[self._rope, 1]:
            self._slack_since_ns = None
        elif self._slack_since_ns is None:
            self._slack_since_ns = now_ns
        elif now_ns - self._slack_since_ns > OFF_AFTER_NS:
            self.take_off()

    def _is_let_down(self, now_ns: int, stiffness: float) -> bool:
        if now_ns - self._seen_ns >= LOOK_NS:
            if stiffness >= self._seen:
                self._softer_since_ns = now_ns
            self._seen, self._seen_ns = stiffness, now_ns
        return now_ns - self._softer_since_ns > LET_DOWN_NS


def _upright(data: Any) -> bool:
    _, x, y, _ = data.qpos[3:7]
    return bool(1.0 - 2.0 * (x * x + y * y) > 0.9)
