"""What a replica need not keep any more, it deletes in time: a log that only grows fills its disk.

How much it keeps, a replica tells with its roles. What it may delete then is known from below: nobody tells where the
segments of its log end, nor where the first record lies that the tier lacks. Of each queue the last version of its
manifest covers all records up to a position, and all its records, unless a later one covers more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.fault import Effect
from chaos.judging.findings import Findings
from chaos.law import Key, Needs, Partial, Promise, Reads, Rows, RunContext, Sieve
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import reads, retention
from checkers._views.arrays import NEVER, Ints
from checkers._views.due import Span, first_calm
from checkers._views.garbage import bound_s
from checkers._views.reads import everywhere, own
from checkers._views.run import load_began_ns
from checkers.durability.evidence import decided
from checkers.durability.promise import LATE_RETENTION, PROMISE

#: So long a replica may keep its whole log for one that begins anew, which may have died since.
HELD_NS = 30_000_000_000
#: How often it is asked whether a log is too long.
STEP_NS = 1_000_000_000


def _of_each_second(rows: Rows) -> Ints:
    """A sieve: of the confirm offsets that a node tells within one second the last row."""
    at = rows.where(kind="trace", f="confirm")
    node, second = rows.column("node")[at], rows.column("time_ns")[at] // STEP_NS
    order = np.lexsort((rows.column("index")[at], second, node))
    at, node, second = at[order], node[order], second[order]
    is_last = np.append((node[1:] != node[:-1]) | (second[1:] != second[:-1]), True)[: len(at)]
    return np.sort(at[is_last])


def _largest(rows: Rows) -> Ints:
    """A sieve: of the records that a node appends the largest."""
    at = rows.where(kind="trace", f="append")
    node, size = rows.column("node")[at], rows.numbers("size", at)
    order = np.lexsort((rows.column("index")[at], size, node))
    is_last = np.append(node[order][1:] != node[order][:-1], True)[: len(at)]
    return np.sort(at[order][is_last])


def _sifted(f: str, column: str, keep: Callable[[Rows], Ints]) -> Reads:
    sieve = Sieve(rows=(own("trace", f),), columns=("node", column), keep=keep, streamed=True)
    return Reads(kind="trace", f=(f,), sieve=sieve)


NEEDS = Needs(
    part="how much replicas keep",
    key=Key.NODE,
    rows=(
        _sifted("confirm", "time_ns", _of_each_second),
        _sifted("append", "value", _largest),
        everywhere("trace", "store_cas", "role", "start", "recovered", "bootstrap", "retention"),
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
        if Evidence.RETENTION not in context.tells or context.unfinished or until_ns < 0:
            return found.partial()
        confirms = rows.where(kind="trace", f="confirm")
        for node in sorted({rows.text("node", at) for at in confirms}):
            for log in _logs(rows, node):
                if _tell(rows, found, context, log, until_ns):
                    break
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided(partial, context)


@dataclass(frozen=True, slots=True)
class _Log:
    """A replica's log in one role: how much of it is kept, how long a segment may be, and whether what no tier holds is
    kept, too. ``role``: the row that says so; ``until_ns``: when the next role began."""

    node: str
    role: int
    from_ns: int
    until_ns: int
    epoch: int
    retain_bytes: int
    segment_bytes: int
    is_tiered: bool


def _last_judged_ns(rows: Rows) -> int:
    """Then somebody begins to read whole logs, and they are kept for that."""
    return views.phase_time(rows, "collect")


def _logs(rows: Rows, node: str) -> Iterator[_Log]:
    """The roles of a replica that tell how much it keeps, and that it deletes the rest."""
    times = rows.column("time_ns")
    at = views.node_traces(rows, node, "role", "start").tolist()
    for one, after in zip(at, [*at[1:], -1], strict=True):
        told = rows.value(one)
        keeps = tuple(told.get(name) for name in ("retain_bytes", "segment_bytes"))
        retain, segment = (size if isinstance(size, int) else 0 for size in keeps)
        if retain > 0 and segment > 0 and isinstance(told.get("tiered"), bool):
            until_ns = int(times[after]) if after >= 0 else NEVER
            epoch = int(rows.column("epoch")[one])
            yield _Log(node, one, int(times[one]), until_ns, epoch, retain, segment, told["tiered"])


def _tell(rows: Rows, found: Findings, context: RunContext, log: _Log, until_ns: int) -> bool:
    """Find the first time at which the log was too long, if it was; for it, and for as long before as somebody may have
    needed all of it, nothing hindered anybody."""
    bound_ns = int(1e9 * bound_s(context))
    began_ns, end_ns = max(log.from_ns, rows.memo(load_began_ns)), min(log.until_ns, until_ns)
    moments = np.arange(began_ns, max(began_ns, end_ns - bound_ns), STEP_NS, dtype=np.int64)
    calm = first_calm(moments, rows.memo(_hindrances), before_ns=HELD_NS, after_ns=bound_ns) == moments
    moments = moments[calm]
    if not len(moments):
        return False
    found.count("logs_judged", 1)
    allowed = _confirmed(rows, log.node, moments) - log.retain_bytes
    if log.is_tiered:
        allowed = np.minimum(allowed, _covered(rows, log.epoch, moments))
    first = _first(rows, log.node, moments + bound_ns)
    slack = max(log.segment_bytes, _largest_record(rows, log.node))
    too_long = np.flatnonzero(first < allowed - slack)
    if not len(too_long):
        return False
    place = too_long[0]
    found.add(
        LATE_RETENTION,
        f"{log.node} must keep {log.retain_bytes} bytes of its log; at {_at(rows, moments[place])} it might delete what "
        f"lies before position {int(allowed[place])}, but for its last segment of up to {slack} bytes, and {bound_ns / 1e9:g} s "
        f"later its log still began at {int(first[place])}, although nothing hindered it.",
        int(rows.column("index")[log.role]),
    )
    return True


def _largest_record(rows: Rows, node: str) -> int:
    """A segment with a single record may be as long as that."""
    return int(rows.numbers("size", rows.where(kind="trace", f="append", node=node)).max(initial=0))


def _at(rows: Rows, time_ns: int) -> str:
    return views.in_s(int(time_ns) - rows.memo(load_began_ns))


def _hindrances(rows: Rows) -> Sequence[Span]:
    """What may keep anybody from deleting: a fault, but of the tier, where only what it holds counts; and, during the
    load, a process or a role that begins, after which a log may be kept for others."""
    times, load_ns = rows.column("time_ns"), rows.memo(load_began_ns)
    harmless = {Effect.HARMS_TIER}
    known = rows.memo(views.faults)
    found = [(one.began_ns, one.until_ns) for one in known if one.effects is None or set(one.effects) - harmless]
    begun = np.concatenate([rows.where(kind="trace", f=f) for f in ("start", "role", "bootstrap")])
    return [*found, *((ns, ns) for ns in times[begun].tolist() if ns >= load_ns)]


def _confirmed(rows: Rows, node: str, moments: Ints) -> Ints:
    """How far the replica had called its log confirmed, at each of these moments; -1 before it has."""
    at = rows.where(kind="trace", f="confirm", node=node)
    return _highest(rows.column("time_ns")[at], rows.column("position")[at], moments)


def _first(rows: Rows, node: str, moments: Ints) -> Ints:
    """Where the replica's log began at each of these moments."""
    at = views.node_traces(rows, node, "retention", "bootstrap", "recovered")
    told = rows.column("position")[at].copy()
    for place in np.flatnonzero(rows.column("f")[at] == rows.code("f", "recovered")).tolist():
        first = rows.value(int(at[place])).get("first")
        told[place] = first if isinstance(first, int) else 0
    return np.maximum(_highest(rows.column("time_ns")[at], told, moments), 0)


