"""Compares what each replica reports of its log and its disk with its own log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.fault import Effect
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import reads
from checkers._facts.arrays import Flags, Ints
from checkers._facts.nodes import own_logs
from checkers._facts.nodes.own_logs import size_of_set
from checkers._facts.reads import own
from checkers.in_sync.promise import CONFIRM_BEYOND_LOG, FALSE_SYNC, PROMISE, TOO_FEW_IN_SYNC

OWN_LOG = Needs(
    part="what each replica has",
    on_prefix=True,
    key=Key.NODE,
    rows=(
        own("trace", *own_logs.SELDOM),
        own_logs.own_log("append", "synced", "confirm", "acked", "tier_commit"),
        own("final", "node"),
        reads.RUN,
        reads.FAULTS,
    ),
    columns=(*reads.BASIC, *reads.LIVES, "type", "process", "queue", "offset", "position", "message", "epoch"),
    evidence=(Evidence.CONFIRM,),
)


def held(at: Ints, values: Ints, sets: Flags) -> Ints:
    """Return at each of these rows the value that the last row up to it has set; -1 before the first."""
    last = np.maximum.accumulate(np.where(sets, np.arange(len(at)), -1))
    return np.where(last >= 0, values[np.maximum(last, 0)], -1)


@dataclass(frozen=True, slots=True)
class OwnLog:
    """Compares what each replica reports with its own log, in its own order, so that no clock is needed."""

    promise: Promise = PROMISE
    needs: Needs = OWN_LOG

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        found.count("confirming_nodes", len(_one_each(rows, "confirm")))
        names = {rows.text("node", at) for f in ("confirm", "synced") for at in _one_each(rows, f)}
        for node in sorted(names):
            _within_log(rows, context, found, node)
            if not context.unfinished:  # that a fault took what the disk had may be proven later
                _disk_keeps(rows, found, node)
        if context.profile.acks == "all":
            for node in sorted({rows.text("node", at) for at in _one_each(rows, "acked")}):
                _enough_in_sync(rows, found, node, context.profile.min_in_sync)
        for at in rows.where(kind="final", f="node").tolist():
            value = rows.value(at)
            end, confirm = value.get("end"), value.get("confirm")
            if isinstance(end, int) and isinstance(confirm, int) and confirm > end:
                _report(rows, found, CONFIRM_BEYOND_LOG, at, f"calls position {confirm} confirmed", f"ends at {end}")
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("confirming_nodes", "no replica reported its confirm offset")]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


def _one_each(rows: Rows, f: str) -> Ints:
    at = rows.where(kind="trace", f=f)
    _, first = np.unique(rows.column("node")[at], return_index=True)
    return at[first]


def _report(rows: Rows, found: Findings, name: str, at: int, did: str, has: str, *witness: int) -> None:
    index = rows.column("index")
    found.add(
        name,
        f"{rows.text('node', at)} {did} ({facts.at_s(rows, at)}), but its own log {has}.",
        *(int(index[row]) for row in (*witness, at)),
    )


def _within_log(rows: Rows, context: RunContext, found: Findings, node: str) -> None:
    """Check that what a node calls durable is in its log; that what it calls confirmed is durable (in its log, under
    asynchronous flush); and that what it says of its confirm offset beside that is no more than it. A cut counts when
    it begins."""
    kinds = ("append", "synced", "truncate", "recovered", "bootstrap", "confirm", "acked", "tier_commit")
    at = facts.node_traces(rows, node, *kinds)
    f, position = rows.column("f")[at], rows.column("position")[at]
    is_ = {kind: f == rows.code("f", kind) for kind in kinds}
    resets = is_["recovered"] | is_["truncate"] | is_["bootstrap"]
    sizes = np.zeros(len(at), dtype=np.int64)
    sizes[is_["append"]] = np.maximum(rows.numbers("size", at[is_["append"]]), 1)
    end = held(at, position + sizes, resets | is_["append"])
    durable = held(at, position, resets | is_["synced"])
    bound, has = (end, "ended at") if context.profile.flush == "async" else (durable, "was on the disk up to")
    if (bound[is_["confirm"]] < 0).any():
        found.gap(f"{node} reported a confirm offset before it reported what its log holds")
    beyond = is_["confirm"] & (bound >= 0) & (position > bound)
    if is_["append"].any():  # a driver may report how far logs go without their records
        false = is_["synced"] & (end >= 0) & (position > end)
        for n in np.flatnonzero(false).tolist():
            _report(rows, found, FALSE_SYNC, int(at[n]), f"called position {position[n]} durable", f"ended at {end[n]}")
    _known_to_disk(rows, found, at[is_["synced"]])
    for n in np.flatnonzero(beyond).tolist():
        did = f"called position {position[n]} confirmed"
        _report(rows, found, CONFIRM_BEYOND_LOG, int(at[n]), did, f"{has} {bound[n]}")
    _same_confirm_offset(
        rows, found, at, is_["confirm"] | is_["bootstrap"], is_["recovered"], is_["acked"] | is_["tier_commit"]
    )


def _known_to_disk(rows: Rows, found: Findings, synced: Ints) -> None:
    """Check that a node calls no more of its file durable than the simulator reports: what no crash could take away."""
    said, known = rows.numbers("size", synced), rows.numbers("disk", synced)
    for n in np.flatnonzero((known >= 0) & (known < said)).tolist():
        at = int(synced[n])
        did = f"called {said[n]} bytes of its file {rows.value(at)['file']} durable"
        _report(rows, found, FALSE_SYNC, at, did, f"had {known[n]} of them on the disk")


def _same_confirm_offset(rows: Rows, found: Findings, at: Ints, names: Flags, recovered: Flags, repeats: Flags) -> None:
    """Check that a confirm offset that a node names beside another event is at most the one that it reported last."""
    known = rows.column("position")[at].copy()
    for n in np.flatnonzero(recovered).tolist():
        known[n] = int(rows.value(at[n]).get("confirm", -1))
    last = held(at, known, names | recovered)[repeats]
    said = rows.numbers("confirm", at[repeats])
    for n in np.flatnonzero((last >= 0) & (said > last)).tolist():
        row = int(at[repeats][n])
        did = f"gave {said[n]} as its confirm offset ({rows.text('f', row)})"
        _report(rows, found, CONFIRM_BEYOND_LOG, row, did, f"was confirmed up to {last[n]} by its own last report")


def _disk_keeps(rows: Rows, found: Findings, node: str) -> None:
    """Check that what a node called durable is there when it comes back, unless it was cut, or its disk was taken from
    it: it carries another mark, its count of lives doesn't go on, or a fault is proven to have harmed it."""
    at = facts.node_traces(rows, node, "synced", "truncate", "recovered", "bootstrap", "start")
    position, times = rows.column("position"), rows.column("time_ns")
    harmed = [(fault.began_ns, fault.until_ns) for fault in rows.memo(facts.faults) if _may_lose(fault, node)]
    is_synced = rows.column("f")[at] == rows.code("f", "synced")
    synced = np.maximum.accumulate(np.where(is_synced, np.arange(len(at)), -1))
    sure, witness, generation, disk, before = -1, -1, -1, "", -1
    for place in np.flatnonzero(~is_synced).tolist():
        if synced[place] > before:
            witness = int(at[synced[place]])
            sure = int(position[witness])
        row, before = int(at[place]), place
        f, where = rows.text("f", row), int(position[row])
        if f == "start":
            value = rows.value(row)
            now, word = int(value.get("generation", generation + 1)), str(value.get("disk", ""))
            sure = -1 if now <= generation or word != disk else sure
            generation, disk = now, word
        elif f == "truncate":
            sure = min(sure, where)
        else:
            allowed = any(times[witness] <= until and began <= times[row] for began, until in harmed)
            if f == "recovered" and where < sure and not allowed:
                did = f"had called position {sure} durable at {facts.at_s(rows, witness)}, and came back"
                _report(rows, found, FALSE_SYNC, row, did, f"ended at {where}", witness)
            sure, witness = where, row


