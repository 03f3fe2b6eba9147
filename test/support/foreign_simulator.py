"""A stand-in for another project's simulator on the vendor's wire, as unitree_mujoco's bridge is.

No motion switcher or other service, a battery of zeros, no remote, and four states in ten come
twice. `python foreign_simulator.py DOMAIN`; it runs until it is interrupted.
"""

import sys
from dataclasses import replace

from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.on_wire import TwinOnWire
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.twin.session import TwinSession
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.encoders import StateEncoder


class ForeignRobot(TwinRobot):
    def exchange(self, commands: list[bytes]) -> list[bytes]:
        sent = []
        for sample in super().exchange(commands):
            state = StateDecoder(self.robot).decode(sample, 0).whole()
            cells = state.cell_millivolts * 0
            bare = replace(
                state, battery_percent=0, cell_millivolts=cells, voltage=0.0, remote=bytes(40)
            )
            content = StateEncoder(self.robot).encode(bare)
            sent += [content] * (2 if state.tick // 2 % 10 < 4 else 1)
        return sent


def main() -> None:
    robot = ForeignRobot(load_robot("go2"), imperfections=Imperfections(), sport_mode=False)
    simulator = TwinOnWire(robot, "lo", int(sys.argv[1]))
    simulator._services = ()  # their endpoints stay silent
    with simulator:
        print("simulating", flush=True)
        TwinSession(simulator, 0.0, keep_poses=False).run(print, view=False)


if __name__ == "__main__":
    main()
