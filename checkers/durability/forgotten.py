"""What a replica need not keep any more, it deletes in time: a log that only grows fills its disk.

A replica reports with its roles how much it keeps. What it may delete then is known from below: no row says where the
segments of its log end, nor where the first record lies that the tier lacks. Of each queue the last version of its
manifest that the replica knows covers all records up to a position, and all its records, unless a later one covers
more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.fault import Effect
from chaos.findings import Findings
from chaos.kernel import Key, Needs, Reads, Sieve
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import reads
from checkers._facts.arrays import NEVER, Flags, Ints
from checkers._facts.garbage import REAL_TIME
from checkers._facts.nodes.due import Span, first_calm
from checkers._facts.reads import everywhere, own
from checkers._facts.run import load_began_ns
from checkers.durability.evidence import decided
from checkers.durability.promise import LATE_RETENTION, PROMISE

#: So long a replica may take to delete what it need not keep, in virtual time.
DELETES_S = 3.0
#: So long after a fault something may still be in the way.
SETTLES_NS = 3_000_000_000
#: So long a replica may keep its whole log for one that begins again, which may have died since.
HELD_NS = 30_000_000_000
#: So long it may keep its whole log for a client that reads all of it; questions at the system's limits may do so.
READER_NS = 6_000_000_000
#: What a fault may do without keeping a replica from deleting.
HARMLESS = frozenset({Effect.HARMS_TIER, Effect.SWITCHES_MASTER})
#: What a fault may do so that a replica begins again.
BEGIN_AGAIN = (Effect.LOSES_DISK, Effect.ADDS_REPLICA, Effect.REMOVES_REPLICA)
#: What replicas call the record of a message that comes to its queue later.
SYSTEM, DEFERRED = "system", "deferred"
#: How often it is asked whether a log is too long.
STEP_NS = 1_000_000_000


def _of_each_second(rows: Rows) -> Ints:
    """Return of the confirm offsets that a node reports within one second the last row. This is a sieve."""
    at = rows.where(kind="trace", f="confirm")
    node, second = rows.column("node")[at], rows.column("time_ns")[at] // STEP_NS
    order = np.lexsort((rows.column("index")[at], second, node))
    at, node, second = at[order], node[order], second[order]
    is_last = np.append((node[1:] != node[:-1]) | (second[1:] != second[:-1]), True)[: len(at)]
    return np.sort(at[is_last])


def _largest(rows: Rows) -> Ints:
    """Return of the records that a node appends the largest. This is a sieve."""
    at = rows.where(kind="trace", f="append")
    node, size = rows.column("node")[at], rows.numbers("size", at)
    order = np.lexsort((rows.column("index")[at], size, node))
    is_last = np.append(node[order][1:] != node[order][:-1], True)[: len(at)]
    is_last |= _concerns_waiting(rows, at[order])
    return np.sort(at[order][is_last])


def _concerns_waiting(rows: Rows, at: Ints) -> Flags:
    """Return which of these appended records are deferred messages, or end one."""
    kind, names = rows.labels(SYSTEM, at)
    deferred = kind == (names.index(DEFERRED) if DEFERRED in names else -2)
    concerns: Flags = deferred | (rows.numbers("settles", at) >= 0)
    return concerns


def _sifted(f: str, column: str, keep: Callable[[Rows], Ints]) -> Reads:
    sieve = Sieve(rows=(own("trace", f),), columns=("node", column), keep=keep, streamed=True)
    return Reads(kind="trace", f=(f,), sieve=sieve)


NEEDS = Needs(
    part="how much replicas keep",
    key=Key.NODE,
    rows=(
        _sifted("confirm", "time_ns", _of_each_second),
        _sifted("append", "value", _largest),
        own("trace", "role", "start", "recovered", "retention", "tier_view"),
        everywhere("trace", "bootstrap"),
        everywhere("op", "question"),
        everywhere("final", "node"),
        reads.RUN,
        reads.FAULTS,
    ),
    columns=(*reads.BASIC, *reads.LIVES, "type", "process", "queue", "offset", "position", "epoch"),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True)
class Forgotten:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        until_ns = _last_judged_ns(rows)
        if Evidence.RETENTION not in context.evidence or context.unfinished or until_ns < 0:
            return found.partial()
        confirms = rows.where(kind="trace", f="confirm")
        for node in facts.nodes_of(rows, confirms):
            for log in _logs(rows, node):
                if _report_long_log(rows, found, context, log, until_ns):
                    break
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided(partial, context)


@dataclass(frozen=True, slots=True)
class _Log:
    """A replica's log in one role: how much of it is kept, how long a segment may be, and whether what no tier holds is
    kept, too. ``role``: the row that says so; ``begun_ns``: when this life of the replica began; ``until_ns``: when the
    next role or life does."""

    node: str
    role: int
    begun_ns: int
    from_ns: int
    until_ns: int
    epoch: int
    retain_bytes: int
    segment_bytes: int
    is_tiered: bool


def _last_judged_ns(rows: Rows) -> int:
    """Then somebody begins to read whole logs, and they are kept for that."""
    return facts.phase_time(rows, "collect")


def _logs(rows: Rows, node: str) -> Iterator[_Log]:
    """Yield the roles of a replica that say how much it keeps, and that it deletes the rest."""
    times = rows.column("time_ns")
    at = facts.node_traces(rows, node, "role", "start").tolist()
    begun_ns = 0
    for one, after in zip(at, [*at, -1][1:], strict=True):
        fields = rows.value(one)
        if rows.text("f", one) == "start":
            begun_ns = int(times[one])
        keeps = tuple(fields.get(name) for name in ("retain_bytes", "segment_bytes"))
        retain, segment = (size if isinstance(size, int) else 0 for size in keeps)
        if retain > 0 and segment > 0 and isinstance(fields.get("tiered"), bool):
            until_ns = int(times[after]) if after >= 0 else NEVER
            epoch = int(rows.column("epoch")[one])
            yield _Log(node, one, begun_ns, int(times[one]), until_ns, epoch, retain, segment, fields["tiered"])


def _report_long_log(rows: Rows, found: Findings, context: RunContext, log: _Log, until_ns: int) -> bool:
    """Report the first time at which the log was too long, if it was, and nothing hindered anybody. Where a fault of
    unknown effects may have hindered somebody, that is unknown."""
    bound_ns = int(1e9 * DELETES_S * (1.0 if context.one_clock else REAL_TIME))
    hindrances, unknown = rows.memo(_hindrances)
    late = _too_long(rows, log, until_ns, bound_ns, [*hindrances, *unknown])
    if late is None:
        if unknown and _too_long(rows, log, until_ns, bound_ns, hindrances) is not None:
            found.gap(f"{log.node} deleted nothing for long, and a fault was in force that declares no effects")
        return False
    found.add(
        LATE_RETENTION,
        f"{log.node} must keep {log.retain_bytes} bytes of its log; at {_at(rows, late.time_ns)} it might delete what "
        f"lies before position {late.allowed}, but for its last segment of up to {late.slack} bytes, and "
        f"{bound_ns / 1e9:g} s later its log still began at {late.first}, although nothing hindered it.",
        int(rows.column("index")[log.role]),
    )
    return True


@dataclass(frozen=True, slots=True)
class _TooLong:
    """A log that began at ``first`` in the end, although from a time on it might have begun at ``allowed``, but for
    what is left of a segment."""

    time_ns: int
    allowed: int
    slack: int
    first: int


def _too_long(rows: Rows, log: _Log, until_ns: int, bound_ns: int, hindrances: Sequence[Span]) -> _TooLong | None:
    began_ns, end_ns = max(log.from_ns, rows.memo(load_began_ns)), min(log.until_ns, until_ns)
    moments = np.arange(began_ns, max(began_ns, end_ns - bound_ns), STEP_NS, dtype=np.int64)
    moments = moments[first_calm(moments, hindrances, after_ns=bound_ns) == moments]
    if not len(moments):
        return None
    allowed = _confirmed(rows, log.node, moments) - log.retain_bytes
    if log.is_tiered:
        allowed = np.minimum(allowed, _covered(rows, log, moments))
    allowed = np.minimum(allowed, _before_waiting(rows, log.node, moments, bound_ns))
    first = _first(rows, log.node, moments + bound_ns)
    slack = max(log.segment_bytes, _largest_record(rows, log.node))
    for place in np.flatnonzero(first < allowed - slack)[:1].tolist():
        return _TooLong(int(moments[place]), int(allowed[place]), slack, int(first[place]))
    return None


def _before_waiting(rows: Rows, node: str, moments: Ints, bound_ns: int) -> Ints:
    """Return for each of these moments the position of the first message that waited to come to its queue, from then on
    or within the bound: before that a log may not begin. A message waits from its record, or a copy of that, to the
    next record that ends it or is a copy."""
    at = rows.where(kind="trace", f="append", node=node)
    at = at[_concerns_waiting(rows, at)]
    times, position, settles = rows.column("time_ns")[at], rows.column("position")[at], rows.numbers("settles", at)
    key = np.where(settles >= 0, settles, position)
    order = np.lexsort((times, key))
    until = np.full(len(at), NEVER, dtype=np.int64)
    same = key[order][1:] == key[order][:-1]
    until[order[:-1][same]] = times[order[1:][same]]
    waits = rows.words(SYSTEM, at)
    first = np.full(len(moments), NEVER, dtype=np.int64)
    for place in (number for number, word in enumerate(waits) if word == DEFERRED):
        there = (times[place] <= moments + bound_ns) & (until[place] > moments)
        first[there] = np.minimum(first[there], position[place])
    return first


def _largest_record(rows: Rows, node: str) -> int:
    """Return the size of the largest record: a segment that holds it alone may be as long."""
    return int(rows.numbers("size", rows.where(kind="trace", f="append", node=node)).max(initial=0))


def _at(rows: Rows, time_ns: int) -> str:
    return facts.in_s(time_ns - rows.memo(load_began_ns))


def _hindrances(rows: Rows) -> tuple[Sequence[Span], Sequence[Span]]:
    """Return what may keep anybody from deleting: a fault, but for switches and those of the tier, since only what a
    replica knows of the tier counts; that a replica begins again, for which others keep their logs; and that a client
    may ask for a whole log. And faults of unknown effects."""
    found, unknown = [], []
    for fault in rows.memo(facts.faults):
        harms = set(fault.effects or ()) - HARMLESS
        if fault.effects is None:
            unknown.append((fault.began_ns, _plus(fault.until_ns, HELD_NS)))
        elif harms:
            held = not harms.isdisjoint(BEGIN_AGAIN)
            found.append((fault.began_ns, _plus(fault.until_ns, HELD_NS if held else SETTLES_NS)))
    times, load_ns = rows.column("time_ns"), rows.memo(load_began_ns)
    for at, held_ns in (
        (rows.where(kind="trace", f="bootstrap"), HELD_NS),
        (rows.where(kind="op", f="question"), READER_NS),
    ):
        # For who begins before the load nothing is kept back.
        found += [(ns, ns + held_ns) for ns in times[at].tolist() if ns >= load_ns]
    return found, unknown


def _plus(time_ns: int, more_ns: int) -> int:
    return NEVER if time_ns == NEVER else time_ns + more_ns


def _confirmed(rows: Rows, node: str, moments: Ints) -> Ints:
    """Return how far the replica had called its log confirmed, at each of these moments; -1 before it has."""
    at = rows.where(kind="trace", f="confirm", node=node)
    return _highest(rows.column("time_ns")[at], rows.column("position")[at], moments)


def _first(rows: Rows, node: str, moments: Ints) -> Ints:
    """Return where the replica's log began at each of these moments."""
    at = facts.node_traces(rows, node, "retention", "bootstrap", "recovered")
    positions = rows.column("position")[at].copy()
    for place in np.flatnonzero(rows.column("f")[at] == rows.code("f", "recovered")).tolist():
        first = rows.value(int(at[place])).get("first")
        positions[place] = first if isinstance(first, int) else 0
    return np.maximum(_highest(rows.column("time_ns")[at], positions, moments), 0)


