"""What a report shows of one cause: its steps, its occurrences with a picture each, its violations with their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from chaos.verdict import Anomaly
from reports.explanation import cycle
from reports.moments import picture
from reports.moments.curve import Curve
from reports.run_report import strip_svg
from reports.run_report.acts import act_s
from reports.run_report.cause_groups import CauseGroup, began_s
from reports.run_report.causes import Cause
from reports.run_report.explained import WORDS
from reports.run_report.judged import STRIPS, WITNESS_ROWS, JudgedRun
from reports.run_report.story import message_name, sentence, title
from reports.run_report.strip import strip
from reports.summary import Story, Witness
from reports.timeline.model import ObjectTimeline
from reports.timeline.page import graph
from reports.timeline.static import draw as static_timeline

#: So many violations of a cause are quoted in words; the others are counted.
QUOTED = 40
#: So many occurrences of a cause are drawn: they look alike.
ALIKE = 2

Card = Mapping[str, Any]


def cards(run: JudgedRun, curves: Mapping[int, Curve]) -> list[Card]:
    """Return the cards of all causes, in their order. ``curves``: by number of the violation, when it became
    inevitable, where that was measured."""
    left = STRIPS
    made = []
    for number, group in enumerate(run.causes, 1):
        made.append(_card(number, group, run, curves, left))
        left -= len(group.occurrences)
    return made


def _card(number: int, group: CauseGroup, run: JudgedRun, curves: Mapping[int, Curve], strips: int) -> Card:
    why = run.explained.get(number)
    members = [*group.occurrences, *group.signs]
    found = [{**_finding(one.anomaly, run.story), "first": False} for cause in members for one in cause.violations]
    for kind in group.kinds:
        next(one for one in found if (one["law"], one["name"]) == (kind.law, kind.name))["first"] = True
    places = [one.place + 1 for cause in members for one in cause.violations]
    return {
        "number": number,
        "title": group.title,
        "chain": group.chain,
        "kinds": group.kinds,
        "also": group.also,
        "occurrences": [
            _occurrence(f"{number}-{place}" if place else str(number), cause, run, place < min(strips, ALIKE))
            for place, cause in enumerate(group.occurrences)
        ],
        "signs": [{"title": title(cause), "sentence": sentence(cause)} for cause in group.signs],
        "findings": [one for place, one in enumerate(found) if one["first"] or place < QUOTED],
        "unquoted": sum(one["count"] for place, one in enumerate(found) if not one["first"] and place >= QUOTED),
        "why": why,
        "why_rows": [_quoted(run.story.witnesses[row]) for row in why.rows if row in run.story.witnesses]
        if why
        else [],
        "curves": [{"curve": curves[one], "picture": picture.draw(curves[one])} for one in places if one in curves],
    }


def _occurrence(name: str, cause: Cause, run: JudgedRun, with_strip: bool) -> Card:
    """Return one occurrence; ``name`` distinguishes its pictures on the page."""
    alone = next((run.objects[one.place] for one in cause.violations if one.place in run.objects), None)
    drawn = strip(cause, run.history) if with_strip and alone is None else None
    orders = [one.anomaly.cycle for one in cause.violations] if with_strip else []
    acted = [at for one in cause.violations if (at := act_s(one.anomaly, run.story)) is not None]
    acted_s = acted[0] if acted else began_s(cause)
    return {
        "at_s": acted_s if cause.change is None else cause.change.at_s,
        "title": title(cause),
        "sentence": sentence(cause),
        "example": message_name(cause.example[0]) if cause.example is not None else "",
        "strip": strip_svg.draw(drawn, name) if drawn is not None else None,
        "cycle": next((cycle.draw(one, f"cycle-{name}") for one in orders if one), None),
        **_drawn(alone, name),
    }


def _quoted(row: Witness) -> Witness:
    """Shorten a row beside a picture that shows most of it already."""
    return row if len(row.detail) <= WORDS else replace(row, detail=row.detail[: WORDS - 1] + "…")


def _drawn(timeline: ObjectTimeline | None, name: str) -> Card:
    if timeline is None:
        return {"timeline": None, "graph": None, "key": "", "contradiction": ""}
    return {
        "timeline": static_timeline(timeline, f"calls-{name}"),
        "graph": graph(timeline, f"order-{name}"),
        "key": timeline.key,
        "contradiction": _contradiction(timeline),
    }


def _contradiction(timeline: ObjectTimeline) -> str:
    """Say why the last call of the minimal witness can't come after the others; "" where several could be last."""
    last = max(timeline.minimal, default=-1)
    reasons = {order.illegal.get(last, "") for order in timeline.minimal_orders}
    return reasons.pop() if len(reasons) == 1 and last == timeline.blocked else ""


def _finding(anomaly: Anomaly, story: Story) -> dict[str, Any]:
    witnesses: Sequence[Any] = [
        story.witnesses[index] for index in anomaly.rows[:WITNESS_ROWS] if index in story.witnesses
    ]
    return {
        "law": anomaly.law,
        "name": anomaly.name,
        "explanation": anomaly.explanation,
        "count": anomaly.count,
        "rows": sorted(anomaly.rows[:WITNESS_ROWS]),
        "more": max(0, len(anomaly.rows) - len(witnesses)),
        "witnesses": witnesses,
    }
