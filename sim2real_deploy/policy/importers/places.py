"""Finding a policy's files: the description in or near what the user named, and its network."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sim2real_deploy.errors import Refusal

NETWORKS = (".onnx", ".pt", ".pth", ".jit")
DESCRIPTIONS = (".yaml", ".yml")
# Where projects keep their networks, below the description's folder or one of its parents.
_FOLDERS = (
    "",
    "exported",
    "policy",
    "policies",
    "model",
    "models",
    "networks",
    "onnx",
    "pre_train",
    "pretrain",
    "pretrained",
    "weights",
    "checkpoint",
    "checkpoints",
)
MOST_LISTED = 8
DEEPEST = 16  # folders below the one named: a training run may lie deep inside its package
MOST_FOLDERS = 20_000  # a project has fewer; a whole disk is not searched
PARTS_OF_A_RUN = ("params", "exported", "io_descriptors")
_NEVER_POLICIES = ("__MACOSX", "__pycache__", "actuator_nets", "node_modules", "site-packages")
_CHECKPOINT = re.compile(r"model_\d+\.pt")  # of training: not a network that runs by itself
_ANCESTORS, _ANCESTORS_OF_A_NAME = 6, 3  # a bare name is searched in fewer parents
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def descriptions(source: Path) -> list[Path]:
    """The YAML files that may describe `source`: itself, those beside it, those in params/."""
    if source.is_file() and source.suffix in DESCRIPTIONS:
        return [source]
    folder = source if source.is_dir() else source.parent
    near = [folder, folder / "params", folder / "io_descriptors"]
    if source.is_file() or folder.name in ("exported", "policies"):
        near += [folder.parent / "params", folder.parent / "io_descriptors", folder.parent]
    return [file for place in near if place.is_dir() for file in files(place, DESCRIPTIONS)]


def networks(source: Path) -> list[Path]:
    """The networks that `source` is or holds; training checkpoints only if nothing else is."""
    if source.is_file():
        return [source] if source.suffix in NETWORKS else []
    return exported(files(source, NETWORKS))


def exported(found: Sequence[Path]) -> list[Path]:
    """Without the checkpoints of a training, unless there is nothing else."""
    return [file for file in found if not _CHECKPOINT.fullmatch(file.name)] or list(found)


def once_each(found: Sequence[Path]) -> list[Path]:
    """A network in two forms, ONNX and TorchScript, counts once: as ONNX, unless that is only a
    Git LFS pointer."""
    by_stem: dict[Path, Path] = {}
    for path in found:
        known = by_stem.get(path.with_suffix(""))
        better = path.suffix == ".onnx" and not _is_pointer(path)
        if known is None or _is_pointer(known) or better:
            by_stem[path.with_suffix("")] = path
    return list(by_stem.values())


def files(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Those of these kinds in a folder. A hidden one (`._policy.onnx` of a Mac's zip) is none."""
    try:
        inside = sorted(folder.iterdir())
    except OSError as error:
        raise Refusal(f"{folder}: cannot be read: {error.strerror}") from None
    return [
        file
        for file in inside
        if file.suffix in suffixes and not file.name.startswith(".") and file.is_file()
    ]


def folders_below(source: Path) -> list[Path]:
    """Every folder below `source` that may hold a policy. Links are not followed."""
    found: list[Path] = []
    for place, names, _ in os.walk(source):
        folder = Path(place)
        depth = len(folder.relative_to(source).parts)
        names[:] = sorted(
            name
            for name in names
            if depth < DEEPEST and not name.startswith(".") and name not in _NEVER_POLICIES
        )
        if depth and os.access(folder, os.R_OK | os.X_OK):
            found.append(folder)
        if len(found) > MOST_FOLDERS:
            raise Refusal(
                f"{source}: more than {MOST_FOLDERS} folders below it; name the policy's own folder"
            )
    return sorted(found)


def find_network(file: Path, given: Path | None, named: str = "") -> Path:
    """The network of a description: the user's choice, the one it names, or the only one nearby.

    Its author's path may not exist here, so the end of it is searched below each parent folder."""
    if given is not None:
        if not given.is_file():
            raise Refusal(f"--network {given}: there is no such file")
        return checked(given)
    return checked(_or_its_twin(_network_of(file, named)))


