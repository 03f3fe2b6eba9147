"""Who may walk a real robot: what is asked for above the lowest stage, and what does not do."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from sim2real_deploy.bags import BagWriter, Message, Topic, definitions
from sim2real_deploy.bringup.graph import BRINGUPS, resolve
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.clearance import LEAST_RUNS, WAIVER
from sim2real_deploy.gate.record import (
    FILE,
    GateRecord,
    GateRow,
    load_record,
    save_record,
    sha256_of,
)
from sim2real_deploy.gate.scenarios import load_scenarios
from sim2real_deploy.policy.contract import bundle_folder

pytest.importorskip("rclpy", reason="messages are made by ROS's own classes")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.serialization import serialize_message
from std_msgs.msg import String

SCENARIOS = load_scenarios()
WELL = [(0, "damping"), (2, "standing"), (4, "walking"), (34, "sitting_down"), (36, "damping")]


CONTRACT = b"kp: 30"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Only the network's bytes count here."""
    folder = tmp_path / "policies" / "mine"
    folder.mkdir(parents=True)
    (folder / "policy.onnx").write_bytes(b"a network")
    (folder / "policy.yaml").write_bytes(CONTRACT)
    return folder


def sha256(policy: Path) -> str:
    return sha256_of(policy / "policy.onnx")


def record(policy: Path, **successes: int) -> GateRecord:
    """Every scenario passed but those named, which have so many successes."""
    rows = tuple(
        GateRow(
            scenario=scenario.name,
            content=scenario.digest("go2"),
            engine="mujoco",
            runs=LEAST_RUNS,
            successes=successes.get(scenario.name, LEAST_RUNS),
            interval=(0.8, 1.0),
            flags=(),
        )
        for scenario in SCENARIOS
    )
    return GateRecord(
        policy="mine",
        sha256=sha256(policy),
        contract=sha256_of(policy / "policy.yaml"),
        robot="go2",
        version="1",
        made="today",
        threshold=0.85,
        engine="mujoco",
        rows=rows,
    )


@dataclass
class Run:
    """A recorded run as the recorder writes it, without its wire."""

    folder: Path
    sha256: str
    contract: bytes | None = CONTRACT
    stage: str = "tether"
    real: str = "true"
    modes: tuple[tuple[float, str], ...] = tuple(WELL)
    stop_s: float | None = None
    report: bool = True

    def write(self) -> Path:
        information = {"robot": "go2", "stage": self.stage, "real": self.real}
        files = {} if self.contract is None else {"policy.yaml": self.contract}
        writer = BagWriter(self.folder, {**information, "policy_sha256": self.sha256}, files)
        said = [(0.0, "/safety/state", DiagnosticStatus(message="ready"))]
        said += [(at, "/control/mode", String(data=mode)) for at, mode in self.modes]
        if self.stop_s is not None:
            stop = DiagnosticStatus(level=DiagnosticStatus.ERROR, message="fell: tilted by 1 rad")
            said += [(self.stop_s, "/safety/state", stop)]
        said += [(40.0, "/control/stats", DiagnosticArray())]
        for _, topic, message in said:
            if topic not in writer.topics:
                writer.add_topic(Topic(topic, *definitions.of_class(type(message))))
        times = [(1_700_000_000_000_000_000 + int(at * 1e9), t, m) for at, t, m in said]
        batch = [Message(ns, topic, ns, 0, serialize_message(m)) for ns, topic, m in times]
        writer.write(sorted(batch))
        writer.close()
        if self.report:
            (self.folder / "report.html").write_text("read")
        return self.folder


def launch(policy: Path, tmp_path: Path, **given: str) -> list[str]:
    arguments, graph = BRINGUPS["go2_walk"]
    asked = {"robot": "real", "interface": "eth0", "policy": str(policy), "stage": "indoor"}
    asked |= {"runs": str(tmp_path / "runs"), **given}
    return [process.name for process in graph(resolve(arguments, asked))]


def refused(policy: Path, tmp_path: Path, words: str, **given: str) -> None:
    with pytest.raises(Refusal, match=words):
        launch(policy, tmp_path, **given)


def test_the_lowest_stage_and_the_twin_are_open_to_all(policy: Path, tmp_path: Path) -> None:
    assert "control" in launch(policy, tmp_path, stage="tether")
    assert "control" in launch(policy, tmp_path, robot="twin", stage="field")


def test_a_policy_that_passed_and_walked_the_stage_below_may_rise(
    policy: Path, tmp_path: Path
) -> None:
    save_record(policy, record(policy))
    Run(tmp_path / "runs" / "1", sha256(policy)).write()
    assert "control" in launch(policy, tmp_path)
    refused(policy, tmp_path, "one at a time.*stage 'indoor'", stage="outdoor")


def test_without_a_result_only_so_many_words_help(policy: Path, tmp_path: Path) -> None:
    Run(tmp_path / "runs" / "1", sha256(policy)).write()
    refused(policy, tmp_path, "has no gate result.*sim2real eval mine --stage indoor --store")
    refused(policy, tmp_path, "has no gate result", ungated="yes")
    assert "control" in launch(policy, tmp_path, ungated=WAIVER)


def test_the_waiver_does_not_skip_a_stage(policy: Path, tmp_path: Path) -> None:
    refused(policy, tmp_path, "stages rise one at a time", ungated=WAIVER)


