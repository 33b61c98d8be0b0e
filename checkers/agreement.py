"""One queue offset holds one message, on every replica, in every answer and in the tier."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from chaos.driver import Evidence
from chaos.judging.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Reads, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import commits, losses, reads
from checkers._views.arrays import Ints, any_in, distinct, first_in, parts, slots
from checkers._views.claims import Claims
from checkers._views.commits import group_numbers
from checkers._views.reads import own

#: What replicas report after a run, and which of the system's own records they derive it from.
SYSTEM = {"offsets": "offsets", "topics": "topic"}
#: Of so many queues each reason names that nothing was compared.
SHOWN = 5


OFFSET_CONFLICT = "offset-conflict"
REPLICA_DIVERGENCE = "replica-divergence"
METADATA_CONFLICT = "metadata-conflict"
OFFSETS_LOST = "offsets-lost"
PROMISE = Promise(
    name="agreement",
    place=20,
    meaning="One queue offset holds one message, on every replica, in every answer and in the tier.",
    anomalies=(
        AnomalyKind(
            name=OFFSET_CONFLICT,
            meaning="answers, or the tier, hold another message at an offset than something else does",
        ),
        AnomalyKind(
            name=REPLICA_DIVERGENCE,
            meaning="two replicas' logs, or what nodes answer from them, differ; or one lacks a record in between",
        ),
        AnomalyKind(
            name=METADATA_CONFLICT, meaning="replicas derived different topics or group offsets from the same records"
        ),
        AnomalyKind(
            name=OFFSETS_LOST, meaning="a replica lacks a group's offset that took effect below what it confirms"
        ),
    ),
)


CONTENT = Needs(
    part="what stands at an offset",
    on_prefix=True,
    key=Key.OFFSET,
    rows=(
        own("op", "send", "delivered"),
        own("final", "tiered"),
        *losses.TERMS,
        *(*reads.FINAL_LOGS, *reads.CONFIRMED_APPENDS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    evidence=(Evidence.OPERATIONS, Evidence.FINAL_LOGS),
    uses=(Use.QUEUES,),
)
METADATA = Needs(
    part="what replicas derived from it",
    key=Key.RUN,
    rows=(
        own("final", "offsets", "topics", "complete"),
        own("trace", "bootstrap"),
        commits.LAST_COMMITS,
        Reads(kind="final", f=("log",), queueless=True),
        *losses.TERMS,
        *reads.REPLICAS,
    ),
    columns=(*reads.BASIC, *reads.RECORDS, *losses.COLUMNS),
    evidence=(Evidence.FINAL_LOGS,),
)
NODE_READS = Needs(
    part="what nodes answer one by one",
    key=Key.QUEUE,
    rows=(own("final", "holders", "node_read", "node_end"), reads.RUN),
    columns=(*reads.BASIC, "queue", "offset", "message", "hash", "epoch"),
    evidence=(Evidence.NODE_READS,),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Content:
    """Records of queues."""

    promise: Promise = PROMISE
    needs: Needs = CONTENT

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        answers = views.join(rows.memo(views.acknowledged), rows.memo(views.read))
        logs = views.join(rows.memo(views.confirmed_appends), rows.memo(views.final_log))
        tiered = rows.memo(views.tiered)
        found.count("answers", len(answers.at))
        found.count("log_records", len(logs.at))
        found.count("tiered_records", len(tiered.at))
        records = np.append(rows.where(kind="trace", f="append"), rows.where(kind="final", f="log"))
        found.count("records_told", int(np.count_nonzero(rows.column("queue")[records] >= 0)))
        if context.uses_queues:
            _compared(rows, found, answers, records)
        may_be_cut = context.unfinished and not context.strict
        logs = logs if not may_be_cut else rows.memo(views.final_log)
        logs, diverged = losses.contradictions(rows, context, found, logs)
        self._report_all(rows, found, REPLICA_DIVERGENCE, logs, diverged)
        if context.unfinished:  # what logs and answers disagree about, logs may disagree about later
            return found.partial()
        claims, conflicts = losses.contradictions(rows, context, found, views.join(answers, logs, tiered))
        queue = np.concatenate([logs.queue[diverged[:, 0]], claims.queue[conflicts[:, 0]]])
        offset = np.concatenate([logs.offset[diverged[:, 0]], claims.offset[conflicts[:, 0]]])
        place, count = slots(queue, offset)
        again = any_in(place[: len(diverged)], count)[place[len(diverged) :]]
        self._report_all(rows, found, OFFSET_CONFLICT, claims, conflicts[~again])
        at = rows.where(kind="final", f="log")
        _no_holes(rows, found, at[rows.column("queue")[at] >= 0])
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [
            ("answers", "no answer reported what an offset holds"),
            ("records_told", "no replica reported what its log holds"),
        ]
        some = all(partial.counts.get(name, 0) for name, _ in needs)
        gaps = _not_compared(partial.facts) if some and not context.no_queues else ()
        return decide(PROMISE, partial.merge(Partial(gaps=gaps)), needs=needs, unless=context.no_queues)

    def _report_all(self, rows: Rows, found: Findings, name: str, claims: Claims, pairs: Ints) -> None:
        """Report each of the ``pairs``: numbers of the claims that contradict each other."""
        at = claims.at[pairs]
        found.add_each(
            name,
            np.arange(len(at)),
            lambda number: self._report(rows, found, name, *map(int, at[number])),
            queues=claims.queue[pairs[:, 0]],
        )

    def _report(self, rows: Rows, found: Findings, name: str, one: int, two: int) -> None:
        index, queue, offset = (rows.column(name) for name in ("index", "queue", "offset"))
        found.add(
            name,
            f"Queue {int(queue[one])}, offset {int(offset[one])} holds two messages: "
            f"{describe(rows, one)}, but {describe(rows, two)}.",
            int(index[one]),
            int(index[two]),
            queue=int(queue[one]),
            offset=int(offset[one]),
            message=int(rows.column("message")[one]),
        )


def _compared(rows: Rows, found: Findings, answers: Claims, records: Ints) -> None:
    """Note the queues of which an answer, a log, or both report what stands at one and the same offset."""
    logs = views.claims_of(rows, records)
    both = any_in(logs.place, logs.count)[answers.place]
    of = {"answers": answers.queue, "logs": logs.queue, "both": answers.queue[both]}
    found.fact(**{name: distinct(queue).tolist() for name, queue in of.items()})


def _not_compared(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a reason for each queue whose answers and logs were not compared: what answers of one queue say proves
    nothing of the logs of another one."""
    answers, logs, both = ({*chain.from_iterable(fact[of] for fact in facts)} for of in ("answers", "logs", "both"))
    why = {
        "no replica reported what its log holds": answers - logs,
        "no answer reported what an offset holds": logs - answers,
        "no answer and no log reported the same offset": (answers & logs) - both,
    }
    return [f"{text} of queue {queue}" for text, queues in why.items() for queue in sorted(queues)[:SHOWN]]


