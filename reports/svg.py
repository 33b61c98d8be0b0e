"""Draw SVG: elements and their escaping, texts fitted to their room, axes, and the colours of all pictures.

What is drawn comes from the system under test, and from runs of strangers. So :func:`element` makes each text and each
value of an attribute printable and escapes it; nothing else does. What it has returned is taken as it is, so pictures
are made of nothing but elements.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup, escape

from chaos import guarded
from chaos.errors import BadInput
from reports.printable import printable

#: Texts, less important ones, lines between things, and the background.
INK, SOFT, LINE, PAPER = "#1b1f24", "#545d68", "#d1d9e0", "#ffffff"
#: What breaks a law or proves that it holds; another message, or the message itself; faults; the time of a master.
BAD, GOOD, OTHER, MINE, FAULT, MASTER = "#c8102e", "#116329", "#475569", "#1d63c4", "#a04800", "#dbe8f9"
#: Calls on an object, and the wrong ones, as the timeline's script paints them; the box around a wrong one.
CALL, BAD_CALL, BAD_BOX = "#1d63c4", "#c8102e", "#fdeef0"
#: Areas of one colour: a law that held, was not decided, or is not visible.
HELD, OPEN, ABSENT = "#3a9a5b", "#e0a100", "#d8dde3"
#: Things of one kind beside one another, repeated after the last.
SERIES = (MINE, FAULT, GOOD, OTHER, "#7b3fa0", SOFT)
#: Pixels of a letter, at the usual size of a text.
LETTER = 6.0

#: Elements that end where they begin when nothing is in them.
_SHAPES = frozenset({"circle", "line", "path", "polygon", "polyline", "rect", "use"})


def element(name: str, /, *inside: str, **attributes: object) -> Markup:
    """Return an element, of SVG or of HTML around it.

    ``inside``: elements, and texts. ``attributes``: an underscore in a name stands for a hyphen, but for one at the
    end, which distinguishes ``class_`` from the word of Python; one that is None is left out. A float is a number of
    pixels, of which a tenth is kept. A sequence is its items, a line each.
    """
    known = ((key.removesuffix("_").replace("_", "-"), one) for key, one in attributes.items() if one is not None)
    shown = "".join(f' {key}="{_value(one)}"' for key, one in known)
    if not inside and name in _SHAPES:
        return Markup(f"<{name}{shown}/>")
    content = "".join(one if isinstance(one, Markup) else escape(printable(one)) for one in inside)
    return Markup(f"<{name}{shown}>{content}</{name}>")


def _value(value: object) -> Markup:
    if isinstance(value, float):
        return Markup(_pixels(value))
    lines = value if isinstance(value, list | tuple) else [value]
    return Markup("\n").join(escape(printable(str(one))) for one in lines)


def _pixels(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, words: str, *inside: str, fill: str | None = INK, **more: object) -> Markup:
    """Return a text that begins at ``x``, or ends or lies there with ``text_anchor``; ``y`` is where its letters
    stand."""
    return element("text", words, *inside, x=x, y=y, fill=fill, **more)


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = LINE, **more: object) -> Markup:
    """Return a straight line."""
    return element("line", x1=x1, x2=x2, y1=y1, y2=y2, stroke=stroke, **more)


def rect(x: float, y: float, width: float, height: float, fill: str, *inside: str, **more: object) -> Markup:
    """Return a filled rectangle; ``inside`` may be what :func:`hint` returns."""
    return element("rect", *inside, x=x, y=y, width=width, height=height, fill=fill, **more)


def circle(x: float, y: float, r: float, fill: str, *inside: str, **more: object) -> Markup:
    """Return a filled circle; ``inside`` may be what :func:`hint` returns."""
    return element("circle", *inside, cx=x, cy=y, r=r, fill=fill, **more)


def path(d: str, stroke: str, **more: object) -> Markup:
    """Return a line along ``d``."""
    return element("path", d=d, stroke=stroke, **more)


def points(places: Sequence[tuple[float, float]]) -> str:
    """Return (x, y) as ``points`` of an element."""
    return " ".join(f"{_pixels(x)},{_pixels(y)}" for x, y in places)


def hint(words: str, letters: int = 300) -> Markup:
    """Return what is shown of an element that is pointed at; it goes into that element."""
    return element("title", cut(words, letters))


def cut(words: str, letters: float) -> str:
    """Return a text with at most so many letters, as it can be printed."""
    shown = printable(words)
    return shown if len(shown) <= letters else shown[: max(int(letters) - 1, 0)] + "…"


def wrapped(words: str, letters: int, lines: int | None = None) -> list[str]:
    """Return a text as lines of at most so many letters; at least one, and at most ``lines``."""
    return textwrap.wrap(printable(words), letters, max_lines=lines, placeholder="…") or [""]


def ticks(first: float, last: float, most: int) -> Iterator[float]:
    """Yield round numbers (1, 2 or 5 times a power of ten) between two, at about equal distances, ``most`` + 1 at
    most."""
    least = max((last - first) / most, 1e-9)
    unit = 10.0 ** math.floor(math.log10(least))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= least)
    for turn in range(math.ceil(first / step - 1e-9), math.floor(last / step + 1e-9) + 1):
        yield turn * step


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Values from ``first`` to ``last`` along an axis that begins at pixel ``start`` and has ``length`` pixels."""

    first: float
    last: float
    start: float
    length: float

    def place(self, value: float) -> float:
        """Return the pixel of a value; of one outside, that of the nearer end."""
        share = (value - self.first) / (self.last - self.first)
        return round(self.start + self.length * min(max(share, 0.0), 1.0), 1)

    def axis(self, top: float, bottom: float, most: int = 6) -> Iterator[Markup]:
        """Draw a line from ``top`` to ``bottom`` at each of :func:`ticks`, with its seconds below it."""
        for second in ticks(self.first, self.last, most):
            x = self.place(second)
            yield line(x, top, x, bottom)
            yield text(x, bottom + 11, f"{second:.6g} s", fill=SOFT, text_anchor="middle")


def picture(
    width: float, height: float, name: str, title: str, parts: Sequence[Markup], /, *, words: str = "",
    smallest: int = 0, **more: object,
) -> Markup:  # fmt: skip
    """Return a whole picture that stands by itself, with its own background.

    ``title`` and ``words`` say to those who don't see it what it shows; their ids begin with ``name``, which is unique
    on a page. Where a page is narrower than ``smallest`` pixels (0: as narrow as a page gets) the picture scrolls.
    """
    described = [element("title", cut(title, 200), id=f"{name}-title")]
    described += [element("desc", words, id=f"{name}-words")] if words else []
    return element(
        "svg", *described, element("rect", width="100%", height="100%", fill=PAPER), *parts,
        **{
            "xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {_pixels(width)} {_pixels(height)}", "width": width,
            "style": f"min-width:{min(int(width), smallest)}px" if smallest else None, "role": "img",
            "aria_labelledby": f"{name}-title {name}-words" if words else f"{name}-title",
            "font_family": "sans-serif", "font_size": 11, **more,
        },
    )  # fmt: skip


def write(file: Path, drawn: Markup) -> Path:
    """Write a picture as a file and return its path. Raises :class:`BadInput` when it can't be written."""
    try:
        guarded.replace(file, f'<?xml version="1.0" encoding="UTF-8"?>\n{drawn}\n'.encode())
    except OSError as error:
        raise BadInput(f"cannot write {file}: {error.strerror or error}") from error
    return file
