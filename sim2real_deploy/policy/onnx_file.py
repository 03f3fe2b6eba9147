"""Opens every ONNX network, on one thread: with the default threads a call may take 16 ms."""

from pathlib import Path

import onnxruntime

from sim2real_deploy.errors import Refusal


def open_network(model: bytes | Path, where: str | Path) -> onnxruntime.InferenceSession:
    """`model` as bytes, or as a file whose weights may be in a second file beside it. A refusal
    names `where` it came from."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises a dozen unrelated kinds
        raise Refusal(
            f"{where}: not a network that can be run on its own (the weights must be inside the "
            f"file): {error}"
        ) from None
