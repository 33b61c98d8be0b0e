"""A small static timeline of the minimal witness: for print, and where no script may run."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from checkers.linearizable import PartialLinearization
from reports import svg
from reports.printable import printable
from reports.svg import BAD_CALL, CALL, INK, PAPER
from reports.timeline.model import CallBar, ObjectTimeline

#: A witness with more calls than this is not drawn.
CALLS = 16
NAMES, WIDTH, LANE, BAR = 170, 900, 42, 20
#: Room for the label of the last call.
RIGHT = 190
LETTER = 6.7
WORDS = "The calls that are enough for the violation, from left to right in the order of their events"


def draw(timeline: ObjectTimeline, name: str) -> Markup | None:
    """Return the SVG element, whose ids begin with ``name``; None if there is nothing small to show."""
    chosen = set(timeline.minimal)
    calls = [call for call in timeline.calls if call.number in chosen]
    if not calls or len(calls) > CALLS:
        return None
    events = sorted(moment for call in calls for moment in (call.call, call.ret) if moment is not None)
    place = {moment: NAMES + 10 + (WIDTH - NAMES - RIGHT) * rank / len(events) for rank, moment in enumerate(events)}
    rows = {name: row for row, name in enumerate(dict.fromkeys(call.process for call in calls))}
    found = next(iter([*timeline.minimal_orders, *timeline.orders]), PartialLinearization(order=()))
    parts = [part for name, row in rows.items() for part in _lane(name, row)]
    parts += _points(found, calls, rows, place)
    parts += [part for call in calls for part in _bar(call, rows[call.process], place, call.number in found.illegal)]
    return svg.picture(
        WIDTH, LANE * len(rows) + 6, name, WORDS, parts, width=None, font_size=12, class_="static-timeline"
    )


def _lane(name: str, row: int) -> list[Markup]:
    bottom = LANE * (row + 1)
    return [
        svg.text(4, bottom - 11, svg.cut(name, (NAMES - 8) / LETTER)),
        svg.line(0, bottom, WIDTH, bottom, stroke_width="0.5"),
    ]


def _bar(call: CallBar, row: int, place: dict[int, float], illegal: bool) -> list[Markup]:
    x, y = place[call.call], LANE * (row + 1) - BAR - 4
    end = float(WIDTH) if call.ret is None else place[call.ret]
    dashes = {"stroke_dasharray": "4 3", "fill_opacity": "0.25"} if call.ret is None else {}
    text = ("✕ " if illegal else "") + printable(call.label)
    inside = len(text) * LETTER + 8 <= end - x
    outside = not inside and end + len(text) * LETTER + 6 <= WIDTH
    shown = text if inside or outside else svg.cut(text, (end - x - 8) / LETTER)
    ink = BAD_CALL if outside and illegal else INK if outside or call.ret is None else PAPER
    halo = {"paint_order": "stroke", "stroke": PAPER, "stroke_width": 4, "stroke_linejoin": "round"} if outside else {}
    words = {"fill": ink, "font_family": "monospace", "font_size": 11, **halo}
    return [
        svg.rect(x, y, max(end - x, 2.0), BAR, BAD_CALL if illegal else CALL, stroke=INK, **dashes),
        svg.element("text", shown, x=(end if outside else x) + 5, y=y + 14, **words),
    ]


def _points(
    found: PartialLinearization, calls: Sequence[CallBar], rows: dict[str, int], place: dict[int, float]
) -> list[Markup]:
    """Draw the points of the order, each right after the latest call so far; those in one gap share it evenly."""
    by_number = {call.number: call for call in calls}
    order = [by_number[number] for number in found.order if number in by_number]
    latest, slots = -1, []
    for call in order:
        latest = max(latest, call.call)
        slots.append(latest)
    moments = sorted(place)
    points = []
    for index, (call, slot) in enumerate(zip(order, slots, strict=True)):
        after = next((place[moment] for moment in moments if moment > slot), float(WIDTH))
        share = (index - slots.index(slot) + 1) / (slots.count(slot) + 1)
        points.append((place[slot] + share * (after - place[slot]), LANE * (rows[call.process] + 1) - BAR - 12))
    drawn = [svg.element("polyline", points=svg.points(points), fill="none", stroke=INK, stroke_width=1.5)]
    for number, (x, y) in enumerate(points, 1):
        drawn.append(svg.circle(x, y, 7, PAPER, stroke=INK))
        drawn.append(svg.text(x, y + 3, str(number), text_anchor="middle", font_size=9))
    return drawn
