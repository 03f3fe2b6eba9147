"""From a checkpoint to a bundle: the same bytes each time, and a bundle that the robot accepts."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.policy.contract import Estimate
from sim2real_deploy.policy.estimates import RECOGNISED
from sim2real_deploy.policy.onnx_file import open_network
from sim2real_deploy.robots import load_robot
from sim2real_deploy.training.config import NetworkConfig, load_training
from sim2real_deploy.training.environment import HIDDEN
from sim2real_deploy.training.export import ExtraOutput, export, network
from sim2real_deploy.training.ppo import Actor, Felt
from sim2real_deploy.training.trainer import Run, train

ROBOT = load_robot("go2")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few iterations of real training: enough for a checkpoint with everything in it."""
    config = load_training("go2_walk")
    ppo = config.ppo.model_copy(update={"workers": 1, "environments": 8, "steps": 8})
    short = config.model_copy(update={"ppo": ppo, "steps": 3 * 8 * 8})
    return train(Run(short, tmp_path_factory.mktemp("run"), seed=4))


def test_the_same_checkpoint_gives_the_same_bytes(checkpoint: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        export(checkpoint, tmp_path / name)
    for file in ("policy.onnx", "policy.yaml"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


def test_the_bundle_loads_and_says_where_it_comes_from(checkpoint: Path, tmp_path: Path) -> None:
    export(checkpoint, tmp_path / "bundle")
    bundle = load_bundle(tmp_path / "bundle", ROBOT)  # replays the golden steps
    assert bundle.contract.provenance["seed"] == 4
    assert bundle.contract.provenance["steps"] == 3 * 8 * 8
    assert bundle.contract.provenance["versions"]["torch"] == torch.__version__.split("+")[0]
    statistics = bundle.contract.statistics[0]
    assert len(statistics.mean) == len(statistics.std) == len(bundle.open().observation)
    assert min(statistics.std) >= 0


def test_the_contract_is_in_the_network_s_file_too(checkpoint: Path, tmp_path: Path) -> None:
    contract = export(checkpoint, tmp_path / "bundle")
    model = onnx.load(str(tmp_path / "bundle" / "policy.onnx"))
    inside = json.loads({p.key: p.value for p in model.metadata_props}["contract"])
    for name in ("robot", "rate_hz", "joints", "kp", "kd", "default_position", "command_ranges"):
        told = contract.model_dump(mode="json")[name]
        assert inside[name] == told


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(Refusal, match="not a checkpoint"):
        export(path, tmp_path / "bundle")


def test_the_written_network_computes_what_torch_computes() -> None:
    import onnxruntime

    torch.manual_seed(0)
    sizes = {"hidden": (16, 8), "feeling": (5,)}
    sizes |= {"steering_gain": 1.0, "exported_gain": 1.0, "steering_reach": 0.1}
    steering = torch.randn(2, 7)
    felt = Felt(slice(0, 2), steering, reach=0.1)  # less than what most of what is felt is
    actor = Actor(7, 3, NetworkConfig(**sizes, initial_std=1, final_std=0.1), felt)
    parts = ([p.detach().numpy() for p in part.parameters()] for part in (actor.feel, actor.act))
    mass = Estimate(output="mass", names=("mass",), units=("kg",))
    both = Estimate(output="both", names=("one", "two"), units=("1", "1"))
    told = [ExtraOutput(mass, range(1, 2), 5.0, 2.0), ExtraOutput(both, range(2), 0.0, 4.0)]
    model = network(*parts, steering.numpy(), felt.reach, told)
    session = onnxruntime.InferenceSession(model)
    rng = np.random.default_rng(0)
    for _ in range(10):
        seen = rng.normal(size=(1, 7)).astype(np.float32)
        given, mass, both = session.run(["action", "mass", "both"], {"observation": seen})
        assert given == pytest.approx(actor(torch.from_numpy(seen)).detach().numpy(), abs=1e-6)
        truth = actor.feel(torch.from_numpy(seen)).detach().numpy()
        assert mass == pytest.approx(truth[:, 1:2] / 2.0 + 5.0, abs=1e-5)
        assert both == pytest.approx(truth / 4.0, abs=1e-5)


def test_a_policy_tells_what_it_believes_of_its_robot(checkpoint: Path, tmp_path: Path) -> None:
    """In the units of the randomisation: untrained, all near the middle of what was drawn."""
    contract = export(checkpoint, tmp_path / "bundle")
    assert contract.estimates == RECOGNISED
    session = open_network(tmp_path / "bundle" / "policy.onnx", "it")
    names = [output.name for output in session.get_outputs()]
    assert names[1:] == ["missed_velocity", *(f"estimated_{name}" for name in HIDDEN)]
    seen = np.zeros((1, session.get_inputs()[0].shape[1]), np.float32)
    told = session.run(names[2:], {"observation": seen})
    friction, payload, strength, delay = (values.item() for values in told)
    assert (friction, strength) == pytest.approx((0.8, 1.0), abs=0.3)
    assert payload == pytest.approx(0.0, abs=2.0)
    assert delay == pytest.approx(0.01, abs=0.02)
