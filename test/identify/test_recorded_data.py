"""A log becomes rows: repeats are no news, losses are filled in, commands stay with their state."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.import_log import import_log
from sim2real_deploy.bags.recorded import Recorded
from sim2real_deploy.cli import app
from sim2real_deploy.cli import identify as _command  # noqa: F401  (registers itself)
from sim2real_deploy.errors import Refusal
from sim2real_deploy.identify.pipeline import check
from sim2real_deploy.identify.recording import from_arrays, from_bag
from sim2real_deploy.identify.smoothing import slope, smooth
from sim2real_deploy.robots import load_robot

ROBOT = load_robot("go2")
ROWS = 300
MAP = "{time: time, state: {q: q, dq: dq, torque: tau}, command: {q: q_des, kp: kp, kd: 0.5}}"


def log() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    t = 0.002 * np.arange(ROWS)
    q = 0.3 * np.sin(3 * t)[:, None] + 0.01 * np.arange(12)
    q = q + 1e-4 * rng.standard_normal(q.shape)
    dq = 0.9 * np.cos(3 * t)[:, None] + np.zeros(12)
    tau = rng.standard_normal((ROWS, 12))
    return {"time": 100.0 + t, "q": q, "dq": dq, "tau": tau, "q_des": q + 0.1, "kp": np.array(25.0)}


def imported(tmp_path: Path, content: dict[str, np.ndarray], mapping: str = MAP) -> Path:
    np.savez(tmp_path / "log.npz", **content)
    (tmp_path / "map.yaml").write_text(mapping)
    import_log(tmp_path / "log.npz", tmp_path / "map.yaml", tmp_path / "bag")
    return tmp_path / "bag"


@pytest.mark.parametrize("jitter", [0.0, 0.0006])
def test_states_that_were_logged_late_are_put_on_even_rows(jitter: float) -> None:
    rng = np.random.default_rng(0)
    even = np.arange(2000) * 0.002
    sampled = even + jitter * rng.standard_normal(len(even))

    def path(t: np.ndarray) -> np.ndarray:
        return 0.3 * np.sin(2 * np.pi * 2 * t[:, None] + np.arange(12))

    read = path(sampled) + 0.0001 * rng.standard_normal((len(even), 12))
    gains = {"kp": np.full(len(even), 25.0), "kd": np.full(len(even), 1.0)}
    recording = from_arrays("late", ROBOT, {"q": read, "target_q": path(even), **gains})
    off = [np.sqrt(np.mean((q - path(even)) ** 2)) for q in (read, recording["q"])]
    if jitter:
        assert off[1] < 0.5 * off[0]
    else:
        assert (recording["q"] == read).all()


def test_a_log_of_others_becomes_a_bag_that_says_the_same(tmp_path: Path) -> None:
    content = log()
    recording = from_bag(Recorded(Bag(imported(tmp_path, content))))
    assert len(recording) == ROWS
    assert recording.fresh.all()
    for ours, theirs in (("q", "q"), ("dq", "dq"), ("torque", "tau"), ("target_q", "q_des")):
        np.testing.assert_allclose(recording[ours], content[theirs], atol=1e-6)
    assert recording["kp"].min() == 25.0
    assert recording["kd"].max() == 0.5


def test_repeats_are_left_out_and_bursts_are_put_back(tmp_path: Path) -> None:
    content = log()
    for name in ("q", "dq", "tau"):
        content[name][100] = content[name][99]  # the host read the same state twice
    content["time"][200:204] += (0.004, 0.002, 0.0005, 0.0)  # four came at once
    content["time"][250:] += 0.1  # and fifty were lost
    recording = from_bag(Recorded(Bag(imported(tmp_path, content))))
    assert not recording.fresh[100]
    np.testing.assert_allclose(recording["target_q"][95:105], content["q_des"][95:105], atol=1e-6)
    assert recording.fresh[101:250].all()
    lost = np.flatnonzero(~recording.fresh)
    assert len(lost) == pytest.approx(1 + 47, abs=2)
    np.testing.assert_allclose(recording["q"][201], content["q"][201], atol=1e-6)


def test_another_order_of_joints_is_put_right(tmp_path: Path) -> None:
    content = log()
    names = ROBOT.joint_orders["isaac"]
    order = [ROBOT.joint_names.index(name) for name in names]
    theirs = {**content, "q": content["q"][:, order]}
    mapping = "{joint_order: isaac, state: {q: q}, command: {q: {column: q_des, scale: 2.0}}}"
    recording = from_bag(Recorded(Bag(imported(tmp_path, theirs, mapping))))
    np.testing.assert_allclose(recording["q"], content["q"], atol=1e-6)


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ("{state: {q: position}}", "has no column 'position'; it has: time, q, dq"),
        ("{state: {dq: dq}}", "state.q: is missing"),
        ("{state: {q: q, mood: q}}", "state.mood: unknown"),
        ("{state: {q: time}, joint_order: mine}", "joint_order: is none of sdk, gym, isaac"),
        ("{stat: {q: q}}", "stat: unknown key"),
    ],
)
def test_a_bad_map_is_refused_in_words(tmp_path: Path, mapping: str, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        imported(tmp_path, log(), mapping)
    assert not (tmp_path / "bag").exists()


def test_what_cannot_be_identified_is_refused_in_words() -> None:
    content = log()
    columns = {"q": content["q"], "dq": content["dq"], "target_q": content["q_des"]}
    gains = {"kp": np.full(ROWS, 25.0), "kd": np.full(ROWS, 0.5)}
    good = from_arrays("good", ROBOT, {**columns, **gains, "torque": content["tau"]})
    check(ROBOT, [good])
    with pytest.raises(Refusal, match="holds no torque"):
        check(ROBOT, [from_arrays("no torque", ROBOT, {**columns, **gains})])
    standing = {**columns, **gains, "torque": content["tau"], "target_q": 0 * content["q"]}
    with pytest.raises(Refusal, match=r"hardly move in still.*sim2real excite"):
        check(ROBOT, [from_arrays("still", ROBOT, standing)])
    with pytest.raises(Refusal, match="good: is of go2, not of g1"):
        check(load_robot("g1"), [good])


@pytest.mark.parametrize(
    ("mapping", "options", "words"),
    [
        ("{state: {q: q}, command: {q: q_des, kp: kp, kd: 0.5}}", [], "holds no torque"),
        ("{state: {q: q, torque: tau}, command: {q: 0.0, kp: kp, kd: 0.5}}", [], "hardly move"),
        (MAP, ["--robot", "g1"], "is of go2, not of g1"),
    ],
)
def test_a_bag_that_says_nothing_writes_nothing(
    tmp_path: Path, mapping: str, options: list[str], words: str
) -> None:
    bag, twin, page = imported(tmp_path, log(), mapping), tmp_path / "t.yaml", tmp_path / "t.html"
    arguments = ["identify", str(bag), "--output", str(twin), "--html", str(page), *options]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, Refusal)  # told in words, without a traceback, by main()
    assert words in str(result.exception)
    assert not twin.exists()
    assert not page.exists()


def test_a_twin_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    twin = tmp_path / "t.yaml"
    twin.write_text("mine")
    result = CliRunner().invoke(app, ["identify", str(tmp_path / "bag"), "--output", str(twin)])
    assert isinstance(result.exception, Refusal)
    assert "already exists" in str(result.exception)
    assert twin.read_text() == "mine"


def test_smoothing_keeps_a_parabola_and_its_slope() -> None:
    t = 0.002 * np.arange(200)[:, None]
    curve = 1 + 2 * t + 3 * t * t
    np.testing.assert_allclose(smooth(curve)[10:-10], curve[10:-10], atol=1e-9)
    np.testing.assert_allclose(slope(curve, 0.002)[10:-10], (2 + 6 * t)[10:-10], atol=1e-6)


def _not_finite(content: dict[str, np.ndarray]) -> None:
    content["q"][7, 3] = np.nan


def _backwards(content: dict[str, np.ndarray]) -> None:
    content["time"] = content["time"][::-1]


def _too_few_times(content: dict[str, np.ndarray]) -> None:
    content["time"] = content["time"][:9]


def _words(content: dict[str, np.ndarray]) -> None:
    content["tau"] = np.full((ROWS, 12), "high")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_not_finite, "column 'q': has no finite number in row 7"),
        (_backwards, "time: does not rise"),
        (_too_few_times, "time: has 9 rows, not 300"),
        (_words, "column 'tau': .* numbers are needed"),
    ],
)
def test_a_log_that_says_nonsense_is_refused(tmp_path: Path, spoil: object, said: str) -> None:
    content = log()
    spoil(content)  # type: ignore[operator]
    with pytest.raises(Refusal, match=said):
        imported(tmp_path, content)
    assert not (tmp_path / "bag").exists()


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_log_that_was_cut_short_is_refused(tmp_path: Path, share: float) -> None:
    np.savez(tmp_path / "log.npz", **log())
    whole = (tmp_path / "log.npz").read_bytes()
    (tmp_path / "log.npz").write_bytes(whole[: round(share * len(whole))])
    (tmp_path / "map.yaml").write_text(MAP)
    with pytest.raises(Refusal, match="not an npz file we can read"):
        import_log(tmp_path / "log.npz", tmp_path / "map.yaml", tmp_path / "bag")
