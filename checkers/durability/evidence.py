"""What is known of the content of queues after the run: how far each was drained, and what was found in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.law import Partial, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import reads, retention
from checkers._facts.arrays import Flags, Ints, distinct, places_in
from checkers._facts.claims import Claims
from checkers.durability import tops
from checkers.durability.promise import PROMISE

#: What shows of each queue, wherever its rows stand, how far it goes, and how far it was read.
END = (tops.READS, reads.beside("op", "drain"))
#: And where it may begin.
ENDS = (*END, *reads.RETENTION)
#: The role of nodes that hold what others serve.
STORE = "store"
#: What a run must have shown, and what is said where it has not.
ACKED = ("was_acked", "no acknowledged send: nothing was promised")
DRAINED = ("was_drained", "no queue was read to its end after the run")


@dataclass(frozen=True, slots=True)
class Drains:
    """Of each queue that was drained the drain that went furthest, of those the widest: from where, to where, and its
    row's index. The queues ascend."""

    queue: Ints
    begin: Ints
    end: Ints
    index: Ints

    @classmethod
    def of(cls, rows: Rows) -> Drains:
        drains = facts.calls(rows, "drain")
        asked, done = drains.invoke[drains.ok], drains.done[drains.ok]
        offset, queue = rows.column("offset"), rows.column("queue")[asked]
        begin, end = np.maximum(offset[asked], 0), offset[done]
        order = np.lexsort((begin, -end, queue))
        _, first = np.unique(queue[order], return_index=True)
        best = order[first]
        return cls(queue[best], begin[best], end[best], rows.column("index")[done[best]])

    def row_of(self, queue: int) -> int:
        """Return the index of the row that completed the drain of this queue, -1 without one."""
        place, there = places_in(self.queue, np.array([queue], dtype=np.int64))
        return int(self.index[place[0]]) if there[0] else -1


@dataclass(frozen=True, slots=True)
class Reached:
    """How far queues were read after the run: an element for each of ``queues``, which ascend. Those are the queues
    that clients worked with.

    ``needed``: how far it must be read; ``begin``, ``reached``: from where to where it was drained (-1: not at all).
    ``acked``: whether any send was acknowledged.
    """

    queues: Ints
    drains: Drains
    needed: Ints
    begin: Ints
    reached: Ints
    acked: bool

    @classmethod
    def of(cls, rows: Rows) -> Reached:
        """``rows`` with what stands beside."""
        queues, drains = _queues(rows), Drains.of(rows)
        place, drained = places_in(drains.queue, queues)
        return cls(
            queues=queues,
            drains=drains,
            needed=_needed(rows, queues),
            begin=np.where(drained, drains.begin[place] if len(drains.queue) else 0, 0),
            reached=np.where(drained, drains.end[place] if len(drains.queue) else -1, -1),
            acked=len(rows.memo(facts.acknowledged_tops)[0]) > 0,
        )

    def note(self, found: Findings) -> None:
        """Note what the run has shown, for :func:`decided`."""
        shown = {ACKED[0]: self.acked, DRAINED[0]: len(self.drains.queue) > 0}
        found.fact(**{name: True for name, there in shown.items() if there})

    @property
    def proven(self) -> Flags:
        """Which queues were read to their end."""
        return self.reached >= self.needed

    def judged(self, rows: Rows, context: RunContext) -> Flags:
        """Return of which queues the content is known: those read to their end, or all if whole logs show it."""
        names = facts.brokers(rows, context)
        whole = bool(names) and set(names) <= facts.complete_nodes(rows) and facts.has_recovered(rows)
        return self.proven | whole | stores_are_whole(rows, context)

    def of_each(self, queue: Ints, flags: Flags) -> Flags:
        """For each of these queues its flag; False for those that clients did not work with."""
        if not flags.any():
            return np.zeros(len(queue), dtype=np.bool_)
        place, known = places_in(self.queues, queue)
        return known & flags[place]

    def floors(self, rows: Rows, context: RunContext, judged: Flags) -> Floors:
        """Of the judged queues. ``rows`` with what stands beside."""
        floor, known = np.zeros(len(judged), dtype=np.int64), np.zeros(len(judged), dtype=np.bool_)
        floor[judged], known[judged] = retention.lawful_floors(rows, context, self.queues[judged])
        unexplained = judged & self.proven & (self.begin > floor) & ~known
        return Floors(np.where(unexplained, self.begin, floor), known, unexplained)


