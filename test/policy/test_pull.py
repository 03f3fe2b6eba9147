"""`policy pull`: which files are fetched, and what is refused. The two libraries are stand-ins with
the calls of huggingface_hub 0.x and wandb 0.x that are used; no network is touched."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.pull import Address, parse, pull

FILES = {
    "velocity/exported/policy.onnx": 10,
    "velocity/params/deploy.yaml": 10,
    "velocity/videos/walk.mp4": 10,
    "other/policy.pt": 10,
    "README.md": 10,
    "../outside.yaml": 10,
}


def write(root: str, name: str) -> None:
    path = Path(root) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(name)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    files = dict(FILES)

    class HfApi:
        def model_info(self, repo_id: str, revision: str | None, files_metadata: bool) -> Any:
            rows = [SimpleNamespace(rfilename=name, size=size) for name, size in files.items()]
            return SimpleNamespace(siblings=rows)

    def hf_hub_download(repo_id: str, filename: str, revision: str | None, local_dir: str) -> None:
        write(local_dir, filename)

    library = SimpleNamespace(HfApi=HfApi, hf_hub_download=hf_hub_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)  # type: ignore[arg-type]
    return files


def fetched(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_networks_and_descriptions_alone_are_fetched(hub: dict[str, int], tmp_path: Path) -> None:
    pull("hf://someone/go2", tmp_path / "all")
    assert fetched(tmp_path / "all") == {
        "velocity/exported/policy.onnx",
        "velocity/params/deploy.yaml",
        "other/policy.pt",
    }
    pull("hf://someone/go2/other@v1", tmp_path / "one")
    assert fetched(tmp_path / "one") == {"other/policy.pt"}


def test_what_is_too_large_or_there_already_is_refused(hub: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="nothing is overwritten"):
        pull("hf://someone/go2", tmp_path)
    hub["huge.onnx"] = 10**9
    with pytest.raises(Refusal, match=r"huge\.onnx"):
        pull("hf://someone/go2", tmp_path / "out")
    hub.clear()
    with pytest.raises(Refusal, match="holds no network"):
        pull("hf://someone/go2", tmp_path / "empty")


def test_a_run_and_an_artifact_of_weights_and_biases(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class File:
        def __init__(self, name: str) -> None:
            self.name, self.size = name, 10

        def download(self, root: str) -> None:
            write(root, self.name)

    class Api:
        def run(self, path: str) -> Any:
            assert path == "team/go2/abc123"
            return SimpleNamespace(files=lambda: [File("policy.onnx"), File("wandb-summary.json")])

        def artifact(self, path: str) -> Any:
            assert path == "team/go2/policy:v3"
            return SimpleNamespace(files=lambda: [File("policy.pt")])

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Api=Api))  # type: ignore[arg-type]
    pull("wandb://team/go2/abc123", tmp_path / "run")
    pull("wandb://team/go2/policy:v3", tmp_path / "artifact")
    assert fetched(tmp_path / "run") == {"policy.onnx"}
    assert fetched(tmp_path / "artifact") == {"policy.pt"}


def test_a_library_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)  # type: ignore[arg-type]
    with pytest.raises(Refusal, match="pip install wandb"):
        pull("wandb://team/go2/abc123", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_addresses() -> None:
    assert parse("hf://a/b/c/d@main") == Address("hf", "a/b", "c/d", "main")
    for wrong in ("a/b", "hf://a", "hf://a/../b", "wandb://a/b", "wandb://a/b/c/d", "s3://a/b"):
        with pytest.raises(Refusal, match="hf://OWNER"):
            parse(wrong)
