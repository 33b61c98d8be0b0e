"""Draws a causal strip as one SVG element that stands by itself: events in their order, a column each.

Distances are not to scale, so that a cause of milliseconds and its effect after seconds fit one picture; every column
names its second.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape

from reports.run_report.strip import Event, Part, Strip, Tone

NAMES, COLUMN, LANE, TOP, BOTTOM = 108, 78, 46, 8, 26
#: Room behind the last column.
RIGHT = 10
#: Where the page is narrower than this the strip scrolls.
SMALLEST = 704
#: Letters in a line of a label for each column that it may fill, and lines of a label.
LETTERS, LINES = 13, 2
INK, SOFT, LINE, PAPER = "#1b1f24", "#545d68", "#d1d9e0", "#ffffff"
BAD, GOOD, OTHER, MINE, FAULT, MASTER = "#b00020", "#116329", "#8a4600", "#0b6bb8", "#d55e00", "#cfe3f5"
INKS = {Tone.NOTE: SOFT, Tone.STEP: INK, Tone.GOOD: GOOD, Tone.OTHER: OTHER, Tone.BAD: BAD}


def draw(strip: Strip, number: int) -> Markup:
    """Return the SVG element. ``number`` is that of the cause; ids in the page are made of it."""
    xs = [NAMES + COLUMN * place + 14 for place in range(len(strip.events))]
    width = NAMES + COLUMN * len(strip.events) + RIGHT
    rows = {lane: row for row, lane in enumerate(strip.lanes)}
    height = TOP + LANE * len(rows) + BOTTOM
    parts = [*_shades(strip, xs, width, height), *_masters(strip, xs, rows, width)]
    parts += [_lane(name, row, width) for (_, name), row in rows.items()]
    parts += _holds(strip, xs, rows, width)
    parts += [_event(strip.events, place, xs, rows) for place in range(len(strip.events))]
    parts += [_second(event, x, height) for event, x in zip(strip.events, xs, strict=True)]
    title, words = _printable(f"The way of {strip.subject}"), _printable(described(strip))
    return Markup(
        '<svg class="strip" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        'style="min-width:{smallest}px" role="img" aria-labelledby="strip-{number}-title strip-{number}-desc" '
        'font-family="sans-serif" font-size="11"><title id="strip-{number}-title">{title}</title>'
        '<desc id="strip-{number}-desc">{words}</desc><rect width="100%" height="100%" fill="{paper}"/>{parts}</svg>'
    ).format(
        width=width, height=height, smallest=min(width, SMALLEST), number=number, title=title, words=words, paper=PAPER,
        parts=Markup("").join(parts),
    )  # fmt: skip


def described(strip: Strip) -> str:
    """Return the strip in words, for those who don't see it."""
    events = [f"{event.at_s:.3f} s {event.lane}: {event.text}" for event in strip.events]
    return "; ".join(events) + "."


def _x(strip: Strip, xs: Sequence[int], second: float, width: int) -> float:
    """Return where a second lies between the columns; before the first and after the last one at the edges."""
    times = [event.at_s for event in strip.events]
    return float(np.interp(second, times, xs, left=NAMES, right=width))


def _shades(strip: Strip, xs: Sequence[int], width: int, height: int) -> list[Markup]:
    shades = []
    for _, start_s, end_s in strip.faults:
        left, right = _x(strip, xs, start_s, width), _x(strip, xs, end_s, width)
        shades.append(
            Markup('<rect x="{:.0f}" y="0" width="{:.0f}" height="{}" fill="{}" fill-opacity="0.11"/>').format(
                left, max(right - left, 4), height - BOTTOM, FAULT
            )
        )
    return shades


