"""Ranges follow from what was identified; identified figures reach training joint by joint."""

import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml

from sim2real_deploy.cli import main
from sim2real_deploy.errors import Refusal
from sim2real_deploy.identify.figures import figures_of
from sim2real_deploy.robots import load_robot
from sim2real_deploy.training.config import load_training
from sim2real_deploy.training.evidence import ranges_from
from sim2real_deploy.training.nominal import nominal_of
from sim2real_deploy.twin.config import Encoders, Imperfections, Motors, Trunk
from sim2real_deploy.twin.files import (
    IdentifiedFigure,
    Provenance,
    TwinFile,
    load_imperfections,
    write_twin_file,
)

ROBOT = load_robot("go2")
STRENGTH = {joint: 0.7 + 0.02 * i for i, joint in enumerate(ROBOT.joint_names)}
OFFSET = {joint: 0.01 * i for i, joint in enumerate(ROBOT.joint_names)}
FRICTION = {joint: 0.1 + 0.05 * i for i, joint in enumerate(ROBOT.joint_names)}


def identified(value: float, half: float) -> IdentifiedFigure:
    return IdentifiedFigure(verdict="identified", value=value, low=value - half, high=value + half)


def twin_file(
    scale: float = 1.0, strength_half: float = 0.12, friction: str = "identified"
) -> TwinFile:
    strength = {joint: scale * value for joint, value in STRENGTH.items()}
    findings = {
        "motors.strength": {j: identified(v, strength_half * v) for j, v in strength.items()},
        "motors.delay": {j: identified(0.012, 0.0005) for j in strength},
        "motors.friction": {
            j: IdentifiedFigure(
                verdict=friction, value=v, low=v * 0.99, high=v * 1.01, hint="hang it up"
            )
            for j, v in FRICTION.items()
        },
        "encoders.offset": {j: identified(v, 0.002) for j, v in OFFSET.items()},
        "trunk.mass": {"trunk": identified(2.0, 0.5)},
    }
    twin = Imperfections(
        motors=Motors(strength=strength, delay=0.012, friction=FRICTION),
        encoders=Encoders(offset=OFFSET),
        trunk=Trunk(mass=2.0),
    )
    provenance = Provenance(date="", version="", recordings={}, findings=findings)
    return TwinFile(robot="go2", about="test", sources={}, twin=twin, identified=provenance)


def lines_of(*files: TwinFile, gaps: tuple[dict[str, object], ...] = ()) -> dict[str, object]:
    lines = ranges_from(load_training("go2_walk"), files[0], files[1:], gaps)
    assert all(line.reason for line in lines)
    return {line.name: line for line in lines}


def test_a_range_is_as_wide_as_its_interval_spread_or_floor() -> None:
    lines = lines_of(twin_file())
    assert lines["motor_strength"].range == pytest.approx((0.88, 1.12))  # the interval
    assert lines["joint_friction"].range == pytest.approx((0.8, 1.2))  # the floor
    assert lines["payload"].range == pytest.approx((-0.5, 0.5))  # round the twin's own trunk
    centre = 0.012  # whole: nothing waits on this twin's bus
    assert lines["delay"].range == pytest.approx((centre - 0.003, centre + 0.003))
    # With the strength of each joint its gains are known, with the trunk's mass the whole weight.
    assert lines["kp"].range == lines["kd"].range == pytest.approx((0.88, 1.12))
    assert lines["link_mass"].range == pytest.approx((0.95, 1.05))
    spread = lines_of(twin_file(), twin_file(scale=1.3))
    assert spread["motor_strength"].range == pytest.approx((0.7, 1.3))
    assert "bags differ" in spread["motor_strength"].reason


def test_what_was_not_excited_keeps_its_range_and_says_why() -> None:
    lines = lines_of(twin_file(friction="not excited"))
    kept = load_training("go2_walk").randomisation
    assert lines["joint_friction"].range == kept.joint_friction
    assert "not excited" in lines["joint_friction"].reason
    assert "hang it up" in lines["joint_friction"].reason
    assert lines["centre_of_mass"].range == kept.centre_of_mass
    assert lines["restitution"].range == kept.restitution
    assert lines["gravity_tilt"].range == kept.gravity_tilt


def test_a_robot_that_was_not_weighed_keeps_the_range_of_its_links() -> None:
    file = twin_file()
    assert file.identified is not None
    findings = {k: v for k, v in file.identified.findings.items() if k != "trunk.mass"}
    hung = file.model_copy(
        update={"identified": file.identified.model_copy(update={"findings": findings})}
    )
    kept = load_training("go2_walk").randomisation
    assert lines_of(hung)["link_mass"].range == kept.link_mass


def test_the_delay_of_a_twin_is_the_one_that_identification_means() -> None:
    for twin in (load_imperfections(), Imperfections(motors=Motors(delay=0.0105))):
        assert nominal_of(twin, ROBOT).delay == pytest.approx(figures_of(twin, ROBOT).delay.mean())


def test_a_floor_that_slips_widens_friction_downwards() -> None:
    slipped = {"causes": [{"name": "slippery floor", "size": 0.25}]}
    assert lines_of(twin_file(), gaps=(slipped,))["friction"].range[0] == pytest.approx(0.2)
    assert lines_of(twin_file())["friction"].range[0] == 0.3


def test_a_twin_that_was_not_identified_is_refused() -> None:
    bare = twin_file().model_copy(update={"identified": None})
    with pytest.raises(Refusal, match="was not identified"):
        ranges_from(load_training("go2_walk"), bare)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["sim2real", "randomise", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def test_the_command_writes_a_config_that_training_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin, output = tmp_path / "robot.yaml", tmp_path / "train.yaml"
    write_twin_file(twin, twin_file())
    assert run(monkeypatch, "--from", twin, "--output", output) == 0
    config = load_training(output)
    assert config.twin == str(twin.resolve())
    assert config.randomisation.motor_strength == pytest.approx((0.88, 1.12))
    written = output.read_text().splitlines()
    ranges = yaml.safe_load(output.read_text())["randomisation"]
    for name, value in ranges.items():
        if isinstance(value, list) and not name.startswith("push"):
            row = next(i for i, text in enumerate(written) if text.startswith(f"  {name}: ["))
            assert written[row - 1].startswith("  # "), name
    before = output.read_text()
    assert run(monkeypatch, "--from", twin, "--output", output) == 2
    assert output.read_text() == before


def test_centres_reach_training_joint_by_joint(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from sim2real_deploy.training.environment import Environment

    path = tmp_path / "robot.yaml"
    write_twin_file(path, twin_file())
    config = load_training("go2_walk")
    plain = Environment(config, ROBOT, 2, seed=0).physics
    centred = Environment(config.model_copy(update={"twin": str(path)}), ROBOT, 2, seed=0).physics
    drawn = centred.drawn
    np.testing.assert_allclose(
        drawn.strength / drawn["motor_strength"], np.tile(list(STRENGTH.values()), (2, 1))
    )
    np.testing.assert_allclose(
        drawn.offset - drawn["joint_offset"], np.tile(list(OFFSET.values()), (2, 1))
    )
    base = mujoco.mj_name2id(plain.plain[0], mujoco.mjtObj.mjOBJ_BODY, "base")
    heavier = centred.plain[0].body_mass[base] - plain.plain[0].body_mass[base]
    assert heavier == pytest.approx(2.0)
    np.testing.assert_allclose(
        centred.plain[0].dof_frictionloss[6:], list(FRICTION.values()), rtol=1e-6
    )
