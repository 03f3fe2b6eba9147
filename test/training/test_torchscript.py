"""TorchScript becomes ONNX that answers the same, its hidden state in the open."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers.assemble import import_policy
from sim2real_deploy.policy.importers.draft import Answers
from support.import_samples import JOINTS, deploy_content, write_deploy

torch = pytest.importorskip("torch", reason="TorchScript is converted where torch is installed")

from sim2real_deploy.training import torchscript  # noqa: E402

SIZE = 9 + 3 * JOINTS


class Plain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor = torch.nn.Sequential(
            torch.nn.Linear(SIZE, 16), torch.nn.ELU(), torch.nn.Linear(16, JOINTS)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.actor(x)


class Remembering(torch.nn.Module):
    """As legged_gym and Isaac Lab export an LSTM: the state lives in buffers of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = torch.nn.LSTM(SIZE, 8)
        self.actor = torch.nn.Linear(8, JOINTS)
        self.register_buffer("hidden_state", torch.zeros(1, 1, 8))
        self.register_buffer("cell_state", torch.zeros(1, 1, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, (h, c) = self.rnn(x.unsqueeze(0), (self.hidden_state, self.cell_state))
        self.hidden_state[:] = h
        self.cell_state[:] = c
        return self.actor(out.squeeze(0))


class Stacking(torch.nn.Module):
    """Sets its state anew in each step, as exporters do that stack frames inside the network."""

    def __init__(self) -> None:
        super().__init__()
        self.history = torch.zeros(1, 3, SIZE)
        self.actor = torch.nn.Linear(4 * SIZE, JOINTS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.history = torch.cat([self.history[:, 1:], x.unsqueeze(1)], dim=1)
        return self.actor(torch.cat([x, self.history.flatten(1)], dim=1))


class Paired(torch.nn.Module):
    """The newest frame and the history, each as an input of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = torch.nn.Linear(3 * SIZE, JOINTS)

    def forward(self, x: torch.Tensor, history: torch.Tensor) -> torch.Tensor:
        return self.actor(torch.cat([x, history], dim=1))


class Counting(torch.nn.Module):
    """Keeps a state in a way that no conversion can follow: changed in some steps only."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))
        self.actor = torch.nn.Linear(SIZE, JOINTS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0.0):
            self.steps = self.steps + 1.0
        return self.actor(x) + self.steps


class Writing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, "stolen.pt")
        return x


def scripted(module: torch.nn.Module, path: Path) -> Path:
    torch.manual_seed(0)
    torch.jit.script(module).save(str(path))
    return path


def bring_in(module: torch.nn.Module, folder: Path):
    source = write_deploy(folder / "in", deploy_content())
    (source / "exported" / "policy.onnx").unlink()
    scripted(module, source / "exported" / "policy.pt")
    return import_policy(source, folder / "out", Answers(), torchscript.convert).bundle


def test_a_plain_network(tmp_path: Path) -> None:
    module = Plain()
    bundle = bring_in(module, tmp_path)
    assert bundle.contract.recurrence == ()
    step = bundle.contract.golden[0]
    answer = module(torch.tensor([step.inputs["obs"]])).detach().numpy()[0]
    np.testing.assert_allclose(step.action, answer, atol=1e-5)


def test_a_hidden_state_is_carried_from_step_to_step_and_forgotten_at_reset(tmp_path: Path) -> None:
    module = Remembering()
    bundle = bring_in(module, tmp_path)
    assert [(s.input, s.output) for s in bundle.contract.recurrence] == [
        ("h_in", "h_out"),
        ("c_in", "c_out"),
    ]
    policy = bundle.open()
    for _ in range(2):
        policy.reset()
        module.hidden_state.zero_()
        module.cell_state.zero_()
        for step in bundle.contract.golden:
            policy.session.inputs["obs"][:] = step.inputs["obs"]
            policy.session.run()
            with torch.no_grad():
                answer = module(torch.tensor([step.inputs["obs"]])).numpy()[0]
            np.testing.assert_allclose(policy.action, answer, atol=1e-5)


def test_a_state_in_an_attribute_is_carried_from_step_to_step(tmp_path: Path) -> None:
    bundle = bring_in(Stacking(), tmp_path)
    assert [(s.input, s.output) for s in bundle.contract.recurrence] == [("h_in", "h_out")]
    torch.manual_seed(0)
    module = torch.jit.load(str(tmp_path / "in" / "exported" / "policy.pt"))
    for step in bundle.contract.golden:
        with torch.no_grad():
            answer = module(torch.tensor([step.inputs["obs"]])).numpy()[0]
        np.testing.assert_allclose(step.action, answer, atol=1e-5)


def test_the_size_of_the_input_is_found_by_trying_those_of_the_weights(tmp_path: Path) -> None:
    for module in (Plain(), Remembering()):
        assert torchscript.shape(scripted(module, tmp_path / "x.pt")) == ({"obs": SIZE}, 12)
    assert torchscript.shape(scripted(Paired(), tmp_path / "x.pt")) == ({}, 0)


def test_a_network_of_two_inputs_gets_both(tmp_path: Path) -> None:
    path = scripted(Paired(), tmp_path / "policy.pt")
    session = onnxruntime.InferenceSession(torchscript.convert(path, [SIZE, 2 * SIZE]))
    assert {node.name: node.shape for node in session.get_inputs()} == {
        "obs": [1, SIZE],
        "obs1": [1, 2 * SIZE],
    }
    with pytest.raises(Refusal, match="takes 2 inputs, the description makes 1"):
        torchscript.convert(path, [SIZE])


def test_a_state_that_cannot_be_followed_is_detected(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="keeps a state"):
        torchscript.convert(scripted(Counting(), tmp_path / "policy.pt"), [SIZE])


def test_a_network_of_another_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="does not take the 40 numbers"):
        torchscript.convert(scripted(Plain(), tmp_path / "policy.pt"), [40])


def test_a_training_checkpoint_is_refused_with_what_to_do(tmp_path: Path) -> None:
    torch.save(Plain().state_dict(), tmp_path / "model_1000.pt")
    with pytest.raises(Refusal, match="must be exported first"):
        torchscript.convert(tmp_path / "model_1000.pt", [SIZE])


def test_an_operator_that_reaches_for_the_disk_is_refused_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refusal, match="aten::save"):
        torchscript.convert(scripted(Writing(), tmp_path / "policy.pt"), [SIZE])
    assert not (tmp_path / "stolen.pt").exists()
