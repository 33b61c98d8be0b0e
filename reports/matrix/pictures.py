"""A matrix in two pictures, each an SVG element that stands by itself: verdicts as a coloured grid, and the times
without service by kind of fault."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup

from chaos import guarded
from chaos.errors import MachineError
from chaos.verdict import Validity
from reports.matrix.table import Line, Table, Times
from reports.moments.picture import ticks
from reports.run_report.axis import printable
from reports.run_report.strip_svg import BAD, INK, LINE, PAPER, SOFT

#: Pixels: a cell, the room for names on the left and for those above, between two systems, and a row of times.
CELL, NAMES, HEADS, BETWEEN, ROW = 17, 190, 128, 16, 15
#: Of the times: the room for names, and the width of the plot.
FAULTS, WIDE = 420, 420
#: Letters of a name.
LETTERS, FAULT_LETTERS = 28, 64
COLOURS = {
    Validity.VALID: "#3a9a5b",
    Validity.INVALID: BAD,
    Validity.UNKNOWN: "#e0a100",
    Validity.NOT_APPLICABLE: "#d8dde3",
}
#: What stands in the key.
MEANINGS = {
    Validity.VALID: "no violation in any run",
    Validity.INVALID: "violated, in so many runs",
    Validity.UNKNOWN: "not decided",
    Validity.NOT_APPLICABLE: "n/a",
}
#: One colour for each system, repeated after the last.
SYSTEMS = ("#0b6bb8", "#d55e00", "#116329", "#8a4600", "#7b3fa0", "#545d68")


def grid(table: Table) -> Markup:
    """Law × experiment × system. A cell that can't be run is hatched."""
    laws, wide = list(table.laws), CELL * max(len(table.laws), 1) + BETWEEN
    width = NAMES + wide * len(table.columns) + 10
    height = HEADS + CELL * len(table.rows) + 44
    parts: list[Markup] = []
    for number, column in enumerate(table.columns):
        left = NAMES + wide * number
        parts.append(_text(left, 16, column, bold=True))
        for place, law in enumerate(laws):
            x = left + CELL * place + CELL / 2 + 3
            parts.append(Markup('<text transform="translate({x} {y}) rotate(-60)" fill="{soft}">{law}</text>').format(
                x=x, y=HEADS - 5, soft=SOFT, law=printable(law, LETTERS)))  # fmt: skip
    for number, row in enumerate(table.rows):
        y = HEADS + CELL * number
        parts.append(_text(NAMES - 8, y + 12, row, end=True))
        for at, column in enumerate(table.columns):
            line = table.line(row, column)
            if line is not None:
                parts += _cells(line, laws, NAMES + wide * at, y)
    parts += _key(HEADS + CELL * len(table.rows) + 22)
    return _svg(f"Verdicts of {table.name}: law by experiment by system", width, height, parts)


def _cells(line: Line, laws: list[str], left: int, y: int) -> Iterator[Markup]:
    place = line.place
    if place.lacks:
        words = f"{place.row} on {place.column}: n/a, {place.lacks}"
        yield Markup(
            '<g><title>{words}</title><rect x="{x}" y="{y}" width="{wide}" height="{high}" fill="{fill}" '
            'fill-opacity="0.5"/><text x="{at}" y="{low}" fill="{soft}" font-size="9">n/a</text></g>'
        ).format(words=printable(words, 300), x=left, y=y + 1, wide=CELL * len(laws) - 2, high=CELL - 2,
                 fill=COLOURS[Validity.NOT_APPLICABLE], at=left + 5, low=y + 12, soft=SOFT)  # fmt: skip
        return
    for number, law in enumerate(laws):
        share = line.laws.get(law)
        fill = COLOURS[share.verdict] if share else PAPER
        outcome = f"{share.verdict}, {share.invalid} of {share.judged} runs INVALID" if share else "not run"
        x = left + CELL * number
        yield Markup(
            '<g><title>{words}</title><rect x="{x}" y="{y}" width="{wide}" height="{wide}" fill="{fill}" '
            'stroke="{line}" stroke-width="0.5"/>{inside}</g>'
        ).format(words=printable(f"{place.row} on {place.column}, {law}: {outcome}", 300), x=x, y=y + 1, wide=CELL - 2,
                 fill=fill, line=LINE, inside=_count(share.invalid if share else 0, x, y))  # fmt: skip


def _count(invalid: int, x: int, y: int) -> Markup:
    """Draw how many runs were INVALID, so that colour alone says nothing."""
    if not invalid:
        return Markup("")
    return Markup('<text x="{x}" y="{y}" text-anchor="middle" font-size="10" fill="#ffffff">{count}</text>').format(
        x=x + (CELL - 2) / 2, y=y + 12, count=invalid
    )


