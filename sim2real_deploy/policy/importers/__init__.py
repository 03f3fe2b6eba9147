"""Policies of other projects, turned into bundles. Adding a format is adding a module here."""

from pathlib import Path

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers import (
    deploy_yaml,
    isaac_lab,
    legged_gym,
    onnx_metadata,
    rl_sar,
)
from sim2real_deploy.policy.importers.draft import Answers, Draft, Format

# The first that knows the source has it: those that say more come first.
FORMATS: tuple[Format, ...] = (deploy_yaml, isaac_lab, rl_sar, legged_gym, onnx_metadata)


def read_draft(source: Path, answers: Answers) -> tuple[str, Draft]:
    """Find out what wrote `source`, a file or a folder, and read it."""
    if not source.exists():
        raise Refusal(f"{source}: there is no such file or folder")
    for form in FORMATS:
        file = form.find(source)
        if file is not None:
            return form.NAME, form.read(file, answers)
    known = "\n".join(f"  {form.NAME}" for form in FORMATS)
    raise Refusal(f"{source}: holds no policy in a form that is known. Known are:\n{known}")
