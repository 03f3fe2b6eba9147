"""From a checkpoint to a policy bundle: policy.onnx and policy.yaml, the contract in both.

The network is written node by node, so the same checkpoint always gives the same bytes.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from sim2real_deploy import configfile
from sim2real_deploy.policy.contract import Contract, Estimate
from sim2real_deploy.policy.estimates import MISSED, of_robot
from sim2real_deploy.policy.onnx_file import open_network
from sim2real_deploy.policy.record import embed
from sim2real_deploy.policy.save import save_bundle
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.training.checkpoint import load_checkpoint
from sim2real_deploy.training.config import TrainingConfig
from sim2real_deploy.training.environment import HIDDEN, MISSED_SCALE, Environment
from sim2real_deploy.training.environment import MISSED as MISSED_COLUMNS
from sim2real_deploy.twin.per_joint import per_joint

Weights = list[np.ndarray[Any, Any]]
INPUT, OUTPUT = "observation", "action"
OPSET, IR_VERSION = 17, 8  # old enough for every ONNX Runtime a robot may carry
GOLDEN = 16
GOLDEN_STEPS = 100  # control steps the golden robots have walked before they are asked


def export(checkpoint: Path, folder: Path, made_from: Mapping[str, Any] | None = None) -> Contract:
    """Write the bundle into a new folder and return its contract.

    `made_from` joins the provenance: what the checkpoint does not know of its own past.
    """
    content = load_checkpoint(checkpoint)
    config = configfile.parse(content["config"], TrainingConfig, str(checkpoint))
    robot = load_robot(config.robot)
    actor = {name: values.numpy() for name, values in content["actor"].items()}
    feel, act = ([actor[n] for n in actor if n.startswith(part)] for part in ("feel.", "act."))
    environment = Environment(config, robot, GOLDEN, seed=0)
    steering = environment.steering(config.network.exported_gain)
    reach = MISSED_SCALE * config.network.steering_reach
    told = estimates(environment.felt.stop)
    bare = network(feel, act, steering, reach, told)
    claims = _claims(config, robot, content)
    claims["provenance"] |= made_from or {}
    claims["estimates"] = [one.declared.model_dump(mode="json") for one in told]
    claims |= {"golden": _golden(environment, bare), "sha256": "0" * 64}
    draft = configfile.parse(claims, Contract, str(checkpoint))
    model = embed(bare, draft)
    contract = draft.model_copy(update={"sha256": hashlib.sha256(model).hexdigest()})
    save_bundle(folder, contract, model)
    return contract


@dataclass(frozen=True, slots=True)
class ExtraOutput:
    """An extra output of the network: some of its estimates, in physical units."""

    declared: Estimate
    columns: range  # of the estimates
    middle: float
    scale: float  # estimate = (value - middle) * scale


def estimates(felt: int) -> list[ExtraOutput]:
    """What a policy believes of its robot: how far it misses the wanted velocity, and the values
    named in HIDDEN."""
    first = felt - len(HIDDEN)
    return [
        ExtraOutput(MISSED, range(MISSED_COLUMNS.start, MISSED_COLUMNS.stop), 0.0, MISSED_SCALE),
        *(
            ExtraOutput(
                of_robot(name, one.unit), range(first + i, first + i + 1), one.middle, one.scale
            )
            for i, (name, one) in enumerate(HIDDEN.items())
        ),
    ]


def network(
    feel: Weights,
    act: Weights,
    steering: np.ndarray[Any, Any],
    reach: float,
    told: Sequence[ExtraOutput] = (),
) -> bytes:
    """Estimates join the observation and correct it; the second perceptron acts on both.

    The correction is linear up to its reach: it is part of the first layer's weights here. `told`
    are the outputs beside the action.
    """
    observations = feel[0].shape[1]
    steered = act[0][:, :observations] @ steering.T
    felt_nodes, felt_tensors = _perceptron(feel, "feel", INPUT, "felt")
    nodes, tensors = _perceptron(
        [np.concatenate([act[0], steered], 1), *act[1:]], "act", "all", OUTPUT
    )
    bounds = {"lowest": -reach, "highest": reach}
    tensors += [numpy_helper.from_array(np.float32(v), name) for name, v in bounds.items()]
    clip = helper.make_node("Clip", ["felt", *bounds], ["heeded"])
    join = helper.make_node("Concat", [INPUT, "felt", "heeded"], ["all"], axis=-1)
    nodes, tensors = [*felt_nodes, clip, join, *nodes], [*felt_tensors, *tensors]
    if told:
        more_nodes, more_tensors = _tell(told, feel[-1].shape[0])
        nodes, tensors = [*nodes, *more_nodes], [*tensors, *more_tensors]
    ends = [(INPUT, feel[0].shape[1]), (OUTPUT, act[-1].shape[0])]
    ends += [(one.declared.output, len(one.columns)) for one in told]
    first, *last = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in ends
    )
    graph = helper.make_graph(nodes, "policy", [first], last, tensors)
    model = helper.make_model(
        graph,
        producer_name="sim2real_deploy",
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _tell(
    told: Sequence[ExtraOutput], felt: int
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """One linear layer that scales the estimates, then one output for each."""
    sizes = [len(one.columns) for one in told]
    weight, bias = np.zeros((sum(sizes), felt), np.float32), np.zeros(sum(sizes), np.float32)
    row = 0
    for one in told:
        for column in one.columns:
            weight[row, column], bias[row] = 1 / one.scale, one.middle
            row += 1
    constants: dict[str, np.ndarray[Any, Any]] = {
        "tell_weight": weight,
        "tell_bias": bias,
        "tell_sizes": np.array(sizes, np.int64),
    }
    tensors = [numpy_helper.from_array(values, name) for name, values in constants.items()]
    tell = helper.make_node("Gemm", ["felt", "tell_weight", "tell_bias"], ["told"], transB=1)
    split = helper.make_node(
        "Split", ["told", "tell_sizes"], [one.declared.output for one in told], axis=-1
    )
    return [tell, split], tensors


def _perceptron(
    weights: Weights, name: str, given: str, result: str
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Layers with ELU between them; weights and biases by turns."""
    nodes, tensors, flowing = [], [], given
    layers = len(weights) // 2
    for i in range(layers):
        weight, bias = f"{name}_weight{i}", f"{name}_bias{i}"
        tensors.append(numpy_helper.from_array(weights[2 * i], weight))
        tensors.append(numpy_helper.from_array(weights[2 * i + 1], bias))
        out = result if i == layers - 1 else f"{name}_linear{i}"
        nodes.append(helper.make_node("Gemm", [flowing, weight, bias], [out], transB=1))
        flowing = out
        if i < layers - 1:
            flowing = f"{name}_elu{i}"
            nodes.append(helper.make_node("Elu", [out], [flowing]))
    return nodes, tensors


