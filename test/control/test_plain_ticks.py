"""Compiled ticks against Python's, over real DDS: the same states give the same bytes and rows."""

import itertools
import secrets
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from sim2real_deploy.compiled import AVAILABLE
from sim2real_deploy.control import plain_ticks, velocity_command
from sim2real_deploy.control.adaptation import open_adaptation
from sim2real_deploy.control.adaptation.adaptation import CYCLE
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.loop import ControlLoop
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.control.supervision import TIMEOUT_NS, Supervised, Unsupervised
from sim2real_deploy.control.ticks import AXES, COLUMNS
from sim2real_deploy.control.walking import Walking
from sim2real_deploy.gate.drive import Drive
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.runtime.local_channel import LocalChannel
from sim2real_deploy.safety.chain import CLEAR, Stop, SupervisorSide
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.domains import free_domain
from sim2real_deploy.wire.encoders import CommandEncoder, StateEncoder
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD, LOW_STATE

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="numba is not installed")
SPEC = load_robot("go2")
FAMILY = FAMILIES["go"]
LONG_NS = 10**12
WHEN = ("now_ns", "age_ns", "gap_ns", "work_ns", "write_ns", "missed")  # measured, not computed


class Marking(CommandEncoder):
    """Commands say which state they answer."""

    def __init__(self, spec):
        super().__init__(spec)
        spare = FAMILY.command.span("reserve").start
        self.repeat(FAMILY.state.span("tick"), slice(spare, spare + 4))


class MarkedLink(DdsLink):
    encoder_for = Marking


class World:
    """A loop that walks between two policy steps, and the robot that it talks to."""

    def __init__(self, compiled, supervision=None, adapts="none", stage=""):
        domain = free_domain()
        self.robot = Participant(domain, "lo", "robot")
        self.states = self.robot.writer(LOW_STATE, FAMILY.state)
        self.commands = self.robot.reader(LOW_CMD, FAMILY.command)
        self.link = MarkedLink(SPEC, "lo", domain, name="control")
        policy, adaptation = load_bundle("go2_walk", SPEC).open(), open_adaptation(SPEC, adapts)
        self.controller = Controller(SPEC, load_stage(stage), policy, adaptation)
        self.controller.situation.sport_released = True
        self.loop = ControlLoop(self.link, self.controller, supervision or Unsupervised())
        self.compiled = self.loop._plain
        if not compiled:
            self.loop._plain = None
        self.python_ticks = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        tick = self.loop.tick

        def counted(*arguments):
            self.python_ticks += 1
            tick(*arguments)

        self.loop.tick = counted
        while not self._stopped.is_set():
            self.loop.cycle()

    def __enter__(self):
        deadline = time.monotonic() + 10
        while not self.states.matched() or not self.commands.matched():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return self

    def walk(self, first, stepping=False):
        """Put it between two steps of a walk; no state is ever late from now on."""
        controller, loop = self.controller, self.loop
        self.states.write(first)
        loop.cycle()
        controller.mode = Mode.WALKING
        if not stepping:
            controller.walking.due_ns = self.link.now_ns() + LONG_NS
        controller.asked.q[:], controller.asked.kp[:] = SPEC.stand_pose, 25.0
        controller.asked.kd[:] = 0.5
        controller.limiter.restart(SPEC.stand_pose)
        loop.tick(None, self.link.now_ns())  # as after a policy step: Python has written its row
        loop._patience_ns = self.compiled.times[plain_ticks.PATIENCE] = LONG_NS
        loop._due_ns = self.link.now_ns() + LONG_NS
        self.compiled.times[plain_ticks.PERIOD] = LONG_NS // 10
        self._thread.start()

    def step_in_every_tick(self, first, monkeypatch):
        """Walk, with a policy step in every tick and a velocity command that is reached at once."""
        controller, shaping = self.controller, self.controller.velocity.shaping
        monkeypatch.setattr(Walking, "step_period_ns", 1)
        controller.walking._period_ns = LONG_NS // 10
        shaping.bounds[1] = 1e9
        self.order(0.5, 0.0, 0.2)
        self.states.write(first)
        self.loop.cycle()
        controller.walking.fill(self.link.latest, self.link.now_ns())  # fills the history
        controller.walking.due_ns = self.link.now_ns() + LONG_NS // 40

    def order(self, *velocity):
        shaping = self.controller.velocity.shaping
        self.controller.velocity.offer(*velocity, self.link.now_ns())
        shaping.times[shaping.memo[velocity_command.COUNT] % velocity_command.KEPT, 1] = 2**62

    def answer(self, sample, seconds=5.0):
        """Send a state; the command that answers it."""
        tick = sample[FAMILY.state.span("tick")]
        self.states.write(sample)
        deadline = time.monotonic() + seconds
        while self.commands.wait(deadline - time.monotonic()):
            for command in self.commands.take():
                if command.data[FAMILY.command.span("reserve")][:4] == tick:
                    return command.data
        raise AssertionError(f"no answer to {tick!r}")

    def __exit__(self, *_):
        self._stopped.set()
        for sample in states(100, wild=False, first_tick=2000):  # some are lost: no leap
            if not self._thread.is_alive():
                break
            self.states.write(sample)  # it waits for a state
            self._thread.join(0.1)
        self.link.close()
        self.robot.close()


