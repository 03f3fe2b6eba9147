"""A run's checkpoint and log, from which it continues after a crash."""

import io
import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import torch

from sim2real_deploy import __version__
from sim2real_deploy.errors import Refusal
from sim2real_deploy.training.config import TrainingConfig

CHECKPOINT = "checkpoint.pt"
LOG = "log.jsonl"


def write_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Atomic: a kill while writing leaves the previous checkpoint."""
    partial = path.with_suffix(".partial")
    torch.save(content, partial)
    os.replace(partial, path)


def load_checkpoint(path: Path) -> dict[str, Any]:
    try:
        return parse_checkpoint(path.read_bytes(), path)
    except OSError as error:
        raise Refusal(f"{path}: not a checkpoint we can read: {error.strerror}") from None


def parse_checkpoint(data: bytes, path: Path) -> dict[str, Any]:
    """`path` is for error messages."""
    try:
        content: dict[str, Any] = torch.load(io.BytesIO(data), weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Refusal(f"{path}: not a checkpoint we can read: {what}") from None
    return content


def should_resume(folder: Path, config: TrainingConfig, seed: int, resume: bool) -> bool:
    """Whether the run in this folder is to be continued; `resume` allows a changed config."""
    path = folder / CHECKPOINT
    if not path.exists():
        if resume:
            raise Refusal(f"{path}: there is nothing to resume")
        _trim_log(folder / LOG, 0)  # of a run that ended before its first checkpoint
        return False
    content = load_checkpoint(path)
    if not resume:
        now = config.model_dump(mode="json")
        changed = [key for key in now if now[key] != content["config"].get(key)]
        changed += ["seed"] if content["seed"] != seed else []
        if changed:
            raise Refusal(
                f"{path}: a run with another {', '.join(changed)} is there; --resume to go on with "
                "what it has learnt, or move it away"
            )
    _trim_log(folder / LOG, content["steps"])
    return True


def _trim_log(path: Path, steps: int) -> None:
    """Drop lines that were logged after the checkpoint: those steps are trained again."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["steps"] <= steps:
                kept.append(line)
        except ValueError:
            continue  # the line that was being written
    partial = path.with_suffix(".partial")
    partial.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    os.replace(partial, path)


def versions() -> dict[str, str]:
    return {
        "sim2real_deploy": __version__,
        "python": sys.version.split()[0],
        "torch": torch.__version__.split("+")[0],
        "mujoco": mujoco.__version__,
        "numpy": np.__version__,
    }
