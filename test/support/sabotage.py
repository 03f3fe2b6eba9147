"""A good policy made bad in one way, and sealed again: its papers are in order, its walk is not."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from sim2real_deploy import configfile
from sim2real_deploy.policy import record
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.policy.contract import Contract
from sim2real_deploy.policy.save import save_bundle

Claims = dict[str, Any]  # the contract as plain values
Damage = Callable[[Any, Claims], None]

WEIGHT_NOISE = 0.5  # of each layer's own spread


def noise_on_weights(model: Any, _: Claims) -> None:
    rng = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.ndim == 2:
            noisy = values + WEIGHT_NOISE * values.std() * rng.standard_normal(values.shape)
            tensor.CopyFrom(numpy_helper.from_array(noisy.astype(np.float32), tensor.name))


def one_joints_sign(model: Any, claims: Claims) -> None:
    signs = np.ones((1, len(claims["joints"])), np.float32)
    signs[0, 1] = -1.0
    model.graph.initializer.append(numpy_helper.from_array(signs, "signs"))
    inner = _rename_output(model, claims["action"]["output"])
    node = helper.make_node("Mul", [inner, "signs"], [claims["action"]["output"]])
    model.graph.node.append(node)


def half_action_scale(_: Any, claims: Claims) -> None:
    claims["action"]["scale"] = [0.5 * value for value in claims["action"]["scale"]]


def one_frame_of_delay(model: Any, claims: Claims) -> None:
    """Every action is given out one step late."""
    output, shape = claims["action"]["output"], [1, len(claims["joints"])]
    inner = _rename_output(model, output)
    late, early = "late_in", "late_out"
    model.graph.node.append(helper.make_node("Identity", [late], [output]))
    model.graph.node.append(helper.make_node("Identity", [inner], [early]))
    model.graph.input.append(helper.make_tensor_value_info(late, TensorProto.FLOAT, shape))
    model.graph.output.append(helper.make_tensor_value_info(early, TensorProto.FLOAT, shape))
    claims["recurrence"] = [{"input": late, "output": early}]


def observation_order(_: Any, claims: Claims) -> None:
    """Joint positions where velocities belong, and the other way round."""
    terms = claims["observations"][0]["terms"]
    names = [term["name"] for term in terms]
    one, other = names.index("joint_pos_rel"), names.index("joint_vel")
    terms[one], terms[other] = terms[other], terms[one]


SABOTAGES: dict[str, Damage] = {
    damage.__name__: damage
    for damage in (
        noise_on_weights,
        one_joints_sign,
        half_action_scale,
        one_frame_of_delay,
        observation_order,
    )
}


def sabotage(good: Bundle, damage: Damage, folder: Path) -> Path:
    """The bundle with one damage, its record, hash and golden steps made to match."""
    model = onnx.load_model_from_string(good.model)
    claims = good.contract.model_dump(mode="json")
    del model.metadata_props[:]
    claims["name"] = damage.__name__
    damage(model, claims)
    onnx.checker.check_model(model)
    plain = model.SerializeToString()
    sealed = record.embed(plain, configfile.parse(claims, Contract, damage.__name__))
    claims["sha256"] = hashlib.sha256(sealed).hexdigest()
    claims["golden"] = _golden(sealed, claims)
    save_bundle(folder, configfile.parse(claims, Contract, damage.__name__), sealed)
    return folder


def _rename_output(model: Any, name: str) -> str:
    """The node that gives this output gives it under another name, which is returned."""
    inner = f"{name}_before"
    for node in model.graph.node:
        for i, given in enumerate(node.output):
            if given == name:
                node.output[i] = inner
    return inner


def _golden(model: bytes, claims: Claims) -> list[dict[str, Any]]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    shapes = {node.name: node.shape for node in session.get_inputs()}
    states = {
        state["input"]: np.zeros(shapes[state["input"]], np.float32)
        for state in claims["recurrence"]
    }
    steps = []
    for step in claims["golden"]:
        feeds = {
            name: np.array(values, np.float32).reshape(1, -1)
            for name, values in step["inputs"].items()
        }
        names = [claims["action"]["output"], *(state["output"] for state in claims["recurrence"])]
        action, *after = session.run(names, {**feeds, **states})
        states = dict(zip(states, after, strict=True))
        steps.append({"inputs": step["inputs"], "action": action.ravel().tolist()})
    return steps
