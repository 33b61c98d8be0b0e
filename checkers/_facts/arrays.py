"""Arrays that laws compute with: sorting rows into groups, and finding by number what belongs together.

What a history numbers without gaps (queues, offsets, messages of a queue) is an address: a table of as many places
takes the place of sorting. What is numbered otherwise is sorted, with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.history.parted import numbers
from chaos.ops import SEQUENCE_BITS

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: A time or an index that nothing reaches.
NEVER = np.iinfo(np.int64).max
#: A table may have so many places for each row, and so many besides.
PLACES, BESIDES = 4, 1 << 16
#: Numbers below this are sorted by counting.
FEW = 1 << 16
#: So many bits of a number are not its sign.
BITS = 63


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
    """Return the places of a column's values, ascending, in the given order among equals."""
    if ascends(column):
        return np.arange(len(column))
    low = column.min()
    span = int(column.max()) - int(low)
    if span < FEW:
        column = (column - low).astype(np.uint16)  # numpy counts such numbers instead of comparing them
    elif span.bit_length() + len(column).bit_length() <= BITS:
        return _places(np.subtract(column, low, dtype=np.int64))
    return np.argsort(column, kind="stable")


def _places(column: Ints) -> Ints:
    """As :func:`stable_order`, of numbers that leave room for their places behind them: numpy sorts plain numbers
    several times as fast as it finds out their order. Most columns are stretches that ascend, one behind the other,
    which a stable sort only merges."""
    bits = len(column).bit_length()
    column <<= bits
    column |= np.arange(len(column))
    column.sort(kind="stable")
    column &= (1 << bits) - 1
    return column


def ascends(column: npt.NDArray[Any]) -> bool:
    """Is no value lower than the one before it?"""
    return bool(np.all(column[1:] >= column[:-1]))


def parts(column: Ints) -> dict[int, Ints]:
    """Return where each value stands: value → its places, both ascending."""
    order, starts = groups(column)
    ends = [*starts[1:].tolist(), len(order)]
    bounds = zip(column[order[starts]].tolist(), starts.tolist(), ends[: len(starts)], strict=True)
    return {value: order[begin:end] for value, begin, end in bounds}


@dataclass(frozen=True, slots=True)
class Grid:
    """Numbers pairs of whole numbers: each pair that it was made of has a number of its own, below ``count``.

    That is an address, ``base[one - low] + two``: each value of ``one`` has a stretch of addresses, and ``two`` is the
    place in it. Where addresses would be too many, it is the place of the pair among the ``known`` ones: the values of
    ``one``, those of ``two``, and which pairs of these occur, all ascending."""

    count: int
    low: int
    base: Ints
    known: tuple[Ints, Ints, Ints] | None = None

    @classmethod
    def of(cls, one: Ints, two: Ints) -> Grid:
        """Return the simplest form whose tables stay in proportion to the pairs."""
        most = PLACES * len(one) + BESIDES
        if not len(one):
            return cls(0, 0, one)
        low, first, span = int(one.min()), int(two.min()), int(one.max()) - int(one.min()) + 1
        width = int(two.max()) - first + 1
        if max(span, width) <= most:
            if span * width <= len(one):  # stretches of one length for all values of ``one``
                return cls(span * width, low, np.arange(span) * width - first)
            there = any_in(one - low, span)
            if int(there.sum()) * width <= most:  # only for those that occur
                return cls(int(there.sum()) * width, low, (np.cumsum(there) - 1) * width - first)
            tops = np.zeros(span + 1, dtype=np.int64)
            np.maximum.at(tops, one - low + 1, two - first + 1)
            if int(tops.sum()) <= most:  # each as long as its greatest ``two`` needs
                return cls(int(tops.sum()), low, np.cumsum(tops)[:-1] - first)
        ones, twos = numbers.distinct(one), numbers.distinct(two)
        known = numbers.distinct(np.searchsorted(ones, one) * len(twos) + np.searchsorted(twos, two))
        return cls(len(known), low, one[:0], (ones, twos, known))

    def places(self, one: Ints, two: Ints) -> Ints:
        """Return the numbers of these pairs, each of which must be one that the grid was made of."""
        if self.known is not None:
            ones, twos, known = self.known
            return np.searchsorted(known, np.searchsorted(ones, one) * len(twos) + np.searchsorted(twos, two))
        if not self.count:
            return np.empty(0, dtype=np.int64)
        found = self.base[one - self.low]
        found += two
        return found


def slots(of: Ints, number: Ints) -> tuple[Ints, int]:
    """For each pair of numbers a slot that equal pairs share and no others; and a number above all slots."""
    grid = Grid.of(of, number)
    return grid.places(of, number), grid.count


def message_slots(message: Ints) -> tuple[Ints, int]:
    """As :func:`slots`, of the ids of messages; -1, which is none, has one too."""
    above = message + 1
    return slots(above >> SEQUENCE_BITS, above & (1 << SEQUENCE_BITS) - 1)


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
    """Return the values that occur, ascending."""
    if len(column):
        low = column.min()
        if int(column.max()) - int(low) < PLACES * len(column) + BESIDES:
            return np.flatnonzero(any_in(column - low, int(column.max()) - int(low) + 1)) + low
    return numbers.distinct(column)


def tops(key: Ints, number: Ints) -> tuple[Ints, Ints]:
    """Return the keys that occur, ascending, and the highest number that each of them has; numbers are at least -1."""
    keys = distinct(key)
    highest = np.full(len(keys), -1, dtype=np.int64)
    np.maximum.at(highest, places_in(keys, key)[0], number)
    return keys, highest


