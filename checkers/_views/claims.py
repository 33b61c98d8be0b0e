"""Statements about what stands at an offset: from answers, logs and the tier, to be held against one another."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from chaos.law import Rows
from checkers._views.arrays import Flags, Ints, any_in, first_in, groups, slots
from checkers._views.clients import sends


@dataclass(frozen=True, slots=True)
class Claims:
    """Statements "queue q holds this content at offset o", each by one row of the history."""

    at: Ints
    queue: Ints
    offset: Ints
    hash: Ints

    def only(self, keep: Flags | Ints) -> Claims:
        return Claims(*(getattr(self, field.name)[keep] for field in fields(self)))


def claims_of(rows: Rows, at: Ints) -> Claims:
    """The claims that these rows make: user records with a known queue, offset and hash."""
    queue, offset, content = rows.column("queue")[at], rows.column("offset")[at], rows.column("hash")[at]
    keep = (queue >= 0) & (offset >= 0) & (content >= 0)
    return Claims(at[keep], queue[keep], offset[keep], content[keep])


def acknowledged(rows: Rows) -> Claims:
    """Claims of sends that ended in ok; the row is the completion."""
    found = rows.memo(sends)
    done = found.done[found.ok]
    asked = found.invoke[found.ok]
    queue, offset = rows.column("queue")[done], rows.column("offset")[done]
    content = rows.column("hash")[asked]
    keep = (queue >= 0) & (offset >= 0) & (content >= 0)
    return Claims(done[keep], queue[keep], offset[keep], content[keep])


def read(rows: Rows) -> Claims:
    return claims_of(rows, rows.where(kind="op", f="delivered"))


def tiered(rows: Rows) -> Claims:
    return claims_of(rows, rows.where(kind="final", f="tiered"))


def conflicts(claims: Claims) -> Ints:
    """Pairs (first, other), one a row, of claims about one (queue, offset) with different content: a pair for each
    content that isn't the first's, by queue and offset. ``claims`` come in the order in which they should be told."""
    slot, count = slots(claims.queue, claims.offset)
    odd = claims.hash != first_in(slot, count, claims.hash)[slot]
    among = np.flatnonzero(any_in(slot[odd], count)[slot])  # all claims about the offsets that are in dispute
    order, starts = groups(claims.queue[among], claims.offset[among])
    order = among[order]
    leader = np.zeros(len(order), dtype=np.int64)
    leader[starts] = starts
    leader = np.maximum.accumulate(leader)
    content = claims.hash[order]
    differs = np.flatnonzero(content != content[leader])
    by_content, firsts = groups(leader[differs], content[differs])
    told = np.sort(differs[by_content[firsts]])
    return np.stack([order[leader[told]], order[told]], axis=1)


def join(*some: Claims) -> Claims:
    """All claims in one, in the given order."""
    return Claims(*(np.concatenate([getattr(part, field.name) for part in some]) for field in fields(Claims)))


def holds(present: Claims, claims: Claims) -> Flags:
    """For each claim: is the same content at the same queue and offset?"""
    both = join(present, claims)
    slot, count = slots(both.queue, both.offset)
    mine = slot[len(present.at) :]
    held = first_in(slot[: len(present.at)], count, present.hash)[mine] == claims.hash
    others = np.flatnonzero(any_in(mine[~held], count)[slot[: len(present.at)]])
    if len(others):  # more than one content at an offset is rare
        places = np.concatenate([others, len(present.at) + np.flatnonzero(~held)])
        group, number = slots(slot[places], both.hash[places])
        held[~held] = any_in(group[: len(others)], number)[group[len(others) :]]
    return held


class ByPlace:
    """Claims of all queues, to be asked for those about one offset, in the given order."""

    def __init__(self, claims: Claims) -> None:
        self._order, _ = groups(claims.queue, claims.offset)
        self._queue, self._offset = claims.queue[self._order], claims.offset[self._order]
        self._claims = claims

    def of(self, queue: int, offset: int) -> Claims:
        begin, end = np.searchsorted(self._queue, [queue, queue + 1])
        low, high = begin + np.searchsorted(self._offset[begin:end], [offset, offset + 1])
        return self._claims.only(self._order[low:high])
