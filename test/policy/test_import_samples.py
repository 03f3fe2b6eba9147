"""Public policies, straight from their projects: imported without a hand's touch."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from sim2real_deploy.checks import exit_code
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.policy.check import static_checks
from sim2real_deploy.policy.importers.assemble import import_policy
from sim2real_deploy.policy.importers.draft import Answers
from support.import_samples import SHARED

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no sample policies in {SHARED}")


def convert(path: Path, sizes: Sequence[int]) -> bytes:
    pytest.importorskip("torch", reason="TorchScript is converted where torch is installed")
    from sim2real_deploy.training import torchscript

    return torchscript.convert(path, sizes)


def bring_in(name: str, folder: Path) -> Bundle:
    return import_policy(SHARED / name, folder / name, Answers(), convert).bundle


@pytest.mark.parametrize(
    ("name", "robot", "size"),
    [
        ("unitree_rl_lab_go2", "go2", 45),
        ("unitree_rl_mjlab_go2", "go2", 47),
        ("rl_sar_go2_robot_lab", "go2", 45),
        ("unitree_rl_lab_g1", "g1", 480),
    ],
)
def test_a_public_policy_comes_in_as_it_is(
    name: str, robot: str, size: int, tmp_path: Path
) -> None:
    bundle = bring_in(name, tmp_path)
    assert bundle.contract.robot == robot
    assert bundle.open().observation.size == size
    assert exit_code(static_checks(bundle)) == 0


def test_a_deploy_yaml_edited_by_hand_is_caught(tmp_path: Path) -> None:
    source = tmp_path / "in"
    shutil.copytree(SHARED / "unitree_rl_mjlab_go2", source)
    file = source / "deploy.yaml"
    file.chmod(0o644)
    source.chmod(0o755)
    file.write_text(file.read_text().replace("[20, 20, 40,", "[60, 20, 40,"))
    taken = import_policy(source, tmp_path / "out", Answers(), convert)
    assert any("kp" in line and "60 and 20" in line for line in taken.assumed)
    assert max(taken.bundle.contract.kp) == 40.0
