"""The gate's own proof: it lets a good policy through and none that was tampered with."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim2real_deploy.checks import exit_code
from sim2real_deploy.gate.clearance import LEAST_RATE
from sim2real_deploy.gate.engines import FIRST
from sim2real_deploy.gate.episodes import run_episode
from sim2real_deploy.gate.scenarios import load_scenarios, needed_for
from sim2real_deploy.gate.verdict import Row, summarise
from sim2real_deploy.gate.workers import Results, Task, run_here
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.policy.check import static_checks
from sim2real_deploy.robots import load_robot
from support.sabotage import SABOTAGES, sabotage

GO2 = load_robot("go2")
GOOD = load_bundle("go2_walk", GO2)
MUST_PASS = ["flat", "turn", "push_30", "push_50", "start_uneven", "start_dropped"]
REVEALING = ["flat", "delay_20ms", "push_50"]
TRIALS = 20


@pytest.mark.parametrize("name", ["flat", "turn", "push_30", "start_uneven"])
def test_the_shipped_policy_passes(name: str) -> None:
    (scenario,) = load_scenarios([name])
    episode = run_episode(GOOD, FIRST, scenario, 0)
    assert episode.success, episode.reason


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_tampered_policy_whose_papers_are_in_order_fails(name: str, tmp_path: Path) -> None:
    bad = load_bundle(sabotage(GOOD, SABOTAGES[name], tmp_path / name), GO2)
    scenarios = load_scenarios(REVEALING)
    on_paper = exit_code(static_checks(bad))
    assert on_paper or not all(run_episode(bad, FIRST, s, 0).success for s in scenarios)


def test_an_action_given_out_one_step_late_is_seen_on_paper(tmp_path: Path) -> None:
    """A policy that was trained with delays may walk on with one more."""
    late = sabotage(GOOD, SABOTAGES["one_frame_of_delay"], tmp_path / "late")
    command = [Path(sys.executable).with_name("sim2real"), "eval", late, "--trials", "1"]
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "steps until it responds to its input: 1, not <= 0" in ended.stderr
    assert exit_code(static_checks(GOOD)) == 0


def rows(bundle: Bundle, names: list[str], folder: Path) -> dict[str, Row]:
    results = Results(folder / f"{bundle.contract.name}.jsonl", bundle)
    scenarios = load_scenarios(names)
    tasks: list[Task] = [(FIRST, s, trial) for s in scenarios for trial in range(TRIALS)]
    for task, episode in run_here(bundle, tasks, os.cpu_count() or 1):
        results.add(task, episode)
    return {
        s.name: summarise(
            s, FIRST, results.of((FIRST, s, trial) for trial in range(TRIALS)), LEAST_RATE
        )
        for s in scenarios
    }


@pytest.mark.slow
def test_the_whole_gate_passes_the_shipped_policy_where_it_must(tmp_path: Path) -> None:
    for name, row in rows(GOOD, MUST_PASS, tmp_path).items():
        assert row.rate >= 0.95, f"{name}: {row.reasons}"


@pytest.mark.slow
@pytest.mark.parametrize("name", SABOTAGES)
def test_the_whole_gate_fails_each_sabotage(name: str, tmp_path: Path) -> None:
    """In what the lowest gated stage asks for: it may not even walk indoors."""
    bad = load_bundle(sabotage(GOOD, SABOTAGES[name], tmp_path / name), GO2)
    if exit_code(static_checks(bad)):
        return
    needed = [scenario.name for scenario in needed_for("indoor", load_scenarios())]
    failed = [row for row in rows(bad, needed, tmp_path).values() if not row.passes(LEAST_RATE)]
    assert failed
