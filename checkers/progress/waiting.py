"""Who waits at a certain node is served in calm time: a read that is held, and those that a replica sends away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs, Reads, Sieve
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import reads
from checkers._facts.arrays import Ints, Line, groups, slots
from checkers._facts.faults import calm_times, were_calm
from checkers._facts.reads import everywhere, own
from checkers._facts.service import Stretch
from checkers.progress.ends import shown_by, told_ends
from checkers.progress.needed import DELIVERIES, Kept, Tops
from checkers.progress.polls import Polls, Stall, gets_on, given_by_replicas, in_vain_at_replicas
from checkers.progress.promise import PROMISE, WOKEN_LATE
from checkers.progress.pulls import Pulls

#: In virtual time a message takes no longer to reach a reader that waits for it, besides the jitter of so many
#: messages; elsewhere, where the machine may be busy, it takes no longer than the second of these.
SOON_NS, MESSAGES, ELSEWHERE_NS = 200_000_000, 8, 2_000_000_000
#: So long after its end a fault may still make a node late.
CALM_NS = 3_000_000_000
DONE = ("send", "pull", "delivered", "bounds")


def needed(rows: Rows) -> Ints:
    """Return the rows that are kept of a large queue: pulls that have not ended; those that were held for long; of
    those at replicas the ones that :func:`_at_replicas` names; and of those who named a queue's end, each node in each
    epoch and way: the last one, the last one before each held pull, and the first one after it that named what it
    waited for. This is a sieve, given the first rows first."""
    pulls, tops, times = Pulls.of(rows), Tops.of(rows), rows.column("time_ns")
    kept = Kept(rows)
    kept.pulls(np.flatnonzero(rows.memo(facts.pulls).done < 0))
    for f in ("send", "bounds"):
        kept.calls(facts.calls(rows, f), facts.calls(rows, f).done < 0)
    ended = np.maximum(pulls.done, 0)
    slow = (pulls.wait_ms > 0) & ((pulls.done < 0) | (times[ended] - times[pulls.invoke] > SOON_NS))
    kept.pulls(pulls.number[slow])
    kept.ends(tops.last())
    kept.ends(tops.before(pulls.queue[slow], pulls.invoke[slow], pulls.asked[slow]))
    for queue, at, asked in zip(pulls.queue[slow], pulls.invoke[slow], pulls.asked[slow], strict=True):
        kept.ends(tops.after(int(queue), int(at), int(asked)))
    kept.pulls(_at_replicas(rows, pulls))
    return kept.at()


def _at_replicas(rows: Rows, pulls: Pulls) -> Ints:
    """Of the pulls that asked a certain replica, by their places in :func:`checkers._facts.pulls`: those in vain; of
    each way to ask it the last poll, and the next one after each that was in vain, or may turn out so since it has not
    ended; and of each process the last one, since its messages may be among the rows to come."""
    asked = pulls.only(~pulls.of_master & (pulls.demand != "tier"))
    vain, polls = in_vain_at_replicas(asked), in_vain_at_replicas(asked) | given_by_replicas(asked)
    way = np.unique(np.stack([asked.replica, asked.demand]), axis=1, return_inverse=True)[1].reshape(-1)
    key, line = slots(asked.queue, way)[0], Line.of(asked.invoke)
    place = line.places(key, asked.invoke)
    order, firsts = groups(rows.column("process")[asked.invoke])
    found = [np.flatnonzero(vain), order[np.append(firsts[1:], len(order))[: len(firsts)] - 1]]
    for source in np.unique(asked.source[polls]).tolist():
        mine = np.flatnonzero(polls & (asked.source == source))
        mine = mine[np.argsort(place[mine])]
        before = np.flatnonzero((vain & (asked.source == source)) | (asked.done < 0))
        after = np.searchsorted(place[mine], place[before], "right")
        after, of = after[after < len(mine)], key[before[after < len(mine)]]
        last = np.append(key[mine][1:] != key[mine][:-1], True)
        found += [mine[last], mine[after[key[mine[after]] == of]]]
    return asked.number[np.unique(np.concatenate(found))]


NEEDS = Needs(
    part="who is kept waiting",
    key=Key.QUEUE,
    rows=(
        Reads(
            kind="op",
            f=DONE,
            sieve=Sieve(
                rows=(own("op", *DONE),),
                columns=("op", "type", "process", "queue", "offset", "node", "epoch", "time_ns", "value"),
                keep=needed,
                streamed=True,
                apart=DELIVERIES,
            ),
        ),
        everywhere("trace", "role"),
        reads.RUN,
        reads.FAULTS,
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, "epoch"),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True)
class Waiting:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if context.unfinished:  # which faults were in force may be known only when they are undone
            return found.partial()
        pulls, stall = Pulls.of(rows), Stall.of_replicas(context)
        calm = [Stretch(begin, end, -1, True) for begin, end in calm_times(rows)]
        if not context.meta.has_gaps:  # else the end that a replica names need not have a message below it
            gets_on(rows, found, Polls.of_replicas(rows, pulls), calm, stall)
        for late in _woken_late(rows, context, pulls):
            _report_late(rows, found, late)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Whether any read was answered is another kernel's to say."""
        longest = max((int(fact[_LONGEST]) for fact in partial.facts if _LONGEST in fact), default=0)
        merged = partial.merge(Partial(counts={_LONGEST: longest} if longest else {}))
        return decide(PROMISE, merged, needs=(), unless=context.no_queues)


