"""Statements that contradict each other, found by sorting all: the oracle of ``checkers/_facts/claims.py``."""

from __future__ import annotations

import numpy as np

from checkers import _facts as facts
from checkers._facts.arrays import Ints


def sorted_by(*columns: Ints) -> tuple[Ints, Ints]:
    order = np.lexsort(columns[::-1])
    new = np.zeros(len(order), dtype=np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[order][1:] != column[order][:-1]
    return order, np.flatnonzero(new)


def conflicts(claims: facts.Claims) -> list[tuple[int, int]]:
    """Pairs (first, other) of claims about one (queue, offset) with different content, one pair for each content that
    isn't the first's, by queue and offset. ``claims`` come in the order in which they should be told."""
    order, starts = sorted_by(claims.queue, claims.offset)
    content, leader = claims.hash[order], np.zeros(len(order), dtype=np.int64)
    leader[starts] = starts
    leader = np.maximum.accumulate(leader)
    differs = np.flatnonzero(content != content[leader])
    pairs, seen = [], set()
    for found in differs.tolist():
        key = (int(leader[found]), int(content[found]))
        if key not in seen:
            seen.add(key)
            pairs.append((int(order[leader[found]]), int(order[found])))
    return pairs
