"""Draws which calls came before which: the real-time order of a few operations.

An arrow means that one call had returned before the other began, so that every linearization keeps the two in this
order; between calls without a path of arrows any order is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from reports import svg
from reports.svg import BAD_BOX, BAD_CALL, INK, PAPER, SOFT

#: More than a person would read; of more, the last ones are drawn.
MOST = 40
#: Characters in a line of a label, and lines.
LETTERS, LINES = 26, 4
#: Pixels: of a column, of a box with the room between its border and its words, of a line of words, between two boxes
#: of a column, and of the head of an arrow.
COLUMN, BOX, PADDING, HIGH, GAP, TIP = 216, 176, 6, 13, 18, 7
#: Pixels above the first row, for the note on what is not drawn.
TOP = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """``call`` and ``ret`` are positions in the order of events; ``ret`` is None for one that never returned.
    ``is_blocked``: it is the one that can't be placed."""

    label: str
    call: int
    ret: int | None
    is_blocked: bool = False

    def is_before(self, other: Operation) -> bool:
        """Return whether this call had returned when the other one began."""
        return self.ret is not None and self.ret < other.call


def draw(operations: Sequence[Operation], name: str) -> Markup:
    """Return the SVG element, whose ids begin with ``name``. Shapes, not colours alone, distinguish operations: blocked
    ones have a thick border, those that never returned a dashed one."""
    shown = sorted(operations, key=lambda operation: operation.call)[-MOST:]
    places = _places(shown)
    texts = [_lines(one) for one in shown]
    row_high = HIGH * max(map(len, texts), default=1) + 2 * PADDING + GAP
    centres = [(COLUMN * (column + 0.5), TOP + row_high * (row + 0.5)) for column, row in places]
    parts = [_arrow(centres[before], centres[after]) for before, after in _edges(shown)]
    parts += [
        part for one, lines, centre in zip(shown, texts, centres, strict=True) for part in _box(one, lines, *centre)
    ]
    if left := len(operations) - len(shown):
        note = f"{left} earlier {'operation is' if left == 1 else 'operations are'} not drawn"
        parts.append(svg.text(8, TOP - 10, note, fill=SOFT))
    width = COLUMN * (1 + max((column for column, _ in places), default=0))
    height = TOP + row_high * (1 + max((row for _, row in places), default=0))
    return svg.picture(width, height, name, "Which of these calls had returned before which others began", parts)


def _lines(operation: Operation) -> list[str]:
    """Return the words of an operation, line by line."""
    notes = ["(can't be placed)"] * operation.is_blocked + ["(never returned)"] * (operation.ret is None)
    return [*svg.wrapped(operation.label, LETTERS, LINES), *notes]


def _box(operation: Operation, lines: Sequence[str], x: float, y: float) -> list[Markup]:
    """Draw one operation around its place."""
    high = HIGH * len(lines) + 2 * PADDING
    border = {"stroke": BAD_CALL, "stroke_width": 3} if operation.is_blocked else {"stroke": INK}
    dashes = "4 3" if operation.ret is None else None
    box = svg.rect(
        x - BOX / 2, y - high / 2, BOX, high, BAD_BOX if operation.is_blocked else PAPER, rx=6, stroke_dasharray=dashes,
        **border,
    )  # fmt: skip
    weight = 600 if operation.is_blocked else None
    top = y - high / 2 + PADDING + 10
    return [box] + [
        svg.text(x, top + HIGH * place, line, text_anchor="middle", font_weight=weight)
        for place, line in enumerate(lines)
    ]


def _arrow(before: tuple[float, float], after: tuple[float, float]) -> Markup:
    """Draw an arrow from the right side of a box to the left side of one in a column further right."""
    (x, y), (end, bottom) = (before[0] + BOX / 2, before[1]), (after[0] - BOX / 2, after[1])
    middle = (x + end) / 2
    d = f"M{x:g} {y:g}C{middle:g} {y:g} {middle:g} {bottom:g} {end:g} {bottom:g}m-{TIP} -4l{TIP} 4l-{TIP} 4"
    return svg.path(d, SOFT, fill="none", stroke_width=1.5)


def _edges(operations: Sequence[Operation]) -> list[tuple[int, int]]:
    """Return who came directly before whom: with no third one between the two."""
    pairs = [
        (before, after)
        for before, one in enumerate(operations)
        for after, other in enumerate(operations)
        if one.is_before(other)
    ]
    known = set(pairs)
    every = range(len(operations))
    return [
        (one, other) for one, other in pairs if not any((one, mid) in known and (mid, other) in known for mid in every)
    ]


def _places(operations: Sequence[Operation]) -> list[tuple[int, float]]:
    """Return (column, row) of each operation: as many columns from the left as there are operations in a row before it,
    the rows of a column spread around the middle."""
    columns: list[int] = []
    for operation in operations:  # in the order of their calls, so that all that came before have their column
        before = [columns[i] for i in range(len(columns)) if operations[i].is_before(operation)]
        columns.append(1 + max(before, default=-1))
    tallest = max((columns.count(column) for column in columns), default=1)
    places = []
    for i, column in enumerate(columns):
        mine = columns[:i].count(column)
        places.append((column, mine + (tallest - columns.count(column)) / 2))
    return places
