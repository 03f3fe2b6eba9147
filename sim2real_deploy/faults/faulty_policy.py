"""A policy with a built-in fault: it gives NaN when told to turn hard.

Its contract and golden steps (up to the first hard turn) are valid, so only the running control can
detect the fault.
"""

import hashlib
from pathlib import Path

import yaml

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import Bundle

TURN = "velocity_command.2"
NAN_ABOVE = 0.8  # rad/s, well above the campaign's commands


def write_faulty_policy(bundle: Bundle, folder: Path) -> None:
    """Write the bundle with the faulty network into a folder."""
    try:
        import onnx
        from onnx import TensorProto, helper
    except ImportError:
        raise Refusal("a policy that fails is made with onnx: pip install onnx") from None

    contract = bundle.contract
    labels = bundle.open().labels
    if len(contract.observations) != 1 or TURN not in labels:
        raise Refusal(f"policy '{contract.name}': it has no single input with {TURN} in it")
    scale = next(t.scale for t in contract.observations[0].terms if t.name == TURN.split(".")[0])
    above = NAN_ABOVE * (scale if isinstance(scale, float) else scale[2])
    model = onnx.load_from_string(bundle.model)
    output = contract.action.output
    for node in model.graph.node:
        node.output[:] = ["sound_action" if name == output else name for name in node.output]
    constants = (
        helper.make_tensor("turn_index", TensorProto.INT64, [1], [labels.index(TURN)]),
        helper.make_tensor("turn_limit", TensorProto.FLOAT, [1], [above]),
        helper.make_tensor("not_a_number", TensorProto.FLOAT, [1], [float("nan")]),
    )
    model.graph.initializer.extend(constants)
    inputs = [contract.observations[0].input, "turn_index"]
    model.graph.node.extend(
        (
            helper.make_node("Gather", inputs, ["turn"], axis=1),
            helper.make_node("Greater", ["turn", "turn_limit"], ["too_hard"]),
            helper.make_node("Where", ["too_hard", "not_a_number", "sound_action"], [output]),
        )
    )
    turn = labels.index(TURN)
    sound = [step.inputs[inputs[0]][turn] <= above for step in contract.golden]
    golden = contract.golden[: sound.index(False) if False in sound else None]
    if not golden:
        raise Refusal(f"policy '{contract.name}': its first golden step turns too hard already")
    content = model.SerializeToString()
    folder.mkdir(parents=True)
    (folder / "policy.onnx").write_bytes(content)
    changed = {"sha256": hashlib.sha256(content).hexdigest(), "golden": golden}
    changed_contract = contract.model_copy(update=changed).model_dump(mode="json")
    (folder / "policy.yaml").write_text(yaml.safe_dump(changed_contract, sort_keys=False))
