"""Before the first command: the vendor's own motion service lets go, and nobody else writes.

Every call may take seconds, so it is made while nothing is driven, and never by the loop's thread.
"""

import time
from collections.abc import Callable

import numpy as np

from sim2real_deploy.control.modes import Situation
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD
from sim2real_deploy.wire.motion_switcher import MotionSwitcher
from sim2real_deploy.wire.rpc import RpcClient, RpcTimeout

SPORT_STAND_DOWN = 1005  # api of the vendor's sport service
LYING_RAD = 0.4  # from the sit pose; a real one folds 0.15 further than ours
FRESH_NS = 100_000_000
LIE_DOWN_S = 5.0
RPC_TIMEOUT_S = 2.0
QUIET_S = 0.25  # without a foreign command: sport mode writes every 2 ms while it is on
QUIET_WITHIN_S = 2.0  # of its release


class WireClaim:
    """Keeps what the guards know about rt/lowcmd; used by slow threads, never by the loop."""

    def __init__(
        self,
        link: DdsLink,
        spec: RobotSpec,
        situation: Situation,
        supervisor: Callable[[], str],  # its participant: the one other writer that belongs here
        listener: Callable[[], Participant],  # a presence on the same bus, closed after its use
        has_sport_mode: bool = True,  # False for a foreign simulator: nothing is to be released
    ) -> None:
        self._link = link
        self._spec = spec
        self._situation = situation
        self._supervisor = supervisor
        self._listener = listener
        self._has_sport_mode = has_sport_mode
        self._switcher = MotionSwitcher(link.participant, RPC_TIMEOUT_S)
        self._sport = RpcClient(link.participant, "sport")

    def take(self) -> None:
        """Have sport mode released under a robot that lies, and hear that the wire is quiet; or
        refuse, with nothing released that was not safe to release."""
        self._situation.sport_released = False
        if self._has_sport_mode and not self._switcher.check().released:
            if not self._lies():
                self._lie_down()
            self._switcher.release()
        self._situation.other_writers = self._who_writes()
        self._situation.sport_released = True

    def _lies(self) -> bool:
        state = self._link.latest
        if state is None or self._link.now_ns() - state.received_ns > FRESH_NS:
            raise Refusal("no fresh state from the robot: whether it lies down is not known")
        return bool(np.max(np.abs(state.q - self._spec.sit_pose)) < LYING_RAD)

    def _lie_down(self) -> None:
        """Released while it stands, the robot would drop."""
        try:
            code, _ = self._sport.call(SPORT_STAND_DOWN, "", RPC_TIMEOUT_S)
        except RpcTimeout as late:
            raise Refusal(f"the robot stands and was not asked to lie down: {late}") from None
        if code:
            raise Refusal(f"the robot stands and refuses to lie down: code {code}")
        patience = time.monotonic() + LIE_DOWN_S
        while not self._lies():
            if time.monotonic() > patience:
                raise Refusal(
                    f"the robot was told to lie down and does not lie after {LIE_DOWN_S:g} s: its "
                    "sport mode stays on; lay it down with the remote, then ask again"
                )
            time.sleep(0.05)

    def _who_writes(self) -> str:
        """Who sends commands still; "" once nobody has for a while. Judged by samples: the vendor
        may keep its writer open, and one that is open and silent moves nothing."""
        command = FAMILIES[self._spec.wire.family].command
        ours = self._link.participant.key
        listener = self._listener()
        try:
            reader = listener.reader(LOW_CMD, command)
            patience = time.monotonic() + QUIET_WITHIN_S
            quiet_since, heard = time.monotonic(), ""
            while (now := time.monotonic()) < patience:
                reader.wait(0.05)
                writers = {listener.who(sample.writer) for sample in reader.take()}
                foreign = [w for w in writers if w.participant not in (ours, self._supervisor())]
                if foreign:
                    quiet_since, heard = now, ", ".join(map(str, foreign))
                elif now - quiet_since > QUIET_S:
                    return ""
            return heard
        finally:
            listener.close()
