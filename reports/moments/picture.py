"""Draws a curve as one SVG element that stands by itself: time to the right, the probability upwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup

from reports import svg
from reports.moments.as_text import verdict
from reports.moments.curve import Curve, Moment
from reports.svg import BAD, FAULT, INK, LETTER, MASTER, OTHER, SOFT, Scale

#: Pixels: of the whole, of the plot's left and upper corner, and of the plot.
WIDTH, HEIGHT, LEFT, TOP, WIDE, HIGH = 800, 360, 56, 74, 724, 208
#: Letters of the title, of the sentence below, of what happened, and of a fault's name.
TITLE, WORDS, HAPPENED, NAME = 100, 130, 110, 32
#: So many rows of the largest jump are described in the picture.
ROWS = 2


def draw(curve: Curve) -> Markup:
    """Return the SVG element. Moments are where they lie in time; the largest jump is marked."""
    shown = _Plot(curve)
    title, words = (
        f"When {curve.name} ({curve.about or curve.law}) became inevitable",
        verdict(curve).partition(": ")[0],
    )
    parts = [svg.text(LEFT, 22, svg.cut(title, TITLE), font_size=14, font_weight=600)]
    parts += [*shown.faults(), *shown.grid(), shown.band(), *shown.lines(), *shown.jump()]
    parts += [*map(shown.dot, curve.moments), *shown.key(), svg.text(LEFT, HEIGHT - 42, svg.cut(words, WORDS))]
    return svg.picture(
        WIDTH, HEIGHT, f"moments-{curve.number}", title, parts, words=words, class_="strip moments"
    )  # fmt: skip


def write(file: Path, curve: Curve) -> Path:
    """Write the picture as a file and return its path. Raises :class:`chaos.errors.BadInput` when it can't be
    written."""
    return svg.write(file, draw(curve))


class _Plot:
    def __init__(self, curve: Curve) -> None:
        self._curve = curve
        times = [moment.at_s for moment in curve.moments] or [0.0]
        first_s, last_s = times[0], max(times[-1], times[0] + 1e-3)
        self._seconds = Scale(first=first_s, last=last_s, start=LEFT, length=WIDE)
        self._alike = bool(curve.about) and any(one.alike != one.same for one in curve.moments)

    def _x(self, at_s: float) -> float:
        return self._seconds.place(at_s)

    @staticmethod
    def _y(chance: float) -> float:
        return round(TOP + HIGH * (1 - chance), 1)

    def _points(self, line: Sequence[tuple[float, float]]) -> str:
        return svg.points([(self._x(at_s), self._y(chance)) for at_s, chance in line])

    def faults(self) -> Iterator[Markup]:
        """Draw the faults: each is shaded while it lasts, and named above the plot where there is room."""
        free = 0.0
        for name, start_s, end_s in sorted(self._curve.faults, key=lambda fault: fault[1]):
            if end_s < self._seconds.first or start_s > self._seconds.last:
                continue
            left, right = self._x(start_s), self._x(end_s)
            hint = svg.hint(f"{svg.cut(name, 200)}, {start_s:.3f} s to {end_s:.3f} s")
            yield svg.rect(left, TOP, max(right - left, 2.0), HIGH, FAULT, hint, fill_opacity="0.12")
            letters = min(int((LEFT + WIDE - left) / LETTER), NAME)
            if left >= free and letters > 3:
                free = left + LETTER * (min(len(name), letters) + 1)
                yield svg.text(left, TOP - 5, svg.cut(name, letters), fill=SOFT)

    def grid(self) -> Iterator[Markup]:
        for percent in (0, 25, 50, 75, 100):
            y = self._y(percent / 100)
            yield svg.line(LEFT, y, LEFT + WIDE, y)
            yield svg.text(LEFT - 8, y + 4, f"{percent} %", fill=SOFT, text_anchor="end")
        yield from self._seconds.axis(TOP + HIGH, TOP + HIGH + 5)

    def band(self) -> Markup:
        """Draw the band between the bounds."""
        up = [(moment.at_s, moment.same.high) for moment in self._curve.moments]
        down = [(moment.at_s, moment.same.low) for moment in reversed(self._curve.moments)]
        return svg.element("polygon", points=self._points([*up, *down]), fill=MASTER, fill_opacity="0.75")

    def lines(self) -> Iterator[Markup]:
        moments = self._curve.moments
        found = [(INK, [(one.at_s, one.same.value) for one in moments])]
        if self._alike:
            found.insert(0, (OTHER, [(one.at_s, one.alike.value) for one in moments]))
        for colour, line in found:
            dashes = "5 3" if colour == OTHER else None
            yield svg.path(f"M{self._points(line)}", colour, fill="none", stroke_width=1.5, stroke_dasharray=dashes)

    def dot(self, moment: Moment) -> Markup:
        hint = svg.hint(f"{moment.at_s:.6f} s, row {moment.row}, {moment.event}: {moment.same}", 200)
        jumped = self._curve.jump is not None and moment in self._curve.jump
        x, y = self._x(moment.at_s), self._y(moment.same.value)
        return svg.circle(x, y, 4.5 if jumped else 3, BAD if jumped else INK, hint)

    def jump(self) -> Iterator[Markup]:
        """Draw the jump: its height beside it, and what happened in it below the plot."""
        if self._curve.jump is None:
            return
        before, after = self._curve.jump
        left, right = self._x(before.at_s), self._x(after.at_s)
        low, high = self._y(before.same.value), self._y(after.same.value)
        late = left > LEFT + WIDE / 2  # there the room is on the left
        yield svg.path(f"M{left} {low}L{right} {high}", BAD, stroke_width=3)
        yield svg.text(
            left - 12 if late else right + 12, round((low + high) / 2 + 4, 1),
            f"{100 * before.same.value:.0f} % → {100 * after.same.value:.0f} %",
            fill=BAD, font_weight=600, text_anchor="end" if late else "start",
        )  # fmt: skip
        for place, line in enumerate(self._curve.happened[:ROWS]):
            yield svg.text(LEFT, HEIGHT - 26 + 16 * place, svg.cut(line, HAPPENED), fill=SOFT)

    def key(self) -> Iterator[Markup]:
        meanings = [(INK, "the same violation comes again"), (MASTER, "between the bounds (95 %)")]
        if self._alike:
            meanings.append((OTHER, "one alike comes (dashed)"))
        meanings.append((FAULT, "a fault is in force"))
        x = float(LEFT)
        for colour, words in meanings:
            yield svg.rect(x, 36, 14, 8, colour, fill_opacity="0.25" if colour == FAULT else None)
            yield svg.text(x + 19, 44, words, fill=SOFT)
            x += 19 + LETTER * len(words) + 14
