"""Draws a causal strip as one SVG element that stands by itself: events in their order, a column each.

Distances are not to scale, so that a cause of milliseconds and its effect after seconds fit one picture; every column
names its second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from reports import svg
from reports.run_report.strip import Event, Part, Strip, Tone
from reports.svg import BAD, FAULT, GOOD, INK, MASTER, MINE, OTHER, PAPER, SOFT

NAMES, COLUMN, LANE, TOP, BOTTOM = 108, 78, 46, 8, 26
#: Room behind the last column.
RIGHT = 10
#: Where the page is narrower than this the strip scrolls.
SMALLEST = 704
#: Letters in a line of a label for each column that it may fill, and lines of a label; letters of a lane's name.
LETTERS, LINES, NAME = 13, 2, 17
INKS = {Tone.NOTE: SOFT, Tone.STEP: INK, Tone.GOOD: GOOD, Tone.OTHER: OTHER, Tone.FAULT: FAULT, Tone.BAD: BAD}


def draw(strip: Strip, name: int | str) -> Markup:
    """Return the SVG element. ``name`` distinguishes it on the page: ids are made of it."""
    xs = [NAMES + COLUMN * place + 14 for place in range(len(strip.events))]
    width = NAMES + COLUMN * len(strip.events) + RIGHT
    rows = {lane: row for row, lane in enumerate(strip.lanes)}
    height = TOP + LANE * len(rows) + BOTTOM
    parts = [*_shades(strip, xs, width, height), *_masters(strip, xs, rows, width)]
    parts += [part for (_, name), row in rows.items() for part in _lane(name, row, width)]
    parts += _holds(strip, xs, rows, width)
    parts += [part for place in range(len(strip.events)) for part in _event(strip.events, place, xs, rows)]
    parts += [
        svg.text(x - 5, height - 9, f"{event.at_s:.3f} s", fill=SOFT, font_size=10)
        for event, x in zip(strip.events, xs, strict=True)
    ]
    return svg.picture(
        width, height, f"strip-{name}", f"The way of {strip.subject}", parts, words=described(strip),
        smallest=SMALLEST, class_="strip",
    )  # fmt: skip


def described(strip: Strip) -> str:
    """Return the strip in words, for those who don't see it."""
    events = [f"{event.at_s:.3f} s {event.lane}: {event.text}" for event in strip.events]
    return "; ".join(events) + "."


def _x(strip: Strip, xs: Sequence[int], second: float, width: int) -> int:
    """Return where a second lies between the columns; before the first and after the last one at the edges."""
    times = [event.at_s for event in strip.events]
    return round(float(np.interp(second, times, xs, left=NAMES, right=width)))


def _shades(strip: Strip, xs: Sequence[int], width: int, height: int) -> list[Markup]:
    shades = []
    for _, start_s, end_s in strip.faults:
        left, right = _x(strip, xs, start_s, width), _x(strip, xs, end_s, width)
        shades.append(svg.rect(left, 0, max(right - left, 4), height - BOTTOM, FAULT, fill_opacity="0.11"))
    return shades


def _masters(strip: Strip, xs: Sequence[int], rows: dict[tuple[Part, str], int], width: int) -> list[Markup]:
    """Draw a band on the lane of each master, as long as it called itself that."""
    bands = []
    for master in strip.masters:
        row = rows.get((Part.REPLICAS, master.node))
        if row is None:
            continue
        left, right = _x(strip, xs, master.start_s, width), _x(strip, xs, master.end_s, width)
        bands.append(svg.rect(left, TOP + LANE * row + 1, max(right - left, 2), LANE - 2, MASTER))
        if right - left > COLUMN and left <= NAMES:
            bottom = TOP + LANE * row + LANE
            bands.append(svg.text(left + 4, bottom - 5, f"master, epoch {master.epoch}", fill=SOFT, font_size=9))
    return bands


def _lane(name: str, row: int, width: int) -> list[Markup]:
    bottom = TOP + LANE * (row + 1)
    return [svg.text(6, bottom - 10, svg.cut(name, NAME), font_weight=600), svg.line(0, bottom, width, bottom)]


def _holds(strip: Strip, xs: Sequence[int], rows: dict[tuple[Part, str], int], width: int) -> list[Markup]:
    """Draw a thick line on each lane while it stores the message, or another one in its place."""
    lines = []
    for lane, row in rows.items():
        mine = [(event, x) for event, x in zip(strip.events, xs, strict=True) if (event.part, event.lane) == lane]
        changes = [(event, x) for event, x in mine if event.holds is not None or event.drops]
        for (event, x), end in zip(changes, [*(x for _, x in changes[1:]), width], strict=False):
            if event.holds is not None:
                lines.append(svg.line(x, _y(row), end, _y(row), MINE if event.holds else OTHER, stroke_width=5))
    return lines


def _event(
    events: Sequence[Event], place: int, xs: Sequence[int], rows: dict[tuple[Part, str], int]
) -> tuple[Markup, Markup]:
    """Draw a mark and its label above it, as wide as the lane is free; at the right edge the label ends at the mark."""
    event, x, y = events[place], xs[place], _y(rows[events[place].part, events[place].lane])
    lane = [at for at, other in enumerate(events) if (other.part, other.lane) == (event.part, event.lane)]
    after = min((at for at in lane if at > place), default=len(events)) - place
    before = place - max((at for at in lane if at < place), default=-1)
    leftwards = place + after == len(events) and after < 3 and before > 2
    lines = svg.wrapped(event.text, LETTERS * min(before - 1 if leftwards else after, 3), LINES)
    start, anchor = (x + 5, "end") if leftwards else (x - 5, "start")
    label = [svg.element("tspan", line, x=start, y=y - 9 - 11 * (len(lines) - 1 - at)) for at, line in enumerate(lines)]
    if event.drops:
        mark = svg.path(f"M{x - 5} {y - 5}l10 10m0 -10l-10 10", BAD, stroke_width=3)
    else:
        mark = svg.circle(x, y, 4.5, INKS[event.tone], stroke=PAPER, stroke_width=1.5)
    return mark, svg.element("text", *label, fill=INKS[event.tone], text_anchor=anchor)


def _y(row: int) -> int:
    return TOP + LANE * (row + 1) - 11
