"""One self-contained HTML page about a run: the verdict, why, the time axis, and how to run it again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chaos import guarded
from chaos.errors import DamagedHistory
from chaos.history.directory import is_violation
from chaos.history.recorder import SCHEMA, read_rows
from reports.run_report.figure import draw
from reports.summary import Story, tell
from reports.timeline.from_run import background, timelines
from reports.timeline.model import ObjectTimeline
from reports.timeline.page import graph, part
from reports.timeline.static import draw as static_timeline

#: A page quotes at most this many rows behind one anomaly.
WITNESS_ROWS = 12


def write(run: Path, verdict: Mapping[str, Any], meta: Mapping[str, Any]) -> Path:
    """Write ``report.html`` into the run directory and return its path."""
    rows, damage = _rows(run)
    findings = [(law, anomaly) for law in verdict["laws"] for anomaly in law["anomalies"]]
    story = tell(rows, (index for _, anomaly in findings for index in anomaly["rows"][:WITNESS_ROWS]))
    broken = [(law, anomaly) for law, anomaly in findings if is_violation(verdict, anomaly)]
    objects = timelines(rows, [anomaly for _, anomaly in broken], story.zero_ns)
    violations = [
        {**_finding(law, anomaly, story), **_drawn(objects.get(place))} for place, (law, anomaly) in enumerate(broken)
    ]
    marks = [first["at_s"] for first in violations if first["at_s"] is not None]
    page = _environment().get_template("run_report/report.html.j2").render(
        verdict=verdict,
        meta=meta,
        damage=damage,
        story=story,
        violations=violations,
        lawful=[_finding(law, anomaly, story) for law, anomaly in findings if not is_violation(verdict, anomaly)],
        figure=Markup(draw(story, marks)),  # matplotlib has escaped every text in it
        style=Markup((Path(__file__).parent / "report.css").read_text("utf-8")),
        timeline=part(list(objects.values()), background(story)) if objects else None,
        meta_json=json.dumps(meta, indent=2, sort_keys=True),
    )  # fmt: skip
    path = run / "report.html"
    guarded.replace(path, page.encode())  # a full disk must not leave half a page
    return path


def _rows(run: Path) -> tuple[pa.Table, list[str]]:
    """A history of which nothing can be read still gets a page: the one that says so."""
    try:
        return read_rows(run)
    except DamagedHistory as error:
        return SCHEMA.empty_table(), [str(error)]


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("reports", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip


def _drawn(timeline: ObjectTimeline | None) -> dict[str, Any]:
    if timeline is None:
        return {"timeline": None, "graph": None, "key": ""}
    return {"timeline": static_timeline(timeline), "graph": graph(timeline), "key": timeline.key}


def _finding(law: Mapping[str, Any], anomaly: Mapping[str, Any], story: Story) -> dict[str, Any]:
    witnesses: Sequence[Any] = [
        story.witnesses[index] for index in anomaly["rows"][:WITNESS_ROWS] if index in story.witnesses
    ]
    return {
        "law": law["law"],
        "name": anomaly["name"],
        "explanation": anomaly["explanation"],
        "count": anomaly["count"],
        "more": max(0, len(anomaly["rows"]) - len(witnesses)),
        "witnesses": witnesses,
        "at_s": witnesses[-1].at_s if witnesses else None,
    }
