"""A run as one self-contained HTML file that needs no network."""

import html
import json
from collections.abc import Iterable
from dataclasses import asdict
from importlib import resources
from pathlib import Path

from sim2real_deploy.analysis import sections
from sim2real_deploy.analysis.adaptation import adaptation, estimates
from sim2real_deploy.analysis.sections import Section
from sim2real_deploy.analysis.view import TOPICS, View
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded, Series, joined
from sim2real_deploy.topics import LOW_STATE, MODE, SAFETY

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><style>{style}</style></head>
<body><header><h1>{title}</h1><p>{about}</p></header><main></main>
<script id="data" type="application/json">{data}</script><script>{script}</script></body></html>
"""


PART_S = 600.0  # what one page shows, and what is held in memory at once
HELD = (MODE, SAFETY)  # published on change: the last message still holds in the next part


def write_report(bag: Bag, path: Path) -> Path:
    """Write one page; for a long run, a page for each part and one that lists them."""
    spans = bag.parts(PART_S)
    if len(spans) == 1:
        recorded = Recorded(bag)
        _write_view(View(recorded, recorded.load(TOPICS)), bag, path)
        return path
    rows: list[tuple[str, ...]] = []
    held: dict[str, Series] = {}
    start_ns = spans[0][0]
    for number, span in enumerate(spans, 1):
        page = path.with_name(f"{path.stem}_{number:02d}{path.suffix}")
        words = _write_part(bag.within(span), held, page)
        minutes = [(edge - start_ns) / 60e9 for edge in span]
        rows.append((f"{minutes[0]:.0f} to {minutes[1]:.0f} min", page.name, words))
    table = sections.table(("when", "page", "what happened"), rows)
    text = "This run is long: each part of it has its own page beside this one."
    parts = Section("Parts", text, tables=[table])
    seconds = (spans[-1][1] - start_ns) / 1e9
    write_page(path, bag.path.resolve().name, f"{seconds / 3600:.1f} hours", seconds, [parts])
    return path


def _write_part(part: Bag, held: dict[str, Series], path: Path) -> str:
    """Returns the text of the first section. `held` are the last messages of HELD's topics, here
    updated for the next part; nothing else of a part outlives its page."""
    recorded = Recorded(part)
    series = recorded.load(TOPICS)
    for name in HELD:
        known = [said for said in (held.get(name), series.get(name)) if said is not None]
        if known:
            series[name] = joined(known)
            held[name] = series[name].last(part.span[1])
    if LOW_STATE not in series:
        return "nothing was recorded"
    return _write_view(View(recorded, series), part, path)


def _write_view(view: View, bag: Bag, path: Path) -> str:
    """Returns the text of the first section."""
    made = [make(view) for make in (*sections.ALL, adaptation, estimates)]
    write_page(path, bag.path.resolve().name, view.about(), view.duration_s, made)
    return next(section.text for section in made if section is not None)


def write_page(
    path: Path, title: str, about: str, duration_s: float, content: Iterable[Section | None]
) -> None:
    """Write the sections (those that are not None) with everything a browser needs."""
    data = {
        "duration": duration_s,
        "sections": [asdict(section) for section in content if section is not None],
    }
    page = _PAGE.format(
        title=html.escape(title),
        about=html.escape(about),
        style=_asset("report.css"),
        script=_asset("report.js"),
        data=json.dumps(data, allow_nan=False).replace("</", "<\\/"),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _asset(name: str) -> str:
    folder = resources.files("sim2real_deploy.analysis").joinpath("assets")
    return folder.joinpath(name).read_text(encoding="utf-8")