def _no_holes(rows: Rows, found: Findings, at: Ints) -> None:
    """Check that what one replica's log holds and calls confirmed after recovery, every other's of its group holds at
    the same position, and as the same offset, if its own log begins before and ends after that. ``at`` are the records
    of queues, or those of the system."""
    if views.has_recovered(rows):
        column, groups = rows.column("node")[at], rows.memo(views.replica_groups)
        for group in sorted({*groups.values()}):
            members = {name for name, its in groups.items() if its == group}
            own = np.isin(column, [rows.code("node", name) for name in members])
            _no_holes_in(rows, found, at[own], members)


def _no_holes_in(rows: Rows, found: Findings, at: Ints, group: Set[str]) -> None:
    """Check the same for the records of one group's replicas."""
    logs = {
        node: (first, end, confirm)
        for node, first, end, confirm in rows.memo(_extents)
        if node in views.complete_nodes(rows) and node in group
    }
    queue, position, node, epoch = (rows.column(name)[at] for name in ("queue", "position", "node", "epoch"))
    ends = position + np.maximum(rows.numbers("size", at), 1)
    own = {name: node == rows.code("node", name) for name in logs}
    sure = np.zeros(len(at), dtype=np.bool_)
    for name, (_, _, confirm) in logs.items():
        sure |= own[name] & (ends <= confirm)
    confirmed = np.flatnonzero(sure)
    place, _ = slots(queue, rows.column("offset")[at])
    order, firsts = views.groups(place[confirmed], position[confirmed])
    holders = confirmed[order[firsts]]
    slot, count = slots(place, position)
    holder = first_in(slot[holders], count, holders)
    for name, (first, end, _) in sorted(logs.items()):
        here = np.flatnonzero(own[name])
        of_other = holder[slot[here]]
        other = here[(of_other >= 0) & (epoch[here] != epoch[of_other])]
        found.add_each(
            REPLICA_DIVERGENCE, other, lambda number: _report_epoch(rows, found, int(at[number])), queues=queue[other]
        )
        due = (position[holders] >= first) & (ends[holders] <= end)
        missing = holders[due & ~any_in(slot[here], count)[slot[holders]]]

        def report(number: int, name: str = name, first: int = first, end: int = end) -> None:
            row = int(at[number])
            found.add(
                REPLICA_DIVERGENCE,
                f"The log of {name} goes from position {first} to {end} after recovery, but has no such record at "
                f"position {int(position[number])}, where {describe(rows, row)}.",
                int(rows.column("index")[row]),
                *(int(rows.column("index")[n]) for n in rows.where(kind="final", f="node", node=name)),
                queue=int(rows.column("queue")[row]),
                offset=int(rows.column("offset")[row]),
                message=int(rows.column("message")[row]),
            )

        found.add_each(REPLICA_DIVERGENCE, missing, report, queues=queue[missing])