@pytest.mark.parametrize(("stage", "opens"), [("indoor", True), ("outdoor", False)])
def test_each_stage_asks_for_its_own_scenarios(
    policy: Path, tmp_path: Path, stage: str, opens: bool
) -> None:
    save_record(policy, record(policy, slope=0))
    below = {"indoor": "tether", "outdoor": "indoor"}[stage]
    Run(tmp_path / "runs" / "1", sha256(policy), stage=below).write()
    if opens:
        launch(policy, tmp_path, stage=stage)
    else:
        refused(policy, tmp_path, "'slope' in mujoco: 0 of 20 succeed", stage=stage)


def test_a_result_counts_for_its_own_network_and_as_it_was_written(
    policy: Path, tmp_path: Path
) -> None:
    path = save_record(policy, record(policy, flat=3))
    refused(policy, tmp_path, "'flat' in mujoco: 3 of 20")
    content = json.loads(path.read_text())
    flat = next(row for row in content["rows"] if row["scenario"] == "flat")
    flat["successes"] = 20
    path.write_text(json.dumps(content))
    refused(policy, tmp_path, "changed after it was written")
    save_record(policy, record(policy))
    (policy / "policy.onnx").write_bytes(b"another network")
    refused(policy, tmp_path, "of another network")
    save_record(policy, record(policy))
    (policy / "policy.yaml").write_text("kp: 90")
    refused(policy, tmp_path, "policy.yaml has changed since")
    path.write_text("{}")
    refused(policy, tmp_path, "not a result of the gate")


def test_few_runs_missing_scenarios_and_changed_ones_do_not_do(
    policy: Path, tmp_path: Path
) -> None:
    whole = record(policy)
    first, *others = whole.rows
    few = first.model_copy(update={"runs": 5, "successes": 5})
    changed = first.model_copy(update={"content": "0" * 16})
    for rows, words in (
        ((few, *others), "5 runs, 20 are needed"),
        (tuple(others), f"'{first.scenario}' was not tried"),
        ((changed, *others), "have changed since"),
    ):
        save_record(policy, whole.model_copy(update={"rows": rows}))
        refused(policy, tmp_path, words)


def test_another_engine_stands_beside_and_is_not_judged(policy: Path, tmp_path: Path) -> None:
    Run(tmp_path / "runs" / "1", sha256(policy)).write()
    whole = record(policy)
    beside = whole.rows[0].model_copy(update={"engine": "drake", "successes": 0})
    save_record(policy, whole.model_copy(update={"rows": (*whole.rows, beside)}))
    assert launch(policy, tmp_path)
    save_record(policy, whole.model_copy(update={"rows": (beside, *whole.rows[1:])}))
    refused(policy, tmp_path, f"'{beside.scenario}' was not tried")


def test_a_stored_result_reads_back(policy: Path) -> None:
    whole = record(policy, stairs=2)
    save_record(policy, whole)
    assert load_record(policy) == whole
    assert whole.judged()["stairs"].rate == 0.1
    assert (policy / FILE).is_file()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"real": "false"}, "not on a real robot"),
        ({"stage": "field"}, "at stage 'field'"),
        ({"sha256": "0" * 64}, "another policy's"),
        ({"contract": b"kp: 90"}, "policy.yaml has changed since"),
        ({"contract": None}, "policy.yaml has changed since"),
        ({"stop_s": 20.0}, "safety stopped it: fell"),
        ({"modes": ((0, "damping"), (1, "walking"), (5, "damping"))}, "walked 4 s"),
        ({"report": False}, "sim2real report"),
    ],
)
def test_a_last_run_that_went_otherwise_is_refused_in_words(
    policy: Path, tmp_path: Path, changes: dict, words: str
) -> None:
    save_record(policy, record(policy))
    run = Run(tmp_path / "elsewhere" / "1", sha256(policy))
    for name, value in changes.items():
        setattr(run, name, value)
    refused(policy, tmp_path, words, last_run=str(run.write()))


def test_trying_the_stop_before_the_walk_is_no_fault(policy: Path, tmp_path: Path) -> None:
    save_record(policy, record(policy))
    Run(tmp_path / "runs" / "1", sha256(policy), stop_s=1.0).write()
    assert launch(policy, tmp_path)


def test_the_newest_run_counts_not_the_best(policy: Path, tmp_path: Path) -> None:
    save_record(policy, record(policy))
    good = Run(tmp_path / "runs" / "1", sha256(policy)).write()
    bad = Run(tmp_path / "runs" / "2", sha256(policy), stop_s=20.0).write()
    refused(policy, tmp_path, "the last run at stage 'tether'.*safety stopped it")
    assert launch(policy, tmp_path, last_run=str(good))
    shutil.rmtree(bad)
    assert launch(policy, tmp_path)


def test_a_walk_that_ended_with_the_recording_counts(policy: Path, tmp_path: Path) -> None:
    save_record(policy, record(policy))
    Run(tmp_path / "runs" / "1", sha256(policy), modes=((0, "damping"), (4, "walking"))).write()
    assert launch(policy, tmp_path)


@pytest.mark.parametrize("name", ["go2_walk", "go2_rough"])
def test_the_stored_result_of_a_shipped_policy_still_holds(name: str) -> None:
    """A change to robot, twin, stage or events voids it: run `sim2real eval NAME --store` again."""
    record = load_record(bundle_folder(name))
    scenarios = {scenario.name: scenario for scenario in SCENARIOS}
    assert [
        row.scenario
        for row in record.rows
        if row.content != scenarios[row.scenario].digest(record.robot)
    ] == []
