"""docs/architecture.md is true to the files: every room, and every name that it mentions."""

import re

from support.places import ROOT

TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "sim2real_deploy"
ROOMS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def test_the_picture_shows_every_room_and_only_those() -> None:
    picture = TEXT.split("```mermaid")[1].split("```")[0]
    assert set(re.findall(r"\[\"(\w+):", picture)) == ROOMS


def test_files_and_names_that_are_mentioned_exist() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    spoken = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
    for word in re.findall(r"`([^`\n]+)`", spoken):
        if re.fullmatch(r"\w+/\w+\.py", word):
            assert (PACKAGE / word).is_file(), word
        elif re.fullmatch(r"[A-Z][a-z]\w+(\.\w+)?", word):
            for name in word.split("."):
                assert re.search(rf"\b(class|def) {name}\b|^    {name} = ", code, re.MULTILINE), (
                    word
                )
