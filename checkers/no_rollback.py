"""What was once read or confirmed never changes and is never taken back, whichever replica is master."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.judging.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import reads, retention
from checkers._views.arrays import Ints
from checkers._views.reads import own

ROLLBACK = "rollback"
CONFIRM_ROLLBACK = "confirm-rollback"
CONFIRM_BEYOND_SET = "confirm-beyond-set"
MAX_OFFSET_REGRESSION = "max-offset-regression"
PROMISE = Promise(
    name="no-rollback",
    place=30,
    meaning="What was read stays, and what was confirmed stays, whichever replica is master.",
    anomalies=(
        AnomalyKind(name=ROLLBACK, meaning="an offset that was read holds another message later, or none"),
        AnomalyKind(
            name=CONFIRM_ROLLBACK,
            meaning="what a replica had confirmed is gone from its log, or from that of a later master",
        ),
        AnomalyKind(
            name=CONFIRM_BEYOND_SET, meaning="a master confirmed what a member of its SyncStateSet did not have"
        ),
        AnomalyKind(
            name=MAX_OFFSET_REGRESSION, meaning="a master showed a lower end of a queue than a master had shown before"
        ),
    ),
)


READ = Needs(
    part="what clients read",
    key=Key.QUEUE,
    rows=(
        own("op", "send", "pull", "delivered", "drain", "bounds"),
        reads.RUN,
        *(*reads.FINAL_LOGS, *reads.CONFIRMED_APPENDS, *reads.RETENTION),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.QUEUES,),
)
CONFIRMED = Needs(
    part="what replicas confirmed",
    key=Key.RUN,
    rows=(
        own("trace", "confirm", "acked", "synced", "truncate", "recovered", "start", "bootstrap", "retention", "role"),
        own("final", "node"),
        reads.RUN,
    ),
    columns=(*reads.BASIC, *reads.LIVES, "epoch", "position"),
    evidence=(Evidence.CONFIRM,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Read:
    """Answers: content that was read stays, and a queue's end as masters tell it does not fall."""

    promise: Promise = PROMISE
    needs: Needs = READ

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        read = rows.memo(views.read)
        found.count("read", len(read.at))
        if not context.strict:
            found.count("not_judged_by_policy", len(read.at))
            return found.partial()
        logs = views.join(rows.memo(views.confirmed_appends), rows.memo(views.final_log))
        index, queue, offset = (rows.column(name) for name in ("index", "queue", "offset"))
        claims = views.join(read, logs)
        for first, other in views.conflicts(claims):
            if first >= len(read.at):  # nobody has read what is at this offset
                continue
            one, two = int(claims.at[first]), int(claims.at[other])
            what = "was read there later" if other < len(read.at) else "stands there, confirmed, in a log"
            found.add(
                ROLLBACK,
                f"Queue {int(queue[one])}, offset {int(offset[one])} was read at {views.at_s(rows, one)} from "
                f"{rows.text('node', one) or 'the system'}; another message {what} "
                f"({rows.text('node', two) or 'the system'}, epoch {int(rows.column('epoch')[two])}).",
                int(index[one]),
                int(index[two]),
                queue=int(queue[one]),
                offset=int(offset[one]),
                message=int(rows.column("message")[one]),
            )
        _ends_do_not_fall(rows, found)
        _nothing_vanishes(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("read", "nothing was read, so nothing could roll back")]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


def _nothing_vanishes(rows: Rows, context: RunContext, found: Findings) -> None:
    """What was read is there at the end, acknowledged or not, unless the queue begins above it by then: wherever the
    queue was drained beyond it, the drain was given a message at its offset."""
    read, final = rows.memo(views.delivered), rows.memo(views.drain_reads)
    queue, offset, index = (rows.column(name) for name in ("queue", "offset", "index"))
    drains = views.calls(rows, "drain")
    for asked, done in zip(drains.invoke[drains.ok].tolist(), drains.done[drains.ok].tolist(), strict=True):
        mine = queue[read.at] == queue[asked]
        before, there = read.at[mine & ~final], read.at[mine & final]
        floor = max(int(offset[asked]), retention.lawful_floor(rows, context, int(queue[asked]))[0])
        before = before[(offset[before] >= floor) & (offset[before] < offset[done])]
        gone = before[~np.isin(offset[before], offset[there])]
        _, first = np.unique(offset[gone], return_index=True)

        def tell(at: int, done: int = done) -> None:
            found.add(
                ROLLBACK,
                f"Queue {int(queue[at])}, offset {int(offset[at])} was read at {views.at_s(rows, at)} from "
                f"{rows.text('node', at) or 'the system'}; the final reading of the queue, up to offset "
                f"{int(offset[done])}, was given no message there.",
                int(index[at]),
                int(index[done]),
                queue=int(queue[at]),
                offset=int(offset[at]),
                message=int(rows.column("message")[at]),
            )

        found.add_each(ROLLBACK, gone[np.sort(first)], tell)