def _key(y: int) -> Iterator[Markup]:
    x = NAMES
    for validity, words in MEANINGS.items():
        yield Markup('<rect x="{x}" y="{y}" width="12" height="12" fill="{fill}"/>').format(
            x=x, y=y - 10, fill=COLOURS[validity]
        )
        yield _text(x + 17, y, words)
        x += 17 + 7 * len(words) + 14


def times(table: Table) -> Markup:
    """Draw the times without service of each kind of fault: a line from the median to the maximum, a colour a
    system."""
    most = max((one.max_s for by_column in table.faults.values() for one in by_column.values()), default=1.0)
    scale = WIDE / max(most, 1.0)
    parts: list[Markup] = []
    y = 44
    for fault, by_column in table.faults.items():
        parts.append(_text(FAULTS - 10, y + 11, fault, FAULT_LETTERS, end=True))
        for column, one in by_column.items():
            parts.append(_bar(f"{fault} on {column}", one, y, scale, _colour(table, column)))
            y += ROW
        y += 5
    parts = [*_scale(most, scale, y), *_systems(table), *parts]
    return _svg(f"Seconds without service after each kind of fault, {table.name}", FAULTS + WIDE + 40, y + 30, parts)


def _bar(what: str, measured: Times, y: int, scale: float, colour: str) -> Markup:
    words = f"{what}: p50 {measured.p50_s:.1f} s, max {measured.max_s:.1f} s, {measured.count} times"
    return Markup(
        '<g><title>{words}</title><path d="M{low} {y}H{high}" stroke="{ink}" stroke-width="2"/>'
        '<circle cx="{low}" cy="{y}" r="4" fill="{ink}"/>'
        '<path d="M{high} {top}v8" stroke="{ink}" stroke-width="2"/></g>'
    ).format(
        words=printable(words, 300),
        low=round(FAULTS + measured.p50_s * scale, 1),
        high=round(FAULTS + measured.max_s * scale, 1),
        y=y + 7,
        top=y + 3,
        ink=colour,
    )


def _scale(most: float, scale: float, bottom: int) -> Iterator[Markup]:
    for second in ticks(0.0, max(math.ceil(most), 1)):
        x = round(FAULTS + second * scale, 1)
        yield Markup('<path d="M{x} 36V{bottom}" stroke="{line}"/>').format(x=x, bottom=bottom, line=LINE)
        yield Markup('<text x="{x}" y="{y}" text-anchor="middle" fill="{soft}">{second} s</text>').format(
            x=x, y=bottom + 16, soft=SOFT, second=f"{second:g}"
        )


def _systems(table: Table) -> Iterator[Markup]:
    x = FAULTS
    for column in table.columns:
        yield Markup('<circle cx="{x}" cy="22" r="4" fill="{ink}"/>').format(x=x, ink=_colour(table, column))
        yield _text(x + 9, 26, column)
        x += 9 + 7 * len(column) + 18
    yield _text(FAULTS - 10, 26, "dot: median, bar: maximum", end=True)


def _colour(table: Table, column: str) -> str:
    return SYSTEMS[list(table.columns).index(column) % len(SYSTEMS)]


def _text(x: float, y: float, words: str, letters: int = LETTERS, *, end: bool = False, bold: bool = False) -> Markup:
    anchor, weight = "end" if end else "start", 600 if bold else 400
    return Markup(
        '<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" fill="{ink}">{words}</text>'
    ).format(x=x, y=y, anchor=anchor, weight=weight, ink=INK, words=printable(words, letters))


def _svg(title: str, width: int, height: int, parts: list[Markup]) -> Markup:
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        'font-family="sans-serif" font-size="11"><title>{title}</title>'
        '<rect width="100%" height="100%" fill="{paper}"/>{parts}</svg>'
    ).format(width=width, height=height, title=printable(title, 200), paper=PAPER, parts=Markup("\n").join(parts))


def write(folder: Path, table: Table) -> dict[str, str]:
    """Write both as files; return what each shows, and its name. Raises :class:`MachineError`."""
    found = {"grid.svg": ("verdicts: law by experiment by system", grid(table))}
    if table.faults:
        found["times.svg"] = ("seconds without service after each kind of fault", times(table))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, (_, picture) in found.items():
            guarded.replace(folder / name, f'<?xml version="1.0" encoding="UTF-8"?>\n{picture}\n'.encode())
    except OSError as error:
        raise MachineError(f"cannot write in {folder}: {error.strerror or error}") from error
    return {shows: name for name, (shows, _) in found.items()}