def _claims(config: TrainingConfig, robot: RobotSpec, content: dict[str, Any]) -> dict[str, Any]:
    """The contract but for what depends on the finished file: golden steps and sha256."""
    joints, control, commands = len(robot.joints), config.control, config.commands
    default = short(robot.stand_pose)
    gain = per_joint(control.gain, robot, "control.gain", otherwise=1.0)
    mean, square = content["moments"]
    std = (square - mean.square()).clamp_min(0).sqrt()
    return {
        "format": 1,
        "name": config.name,
        "robot": robot.name,
        "rate_hz": control.rate_hz,
        "joints": list(robot.joint_names),
        "default_position": default,
        "kp": (control.kp * gain).round(4).tolist(),
        "kd": (control.kd * gain).round(4).tolist(),
        "action": {
            "output": OUTPUT,
            "scale": [control.action_scale] * joints,
            "offset": default,
            "clip": [[-control.action_clip, control.action_clip]] * joints,
            "observed": "clipped",
        },
        "observations": [
            {
                "input": INPUT,
                "terms": [
                    t.model_dump(mode="json", exclude_defaults=True) for t in config.observation
                ],
            }
        ],
        "command_ranges": {axis: list(getattr(commands, axis)) for axis in ("vx", "vy", "wz")},
        "statistics": [{"input": INPUT, "mean": short(mean), "std": short(std)}],
        "provenance": {
            "trained_by": "sim2real train",
            "seed": content["seed"],
            "steps": content["steps"],
            "randomisation_width": content["width"],
            "randomisation": config.at(1.0).randomisation.model_dump(
                mode="json", exclude={"width"}
            ),
            "versions": content["versions"],
        },
    }


def _golden(environment: Environment, model: bytes) -> list[dict[str, Any]]:
    """What robots in mid-walk saw, and what the exported network answered."""
    session = open_network(model, "the exported network")

    def act(observation: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        rows = [session.run([OUTPUT], {INPUT: row[None]})[0] for row in observation]
        return np.concatenate(rows)

    observation, _ = environment.observe()
    for _ in range(GOLDEN_STEPS):
        observation = environment.step(act(observation)).observation
    rows = zip(observation, act(observation), strict=True)
    return [{"inputs": {INPUT: short(seen)}, "action": short(action)} for seen, action in rows]


def short(values: "torch.Tensor | np.ndarray[Any, Any]") -> list[float]:
    """float32 values as the shortest decimals that read back as the same float32."""
    return [float(str(value)) for value in np.asarray(values, np.float32)]