def _highest(times_ns: Ints, values: Ints, moments: Ints) -> Ints:
    """The highest of the values that were told up to each moment, -1 before the first."""
    order = np.argsort(times_ns, kind="stable")
    place = np.searchsorted(times_ns[order], moments, side="right")
    return np.append(-1, np.maximum.accumulate(values[order]))[place]


def _covered(rows: Rows, epoch: int, moments: Ints) -> Ints:
    """Up to which position the tier surely held, at each of these moments, all records of all queues: as a master of
    this epoch has told, since others may have had other records there."""
    covered = np.full(len(moments), NEVER)
    for versions in rows.memo(_manifests).values():
        covered = np.minimum(covered, versions.covers(epoch, moments))
    return covered


@dataclass(frozen=True, slots=True)
class _Versions:
    """The versions of a queue's manifest in the order of the store: when each was applied, by a master of which epoch,
    and where it ends, as an offset and as a position. ``end``: where the queue ended after the run, in any log."""

    times_ns: Ints
    epochs: Ints
    offsets: Ints
    positions: Ints
    end: int

    def covers(self, epoch: int, moments: Ints) -> Ints:
        """For each moment the position up to which the tier held all records of the queue; 0 where nobody knows."""
        last = np.searchsorted(self.times_ns, moments, side="right") - 1
        known = (last >= 0) & (self.epochs[last] == epoch) if len(self.epochs) else np.zeros(len(moments), np.bool_)
        if not known.any():
            return np.zeros(len(moments), dtype=np.int64)
        is_whole = self.offsets[last] >= max(self.end, int(self.offsets.max(initial=0)))
        return np.where(known, np.where(is_whole, NEVER, self.positions[last]), 0)


def _manifests(rows: Rows) -> Mapping[int, _Versions]:
    """Each queue that has a manifest, or records in any log after the run."""
    ends: dict[int, int] = {}
    for at in rows.where(kind="final", f="node").tolist():
        for text, end in (rows.value(at).get("maximums") or {}).items():
            ends[int(text)] = max(ends.get(int(text), 0), int(end))
    applied = rows.memo(retention.versions)
    times, epoch, offset, position = (rows.column(name) for name in ("time_ns", "epoch", "offset", "position"))
    found = {}
    for queue in sorted({*applied, *(queue for queue, end in ends.items() if end > 0)}):
        at = np.array(sorted(applied.get(queue, ()), key=lambda one: int(times[one])), dtype=np.int64)
        found[queue] = _Versions(times[at], epoch[at], offset[at], position[at], ends.get(queue, 0))
    return found

