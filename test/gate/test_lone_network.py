"""A network without a description: its robot by its actions, its task by walking."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sim2real_deploy.cli import app
from sim2real_deploy.cli import policy as _verb  # noqa: F401  registers itself
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate import lone_network
from sim2real_deploy.policy.bundle import load_own_bundle
from sim2real_deploy.policy.importers import LoneNetwork, read_draft
from sim2real_deploy.policy.importers.assemble import import_policy
from sim2real_deploy.policy.importers.draft import Answers
from sim2real_deploy.policy.skeleton import presets, shape_of, write_skeleton
from sim2real_deploy.robots import load_robot
from support.import_samples import SHARED, refuse_torch
from support.policy_samples import network

samples = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no sample policies in {SHARED}")


def put(path: Path, observations: int, actions: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(network(observations, actions))
    return path


def robots(path: Path, named: str = "") -> list[str]:
    return [spec.name for spec in lone_network.robots_for(path, named, shape_of(path))]


def test_its_robot_has_as_many_joints_as_it_has_actions(tmp_path: Path) -> None:
    assert robots(put(tmp_path / "a.onnx", 57, 16)) == ["go2w"]
    assert robots(put(tmp_path / "b.onnx", 480, 29)) == ["g1"]
    assert robots(put(tmp_path / "c.onnx", 45, 12)) == ["g1", "go2"]  # a G1's legs are 12 joints
    assert robots(put(tmp_path / "d.onnx", 45, 7)) == []
    assert robots(put(tmp_path / "b2" / "policy.onnx", 45, 12)) == ["b2"]
    assert robots(tmp_path / "c.onnx", "h1_2") == ["h1_2"]


@pytest.mark.parametrize("robot", ["b2", "g1", "go2", "go2w", "h1", "h1_2"])
def test_each_stock_task_is_one_of_its_robot(robot: str, tmp_path: Path) -> None:
    """Its values fit the robot's joints and their bounds; those that it does not move are held."""
    spec = load_robot(robot)
    for name, task in presets(robot).items():
        size = 9 + 3 * task.count + (2 if task.clock else 0)
        source = put(tmp_path / f"{name}.onnx", size, task.count)
        write_skeleton(source, spec, tmp_path / name, name)
        contract = import_policy(
            tmp_path / name, tmp_path / f"{name}_out", Answers(), refuse_torch
        ).bundle.contract
        held = [one.joint for one in contract.held]
        assert sorted([*contract.joints, *held]) == sorted(spec.joint_names)
        assert list(contract.action.speeds) == [j.name for j in spec.joints if j.wheel]


def test_a_network_in_two_forms_is_one_and_in_two_files_two(tmp_path: Path) -> None:
    put(tmp_path / "run" / "policy.onnx", 45, 12)
    (tmp_path / "run" / "policy.pt").write_bytes(b"the same as TorchScript")
    with pytest.raises(LoneNetwork) as alone:
        read_draft(tmp_path / "run", Answers())
    assert alone.value.network == tmp_path / "run" / "policy.onnx"
    put(tmp_path / "run" / "other.onnx", 45, 12)
    with pytest.raises(Refusal, match=r"For one of them(.|\n)*other\.onnx(.|\n)*policy\.onnx"):
        read_draft(tmp_path / "run", Answers())


def test_what_fits_no_stock_task_is_refused_with_its_shape(tmp_path: Path) -> None:
    source = put(tmp_path / "policy.onnx", 53, 16)
    with pytest.raises(Refusal, match=r"53 observations for 16 actions.*policy new"):
        lone_network.import_as_stock_task(
            source, "", tmp_path / "out", "mine", shape_of(source), refuse_torch, [].append
        )
    source = put(tmp_path / "arm.onnx", 20, 7)
    with pytest.raises(Refusal, match="7 actions: no robot"):
        lone_network.import_as_stock_task(
            source, "", tmp_path / "out", "mine", shape_of(source), refuse_torch, [].append
        )
    assert not (tmp_path / "out").exists()


def test_one_that_walks_as_no_stock_task_is_refused_with_what_was_tried(tmp_path: Path) -> None:
    source = put(tmp_path / "policy.onnx", 57, 16)
    arguments = ["policy", "import", str(source), "--output", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, Refusal)
    assert "robot_lab" in str(result.exception)
    assert "policy new" in str(result.exception)
    assert not (tmp_path / "out").exists()
    result = CliRunner().invoke(app, [*arguments, "--no-walk"])
    assert isinstance(result.exception, LoneNetwork)


@samples
def test_a_public_network_alone_comes_in_as_the_task_it_was_trained_with(tmp_path: Path) -> None:
    source = next((SHARED / "unitree_rl_lab_go2").rglob("*.onnx"))
    alone = tmp_path / "policy.onnx"
    alone.write_bytes(source.read_bytes())
    arguments = ["policy", "import", str(alone), "--output", str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "unitree_rl_lab's stock task of go2, with which it does 7 of 7" in result.output
    assert load_own_bundle(tmp_path / "out").contract.robot == "go2"
