"""Scenarios as data: what is there, what a file may not say, and what chance makes of it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sim2real_deploy import paths
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate import scenarios
from sim2real_deploy.gate.scenarios import (
    Scenario,
    load_scenarios,
    needed_for,
    scenario_set,
)
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.files import load_imperfections

GO2 = load_robot("go2")
PLAIN = {
    "name": "plain",
    "why": "to see",
    "if_failed": "it fails",
    "needed_from": "indoor",
    "commands": [{"velocity": [0.5, 0.0, 0.0]}],
}


def write(folder: Path, **changes: object) -> Path:
    path = folder / "plain.yaml"
    path.write_text(yaml.safe_dump({**PLAIN, **changes}))
    return path


def plain(tmp_path: Path, **changes: object) -> Scenario:
    write(tmp_path, **changes)
    return load_scenarios(["plain"], tmp_path)[0]


def test_every_condition_of_the_field_is_there() -> None:
    by_name = {scenario.name: scenario for scenario in load_scenarios()}
    assert by_name["flat"].commands[0].velocity == (1.0, 0.0, 0.0)
    assert {abs(command.velocity[2]) for command in by_name["turn"].commands} == {0.5}
    assert by_name["slope"].floor.slope == pytest.approx(0.2618, abs=1e-4)  # 15 degrees
    assert by_name["stairs"].floor.rise == 0.15
    forces = [s.pushes.force for s in by_name.values() if s.pushes is not None]
    assert sorted(forces) == [30, 50, 300]
    base, robot = load_imperfections(), load_robot("go2")
    assert by_name["delay_20ms"].conditions(robot, 0).imperfections.command_bus.delay == 0.02
    assert by_name["lossy_bus"].conditions(robot, 0).imperfections.state_bus.loss > 0.03
    noisy = by_name["noisy_sensors"].conditions(robot, 0).imperfections
    assert noisy.encoders.position > 5 * base.encoders.position
    hot = by_name["hot_low_battery"].conditions(robot, 0).imperfections
    assert hot.motors.heat.start > robot.temperature.warn
    assert hot.power.charge < 0.3
    assert {"rough", "payload", "start_uneven", "low_friction", "carpet"} < by_name.keys()


def test_a_mistake_in_a_file_is_refused_by_its_key(tmp_path: Path) -> None:
    for changes, words in (
        ({"comands": []}, "plain.yaml: comands: unknown key"),
        ({"commands": []}, "plain.yaml: commands"),
        ({"name": "other"}, "must be that of the file"),
        ({"imperfections": {"motors": {"lga": 1}}}, "imperfections: motors.lga: unknown key"),
        ({"preset": "none"}, "no twin 'none'"),
        ({"stage": "moon"}, "stage 'moon'"),
        ({"needed_from": "moon"}, "stage 'moon'"),
        ({"floor": {"kind": "lava"}}, "floor.kind"),
    ):
        write(tmp_path, **changes)
        with pytest.raises(Refusal, match=words):
            load_scenarios(["plain"], tmp_path)
    with pytest.raises(Refusal, match=r"no scenario moonwalk; there are: .*flat"):
        load_scenarios(["moonwalk"])


def test_conditions_come_from_scenario_and_trial_alone(tmp_path: Path) -> None:
    scenario = plain(tmp_path)
    first, again, second = (scenario.conditions(GO2, trial) for trial in (0, 0, 1))
    assert first == again
    assert first.seed != second.seed
    assert first.floor.friction != second.floor.friction
    assert first.imperfections.motors.strength != second.imperfections.motors.strength
    other = scenario.model_copy(update={"name": "other"})
    assert other.conditions(GO2, 0).seed != first.seed
    still = plain(tmp_path, spread=0.0)
    assert still.conditions(GO2, 0).floor.friction == still.floor.friction


def test_a_rough_floor_is_another_in_each_trial_and_a_weak_motor_goes_round(tmp_path: Path) -> None:
    scenario = plain(tmp_path, floor={"kind": "rough"}, weak_motor=0.5)
    conditions = [scenario.conditions(GO2, trial) for trial in range(GO2.joint_count)]
    assert len({condition.floor.seed for condition in conditions}) == GO2.joint_count
    weak = [tuple(condition.imperfections.motors.weak) for condition in conditions]
    assert sorted(weak) == sorted((name,) for name in GO2.joint_names)


def test_words_change_no_digest_and_everything_else_does(tmp_path: Path) -> None:
    base = plain(tmp_path).digest("go2")
    for changes, same in (
        ({"why": "another"}, True),
        ({"if_failed": "another"}, True),
        ({"payload": 1.0}, False),
        ({"success": {"linear_error": 0.3}}, False),
        ({"imperfections": {"imu": {"gyro": 0.5}}}, False),
    ):
        assert (plain(tmp_path, **changes).digest("go2") == base) is same


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("robots/go2.yaml", "base_height: 0.30", "base_height: 0.31"),
        ("twins/go2.yaml", "charge: 0.95", "charge: 0.94"),
        ("stages.yaml", "torque_fraction: 0.9", "torque_fraction: 0.88"),
        ("safety.yaml", "go2: {}", "go2: {fall: {threshold: 0.85}}"),
    ],
)
def test_a_digest_covers_the_files_behind_a_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, before: str, after: str
) -> None:
    scenario = load_scenarios(["flat"])[0]
    base = scenario.digest("go2")
    copy = tmp_path / "config"
    shutil.copytree(paths.config_file(""), copy)
    monkeypatch.setattr(paths, "config_file", lambda relative: copy / relative)
    scenarios._in_other_files.cache_clear()
    assert scenario.digest("go2") == base
    text = (copy / file).read_text()
    assert before in text
    (copy / file).write_text(text.replace(before, after, 1))
    scenarios._in_other_files.cache_clear()
    assert scenario.digest("go2") != base
    scenarios._in_other_files.cache_clear()


def test_clearance_needs_no_simulator() -> None:
    """It runs on the robot's own computer, where mujoco is not installed."""
    code = "import sys; sys.modules['mujoco'] = None; import sim2real_deploy.gate.clearance"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_set_names_scenarios_that_there_are() -> None:
    seven = load_scenarios(scenario_set("field7"))
    assert {scenario.name for scenario in seven} == {
        *("flat", "turn", "rough", "slope", "stairs", "push_30", "push_50"),
    }
    assert len(load_scenarios(scenario_set("terrain"))) == 8
    with pytest.raises(Refusal, match="no set 'field8'; there are: field7"):
        scenario_set("field8")


def test_a_stage_needs_its_own_scenarios_and_those_below() -> None:
    every = load_scenarios()
    counts = [len(needed_for(stage, every)) for stage in ("tether", "indoor", "outdoor", "field")]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] == sum(scenario.needed_from is not None for scenario in every)
    assert "stairs_20" not in [scenario.name for scenario in needed_for("field", every)]
    names = {scenario.name for scenario in needed_for("indoor", every)}
    assert {"flat", "turn", "push_30", "push_50", "start_uneven", "delay_20ms"} <= names
    assert not names & {"stairs", "slope"}
