"""Delta debugging: from something that fails to something that still fails and can't be made smaller by one step.

Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (IEEE TSE 28, 2002), for lists (``ddmin``),
and the same idea for numbers. All of it is a function of what ``first`` answers; what a candidate is, and how it is
tried, is no matter here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

#: Tries candidates, and returns the place of the first one, in their order, that still fails; None if none does.
First = Callable[[Sequence[T]], int | None]

#: How much of the way down to its floor a number is taken; the largest leaps come first.
LEAPS = (1.0, 0.9, 0.75, 0.5, 0.25, 0.1, 0.0)


def fewest(items: Iterable[T], first: First[tuple[T, ...]], *, keep: int = 0) -> tuple[T, ...]:
    """Return some of the items, in their order, at least ``keep``, that still fail. 1-minimal: without any one of them
    it does not fail (or there would be fewer than ``keep``). ``items`` themselves are taken to fail; they are never
    tried."""
    left = tuple(items)
    if len(left) > keep == 0 and first([()]) is not None:
        return ()
    parts = 2
    while len(left) > keep:
        parts = min(parts, len(left))
        chunks = _chunks(left, parts)
        alone = [chunk for chunk in chunks if keep <= len(chunk) < len(left)] if parts > 1 else []
        if (place := first(alone) if alone else None) is not None:
            left, parts = alone[place], 2
            continue
        rests = [without for chunk in chunks if len(without := _without(left, chunk)) >= max(keep, 1)]
        rests = [rest for rest in rests if rest not in alone]
        if (place := first(rests) if rests else None) is not None:
            left, parts = rests[place], max(parts - 1, 2)
        elif parts == len(left):
            break
        else:
            parts *= 2
    return left


def _chunks(items: tuple[T, ...], parts: int) -> list[tuple[T, ...]]:
    """Return the items in so many parts of nearly one length, none of them empty."""
    cuts = [len(items) * part // parts for part in range(parts + 1)]
    return [items[begin:end] for begin, end in itertools.pairwise(cuts)]


def _without(items: tuple[T, ...], chunk: tuple[T, ...]) -> tuple[T, ...]:
    """Return the items without this stretch of them. Equal items are distinguished by their places."""
    begin = next(place for place in range(len(items)) if items[place : place + len(chunk)] == chunk)
    return items[:begin] + items[begin + len(chunk) :]


def least(value: T, smaller: Callable[[T], Sequence[T]], first: First[T]) -> T:
    """Go from a value to the first of its ``smaller`` ones that still fails, until none does. ``smaller`` must come to
    an end, whatever way is taken."""
    while candidates := smaller(value):
        place = first(candidates)
        if place is None:
            break
        value = candidates[place]
    return value


def lower(value: float, floor: float, step: float = 0.0) -> list[float]:
    """Return numbers from ``floor`` up to below ``value``, ascending: the floor itself, then ever smaller leaps down,
    the last one of a ``step`` (by default one of the second significant digit). All but the floor are multiples of the
    step."""
    gap = value - floor
    step = step or significant(value)
    if gap <= 0 or not math.isfinite(gap):
        return []
    found = {floor}
    for leap in (*LEAPS, step / gap):
        number = round(math.floor((value - gap * leap) / step + 1e-9) * step, 9)
        if floor < number < value:
            found.add(number)
    return sorted(found)


def significant(value: float) -> float:
    """Return one unit of the second significant digit of a number: 1 of 45, 0.1 of 4.5."""
    return 10.0 ** (math.floor(math.log10(abs(value))) - 1) if value else 1.0


def stable(value: T, passes: Sequence[Callable[[T], T]]) -> T:
    """Apply one pass after the other, again and again, until a whole round of them changes nothing any more."""
    while True:
        before = value
        for one in passes:
            value = one(value)
        if value == before:
            return value
