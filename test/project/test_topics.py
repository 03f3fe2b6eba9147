"""Topic and service names are spelled in topics.py alone."""

import ast

from sim2real_deploy import topics
from support.places import ROOT

NAMES = {value for name, value in vars(topics).items() if name.isupper() and "/" in value}


def test_no_module_spells_a_topic_itself() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for path in (ROOT / "sim2real_deploy").rglob("*.py")
        if path.name != "topics.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in NAMES
    ]
    assert not found, found
    assert len(NAMES) > 10


def test_requests_lead_to_their_owner() -> None:
    assert topics.service("go2", "estop") == topics.ESTOP
    assert topics.service("go2", "stand") == "go2_driver/stand"
