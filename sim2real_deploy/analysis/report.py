"""A run as one self-contained HTML file that needs no network."""

import html
import json
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

from sim2real_deploy.analysis import sections
from sim2real_deploy.analysis.adaptation import adaptation
from sim2real_deploy.analysis.view import TOPICS, View
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><style>{style}</style></head>
<body><header><h1>{title}</h1><p>{about}</p></header><main></main>
<script id="data" type="application/json">{data}</script><script>{script}</script></body></html>
"""


def write_report(bag: Bag, path: Path) -> Path:
    recorded = Recorded(bag)
    view = View(recorded, recorded.load(TOPICS))
    content = {
        "duration": view.duration_s,
        "sections": [
            asdict(section)
            for make in (*sections.ALL, adaptation)
            if (section := make(view)) is not None
        ],
    }
    write_page(path, bag.path.resolve().name, view.about(), content)
    return path


def write_page(path: Path, title: str, about: str, content: dict[str, Any]) -> None:
    """Write sections (tables, plots, bars, videos) with everything a browser needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        _PAGE.format(
            title=html.escape(title),
            about=html.escape(about),
            style=_asset("report.css"),
            script=_asset("report.js"),
            data=json.dumps(content, allow_nan=False).replace("</", "<\\/"),
        ),
        encoding="utf-8",
    )


def _asset(name: str) -> str:
    folder = resources.files("sim2real_deploy.analysis").joinpath("assets")
    return folder.joinpath(name).read_text(encoding="utf-8")
