"""Drawing on the one time axis of a report: a panel is a title, named lanes and an SVG plot beside them.

Widths in a plot are shares of the axis, heights are pixels: so a plot fits any screen, its texts keep their size, and
the page's script zooms by nothing but the width and place of the one inner SVG (``stage``). Curves and dots lie in
inner SVGs of their own whose units are milliseconds and thousandths of the height. Colours come from the style sheet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count, cycle, pairwise
from typing import Any

import numpy as np
from markupsafe import Markup

from reports import svg
from reports.parts import STROKES
from reports.run_report.labels import chosen
from reports.send_summary import DOTS_ACROSS
from reports.summary import Numbers

#: Height of a lane, and of a bar in it, in pixels.
LANE, BAR = 22, 16
#: Letters of a lane's name, of a label in a bar, and of what is shown of one that is pointed at.
NAME, LABEL, HINT = 40, 60, 240
#: Pixels of a plot where no script measures it, and of a letter of a label.
USUAL, LETTER = 860, 5.8
#: Pixels of a hollow tick, from side to side.
TICK = 6
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
        return list(svg.ticks(self.left_s, self.right_s, 11))


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """``names`` of the lanes from top to bottom with a ``notes`` entry each at their right; ``height`` in pixels.
    ``content`` is drawn over the shaded faults. ``words`` say for those who don't see it what the picture shows.
    ``legend``: (class of the colour, label) of what lies in the panel. ``name``: the panel in a word, ``folded``: it is
    shown when somebody asks for it."""

    title: str
    height: int
    content: Markup
    words: str
    names: Sequence[str] = ()
    notes: Sequence[str] = ()
    legend: Sequence[tuple[str, str]] = ()
    scale: Sequence[tuple[float, str]] = ()
    name: str = ""
    folded: bool = False


def bar(axis: Axis, lane: int, start_s: float, end_s: float, kind: str, labels: Sequence[str]) -> Markup:
    """Draw a bar in a lane with the first of its ``labels``, from long to short, that has room (the page's script
    measures that again); pointed at, it shows the first one."""
    if not axis.sees(start_s, end_s):
        return Markup("")
    if end_s - start_s < INSTANT * axis.span_s:
        return _instant(axis, lane, start_s, kind, labels[0])
    share = (min(end_s, axis.right_s) - max(start_s, axis.left_s)) / axis.span_s
    printed = [svg.cut(label, LABEL) for label in labels]
    shown = chosen(printed, int((USUAL * share - 6) / LETTER))
    return svg.element(
        "svg", svg.hint(f"{labels[0]}, {start_s:.2f} s to {end_s:.2f} s", HINT),
        svg.element("rect", width="100%", height="100%"), svg.element("text", shown, x=4, y=12, data_labels=printed),
        class_=f"bar {_class(kind)}", x=axis.share(start_s), y=LANE * lane + (LANE - BAR) // 2,
        width=axis.width(start_s, end_s), height=BAR,
    )  # fmt: skip


def _instant(axis: Axis, lane: int, second: float, kind: str, hint: str) -> Markup:
    """Draw a stroke for what is too short for a bar."""
    top, x = LANE * lane + (LANE - BAR) // 2, axis.share(second)
    shown = svg.hint(f"{hint}, {second:.2f} s", HINT)
    return svg.element("line", shown, class_=f"instant {_class(kind)}", x1=x, x2=x, y1=top, y2=top + BAR)


def hollow(axis: Axis, lane: int, second: float, hint: str) -> Markup:
    """Draw a hollow tick, inside the plot also where the second lies beyond its edge."""
    share = min(max((second - axis.left_s) / axis.span_s, 0.0), 1.0)
    return svg.element(
        "rect", svg.hint(f"{hint}, {second:.2f} s", HINT), class_="proof", x=f"{100 * share:.2f}%",
        y=LANE * lane + (LANE - BAR) // 2, width=TICK, height=BAR, transform=f"translate({-1 - TICK * share:.1f} 0)",
    )  # fmt: skip


def _class(kind: str) -> str:
    return kind if kind.isidentifier() else "other"


def shade(axis: Axis, start_s: float, end_s: float) -> Markup:
    return svg.element(
        "rect", class_="shade", x=axis.share(start_s), width=axis.width(start_s, end_s), height="100%"
    )  # fmt: skip


def grid(axis: Axis) -> Markup:
    """Draw a line through all lanes at each round second."""
    return svg.element(
        "g", *(svg.element("line", x1=axis.share(at), x2=axis.share(at), y1=0, y2="100%") for at in axis.ticks()),
        class_="grid",
    )  # fmt: skip


def mark(axis: Axis, second: float) -> Markup:
    """Draw a dashed line through all lanes."""
    return svg.element("line", class_="mark", x1=axis.share(second), x2=axis.share(second), y1=0, y2="100%")


def stretched(axis: Axis, *content: Markup, lane: int = 0, height: int | None = None) -> Markup:
    """Return what is drawn in milliseconds and thousandths of the height, in one lane or over ``height`` pixels."""
    y, high = (LANE * lane, LANE) if height is None else (0, height)
    return svg.element(
        "svg", *content, class_="units", x=0, width="100%", y=y, height=high,
        viewBox=f"0 0 {axis.ms(axis.right_s)} {HIGH}", preserveAspectRatio="none",
    )  # fmt: skip


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
        for place, ms in enumerate(np.repeat(seen, many).tolist()):
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
    return svg.element("path", class_=f"dots {kind}", d=f"M0 0{''.join(steps)}") if steps else Markup("")


def ticks(axis: Axis, seconds: Iterable[float], kind: str) -> Markup:
    """Draw a stroke as high as the lane at each second; those that a screen can't distinguish are one."""
    step = max(axis.ms(axis.right_s) // 1500, 1)
    places = sorted({axis.ms(min(second, axis.right_s)) // step * step for second in seconds if second >= axis.left_s})
    strokes = [
        f"m{at - last} 0v{'-' if odd else ''}700"
        for odd, (last, at) in zip(cycle((1, 0)), pairwise(places), strict=False)
    ]
    begin = f"M{places[0]} 150v700" if places else ""
    return svg.element("path", class_=f"ticks {kind}", d=begin + "".join(strokes))


def line(
    axis: Axis, x: Numbers, heights: Sequence[float], kind: str, *, area: float | None = None, gap_s: float = math.inf
) -> Markup:
    """Draw a curve through seconds and heights from 0 (bottom) to 1 (top); filled down to ``area`` where that is
    given. Where points lie further apart than ``gap_s`` there is no data, and no line."""
    points = [(axis.ms(at), round(HIGH * (1 - min(max(high, 0.0), 1.0)))) for at, high in zip(x, heights, strict=True)]
    points = [point for place, point in enumerate(points) if place == 0 or point != points[place - 1]]
    if not points:
        return Markup("")
    if area is not None:
        base = round(HIGH * (1 - area))
        points = [(points[0][0], base), *points, (points[-1][0], base)]
    breaks = [place for place in range(1, len(points)) if points[place][0] - points[place - 1][0] > 1000 * gap_s]
    parts = [points[begin:end] for begin, end in pairwise([0, *breaks, len(points)])]
    drawn = [part if len(part) > 1 else [part[0], (part[0][0] + 1, part[0][1])] for part in parts]
    return svg.element("path", class_=f"line {kind}", d="".join(map(_by_steps, drawn)))


def _by_steps(points: Sequence[tuple[int, int]]) -> str:
    """Return a line from its first point on, each other one as the step to it: that takes half the bytes."""
    x, y = points[0]
    steps = " ".join(f"{to[0] - at[0]},{to[1] - at[1]}" for at, to in pairwise(points))
    return f"M{x},{y}l{steps}"


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
    return svg.element("path", class_=f"dots {kind}", d="".join(strokes))


def draw(axis: Axis, panel: Panel, number: str, behind: Markup) -> Markup:
    """Return the panel as HTML: its title, the names of its lanes, the plot, and what stands at the right of it.
    ``number``: what distinguishes it on the page; ``behind``: what lies behind all lanes."""
    key = [
        svg.element("span", svg.element("i", class_=f"key {kind}"), label, svg.element("output"))
        for kind, label in panel.legend
    ]
    scale = [svg.element("li", word, style=f"top:{panel.height * (1 - high):.0f}px") for high, word in panel.scale]
    names = [svg.element("li", svg.cut(name, NAME), title=svg.cut(name, NAME)) for name in panel.names]
    title = [panel.title, " ", svg.element("small", Markup(" ").join(key))] if key else [panel.title]
    left = svg.element("ol", *(scale or names), class_="scale" if scale else "names")
    words = svg.element("desc", svg.cut(panel.words, 600), id=f"words-{number}")
    drawn = row(
        "", panel.height, [behind, panel.content], left=left, notes=panel.notes, words=words, role="img",
        aria_labelledby=f"panel-{number} words-{number}",
    )  # fmt: skip
    return svg.element("div", svg.element("h3", *title, id=f"panel-{number}"), drawn, class_="panel")


def row(
    kind: str, height: int, content: Sequence[Markup], *, left: Markup, notes: Sequence[str] = (), words: str = "",
    overflow: str | None = None, **more: object,
) -> Markup:  # fmt: skip
    """Return a plot with what stands at the left of it, and its notes at the right, as HTML."""
    stage = svg.element("svg", *content, class_="stage", x=0, width="100%", height=height, overflow=overflow)
    return svg.element(
        "div",
        left,
        svg.element("svg", words, stage, class_="plot", width="100%", height=height, **more),
        svg.element("ol", *(svg.element("li", svg.cut(note, NAME)) for note in notes), class_="notes"),
        class_=f"lanes {kind}".rstrip(),
    )