def _highest(times_ns: Ints, values: Ints, moments: Ints) -> Ints:
    """Return the highest of the values that were reported up to each moment, -1 before the first."""
    order = np.argsort(times_ns, kind="stable")
    place = np.searchsorted(times_ns[order], moments, side="right")
    return np.append(-1, np.maximum.accumulate(values[order]))[place]


def _covered(rows: Rows, log: _Log, moments: Ints) -> Ints:
    """Up to which position, as the replica knew at each of these moments, the tier held all records of all queues: by
    manifests of this very epoch, since masters of others may have had other records there."""
    at = rows.where(kind="trace", f="tier_view", node=log.node)
    at = at[rows.column("time_ns")[at] >= log.begun_ns]
    queues, covered = rows.column("queue")[at], np.full(len(moments), NEVER)
    ends = rows.memo(_ends)
    for queue in sorted({*queues.tolist(), *(queue for queue, end in ends.items() if end > 0)}):
        mine = at[queues == queue]
        covered = np.minimum(covered, _covers(rows, mine, log.epoch, ends.get(queue, 0), moments))
    return covered


def _covers(rows: Rows, reported: Ints, epoch: int, end: int, moments: Ints) -> Ints:
    """For each moment the position up to which the last of these views of a queue covers all its records; 0 where
    that is unknown. ``end``: where the queue ended after the run, in any log."""
    if not len(reported):
        return np.zeros(len(moments), dtype=np.int64)
    reported = reported[np.argsort(rows.column("time_ns")[reported], kind="stable")]
    times, epochs, offsets, positions = (
        rows.column(name)[reported] for name in ("time_ns", "epoch", "offset", "position")
    )
    last = np.searchsorted(times, moments, side="right") - 1
    known = (last >= 0) & (epochs[last] == epoch)
    is_whole = offsets[last] >= max(end, int(offsets.max()))
    return np.where(known, np.where(is_whole, NEVER, positions[last]), 0)


def _ends(rows: Rows) -> Mapping[int, int]:
    """Return where each queue ended after the run, in the longest log."""
    ends: dict[int, int] = {}
    for at in rows.where(kind="final", f="node").tolist():
        for text, end in (rows.value(at).get("maximums") or {}).items():
            ends[int(text)] = max(ends.get(int(text), 0), int(end))
    return ends
