"""The hazard analysis names every event as it is, and tests that exist."""

import re

import pytest

from sim2real_deploy.robots import load_robot
from sim2real_deploy.safety.events import Event, events_for
from support.places import ROOT, TEST

TEXT = (ROOT / "docs" / "hazards.md").read_text(encoding="utf-8")
EVENTS = {event.key: event for event in events_for(load_robot("go2"))}
ROWS = [
    [cell.strip() for cell in line.strip("| \n").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith(("| hazard |", "| finding |", "| event |"))
]
THRESHOLDS = [row for row in ROWS if len(row) == 6 and row[0].startswith("`")]
HAZARDS = [row for row in ROWS if len(row) == 6 and row not in THRESHOLDS]
FINDINGS = [row for row in ROWS if len(row) == 2]
TESTS = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", TEXT)))


def test_every_event_answers_a_hazard_with_the_reaction_it_has() -> None:
    named = set()
    for hazard, _, events, reaction, bound, _ in HAZARDS:
        for key in re.findall(r"`(\w+)`", events):
            named.add(key)
            assert EVENTS[key].reaction.name.lower() == reaction, key
        assert bound, hazard
    assert named == set(EVENTS)


def test_every_finding_has_a_test() -> None:
    assert [int(finding.split()[0]) for finding, _ in FINDINGS] == list(range(1, 59))
    for row in (*HAZARDS, *FINDINGS):
        assert "::" in row[-1], row[0]


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    assert f"def {name}(" in (TEST / file).read_text(encoding="utf-8")


def signed_row(event: Event) -> list[str]:
    """How docs/hazards.md writes an event's figures."""
    sign = "<" if event.below else ">"
    low, high = event.bounds
    threshold = f"{sign} {event.threshold:g} {event.unit}".rstrip()
    bounds = "fixed" if low == high else f"{low:g} to {high:g}"
    times = (f"{event.time_s:g}", "fixed" if event.longest_s == 0 else f"{event.longest_s:g}")
    return [f"`{event.key}`", threshold, times[0], bounds, times[1], event.weakest.name.lower()]


def test_the_figures_in_force_are_those_that_were_reviewed() -> None:
    """A changed threshold, time or bound shows in the page that a reviewer signs."""
    assert [signed_row(event) for event in EVENTS.values()] == THRESHOLDS