@dataclass(frozen=True, slots=True)
class _Ends:
    """What answers of masters tell of a queue's end: it was at least ``least`` when the answer came, and at most
    ``most`` at some time after the question left."""

    began: Ints
    ended: Ints
    epoch: Ints
    queue: Ints
    least: Ints
    most: Ints
    at: Ints


def _ends(rows: Rows) -> _Ends:
    parts = []
    for f in ("send", "pull", "bounds"):
        found = views.calls(rows, f)
        done = found.done[found.ok]
        mine = views.from_masters(rows, done)
        done, began, ended = done[mine], found.began[found.ok][mine], found.ended[found.ok][mine]
        if f == "send":
            most = rows.column("offset")[done]
            least = most + 1
        else:
            least = most = rows.numbers("maximum", done)
        keep = most >= 0
        epoch, queue = rows.column("epoch")[done], rows.column("queue")[done]
        parts.append([column[keep] for column in (began, ended, epoch, queue, least, most, done)])
    return _Ends(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _ends_do_not_fall(rows: Rows, found: Findings) -> None:
    """For each answer: no answer of an epoch up to its own that was complete before it was asked tells a higher end."""
    ends = _ends(rows)
    found.count("ends", len(ends.at))
    index, offset = rows.column("index"), rows.column("offset")
    for queue in np.unique(ends.queue):
        of_queue = np.flatnonzero(ends.queue == queue)
        by_end = of_queue[np.argsort(ends.ended[of_queue], kind="stable")]
        for epoch in np.unique(ends.epoch[of_queue]):
            before = by_end[ends.epoch[by_end] <= epoch]
            later = of_queue[ends.epoch[of_queue] == epoch]
            highest = np.maximum.accumulate(ends.least[before])
            place = np.searchsorted(ends.ended[before], ends.began[later]) - 1
            known = np.where(place >= 0, highest[np.maximum(place, 0)], -1)
            fallen = np.flatnonzero(ends.most[later] < known)

            def tell(
                number: int, later: Ints = later, before: Ints = before, known: Ints = known, place: Ints = place
            ) -> None:
                answer = int(later[number])
                high = int(before[np.argmax(ends.least[before[: place[number] + 1]])])
                one, two = int(ends.at[high]), int(ends.at[answer])
                what = (
                    f"gave out offset {int(offset[two])}"
                    if rows.text("f", two) == "send"
                    else f"said the queue ends at {int(ends.most[answer])}"
                )
                found.add(
                    MAX_OFFSET_REGRESSION,
                    f"{rows.text('node', one)} (epoch {int(ends.epoch[high])}) had shown at {views.at_s(rows, one)} "
                    f"that queue {int(ends.queue[answer])} ends at {int(known[number])} or later, but "
                    f"{rows.text('node', two)} (epoch {int(ends.epoch[answer])}) {what} at {views.at_s(rows, two)}.",
                    int(index[one]),
                    int(ends.began[answer]),
                    int(index[two]),
                    queue=int(ends.queue[answer]),
                    offset=int(ends.most[answer]),
                )

            found.add_each(MAX_OFFSET_REGRESSION, fallen, tell)


@dataclass(frozen=True, slots=True)
class Confirms:
    """Replicas: what one has called confirmed stays in its log, and every later master has it."""

    promise: Promise = PROMISE
    needs: Needs = CONFIRMED

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        confirms = rows.where(kind="trace", f="confirm")
        found.count("confirms", len(confirms))
        if not len(confirms):
            found.gap("no replica told its confirm offset")
        if context.strict:
            for node in sorted({rows.text("node", at) for at in _one_each(rows, confirms)}):
                _never_cut_below(rows, found, node)
            _masters_have_all(rows, found, confirms)
            _whole_set_has(rows, context, found, confirms)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial)


def _one_each(rows: Rows, at: Ints) -> Ints:
    _, first = np.unique(rows.column("node")[at], return_index=True)
    return at[first]


def _never_cut_below(rows: Rows, found: Findings, node: str) -> None:
    """A node never truncates, nor comes back from a crash, nor ends, below what it has confirmed; and as one and the
    same master it never takes back what it called confirmed.

    Two things are lawful: a disk that is another one or went back in time (its word is new, or its own count of lives
    doesn't go on), and dropping the whole log to begin anew from the tier, if the ``bootstrap`` follows before anything
    else is confirmed.
    """
    position = rows.column("position")
    kinds = ("confirm", "truncate", "recovered", "start", "bootstrap", "retention")
    highest, witness, generation, disk, first, dropped, last = -1, -1, -1, "", 0, -1, -1

    def tell(at: int) -> None:
        _tell_cut(rows, found, witness, at, int(position[at]))

    for at in views.node_traces(rows, node, *kinds).tolist():
        f, where = rows.text("f", at), int(position[at])
        if f == "start":
            told = rows.value(at)
            now, word = int(told.get("generation", generation + 1)), str(told.get("disk", ""))
            if now <= generation or word != disk:
                highest, dropped, first = -1, -1, 0
            generation, disk = now, word
        elif f == "bootstrap":
            highest, dropped, first = -1, -1, where
        elif f == "retention":
            first = where
        elif f == "confirm":
            if dropped >= 0:
                tell(dropped)
                highest, dropped = -1, -1
            if where < highest and _one_mastership(rows, last, at):
                tell(at)
            last = at
            if where > highest:
                highest, witness = where, at
        elif where < highest and dropped < 0:
            if f == "truncate" and where <= first:
                dropped = at
            else:
                tell(at)
                highest = -1
        if f == "recovered":
            first = int(rows.value(at).get("first", first))
    for at in rows.where(kind="final", f="node", node=node).tolist():
        end = rows.value(at).get("end")
        if dropped < 0 and isinstance(end, int) and end < highest:
            _tell_cut(rows, found, witness, at, end)


