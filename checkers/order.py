"""Messages of a queue are stored in the order in which they were acknowledged, and read in that order, as asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from chaos import operations
from chaos.findings import Facts, Findings, decide, joined
from chaos.kernel import Key, Needs
from chaos.law import AnomalyKind, Harm, Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import held, losses, reads
from checkers._facts.arrays import Highest, Ints, only, slots, stable_order
from checkers._facts.reads import own

REORDER = "reorder"
PRODUCER_REORDER = "producer-reorder"
CONSUMER_REORDER = "consumer-reorder"
OVER_FULL = "over-full"
PROMISE = Promise(
    name="order",
    place=90,
    meaning="Messages of a queue stand in the order in which they were acknowledged, and are read as they stand.",
    counts={"acked": "acknowledged", "delivered": "delivered"},
    anomalies=(
        AnomalyKind(
            name=REORDER,
            meaning="a send that began after another one was acknowledged got a lower offset",
            headline=("A message overtook an acknowledged one", "{n} messages overtook an acknowledged one"),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=PRODUCER_REORDER,
            meaning="the same for two sends of one producer",
            headline=("Two messages of one producer changed places", "{n} messages overtook one of their producer"),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=CONSUMER_REORDER,
            meaning="one pull delivered offsets with a step back or a jump, or began elsewhere than asked",
            headline=("A pull delivered messages out of order",),
            harm=Harm.CLIENTS,
            decision=(operations.Delivered,),
        ),
        AnomalyKind(
            name=OVER_FULL,
            meaning="one pull delivered more messages, or more bytes, than it had asked for",
            headline=("A pull delivered more than it asked for",),
            harm=Harm.CLIENTS,
            decision=(operations.Pull, operations.Delivered),
        ),
    ),
)


STORED = Needs(
    part="what is stored",
    key=Key.OFFSET,
    rows=(*held.ROWS, reads.FIRST_ACKNOWLEDGED),
    columns=held.COLUMNS,
    uses=(Use.QUEUES,),
    on_prefix=True,
)
DELIVERED = replace(
    STORED, part="what is read", key=Key.CALL, joins=(STORED.part,), rows=(own("op", "pull", "delivered"), reads.RUN)
)
#: What is noted of a message that came where another offset was ``due``, and offsets may have gaps: of the pull, the
#: offset that it asked for, and its row.
_JUMPS = ("queue", "due", "offset", "asked", "message", "call", "row", "since_ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What was acknowledged later stands behind. Where offsets have gaps, each shard reports where there are messages,
    for the other kernel."""

    promise: Promise = PROMISE
    needs: Needs = STORED

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        found.count("acked", int(rows.memo(facts.sends).ok.sum()))
        if context.strict or not context.unfinished:  # a run that goes on may be cut later
            _sends(rows, context, found)
        if context.meta.has_gaps and not context.unfinished:
            held.note_held(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("acked", "no acknowledged send: there is no order to keep")]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