def _report_epoch(rows: Rows, found: Findings, at: int) -> None:
    found.add(
        REPLICA_DIVERGENCE,
        f"The log of {rows.text('node', at)} ascribes its record at position {int(rows.column('position')[at])} to "
        f"epoch {int(rows.column('epoch')[at])}, another one's log to another epoch.",
        int(rows.column("index")[at]),
        queue=int(rows.column("queue")[at]),
        offset=int(rows.column("offset")[at]),
        message=int(rows.column("message")[at]),
    )


def _extents(rows: Rows) -> Sequence[tuple[str, int, int, int]]:
    """Return (node, where its log begins, where it ends, up to where it is confirmed) after the run, as each node
    reports it."""
    found = []
    for at in rows.where(kind="final", f="node"):
        value = rows.value(at)
        first, end, confirm = (value.get(name) for name in ("first", "end", "confirm"))
        if isinstance(first, int) and isinstance(end, int) and isinstance(confirm, int):
            found.append((rows.text("node", at), first, end, confirm))
    return found


def _system_ends(rows: Rows, kind: str, group: Set[str]) -> Ints | None:
    """Return where the system's own records of one kind end, ascending, in any log of this group after the run; None
    where no log says which of its records are the system's own."""
    at = rows.where(kind="final", f="log", queue=-1)
    at = at[np.isin(rows.column("node")[at], [rows.code("node", name) for name in group])]
    kinds = rows.words("system", at)
    if not any(kinds):
        return None
    at = at[np.array([word == kind for word in kinds], dtype=np.bool_)]
    return distinct(rows.column("position")[at] + np.maximum(rows.numbers("size", at), 1))


def describe(rows: Rows, at: int) -> str:
    """Describe one claim in words: which message, by whom, when, in which epoch."""
    message, node = int(rows.column("message")[at]), rows.text("node", at)
    which = f"message {message >> 40}/{message & (1 << 40) - 1}" if message >= 0 else "a message without an id"
    if rows.column("queue")[at] < 0:
        which = "a record of the system itself"
    epoch = int(rows.column("epoch")[at])
    who = views.who(node, epoch)
    match (rows.text("kind", at), rows.text("f", at)):
        case ("op", "send"):
            return f"{which} was acknowledged there by {who} at {views.at_s(rows, at)}"
        case ("op", _):
            return f"{which} was read there from {who} at {views.at_s(rows, at)}"
        case ("trace", _):
            return f"{which} stood there, confirmed, in the log of {who}"
        case (_, "node_read"):
            return f"{which} is what {who} answered there by itself after recovery"
        case (_, "tiered"):
            return f"{which} stands there in the tier"
        case _:
            return f"{which} stands there in the log of {who} after recovery"


