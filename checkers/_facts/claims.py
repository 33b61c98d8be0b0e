"""Statements about what stands at an offset: from answers, logs and the tier, to be held against one another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.shard_rows import Rows
from checkers._facts.arrays import Flags, Grid, Ints, any_in, groups, message_slots, only, slots, tops
from checkers._facts.clients import sends

#: Rows that say what stands at an offset, and the ends of sends.
CONTENT = ("send", "delivered", "log", "tiered", "append", "node_read")


@dataclass(frozen=True, slots=True)
class Claims:
    """Statements "queue q holds this content at offset o", each by one row of the history. Those about one queue and
    offset have the same ``place``, which is below ``count``; claims of one shard can be held against each other."""

    at: Ints
    queue: Ints
    offset: Ints
    hash: Ints
    place: Ints
    count: int

    @classmethod
    def of(cls, at: Ints, queue: Ints, offset: Ints, content: Ints) -> Claims:
        """Claims about any places, to be held against one another alone."""
        return cls(at, queue, offset, content, *slots(queue, offset))

    def only(self, keep: Flags | Ints) -> Claims:
        if keep.dtype == np.bool_ and keep.all():
            return self
        at, queue, offset, content, place = (column[keep] for column in self.columns())
        return Claims(at, queue, offset, content, place, self.count)

    def columns(self) -> tuple[Ints, ...]:
        return self.at, self.queue, self.offset, self.hash, self.place


def places(rows: Rows) -> Grid:
    """Return the queues and offsets of all rows that name content: a commit, say, may name any number."""
    queue, offset = rows.column("queue"), rows.column("offset")
    has_content = np.isin(rows.column("f"), [rows.code("f", f) for f in CONTENT]) & ((queue | offset) >= 0)
    return Grid.of(queue[has_content], offset[has_content])


def _known(rows: Rows, at: Ints, queue: Ints, offset: Ints, content: Ints) -> Claims:
    """Return the claims of rows ``at``, those without a queue, an offset or a content left out."""
    keep = (queue | offset | content) >= 0
    at, queue, offset, content = only(keep, at, queue, offset, content)
    grid = rows.memo(places)
    return Claims(at, queue, offset, content, grid.places(queue, offset), grid.count)


def claims_of(rows: Rows, at: Ints) -> Claims:
    """Return the claims that these rows make: user records with a known queue, offset and hash."""
    return _known(rows, at, *(rows.column(name)[at] for name in ("queue", "offset", "hash")))


def acknowledged(rows: Rows) -> Claims:
    """Claims of sends that ended in ok, and of those whose answer says where an attempt before has stored the message:
    their own outcome is unknown, but they have an offset. The row is the completion."""
    found = rows.memo(sends)
    placed = found.ok | ((found.done >= 0) & ~found.failed & (rows.column("offset")[found.done] >= 0))
    done, asked = found.done[placed], found.invoke[placed]
    return _known(rows, done, rows.column("queue")[done], rows.column("offset")[done], rows.column("hash")[asked])


def read(rows: Rows) -> Claims:
    return claims_of(rows, rows.where(kind="op", f="delivered"))


def acknowledged_tops(rows: Rows) -> tuple[Ints, Ints]:
    """Return queues, ascending, and the highest offset of each that a send was answered with."""
    claims = rows.memo(acknowledged)
    return tops(claims.queue, claims.offset)


def read_tops(rows: Rows) -> tuple[Ints, Ints]:
    """Queues, ascending, and the highest offset of each that was read."""
    claims = rows.memo(read)
    return tops(claims.queue, claims.offset)


def messages(rows: Rows) -> tuple[Ints, int]:
    """For each row a number that the rows of one message share, and a number above all of them."""
    return message_slots(rows.column("message"))


def tiered(rows: Rows) -> Claims:
    return claims_of(rows, rows.where(kind="final", f="tiered"))


def conflicts(claims: Claims) -> Ints:
    """Return pairs (first, other), one a row, of claims about one (queue, offset) with different content: a pair for
    each content that isn't the first's, by queue and offset. ``claims`` come in the order in which they should be
    reported."""
    odd = claims.hash != _one_of(claims)[claims.place]
    among = np.flatnonzero(any_in(claims.place[odd], claims.count)[claims.place])  # all about places in dispute
    order, starts = groups(claims.queue[among], claims.offset[among])
    order = among[order]
    leader = np.zeros(len(order), dtype=np.int64)
    leader[starts] = starts
    leader = np.maximum.accumulate(leader)
    content = claims.hash[order]
    differs = np.flatnonzero(content != content[leader])
    by_content, firsts = groups(leader[differs], content[differs])
    reported = np.sort(differs[by_content[firsts]])
    return np.stack([order[leader[reported]], order[reported]], axis=1)


def _one_of(claims: Claims) -> Ints:
    """Return for each place the content that one of the claims names, -1 where none does."""
    table = np.full(claims.count, -1, dtype=np.int64)
    table[claims.place] = claims.hash
    return table


def join(*some: Claims) -> Claims:
    """All claims in one, in the given order."""
    filled = [claims for claims in some if len(claims.at)] or [*some[:1]]
    if len(filled) == 1:
        return filled[0]
    columns = zip(*(claims.columns() for claims in filled), strict=True)
    at, queue, offset, content, place = map(np.concatenate, columns)
    return Claims(at, queue, offset, content, place, filled[0].count)


def holds(present: Claims, claims: Claims) -> Flags:
    """For each claim: is the same content at the same queue and offset?"""
    held = _one_of(present)[claims.place] == claims.hash
    missing = np.flatnonzero(~held)
    others = np.flatnonzero(any_in(claims.place[missing], claims.count)[present.place])
    if len(others):  # more than one content at an offset is rare
        place = np.append(present.place[others], claims.place[missing])
        group, number = slots(place, np.append(present.hash[others], claims.hash[missing]))
        held[missing] = any_in(group[: len(others)], number)[group[len(others) :]]
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
