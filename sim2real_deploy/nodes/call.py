"""One call of a service of the stack, where there is no `ros2` command."""

import sys
import time
from typing import Any

import rclpy
from std_srvs.srv import Trigger

from sim2real_deploy import topics
from sim2real_deploy.nodes.common import ROBOT, Parameter, declare

PATIENCE_S = 10.0
PARAMETERS = (ROBOT, Parameter("service", "estop", "Which service: estop, stop, reset, stand, …"))


def main() -> None:
    """Exit code 0 if done, 1 if refused, 3 without an answer."""
    rclpy.init(args=sys.argv)
    node = rclpy.create_node("sim2real_call", enable_rosout=False)
    values = declare(node, PARAMETERS)
    service = values["service"]
    client: Any = node.create_client(Trigger, topics.service(values["robot"], service))
    start, answer = time.monotonic(), None
    words = f"no answer from {client.srv_name}"
    if client.wait_for_service(PATIENCE_S):
        future = client.call_async(Trigger.Request())
        rclpy.spin_until_future_complete(node, future, timeout_sec=PATIENCE_S)
        answer = future.result() if future.done() else None
    else:
        words = (
            f"nobody offers {client.srv_name} (waited {PATIENCE_S:g} s). Is the stack up, with the "
            "same ROS_DOMAIN_ID and namespace?"
        )
    if answer is None:
        print(f"{service}: {words}", file=sys.stderr)
        sys.exit(3)
    elapsed_ms = (time.monotonic() - start) * 1000
    outcome = "done" if answer.success else "refused"
    print(f"{service}: {outcome}: {answer.message} ({elapsed_ms:.0f} ms)")
    sys.exit(0 if answer.success else 1)


if __name__ == "__main__":
    main()
