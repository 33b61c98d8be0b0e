"""A small static timeline of the minimal witness: for print, and where no script may run."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from checkers.linearizable.witness.partial_linearization import PartialLinearization
from reports.printable import printable
from reports.timeline.model import CallBar, ObjectTimeline

#: A witness with more calls than this is not drawn.
CALLS = 16
NAMES, WIDTH, LANE, BAR = 170, 900, 42, 20
#: Room for the label of the last call.
RIGHT = 190
LETTER = 6.7
BAD, STRONG, INK, LINE = "#b84300", "#005b96", "#16191d", "#ccd3da"


def draw(timeline: ObjectTimeline) -> Markup | None:
    """Return the SVG element; None if there is nothing small to show."""
    chosen = set(timeline.minimal)
    calls = [call for call in timeline.calls if call.number in chosen]
    if not calls or len(calls) > CALLS:
        return None
    events = sorted(moment for call in calls for moment in (call.call, call.ret) if moment is not None)
    place = {moment: NAMES + 10 + (WIDTH - NAMES - RIGHT) * rank / len(events) for rank, moment in enumerate(events)}
    rows = {name: row for row, name in enumerate(dict.fromkeys(call.process for call in calls))}
    found = next(iter([*timeline.minimal_orders, *timeline.orders]), PartialLinearization(order=()))
    parts = [_lane(name, row) for name, row in rows.items()]
    parts += _points(found, calls, rows, place)
    parts += [_bar(call, rows[call.process], place, call.number in found.illegal) for call in calls]
    height = LANE * len(rows) + 6
    words = "the calls that are enough for the violation, from left to right in the order of their events"
    return Markup(
        '<svg class="static-timeline" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" role="img" '
        'aria-label="{}" font-family="sans-serif" font-size="12">{}</svg>'
    ).format(WIDTH, height, words, Markup("").join(parts))


def _lane(name: str, row: int) -> Markup:
    bottom = LANE * (row + 1)
    return Markup(
        '<text x="4" y="{}">{}</text><line x1="0" x2="{}" y1="{}" y2="{}" stroke="{}" stroke-width="0.5"/>'
    ).format(bottom - 11, _cut(name, (NAMES - 8) / LETTER), WIDTH, bottom, bottom, LINE)


def _bar(call: CallBar, row: int, place: dict[int, float], illegal: bool) -> Markup:
    x, y = place[call.call], LANE * (row + 1) - BAR - 4
    end = float(WIDTH) if call.ret is None else place[call.ret]
    halo = Markup(' paint-order="stroke" stroke="#fff" stroke-width="4" stroke-linejoin="round"')
    dashes = Markup(' stroke-dasharray="4 3" fill-opacity="0.25"') if call.ret is None else ""
    text = ("✕ " if illegal else "") + printable(call.label)
    inside = len(text) * LETTER + 8 <= end - x
    outside = not inside and end + len(text) * LETTER + 6 <= WIDTH
    shown = escape(text) if inside or outside else _cut(text, (end - x - 8) / LETTER)
    ink = BAD if outside and illegal else INK if outside or call.ret is None else "#fff"
    bar = Markup('<rect x="{:.1f}" y="{}" width="{:.1f}" height="{}" fill="{}" stroke="{}"{}/>').format(
        x, y, max(end - x, 2.0), BAR, BAD if illegal else STRONG, INK, dashes
    )
    return bar + Markup('<text x="{:.1f}" y="{}" fill="{}" font-family="monospace" font-size="11"{}>{}</text>').format(
        (end if outside else x) + 5, y + 14, ink, halo if outside else "", shown
    )


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
    line = " ".join(f"{x:.1f},{y}" for x, y in points)
    drawn = [Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="1.5"/>').format(line, INK)]
    for number, (x, y) in enumerate(points, 1):
        drawn.append(
            Markup(
                '<circle cx="{:.1f}" cy="{}" r="7" fill="#fff" stroke="{}"/>'
                '<text x="{:.1f}" y="{}" text-anchor="middle" font-size="9">{}</text>'
            ).format(x, y, INK, x, y + 3, number)
        )
    return drawn


def _cut(text: str, letters: float) -> Markup:
    shown = printable(text)
    return escape(shown if len(shown) <= letters else shown[: max(int(letters) - 1, 0)] + "…")
