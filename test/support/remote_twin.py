"""A perfect twin on the wire in a process of its own, its remote held as each line of input says.

Each line is JSON: sticks and pressed buttons; the answer is the sport mode in force.
"""

import contextlib
import json
import sys
from concurrent.futures import TimeoutError

from sim2real_deploy.robots import load_robot
from sim2real_deploy.runtime.realtime import calm_interpreter, prefer_this_process
from sim2real_deploy.twin.on_wire import TwinOnWire
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire.remote import Remote


def patiently(on_wire: TwinOnWire, action):
    """A starved machine may keep the twin from answering in time: it is asked again."""
    while True:
        with contextlib.suppress(TimeoutError):
            return on_wire.ask(action)


if __name__ == "__main__":
    prefer_this_process()
    robot = TwinRobot(load_robot("go2"), sport_mode=True)
    with TwinOnWire(robot, "lo", int(sys.argv[1])) as on_wire:
        calm_interpreter()
        for line in sys.stdin:
            wish = json.loads(line)
            held = Remote(ly=wish["ly"], pressed=frozenset(wish["pressed"]))
            patiently(on_wire, lambda twin, held=held: twin.hold_remote(held))
            print(json.dumps(patiently(on_wire, lambda twin: twin.sport.mode)), flush=True)
