"""A defective control for `sim2real faults`: it reports as usual but ignores every stop, so that
the supervisor must notice and take over. It refuses a real robot."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rclpy.node import Node

from sim2real_deploy.control.supervision import Supervised
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.common import ProcessEnd, run
from sim2real_deploy.nodes.control import ControlNode, build
from sim2real_deploy.runtime import realtime
from sim2real_deploy.safety.chain import Stop, Verdict


class Deaf(Supervised):
    def verdict(self, now_ns: int) -> Verdict:
        return replace(super().verdict(now_ns), stop=Stop.NONE)


class DeafControl(ControlNode):
    chain = Deaf

    def _admit(self, values: dict[str, Any], policy: str) -> None:
        if values["real"]:
            raise Refusal("deaf_control ignores every stop: it is for the twin of a fault campaign")
        super()._admit(values, policy)


def build_deaf(stop: ProcessEnd) -> Sequence[Node]:
    return build(stop, DeafControl)


if __name__ == "__main__":
    realtime.prefer_this_process()
    run(build_deaf)
