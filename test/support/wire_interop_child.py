"""Our end of the interoperability test, run in a network of its own: answers every state."""

import json
import sys
from dataclasses import asdict

import numpy as np

from sim2real_deploy.robots import JointCommand, load_robot
from sim2real_deploy.wire.dds_link import DdsLink


def main(interface: str, domain: int) -> None:
    robot = load_robot("go2")
    link = DdsLink(robot, interface, domain, name="interop")
    command = JointCommand.damping(robot.joint_count, 1.0)
    command.q = np.zeros(robot.joint_count, np.float32)
    timeout_s, last = 60.0, None  # long for the first state, then a second of silence is the end
    while (state := link.wait(timeout_s)) is not None:
        timeout_s, last = 1.0, state
        while link.counters.sent < link.counters.received:
            command.q[0] += 1
            link.send(command)
    others = [asdict(writer) for writer in link.other_writers()]
    position = None if last is None else float(last.q[0])
    print(json.dumps({"counters": asdict(link.counters), "last": position, "others": others}))
    link.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