def states(count, wild, first_tick=1000):
    """Samples of a robot that walks, or of one that is thrown about so that every limit acts."""
    rng, encoder = np.random.default_rng(1), StateEncoder(SPEC)
    twin = TwinRobot(SPEC, imperfections=load_imperfections(), seed=3)
    state = StateDecoder(SPEC).decode(twin.advance(None), 0).whole()
    for number in range(count):
        spread = rng.choice([0.05, 0.5, 3.0]) if wild else 0.1
        yield encoder.encode(
            replace(
                state,
                tick=first_tick + 2 * number,
                q=(SPEC.stand_pose + rng.normal(0, spread, 12)).astype(np.float32),
                dq=rng.normal(0, 10 * spread, 12).astype(np.float32),
            )
        )


def answers(compiled, samples):
    with World(compiled) as world:
        first, *rest = samples
        world.walk(first)
        world.loop.ticks.drain()
        sent = [world.answer(sample) for sample in rest]
        latest = world.link.latest
    return world, sent, world.loop.ticks.drain(), latest


@pytest.mark.parametrize("wild", [False, True])
def test_compiled_ticks_equal_pythons_bit_for_bit(wild):
    samples = [*states(300, wild)]
    _, expected, rows, _ = answers(False, samples)
    world, sent, quick_rows, latest = answers(True, samples)
    assert sent == expected
    assert len(set(sent)) == len(sent)
    assert world.python_ticks <= 1  # the state that ended it
    columns = [k for k, name in enumerate(world.loop.ticks.columns) if name not in WHEN]
    count = len(sent)
    np.testing.assert_array_equal(
        quick_rows.figures[:count, columns], rows.figures[:count, columns]
    )
    np.testing.assert_array_equal(quick_rows.sent[:count], rows.sent[:count])
    np.testing.assert_array_equal(quick_rows.asked[:count], rows.asked[:count])
    assert (rows.limits > 0).any() or not wild
    assert latest.raw == samples[-1]
    assert world.link.counters.received == len(samples) + 1
    assert world.link.counters.sent >= count


def test_a_compiled_tick_after_a_late_one_is_not_late():
    samples = states(20, wild=False)
    with World(True) as world:
        world.walk(next(samples))
        world.loop.ticks.figures[:, COLUMNS.index("missed")] = 1.0  # the tick before came late
        world.loop.ticks.drain()
        for sample in itertools.islice(samples, 10):
            world.answer(sample)
        assert world.python_ticks == 0
    assert not world.loop.ticks.drain().column("missed")[:10].any()


def stepped_answers(compiled, samples, monkeypatch):
    with World(compiled) as world:
        first, second, *rest = samples
        world.step_in_every_tick(first, monkeypatch)
        world.walk(second, stepping=True)
        world.loop.ticks.drain()
        sent = []
        for number, sample in enumerate(rest):
            if number % 20 == 0:
                world.order(0.001 * number, 0.1, -0.3)
            sent.append(world.answer(sample))
    return world, sent, world.loop.ticks.drain()


def test_compiled_policy_steps_equal_pythons_bit_for_bit(monkeypatch):
    samples = [*states(300, wild=False)]
    _, expected, rows = stepped_answers(False, samples, monkeypatch)
    world, sent, quick_rows = stepped_answers(True, samples, monkeypatch)
    assert sent == expected
    assert world.python_ticks <= 1  # the state that ended it
    columns = [
        k
        for k, name in enumerate(world.loop.ticks.columns)
        if name not in (*WHEN, "observe_ns", "infer_ns")
    ]
    count = len(sent)
    assert quick_rows.column("policy_stepped")[:count].all()
    assert len(set(quick_rows.column("vx")[:count])) == 15
    np.testing.assert_array_equal(
        quick_rows.figures[:count, columns], rows.figures[:count, columns]
    )
    for name in ("observations", "actions", "estimates"):
        found, wanted = getattr(quick_rows, name)[0][:count], getattr(rows, name)[0][:count]
        np.testing.assert_array_equal(found, wanted)
        assert wanted.any()
    assert world.controller.policy.steps == count + 3
    assert world.controller.surprise == quick_rows.column("surprise")[-1]