def _may_lose(fault: facts.Fault, node: str) -> bool:
    return node in fault.hits(Effect.LOSES_DISK) or fault.may_hit(node)


def _enough_in_sync(rows: Rows, found: Findings, node: str, least: int) -> None:
    """Check that a master counts on a SyncStateSet of at least so many when it appends a message, or when it
    acknowledges it, or in between: a system may look at either moment, and the set may shrink or grow meanwhile. Of an
    acknowledgement only the last record is judged: those before it may have been answered otherwise."""
    at = facts.node_traces(rows, node, "append", "acked", "role", "set")
    f, epoch, position = (rows.column(name)[at] for name in ("f", "epoch", "position"))
    of_set = (f == rows.code("f", "role")) | (f == rows.code("f", "set"))
    sizes = np.full(len(at), -1, dtype=np.int64)
    sizes[of_set] = [size_of_set(rows, row) for row in at[of_set].tolist()]
    known = held(at, sizes, of_set)
    enough = (known < 0) | (known >= least)
    so_far = np.cumsum(enough)
    sent = np.flatnonzero((f == rows.code("f", "append")) & (rows.column("message")[at] >= 0) & ~enough)
    end = position[sent] + np.maximum(rows.numbers("size", at[sent]), 1)
    for n in np.flatnonzero((f == rows.code("f", "acked")) & ~enough).tolist():
        of_ack = sent[(end == position[n]) & (epoch[sent] == epoch[n]) & (sent < n)]
        if len(of_ack) and so_far[n] == so_far[of_ack[-1]]:
            _report_too_few(rows, found, at[[np.flatnonzero(of_set[:n])[-1], of_ack[-1], n]], least)


def _report_too_few(rows: Rows, found: Findings, story: Ints, least: int) -> None:
    """Report an acknowledgement by too few. ``story``: the rows of the set, the append and the acknowledgement."""
    of_set, append, acked = story.tolist()
    members = sorted(map(str, rows.value(of_set)["set"]))
    found.add(
        TOO_FEW_IN_SYNC,
        f"{rows.text('node', acked)}, master of epoch {int(rows.column('epoch')[acked])}, acknowledged the message at "
        f"offset {int(rows.column('offset')[append])} of queue {int(rows.column('queue')[append])} at "
        f"{facts.at_s(rows, acked)}, when from its append on no more than {', '.join(members) or 'nobody'} had been in "
        f"its SyncStateSet, where {least} replicas must be in sync.",
        *(int(rows.column("index")[row]) for row in story),
        queue=int(rows.column("queue")[append]),
        offset=int(rows.column("offset")[append]),
        message=int(rows.column("message")[append]),
    )
