"""Reports and exports of a run: complete, small, and seen in a real browser."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from rcl_interfaces.msg import Log
from rclpy.serialization import serialize_message

from sim2real_deploy.analysis.export import export
from sim2real_deploy.analysis.plots import POINTS, Line, lines, spans
from sim2real_deploy.analysis.report import write_report
from sim2real_deploy.analysis.twin_replay import replay_in_twin
from sim2real_deploy.bags import Bag, Message, Topic, definitions
from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.bags.writer import BagWriter
from sim2real_deploy.cli import main
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.config import Imperfections, Motors
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.robot import TwinRobot
from support.simulated_run import record_walk

Command = Callable[..., tuple[int, str]]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def page(walk_bag: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(Bag(walk_bag), tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The `sim2real` command as its entry point runs it: exit code and all it said."""

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["sim2real", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out + said.err

    return run


def content_of(page: Path) -> dict[str, object]:
    found = re.search(r'type="application/json">(.*?)</script>', page.read_text(), re.S)
    assert found
    return json.loads(found[1])


def test_the_report_tells_what_the_run_was(page: Path) -> None:
    content = content_of(page)
    sections = {section["title"]: section for section in content["sections"]}
    modes = [row[2] for row in sections["Timeline"]["tables"][0]["rows"]]
    up, down = ["passive", "standing_up", "standing"], ["slowing_down", "sitting_down", "damping"]
    assert modes == [*up, "walking", *down]
    assert len(sections["Joint tracking"]["plots"]) == 12
    assert sections["Recording"]["tables"][0]["rows"][0][1:] == [0.0, "ok"]
    assert sections["Latency"]["text"].startswith("0 of ")
    gait = sections["Gait"]["tables"][0]["rows"]
    assert [row[0] for row in gait] == ["FR", "FL", "RR", "RL"]
    assert all(1.0 < row[1] < 4.0 for row in gait)  # steps a second
    assert "Observations against training" in sections


def test_the_report_begins_with_what_a_person_can_act_on(page: Path) -> None:
    first = content_of(page)["sections"][0]
    assert first["title"] == "Summary"
    told = re.match(r"Walked ([\d.]+) m in ([\d.]+) s", first["text"])
    assert told
    assert float(told[1]) / float(told[2]) == pytest.approx(0.4, abs=0.1)
    assert "Safety never had to stop it" in first["text"]
    assert first["tables"][0]["rows"] == [["nothing out of the ordinary", ""]]


@pytest.mark.parametrize(("preset", "verdict"), [("default", "ok: this twin"), ("", "NOT OK")])
def test_only_the_loss_of_a_lossy_twin_is_in_order(
    preset: str, verdict: str, tmp_path: Path
) -> None:
    robot = load_robot("go2")
    lossy = TwinRobot(robot, imperfections=load_imperfections())
    record_walk(tmp_path / "bag", 1.0, twin=lossy, preset=preset)
    content = content_of(write_report(Bag(tmp_path / "bag"), tmp_path / "report.html"))
    sections = {section["title"]: section for section in content["sections"]}
    lost, said = sections["Recording"]["tables"][0]["rows"][0][1:]
    assert lost > 0
    assert said.startswith(verdict)
    look_at = [row[1] for row in sections["Summary"]["tables"][0]["rows"]]
    assert ("Recording" in look_at) == (preset == "")


def test_the_report_needs_nothing_from_outside(page: Path) -> None:
    text = page.read_text()
    assert not re.search(r'(src|href)\s*=\s*["\']?(https?:)?//', text)
    assert len(text) < 3_000_000


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_a_real_browser_draws_the_report(page: Path, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-background-networking"]
        )
        tab = browser.new_page(viewport={"width": 1200, "height": 900})
        errors: list[str] = []
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto(page.as_uri())
        tab.wait_for_selector("body[data-ready]")
        plots = sum(len(section["plots"]) for section in content_of(page)["sections"])
        assert tab.evaluate("Number(document.body.dataset.ready)") == plots
        colours = (
            "(c) => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size"
        )
        assert tab.locator("canvas").nth(1).evaluate(colours) > 20  # a line was drawn, not a void
        tab.locator("canvas").nth(1).scroll_into_view_if_needed()
        box = tab.locator("canvas").nth(1).bounding_box()
        assert box
        for step, action in ((0.3, tab.mouse.down), (0.5, tab.mouse.up)):
            tab.mouse.move(box["x"] + box["width"] * step, box["y"] + 40)
            action()
        low, high = tab.evaluate("view")
        assert 0 < low < high < tab.evaluate("report.duration")  # the drag zoomed in
        tab.screenshot(path=tmp_path / "report.png")
        browser.close()
    assert errors == []


def test_no_peak_is_lost_in_a_plot() -> None:
    seconds = np.arange(1_000_000) / 500
    values = np.sin(seconds)
    values[123_456] = 50.0
    plot = lines("t", "", [Line("x", seconds, values)])["series"][0]
    assert plot["high"] == pytest.approx(50.0, rel=1e-4)
    assert len(plot["data"]) < POINTS * 2 * 4 / 3 + 4


def test_runs_of_equal_labels_are_spans() -> None:
    assert spans(np.array([0.0, 1, 2, 3]), ["a", "a", "", "b"], 9.0) == [
        (0.0, 2.0, "a"),
        (3.0, 9.0, "b"),
    ]


def test_exports_hold_the_wire_by_joint_name(walk_bag: Path, tmp_path: Path) -> None:
    bag = Bag(walk_bag)
    files = {path.name for path in export(bag, tmp_path / "parquet", "parquet")}
    assert {"wire__lowstate.parquet", "control__ticks.parquet", "odom.parquet"} <= files
    table = pyarrow.parquet.read_table(tmp_path / "parquet/wire__lowstate.parquet").to_pydict()
    states = Recorded(bag).load(["wire/lowstate"])["wire/lowstate"]
    np.testing.assert_array_equal(np.float32(table["q.FL_calf_joint"]), states["q"][:, 5])
    np.testing.assert_array_equal(table["log_ns"], states.log_ns)
    export(bag, tmp_path / "numpy", "numpy")
    with np.load(tmp_path / "numpy/wire__lowcmd.npz") as archive:
        assert len(archive["kp.FR_hip_joint"]) == len(archive["publish_ns"])
    modes = pyarrow.parquet.read_table(tmp_path / "parquet/control__mode.parquet").to_pydict()
    assert "walking" in modes["data"]


def test_exports_hold_ros_messages_of_any_text(tmp_path: Path) -> None:
    log = Log(name="driver", msg="motor at 80 °C", file="driver.py")
    writer = BagWriter(tmp_path / "bag", {"robot": "go2"})
    writer.add_topic(Topic("/rosout", *definitions.of_class(Log)))
    writer.write([Message(1, "/rosout", 1, 0, serialize_message(log))])
    writer.close()
    bag = Bag(tmp_path / "bag")
    (parquet,) = export(bag, tmp_path / "parquet", "parquet")
    assert pyarrow.parquet.read_table(parquet).to_pydict()["msg"] == [log.msg]
    (archive,) = export(bag, tmp_path / "numpy", "numpy")
    with np.load(archive) as columns:
        assert columns["file"].tolist() == [b"driver.py"]


def test_the_twin_follows_a_recording_of_itself(walk_bag: Path) -> None:
    recorded = Recorded(Bag(walk_bag))
    same = replay_in_twin(recorded, Imperfections(), start_s=2.0, seconds=3.0, window_s=0.5)
    assert same.open_loop.parted_after_s == float("inf")
    assert same.windowed.joints[same.windowed.at(0.1)].max() < 0.05
    assert same.windowed.tilt[same.windowed.at(0.1)] < 1.0
    weak = Imperfections(motors=Motors(strength=0.7))
    parted = replay_in_twin(recorded, weak, start_s=2.0, seconds=3.0, window_s=0.5)
    at = parted.windowed.at(0.2)
    assert parted.windowed.joints[at].mean() > 2 * same.windowed.joints[at].mean()


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay", "{bag}", "--policy"],
        ["replay", "{bag}", "--twin", "--seconds", "1", "--window", "0.2"],
        ["report", "{bag}", "--output", "{out}/r.html"],
        ["export", "{bag}", "--output", "{out}/x", "--format", "numpy"],
    ],
)
def test_the_commands_work(
    arguments: list[str], walk_bag: Path, tmp_path: Path, command: Command
) -> None:
    code, said = command(*(part.format(bag=walk_bag, out=tmp_path) for part in arguments))
    assert code == 0, said
    assert said


@pytest.mark.parametrize("verb", ["report", "export", "replay", "mend"])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda bag: shutil.rmtree(bag), "there is no such bag"),
        (lambda bag: (bag / "walk_0.mcap").write_bytes(b""), "is empty"),
        (lambda bag: (bag / "walk_0.mcap").write_bytes(b"x" * 5000), "not an MCAP file"),
    ],
)
def test_what_is_no_bag_gets_words_and_no_traceback(
    verb: str, damage, words: str, walk_bag: Path, tmp_path: Path, command: Command
) -> None:
    bag = tmp_path / "walk"
    shutil.copytree(walk_bag, bag)
    damage(bag)
    code, said = command(verb, str(bag))
    assert code == 2
    assert words in said