@dataclass(frozen=True, slots=True)
class Metadata:
    """Topics, groups' offsets and the system's own records."""

    promise: Promise = PROMISE
    needs: Needs = METADATA

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        confirm = commits.confirmed(rows)
        unread = set(views.brokers(rows, context)) - views.complete_nodes(rows)
        reporting = {node for node, *_ in rows.memo(_extents)}
        silent = views.complete_nodes(rows) & set(views.brokers(rows, context)) - reporting if reporting else ()
        if silent:
            found.gap(f"{', '.join(sorted(silent))} did not report where its log begins and ends after the run")
        if unread:
            found.gap(f"the content of {', '.join(sorted(unread))} was not read to its end after the run")
        if views.has_recovered(rows):
            groups = rows.memo(views.replica_groups)
            for group in sorted({*groups.values()}):
                members = {name for name, its in groups.items() if its == group}
                for f, key in (("offsets", "groups"), ("topics", "topics")):
                    self._compare(rows, found, f, key, {n: end for n, end in confirm.items() if n in members}, members)
            self._system_records(rows, found)
            if losses.keeps(rows, context, confirmed=True):
                _offsets_stay(rows, found)
        found.count("metadata_views", len(rows.where(kind="final", f="topics")))
        found.count("offset_views", len(rows.where(kind="final", f="offsets")))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [
            ("metadata_views", "no replica reported its topics after the run"),
            ("offset_views", "no replica reported its groups' offsets after the run"),
        ]
        return decide(PROMISE, partial, needs=needs if Evidence.FINAL_METADATA in context.evidence else ())

    def _compare(self, rows: Rows, found: Findings, f: str, key: str, confirm: dict[str, int], group: Set[str]) -> None:
        """Check that replicas of one group that have confirmed the same records of this kind have derived the same
        tables from them; where no log says which records those are, replicas that have confirmed the same log."""
        tables: dict[int, tuple[str, int]] = {}
        ends = _system_ends(rows, SYSTEM[f], group)
        begun = max((first for node, first, _, _ in rows.memo(_extents) if node in group), default=-1)
        speakers = {rows.text("node", at) for at in rows.where(kind="final", f=f)}
        silent = set(confirm) - speakers if speakers else set()
        if silent:
            found.gap(f"{', '.join(sorted(silent))} did not report its {f} after the run")
        for at in rows.where(kind="final", f=f):
            node = rows.text("node", at)
            if confirm.get(node, -1) < max(0, begun):  # what has been removed between the two is unknown
                continue
            table = json.dumps(rows.value(at).get(key), sort_keys=True)
            had = confirm[node] if ends is None else int(np.searchsorted(ends, confirm[node], side="right"))
            known = tables.setdefault(had, (table, int(at)))
            if known[0] != table:
                index = rows.column("index")
                found.add(
                    METADATA_CONFLICT,
                    f"{rows.text('node', known[1])} and {node} confirm the same records of {f} (up to position "
                    f"{confirm[node]}), but know different ones: {known[0][:200]} and {table[:200]}.",
                    int(index[known[1]]),
                    int(index[at]),
                )

    def _system_records(self, rows: Rows, found: Findings) -> None:
        """Check that the system's own records stand at the same positions on all replicas of a group."""
        at = rows.where(kind="final", f="log", queue=-1)
        position, content, index = rows.column("position"), rows.column("hash"), rows.column("index")
        _no_holes(rows, found, at)
        at = at[content[at] >= 0]
        known = views.Claims.of(at, group_numbers(rows, at), position[at], content[at])
        found.count("system_records", len(at))
        for first, other in views.conflicts(known):
            one, two = int(at[first]), int(at[other])
            found.add(
                REPLICA_DIVERGENCE,
                f"At position {int(position[one])} the logs of {rows.text('node', one)} and {rows.text('node', two)} "
                "hold different records of the system itself.",
                int(index[one]),
                int(index[two]),
            )


def _offsets_stay(rows: Rows, found: Findings) -> None:
    """Check that each replica has, of each group, the offset that took effect last on any replica, below what it
    confirms itself; and that one that begins again has it below where it begins, for those records will never be in its
    log."""
    for at, last in commits.last_commits(rows):
        groups = rows.value(at).get("groups")
        if not isinstance(groups, dict):
            continue
        for (group, number), row in sorted(last.items()):
            has = int((groups.get(group) or {}).get(str(number), -1))
            if has < rows.column("offset")[row]:
                _report_lost(rows, found, group, row, at, has)


