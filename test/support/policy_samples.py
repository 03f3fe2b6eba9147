"""Small policies made on the spot: a linear or recurrent network and the contract that fits it."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import yaml
from onnx import TensorProto, helper, numpy_helper

from sim2real_deploy.robots import RobotSpec, WholeState

PLAIN_TERMS: list[dict[str, Any]] = [
    {"name": "base_ang_vel", "scale": 0.2},
    {"name": "projected_gravity"},
    {"name": "velocity_command"},
    {"name": "joint_pos_rel"},
    {"name": "joint_vel", "scale": 0.05},
    {"name": "last_action"},
]


def network(
    inputs: int,
    outputs: int,
    *,
    weights: np.ndarray | None = None,
    recurrent: bool = False,
    told: int = 0,
) -> bytes:
    """action = W @ obs (+ h); a recurrent one hands h = h + 1 on. `told` is how many of its inputs
    it gives back as a second output, "told"."""
    if weights is None:
        weights = 0.05 * np.random.default_rng(3).standard_normal((inputs, outputs))
    values = [numpy_helper.from_array(weights.astype(np.float32), "W")]
    takes = [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", inputs])]
    gives = [helper.make_tensor_value_info("actions", TensorProto.FLOAT, ["batch", outputs])]
    nodes = [helper.make_node("MatMul", ["obs", "W"], ["m" if recurrent else "actions"])]
    if recurrent:
        values.append(numpy_helper.from_array(np.ones((1, outputs), np.float32), "one"))
        takes.append(helper.make_tensor_value_info("h_in", TensorProto.FLOAT, [1, outputs]))
        gives.append(helper.make_tensor_value_info("h_out", TensorProto.FLOAT, [1, outputs]))
        nodes.append(helper.make_node("Add", ["m", "h_in"], ["actions"]))
        nodes.append(helper.make_node("Add", ["h_in", "one"], ["h_out"]))
    if told:
        values.append(numpy_helper.from_array(np.eye(inputs, told, dtype=np.float32), "T"))
        gives.append(helper.make_tensor_value_info("told", TensorProto.FLOAT, ["batch", told]))
        nodes.append(helper.make_node("MatMul", ["obs", "T"], ["told"]))
    model = helper.make_model(
        helper.make_graph(nodes, "policy", takes, gives, values),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.checker.check_model(model)
    return model.SerializeToString()


def contract_for(spec: RobotSpec, model: bytes, **changes: Any) -> dict[str, Any]:
    """The content of a policy.yaml that fits; the policy's joints run backwards through the SDK's,
    so that a forgotten reordering shows."""
    joints = list(spec.joint_names)[::-1]
    stand = [float(value) for value in spec.stand_pose[::-1]]
    count = len(joints)
    content: dict[str, Any] = {
        "format": 1,
        "name": "sample",
        "robot": spec.name,
        "rate_hz": 50.0,
        "joints": joints,
        "default_position": stand,
        "kp": [25.0] * count,
        "kd": [0.5] * count,
        "action": {"output": "actions", "scale": [0.25] * count, "offset": stand},
        "observations": [{"input": "obs", "terms": PLAIN_TERMS}],
        "command_ranges": {"vx": [-1.0, 1.0], "vy": [-0.4, 0.4], "wz": [-1.0, 1.0]},
        "sha256": hashlib.sha256(model).hexdigest(),
        "provenance": {"made": "by a test"},
    }
    content.update(changes)
    if "golden" not in content:
        content["golden"] = golden(model)
    return content


def golden(model: bytes, steps: int = 3) -> list[dict[str, Any]]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    feeds = {
        node.name: np.zeros([d if isinstance(d, int) else 1 for d in node.shape], np.float32)
        for node in session.get_inputs()
    }
    random = np.random.default_rng(7)
    rows = []
    for _ in range(steps):
        feeds["obs"] = random.standard_normal(feeds["obs"].shape).astype(np.float32)
        results = session.run(None, feeds)
        if "h_in" in feeds:
            feeds["h_in"] = results[1]
        rows.append({"inputs": {"obs": feeds["obs"][0].tolist()}, "action": results[0][0].tolist()})
    return rows


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def write_bundle(folder: Path, content: dict[str, Any], model: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.onnx").write_bytes(model)
    (folder / "policy.yaml").write_text(yaml.dump(content, Dumper=_Plain))
    return folder


def sample_bundle(folder: Path, spec: RobotSpec) -> Path:
    """A policy that stays near its default pose."""
    model = network(9 + 3 * spec.joint_count, spec.joint_count)
    return write_bundle(folder, contract_for(spec, model), model)


def make_state(spec: RobotSpec, **changes: Any) -> WholeState:
    """A robot at rest in its stand pose."""
    count = spec.joint_count
    zeros = np.zeros(count, np.float32)
    values: dict[str, Any] = {
        "received_ns": 0,
        "tick": 0,
        "quaternion": np.array([1, 0, 0, 0], np.float32),
        "gyroscope": np.zeros(3, np.float32),
        "accelerometer": np.array([0, 0, 9.81], np.float32),
        "q": spec.stand_pose.copy(),
        "dq": zeros.copy(),
        "ddq": zeros.copy(),
        "torque": zeros.copy(),
        "temperature": np.full(count, 30, np.int8),
        "lost": np.zeros(count, np.uint32),
        "foot_force": np.zeros(len(spec.legs), np.int16),
        "battery_percent": 80,
        "battery_current_ma": -1000,
        "cell_millivolts": np.full(spec.battery.cells, 3900, np.uint16),
        "voltage": 31.0,
        "current": 1.0,
        "imu_temperature": 40,
        "remote": bytes(40),
        "raw": b"",
    }
    values.update(changes)
    return WholeState(**values)
