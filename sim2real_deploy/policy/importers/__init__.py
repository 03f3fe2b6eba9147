"""Importers of other projects' policies. To add a format, add a module here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers import (
    deploy_yaml,
    foreign_yaml,
    holosoma,
    isaac_env,
    isaac_lab,
    legged_gym,
    legged_rl_deploy,
    mjlab_env,
    onnx_metadata,
    own,
    places,
    rl_sar,
)
from sim2real_deploy.policy.importers.draft import Answers, Draft, Format, MetadataFormat

# The first format that recognises a file reads it; the more specific ones come first.
FORMATS: tuple[Format, ...] = (
    own,
    deploy_yaml,
    isaac_lab,
    mjlab_env,
    isaac_env,
    legged_rl_deploy,
    rl_sar,
    legged_gym,
)
METADATA_FORMATS: tuple[MetadataFormat, ...] = (onnx_metadata, holosoma)
USUAL_NAMES = ("policy.yaml", "deploy.yaml", "env.yaml", "config.yaml")
LISTED = 30  # policies, at most, when a folder holds many


class LoneNetwork(Refusal):
    """Nothing describes what the only network at hand observes and sends."""

    def __init__(self, source: Path, network: Path) -> None:
        super().__init__(
            f"{source}: a network without a description of what it sees and sends. This tries "
            "the stock tasks of the known projects in the twin and writes one: "
            f"sim2real policy new {network} --output FOLDER"
        )
        self.network = network


def read_draft(source: Path, answers: Answers) -> tuple[str, Draft]:
    """Recognise the format of `source`, a file or a folder, and read it."""
    try:
        there = source.exists()
    except OSError as error:
        raise Refusal(f"{source}: cannot be read: {error.strerror}") from None
    if not there:
        raise Refusal(f"{source}: there is no such file or folder")
    if source.is_file() and source.suffix in places.NETWORKS:
        answers.network = answers.network or places.checked(source)
    described = _described(source)
    if described is not None:
        form, file, content = described
        return form.NAME, form.read(file, content, answers)
    found = [
        (kind, network)
        for network in places.networks(source)
        for kind in METADATA_FORMATS
        if network.suffix == ".onnx" and kind.recognises(places.checked(network))
    ]
    if len(found) == 1:
        kind, network = found[0]
        return kind.NAME, kind.read(network, answers)
    if found:
        names = ", ".join(network.name for _, network in found)
        raise Refusal(f"{source}: holds more than one policy ({names}); name the file")
    below = _policies_below(source) if source.is_dir() else []
    if len(below) == 1:
        return read_draft(below[0], answers)
    raise _unknown(source, below)


def _described(source: Path) -> tuple[Format, Path, Any] | None:
    """The description of `source` and its content; refused if there are several of one format."""
    contents = list(_readable(source))
    for form in FORMATS:
        files = [(file, content) for file, content in contents if form.recognises(file, content)]
        beside = [pair for pair in files if pair[0].parent == files[0][0].parent]
        if len(beside) > 1:  # a backup beside it, deploy_old.yaml, is not meant
            beside = [pair for pair in beside if pair[0].name in USUAL_NAMES] or beside
        if len(beside) > 1:
            names = ", ".join(file.name for file, _ in beside)
            raise Refusal(f"{source}: several files describe a policy ({names}); name one of them")
        if beside:
            return form, *beside[0]
    return None


def _readable(source: Path) -> Iterator[tuple[Path, Any]]:
    """The YAML files near `source`. One further up that cannot be read is none of ours."""
    below = source if source.is_dir() else source.parent
    for file in places.descriptions(source):
        try:
            yield file, foreign_yaml.read(file)
        except Refusal:
            if file.is_relative_to(below):
                raise


def _unknown(source: Path, below: list[Path]) -> Refusal:
    if below:
        lines = "\n".join(f"  {path}{_remark(path)}" for path in below[:LISTED])
        more = f"\n  and {len(below) - LISTED} more" if len(below) > LISTED else ""
        return Refusal(f"{source}: holds {len(below)} policies; name one:\n{lines}{more}")
    nets = places.once_each(places.networks(source) or _networks_below(source))
    if len(nets) > 1:
        lines = "\n".join(f"  {path}" for path in nets[:LISTED])
        return Refusal(
            f"{source}: networks without a description of what they see and send. For one of them: "
            f"sim2real policy new NETWORK --output FOLDER\n{lines}"
        )
    if nets:
        return LoneNetwork(source, nets[0])
    names = [form.NAME for form in FORMATS] + [kind.NAME for kind in METADATA_FORMATS]
    known = "\n".join(f"  {name}" for name in names)
    return Refusal(f"{source}: holds no policy in a known format. Known formats:\n{known}")


def _remark(file: Path) -> str:
    return "" if places.near_or_above(file) else "   (no network near it)"


def _networks_below(source: Path) -> list[Path]:
    folders = places.folders_below(source) if source.is_dir() else []
    return places.exported([net for folder in folders for net in places.networks(folder)])


def _policies_below(source: Path) -> list[Path]:
    """Descriptions and self-describing networks in subfolders, for the user to choose from."""
    runs: dict[Path, list[Path]] = {}
    for folder in places.folders_below(source):
        run = folder.parent if folder.name in places.PARTS_OF_A_RUN else folder
        runs.setdefault(run, []).append(folder)
    return [found for folders in runs.values() for found in _policies_of_a_run(folders)]


def _policies_of_a_run(folders: list[Path]) -> list[Path]:
    """A training run tells the same policy several times (deploy.yaml, env.yaml, the network's
    metadata): then only the one that is read first."""
    files = [file for folder in folders for file in places.files(folder, places.DESCRIPTIONS)]
    contents = []
    for file in files:
        try:
            contents.append((file, foreign_yaml.read(file)))
        except Refusal:
            continue
    by_form = [
        [file for file, content in contents if form.recognises(file, content)] for form in FORMATS
    ]
    by_form = [found for found in by_form if found]
    if by_form and all(len(found) == 1 for found in by_form):
        return by_form[0]
    networks = [file for folder in folders for file in places.files(folder, (".onnx",))]
    return sorted({file for found in by_form for file in found}) or [
        file for file in networks if _describes_itself(file)
    ]


def _describes_itself(file: Path) -> bool:
    try:
        return any(kind.recognises(file) for kind in METADATA_FORMATS)
    except Refusal:
        return False
