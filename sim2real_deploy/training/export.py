"""From a checkpoint to a policy bundle: policy.onnx and policy.yaml, the contract in both.

The network is written node by node, so the same checkpoint always gives the same bytes.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

from sim2real_deploy import configfile
from sim2real_deploy.policy.contract import Contract
from sim2real_deploy.policy.record import embed
from sim2real_deploy.policy.save import save_bundle
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.training.config import TrainingConfig
from sim2real_deploy.training.environment import Environment
from sim2real_deploy.training.trainer import load_checkpoint

INPUT, OUTPUT = "observation", "action"
OPSET, IR_VERSION = 17, 8  # old enough for every ONNX Runtime a robot may carry
GOLDEN = 16
GOLDEN_STEPS = 100  # control steps the golden robots have walked before they are asked


def export(checkpoint: Path, folder: Path) -> Contract:
    """Write the bundle into a new folder and return its contract."""
    content = load_checkpoint(checkpoint)
    config = configfile.parse(content["config"], TrainingConfig, str(checkpoint))
    robot = load_robot(config.robot)
    weights = [content["actor"][name].numpy() for name in content["actor"] if name != "log_std"]
    bare = network(weights)
    claims = _claims(config, robot, content)
    claims |= {"golden": _golden(config, robot, bare), "sha256": "0" * 64}
    draft = configfile.parse(claims, Contract, str(checkpoint))
    model = embed(bare, draft)
    contract = draft.model_copy(update={"sha256": hashlib.sha256(model).hexdigest()})
    save_bundle(folder, contract, model)
    return contract


def network(weights: list[np.ndarray[Any, Any]]) -> bytes:
    """A multilayer perceptron with ELU between its layers; weights and biases by turns."""
    nodes, tensors, flowing = [], [], INPUT
    layers = len(weights) // 2
    for i in range(layers):
        tensors.append(numpy_helper.from_array(weights[2 * i], f"weight{i}"))
        tensors.append(numpy_helper.from_array(weights[2 * i + 1], f"bias{i}"))
        out = OUTPUT if i == layers - 1 else f"linear{i}"
        nodes.append(helper.make_node("Gemm", [flowing, f"weight{i}", f"bias{i}"], [out], transB=1))
        flowing = out
        if i < layers - 1:
            flowing = f"elu{i}"
            nodes.append(helper.make_node("Elu", [out], [flowing]))
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [1, weights[0].shape[1]])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [1, weights[-1].shape[0]])],
        tensors,
    )
    model = helper.make_model(
        graph,
        producer_name="sim2real_deploy",
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _claims(config: TrainingConfig, robot: RobotSpec, content: dict[str, Any]) -> dict[str, Any]:
    """The contract but for what depends on the finished file: golden steps and sha256."""
    joints, control, commands = len(robot.joints), config.control, config.commands
    default = short(robot.stand_pose)
    mean, square = content["moments"]
    std = (square - mean.square()).clamp_min(0).sqrt()
    return {
        "format": 1,
        "name": config.name,
        "robot": robot.name,
        "rate_hz": control.rate_hz,
        "joints": list(robot.joint_names),
        "default_position": default,
        "kp": [control.kp] * joints,
        "kd": [control.kd] * joints,
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
            "randomisation": config.randomisation.model_dump(mode="json", exclude={"width"}),
            "versions": content["versions"],
        },
    }


def _golden(config: TrainingConfig, robot: RobotSpec, model: bytes) -> list[dict[str, Any]]:
    """What robots in mid-walk saw, and what the exported network answered."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # so small that a second thread only waits
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def act(observation: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        rows = [session.run([OUTPUT], {INPUT: row[None]})[0] for row in observation]
        return np.concatenate(rows)

    environment = Environment(config, robot, GOLDEN, seed=0)
    observation, _ = environment.observe()
    for _ in range(GOLDEN_STEPS):
        observation = environment.step(act(observation)).observation
    rows = zip(observation, act(observation), strict=True)
    return [{"inputs": {INPUT: short(seen)}, "action": short(action)} for seen, action in rows]


def short(values: "torch.Tensor | np.ndarray[Any, Any]") -> list[float]:
    """float32 values as the shortest decimals that read back as the same float32."""
    return [float(str(value)) for value in np.asarray(values, np.float32)]
