"""Draws a curve as one SVG element that stands by itself: time to the right, the probability upwards."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup

from chaos import guarded
from chaos.errors import BadInput
from reports.moments.as_text import verdict
from reports.moments.curve import Curve, Moment
from reports.run_report.axis import printable
from reports.run_report.strip_svg import BAD, FAULT, INK, LINE, MASTER, OTHER, PAPER, SOFT

#: Pixels: of the whole, of the plot's left and upper corner, and of the plot.
WIDTH, HEIGHT, LEFT, TOP, WIDE, HIGH = 800, 360, 56, 74, 724, 208
#: Letters of the title, of the sentence below, and of what happened; pixels of a letter of a fault's name.
TITLE, WORDS, HAPPENED, LETTER = 100, 130, 110, 6.0
#: About so many seconds are named below the plot.
TICKS = 6
#: So many rows of the largest jump are described in the picture.
ROWS = 2


def draw(curve: Curve) -> Markup:
    """Return the SVG element. Moments are where they lie in time; the largest jump is marked."""
    shown = _Plot(curve)
    parts = [*shown.faults(), *shown.grid(), shown.band(), *shown.lines(), *shown.jump()]
    parts += [*map(shown.dot, curve.moments), *shown.key()]
    title = printable(f"When {curve.name} ({curve.about or curve.law}) became inevitable", TITLE)
    name = f"moments-{curve.number}"
    return Markup(
        '<svg class="strip moments" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        'role="img" aria-labelledby="{name}-title {name}-words" font-family="sans-serif" font-size="11">'
        '<title id="{name}-title">{title}</title><rect width="100%" height="100%" fill="{paper}"/>'
        '<text x="{left}" y="22" font-size="14" font-weight="600" fill="{ink}">{title}</text>{parts}'
        '<text id="{name}-words" x="{left}" y="{below}" fill="{ink}">{words}</text></svg>'
    ).format(
        width=WIDTH, height=HEIGHT, name=name, title=title, paper=PAPER, left=LEFT, ink=INK,
        parts=Markup("").join(parts), below=HEIGHT - 42, words=printable(verdict(curve).partition(": ")[0], WORDS),
    )  # fmt: skip


def write(file: Path, curve: Curve) -> Path:
    """Write the picture as a file and return its path. Raises :class:`chaos.errors.BadInput` when it can't be
    written."""
    content = f'<?xml version="1.0" encoding="UTF-8"?>\n{draw(curve)}\n'
    try:
        guarded.replace(file, content.encode())
    except OSError as error:
        raise BadInput(f"cannot write {file}: {error.strerror or error}") from error
    return file


def ticks(first_s: float, last_s: float) -> Iterator[float]:
    """Yield round seconds between two."""
    step = (last_s - first_s) / TICKS
    unit = 10.0 ** math.floor(math.log10(step))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= step)
    for turn in range(math.ceil(first_s / step - 1e-9), math.floor(last_s / step + 1e-9) + 1):
        yield turn * step


class _Plot:
    def __init__(self, curve: Curve) -> None:
        self._curve = curve
        times = [moment.at_s for moment in curve.moments] or [0.0]
        self._first_s, self._last_s = times[0], max(times[-1], times[0] + 1e-3)
        self._alike = bool(curve.about) and any(one.alike != one.same for one in curve.moments)

    def _x(self, at_s: float) -> float:
        share = (at_s - self._first_s) / (self._last_s - self._first_s)
        return round(LEFT + WIDE * min(max(share, 0.0), 1.0), 1)

    @staticmethod
    def _y(chance: float) -> float:
        return round(TOP + HIGH * (1 - chance), 1)

    def faults(self) -> Iterator[Markup]:
        """Draw the faults: each is shaded while it lasts, and named above the plot where there is room."""
        free = 0.0
        for name, start_s, end_s in sorted(self._curve.faults, key=lambda fault: fault[1]):
            if end_s < self._first_s or start_s > self._last_s:
                continue
            left, right = self._x(start_s), self._x(end_s)
            yield Markup(
                '<rect x="{x}" y="{y}" width="{wide}" height="{high}" fill="{fill}" fill-opacity="0.12">'
                "<title>{name}, {start} s to {end} s</title></rect>"
            ).format(
                x=left, y=TOP, wide=round(max(right - left, 2.0), 1), high=HIGH, fill=FAULT, name=printable(name, 200),
                start=f"{start_s:.3f}", end=f"{end_s:.3f}",
            )  # fmt: skip
            letters = int((LEFT + WIDE - left) / LETTER)
            if left >= free and letters > 3:
                label = printable(name, min(letters, 32))
                free = left + LETTER * (min(len(name), letters, 32) + 1)
                yield Markup('<text x="{x}" y="{y}" fill="{fill}">{label}</text>').format(
                    x=left, y=TOP - 5, fill=SOFT, label=label
                )

    def grid(self) -> Iterator[Markup]:
        for percent in (0, 25, 50, 75, 100):
            y = self._y(percent / 100)
            yield Markup(
                '<path d="M{left} {y}H{right}" stroke="{line}"/>'
                '<text x="{x}" y="{low}" text-anchor="end" fill="{soft}">{percent} %</text>'
            ).format(left=LEFT, y=y, right=LEFT + WIDE, line=LINE, x=LEFT - 8, low=y + 4, soft=SOFT, percent=percent)
        for at_s in ticks(self._first_s, self._last_s):
            yield Markup(
                '<path d="M{x} {top}v5" stroke="{line}"/>'
                '<text x="{x}" y="{y}" text-anchor="middle" fill="{soft}">{at} s</text>'
            ).format(x=self._x(at_s), top=TOP + HIGH, y=TOP + HIGH + 16, line=LINE, soft=SOFT, at=f"{at_s:.6g}")

    def band(self) -> Markup:
        """Draw the band between the bounds."""
        up = [(moment.at_s, moment.same.high) for moment in self._curve.moments]
        down = [(moment.at_s, moment.same.low) for moment in reversed(self._curve.moments)]
        points = " ".join(f"{self._x(at_s)},{self._y(chance)}" for at_s, chance in (*up, *down))
        return Markup('<polygon points="{points}" fill="{fill}" fill-opacity="0.75"/>').format(
            points=points, fill=MASTER
        )

    def lines(self) -> Iterator[Markup]:
        found = [(INK, "", [(one.at_s, one.same.value) for one in self._curve.moments])]
        if self._alike:
            found.insert(0, (OTHER, "5 3", [(one.at_s, one.alike.value) for one in self._curve.moments]))
        for colour, dashes, line in found:
            points = " ".join(f"{self._x(at_s)},{self._y(chance)}" for at_s, chance in line)
            yield Markup(
                '<path d="M{points}" fill="none" stroke="{ink}" stroke-width="1.5" stroke-dasharray="{dashes}"/>'
            ).format(points=points, ink=colour, dashes=dashes or "none")

    def dot(self, moment: Moment) -> Markup:
        words = f"{moment.at_s:.6f} s, row {moment.row}, {moment.event}: {moment.same}"
        jumped = self._curve.jump is not None and moment in self._curve.jump
        return Markup('<circle cx="{x}" cy="{y}" r="{r}" fill="{fill}"><title>{words}</title></circle>').format(
            x=self._x(moment.at_s), y=self._y(moment.same.value), r=4.5 if jumped else 3, fill=BAD if jumped else INK,
            words=printable(words, 200),
        )  # fmt: skip

    def jump(self) -> Iterator[Markup]:
        """Draw the jump: its height beside it, and what happened in it below the plot."""
        if self._curve.jump is None:
            return
        before, after = self._curve.jump
        left, right = self._x(before.at_s), self._x(after.at_s)
        low, high = self._y(before.same.value), self._y(after.same.value)
        late = left > LEFT + WIDE / 2  # there the room is on the left
        yield Markup(
            '<path d="M{left} {low}L{right} {high}" stroke="{bad}" stroke-width="3"/>'
            '<text x="{at}" y="{y}" text-anchor="{anchor}" font-weight="600" fill="{bad}">{words}</text>'
        ).format(
            left=left, low=low, right=right, high=high, bad=BAD, at=left - 12 if late else right + 12,
            y=round((low + high) / 2 + 4, 1), anchor="end" if late else "start",
            words=f"{100 * before.same.value:.0f} % → {100 * after.same.value:.0f} %",
        )  # fmt: skip
        for place, line in enumerate(self._curve.happened[:ROWS]):
            yield Markup('<text x="{x}" y="{y}" fill="{soft}">{line}</text>').format(
                x=LEFT, y=HEIGHT - 26 + 16 * place, soft=SOFT, line=printable(line, HAPPENED)
            )

    def key(self) -> Iterator[Markup]:
        meanings = [(INK, "the same violation comes again"), (MASTER, "between the bounds (95 %)")]
        if self._alike:
            meanings.append((OTHER, "one alike comes (dashed)"))
        meanings.append((FAULT, "a fault is in force"))
        x = float(LEFT)
        for colour, words in meanings:
            faint = ' fill-opacity="0.25"' if colour == FAULT else ""
            yield Markup(
                '<rect x="{x}" y="36" width="14" height="8" fill="{fill}"{faint}/><text x="{at}" y="44" fill="{soft}">'
                "{words}</text>"
            ).format(x=x, fill=colour, faint=Markup(faint), at=x + 19, soft=SOFT, words=words)
            x += 19 + LETTER * len(words) + 14
