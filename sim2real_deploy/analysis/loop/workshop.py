"""Steps that are never repeated: each has a folder named by a digest of all it depends on.

A step that was interrupted has no `done.json`. It starts again in an empty folder, unless it says
that it can go on from what is there.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim2real_deploy import __version__

DONE = "done.json"
FORMAT = 2  # of what is stored: with the seconds a step took


@dataclass(frozen=True, slots=True)
class Done:
    name: str
    digest: str
    folder: Path
    result: Mapping[str, Any]
    cached: bool
    seconds: float  # that it took, in the session that finished it


class Workshop:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def step(
        self,
        name: str,
        inputs: Mapping[str, Any],
        make: Callable[[Path], Mapping[str, Any]],
        goes_on: bool = False,
    ) -> Done:
        """`make` writes its files into the folder it is given and returns what is worth keeping."""
        content = json.dumps(
            {"step": name, "version": __version__, "format": FORMAT, **inputs}, sort_keys=True
        )
        digest = hashlib.sha256(content.encode()).hexdigest()
        folder = self.folder / f"{name}-{digest[:12]}"
        path = folder / DONE
        if path.is_file():
            stored = json.loads(path.read_text(encoding="utf-8"))
            return Done(name, digest, folder, stored["result"], True, stored["seconds"])
        if not goes_on:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        result = json.loads(json.dumps(make(folder)))
        seconds = time.monotonic() - started
        partial = path.with_suffix(".partial")
        stored = {"inputs": json.loads(content), "result": result, "seconds": seconds}
        partial.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, path)
        return Done(name, digest, folder, result, False, seconds)


def digest_of(path: Path) -> str:
    """Of a file, or of all files below a folder."""
    content = hashlib.sha256()
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        content.update(str(file.relative_to(path)).encode())
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                content.update(block)
    return content.hexdigest()