def _one_mastership(rows: Rows, before: int, after: int) -> bool:
    """Are these two confirm offsets told by one and the same master, in one life?"""
    if before < 0 or any(rows.column(name)[before] != rows.column(name)[after] for name in ("incarnation", "epoch")):
        return False
    return "set" in rows.value(before) and "set" in rows.value(after)


def _tell_cut(rows: Rows, found: Findings, witness: int, at: int, end: int) -> None:
    """``witness`` is the row of the confirm offset that was lost, ``at`` the one that shows the loss."""
    verb = {
        "truncate": "cut its log back to position",
        "confirm": "called, as the same master, no more confirmed than position",
        "node": "has a log after the run that ends at position",
    }.get(rows.text("f", at), "came back with a log that ends at position")
    index = rows.column("index")
    found.add(
        CONFIRM_ROLLBACK,
        f"{rows.text('node', at)} had confirmed position {int(rows.column('position')[witness])} at "
        f"{views.at_s(rows, witness)}, but {verb} {end} at {views.at_s(rows, at)}.",
        int(index[witness]),
        int(index[at]),
    )


def _whole_set_has(rows: Rows, context: RunContext, found: Findings, confirms: Ints) -> None:
    """What a master calls confirmed, each member that it counts on has told it to have and has on its disk (in a
    simulated run: by then; elsewhere: at some time). What it gives an ok for is confirmed."""
    position, index, epoch = (rows.column(name) for name in ("position", "index", "epoch"))
    ends = rows.memo(views.durable_ends)

    def tell(at: int, what: str) -> None:
        found.add(
            CONFIRM_BEYOND_SET,
            f"{rows.text('node', at)}, master of epoch {int(epoch[at])}, {what} ({views.at_s(rows, at)}).",
            int(index[at]),
        )

    for at in confirms.tolist():
        told, end = rows.value(at), int(position[at])
        acks = told.get("acks")
        for member in sorted({*(told.get("set") or ()), *(told.get("proposed") or ())}):
            said = int(acks.get(member, -1)) if isinstance(acks, dict) else end
            if said < end:
                had = f"had told it only of {max(0, said)}"
            elif member not in ends:
                found.gap(f"{member} told nothing of what is durable on its disk")
                continue
            elif (durable := _durable(context, *ends[member], int(index[at]))) < end:
                had = f"had only {max(0, durable)} on its disk"
            else:
                continue
            tell(at, f"called position {end} confirmed, though {member}, a member of its SyncStateSet, {had}")
    acked = rows.where(kind="trace", f="acked")
    for at in acked[rows.numbers("confirm", acked) < position[acked]].tolist():
        known = rows.value(at).get("confirm")
        if isinstance(known, int):
            tell(at, f"gave an ok for a record that ends at {int(position[at])}, when it had confirmed {known}")


def _durable(context: RunContext, indexes: Ints, ends: Ints, at_index: int) -> int:
    """How far a replica's log was on its disk when the row ``at_index`` was written, -1 if it had not told."""
    if not views.one_clock(context):
        return int(ends.max())
    place = int(np.searchsorted(indexes, at_index, side="right")) - 1
    return int(ends[place]) if place >= 0 else -1


def _masters_have_all(rows: Rows, found: Findings, confirms: Ints) -> None:
    """The log of a new master reaches every position that was confirmed under an older epoch."""
    position, epoch, index = (rows.column(name) for name in ("position", "epoch", "index"))
    by_epoch = confirms[np.argsort(epoch[confirms], kind="stable")]
    highest = np.maximum.accumulate(position[by_epoch])
    for at in rows.where(kind="trace", f="role"):
        told = rows.value(at)
        start = told.get("start", -1)
        if told.get("role") != "master" or not isinstance(start, int) or start < 0:
            continue
        older = int(np.searchsorted(epoch[by_epoch], epoch[at]))
        if older and int(highest[older - 1]) > start:
            witness = int(by_epoch[np.argmax(position[by_epoch[:older]])])
            found.add(
                CONFIRM_ROLLBACK,
                f"{rows.text('node', witness)} had confirmed position {int(position[witness])} in epoch "
                f"{int(epoch[witness])} at {views.at_s(rows, witness)}, but the log of {rows.text('node', at)} ended "
                f"at {start} when it became master of epoch {int(epoch[at])}.",
                int(index[witness]),
                int(index[at]),
            )


def create(options: Options) -> Sequence[Read | Confirms]:
    return (Read(), Confirms())
