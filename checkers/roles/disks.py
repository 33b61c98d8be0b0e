"""What a replica says of its own disk, held against what it had said before and what was done to it.

Damage excuses: a replica that declares its disk damaged or new owes nothing of what it held, and begins again. So no
replica may say so of a disk that nothing has harmed. And the epochs by which logs are compared have to be those of the
records that were synced, whatever else a crash has taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from chaos.driver import Evidence
from chaos.fault import Effect
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs, Reads, Sieve
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import reads
from checkers._facts.arrays import Ints, parts
from checkers._facts.faults import Fault
from checkers._facts.nodes.logs import in_node_order
from checkers._facts.reads import own
from checkers.roles.promise import DAMAGE_WITHOUT_FAULT, EPOCHS_FORGOTTEN, PROMISE

_RARE = ("start", "damaged", "truncate", "recovered", "bootstrap_begun", "bootstrap")
_OFTEN = ("append", "synced", "confirm")
#: An epoch and the position at which its records begin.
Piece = tuple[int, int]


def decisive_rows(rows: Rows) -> Ints:
    """Return the rare rows; the first record of each epoch, and behind each rare row; and before each rare row, and in
    the end, the last word of what is durable and the highest confirm offset. This is a sieve."""
    every = np.concatenate([rows.where(kind="trace", f=f) for f in (*_RARE, *_OFTEN)])
    found = [np.empty(0, np.int64)]
    f, epoch, position = rows.column("f"), rows.column("epoch"), rows.column("position")
    for mine in parts(rows.column("node")[every]).values():
        lived = in_node_order(rows, every[mine])
        is_append, is_synced, is_confirm = (f[lived] == rows.code("f", name) for name in _OFTEN)
        rare = ~is_append & ~is_synced & ~is_confirm
        before = np.maximum.accumulate(np.where(rare | is_append, np.arange(len(lived)), -1))
        before = np.append(-1, before[:-1])[: len(lived)]
        goes_on = (before >= 0) & ~rare[np.maximum(before, 0)] & (epoch[lived] == epoch[lived[np.maximum(before, 0)]])
        said, segment = lived[is_synced], np.cumsum(rare)
        last = np.append(np.diff(segment[is_synced]) > 0, True)[: len(said)]
        confirmed = lived[is_confirm][np.lexsort((position[lived[is_confirm]], segment[is_confirm]))]
        highest = np.append(np.diff(segment[is_confirm]) > 0, True)[: len(confirmed)]
        found += [lived[rare], lived[is_append & ~goes_on], said[last], confirmed[highest]]
    return np.sort(np.concatenate(found))


DISKS = Needs(
    part="what replicas say of their disks",
    key=Key.RUN,  # shards of nodes hold the rows of logs that other kernels sift in their own way
    rows=(
        own("trace", *_RARE),
        Reads(
            kind="trace",
            f=_OFTEN,
            sieve=Sieve(
                rows=(own("trace", *_OFTEN, *_RARE),),
                columns=("node", "incarnation", "step", "epoch", "position"),
                keep=decisive_rows,
                streamed=True,
            ),
        ),
        reads.RUN,
        reads.FAULTS,
    ),
    columns=(*reads.BASIC, *reads.LIVES, "process", "type", "epoch", "position"),
    evidence=(Evidence.CONFIRM, Evidence.ELECTIONS),
)


@dataclass(frozen=True, slots=True)
class Disks:
    """No replica declares damage that nothing has done, or comes back with other epochs than its records have."""

    promise: Promise = PROMISE
    needs: Needs = DISKS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        merged = Partial()
        if context.unfinished:  # that a fault took a node's disk may be proven later
            return merged
        every = decisive_rows(rows)
        for mine in parts(rows.column("node")[every]).values():
            found = Findings(PROMISE)  # for each, so that what is reported does not depend on who shares a shard
            disk = _Disk(rows, found, rows.text("node", int(every[mine[0]])), rows.memo(facts.faults), context)
            for at in in_node_order(rows, every[mine]).tolist():
                disk.follow(at)
            merged = merged.merge(found.partial())
        return merged

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial)  # whether there was an election at all, another kernel says


@dataclass(slots=True)
class _Disk:
    """One node's disk, as the node reports it. ``sure``: what is durable of its log by its own word; ``confirmed``: up
    to where the node called it confirmed; ``cut``: where a cut began that may not have ended, -1 for none; ``whole``:
    the row by which the disk was read to its end."""

    rows: Rows
    found: Findings
    node: str
    faults: Sequence[Fault]
    context: RunContext
    sure: int = 0
    confirmed: int = 0
    witness: int = -1
    cut: int = -1
    whole: int = -1
    is_declared: bool = False
    disk: str = ""
    generation: int = -1
    is_new: bool = True
    pieces: list[Piece] = field(default_factory=list)

    def follow(self, at: int) -> None:
        f, where = self.rows.text("f", at), int(self.rows.column("position")[at])
        if f == "append":
            self._begins(int(self.rows.column("epoch")[at]), where)
        elif f == "synced":
            self.sure, self.witness = where, at
            self.cut = -1 if where > self.cut else self.cut
        elif f == "confirm":
            self.confirmed = max(self.confirmed, where)
        elif f == "truncate":
            self.sure, self.confirmed, self.cut = min(self.sure, where), min(self.confirmed, where), where
            self.pieces = [piece for piece in self.pieces if piece[1] < where]
        elif f == "bootstrap_begun":
            self.cut = self.sure
        elif f == "damaged":
            self._declares(at, "found its disk damaged", where)
        elif f == "start":
            self._starts(at)
        elif f == "bootstrap":
            self.pieces = _pieces(self.rows.value(at).get("epochs"))
            self._is_whole(at, where)
        else:
            self._recovers(at, where)

    def _begins(self, epoch: int, position: int) -> None:
        if epoch >= 0 and (not self.pieces or self.pieces[-1][0] != epoch):
            self.pieces.append((epoch, position))

    def _is_whole(self, at: int, end: int) -> None:
        self.sure, self.confirmed, self.witness, self.cut, self.is_declared = end, 0, at, -1, False

    def _starts(self, at: int) -> None:
        fields = self.rows.value(at)
        disk, generation = str(fields.get("disk", "")), int(fields.get("generation", self.generation + 1))
        if self.disk and disk and disk != self.disk and self.whole >= 0:
            self._declares(at, "began a life on a disk that it had not had before", self.sure)
        self.is_new = disk != self.disk or generation <= self.generation
        self.disk, self.generation = disk, generation

    def _declares(self, at: int, did: str, end: int) -> None:
        """Note that what was on the disk is gone; ``end``: where the log ends that is left. This may be gone: the first
        bytes, before anything was called durable; what a cut takes that had begun; and in a crash what was
        confirmed before it was durable."""
        excused = self.is_declared or self.sure <= 0 or self.cut >= 0 or self._lost_unflushed(at, end)
        self.is_declared = True
        if excused or self._may_be_harmed(at):
            return
        self.found.add(
            DAMAGE_WITHOUT_FAULT,
            f"{self.node} {did} at {facts.at_s(self.rows, at)}, although no fault had harmed it since "
            f"{facts.at_s(self.rows, self.whole)}, when all was well; at {facts.at_s(self.rows, self.witness)} it had "
            f"called its log durable up to position {self.sure}.",
            *sorted({int(self.rows.column("index")[row]) for row in (self.whole, self.witness)}),
            int(self.rows.column("index")[at]),
        )

    def _recovers(self, at: int, end: int) -> None:
        fields = self.rows.value(at)
        pieces, first = _pieces(fields.get("epochs")), fields.get("first")
        if isinstance(fields.get("epochs"), list) and isinstance(first, int) and not self.is_new and self.whole >= 0:
            self._compare(at, pieces, first, min(end, self.sure))
        self.pieces = pieces
        self._is_whole(at, end)
        self.whole, self.is_new = at, False

    def _compare(self, at: int, pieces: Sequence[Piece], first: int, end: int) -> None:
        starts = {first, *(start for _, start in (*self.pieces, *pieces))}
        for position in sorted(start for start in starts if first <= start < end):
            known, now = _epoch_at(self.pieces, position), _epoch_at(pieces, position)
            if known < 0 or known == now or self._may_be_harmed(at):
                continue
            self.found.add(
                EPOCHS_FORGOTTEN,
                f"{self.node} came back at {facts.at_s(self.rows, at)} with {_named(now)} at position {position} of "
                f"its log, where it had records of epoch {known}, and had called them durable by "
                f"{facts.at_s(self.rows, self.witness)}.",
                int(self.rows.column("index")[self.witness]),
                int(self.rows.column("index")[at]),
            )
            return

    def _lost_unflushed(self, now: int, end: int) -> bool:
        """Under asynchronous flush records are confirmed before they are durable. Did a crash take such ones, and left
        all that was durable?"""
        confirmed_more = self.context.profile.flush == "async" and self.sure <= end < self.confirmed
        return confirmed_more and self._may_be_harmed(now, Effect.MAY_CRASH)

    def _may_be_harmed(self, now: int, effect: Effect = Effect.LOSES_DISK) -> bool:
        """Was a fault in force since the disk was last read to its end that has this effect on it, or may have?"""
        since_ns, now_ns = (int(self.rows.column("time_ns")[at]) if at >= 0 else -1 for at in (self.whole, now))
        return any(
            fault.began_ns <= now_ns
            and fault.until_ns >= since_ns
            and (self.node in fault.hits(effect) or fault.may_hit(self.node))
            for fault in self.faults
        )


def _pieces(epochs: object) -> list[Piece]:
    rows = epochs if isinstance(epochs, list) else []
    return sorted(((int(epoch), int(start)) for epoch, start in rows), key=lambda piece: piece[1])


def _epoch_at(pieces: Sequence[Piece], position: int) -> int:
    """Return the epoch of the record that stands there; -1 where nothing says."""
    place = bisect_right(pieces, position, key=lambda piece: piece[1])
    return pieces[place - 1][0] if place else -1


def _named(epoch: int) -> str:
    return f"epoch {epoch}" if epoch >= 0 else "no epoch"