@dataclass(frozen=True, slots=True)
class Floors:
    """Below which offset each queue may hold nothing, and whether anything shows that. Where nothing does
    (``unexplained``), what lies below the drain's beginning is not judged."""

    floor: Ints
    known: Flags
    unexplained: Flags


def _queues(rows: Rows) -> Ints:
    queue = rows.column("queue")
    queues = distinct(np.concatenate([distinct(queue[rows.where(kind="op", f=f)]) for f in ("send", "delivered")]))
    return queues[queues >= 0]


def _needed(rows: Rows, queues: Ints) -> Ints:
    """Return the highest of three ends of each queue: behind what was acknowledged, behind what was read, and the
    system's."""
    needed = np.zeros(len(queues), dtype=np.int64)
    tops = [(of, top + 1) for of, top in (rows.memo(facts.acknowledged_tops), rows.memo(facts.read_tops))]
    for queue, end in (*tops, _system_ends(rows)):
        place, known = places_in(queues, queue)
        np.maximum.at(needed, place[known], end[known])
    return needed


def _system_ends(rows: Rows) -> tuple[Ints, Ints]:
    """Queues, ascending, and the end of each as masters reported it after the run."""
    ends: dict[int, int] = {}
    for at in rows.where(kind="final", f="node"):
        fields = rows.value(at)
        if fields.get("role") == "master":
            for queue, end in (fields.get("maximums") or {}).items():
                ends[int(queue)] = max(ends.get(int(queue), -1), int(end))
    queues = np.array(sorted(ends), dtype=np.int64)
    return queues, np.array([ends[queue] for queue in queues.tolist()], dtype=np.int64)


def by_drain(rows: Rows) -> Claims:
    """Return what the final read was given."""
    return facts.claims_of(rows, rows.where(kind="op", f="delivered")[rows.memo(facts.drain_reads)])


def by_final(rows: Rows) -> Claims:
    """Return what stands in the replicas' logs and in the tier after recovery."""
    return facts.join(rows.memo(facts.final_log), rows.memo(facts.tiered))


def stores_are_whole(rows: Rows, context: RunContext) -> bool:
    """Return whether the stores of a storage cluster were all read to their ends after recovery. What they hold is all
    that there is then: brokers keep nothing, and may have answered the final read from memory."""
    stores = context.meta.named(STORE) if Evidence.GROUPS in context.evidence else ()
    return bool(stores) and set(stores) <= facts.complete_nodes(rows) and facts.has_recovered(rows)


def present(rows: Rows, context: RunContext, end: Reached, judged: Flags) -> Claims:
    """Return what is there, of judged queues: what was drained, and where a queue was not drained to its end, what logs
    and the tier hold; of a storage cluster what its stores hold, where that is known."""
    drained, final = rows.memo(by_drain), rows.memo(by_final)
    if stores_are_whole(rows, context):
        return final.only(end.of_each(final.queue, judged))
    return facts.join(
        drained.only(end.of_each(drained.queue, judged)),
        final.only(end.of_each(final.queue, judged & ~end.proven)),
    )


def decided(partial: Partial, context: RunContext, *needs: tuple[str, str]) -> Verdict:
    """Return the verdict of one of the kernels, each of which says for itself which of the ``needs`` the run did not
    show. Where no workload uses queues, nothing is owed unless it has shown all of them."""
    shown = {name: 1 for name, _ in (ACKED, DRAINED) if any(fact.get(name) for fact in partial.facts)}
    counted = replace(partial, counts={**partial.counts, **shown})
    asked = (ACKED, DRAINED) if context.no_queues else needs
    verdict = decide(PROMISE, counted, needs=asked, unless=context.no_queues)
    return replace(verdict, counts=dict(sorted(partial.counts.items())))
