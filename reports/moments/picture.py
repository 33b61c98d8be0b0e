"""Draws a curve as one SVG element that stands by itself: time to the right, the probability upwards."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from chaos import guarded
from chaos.errors import BadInput
from reports.moments.as_text import verdict
from reports.moments.curve import Curve, Moment
from reports.run_report.axis import printable
from reports.run_report.strip_svg import BAD, INK, LINE, MASTER, PAPER, SOFT

#: Pixels: of the whole, of the plot's left and upper corner, and of the plot.
WIDTH, HEIGHT, LEFT, TOP, WIDE, HIGH = 760, 330, 52, 44, 690, 220
#: Letters of the title and of the sentence below.
TITLE, WORDS = 100, 130
#: So many seconds are named below the plot.
TICKS = 5


def draw(curve: Curve) -> Markup:
    """Return the SVG element. Moments are where they lie in time; the largest jump is marked."""
    shown = _Plot(curve)
    parts = [*shown.grid(), shown.band(), shown.line(), *map(shown.dot, curve.moments)]
    title = printable(f"When {curve.name} ({curve.about or curve.law}) became inevitable", TITLE)
    return Markup(
        '<svg class="moments" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        'role="img" aria-labelledby="moments-title moments-words" font-family="sans-serif" font-size="11">'
        '<title id="moments-title">{title}</title><rect width="100%" height="100%" fill="{paper}"/>'
        '<text x="{left}" y="22" font-size="13" fill="{ink}">{title}</text>{parts}'
        '<text id="moments-words" x="{left}" y="{below}" fill="{ink}">{words}</text></svg>'
    ).format(
        width=WIDTH, height=HEIGHT, title=title, paper=PAPER, left=LEFT, ink=INK, parts=Markup("").join(parts),
        below=HEIGHT - 14, words=printable(verdict(curve).partition(": ")[0], WORDS),
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


class _Plot:
    def __init__(self, curve: Curve) -> None:
        self._curve = curve
        times = [moment.at_s for moment in curve.moments] or [0.0]
        self._first_s, self._span_s = times[0], (times[-1] - times[0]) or 1.0

    def _x(self, at_s: float) -> float:
        return round(LEFT + WIDE * (at_s - self._first_s) / self._span_s, 1)

    @staticmethod
    def _y(chance: float) -> float:
        return round(TOP + HIGH * (1 - chance), 1)

    def grid(self) -> list[Markup]:
        drawn = []
        for percent in (0, 25, 50, 75, 100):
            y = self._y(percent / 100)
            drawn.append(
                Markup(
                    '<path d="M{left} {y}H{right}" stroke="{line}"/>'
                    '<text x="{x}" y="{low}" text-anchor="end" fill="{soft}">{percent} %</text>'
                ).format(
                    left=LEFT, y=y, right=LEFT + WIDE, line=LINE, x=LEFT - 6, low=y + 4, soft=SOFT, percent=percent
                )
            )
        for number in range(TICKS + 1):
            at_s = self._first_s + self._span_s * number / TICKS
            drawn.append(
                Markup('<text x="{x}" y="{y}" text-anchor="middle" fill="{soft}">{at} s</text>').format(
                    x=self._x(at_s), y=TOP + HIGH + 18, soft=SOFT, at=f"{at_s:.4g}"
                )
            )
        return drawn

    def band(self) -> Markup:
        """Between the bounds."""
        up = [(moment.at_s, moment.same.high) for moment in self._curve.moments]
        down = [(moment.at_s, moment.same.low) for moment in reversed(self._curve.moments)]
        points = " ".join(f"{self._x(at_s)},{self._y(chance)}" for at_s, chance in (*up, *down))
        return Markup('<polygon points="{points}" fill="{fill}"/>').format(points=points, fill=MASTER)

    def line(self) -> Markup:
        points = " ".join(f"{self._x(one.at_s)},{self._y(one.same.value)}" for one in self._curve.moments)
        return Markup('<polyline points="{points}" fill="none" stroke="{ink}" stroke-width="1.5"/>').format(
            points=points, ink=INK
        )

    def dot(self, moment: Moment) -> Markup:
        told = f"{moment.at_s:.6f} s, row {moment.row}, {moment.told}: {moment.same}"
        jumped = self._curve.jump is not None and moment in self._curve.jump
        return Markup('<circle cx="{x}" cy="{y}" r="{r}" fill="{fill}"><title>{told}</title></circle>').format(
            x=self._x(moment.at_s), y=self._y(moment.same.value), r=5 if jumped else 3, fill=BAD if jumped else INK,
            told=printable(told, 200),
        )  # fmt: skip