def _report_lost(rows: Rows, found: Findings, group: str, commit: int, at: int, has: int) -> None:
    index, offset, queue = (int(rows.column(name)[commit]) for name in ("index", "offset", "queue"))
    when = "after the run" if rows.text("kind", at) == "final" else f"when it began again ({views.at_s(rows, at)})"
    found.add(
        OFFSETS_LOST,
        f"{rows.text('node', at)} had {has} as the offset of the group {group} in queue {queue} {when}, but {offset} "
        f"had taken effect by the record at position {int(rows.column('position')[commit])} "
        f"({rows.text('node', commit)}, {views.at_s(rows, commit)}), which lies below all that it has.",
        index,
        int(rows.column("index")[at]),
        queue=queue,
        offset=offset,
    )


@dataclass(frozen=True, slots=True)
class NodeReads:
    """Copies of a queue, each as the node that holds it answers."""

    promise: Promise = PROMISE
    needs: Needs = NODE_READS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        claims = views.claims_of(rows, rows.where(kind="final", f="node_read"))
        found.count("node_reads", len(claims.at))
        queues = rows.column("queue")[rows.where(kind="final", f="holders")]
        if len(queues) and not views.has_recovered(rows):  # then copies may still differ
            found.gap("the system had not recovered when its nodes were read one by one")
            return found.partial()
        for first, other in views.conflicts(claims):
            _report_copies(rows, found, int(claims.at[first]), int(claims.at[other]))
        copies, none = parts(claims.queue), np.empty(0, dtype=np.int64)
        for queue in np.unique(queues).tolist():
            self._missing(rows, found, queue, claims.only(copies.get(queue, none)))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("records_compared", "no two nodes answered what the same offset holds")]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)

    def _missing(self, rows: Rows, found: Findings, queue: int, copies: Claims) -> None:
        """Check that what one node answered, every other one did too whose copy begins before and ends after that."""
        ends = {rows.text("node", at): int(at) for at in rows.where(kind="final", f="node_end", queue=queue)}
        (held_by,) = (rows.value(at) for at in rows.where(kind="final", f="holders", queue=queue)[:1])
        for name in sorted({*map(str, held_by.get("nodes", ())), *ends}):
            why = rows.value(ends[name]).get("reason", "") if name in ends else "its reading did not end"
            if why:
                found.gap(f"queue {queue} was not read to its end through {name}: {why}")
        offsets, first, times = np.unique(copies.offset, return_index=True, return_counts=True)
        compared = int(np.count_nonzero(times > 1))
        found.count("records_compared", compared)
        if len(offsets) and not compared and len({*map(str, held_by.get("nodes", ()))}) > 1:
            found.gap(f"no two nodes answered what the same offset of queue {queue} holds")
        of = rows.column("node")[copies.at]
        for name, end in sorted(ends.items()):
            begin, until = int(rows.value(end).get("minimum", 0)), int(rows.column("offset")[end])
            own = copies.offset[of == rows.code("node", name)]
            lacks = (offsets >= begin) & (offsets < until) & ~np.isin(offsets, own)
            found.add_each(
                REPLICA_DIVERGENCE,
                copies.at[first[lacks]],
                lambda at, end=end: _report_missing(rows, found, at, end),  # type: ignore[misc]
                queues=copies.queue[first[lacks]],
            )


def _report_copies(rows: Rows, found: Findings, one: int, two: int) -> None:
    index, queue, offset = (rows.column(name) for name in ("index", "queue", "offset"))
    found.add(
        REPLICA_DIVERGENCE,
        f"Queue {int(queue[one])}, offset {int(offset[one])} holds two messages: {describe(rows, one)}, but "
        f"{describe(rows, two)}.",
        int(index[one]),
        int(index[two]),
        queue=int(queue[one]),
        offset=int(offset[one]),
        message=int(rows.column("message")[one]),
    )


def _report_missing(rows: Rows, found: Findings, at: int, end: int) -> None:
    """Report a lack. ``at``: what another node answered; ``end``: how far the one was read that did not."""
    index, queue, offset = (rows.column(name) for name in ("index", "queue", "offset"))
    found.add(
        REPLICA_DIVERGENCE,
        f"{rows.text('node', end)} was read up to offset {int(offset[end])} of queue {int(queue[at])} by itself after "
        f"recovery, but gave nothing at offset {int(offset[at])}, where {describe(rows, at)}.",
        int(index[at]),
        int(index[end]),
        queue=int(queue[at]),
        offset=int(offset[at]),
        message=int(rows.column("message")[at]),
    )


def create(options: Options) -> Sequence[Content | Metadata | NodeReads]:
    return (Content(), Metadata(), NodeReads())
