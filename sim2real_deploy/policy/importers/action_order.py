"""A network whose actions number the joints differently from its observations.

A contract has one order of joints. The network gets a node before its input and one after its
output that renumber: its own last actions on the way in, the actions on the way out.
"""

from collections.abc import Sequence
from pathlib import Path

from sim2real_deploy.errors import Refusal

LAST_ACTION = "last_action."  # begins the label of such a value


def renumber(
    model: bytes,
    entrance: str,
    labels: Sequence[str],
    output: str,
    joints: Sequence[str],
    action_joints: Sequence[str],
    where: Path,
) -> bytes:
    """The network with joints in the contract's order throughout.

    `labels` name the values of its input, in the contract's order; `joints` is that order, and
    `action_joints` the network's own of its actions."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    theirs = dict(zip(joints, action_joints, strict=True))
    places = {label: place for place, label in enumerate(labels)}
    taken = [places[_renamed(label, theirs)] for label in labels]
    given = [list(action_joints).index(joint) for joint in joints]
    whole = onnx.load_model_from_string(model)
    graph = whole.graph
    names = {name for node in graph.node for name in (*node.input, *node.output)}
    inside = {name: f"{name}_own_order" for name in (entrance, output)}
    if names & {*inside.values(), "taken_places", "given_places"}:
        raise Refusal(f"{where}: its joints are renumbered already")
    for node in graph.node:
        for side in (node.input, node.output):
            side[:] = [inside.get(name, name) for name in side]
    for name, order in (("taken_places", taken), ("given_places", given)):
        graph.initializer.append(numpy_helper.from_array(np.array(order, np.int64), name))
    first = helper.make_node("Gather", [entrance, "taken_places"], [inside[entrance]], axis=-1)
    last = helper.make_node("Gather", [inside[output], "given_places"], [output], axis=-1)
    nodes = [first, *graph.node, last]
    del graph.node[:]
    graph.node.extend(nodes)
    return bytes(whole.SerializeToString())


def _renamed(label: str, theirs: dict[str, str]) -> str:
    """The label of the value that the network has in this place."""
    if not label.startswith(LAST_ACTION):
        return label
    joint, past, age = label.removeprefix(LAST_ACTION).partition("@")
    return f"{LAST_ACTION}{theirs.get(joint, joint)}{past}{age}"
