"""Draws which calls came before which: the real-time order of a few calls.

An arrow means that one call had returned before the other began, so that every linearization keeps the two in this
order; between calls without a path of arrows any order is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from reports import svg
from reports.svg import BAD_BOX, BAD_CALL, INK, PAPER, SOFT
from reports.timeline.model import CallBar

#: More than a person would read; of more, the last ones are drawn.
MOST = 40
#: Characters in a line of a label, and lines.
LETTERS, LINES = 26, 4
#: Pixels: of a column, of a box with the room between its border and its words, of a line of words, between two boxes
#: of a column, and of the head of an arrow.
COLUMN, BOX, PADDING, HIGH, GAP, TIP = 216, 176, 6, 13, 18, 7
#: Pixels above the first row, for the note on what is not drawn.
TOP = 26


def draw(calls: Sequence[CallBar], blocked: int | None, name: str) -> Markup:
    """Return the SVG element, whose ids begin with ``name``. Shapes, not colours alone, distinguish calls: the
    ``blocked`` one (its number) has a thick border, those that never returned a dashed one."""
    shown = sorted(calls, key=lambda call: call.call)[-MOST:]
    places = _places(shown)
    texts = [_lines(one, one.number == blocked) for one in shown]
    row_high = HIGH * max(map(len, texts), default=1) + 2 * PADDING + GAP
    centres = [(COLUMN * (column + 0.5), TOP + row_high * (row + 0.5)) for column, row in places]
    parts = [_arrow(centres[before], centres[after]) for before, after in _edges(shown)]
    for one, lines, (x, y) in zip(shown, texts, centres, strict=True):
        parts += _box(lines, x, y, is_blocked=one.number == blocked, is_open=one.ret is None)
    if left := len(calls) - len(shown):
        note = f"{left} earlier {'call is' if left == 1 else 'calls are'} not drawn"
        parts.append(svg.text(8, TOP - 10, note, fill=SOFT))
    width = COLUMN * (1 + max((column for column, _ in places), default=0))
    height = TOP + row_high * (1 + max((row for _, row in places), default=0))
    return svg.picture(width, height, name, "Which of these calls had returned before which others began", parts)


def _lines(call: CallBar, is_blocked: bool) -> list[str]:
    """Return the words of a call, line by line."""
    notes = ["(can't be placed)"] * is_blocked + ["(never returned)"] * (call.ret is None)
    return [*svg.wrapped(f"{call.process}: {call.label}", LETTERS, LINES), *notes]


def _box(lines: Sequence[str], x: float, y: float, *, is_blocked: bool, is_open: bool) -> list[Markup]:
    """Draw one call around its place."""
    high = HIGH * len(lines) + 2 * PADDING
    top = y - high / 2
    box = svg.rect(
        x - BOX / 2, top, BOX, high, BAD_BOX if is_blocked else PAPER, rx=6, stroke=BAD_CALL if is_blocked else INK,
        stroke_width=3 if is_blocked else None, stroke_dasharray="4 3" if is_open else None,
    )  # fmt: skip
    style = {"text_anchor": "middle", "font_weight": 600 if is_blocked else None}
    texts = (svg.element("text", line, x=x, y=top + PADDING + 10 + HIGH * place, fill=INK, **style)
             for place, line in enumerate(lines))  # fmt: skip
    return [box, *texts]


def _arrow(before: tuple[float, float], after: tuple[float, float]) -> Markup:
    """Draw an arrow from the right side of a box to the left side of one in a column further right."""
    (x, y), (end, bottom) = (before[0] + BOX / 2, before[1]), (after[0] - BOX / 2, after[1])
    middle = (x + end) / 2
    d = f"M{x:g} {y:g}C{middle:g} {y:g} {middle:g} {bottom:g} {end:g} {bottom:g}m-{TIP} -4l{TIP} 4l-{TIP} 4"
    return svg.path(d, SOFT, fill="none", stroke_width=1.5)


def _edges(calls: Sequence[CallBar]) -> list[tuple[int, int]]:
    """Return who came directly before whom: with no third one between the two."""
    pairs = [
        (before, after)
        for before, one in enumerate(calls)
        for after, other in enumerate(calls)
        if _is_before(one, other)
    ]
    known = set(pairs)
    every = range(len(calls))
    return [
        (one, other) for one, other in pairs if not any((one, mid) in known and (mid, other) in known for mid in every)
    ]


def _places(calls: Sequence[CallBar]) -> list[tuple[int, float]]:
    """Return (column, row) of each call: as many columns from the left as there are calls in a row before it,
    the rows of a column spread around the middle."""
    columns: list[int] = []
    for call in calls:  # in the order of their calls, so that all that came before have their column
        before = [columns[i] for i in range(len(columns)) if _is_before(calls[i], call)]
        columns.append(1 + max(before, default=-1))
    tallest = max((columns.count(column) for column in columns), default=1)
    places = []
    for i, column in enumerate(columns):
        mine = columns[:i].count(column)
        places.append((column, mine + (tallest - columns.count(column)) / 2))
    return places


def _is_before(one: CallBar, other: CallBar) -> bool:
    return one.ret is not None and one.ret < other.call
