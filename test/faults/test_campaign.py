"""One fault of the campaign, all the way: real processes, the twin on the wire, a verdict."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mujoco")
pytest.importorskip("onnx")
from sim2real_deploy.checks import Check
from sim2real_deploy.faults.campaign import CaseResult, first_at_rest
from sim2real_deploy.faults.cases import Case
from sim2real_deploy.faults.faulty_policy import write_faulty_policy
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot

SIM2REAL = (sys.executable, "-c", "from sim2real_deploy.cli import main; main()")


def test_a_policy_that_fails_passes_every_check_until_it_runs(tmp_path: Path) -> None:
    robot = load_robot("go2")
    write_faulty_policy(load_bundle("go2_walk", robot), tmp_path / "faulty")
    assert load_bundle(tmp_path / "faulty", robot).contract.golden


def test_the_worst_trial_is_judged_and_a_problem_is_a_check_of_its_own() -> None:
    case = Case("x", lambda stack: 0, "damping", 20)
    assert CaseResult(case, [3.0, 19.96]).checks() == (Check("x", 20.0, "ms", "<= 20", True),)
    late, problem = CaseResult(case, [3.0, 21.0], ["it was not damped\nlog"]).checks()
    assert not late.ok
    assert (problem.name, problem.value, problem.ok) == ("x: it was not damped", 1, False)
    assert not CaseResult(case).checks()[0].ok, "a case without a trial has shown nothing"


def test_standing_counts_from_the_first_moment_of_rest() -> None:
    """0.5 m/s up to 0.4 s, then nothing: seen without the delay of an average over the past."""
    times = [round(i * 0.02, 2) for i in range(60)]
    walk = [(round(t * 1e9), 0.5 * min(t, 0.4), 0.0) for t in times]
    found = first_at_rest(walk)
    assert found is not None
    assert 0.25 < found / 1e9 <= 0.4
    assert first_at_rest([(ns, ns * 0.5e-9, 0.0) for ns, _, _ in walk]) is None
    assert first_at_rest(walk[:10]) is None, "not seen for long enough"


def test_a_policy_giving_nan_is_damped_and_told(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    arguments = ("faults", "--repeat", "1", "--only", "policy gives NaN", "--json", str(file))
    done = subprocess.run([*SIM2REAL, *arguments], capture_output=True, text=True, timeout=280)
    assert "Traceback" not in done.stderr, done.stderr
    content = json.loads(file.read_text())
    (fault,) = content["faults"]
    assert fault["problems"] == []
    assert len(fault["times_ms"]) == 1
    assert done.returncode == (0 if all(check["ok"] for check in content["checks"]) else 1)


def test_an_unknown_fault_is_refused_with_those_there_are() -> None:
    done = subprocess.run(
        [*SIM2REAL, "faults", "--only", "meteor"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert "no fault's name contains 'meteor'; there are: " in done.stderr