def test_a_policy_step_that_is_not_finite_damps_in_its_tick(monkeypatch):
    first, second, third, fourth = states(4, wild=False)
    with World(True) as world:
        world.step_in_every_tick(first, monkeypatch)
        world.walk(second, stepping=True)
        world.answer(third)
        fields = StateDecoder(SPEC).decode(fourth, 0).whole()
        huge = replace(fields, q=np.full(12, 3e38, np.float32))  # finite, but not twice as large
        command = world.answer(StateEncoder(SPEC).encode(huge))
        assert world.controller.mode is Mode.DAMPING
        assert world.controller.policy_failed
        floats = np.frombuffer(command, np.float32)
        assert not floats[FAMILY.command.floats("motor_cmd.kp", 12)].any()


@pytest.fixture(scope="module")
def loaded_walk():
    """What a robot says that walks with a weak calf, a leg that rubs and a load."""
    said, twin = [], TwinRobot(SPEC, imperfections=load_imperfections(), seed=3)

    def tap(_, topic, sample):
        if topic == LOW_STATE:
            said.append(bytes(sample))

    drive = Drive(load_bundle("go2_walk", SPEC), twin, tap=tap)
    drive.stand_and_walk()
    strength = twin.imperfections.motors.strengths(SPEC)
    for tick in range(2500):
        if tick == 1000:
            twin.boards.weaken(np.where(np.arange(12) == 2, 0.8, 1.0) * strength)
            twin.motors.rub([3, 4, 5], 4.0)
            twin.carry(3.0)
        drive.walk_at((0.5, 0.0, 0.2))
        drive.tick()
    return said[-2300:]


@pytest.mark.parametrize("adapts", ["strength", "mrac", "velocity", "all"])
@pytest.mark.parametrize("stepping", [False, True])
def test_adaptation_is_the_same_in_compiled_ticks(adapts, stepping, loaded_walk, monkeypatch):
    def walk(compiled):
        first, second, *rest = loaded_walk
        with World(compiled, adapts=adapts, stage="field") as world:
            known = world.controller.adaptation
            known.motors.strength[2] *= 0.85
            known.correction[:] = 0.05 * (stepping and adapts in ("velocity", "all"))
            if stepping:
                world.step_in_every_tick(first, monkeypatch)
            world.walk(second, stepping)
            world.loop.ticks.drain()
            sent, rows = [], []
            for number, sample in enumerate(rest):
                sent.append(world.answer(sample))
                if number % 1000 == 999:  # before the ring is full
                    rows.append(world.loop.ticks.drain())
        return world, sent, [*rows, world.loop.ticks.drain()]

    _, expected, rows = walk(False)
    world, sent, quick_rows = walk(True)
    assert sent == expected
    assert world.python_ticks < len(sent) / 100  # where the robot lost a state

    def column(found, name):
        return np.concatenate([part.column(name) for part in found])[: len(sent)]

    for name in (*(f"trim_{axis}" for axis in AXES), *AXES, "state_tick", "policy_stepped"):
        np.testing.assert_array_equal(column(quick_rows, name), column(rows, name))
    asked, quick = (
        np.concatenate([part.asked for part in found])[: len(sent)] for found in (rows, quick_rows)
    )
    np.testing.assert_array_equal(quick, asked)
    corrected = {
        "strength": np.ptp(asked[:, 2], axis=0).any(),
        "mrac": asked[:, 4].any(),
        "velocity": np.ptp(column(rows, "trim_vx")) > 0.04,
    }
    wanted = set(corrected) if adapts == "all" else {adapts}
    wanted -= set() if stepping else {"velocity"}
    assert {part for part, acted in corrected.items() if acted} == wanted


def broken(sample, how):
    sample = bytearray(sample)
    if how == "crc":
        sample[-1] ^= 1
    elif how == "nan":
        fields = StateDecoder(SPEC).decode(bytes(sample), 0).whole()
        return StateEncoder(SPEC).encode(replace(fields, q=np.full(12, np.nan, np.float32)))
    return bytes(sample)


