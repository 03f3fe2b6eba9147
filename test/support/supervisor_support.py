"""A supervisor that does nothing but answer, for those who call it."""

import threading
import time
from collections.abc import Callable

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.executors import SingleThreadedExecutor
from std_srvs.srv import Trigger

from sim2real_deploy.nodes.common import LATCHED


class Supervisor:
    """Offers a stop in a namespace, and counts the calls."""

    def __init__(self, namespace: str) -> None:
        self.called: list[str] = []
        self.called_s: list[float] = []
        self.node = rclpy.create_node("safety_supervisor", namespace=namespace)
        for name in ("estop", "reset"):
            self.node.create_service(Trigger, f"safety/{name}", self._serve(name))
        self.state = self.node.create_publisher(DiagnosticStatus, "safety/state", LATCHED)
        self.diagnostics = self.node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._spin)
        self._thread.start()

    def _spin(self) -> None:
        while not self._over.is_set():
            self._executor.spin_once(timeout_sec=0.1)

    def _serve(self, name: str) -> Callable[..., Trigger.Response]:
        def serve(_: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            self.called_s.append(time.monotonic())
            self.called.append(name)
            response.success, response.message = True, f"{name} it is"
            return response

        return serve

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self.node.destroy_node()


def wait(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()