_LONGEST = "longest_replica_wait_ms"


@dataclass(frozen=True, slots=True)
class _Late:
    """A held pull, by the rows that began and ended it; ``witness`` showed that there was what it waited for, and
    ``late_ns`` after that, or after it began, it was answered. ``stood``: the harness itself stood still for so long
    meanwhile that it may have noticed late what came in time."""

    invoke: int
    done: int
    node: str
    asked: int
    witness: int
    late_ns: int
    bound_ns: int
    stood: bool


def _woken_late(rows: Rows, context: RunContext, pulls: Pulls) -> Iterator[_Late]:
    """Held pulls that were answered late, though their own node had shown what they waited for: to another reader, or
    by an acknowledgement where that proves that it can be read. Of one that nobody answered, any master counts."""
    times = rows.column("time_ns")
    bound_ns = SOON_NS + MESSAGES * context.jitter_ns if context.one_clock else ELSEWHERE_NS
    held = pulls.only((pulls.wait_ms > 0) & (pulls.done >= 0))
    held = held.only(times[held.done] - times[held.invoke] > bound_ns)
    if not len(held.queue):
        return
    at, end = told_ends(rows, *shown_by(context, sends_show=context.strict))
    queue, epoch, master = rows.column("queue")[at], rows.column("epoch")[at], facts.from_masters(rows, at)
    nodes = rows.column("node")[at]
    stalls = rows.where(kind="harness", f="stall")
    stood_ns = rows.numbers("ms", stalls) * 1_000_000
    for item in range(len(held.queue)):
        invoke, done = int(held.invoke[item]), int(held.done[item])
        node = rows.text("node", done) or str(held.replica[item])
        showed = (queue == held.queue[item]) & (end > held.asked[item]) & (at < done)
        showed &= nodes == rows.code("node", node) if node else master
        if held.epoch[item] >= 0:
            showed &= epoch == held.epoch[item]
        if not showed.any():
            continue
        witness = _witness(at[showed], end[showed], invoke)
        since_ns = max(int(times[witness]), int(times[invoke]))
        late_ns = int(times[done]) - since_ns
        if late_ns > bound_ns and were_calm(rows, times[[invoke]] - CALM_NS, times[[done]])[0]:
            meanwhile = (times[stalls] >= since_ns) & (times[stalls] <= times[done])
            stood = late_ns - int(stood_ns[meanwhile].sum()) <= bound_ns
            yield _Late(invoke, done, node, int(held.asked[item]), witness, late_ns, bound_ns, stood)


def _witness(at: Ints, end: Ints, invoke: int) -> int:
    """Of rows that named ends, ascending: the highest end before the read was asked for, the first of several; without
    one, the first row since. A sieve keeps both."""
    before = at < invoke
    return int(at[np.argmax(np.where(before, end, -1))] if before.any() else at[0])


def _report_late(rows: Rows, found: Findings, late: _Late) -> None:
    index, queue = rows.column("index"), int(rows.column("queue")[late.invoke])
    said = (
        f"A read at offset {late.asked} of queue {queue} waited at {late.node or 'the master'} from "
        f"{facts.at_s(rows, late.invoke)} on, and ended at {facts.at_s(rows, late.done)}, {late.late_ns / 1e9:.3f} s "
        f"after it could be given what {late.node or 'the master'} had shown at {facts.at_s(rows, late.witness)}"
    )
    if late.stood:
        found.gap(f"{said}, but the harness itself stood still meanwhile")
        return
    found.add(
        WOKEN_LATE,
        f"{said}, with no fault in the way; {late.bound_ns / 1e9:g} s are permitted.",
        *sorted(int(index[row]) for row in (late.witness, late.invoke, late.done)),
        queue=queue,
        offset=late.asked,
    )
