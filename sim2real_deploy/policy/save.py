"""Writing a bundle for `bundle.load_bundle` to read."""

from pathlib import Path
from typing import Any

import yaml

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import Contract


class _PlainDumper(yaml.SafeDumper):
    """Writes repeated values in full: our reader refuses aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def save_bundle(folder: Path, contract: Contract, model: bytes) -> None:
    """The network is written first: a folder with a policy.yaml is complete."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refusal(f"{folder}: already exists and is not empty; choose another or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.onnx").write_bytes(model)
    content = contract.model_dump(mode="json", exclude_none=True)
    text = yaml.dump(
        content, Dumper=_PlainDumper, sort_keys=False, default_flow_style=None, width=100
    )
    (folder / "policy.yaml").write_text(text, encoding="utf-8")
