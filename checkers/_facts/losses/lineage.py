"""Which replicas held given records, when each of them became master, and what had taken a record from it by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chaos.shard_rows import Rows
from checkers._facts.arrays import Flags, Ints, slots
from checkers._facts.claims import Claims
from checkers._facts.losses.terms import Term
from checkers._facts.nodes.logs import node_traces

#: What takes the end of a log away, and what a log is asked about.
EVENTS = ("recovered", "truncate", "bootstrap", "role")


@dataclass(frozen=True, slots=True)
class Records:
    """Records of queues, each by the content that stood at an offset, the epoch it was appended in, and its position
    in the log."""

    queue: Ints
    offset: Ints
    hash: Ints
    epoch: Ints
    position: Ints

    @classmethod
    def of(cls, rows: Rows, claims: Claims) -> Records:
        """Return the records that the rows of these claims reported to clients."""
        epoch, position = (rows.column(name)[claims.at] for name in ("epoch", "position"))
        return cls(claims.queue, claims.offset, claims.hash, epoch, position)

    def __len__(self) -> int:
        return len(self.queue)

    def placed(self, rows: Rows) -> Records:
        """Return the same; where an answer named no epoch, or no position, those that the record was appended with
        first."""
        if not ((self.epoch < 0) | (self.position < 0)).any():
            return self
        number, append = _appends(rows, self)
        found = {}
        for name, known in (("epoch", self.epoch), ("position", self.position)):
            first = known.copy()
            first[number[::-1]] = rows.column(name)[append[::-1]]  # the first one is written last
            found[name] = np.where(known < 0, first, known)
        return replace(self, **found)


@dataclass(frozen=True, slots=True)
class Held:
    """What one replica held of the records at one moment. ``taken``: whether it had appended the record itself by
    then; ``gone``: the row that took the record from its log, -1 for what it holds, or never had."""

    has: Flags
    taken: Flags
    gone: Ints


@dataclass(frozen=True, slots=True)
class Lineage:
    """``at_terms``: what the master of each term held when it took the role; ``takers``: the row by which each replica
    appended each record first, -1 where it never did; ``at_end``: what each replica held at the end of its trace."""

    at_terms: Sequence[Held]
    takers: dict[str, Ints]
    at_end: dict[str, Held]


def lineage(rows: Rows, records: Records, terms: Sequence[Term]) -> Lineage:
    """Return the lineage of the replicas that traced the append of any of the records, or became master in a term."""
    number, append = _appends(rows, records)
    names = {term.node for term in terms} | {rows.text("node", at) for at in _one_of_each(rows, append)}
    at_role: dict[int, Held] = {}
    takers, at_end = {}, {}
    for name in sorted(names):
        mine = rows.column("node")[append] == rows.code("node", name)
        takers[name], at_end[name] = _follow(rows, records, name, number[mine], append[mine], at_role)
    return Lineage([at_role[term.at] for term in terms], takers, at_end)


def _one_of_each(rows: Rows, at: Ints) -> list[int]:
    _, first = np.unique(rows.column("node")[at], return_index=True)
    return at[first].tolist()


def _appends(rows: Rows, records: Records) -> tuple[Ints, Ints]:
    """Return pairs of a record's number and a row that appended it somewhere, in the order of these rows. A record
    whose epoch is unknown may be of any."""
    at = rows.where(kind="trace", f="append")
    columns = (rows.column(name)[at] for name in ("queue", "offset", "hash"))
    wanted = (records.queue, records.offset, records.hash)
    key = np.zeros(len(records) + len(at), dtype=np.int64)
    for mine, theirs in zip(wanted, columns, strict=True):
        key, _ = slots(key, np.concatenate([mine, theirs]))
    order = np.argsort(key[: len(records)], kind="stable")
    known = key[: len(records)][order]
    low, high = (np.searchsorted(known, key[len(records) :], side=side) for side in ("left", "right"))
    many = high - low
    within = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
    number, append = order[np.repeat(low, many) + within], np.repeat(at, many)
    epoch = records.epoch[number]
    fits: Flags = (epoch < 0) | (epoch == rows.column("epoch")[append])
    return number[fits], append[fits]


def _follow(
    rows: Rows, records: Records, node: str, number: Ints, append: Ints, at_role: dict[int, Held]
) -> tuple[Ints, Held]:
    """Follow one replica through what it traced; fill in what it held whenever it took the role of master."""
    events = node_traces(rows, node, *EVENTS)
    every = node_traces(rows, node, *EVENTS, "append")
    rank = np.empty(len(rows), dtype=np.int64)
    rank[every] = np.arange(len(every))
    order = np.argsort(rank[append], kind="stable")
    number, append = number[order], append[order]
    until = np.searchsorted(rank[append], rank[events]).tolist()
    has, taken = (np.zeros(len(records), dtype=np.bool_) for _ in range(2))
    gone, first = (np.full(len(records), -1, dtype=np.int64) for _ in range(2))
    first[number[::-1]] = append[::-1]
    begin = 0
    for at, end in zip([*events.tolist(), -1], [*until, len(append)], strict=True):
        new, begin = number[begin:end], end
        has[new] = taken[new] = True
        gone[new] = -1
        if at < 0:
            break
        if (f := rows.text("f", at)) == "role":
            at_role[at] = Held(has.copy(), taken.copy(), gone.copy())
            continue
        # A log that begins again holds what the tier does, and nothing that it had before.
        kept = (
            _covered(rows, records, at) if f == "bootstrap" else has & (records.position < rows.column("position")[at])
        )
        gone[has & ~kept] = at
        has = kept
    return first, Held(has, taken, gone)


def _covered(rows: Rows, records: Records, at: int) -> Flags:
    """Return which records lie before the position where a replica begins again, in the epochs that its log then goes
    on from: the tier has them."""
    history = [entry for entry in rows.value(at).get("epochs") or () if isinstance(entry, list) and len(entry) == 2]
    below: Flags = records.position < rows.column("position")[at]
    if not history:
        return below
    ordered = sorted(history, key=lambda entry: entry[1])
    epochs, starts = (np.array(column, dtype=np.int64) for column in zip(*ordered, strict=True))
    place = np.searchsorted(starts, records.position, side="right") - 1
    return below & (place >= 0) & (epochs[np.maximum(place, 0)] == records.epoch)


def copies(rows: Rows, node: str, epoch: int, positions: Ints) -> list[frozenset[str] | None]:
    """Return which copies the acknowledgement of each of these positions stood on, as the master reported; None where
    it did not name them."""
    at = rows.where(kind="trace", f="acked", node=node)
    at = at[rows.column("epoch")[at] == epoch]
    at = at[np.argsort(rows.column("position")[at], kind="stable")]
    ends = rows.column("position")[at]
    found: list[frozenset[str] | None] = []
    places = np.searchsorted(ends, positions, side="right")
    for position, place in zip(positions.tolist(), places.tolist(), strict=True):
        named = rows.value(int(at[place])).get("copies") if place < len(at) else None
        if isinstance(named, dict):
            found.append(frozenset(name for name, end in named.items() if end > position))
        else:
            found.append(None)
    return found