@dataclass(frozen=True, slots=True)
class Delivered:
    """A pull delivers what stands behind one another, and no more than it asked for."""

    promise: Promise = PROMISE
    needs: Needs = DELIVERED

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        _pulls(rows, found, unfinished=context.unfinished, gaps=context.meta.has_gaps)
        _limits(rows, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Leave the judgement to the other kernel, which is never silent, where no message was delivered."""
        needs = [("delivered", "nothing was delivered")] if context.no_queues else []
        merged = partial.merge(_passed_over(partial.facts))
        return decide(PROMISE, merged, needs=needs, unless=context.no_queues)


def _sends(rows: Rows, context: RunContext, found: Findings) -> None:
    """Check that a.ok before b.invoke on one queue means offset(a) < offset(b); for one producer this is its own order.
    What a cut of the profile parts is not compared. Of other parts of the queue it is enough to know the first a of
    each epoch: its offset is above all of this part, or below."""
    offset, queue, index = (rows.column(name) for name in ("offset", "queue", "index"))
    permits = losses.cuts(rows.beside, context, confirmed=False)
    every_asked, every, between = _placed(rows.beside, permits)
    mine = rows.own[every]
    asked, done = every_asked[mine], every[mine]
    if not len(done):
        return
    of, _ = slots(queue[every], between)
    known = Highest(of, every, offset[every], len(rows))
    before = known.before(of[mine], asked)
    records = cache(known.records)
    found.count("ordered_pairs", int((before >= 0).sum()))

    def report(later: int) -> None:
        two = int(done[later])
        offsets, places = records(int(of[mine][later]))
        earlier = int(places[np.searchsorted(offsets, offset[two])])
        one = int(every[earlier])
        producers = [rows.text("process", at).rpartition(".")[0] for at in (one, two)]
        same = producers[0] == producers[1]
        found.add(
            PRODUCER_REORDER if same else REORDER,
            f"The send acknowledged at {facts.at_s(rows, one)} got offset {int(offset[one])} of queue "
            f"{int(queue[two])}; {'the same producer' if same else 'another one'} sent afterwards, acknowledged "
            f"at {facts.at_s(rows, two)}, and got offset {int(offset[two])}.",
            int(index[every_asked[earlier]]),
            int(index[one]),
            int(index[asked[later]]),
            int(index[two]),
            queue=int(queue[two]),
            offset=int(offset[two]),
            message=int(rows.column("message")[two]),
        )

    wrong = np.flatnonzero(offset[done] <= before)
    acted_ns = facts.since_load_ns(rows, done[wrong])
    found.add_each(REORDER, wrong, report, queues=queue[done[wrong]], acted_ns=acted_ns)


def _placed(rows: Rows, permits: losses.Cuts) -> tuple[Ints, Ints, Ints]:
    """Return the rows of the sends that were answered with an offset, invocations and ends, and between which cuts each
    was answered. Those of which that is unknown are left out."""
    sends = rows.memo(facts.sends)
    asked, done = sends.invoke[sends.ok], sends.done[sends.ok]
    between = permits.between(rows.column("epoch")[done], rows.column("queue")[done])
    asked, done, between = only((rows.column("offset")[done] >= 0) & (between >= 0), asked, done, between)
    return asked, done, between


def _pulls(rows: Rows, found: Findings, *, unfinished: bool, gaps: bool) -> None:
    """Check that one pull delivers offsets without a step back or a jump, from the one asked for on (or from the
    queue's beginning, if that lies above; it may have risen since the records were read, so that both are allowed). In
    an ``unfinished`` run the answer that gives the beginning may still come. Where offsets have ``gaps``, jumps are
    noted: whether they pass over a message, all shards know together."""
    read, pulls = rows.memo(facts.delivered), rows.memo(facts.pulls)
    known = read.pull >= 0
    if unfinished:
        known[known] = pulls.done[read.pull[known]] >= 0
    at, pull = only(known, read.at, read.pull)
    order = stable_order(pull)
    at, pull = at[order], pull[order]
    offset = rows.column("offset")
    found.count("delivered", len(at))
    given, first = offset[at], np.append(0, np.flatnonzero(pull[1:] != pull[:-1]) + 1)[: len(at)]
    asked, done = offset[pulls.invoke[pull[first]]], pulls.done[pull[first]]
    minimum = np.full(len(first), -1, dtype=np.int64)
    minimum[done >= 0] = rows.numbers("minimum", done[done >= 0])
    expected = np.append(-1, given + 1)[:-1]
    expected[first] = np.maximum(asked, minimum)
    differs = given != expected
    differs[first[(asked < 0) | (given[first] == asked)]] = False
    at, call, expected = at[differs], pulls.invoke[pull[differs]], expected[differs]
    queue, message, index = (rows.column(name) for name in ("queue", "message", "index"))
    columns = (queue[at], expected, offset[at], offset[call], message[at], index[call], index[at])
    table, nodes = np.stack([*columns, facts.since_load_ns(rows, at)]), [rows.text("node", row) for row in at.tolist()]
    jumps = gaps & (offset[at] > expected)
    if jumps.any() and not unfinished:
        noted = dict(zip(_JUMPS, table[:, jumps].tolist(), strict=True))
        found.fact(nodes=[nodes[item] for item in np.flatnonzero(jumps).tolist()], **noted)
    wrong = np.flatnonzero(~jumps)

    def report(item: int) -> None:
        _report_reordered(found, nodes[item], table[:, item])

    found.add_each(CONSUMER_REORDER, wrong, report, queues=table[0, wrong], acted_ns=table[-1, wrong])


def _passed_over(reported: Facts) -> Partial:
    """Find in the facts of all shards the pulls that passed over a message that is there. What is found holds without
    the other shards."""
    found = Findings(PROMISE)
    table = np.stack(joined((fact for fact in reported if "nodes" in fact), *_JUMPS))
    nodes = [str(node) for fact in reported if "nodes" in fact for node in fact["nodes"]]
    there = held.first_held(reported, *table[:2])
    wrong = np.flatnonzero((there >= 0) & (there < table[2]))
    wrong = wrong[np.argsort(table[_JUMPS.index("row"), wrong])]

    def report(item: int) -> None:
        _report_reordered(found, nodes[item], table[:, item], f", past offset {int(there[item])}, which is there")

    found.add_each(CONSUMER_REORDER, wrong, report, queues=table[0, wrong], acted_ns=table[-1, wrong])
    return found.partial()


def _report_reordered(found: Findings, node: str, values: Ints, past: str = "") -> None:
    queue, due, offset, asked, message, call, row, since_ns = values.tolist()
    found.add(
        CONSUMER_REORDER,
        f"A pull of queue {queue} from offset {asked} on, answered by {node or 'the system'} at "
        f"{facts.in_s(since_ns)}, delivered offset {offset} where {due} was due{past}.",
        call,
        row,
        queue=queue,
        offset=offset,
        message=message,
    )


def _limits(rows: Rows, found: Findings) -> None:
    """Check that one pull delivers at most as many messages, and bytes, as it asked for; but a message that is larger
    than that comes alone. Pulls that asked for no limit, and answers whose size nobody counted, are not judged by
    it."""
    read, pulls = rows.memo(facts.delivered), rows.memo(facts.pulls)
    count = np.bincount(read.pull + 1, minlength=len(pulls.invoke) + 1)[1:]
    limit, max_bytes = rows.numbers("limit", pulls.invoke), rows.numbers("max_bytes", pulls.invoke)
    size = np.full(len(pulls.invoke), -1, dtype=np.int64)
    size[pulls.ok] = rows.numbers("size", pulls.done[pulls.ok])
    many = (limit >= 0) & (count > limit)
    large = (max_bytes >= 0) & (size > max_bytes) & (count > 1)
    found.count("limited_pulls", int((pulls.ok & ((limit >= 0) | (max_bytes >= 0))).sum()))

    def report(item: int) -> None:
        asked, done = int(pulls.invoke[item]), int(pulls.done[item])
        row = done if done >= 0 else asked
        what, most = ("messages", limit) if many[item] else ("bytes", max_bytes)
        got = count if many[item] else size
        found.add(
            OVER_FULL,
            f"A pull of queue {int(rows.column('queue')[asked])} from offset {int(rows.column('offset')[asked])} on "
            f"asked for {int(most[item])} {what} at most; {rows.text('node', row) or 'the system'} gave "
            f"{int(got[item])} at {facts.at_s(rows, row)}.",
            int(rows.column("index")[asked]),
            int(rows.column("index")[row]),
            queue=int(rows.column("queue")[asked]),
            offset=int(rows.column("offset")[asked]),
        )

    wrong = np.flatnonzero(many | large)
    queues, acted_ns = rows.column("queue")[pulls.invoke[wrong]], facts.since_load_ns(rows, pulls.invoke[wrong])
    found.add_each(OVER_FULL, wrong, report, queues=queues, acted_ns=acted_ns)


def create(options: Options) -> Sequence[Stored | Delivered]:
    return [Stored(), Delivered()]
