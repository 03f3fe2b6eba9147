"""A machine that stands still is noticed, and only a trial that failed meanwhile is taken again."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from support.rights import real_time_is_allowed

pytest.importorskip("mujoco")
from sim2real_deploy.faults import campaign as faults
from sim2real_deploy.faults.cases import Case
from sim2real_deploy.runtime.stalls import StallWitness


@pytest.mark.skipif(not real_time_is_allowed(), reason="no right to real-time priority")
def test_a_core_that_stood_still_is_told_with_its_time() -> None:
    witness = StallWitness()
    try:
        time.sleep(1.0)  # until they look
        since_ns = time.monotonic_ns()
        core = witness._witnesses[0]
        core.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        core.send_signal(signal.SIGCONT)
        time.sleep(0.2)
        now_ns = time.monotonic_ns()
        assert 90 < witness.stalled_ms(since_ns, now_ns) < 300
        assert witness.stalled_ms(now_ns + 1, now_ns + 2) == 0
    finally:
        witness.close()
    assert all(process.returncode is not None for process in witness._witnesses)


class Told:
    """A witness and a stack that say what they are told to, one entry a trial."""

    def __init__(self, stops: list[str], stalls_ms: list[float]) -> None:
        self._stops, self._stalls_ms = iter(stops), iter(stalls_ms)

    def recover(self) -> None: ...

    def stopped_by(self) -> str:
        return next(self._stops)

    def stalled_ms(self, since_ns: int, until_ns: int) -> float:
        return next(self._stalls_ms)


def trials(
    monkeypatch: pytest.MonkeyPatch, took_ms: list[float], stops: list[str], stalls_ms: list[float]
) -> faults.CaseResult:
    took = iter(took_ms)
    monkeypatch.setitem(faults.JUDGES, "damping", lambda *_: (next(took), ""))
    told = Told(stops, stalls_ms)
    case = Case("x", lambda stack: 0, "damping", 20)
    return faults._run_case(told, case, 2, told, lambda *_: None)  # type: ignore[arg-type]


def test_a_late_trial_counts_unless_the_machine_stood_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = trials(monkeypatch, [30.0, 25.0, 5.0], ["", "", ""], [12.0, 0.0])
    assert result.times_ms == [25.0, 5.0], "the first was the machine's fault, the second ours"
    assert result.taken_again_ms == [12.0]


def test_a_machine_that_always_stands_still_does_not_keep_the_campaign_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = trials(monkeypatch, [30.0] * 4, [""] * 4, [9.0] * 4)
    assert len(result.taken_again_ms) == 2
    assert result.times_ms == [30.0, 30.0]


def test_a_stop_before_the_fault_is_a_problem_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    result = trials(monkeypatch, [5.0], ["state_silent", ""], [0.0])
    assert result.times_ms == [float("inf"), 5.0]
    assert result.problems == ["it had stopped by itself before: state_silent"]


@pytest.mark.skipif(not real_time_is_allowed(), reason="no right to real-time priority")
def test_a_witness_does_not_outlive_who_asked_it() -> None:
    """Killed without a word: nobody of the highest priority may be left behind."""
    program = (
        "from sim2real_deploy.runtime.stalls import StallWitness as W; import time; w = W();"
        "print(*[p.pid for p in w._witnesses], flush=True); time.sleep(60)"
    )
    asking = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert asking.stdout is not None
    witnesses = [psutil.Process(int(pid)) for pid in asking.stdout.readline().split()]
    time.sleep(1.0)
    asking.kill()
    asking.wait()
    _, left = psutil.wait_procs(witnesses, timeout=10)
    assert witnesses
    assert not left