def test_samples_that_are_not_plain_are_counted_by_python_and_change_nothing_else():
    good = [*states(60, wild=True)]
    with World(True) as world:
        world.walk(good[0])
        for sample in good[1:20]:
            world.answer(sample)
        world.states.write(broken(good[20], "crc"))
        world.states.write(good[19])  # a duplicate
        world.answer(good[20])
        world.answer(good[23])  # two lost
        second = world.robot.writer(LOW_STATE, FAMILY.state)
        deadline = time.monotonic() + 5
        while second.matched() < 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        second.write(good[24])
        time.sleep(0.05)
        world.answer(good[24])
        counters = world.link.counters
        assert (counters.bad_crc, counters.duplicate) == (1, 1)
        assert (counters.lost, counters.foreign) == (2, 1)
        assert world.controller.mode is Mode.WALKING
        world.states.write(broken(good[25], "nan"))
        world.answer(good[25])
        assert world.controller.mode is Mode.DAMPING
        assert "NaN" in world.controller.reason


def test_a_request_interrupts_compiled_ticks():
    samples = states(500, wild=False)
    with World(True) as world:
        world.walk(next(samples))
        decided = []
        asker = threading.Thread(target=lambda: decided.append(world.loop.request(ModeEvent.DAMP)))
        world.answer(next(samples))
        asker.start()
        while not decided:
            world.answer(next(samples))
        asker.join()
        assert decided[0].accepted
        assert world.controller.mode is Mode.DAMPING


class Chain:
    """The supervisor's end."""

    def __init__(self, folder):
        self.channel = LocalChannel(folder, "safety", "control")
        self.side = SupervisorSide(7, "participant")

    def beat(self, verdict=CLEAR, resets=0):
        now_ns = time.monotonic_ns()
        heartbeat = self.side.heartbeat(verdict, resets, secrets.randbits(64), now_ns)
        assert self.channel.send(heartbeat)

    def hear(self):
        for datagram in self.channel.receive():
            self.side.hear(datagram)
        return self.side.report


@pytest.mark.parametrize("queued", [1, 3])
def test_a_stop_acts_in_the_tick_that_finds_it_and_repeated_orders_are_answered(tmp_path, queued):
    chain = Chain(tmp_path)
    with LocalChannel(tmp_path, "control", "safety") as channel, chain.channel:
        samples = states(500, wild=False)
        with World(True, Supervised(channel, "control")) as world:
            chain.beat()
            world.walk(next(samples))
            for _ in range(10):
                chain.beat()
                world.answer(next(samples))
            time.sleep(0.05)
            report = chain.hear()
            assert report is not None
            assert report.mode == "walking"
            assert world.python_ticks < 5  # where a heartbeat came late
            assert chain.side.rejected == 0
            for _ in range(queued - 1):
                chain.beat()
            chain.beat(replace(CLEAR, stop=Stop.ESTOP, reason="pressed"))
            command = world.answer(next(samples))
            assert world.controller.mode is Mode.DAMPING
            assert world.controller.reason == "pressed"
            floats = np.frombuffer(command, np.float32)
            assert not floats[FAMILY.command.floats("motor_cmd.kp", 12)].any()


def test_the_supervisor_is_told_of_strain_and_switches_adaptation_off(tmp_path):
    chain = Chain(tmp_path)
    with LocalChannel(tmp_path, "control", "safety") as channel, chain.channel:
        samples = states(500, wild=False)
        supervised = Supervised(channel, "control")
        supervised._side.timeout_ns = supervised.orders.memo[TIMEOUT_NS] = LONG_NS
        with World(True, supervised, adapts="strength") as world:
            chain.beat()
            world.walk(next(samples))
            adaptation = world.controller.adaptation
            adaptation.motors.strength[2] *= 0.5

            def tick(count, verdict):
                for _ in range(count):
                    chain.beat(verdict)
                    world.answer(next(samples))
                    report = chain.hear()
                return report

            assert tick(60, CLEAR).adaptation_strain > 2.0
            high, gain = adaptation.level, adaptation.gain[2]
            assert high > 0.05
            tick(2 * CYCLE, replace(CLEAR, may_adapt=False))
            assert adaptation.level < high
            assert adaptation.gain[2] < gain
            assert world.python_ticks < 10  # where a heartbeat came late, and the change


def test_a_silent_supervisor_ends_compiled_ticks(tmp_path):
    chain = Chain(tmp_path)
    with LocalChannel(tmp_path, "control", "safety") as channel, chain.channel:
        samples = states(500, wild=False)
        with World(True, Supervised(channel, "control")) as world:
            chain.beat()
            world.walk(next(samples))
            chain.beat()
            world.answer(next(samples))
            world.answer(next(samples))
            time.sleep(0.1)
            world.answer(next(samples))
            assert world.controller.mode is Mode.DAMPING
            assert "supervisor silent" in world.controller.reason
