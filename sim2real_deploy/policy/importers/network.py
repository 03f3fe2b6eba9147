"""Reading another project's network as self-contained ONNX bytes."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import MAX_MODEL_BYTES
from sim2real_deploy.policy.onnx_file import open_network

ACTIONS = ("actions", "action")  # an output of that name is the action; else the first one
TORCH_SUFFIXES = (".pt", ".pth", ".jit")

# TorchScript to ONNX needs torch, which only training/ imports: the caller passes it in.
Converter = Callable[[Path, Sequence[int]], bytes]  # the file, and the size of each input


@dataclass(frozen=True, slots=True)
class Network:
    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def load(path: Path, sizes: Sequence[int], convert: Converter) -> Network:
    """Read a network, converted to ONNX and with its weights inside."""
    _check_size(path)
    if path.suffix in TORCH_SUFFIXES:
        model = convert(path, sizes)
    elif path.suffix == ".onnx":
        model = _with_weights(path)
    else:
        raise Refusal(f"{path}: neither ONNX (.onnx) nor TorchScript ({', '.join(TORCH_SUFFIXES)})")
    session = open_network(model, path)
    return Network(
        model,
        tuple(node.name for node in session.get_inputs()),
        tuple(node.name for node in session.get_outputs()),
    )


@functools.cache
def metadata(path: Path) -> Mapping[str, str]:
    """The strings an exporter left in an ONNX file."""
    _check_size(path)
    return dict(open_network(path, path).get_modelmeta().custom_metadata_map)


def input_sizes(path: Path) -> dict[str, int]:
    """The size of each input of an ONNX file, with a dynamic batch size as 1."""
    _check_size(path)
    return {
        node.name: math.prod(dim if isinstance(dim, int) and dim > 0 else 1 for dim in node.shape)
        for node in open_network(path, path).get_inputs()
    }


def action_size(path: Path) -> int:
    """How many numbers the action of an ONNX file has; 0 if the file does not tell."""
    _check_size(path)
    outputs = {node.name: node.shape for node in open_network(path, path).get_outputs()}
    named = [outputs[name] for name in ACTIONS if name in outputs]
    shape = [*named, *outputs.values()][0]
    return shape[-1] if shape and isinstance(shape[-1], int) else 0


def _check_size(path: Path) -> None:
    if path.stat().st_size > MAX_MODEL_BYTES:
        raise Refusal(f"{path}: {path.stat().st_size} bytes is too large for a policy")


def _with_weights(path: Path) -> bytes:
    """The file's bytes; with weights in a second file beside it, one file with both."""
    try:
        import onnx
        from onnx.external_data_helper import load_external_data_for_model, uses_external_data
    except ImportError:
        raise Refusal(f"{path}: reading it needs the onnx package: pip install onnx") from None
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # protobuf's decoder has its own kinds
        raise Refusal(f"{path}: not an ONNX file: {error}") from None
    outside = [tensor for tensor in model.graph.initializer if uses_external_data(tensor)]
    if not outside:
        return path.read_bytes()
    for tensor in outside:
        place = {entry.key: entry.value for entry in tensor.external_data}.get("location", "")
        if not place or Path(place).name != place or (path.parent / place).is_symlink():
            raise Refusal(f"{path}: {tensor.name}: its weights are in '{place}', not beside it")
        if not (path.parent / place).is_file():
            raise Refusal(f"{path}: {tensor.name}: its file of weights '{place}' is not beside it")
    load_external_data_for_model(model, str(path.parent))
    return bytes(model.SerializeToString())
