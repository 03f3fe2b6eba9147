"""Many episodes: the same results whoever runs them, none twice, and the command around it."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from sim2real_deploy.gate.engines import FIRST
from sim2real_deploy.gate.episodes import Episode
from sim2real_deploy.gate.scenarios import Scenario
from sim2real_deploy.gate.workers import Results, Task, run_here, run_on_ray
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.robots import load_robot

GO2 = load_robot("go2")
BUNDLE = load_bundle("go2_walk", GO2)
SHORT = {
    "why": "",
    "if_failed": "",
    "needed_from": "indoor",
    "commands": [{"velocity": (0.5, 0.0, 0.0), "seconds": 2.6}],
}
CALM = Scenario.model_validate({"name": "calm", **SHORT})
PUSHED = Scenario.model_validate({"name": "pushed", "pushes": {"force": 60, "every": 1.0}, **SHORT})
TASKS: list[Task] = [(FIRST, scenario, trial) for scenario in (CALM, PUSHED) for trial in (0, 1)]


@pytest.fixture(scope="module")
def alone() -> dict[int, Episode]:
    """By one worker: what all others must give."""
    return {TASKS.index(task): episode for task, episode in run_here(BUNDLE, TASKS, 1)}


def test_two_workers_give_what_one_gives(alone: dict[int, Episode]) -> None:
    together = {TASKS.index(task): episode for task, episode in run_here(BUNDLE, TASKS, 2)}
    assert together == alone
    assert len({episode.figures.velocity for episode in alone.values() if episode.figures}) == 4


@pytest.mark.slow
def test_a_cluster_gives_what_one_worker_gives(alone: dict[int, Episode]) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    remote = {TASKS.index(task): episode for task, episode in run_on_ray(BUNDLE, TASKS, "local")}
    assert remote == alone


def test_what_is_done_is_not_run_again(alone: dict[int, Episode], tmp_path: Path) -> None:
    path = tmp_path / "gate" / "results.jsonl"
    first = Results(path, BUNDLE)
    assert first.missing(TASKS) == TASKS
    for number in (0, 2):
        first.add(TASKS[number], alone[number])
    with path.open("a") as stream:
        stream.write('{"key": {"poli')  # the power went
    second = Results(path, BUNDLE)
    assert second.missing(TASKS) == [TASKS[1], TASKS[3]]
    for number in (1, 3):
        second.add(TASKS[number], alone[number])
    assert Results(path, BUNDLE).of(TASKS) == [alone[number] for number in range(4)]


def test_a_result_belongs_to_its_policy_scenario_engine_and_trial(
    alone: dict[int, Episode], tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    Results(path, BUNDLE).add(TASKS[0], alone[0])
    slower = BUNDLE.contract.model_copy(update={"kd": tuple(2 * kd for kd in BUNDLE.contract.kd)})
    other = Bundle(BUNDLE.folder, slower, GO2, BUNDLE.model)
    changed = CALM.model_copy(update={"payload": 1.0})
    for bundle, task, missing in (
        (BUNDLE, TASKS[0], False),
        (other, TASKS[0], True),
        (BUNDLE, (FIRST, changed, 0), True),
        (BUNDLE, ("drake", CALM, 0), True),
        (BUNDLE, (FIRST, CALM, 1), True),
    ):
        assert bool(Results(path, bundle).missing([task])) is missing


def sim2real_eval(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("sim2real"), "eval", "go2_walk", *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


def test_the_command_judges_resumes_and_reports(alone: dict[int, Episode], tmp_path: Path) -> None:
    """Two scenarios of two trials each, done already: only the command itself is at work."""
    results, figures, page = (tmp_path / name for name in ("done.jsonl", "gate.json", "gate.html"))
    folder = tmp_path / "scenarios"
    folder.mkdir()
    for scenario in (CALM, PUSHED):
        content = scenario.model_dump(mode="json", exclude_none=True, exclude_unset=True)
        (folder / f"{scenario.name}.yaml").write_text(yaml.safe_dump(content))
    done = Results(results, BUNDLE)
    for number, task in enumerate(TASKS):
        done.add(task, alone[number])
    before = results.read_text()
    common = ("--folder", folder, "--trials", "2", "--resume", "--results", results)
    ended = sim2real_eval(*common, "--json", figures, "--html", page)
    content = json.loads(figures.read_text())
    assert [row["scenario"] for row in content["rows"]] == ["calm", "pushed"]
    assert content["sha256"] == BUNDLE.contract.sha256
    assert content["episodes"] == json.loads(json.dumps([asdict(alone[i]) for i in range(4)]))
    rates = [row["rate"] for row in content["rows"]]
    assert [check["value"] for check in content["checks"]] == rates
    assert ended.returncode == int(min(rates) < 0.85), ended.stderr
    assert results.read_text() == before
    text = page.read_text()
    assert "calm \\u00b7 mujoco" in text
    assert "data:video/mp4;base64," in text or "No film" in text
    assert "src=" not in text.split("<main>")[0]
    assert sim2real_eval(*common, "--threshold", "0").returncode == 0


def test_the_command_refuses_in_words(tmp_path: Path) -> None:
    refused = sim2real_eval("--folder", tmp_path, "--store")
    assert refused.returncode == 2
    assert "--store: a launch trusts" in refused.stderr
    refused = sim2real_eval("--scenarios", "moonwalk")
    assert refused.returncode == 2
    assert "no scenario moonwalk" in refused.stderr
