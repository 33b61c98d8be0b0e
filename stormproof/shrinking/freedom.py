"""Which numbers of a small experiment may be any: as far as was tried, the failure stays whatever they are.

They are what the failure does not hang on, though no experiment can be without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from stormproof.shrinking.document import Document
from stormproof.shrinking.reductions import Knob, knobs

#: Values that are drawn between the boundaries.
DRAWN = 3
#: What has no greatest value is tried up to so many times what it is, and up to this at least.
TIMES, UP_TO = 10, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """The option ``name`` of ``plugin``, and the values that were tried, in ascending order."""

    plugin: str
    name: str
    tried: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.name} of {self.plugin} (tried: {', '.join(f'{value:g}' for value in self.tried)})"


def free(document: Document, seed: int, keeps: Callable[[Document], bool]) -> Iterator[Free]:
    """Yield each number that may be any. ``keeps`` says whether a document fails as this one does; boundary values are
    asked for first, then some that the seed draws, and the first that fails otherwise ends it."""
    for section in ("faults", "workloads", "system"):
        for place, knob in enumerate(knobs(document, section)):
            values = _values(knob, Random(f"{seed}/{section}/{place}"))
            if values and all(keeps(knob.set(document, value)) for value in values):
                yield Free(plugin=str(knob.path[-2]), name=str(knob.path[-1]), tried=tuple(sorted(values)))


def _values(knob: Knob, rng: Random) -> list[float]:
    """Return the boundaries, then some between them; none that it has already."""
    top = max(TIMES * knob.value, knob.floor + UP_TO)
    top = top if knob.top is None else min(top, knob.top)
    steps = max(int((top - knob.floor) / knob.every), 0)
    drawn = [knob.floor + knob.every * rng.randrange(steps + 1) for _ in range(DRAWN)]
    found = [round(value) if knob.whole else round(value, 9) for value in (knob.floor, top, *drawn)]
    return [value for value in dict.fromkeys(found) if value != knob.value]
