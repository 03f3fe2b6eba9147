"""Before the first command: the vendor's own motion service lets go, and nobody else writes."""

import time
from collections.abc import Callable

import numpy as np

from sim2real_deploy.control.modes import Situation
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.link import Writer
from sim2real_deploy.wire.motion_switcher import MotionSwitcher
from sim2real_deploy.wire.rpc import RpcClient

SPORT_STAND_DOWN = 1005  # api of the vendor's sport service
LYING = 0.4  # rad from the sit pose
LIE_DOWN_S = 4.0
RPC_TIMEOUT_S = 2.0


class WireClaim:
    """Keeps what the guards know about rt/lowcmd; used by one slow thread, never by the loop."""

    def __init__(
        self,
        link: DdsLink,
        spec: RobotSpec,
        situation: Situation,
        supervisor: Callable[[], str],  # its participant: the one other writer that belongs here
    ) -> None:
        self._link = link
        self._spec = spec
        self._situation = situation
        self._supervisor = supervisor
        self._switcher = MotionSwitcher(link.participant, RPC_TIMEOUT_S)
        self._sport = RpcClient(link.participant, "sport")

    def look(self) -> None:
        """Who else can write rt/lowcmd now."""
        known = self._supervisor()
        others = [w for w in self._link.other_writers() if w.participant != known]
        self._situation.other_writers = ", ".join(_words(writer) for writer in others)

    def take(self) -> None:
        """Have sport mode released; a robot that stands in it lies down first. May be refused."""
        if self._switcher.check().released:
            self._situation.sport_released = True
            return
        self._situation.sport_released = False
        if not self._lies():
            self._sport.call(SPORT_STAND_DOWN, "", RPC_TIMEOUT_S)
            patience = time.monotonic() + LIE_DOWN_S
            while not self._lies() and time.monotonic() < patience:
                time.sleep(0.05)
        self._switcher.release()
        self._situation.sport_released = True

    def _lies(self) -> bool:
        state = self._link.latest
        return state is None or bool(np.max(np.abs(state.q - self._spec.sit_pose)) < LYING)


def _words(writer: Writer) -> str:
    return f"{writer.name or writer.participant} on {writer.host or 'an unknown host'}"
