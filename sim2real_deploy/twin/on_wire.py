"""The twin on DDS in real time, with the robot's topics, rates and services.

One thread runs the robot at absolute deadlines: take the received commands, simulate 2 ms, send the
state. A second thread answers the services; their changes are made by the first thread between two
periods, so the robot needs no lock.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numba  # noqa: F401  without compiled loops a twin does not keep real time
import numpy as np

from sim2real_deploy.runtime.realtime import prefer_this_thread
from sim2real_deploy.runtime.world_clock import WorldClock
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire import motion_switcher, sport_state
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.encoders import CommandEncoder, StateEncoder
from sim2real_deploy.wire.messages import (
    FAMILIES,
    LOW_CMD,
    LOW_STATE,
    SPORT_MODE_STATE,
    WIRELESS_CONTROLLER,
)
from sim2real_deploy.wire.rpc import RpcServer

Result = TypeVar("Result")

SPORT_SERVICE, ROBOT_STATE_SERVICE = "sport", "robot_state"
BROKEN = 3104  # the vendor's code for a service that does not work
SLOW_SWITCHER_S = 0.5
OTHER_TICKS = 100_000_000  # ms between the starts of two robots
_SPORT_STATE_EVERY = 5  # periods
_REMOTE_EVERY = 10
_SERVICE_POLL = 0.05  # s
_GIVE_UP = 0.25  # s behind: then it skips ahead instead of sending a burst of old states
_ANSWER_WITHIN = 2.0  # s


@dataclass(slots=True)
class Timing:
    """How well it keeps real time."""

    periods: int = 0
    late: int = 0  # periods that began more than one period late
    skipped_s: float = 0.0  # skipped after falling too far behind


class TwinOnWire:
    """Runs a TwinRobot on a DDS domain from `start` to `close`; also a context manager."""

    def __init__(
        self, twin: TwinRobot, interface: str, domain: int, clock: WorldClock | None = None
    ) -> None:
        self.twin = twin
        self.clock = clock or WorldClock()
        self.timing = Timing()
        self._period_ns = round(1e9 / twin.robot.wire.rate_hz)
        self._domain, self._interface = domain, interface
        self._family = twin.robot.wire.family
        family = FAMILIES[self._family]
        self._participant = end = Participant(domain, interface, "twin", for_all=True)
        # As on the robot, sport mode is a separate participant on the bus, present all the time.
        self._sport_end = Participant(domain, interface, "sport mode", for_all=True)
        self._sport_commands = self._sport_end.writer(LOW_CMD, family.command)
        self._sport_encoder = CommandEncoder(twin.robot)
        self._second: Participant | None = None  # another robot, for the fault `second_state`
        self._commands = end.reader(LOW_CMD, family.command)
        self._states = end.writer(LOW_STATE, family.state)
        self._sport_states = end.writer(sport_state.SPORT_STATE_TOPIC, SPORT_MODE_STATE)
        self._remotes = end.writer(sport_state.WIRELESS_TOPIC, WIRELESS_CONTROLLER)
        self._services = (
            RpcServer(end, motion_switcher.SERVICE, self._serve_switcher),
            RpcServer(end, SPORT_SERVICE, self._serve_sport),
            RpcServer(end, ROBOT_STATE_SERVICE, self._serve_robot_state),
        )
        self._asked: deque[tuple[Callable[[TwinRobot], Any], Future[Any]]] = deque()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._guard, args=(body,), name=name, daemon=True)
            for name, body in (("twin", self._live), ("twin services", self._answer))
        ]

    def __enter__(self) -> "TwinOnWire":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for end in (self._participant, self._sport_end, self._second):
            if end is not None:
                end.close()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def check(self) -> None:
        """Raise the exception that ended one of the threads, if any."""
        if self._failure is not None:
            raise self._failure

    def ask(self, action: Callable[[TwinRobot], Result]) -> Result:
        """Run an action on the robot between two periods and return its result."""
        future: Future[Result] = Future()
        self._asked.append((action, future))
        return future.result(timeout=_ANSWER_WITHIN)

    def _guard(self, body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:
            self._failure = error
            self._stop.set()

    def _live(self) -> None:
        prefer_this_thread()
        due = self.clock.now_ns()
        while not self._stop.is_set():
            due = self._keep_time(due)
            self._do_what_was_asked()
            states = self.twin.exchange(self._commands_of_others())
            for state in states:
                self._states.write(state)
            if self.twin.sport.mode:
                self._sport_commands.write(self._sport_encoder.encode(self.twin.sport.sent()))
            if self.twin.faults.in_force and self.twin.faults.concern("second_state"):
                self._speak_as_another(states)
            if self.timing.periods % _SPORT_STATE_EVERY == 0:
                self._send_sport_state()
            if self.timing.periods % _REMOTE_EVERY == 0:
                self._remotes.write(sport_state.encode_wireless(self.twin.remote))
            self.timing.periods += 1

    def _commands_of_others(self) -> list[bytes]:
        """All but sport mode's own, which reach the motors inside the robot, not over the bus."""
        own, who = self._sport_end.key, self._participant.who
        return [
            sample.data for sample in self._commands.take() if who(sample.writer).participant != own
        ]

    def _speak_as_another(self, states: list[bytes]) -> None:
        """Send as a second robot or a forgotten simulator, switched on at another time."""
        if self._second is None:
            end = self._second = Participant(self._domain, self._interface, "second robot")
            self._second_states = end.writer(LOW_STATE, FAMILIES[self._family].state)
            self._second_decoder = StateDecoder(self.twin.robot)
            self._second_encoder = StateEncoder(self.twin.robot)
        for sample in states:
            state = self._second_decoder.decode(sample, 0).whole()
            later = replace(state, tick=state.tick + OTHER_TICKS)
            self._second_states.write(self._second_encoder.encode(later))

    def _keep_time(self, due: int) -> int:
        """Sleep until the period is due and record how late it is; returns when the next is due."""
        now_ns = self.clock.now_ns
        while (wait := due - now_ns()) > 0 and not self._stop.is_set():
            time.sleep(wait / 1e9)
        late = now_ns() - due
        self.timing.late += late > self._period_ns
        if late > _GIVE_UP * 1e9:
            self.timing.skipped_s += late / 1e9
            due += late
        return due + self._period_ns

    def _do_what_was_asked(self) -> None:
        while self._asked:
            action, future = self._asked.popleft()
            try:
                future.set_result(action(self.twin))
            except Exception as error:
                future.set_exception(error)

    def _send_sport_state(self) -> None:
        truth, imu = self.twin.base_truth, self.twin.imu
        sample = sport_state.encode(
            sport_state.SportState(
                stamp_ns=self.twin.now_ns(),
                quaternion=imu.quaternion.astype(np.float32),
                gyroscope=imu.gyroscope.astype(np.float32),
                accelerometer=imu.accelerometer.astype(np.float32),
                position=truth.position.astype(np.float32),
                velocity=truth.velocity.astype(np.float32),
                yaw_speed=float(imu.gyroscope[2]),
                body_height=float(truth.position[2]),
            )
        )
        self._sport_states.write(sample)

    def _answer(self) -> None:
        while not self._stop.wait(_SERVICE_POLL):
            for server in self._services:
                server.serve()

    def _serve_switcher(self, api: int, parameter: str) -> tuple[int, str] | None:
        for fault in self.twin.faults.active:
            if fault.target == "switcher":
                if fault.word != "delayed":
                    return None if fault.word == "off" else (BROKEN, "")
                time.sleep(SLOW_SWITCHER_S if fault.amount is None else fault.amount)
        return self.ask(lambda twin: twin.sport.serve_switcher(api, parameter, twin.now_ns()))

    def _serve_sport(self, api: int, parameter: str) -> tuple[int, str]:
        return self.ask(lambda twin: twin.sport.serve_sport(api, parameter, twin.now_ns()))

    def _serve_robot_state(self, api: int, parameter: str) -> tuple[int, str]:
        return self.ask(lambda twin: twin.sport.serve_robot_state(api, parameter))