def _masters(strip: Strip, xs: Sequence[int], rows: dict[tuple[Part, str], int], width: int) -> list[Markup]:
    """Draw a band on the lane of each master, as long as it called itself that."""
    bands = []
    for master in strip.masters:
        row = rows.get((Part.REPLICAS, master.node))
        if row is None:
            continue
        left, right = _x(strip, xs, master.start_s, width), _x(strip, xs, master.end_s, width)
        bands.append(
            Markup('<rect x="{:.0f}" y="{}" width="{:.0f}" height="{}" fill="{}"/>').format(
                left, TOP + LANE * row + 1, max(right - left, 2), LANE - 2, MASTER
            )
        )
        if right - left > COLUMN and left <= NAMES:
            label = Markup('<text x="{:.0f}" y="{}" fill="{}" font-size="9">master, epoch {}</text>')
            bands.append(label.format(left + 4, TOP + LANE * row + LANE - 5, SOFT, master.epoch))
    return bands


def _lane(name: str, row: int, width: int) -> Markup:
    bottom = TOP + LANE * (row + 1)
    return Markup(
        '<text x="6" y="{}" fill="{}" font-weight="600">{}</text>'
        '<line x1="0" x2="{}" y1="{}" y2="{}" stroke="{}" stroke-width="1"/>'
    ).format(bottom - 10, INK, _cut(name, 17), width, bottom, bottom, LINE)


def _holds(strip: Strip, xs: Sequence[int], rows: dict[tuple[Part, str], int], width: int) -> list[Markup]:
    """Draw a thick line on each lane while it stores the message, or another one in its place."""
    lines = []
    for lane, row in rows.items():
        mine = [(event, x) for event, x in zip(strip.events, xs, strict=True) if (event.part, event.lane) == lane]
        changes = [(event, x) for event, x in mine if event.holds is not None or event.drops]
        for (event, x), end in zip(changes, [*(x for _, x in changes[1:]), width], strict=False):
            if event.holds is None:
                continue
            lines.append(
                Markup('<line x1="{}" x2="{}" y1="{}" y2="{}" stroke="{}" stroke-width="5"/>').format(
                    x, end, _y(row), _y(row), MINE if event.holds else OTHER
                )
            )
    return lines


def _event(events: Sequence[Event], place: int, xs: Sequence[int], rows: dict[tuple[Part, str], int]) -> Markup:
    """Draw a mark and its label above it, as wide as the lane is free; at the right edge the label ends at the mark."""
    event, x, y = events[place], xs[place], _y(rows[events[place].part, events[place].lane])
    lane = [at for at, other in enumerate(events) if (other.part, other.lane) == (event.part, event.lane)]
    after = min((at for at in lane if at > place), default=len(events)) - place
    before = place - max((at for at in lane if at < place), default=-1)
    leftwards = place + after == len(events) and after < 3 and before > 2
    free = LETTERS * min(before - 1 if leftwards else after, 3)
    lines = textwrap.wrap(_printable(event.text), free, max_lines=LINES, placeholder="…") or [""]
    start, anchor = (x + 5, "end") if leftwards else (x - 5, "start")
    label = [
        Markup('<tspan x="{}" y="{}">{}</tspan>').format(start, y - 9 - 11 * (len(lines) - 1 - at), line)
        for at, line in enumerate(lines)
    ]
    if event.drops:
        mark = Markup('<path d="M{} {}l10 10m0 -10l-10 10" stroke="{}" stroke-width="3"/>').format(x - 5, y - 5, BAD)
    else:
        mark = Markup('<circle cx="{}" cy="{}" r="4.5" fill="{}" stroke="{}" stroke-width="1.5"/>').format(
            x, y, INKS[event.tone], PAPER
        )
    text = Markup('<text fill="{}" text-anchor="{}">{}</text>')
    return mark + text.format(INKS[event.tone], anchor, Markup("").join(label))


def _second(event: Event, x: int, height: int) -> Markup:
    return Markup('<text x="{}" y="{}" fill="{}" font-size="10">{:.3f} s</text>').format(
        x - 5, height - 9, SOFT, event.at_s
    )


def _y(row: int) -> int:
    return TOP + LANE * (row + 1) - 11


def _cut(text: str, letters: int) -> Markup:
    shown = _printable(text)
    return escape(shown if len(shown) <= letters else shown[: letters - 1] + "…")


def _printable(text: str) -> str:
    """Return a text as a page may hold it. Values come from the system under test: nothing that is no character, or
    that turns the direction of writing."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
