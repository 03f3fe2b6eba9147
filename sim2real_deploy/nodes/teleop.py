"""Drive from the keyboard: a velocity while a key is held, and the stack's services by key."""

import contextlib
import os
import select
import shutil
import signal
import sys
import time

import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from sim2real_deploy import topics
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.common import (
    ROBOT,
    Parameter,
    declare,
    talk_by_sockets,
)
from sim2real_deploy.nodes.keyboard import HELP, REQUESTS, Keyboard, raw_terminal
from sim2real_deploy.nodes.stack_client import StackClient
from sim2real_deploy.runtime.stop_order import stop_signals

PARAMETERS = (
    ROBOT,
    Parameter(
        "stage", "field", "Largest velocity that the keys command; control has its own limits."
    ),
)
PERIOD_S = 0.05


class Teleop(Node):
    def __init__(self) -> None:
        super().__init__("teleop", enable_rosout=False)
        values = declare(self, PARAMETERS)
        most = load_stage(values["stage"]).velocity
        self.keyboard = Keyboard((most.vx, most.vy, most.wz))
        self._said, self._moving = "", False
        self._stack = StackClient(
            self, values["robot"], REQUESTS.values(), velocity=topics.VELOCITY_TELEOP
        )

    def press(self, key: str) -> None:
        request = self.keyboard.press(key, time.monotonic())
        if request is None:
            return
        self._said = f"{request}: asked"
        self._stack.ask(request, lambda _, words: self._say(f"{request}: {words}"))

    def _say(self, words: str) -> None:
        self._said = words

    def send(self) -> None:
        """While a key is held, and once when it is released, so that others may command."""
        velocity = self.keyboard.velocity(time.monotonic())
        if any(velocity) or self._moving:
            self._stack.drive(*velocity)
        self._moving = any(velocity)

    def status(self) -> str:
        vx, vy, wz = self.keyboard.velocity(time.monotonic())
        stack = self._stack
        return (
            f"{self.keyboard.share:.0%}   vx {vx:+.1f}  vy {vy:+.1f}  wz {wz:+.1f}   "
            f"{stack.mode or 'control is not there'}   {stack.safety.message}   {self._said}"
        )


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
        node.press(" ")
        node.send()
        print()


def main() -> None:
    for number in stop_signals():  # also where a shell left them ignored
        signal.signal(number, signal.default_int_handler)
    try:
        if not sys.stdin.isatty():
            raise Refusal("teleop reads keys: run it in a terminal")
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
