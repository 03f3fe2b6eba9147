"""Drive from the keyboard: `cmd_vel` twenty times a second, and the stack's services by key."""

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Twist
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String
from std_srvs.srv import Trigger

from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.common import (
    LATCHED,
    ROBOT,
    STOP_SIGNALS,
    Parameter,
    declare,
    talk_by_sockets,
)
from sim2real_deploy.nodes.keyboard import HELP, WISHES, Keyboard

PARAMETERS = (
    ROBOT,
    Parameter("stage", "field", "The fastest that keys may ask for; control has its own limits."),
)
PERIOD_S = 0.05


class Teleop(Node):
    def __init__(self) -> None:
        super().__init__("teleop", enable_rosout=False)
        values = declare(self, PARAMETERS)
        most = load_stage(values["stage"]).velocity
        self.keyboard = Keyboard((most.vx, most.vy, most.wz))
        self._mode = self._safety = self._said = ""
        self._twist = self.create_publisher(Twist, "cmd_vel", 10)
        driver = f"{values['robot']}_driver"
        self._wishes: dict[str, Any] = {
            wish: self.create_client(
                Trigger, "safety/estop" if wish == "estop" else f"{driver}/{wish}"
            )
            for wish in WISHES.values()
        }
        self.create_subscription(String, "control/mode", self._on_mode, LATCHED)
        self.create_subscription(DiagnosticStatus, "safety/state", self._on_safety, LATCHED)

    def press(self, key: str) -> None:
        wish = self.keyboard.press(key)
        if wish is None:
            return
        service = self._wishes[wish]
        if not service.service_is_ready():
            self._said = f"{wish}: nobody offers it"
            return
        self._said = f"{wish}: asked"
        future = service.call_async(Trigger.Request())
        future.add_done_callback(lambda done: self._on_answer(wish, done.result()))

    def send(self) -> None:
        twist, keys = Twist(), self.keyboard
        twist.linear.x, twist.linear.y, twist.angular.z = keys.vx, keys.vy, keys.wz
        self._twist.publish(twist)

    def status(self) -> str:
        keys = self.keyboard
        return (
            f"vx {keys.vx:+.1f}  vy {keys.vy:+.1f}  wz {keys.wz:+.1f}   "
            f"{self._mode or 'control is not there'}   {self._safety}   {self._said}"
        )

    def _on_answer(self, wish: str, answer: Trigger.Response | None) -> None:
        self._said = f"{wish}: {answer.message if answer else 'no answer'}"

    def _on_mode(self, message: String) -> None:
        self._mode = message.data

    def _on_safety(self, message: DiagnosticStatus) -> None:
        self._safety = message.message


@contextlib.contextmanager
def raw_terminal() -> Iterator[int]:
    """Keys as they are pressed, without Enter; the terminal is given back as it was."""
    if not sys.stdin.isatty():
        raise Refusal("teleop reads keys: run it in a terminal")
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield terminal
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


def drive(terminal: int) -> None:
    node = Teleop()
    print(HELP)
    try:
        while True:
            while select.select([terminal], [], [], 0)[0]:
                for key in os.read(terminal, 32).decode(errors="ignore"):
                    node.press(key)
            node.send()
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{node.status()[:width]:<{width}}", end="", flush=True)
            rclpy.spin_once(node, timeout_sec=PERIOD_S)
    finally:
        node.keyboard.press(" ")
        node.send()
        print()


def main() -> None:
    for number in STOP_SIGNALS:  # also where a shell left them ignored
        signal.signal(number, signal.default_int_handler)
    try:
        with raw_terminal() as terminal, contextlib.suppress(KeyboardInterrupt):
            talk_by_sockets(os.environ)
            rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
            drive(terminal)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        sys.exit(2)
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