def _or_its_twin(path: Path) -> Path:
    """`path`; where only its Git LFS pointer is there, the network in another form beside it."""
    if not _is_pointer(path):
        return path
    others = [path.with_suffix(suffix) for suffix in NETWORKS]
    return next((one for one in others if one.is_file() and not _is_pointer(one)), path)


def _network_of(file: Path, named: str) -> Path:
    if named:
        for path in _endings(file, named):
            if path.is_file():
                return path
    by_stem: dict[str, Path] = {}
    # The same network as ONNX and as TorchScript counts once.
    for path in networks(file.absolute().parent) if named else _near(file):
        if path.stem not in by_stem or path.suffix == ".onnx":
            by_stem[path.stem] = path
    if len(by_stem) == 1:
        return next(iter(by_stem.values()))
    if "policy" in by_stem and not named:
        return by_stem["policy"]
    above = list(by_stem.values()) or _above(file)
    if len(above) == 1 and not named:
        return above[0]
    if named:
        hint = f"; there are: {_listed(file, above)}" if above else ""
        raise Refusal(
            f"{file}: its network '{named}' is not there; name it with --network FILE{hint}"
        )
    if above:
        raise Refusal(
            f"{file}: several networks near it ({_listed(file, above)}); name one with "
            "--network FILE"
        )
    raise Refusal(
        f"{file}: no network near it ({', '.join(NETWORKS)}); name it with --network FILE"
    )


def _listed(file: Path, found: list[Path]) -> str:
    names = [os.path.relpath(path, Path.cwd()) for path in found]
    names = [min(name, str(path), key=len) for name, path in zip(names, found, strict=True)]
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more


def _above(file: Path) -> list[Path]:
    """The networks of the nearest parent folder that has any in the usual places."""
    for folder in file.absolute().parents[1 : _ANCESTORS_OF_A_NAME + 1]:
        places = [folder / name for name in _FOLDERS if name]
        places += [below for place in places if place.is_dir() for below in sorted(place.iterdir())]
        found = [path for place in places if place.is_dir() for path in networks(place)]
        if found:
            return [path for path in found if path.with_suffix(".onnx") not in found] + [
                path for path in found if path.suffix == ".onnx"
            ]
    return []


def the_network(path: Path) -> Path:
    """`path`, which must be a network's file."""
    if not path.is_file() or path.suffix not in NETWORKS:
        raise Refusal(f"{path}: no network ({', '.join(NETWORKS)})")
    return checked(path)


def checked(path: Path) -> Path:
    """`path`, unless it is only a Git LFS pointer."""
    if _is_pointer(path):
        raise Refusal(
            f"{path}: is a Git LFS pointer, not the file itself; fetch it with: git lfs pull"
        )
    if not path.stat().st_size:
        raise Refusal(f"{path}: is empty")
    return path


def _is_pointer(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_LFS_POINTER)) == _LFS_POINTER
    except OSError as error:
        raise Refusal(f"{path}: cannot be read: {error.strerror}") from None


def _endings(file: Path, named: str) -> Iterator[Path]:
    parts: Sequence[str] = [part for part in Path(named).parts if part not in ("/", ".", "..")]
    above = [file.absolute().parent, *file.absolute().parent.parents[:_ANCESTORS]]
    for start in range(len(parts)):
        near = above if start < len(parts) - 1 else above[: _ANCESTORS_OF_A_NAME + 1]
        for folder in near:
            for below in _FOLDERS:
                yield Path(os.path.normpath(folder.joinpath(below, *parts[start:])))


def near_or_above(file: Path) -> bool:
    """Whether there is any network that this description may be of."""
    return file.suffix in NETWORKS or any(True for _ in _near(file)) or bool(_above(file))


def _near(file: Path) -> Iterator[Path]:
    folder = file.absolute().parent
    places = [folder, folder / "exported"]
    if folder.name in ("params", "io_descriptors"):
        places += [folder.parent, folder.parent / "exported"]
    for place in places:
        if place.is_dir():
            yield from networks(place)