def ranges(of: Ints, offset: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the ranges that these offsets make, by ``of`` and offset: whose they are, their first offsets, and the
    first ones behind them."""
    order, firsts = groups(of, offset)
    of, offset = of[order[firsts]], offset[order[firsts]]
    new = np.ones(len(of), dtype=np.bool_)
    new[1:] = (of[1:] != of[:-1]) | (offset[1:] != offset[:-1] + 1)
    first = np.flatnonzero(new)
    return of[first], offset[first], offset[np.append(first[1:], len(of))[: len(first)] - 1] + 1


def only(keep: Flags, *columns: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Return these columns without what is not kept; mostly that is nothing, and then nothing is copied."""
    return [*columns] if keep.all() else [column[keep] for column in columns]


def narrow(column: Ints) -> npt.NDArray[Any]:
    """Return numbers to be kept, or to be places, in half as many bytes if each of them fits."""
    fits = not len(column) or (int(column.min()) >= -(1 << 31) and int(column.max()) < 1 << 31)
    return column.astype(np.int32) if fits else column


def among(many: Ints, few: Ints) -> Flags:
    """Return which of many numbers are among a few."""
    return places_in(distinct(few), many)[1]


def occur(few: Ints, many: Ints) -> Flags:
    """Return which of a few numbers are among many."""
    return among(few, many[among(many, few)])


def pairs_occur(few: tuple[Ints, Ints], many: tuple[Ints, Ints]) -> Flags:
    """Return which of a few pairs of numbers are among many pairs."""
    near = among(many[1], few[1])
    slot, count = slots(*(np.append(one, other[near]) for one, other in zip(few, many, strict=True)))
    return any_in(slot[len(few[0]) :], count)[slot[: len(few[0])]]


def places_in(known: Ints, numbers: Ints) -> tuple[Ints, Flags]:
    """For each number its place among known ones, which ascend, and whether it is there; 0 where it isn't."""
    if not len(known):
        return np.zeros(len(numbers), dtype=np.int64), np.zeros(len(numbers), dtype=np.bool_)
    low, span = int(known[0]), int(known[-1]) - int(known[0])
    if span < PLACES * len(numbers) + BESIDES:
        table = np.full(span + 3, -1, dtype=np.int64)  # with a place below and one above all that are known
        table[known - low + 1] = np.arange(len(known))
        place = table.take(numbers - low + 1, mode="clip")
        there = place >= 0
        return np.maximum(place, 0, out=place), there
    place = np.searchsorted(known, numbers)
    place[place == len(known)] = 0
    there = known[place] == numbers
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
        """Return the place of each number on the line. A number beyond the line stands just before the key's lowest, or
        just behind its highest."""
        return key * self.span + (np.clip(number, self.low - 1, self.low + self.span - 2) - self.low)

    def keys(self, place: Ints) -> Ints:
        return place // self.span

    def numbers(self, place: Ints) -> Ints:
        return place % self.span + self.low


@dataclass(frozen=True, slots=True)
class Highest:
    """For each key, the highest value that was known before a time: ``value`` of ``key`` has been known since ``time``,
    which lies between 0 and ``span``."""

    key: Ints
    time: Ints
    value: Ints
    span: int

    def before(self, key: Ints, time: Ints) -> Ints:
        """Return the highest value of each of these keys before its time, -1 where there was none."""
        asked = len(key)
        if not len(self.key) or not asked:
            return np.full(asked, -1, dtype=np.int64)
        keys, times = np.concatenate([key, self.key]), np.concatenate([time, self.time])
        values, rank = _ranked(self.value, len(keys))
        order, group = self._in_order(keys, times)
        step = int(rank.max()) + 1
        if (int(group[-1]) + 1) * step > NEVER:
            group = np.cumsum(np.append(0, group[1:] != group[:-1]))
        group *= step
        known = np.append(np.zeros(asked, dtype=np.int64), rank)[order]
        known += group
        np.maximum.accumulate(known, out=known)
        known -= group
        mine = order < asked
        found = np.empty(asked, dtype=np.int64)
        found[order[mine]] = known[mine]
        return found - 1 if values is None else values[found]

    def records(self, key: int) -> tuple[Ints, Ints]:
        """Return the values of this key that were higher than all that were known before, ascending; and their places
        among what is known. So the first one that reaches a value is found without a look at the others."""
        mine = np.flatnonzero(self.key == key)
        mine = mine[stable_order(self.time[mine])]
        top = np.maximum.accumulate(self.value[mine])
        new = np.append(True, top[1:] > top[:-1])[: len(mine)]
        return top[new], mine[new]

    def _in_order(self, keys: Ints, times: Ints) -> tuple[Ints, Ints]:
        """Return the order of all that is asked and known by key and time, where what is asked comes before what is
        known at that time; and the key of each, ascending from 0."""
        keys = keys - keys.min()
        bits, places = self.span.bit_length(), len(keys).bit_length()
        if int(keys.max()).bit_length() + bits + places <= BITS:
            packed = keys << bits
            packed |= times
            packed <<= places
            packed |= np.arange(len(keys))
            packed.sort(kind="stable")
            return packed & ((1 << places) - 1), packed >> (bits + places)
        order = np.lexsort((times, keys))
        return order, keys[order]


def _ranked(value: Ints, keys: int) -> tuple[Ints | None, Ints]:
    """Return numbers from 1 on in the order of these values, small enough that each of so many keys has a range of its
    own; and what each stands for, None where that is one less."""
    if value.min() >= -1 and (int(value.max()) + 2) * keys < NEVER:
        return None, value + 1
    values, rank = np.unique(value, return_inverse=True)
    return np.append(-1, values), rank + 1
