"""A stand-in for control, as a process: it holds the stand pose, and obeys the chain (or not).

python safety_control.py DOMAIN NAMESPACE [--disobey]
"""

import os
import signal
import sys
import time

from sim2real_deploy.control.loop import LAST_DAMPING
from sim2real_deploy.robots import JointCommand, load_robot
from sim2real_deploy.runtime.local_channel import LocalChannel, run_directory
from sim2real_deploy.runtime.realtime import prefer_this_thread
from sim2real_deploy.safety.chain import ControlSide, Report, Stop
from sim2real_deploy.wire.dds_link import DdsLink


def main() -> None:
    domain, namespace, disobey = int(sys.argv[1]), sys.argv[2], "--disobey" in sys.argv
    prefer_this_thread()
    robot = load_robot("go2")
    link = DdsLink(robot, "lo", domain, name="control")
    channel = LocalChannel(run_directory(namespace, domain), "control", "safety")
    side = ControlSide()
    damping = JointCommand.damping(robot.joint_count, 3.0)
    stand = damping.copy()
    stand.q[:], stand.kp[:], stand.kd[:] = robot.stand_pose, robot.kp, robot.kd
    leaving = False

    def leave(*_: object) -> None:
        nonlocal leaving
        leaving = True

    signal.signal(signal.SIGTERM, leave)
    stopped, tick = False, 0
    while True:
        link.wait(0.002)
        now_ns = time.monotonic_ns()
        for datagram in channel.receive():
            side.hear(datagram, now_ns)
        verdict = side.verdict(now_ns)
        may_move = verdict.stop is Stop.NONE and verdict.healthy and (verdict.may_start or tick > 0)
        stopped = leaving or not (may_move or disobey)
        tick += not stopped
        link.send(damping if stopped else stand)
        report = Report(
            *("damping" if stopped else "walking", link.participant.key, os.getpid(), tick),
            *(stopped, leaving, 0, False, False, 1.0, 0.1),
        )
        if (answer := side.answer(report)) is not None:
            channel.send(answer)
        if leaving:
            for _ in range(LAST_DAMPING):  # one alone may come with the last that drives
                link.send(damping)
                link.wait(0.002)
            channel.close()
            link.close()
            return


if __name__ == "__main__":
    main()
