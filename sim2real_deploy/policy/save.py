"""Writing a bundle: what `bundle.load_bundle` reads back."""

from pathlib import Path
from typing import Any

import yaml

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import Contract


class _PlainDumper(yaml.SafeDumper):
    """Writes a value out wherever it stands: our reader refuses aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def save_bundle(folder: Path, contract: Contract, model: bytes) -> None:
    """The network first: a folder with a policy.yaml is a whole one."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refusal(f"{folder}: is there already and not empty; choose another or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.onnx").write_bytes(model)
    content = contract.model_dump(mode="json", exclude_none=True)
    text = yaml.dump(
        content, Dumper=_PlainDumper, sort_keys=False, default_flow_style=None, width=100
    )
    (folder / "policy.yaml").write_text(text, encoding="utf-8")
