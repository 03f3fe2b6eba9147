"""A perfect twin on the wire until its input is closed; then what became of the commands."""

import json
import sys
from dataclasses import asdict

from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.on_wire import TwinOnWire
from sim2real_deploy.twin.robot import TwinRobot

if __name__ == "__main__":
    twin = TwinRobot(load_robot("go2"), sport_mode=True)
    with TwinOnWire(twin, sys.argv[1], int(sys.argv[2])) as on_wire:
        sys.stdin.read()
        on_wire.check()
        height = float(on_wire.ask(lambda body: body.base_truth.position[2]))
    print(json.dumps(asdict(twin.boards.counters) | {"height": height}))
