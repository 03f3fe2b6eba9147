"""Before the first command: release the vendor's motion service and make sure nobody else writes.

Each call may take seconds, so it is made while the robot is idle and never in the loop's thread.
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

SPORT_STAND_DOWN = 1005  # API id of the vendor's sport service
LYING_RAD = 0.4  # from the sit pose; a real robot folds 0.15 further than our pose
FRESH_NS = 100_000_000
LIE_DOWN_S = 5.0
RPC_TIMEOUT_S = 2.0
QUIET_S = 0.25  # without a foreign command; sport mode, while on, writes every 2 ms
QUIET_WITHIN_S = 2.0  # of releasing it


class WireClaim:
    """Tells the guards who writes rt/lowcmd; used by slow threads, never by the loop."""

    def __init__(
        self,
        link: DdsLink,
        spec: RobotSpec,
        situation: Situation,
        supervisor: Callable[[], str],  # its participant, the one other writer that is expected
        listener: Callable[
            [], Participant
        ],  # opens a participant on the same bus; closed after use
        has_sport_mode: bool = True,  # False for a foreign simulator: there is nothing to release
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
        """Release sport mode while the robot lies down, then check that the wire is quiet. Refuses,
        with sport mode still on, if the robot does not lie down."""
        self._situation.sport_released = False
        if self._has_sport_mode and not self._switcher.check().released:
            if not self._lies():
                self._lie_down()
            self._switcher.release()
        self._situation.other_writers = self._who_writes()
        self._situation.sport_released = True

    def confirm(self) -> None:
        """Before a robot that lies damped gets up: has anybody taken the wire since it was claimed?
        Releases nothing. Refuses while sport mode is on, which has its own way of getting up."""
        if self._has_sport_mode and not self._switcher.check().released:
            self._situation.sport_released = False
            raise Refusal("the robot's own sport mode is on again: recover it with its remote")
        self._situation.other_writers = self._who_writes()

    def _lies(self) -> bool:
        state = self._link.latest
        if state is None or self._link.now_ns() - state.received_ns > FRESH_NS:
            raise Refusal("no fresh state from the robot: cannot tell whether it lies down")
        error = np.abs(state.q - self._spec.sit_pose)
        error[list(self._spec.wheels)] = 0.0
        return bool(np.max(error) < LYING_RAD)

    def _lie_down(self) -> None:
        """Released while it stands, the robot would collapse."""
        try:
            code, _ = self._sport.call(SPORT_STAND_DOWN, "", RPC_TIMEOUT_S)
        except RpcTimeout as late:
            raise Refusal(f"the robot stands and could not be told to lie down: {late}") from None
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
        """Who still sends commands; "" once nobody has for a while. Judged by samples and not by
        open writers: the vendor may keep a silent writer open."""
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
