"""Drawing on the one time axis of a report: a panel is a title, named lanes and an SVG plot beside them.

Widths in a plot are shares of the axis, heights are pixels: so a plot fits any screen, its texts keep their size, and
the page's script zooms by nothing but the width and place of the one inner SVG (``stage``). Curves and dots lie in
inner SVGs of their own whose units are milliseconds and thousandths of the height. Colours come from the style sheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from reports.message_table import STROKES
from reports.printable import printable as printable_text
from reports.run_report.labels import chosen
from reports.send_summary import DOTS_ACROSS
from reports.summary import Numbers

#: Height of a lane, and of a bar in it, in pixels.
LANE, BAR = 22, 16
#: Letters of a lane's name, and of a label in a bar.
NAME, LABEL = 40, 60
#: Between the labels of a bar in its attribute; no label holds it, since it is no printable character.
OR = "\n"
#: Pixels of a plot where no script measures it, and of a letter of a label.
USUAL, LETTER = 860, 5.8
#: What lasts no longer than this share of the axis is a stroke.
INSTANT = 0.003
#: So many dots stand above one another.
DOTS_UP = 60
#: Lines of dots in a lane.
ROWS = 5
#: Units of height in a curve.
HIGH = 1000
#: So many points are looked at together.
TOGETHER = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """From ``left_s`` to ``right_s``, in seconds since the load began."""

    left_s: float
    right_s: float

    @property
    def span_s(self) -> float:
        return self.right_s - self.left_s

    def share(self, second: float) -> str:
        """Return where a second lies, in percent of the axis; what lies outside is at its edge."""
        return f"{100 * (min(max(second, self.left_s), self.right_s) - self.left_s) / self.span_s:.2f}%"

    def width(self, start_s: float, end_s: float) -> str:
        start_s, end_s = max(start_s, self.left_s), min(end_s, self.right_s)
        return f"{100 * max(end_s - start_s, 0.0) / self.span_s:.2f}%"

    def ms(self, second: float) -> int:
        """Return a second in units of a curve."""
        return round(1000 * (second - self.left_s))

    def sees(self, start_s: float, end_s: float) -> bool:
        return end_s >= self.left_s and start_s <= self.right_s

    def ticks(self) -> list[float]:
        """Return about ten round seconds."""
        step = next(s * 10.0**e for e in range(-3, 11) for s in (1, 2, 5) if s * 10.0**e * 11 >= self.span_s)
        first = -int(-self.left_s // step) if self.left_s < 0 else int(-(-self.left_s // step))
        return [step * n for n in range(first, int(self.right_s // step) + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """``names`` of the lanes from top to bottom with a ``notes`` entry each at their right; ``height`` in pixels.
    ``content`` is drawn over the shaded faults. ``words`` say for those who don't see it what the picture shows.
    ``legend``: (class of the colour, label) of what lies in the panel."""

    title: str
    height: int
    content: Markup
    words: str
    names: Sequence[str] = ()
    notes: Sequence[str] = ()
    legend: Sequence[tuple[str, str]] = ()
    scale: Sequence[tuple[float, str]] = ()


def bar(axis: Axis, lane: int, start_s: float, end_s: float, kind: str, labels: Sequence[str]) -> Markup:
    """Draw a bar in a lane with the first of its ``labels``, from long to short, that has room (the page's script
    measures that again); pointed at, it shows the first one."""
    if not axis.sees(start_s, end_s):
        return Markup("")
    if end_s - start_s < INSTANT * axis.span_s:
        return _instant(axis, lane, start_s, kind, labels[0])
    share = (min(end_s, axis.right_s) - max(start_s, axis.left_s)) / axis.span_s
    printed = [printable(label, LABEL) for label in labels]
    shown = chosen([str(label.unescape()) for label in printed], int((USUAL * share - 6) / LETTER))
    return Markup(
        '<svg class="bar {kind}" x="{x}" y="{y}" width="{width}" height="{high}"><title>{hint}</title>'
        '<rect width="100%" height="100%"/><text x="4" y="12" data-labels="{labels}">{label}</text></svg>'
    ).format(
        kind=_class(kind), x=axis.share(start_s), y=LANE * lane + (LANE - BAR) // 2,
        width=axis.width(start_s, end_s), high=BAR, label=shown, labels=Markup(OR).join(printed),
        hint=printable(f"{labels[0]}, {start_s:.2f} s to {end_s:.2f} s", 240),
    )  # fmt: skip


def _instant(axis: Axis, lane: int, second: float, kind: str, hint: str) -> Markup:
    """Draw a stroke for what is too short for a bar."""
    top = LANE * lane + (LANE - BAR) // 2
    return Markup(
        '<line class="instant {kind}" x1="{x}" x2="{x}" y1="{top}" y2="{end}"><title>{hint}</title></line>'
    ).format(
        kind=_class(kind), x=axis.share(second), top=top, end=top + BAR, hint=printable(f"{hint}, {second:.2f} s", 240)
    )


def _class(kind: str) -> str:
    return kind if kind.isidentifier() else "other"


def shade(axis: Axis, start_s: float, end_s: float) -> Markup:
    return Markup('<rect class="shade" x="{}" width="{}" height="100%"/>').format(
        axis.share(start_s), axis.width(start_s, end_s)
    )


def mark(axis: Axis, second: float) -> Markup:
    """Draw a dashed line through all lanes."""
    return Markup('<line class="mark" x1="{0}" x2="{0}" y1="0" y2="100%"/>').format(axis.share(second))


def stretched(axis: Axis, content: Markup, *, lane: int = 0, height: int | None = None) -> Markup:
    """Return what is drawn in milliseconds and thousandths of the height, in one lane or over ``height`` pixels."""
    box = Markup('y="{}" height="{}"').format(*((LANE * lane, LANE) if height is None else (0, height)))
    return Markup(
        '<svg class="units" x="0" width="100%" {} viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>'
    ).format(box, axis.ms(axis.right_s), HIGH, content)


def moments(axis: Axis, seconds: Numbers, kind: str, *, each: bool, counts: Any = None) -> Markup:
    """Draw a dot for each of these moments, which are in order, in a lane. ``each``: one beside the other, as if
    written in :data:`ROWS` lines, so that each is seen when the axis is zoomed; otherwise those that a screen can't
    distinguish are one stroke, which is the higher the more they are. ``counts``: how many there were at each moment;
    one, unless it is given."""
    at_s = np.asarray(seconds, float)
    inside = (at_s >= axis.left_s) & (at_s <= axis.right_s)
    many = (np.ones(len(at_s), np.int64) if counts is None else counts)[inside]
    at_s = at_s[inside]
    seen = np.rint(1000 * (at_s - axis.left_s)).astype(np.int64)
    steps, at, down = [], 0, 0
    if each:
        for place, ms in enumerate(seen.tolist()):
            y = HIGH * (1 + place % ROWS) // (ROWS + 1)
            steps.append(f"m{ms - at} {y - down}h0")
            at, down = ms, y
    else:
        wide = max(axis.ms(axis.right_s) // STROKES, 1)
        columns, first = np.unique(seen // wide, return_index=True)
        sums = np.add.reduceat(many, first) if len(first) else many
        for column, count in zip(columns.tolist(), sums.tolist(), strict=True):
            high = HIGH * min(count, ROWS) // (ROWS + 1)
            steps.append(f"m{column * wide - at} {HIGH * ROWS // (ROWS + 1) - down}v-{high}")
            at, down = column * wide, HIGH * ROWS // (ROWS + 1) - high
    return Markup('<path class="dots {}" d="M0 0{}"/>').format(kind, "".join(steps)) if steps else Markup("")


def ticks(axis: Axis, seconds: Iterable[float], kind: str) -> Markup:
    """Draw a stroke as high as the lane at each second; those that a screen can't distinguish are one."""
    step = max(axis.ms(axis.right_s) // 1500, 1)
    places = sorted({axis.ms(min(second, axis.right_s)) // step * step for second in seconds if second >= axis.left_s})
    return Markup('<path class="ticks {}" d="{}"/>').format(kind, "".join(f"M{at} 150v700" for at in places))


def line(axis: Axis, x: Numbers, heights: Sequence[float], kind: str, *, area: float | None = None) -> Markup:
    """Draw a curve through seconds and heights from 0 (bottom) to 1 (top); filled down to ``area`` where that is
    given."""
    points = [(axis.ms(at), round(HIGH * (1 - min(max(high, 0.0), 1.0)))) for at, high in zip(x, heights, strict=True)]
    points = [point for place, point in enumerate(points) if place == 0 or point != points[place - 1]]
    if not points:
        return Markup("")
    if area is not None:
        base = round(HIGH * (1 - area))
        points = [(points[0][0], base), *points, (points[-1][0], base)]
    joined = " ".join(f"{at},{high}" for at, high in points)
    return Markup('<polyline class="line {}" points="{}"/>').format(kind, joined)


def dots(axis: Axis, x: Numbers, heights: Numbers, kind: str) -> Markup:
    """Draw points; those that a screen can't distinguish are one, and those that touch from above are one stroke."""
    wide, high = max(axis.ms(axis.right_s) // DOTS_ACROSS, 1), HIGH // DOTS_UP
    cells: set[tuple[int, int]] = set()
    for begin in range(0, len(x), TOGETHER):
        some = slice(begin, begin + TOGETHER)
        across = np.rint(1000 * (np.asarray(x[some], float) - axis.left_s)).astype(np.int64) // wide
        up = np.rint(HIGH * (1 - np.asarray(heights[some], float))).astype(np.int64) // high
        cells.update((column, row) for column, row in np.unique(np.stack([across, up], axis=1), axis=0).tolist())
    strokes, last = [], (0, 0)
    for column, row in sorted(cells):
        if (column, row - 1) in cells:
            continue
        end = next(below for below in count(row) if (column, below + 1) not in cells)
        strokes.append(f"m{(column - last[0]) * wide} {(row - last[1]) * high}v{(end - row) * high}")
        last = (column, end)
    return Markup('<path class="dots {}" d="{}"/>').format(kind, "".join(strokes))


def draw(axis: Axis, panel: Panel, number: int, behind: Markup) -> Markup:
    """Return the panel as HTML: its title, the names of its lanes, the plot, and what stands at the right of it."""
    scale = Markup("").join(
        Markup('<li style="top:{:.0f}px">{}</li>').format(panel.height * (1 - high), word) for high, word in panel.scale
    )
    names = Markup("").join(Markup('<li title="{0}">{0}</li>').format(printable(name, NAME)) for name in panel.names)
    notes = Markup("").join(Markup("<li>{}</li>").format(printable(note, NAME)) for note in panel.notes)
    key = Markup("").join(
        Markup('<span><i class="key {}"></i>{}<output></output></span> ').format(kind, label)
        for kind, label in panel.legend
    )
    return Markup(
        '<div class="panel"><h3 id="panel-{number}">{title} {key}</h3><div class="lanes">{left}'
        '<svg class="plot" width="100%" height="{height}" role="img" aria-labelledby="panel-{number} words-{number}">'
        '<desc id="words-{number}">{words}</desc><svg class="stage" x="0" width="100%" height="{height}">'
        '{behind}{content}'
        "</svg></svg><ol class=\"notes\">{notes}</ol></div></div>"
    ).format(
        number=number, title=panel.title, height=panel.height, words=printable(panel.words, 600), behind=behind,
        content=panel.content, notes=notes, key=Markup('<small>{}</small>').format(key) if key else "",
        left=Markup('<ol class="{}">{}</ol>').format("scale" if scale else "names", scale or names),
    )  # fmt: skip


def printable(text: str, most: int) -> Markup:
    """Return a text as a page may hold it. Values come from the system under test: nothing that is no character, or
    that turns the direction of writing, and no text without end."""
    shown = printable_text(text)
    return escape(shown if len(shown) <= most else shown[: most - 1] + "…")
