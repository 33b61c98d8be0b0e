"""Draws orders that form a circle: what came before what, and why, each with an arrow to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from chaos.verdict import Order
from reports import svg
from reports.svg import BAD, BAD_BOX, INK, PAPER, SOFT

#: So many arrows are drawn; of a longer circle the last one stands for the rest.
MOST = 6
#: Pixels: of a box, of its edges, of a line of words, of what lies between two things on the circle, of a tip.
BOX, PADDING, HIGH, APART, TIP = 160, 7, 13, (190, 62), 7
#: Letters in a line of words, and lines.
LETTERS, LINES = 25, 3

Place = tuple[float, float]


def draw(orders: Sequence[Order], name: str) -> Markup:
    """Return the SVG element, whose ids begin with ``name``. Things and the words on arrows take turns on an
    ellipse."""
    shown = _fewer(orders)
    places, width, height = _places(2 * len(shown))
    parts: list[Markup] = []
    texts = [(_lines(one.before), [one.kind, *_lines(one.shown)] if one.shown else [one.kind]) for one in shown]
    for number, (things, words) in enumerate(texts):
        thing, label, next_thing = (places[(2 * number + turn) % len(places)] for turn in range(3))
        following = texts[(number + 1) % len(texts)][0]
        parts += [_arrow(thing, label), _arrow(label, next_thing, tip=_high(following))]
        parts += [_box(thing, things, BAD_BOX, BAD), _box(label, words, PAPER, None)]
    return svg.picture(
        width, height, name, "A circle of orders that cannot all be true", parts, words=described(orders)
    )


def described(orders: Sequence[Order]) -> str:
    """Return the circle in words, for those who don't see it."""
    shown = [f" ({one.shown})" if one.shown else "" for one in orders]
    steps = (f"{one.before}, {one.kind} {one.after}{why}" for one, why in zip(orders, shown, strict=True))
    return "; ".join(steps) + "."


def _fewer(orders: Sequence[Order]) -> Sequence[Order]:
    if len(orders) <= MOST:
        return orders
    kept, left = orders[: MOST - 1], orders[MOST - 1 :]
    return [*kept, replace(left[0], after=left[-1].after, kind=f"by {len(left)} more steps", shown="")]


def _places(count: int) -> tuple[list[Place], float, float]:
    """Return where things lie that stand in a circle, from the left and clockwise; and the size of the picture."""
    import networkx  # a report without violations starts without it

    radius = [max(apart * count / (2 * math.pi), least) for apart, least in zip(APART, (150, 62), strict=True)]
    around = networkx.circular_layout(networkx.cycle_graph(count))
    centre = radius[0] + BOX / 2 + 10, radius[1] + APART[1] / 2 + 4
    places = [(centre[0] - radius[0] * float(x), centre[1] - radius[1] * float(y)) for x, y in around.values()]
    return places, 2 * centre[0], 2 * centre[1]


def _lines(words: str) -> list[str]:
    return svg.wrapped(words, LETTERS, LINES)


def _high(lines: Sequence[str]) -> float:
    return HIGH * len(lines) + 2 * PADDING


def _box(at: Place, lines: Sequence[str], fill: str, stroke: str | None) -> Markup:
    """Draw words around their place, the first line in bold."""
    (x, y), high = at, _high(lines)
    wide = BOX if stroke else svg.LETTER * max(map(len, lines)) + 2
    texts = (
        svg.text(x, y - high / 2 + PADDING + 10 + HIGH * place, line, fill=SOFT if place else INK,
                 text_anchor="middle", font_weight=None if place else 600)
        for place, line in enumerate(lines)
    )  # fmt: skip
    return svg.element("g", svg.rect(x - wide / 2, y - high / 2, wide, high, fill, rx=6, stroke=stroke), *texts)


def _arrow(one: Place, other: Place, tip: float = 0.0) -> Markup:
    """Draw a straight line; ``tip``: with a head where it comes to a box of so many pixels."""
    if not tip:
        return svg.line(*one, *other, INK, stroke_width=1.5)
    wide, high = other[0] - one[0], other[1] - one[1]
    inside = min(side / abs(way) if way else math.inf for side, way in ((BOX / 2, wide), (tip / 2, high)))
    x, y = (end - (1 - max(1 - inside, 0.0)) * way for end, way in zip(other, (wide, high), strict=True))
    long = math.hypot(wide, high)
    along = wide / long, high / long
    wings = [(x - TIP * along[0] - turn * along[1] * TIP / 2, y - TIP * along[1] + turn * along[0] * TIP / 2)
             for turn in (-1, 1)]  # fmt: skip
    head = svg.element("polygon", points=svg.points([(x, y), *wings]), fill=INK)
    return svg.element("g", svg.line(*one, x, y, INK, stroke_width=1.5), head)
