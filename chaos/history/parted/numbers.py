"""Whole numbers that occur: as numpy's functions, which take a hundred times as long for many numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def distinct(numbers: Ints) -> Ints:
    """Those that occur, ascending. ``numpy.unique`` hashes them, where to sort them is cheap."""
    if not bool(np.all(numbers[1:] >= numbers[:-1])):
        numbers = np.sort(numbers)
    return numbers[_new(numbers)]


def _new(column: Ints) -> Flags:
    """Which differ from the one before."""
    new = np.ones(len(column), dtype=np.bool_)
    new[1:] = column[1:] != column[:-1]
    return new


def among(many: Ints, few: Ints) -> Flags:
    """Which of many numbers are among others."""
    known = distinct(few)
    if not len(known):
        return np.zeros(len(many), dtype=np.bool_)
    slot = np.searchsorted(known, many)
    slot[slot == len(known)] = 0
    found: Flags = known[slot] == many
    return found


def wanted(index: Ints, all_wanted: Ints) -> Flags:
    """Which of these numbers are wanted; ``all_wanted`` ascends, and may be far more than these. Where ``index``
    ascends too, as that of a block does, only what is wanted of its range is sought in it."""
    if not len(index) or not bool(np.all(index[1:] > index[:-1])):
        return among(index, all_wanted)
    begin, end = np.searchsorted(all_wanted, index[0]), np.searchsorted(all_wanted, index[-1], side="right")
    few = all_wanted[begin:end]
    place = np.searchsorted(index, few)
    found = np.zeros(len(index), np.bool_)
    found[place[index[place] == few]] = True
    return found
