"""Draws an explanation as a sequence diagram, one SVG element that stands by itself: time goes down, not to scale."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from chaos import guarded
from chaos.errors import ChaosError
from reports import svg
from reports.explanation.sequence import Arrow, Explanation
from reports.svg import BAD, FAULT, INK, LINE, SOFT

#: Pixels: of the column of seconds, of the column of words, of the names of the lanes above and below.
TIME, WORDS, HEAD = 58, 450, 40
#: Pixels of all lanes, as long as that leaves each at least the one and at most the other.
LANES, NARROW, WIDE = 560, 52, 96
#: Pixels: of a line of words, between two arrows, of the head of an arrow.
HIGH, GAP, TIP = 14, 8, 6
#: Letters: of a line of words, of the name of a lane; lines of words of one arrow.
LETTERS, NAME, LINES = 76, 16, 3
#: Where the page is narrower than this the diagram scrolls.
SMALLEST = 900
FAULTS = "faults"


def draw(explanation: Explanation, links: Mapping[int, str], number: int = 1) -> Markup:
    """Return the SVG element. ``links``: index of a row → the address where it can be read; an arrow leads to the first
    of its rows that has one. Ids are made of ``number``, which is that of the cause in a report."""
    parts = lanes(explanation.arrows)
    lane = min(max(LANES // len(parts), NARROW), WIDE)
    xs = {name: TIME + lane * place + lane // 2 for place, name in enumerate(parts)}
    words_x = TIME + lane * len(xs) + 8
    width = words_x + WORDS
    texts = [_lines(arrow) for arrow in explanation.arrows]
    tops = [HEAD]
    for text in texts:
        tops.append(tops[-1] + HIGH * len(text) + GAP)
    height = tops[-1] + HEAD
    drawn = [part for place, (name, x) in enumerate(xs.items()) for part in _lane(name, x, height, place % 2)]
    for arrow, text, top in zip(explanation.arrows, texts, tops, strict=False):
        drawn.append(_linked(arrow, text, top, xs, links, explanation.run.name, words_x))
    return svg.picture(
        width, height, f"sequence-{number}", explanation.title,
        drawn, smallest=SMALLEST, class_="strip sequence", role="group",
    )  # fmt: skip


def write(file: Path, explanation: Explanation) -> Path:
    """Write the diagram as a file and return its path. Its arrows lead to their rows in the run's report, as far as
    that quotes them. Raises :class:`chaos.errors.BadInput` when the file can't be written."""
    report = explanation.run / "report.html"
    found = re.findall(r'<tr id="(row-[0-9]+-([0-9]+))">', _text(report))
    address = quote(os.path.relpath(report.absolute(), file.absolute().parent))
    links = {int(row): f"{address}#{anchor}" for anchor, row in reversed(found)}
    return svg.write(file, draw(explanation, links))


def _text(page: Path) -> str:
    """Return the report; "" where there is none that can be read."""
    try:
        return guarded.read(page).decode("utf-8", "replace")
    except (OSError, ChaosError):
        return ""


def lanes(arrows: Sequence[Arrow]) -> list[str]:
    """Return who takes part, from left to right: the faults, clients in the order in which they come, nodes by name."""
    calls = {one.source for one in arrows if one.what.endswith(" invoke")}
    calls |= {one.target for one in arrows if one.what.endswith((" ok", " fail", " info"))}
    parts = dict.fromkeys(part for one in arrows if one.source != FAULTS for part in (one.source, one.target))
    faults = [FAULTS] if any(one.source == FAULTS for one in arrows) else []
    return [*faults, *(part for part in parts if part in calls), *sorted(part for part in parts if part not in calls)]


def _lines(arrow: Arrow) -> list[tuple[str, bool]]:
    """Return the words beside an arrow, line by line, and of each whether it names methods."""
    deciders = svg.cut(f"decided by {' and '.join(arrow.decided)}", 200) if arrow.decided else ""
    methods = svg.wrapped(deciders, LETTERS) if deciders else []
    return [
        *((line, False) for line in svg.wrapped(svg.cut(arrow.phrase, 400), LETTERS, LINES)),
        *((line, True) for line in methods),
    ]


def _lane(name: str, x: int, height: int, odd: int) -> list[Markup]:
    """Draw a lane. Names of neighbours stand on two lines, so that they don't touch."""
    return [
        svg.line(x, HEAD - 20 + 13 * odd, x, height - HEAD + 6),
        *(
            svg.text(x, y, svg.cut(name, NAME), svg.hint(name, 200), font_weight=600, text_anchor="middle")
            for y in (HEAD - 24 + 13 * odd, height - 20 + 13 * odd)
        ),
    ]


def _linked(
    arrow: Arrow, text: Sequence[tuple[str, bool]], top: int, xs: Mapping[str, int], links: Mapping[int, str], run: str,
    words_x: int,
) -> Markup:  # fmt: skip
    """Draw an arrow with its second and its words; pointed at, it shows the command that prints its rows."""
    y, ink = top + HIGH - 4, BAD if arrow.named or arrow.why else FAULT if arrow.source == FAULTS else INK
    last = max((x for lane, x in xs.items() if lane in (arrow.source, *_targets(arrow, xs))), default=words_x)
    parts = [
        svg.hint(arrow.link(run), 200),
        svg.text(6, y, f"{arrow.at_s:.3f} s", fill=SOFT, font_size=10),
        svg.line(last, y - 4, words_x - 4, y - 4, LINE, stroke_dasharray="1 3"),
        *_drawn(arrow, y - 4, xs, ink),
        *(_line(line, method, words_x, y + HIGH * place, arrow) for place, (line, method) in enumerate(text)),
    ]
    address = next((links[row] for row in arrow.rows if row in links), None)
    return svg.element("g" if address is None else "a", *parts, href=address)


def _line(line: str, method: bool, x: int, y: int, arrow: Arrow) -> Markup:
    ink = SOFT if method else BAD if arrow.named else INK
    style = {"font_style": "italic"} if method else {"font_weight": 600} if arrow.named else {}
    return svg.element("text", line, x=x, y=y, fill=ink, **style)


def _targets(arrow: Arrow, xs: Mapping[str, int]) -> list[str]:
    """Return the lanes that it points at; a fault at each of its targets that takes part."""
    named = arrow.target.split(", ") if arrow.source == FAULTS else [arrow.target]
    return [name for name in named if name in xs and name != arrow.source]


def _drawn(arrow: Arrow, y: int, xs: Mapping[str, int], ink: str) -> list[Markup]:
    """Draw a line with a head for each target; a dot for what a node does by itself, and where an arrow begins."""
    start, half = xs[arrow.source], TIP // 2 + 1
    parts = [svg.circle(start, y, 3, ink)]
    for target in _targets(arrow, xs):
        back = TIP if xs[target] < start else -TIP
        d = f"M{start} {y}H{xs[target]}m{back} -{half}l{-back} {half}l{back} {half}"
        parts.append(svg.path(d, ink, fill="none"))
    return parts
