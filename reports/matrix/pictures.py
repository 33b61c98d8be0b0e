"""A matrix in two pictures, each an SVG element that stands by itself: verdicts as a coloured grid, and the times
without service by kind of fault."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup

from chaos.errors import MachineError
from chaos.verdict import Validity
from reports import svg
from reports.matrix.table import Line, Share, Table, Times
from reports.svg import ABSENT, BAD, HELD, LINE, OPEN, PAPER, SERIES, SOFT, Scale

#: Pixels: a cell, the room for names on the left and for those above, between two systems, and a row of times.
CELL, NAMES, HEADS, BETWEEN, ROW = 17, 190, 128, 16, 15
#: Of the times: the room for names, the width of the plot, and where it begins from above.
FAULTS, WIDE, TOP = 420, 420, 36
#: Letters of a name; pixels of a letter of a key.
LETTERS, FAULT_LETTERS, LETTER = 28, 64, 7
COLOURS = {
    Validity.VALID: HELD,
    Validity.INVALID: BAD,
    Validity.UNKNOWN: OPEN,
    Validity.NOT_APPLICABLE: ABSENT,
}
#: What stands in the key.
MEANINGS = {
    Validity.VALID: "no violation in any run",
    Validity.INVALID: "violated, in so many runs",
    Validity.UNKNOWN: "not decided",
    Validity.NOT_APPLICABLE: "n/a",
}


def grid(table: Table) -> Markup:
    """Law × experiment × system. A cell that can't be run is hatched."""
    laws, wide = list(table.laws), CELL * max(len(table.laws), 1) + BETWEEN
    parts: list[Markup] = []
    for number, column in enumerate(table.columns):
        left = NAMES + wide * number
        parts.append(svg.text(left, 16, svg.cut(column, LETTERS), font_weight=600))
        for place, law in enumerate(laws):
            turned = f"translate({left + CELL * place + CELL / 2 + 3} {HEADS - 5}) rotate(-60)"
            parts.append(svg.element("text", svg.cut(law, LETTERS), transform=turned, fill=SOFT))
    for number, row in enumerate(table.rows):
        y = HEADS + CELL * number
        parts.append(svg.text(NAMES - 8, y + 12, svg.cut(row, LETTERS), text_anchor="end"))
        for at, column in enumerate(table.columns):
            line = table.line(row, column)
            if line is not None:
                parts += _cells(line, laws, NAMES + wide * at, y)
    bottom = HEADS + CELL * len(table.rows)
    title = f"Verdicts of {table.name}: law by experiment by system"
    return svg.picture(
        NAMES + wide * len(table.columns) + 10, bottom + 44, "grid", title, [*parts, *_key(bottom + 22)]
    )  # fmt: skip


def _cells(line: Line, laws: Sequence[str], left: int, y: int) -> Iterator[Markup]:
    place = line.place
    if place.lacks:
        yield svg.element(
            "g", svg.hint(f"{place.row} on {place.column}: n/a, {place.lacks}"),
            svg.rect(left, y + 1, CELL * len(laws) - 2, CELL - 2, ABSENT, fill_opacity="0.5"),
            svg.text(left + 5, y + 12, "n/a", fill=SOFT, font_size=9),
        )  # fmt: skip
        return
    alike: dict[Share | None, list[int]] = {}  # one element each, since a matrix has thousands of cells
    for number, law in enumerate(laws):
        alike.setdefault(line.laws.get(law), []).append(number)
    for share, numbers in alike.items():
        outcome = f"{share.verdict}, {share.invalid} of {share.judged} runs INVALID" if share else "not run"
        which = "" if len(numbers) == len(laws) else f", {', '.join(laws[number] for number in numbers)}"
        places = [left + CELL * number for number in numbers]
        outline = "".join(f"M{x} {y + 1}h{CELL - 2}v{CELL - 2}h{2 - CELL}z" for x in places)
        fill = COLOURS[share.verdict] if share else PAPER
        counts = [_count(share.invalid, x, y) for x in places] if share and share.invalid else []
        cells = svg.path(outline, LINE, fill=fill, stroke_width="0.5")
        yield svg.element("g", svg.hint(f"{place.row} on {place.column}{which}: {outcome}"), cells, *counts)


def _count(invalid: int, x: int, y: int) -> Markup:
    """Draw how many runs were INVALID, so that colour alone says nothing."""
    return svg.text(x + (CELL - 2) / 2, y + 12, str(invalid), fill=PAPER, font_size=10, text_anchor="middle")


def _key(y: int) -> Iterator[Markup]:
    x = NAMES
    for validity, words in MEANINGS.items():
        yield svg.rect(x, y - 10, 12, 12, COLOURS[validity])
        yield svg.text(x + 17, y, words)
        x += 17 + LETTER * len(words) + 14


def times(table: Table) -> Markup:
    """Draw the times without service of each kind of fault: a line from the median to the maximum, a colour a
    system."""
    most = max((one.max_s for by_column in table.faults.values() for one in by_column.values()), default=1.0)
    scale = Scale(first=0.0, last=max(math.ceil(most), 1.0), start=FAULTS, length=WIDE)
    parts: list[Markup] = []
    y = TOP + 8
    for fault, by_column in table.faults.items():
        parts.append(svg.text(FAULTS - 10, y + 11, svg.cut(fault, FAULT_LETTERS), text_anchor="end"))
        for column, one in by_column.items():
            parts.append(_bar(f"{fault} on {column}", one, y, scale, _colour(table, column)))
            y += ROW
        y += 5
    title = f"Seconds without service after each kind of fault, {table.name}"
    parts = [*scale.axis(TOP, y + 5), *_systems(table), *parts]
    return svg.picture(FAULTS + WIDE + 40, y + 30, "times", title, parts)


def _bar(what: str, measured: Times, y: int, scale: Scale, colour: str) -> Markup:
    low, high = scale.place(measured.p50_s), scale.place(measured.max_s)
    return svg.element(
        "g", svg.hint(f"{what}: p50 {measured.p50_s:.1f} s, max {measured.max_s:.1f} s, {measured.count} times"),
        svg.path(f"M{low} {y + 7}H{high}", colour, stroke_width=2),
        svg.circle(low, y + 7, 4, colour),
        svg.path(f"M{high} {y + 3}v8", colour, stroke_width=2),
    )  # fmt: skip


def _systems(table: Table) -> Iterator[Markup]:
    x = FAULTS
    for column in table.columns:
        yield svg.circle(x, 22, 4, _colour(table, column))
        yield svg.text(x + 9, 26, svg.cut(column, LETTERS))
        x += 9 + LETTER * len(column) + 18
    yield svg.text(FAULTS - 10, 26, "dot: median, bar: maximum", text_anchor="end")


def _colour(table: Table, column: str) -> str:
    return SERIES[list(table.columns).index(column) % len(SERIES)]


def write(folder: Path, table: Table) -> dict[str, str]:
    """Write both as files; return what each shows, and its name. Raises :class:`MachineError`, and
    :class:`chaos.errors.BadInput` where a file can't be written."""
    found = {"grid.svg": ("verdicts: law by experiment by system", grid(table))}
    if table.faults:
        found["times.svg"] = ("seconds without service after each kind of fault", times(table))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot write in {folder}: {error.strerror or error}") from error
    return {shows: svg.write(folder / name, picture).name for name, (shows, picture) in found.items()}
