"""The one place that opens an ONNX network: on one thread, because more make slow calls slower
(with the default threads the slowest call takes 16 ms)."""

from pathlib import Path

import onnxruntime

from sim2real_deploy.errors import Refusal


def open_network(model: bytes | Path, where: str | Path) -> onnxruntime.InferenceSession:
    """`model` as bytes, or as a file whose weights may lie beside it; or a refusal that names
    `where` it came from."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises a dozen unrelated kinds
        raise Refusal(
            f"{where}: not a network that can be run by itself (weights must lie inside the file): "
            f"{error}"
        ) from None
