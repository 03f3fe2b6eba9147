"""The page about ROS 2 names a test for every finding, and tests that exist."""

import re

import pytest

from support.places import ROOT, TEST

TEXT = (ROOT / "docs" / "ros2.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if re.match(r"\| \d", line)]
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", TEXT)))


def test_every_finding_has_a_test() -> None:
    assert [int(finding.split()[0]) for finding, _ in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) >= 19
    assert all("::test_" in tests for _, tests in ROWS)


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    assert f"\ndef {name}(" in (TEST / file).read_text(encoding="utf-8")
