"""Arrays that laws compute with: sorting rows into groups, and finding by number what belongs together.

What a history numbers without gaps (queues, offsets, messages of a queue) is an address: a table of as many places
takes the place of sorting. What is numbered otherwise is sorted, with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: A time or an index that nothing reaches.
NEVER = np.iinfo(np.int64).max
#: A table may have so many places for each row, and so many besides.
PLACES, BESIDES = 4, 1 << 16
#: Numbers below this are sorted by counting.
FEW = 1 << 16


def groups(*columns: Ints) -> tuple[Ints, Ints]:
    """Sort by these columns, keeping the given order among equals. Returns the order, and where in it each group of
    equal values starts."""
    order = stable_order(columns[-1])
    for column in columns[-2::-1]:
        order = order[stable_order(column[order])]
    new = np.zeros(len(order), dtype=np.bool_)
    new[:1] = True
    for column in columns:
        there = column[order]
        new[1:] |= there[1:] != there[:-1]
    return order, np.flatnonzero(new)


def stable_order(column: npt.NDArray[Any]) -> Ints:
    """The places of a column's values, ascending, in the given order among equals."""
    if len(column):
        low = column.min()
        if int(column.max()) - int(low) < FEW:
            column = (column - low).astype(np.uint16)  # numpy counts such numbers instead of comparing them
    return np.argsort(column, kind="stable")


def parts(column: Ints) -> dict[int, Ints]:
    """Where each value stands: value → its places, both ascending."""
    order, starts = groups(column)
    ends = [*starts[1:].tolist(), len(order)]
    bounds = zip(column[order[starts]].tolist(), starts.tolist(), ends[: len(starts)], strict=True)
    return {value: order[begin:end] for value, begin, end in bounds}


def slots(of: Ints, number: Ints) -> tuple[Ints, int]:
    """For each pair of numbers a slot that equal pairs share and no others; and a number above all slots."""
    most = PLACES * len(of) + BESIDES
    if len(of) and int(number.max()) - int(number.min()) < most and int(of.max()) - int(of.min()) < most:
        of, number = of - of.min(), number - number.min()
        width = int(number.max()) + 1
        if (int(of.max()) + 1) * width <= most:
            return of * width + number, (int(of.max()) + 1) * width
        tops = np.zeros(int(of.max()) + 2, dtype=np.int64)
        np.maximum.at(tops, of + 1, number + 1)
        begins = np.cumsum(tops)
        if begins[-1] <= most:
            return begins[of] + number, int(begins[-1])
    order, starts = groups(of, number)
    slot = np.zeros(len(order), dtype=np.int64)
    slot[starts[1:]] = 1
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.cumsum(slot)
    return found, len(starts)


def message_slots(message: Ints) -> tuple[Ints, int]:
    """As :func:`slots`, of the ids of messages; -1, which is none, has one too."""
    sequence = message & (1 << 40) - 1
    if len(message) and message.min() < 0:
        if message.min() < -1:
            return slots(np.zeros(len(message), dtype=np.int64), message)
        sequence[message < 0] = 0
    return slots(message >> 40, sequence)


def first_in(slot: Ints, count: int, values: Ints, missing: int = -1) -> Ints:
    """For each slot the first of the values that stand in it; ``missing`` where none does."""
    table = np.full(count, missing, dtype=np.int64)
    table[slot[::-1]] = values[::-1]  # of equal places the last one written stays
    return table


def any_in(slot: Ints, count: int) -> Flags:
    """For each slot: does anything stand in it?"""
    table = np.zeros(count, dtype=np.bool_)
    table[slot] = True
    return table


def distinct(column: Ints) -> Ints:
    """The values that occur, ascending."""
    if len(column):
        low = column.min()
        if int(column.max()) - int(low) < PLACES * len(column) + BESIDES:
            return np.flatnonzero(any_in(column - low, int(column.max()) - int(low) + 1)) + low
    return np.unique(column)


def among(many: Ints, few: Ints) -> Flags:
    """Which of many numbers are among a few."""
    known = np.unique(few)
    slot = np.searchsorted(known, many)
    slot[slot == len(known)] = 0
    return known[slot] == many if len(known) else np.zeros(len(many), dtype=np.bool_)


def occur(few: Ints, many: Ints) -> Flags:
    """Which of a few numbers are among many."""
    return np.isin(few, np.unique(many[among(many, few)]))


def pairs_occur(few: tuple[Ints, Ints], many: tuple[Ints, Ints]) -> Flags:
    """Which of a few pairs of numbers are among many pairs."""
    near = among(many[1], few[1])
    slot, count = slots(*(np.append(one, other[near]) for one, other in zip(few, many, strict=True)))
    return any_in(slot[len(few[0]) :], count)[slot[: len(few[0])]]


def places_in(known: Ints, numbers: Ints) -> tuple[Ints, Flags]:
    """For each number its place among known ones, which ascend, and whether it is there; 0 where it isn't."""
    place = np.searchsorted(known, numbers)
    place[place == len(known)] = 0
    there = known[place] == numbers if len(known) else np.zeros(len(numbers), dtype=np.bool_)
    return np.where(there, place, 0), there


@dataclass(frozen=True, slots=True)
class Line:
    """Numbers of several keys on one line, those of one key behind those of the other: one search finds a number of a
    key. Keys are small; ``low`` is the lowest of the numbers, and all of them are below ``low + span - 2``."""

    low: int
    span: int

    @classmethod
    def of(cls, *numbers: Ints) -> Line:
        low = min((int(some.min()) for some in numbers if len(some)), default=0)
        return cls(low, max((int(some.max()) for some in numbers if len(some)), default=0) - low + 3)

    def places(self, key: Ints, number: Ints | int) -> Ints:
        """A number beyond the line stands just before the key's lowest, or just behind its highest."""
        return key * self.span + (np.clip(number, self.low - 1, self.low + self.span - 2) - self.low)

    def keys(self, place: Ints) -> Ints:
        return place // self.span

    def numbers(self, place: Ints) -> Ints:
        return place % self.span + self.low


@dataclass(frozen=True, slots=True)
class Highest:
    """For each key, the highest value that was known before a time. Keys and times are places in arrays; no two values
    of a key have the same time."""

    moments: Ints
    highest: Ints
    span: int

    @classmethod
    def of(cls, key: Ints, time: Ints, value: Ints, span: int) -> Highest:
        """``span`` is above all times."""
        order = stable_order(key * span + time)
        values, rank = _ranked(value, int(key.max(initial=0)) + 1)
        step = int(rank.max(initial=0)) + 1
        base = key[order] * step
        highest = np.maximum.accumulate(rank[order] + base) - base
        return cls((key * span + time)[order], values[highest] if values is not None else highest - 1, span)

    def before(self, key: Ints, time: Ints) -> Ints:
        """The highest value of each of these keys before its time, -1 where there was none."""
        if not len(self.moments):
            return np.full(len(key), -1, dtype=np.int64)
        place = np.searchsorted(self.moments, key * self.span + time) - 1
        known = (place >= 0) & (self.moments[place] // self.span == key)
        return np.where(known, self.highest[place], -1)


def _ranked(value: Ints, keys: int) -> tuple[Ints | None, Ints]:
    """Numbers in the order of these values, small enough to be told apart for so many keys; and what each stands for,
    None where that is one less."""
    if not len(value) or (value.min() >= -1 and (int(value.max()) + 2) * keys < NEVER):
        return None, value + 1
    values, rank = np.unique(value, return_inverse=True)
    return values, rank
