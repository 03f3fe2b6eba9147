"""config/safety.yaml: thresholds per robot and stage, within the bounds of the events table."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import field_validator

from sim2real_deploy import configfile, paths
from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots.spec import RobotSpec
from sim2real_deploy.safety.events import Event, Reaction, events_for


class Setting(Strict):
    """What a file may change about one event; omitted fields keep the table's values."""

    threshold: float | None = None
    time_s: float | None = None
    reaction: Reaction | None = None

    @field_validator("threshold", "time_s", mode="before")
    @classmethod
    def _not_blank(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("has no value; take the key out to keep the table's")
        return value

    @field_validator("reaction", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if isinstance(value, str) and value.upper() in Reaction.__members__:
            return Reaction[value.upper()]
        names = ", ".join(name.lower() for name in Reaction.__members__)
        raise ValueError(f"is one of: {names}")


Settings = dict[str, Setting]


class SafetyFile(Strict):
    robots: dict[str, Settings]
    stages: dict[str, Settings]


def load_events(robot: RobotSpec, stage: str, path: Path | None = None) -> tuple[Event, ...]:
    """The events table with the file's settings applied: first the robot's, then the stage's."""
    path = path or paths.config_file("safety.yaml")
    content = configfile.load(path, SafetyFile)
    if stage not in content.stages:
        raise Refusal(f"{path}: stages: there is no '{stage}'; there are: {_list(content.stages)}")
    events = {event.key: event for event in events_for(robot)}
    for place, settings in (
        (f"robots.{robot.name}", content.robots.get(robot.name, {})),
        (f"stages.{stage}", content.stages[stage]),
    ):
        for key, setting in settings.items():
            where = f"{path}: {place}.{key}"
            if key not in events:
                raise Refusal(f"{where}: there is no such event; there are: {_list(events)}")
            events[key] = _apply(events[key], setting, where)
    return tuple(events.values())


def _apply(event: Event, setting: Setting, where: str) -> Event:
    low, high = event.bounds
    if setting.threshold is not None and not low <= setting.threshold <= high:
        raise Refusal(
            f"{where}.threshold: {setting.threshold:g} {event.unit} is outside {low:g}..{high:g}"
        )
    if setting.time_s is not None and not 0 <= setting.time_s <= event.longest_s:
        raise Refusal(f"{where}.time_s: {setting.time_s:g} is outside 0..{event.longest_s:g} s")
    if setting.reaction is not None and setting.reaction < event.weakest:
        raise Refusal(
            f"{where}.reaction: '{setting.reaction.name.lower()}' is too mild; "
            f"at least '{event.weakest.name.lower()}' is needed"
        )
    return replace(event, **setting.model_dump(exclude_none=True))


def _list(names: Any) -> str:
    return ", ".join(sorted(names))
