"""What several laws need of the same rows, computed once for each shard: sends, reads, claims, lives of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.law import Rows, RunContext

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def is_strict(context: RunContext) -> bool:
    """Does the run's profile promise that no acknowledged message is lost? The default profile does."""
    profile: Mapping[str, Any] = context.meta.get("profile") or {}
    return (
        profile.get("flush", "sync") == "sync"
        and str(profile.get("acks", "all")) == "all"
        and not profile.get("unclean", False)
        and int(profile.get("min_in_sync", 2)) >= 2
    )


def one_clock(context: RunContext) -> bool:
    """Simulated nodes trace into the one history as it happens, so that ``index`` orders rows of different nodes."""
    return context.meta.get("deployment") == "sim"


def brokers(rows: Rows, context: RunContext, at_ns: int | None = None) -> tuple[str, ...]:
    """All replicas: those that ``run.json`` lists and those that were added to them, at any time or until ``at_ns``;
    else those that told something which only a broker tells."""
    known = context.meta.get("brokers")
    if known:
        return (*known, *(node for added_ns, node in rows.memo(_added) if at_ns is None or added_ns <= at_ns))
    told = {rows.text("node", at) for f in ("start", "recovered", "role") for at in rows.where(kind="trace", f=f)}
    told |= {rows.text("node", at) for at in rows.where(kind="final", f="node")}
    return tuple(sorted(told))


def _added(rows: Rows) -> Sequence[tuple[int, str]]:
    """When which brokers joined that there had not been before."""
    times = rows.column("time_ns")
    added = [at for at in rows.where(kind="harness", f="node_added") if rows.value(at).get("role") == "broker"]
    return [(int(times[at]), rows.text("node", at)) for at in added]


def phase_index(rows: Rows, phase: str) -> int:
    """The ``index`` of the row that begins a phase, -1 if the run did not come to it."""
    for at in rows.where(kind="harness", f="phase"):
        if rows.value(at).get("phase") == phase:
            return int(rows.column("index")[at])
    return -1


def phase_time(rows: Rows, phase: str) -> int:
    """The time at which a phase began, -1 if the run did not come to it."""
    index = phase_index(rows, phase)
    return int(rows.column("time_ns")[np.searchsorted(rows.column("index"), index)]) if index >= 0 else -1


def has_recovered(rows: Rows) -> bool:
    return len(rows.where(kind="harness", f="recovered")) > 0


def complete_nodes(rows: Rows) -> frozenset[str]:
    """Nodes whose final content was read to its end."""
    return frozenset(rows.text("node", at) for at in rows.where(kind="final", f="complete"))


def at_s(rows: Rows, at: int) -> str:
    """When a row was recorded, for people: seconds since the run's first row in this shard's clock."""
    harness = rows.where(kind="harness")
    times = rows.column("time_ns")
    first = int(times[harness[0]]) if len(harness) else int(times[0])
    return f"{(int(times[at]) - first) / 1e9:.3f} s"


@dataclass(frozen=True, slots=True)
class Calls:
    """Operations of one kind: an array element for each invocation. ``done`` is the position of the completion row or
    -1; ``ok`` and ``failed`` tell how it ended; what is neither is unclear and may take effect at any later time.
    ``ended`` is the completion's index, the largest number for what is unclear."""

    invoke: Ints
    done: Ints
    began: Ints
    ended: Ints
    ok: Flags
    failed: Flags


NEVER = np.iinfo(np.int64).max


def calls(rows: Rows, f: str) -> Calls:
    """All operations ``f``, in the order of their invocations."""
    index, op, kind = rows.column("index"), rows.column("op"), rows.column("type")
    every = rows.where(kind="op", f=f)
    invoke = every[kind[every] == rows.code("type", "invoke")]
    ends = every[kind[every] != rows.code("type", "invoke")]
    began = index[invoke]
    slot = np.searchsorted(began, op[ends])
    known = slot < len(began)
    known[known] = began[slot[known]] == op[ends[known]]
    done = np.full(len(invoke), -1, dtype=np.int64)
    done[slot[known]] = ends[known]
    has = done >= 0
    outcome = np.where(has, kind[done], -3)
    ok, failed = outcome == rows.code("type", "ok"), outcome == rows.code("type", "fail")
    return Calls(
        invoke=invoke,
        done=done,
        began=began,
        ended=np.where(ok | failed, index[done], NEVER),
        ok=ok,
        failed=failed,
    )


def sends(rows: Rows) -> Calls:
    return calls(rows, "send")


def pulls(rows: Rows) -> Calls:
    return calls(rows, "pull")


@dataclass(frozen=True, slots=True)
class Delivered:
    """Messages that clients read. ``pull`` is the number of the call in :func:`pulls`, -1 if that is missing."""

    at: Ints
    pull: Ints


def delivered(rows: Rows) -> Delivered:
    at = rows.where(kind="op", f="delivered")
    began = rows.memo(pulls).began
    op = rows.column("op")[at]
    slot = np.searchsorted(began, op)
    known = slot < len(began)
    known[known] = began[slot[known]] == op[known]
    return Delivered(at, np.where(known, slot, -1))


def drain_reads(rows: Rows) -> Flags:
    """Which deliveries belong to the final reading: those that were asked for after the drain began, or, in a history
    without phases, by a process that also drained."""
    found = rows.memo(delivered)
    begin = phase_index(rows, "drain")
    if begin >= 0:
        return rows.column("op")[found.at] >= begin
    process = rows.column("process")
    provers = np.unique(process[rows.where(kind="op", f="drain")])
    return np.isin(process[found.at], provers)


@dataclass(frozen=True, slots=True)
class Claims:
    """Statements "queue q holds this content at offset o", each by one row of the history."""

    at: Ints
    queue: Ints
    offset: Ints
    hash: Ints

    def only(self, keep: Flags | Ints) -> Claims:
        return Claims(*(getattr(self, field.name)[keep] for field in fields(self)))


def claims_of(rows: Rows, at: Ints) -> Claims:
    """The claims that these rows make: user records with a known queue, offset and hash."""
    queue, offset, content = rows.column("queue")[at], rows.column("offset")[at], rows.column("hash")[at]
    keep = (queue >= 0) & (offset >= 0) & (content >= 0)
    return Claims(at[keep], queue[keep], offset[keep], content[keep])


def acknowledged(rows: Rows) -> Claims:
    """Claims of sends that ended in ok; the row is the completion."""
    found = rows.memo(sends)
    done = found.done[found.ok]
    asked = found.invoke[found.ok]
    queue, offset = rows.column("queue")[done], rows.column("offset")[done]
    content = rows.column("hash")[asked]
    keep = (queue >= 0) & (offset >= 0) & (content >= 0)
    return Claims(done[keep], queue[keep], offset[keep], content[keep])


def read(rows: Rows) -> Claims:
    return claims_of(rows, rows.memo(delivered).at)


def final_log(rows: Rows) -> Claims:
    """Records of whole logs after recovery. A node that was not read to its end, or a run that did not recover, still
    counts up to what the node itself calls confirmed."""
    at = rows.where(kind="final", f="log")
    if not has_recovered(rows):
        confirmed = {rows.text("node", n): int(rows.value(n).get("confirm", -1)) for n in _final_nodes(rows)}
        limit = _by_node(rows, at, confirmed)
        at = at[rows.column("position")[at] < limit]
    return claims_of(rows, at)


def tiered(rows: Rows) -> Claims:
    return claims_of(rows, rows.where(kind="final", f="tiered"))


def _final_nodes(rows: Rows) -> Ints:
    return rows.where(kind="final", f="node")


def _by_node(rows: Rows, at: Ints, numbers: Mapping[str, int]) -> Ints:
    """For each row the number that belongs to its node, -1 without one."""
    column = rows.column("node")
    table = {rows.code("node", name): number for name, number in numbers.items()}
    return np.array([table.get(int(code), -1) for code in column[at]], dtype=np.int64)


def in_node_order(rows: Rows, at: Ints) -> Ints:
    """Sort rows of one node into the order in which it lived them: incarnation, step, index."""
    order = np.lexsort((rows.column("index")[at], rows.column("step")[at], rows.column("incarnation")[at]))
    return at[order]


def node_traces(rows: Rows, node: str, *kinds: str) -> Ints:
    """A node's trace rows of these kinds, in its own order."""
    parts = [rows.where(kind="trace", f=f, node=node) for f in kinds]
    return in_node_order(rows, np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


def moment(rows: Rows, at: Ints) -> list[tuple[int, int, int]]:
    """Each row's place in its node's own order."""
    columns = (rows.column(name)[at].tolist() for name in ("incarnation", "step", "index"))
    return list(zip(*columns, strict=True))


def durable_ends(rows: Rows) -> dict[str, tuple[Ints, Ints]]:
    """Node → (indexes, durable end of its log from there on). What is cut off is gone; for a disk that the run
    itself destroys its former word still counts."""
    kinds = ("synced", "recovered", "bootstrap", "truncate")
    at = np.sort(np.concatenate([rows.where(kind="trace", f=f) for f in kinds]))
    node, position, f = rows.column("node")[at], rows.column("position"), rows.column("f")
    cut, ends = rows.code("f", "truncate"), {}
    for code in np.unique(node):
        mine = at[node == code]
        now, steps = -1, []
        for end, is_cut in zip(position[mine].tolist(), (f[mine] == cut).tolist(), strict=True):
            now = min(now, end) if is_cut else max(now, end)
            steps.append(now)
        ends[rows.text("node", mine[0])] = (rows.column("index")[mine], np.array(steps, dtype=np.int64))
    return ends


def confirmed_appends(rows: Rows) -> Claims:
    """Records that some replica held and called confirmed at some time, whatever became of them later.

    For each node: a record is there from its ``append`` until a ``truncate`` or ``recovered`` row whose position lies
    below its end, or any ``bootstrap``; it was confirmed if the node's confirm offset reached its end in between.
    """
    names = sorted({rows.text("node", at) for at in _first_of_each_node(rows)})
    parts = [_confirmed_on(rows, name) for name in names]
    at = np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)
    return claims_of(rows, at)


def _first_of_each_node(rows: Rows) -> Ints:
    at = rows.where(kind="trace", f="append")
    _, first = np.unique(rows.column("node")[at], return_index=True)
    return at[first]


def _confirmed_on(rows: Rows, node: str) -> Ints:
    appends = rows.where(kind="trace", f="append", node=node)
    appends = appends[rows.column("queue")[appends] >= 0]
    confirms = rows.where(kind="trace", f="confirm", node=node)
    cuts = np.concatenate(
        [rows.where(kind="trace", f=f, node=node) for f in ("truncate", "recovered", "bootstrap")], dtype=np.int64
    )
    every = in_node_order(rows, np.concatenate([appends, confirms, cuts]))
    rank = np.empty(len(rows), dtype=np.int64)
    rank[every] = np.arange(len(every))
    appends, confirms, cuts = appends[np.argsort(rank[appends])], confirms[np.argsort(rank[confirms])], _by(rank, cuts)
    position = rows.column("position")
    end = position[appends] + np.maximum(rows.numbers("size", appends), 1)
    gone = np.full(len(appends), len(every), dtype=np.int64)
    anew = rows.code("f", "bootstrap")  # nothing of what stood there before is in a log that begins anew
    for cut in cuts[::-1]:
        kept = -1 if rows.column("f")[cut] == anew else position[cut]
        gone[(rank[appends] < rank[cut]) & (end > kept)] = rank[cut]
    confirmed = np.zeros(len(appends), dtype=np.bool_)
    for until in np.unique(gone):
        window = confirms[rank[confirms] < until]
        if len(window):
            highest = np.append(np.maximum.accumulate(position[window][::-1])[::-1], -1)
            mine = gone == until
            confirmed[mine] = highest[np.searchsorted(rank[window], rank[appends[mine]])] >= end[mine]
    return appends[confirmed]


def _by(rank: Ints, at: Ints) -> Ints:
    return at[np.argsort(rank[at])]


def groups(*columns: Ints) -> tuple[Ints, Ints]:
    """Sort by these columns, keeping the given order among equals. Returns the order, and where in it each group of
    equal values starts."""
    order = np.lexsort(columns[::-1])
    new = np.zeros(len(order), dtype=np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[order][1:] != column[order][:-1]
    return order, np.flatnonzero(new)


def conflicts(claims: Claims) -> list[tuple[int, int]]:
    """Pairs (first, other) of claims about one (queue, offset) with different content, one pair for each content that
    isn't the first's, by queue and offset. ``claims`` come in the order in which they should be told."""
    order, starts = groups(claims.queue, claims.offset)
    content, leader = claims.hash[order], np.zeros(len(order), dtype=np.int64)
    leader[starts] = starts
    leader = np.maximum.accumulate(leader)
    differs = np.flatnonzero(content != content[leader])
    pairs, seen = [], set()
    for found in differs.tolist():
        key = (int(leader[found]), int(content[found]))
        if key not in seen:
            seen.add(key)
            pairs.append((int(order[leader[found]]), int(order[found])))
    return pairs


def join(*parts: Claims) -> Claims:
    """All claims in one, in the given order."""
    return Claims(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Claims)))


def masters(rows: Rows) -> frozenset[tuple[str, int]]:
    """(node, epoch) of every mastership that a broker traced."""
    at = rows.where(kind="trace", f="role")
    epoch = rows.column("epoch")
    return frozenset((rows.text("node", n), int(epoch[n])) for n in at if rows.value(n).get("role") == "master")


def from_masters(rows: Rows, at: Ints) -> Flags:
    """Which answers came from the master of the epoch that they carry. Without traces: those whose client did not ask
    a certain replica."""
    known = rows.memo(masters)
    if not known:
        return np.array([not word for word in rows.words("from", at)], dtype=np.bool_)
    node, epoch = rows.column("node")[at], rows.column("epoch")[at]
    accepted = np.zeros(len(at), dtype=np.bool_)
    for name, mastership in known:
        accepted |= (node == rows.code("node", name)) & (epoch == mastership)
    return accepted


@dataclass(frozen=True, slots=True)
class Fault:
    """One injection that took effect. ``until_ns`` is the time of its undo, the largest number if there was none."""

    name: str
    process: str
    targets: tuple[str, ...]
    detail: Mapping[str, Any]
    began_ns: int
    from_ns: int
    until_ns: int
    index: int


def faults(rows: Rows) -> Sequence[Fault]:
    """All injections that were done, in the order in which they began."""
    times, index = rows.column("time_ns"), rows.column("index")
    open_: dict[str, dict[str, Any]] = {}
    for at in rows.where(kind="fault"):
        told = rows.value(at)
        kind = rows.text("type", at)
        entry = open_.setdefault(
            rows.text("process", at),
            {"name": rows.text("f", at), "process": rows.text("process", at), "targets": (), "detail": {}},
        )
        if kind == "invoke":
            entry.update(began_ns=int(times[at]), index=int(index[at]))
        if kind in ("invoke", "ok"):
            entry["targets"] = tuple(told.get("targets") or entry["targets"] or _target(rows, at))
            entry["detail"] = told.get("detail") or entry["detail"]
        if kind == "ok" and told.get("phase") != "undo":
            entry.setdefault("from_ns", int(times[at]))
        elif kind == "ok":
            entry["until_ns"] = int(times[at])
    found = [
        Fault(**{"began_ns": e["from_ns"], "index": -1, "until_ns": NEVER, **e})
        for e in open_.values()
        if "from_ns" in e
    ]
    return sorted(found, key=lambda fault: (fault.from_ns, fault.process))


#: Faults that crash nodes, so that what wasn't synced is gone.
CRASHES = (
    *("kill", "crash_loop", "restart", "rolling_restart", "demote"),
    *("disk_full", "lose_unsynced", "read_error", "sync_failure", "torn_write"),
)


#: Faults that take from a node what its disk had promised to keep.
LOSSES = ("wipe", "bit_flip", "truncate", "misdirected_write", "restore_snapshot")


def only_copy_destroyed(rows: Rows, context: RunContext) -> str:
    """How the run itself took from a group the last replica that was sure to hold everything ("" if it didn't): the
    last member of the SyncStateSet lost what its disk held or, under asynchronous flush, crashed. Nothing is owed after
    that."""
    return _destruction(rows, context)[1]


def service_ended(rows: Rows, context: RunContext) -> tuple[int, int]:
    """From when until when nobody could be master because the run had destroyed the only sure copy: to the next
    election, if there was one. (NEVER, NEVER) if that did not happen."""
    destroyed, times, place = _destruction(rows, context)[0], rows.column("time_ns"), rows.column("position")
    if destroyed < 0:
        return NEVER, NEVER
    applied = rows.where(kind="trace", f="applied")
    applied = applied[place[applied] > place[destroyed]]
    elections = [at for at in applied if (rows.value(at).get("entry") or {}).get("type") == "elect"]
    return int(times[destroyed]), min((int(times[at]) for at in elections), default=NEVER)


def _destruction(rows: Rows, context: RunContext) -> tuple[int, str]:
    """The row of the entry by which the controllers learned that the only sure copy was gone, and how it was destroyed;
    (-1, "") if it wasn't."""
    profile: Mapping[str, Any] = context.meta.get("profile") or {}
    kinds = (*LOSSES, *CRASHES) if profile.get("flush") == "async" else LOSSES
    index = rows.column("index")
    for at in rows.where(kind="trace", f="applied"):
        entry = rows.value(at).get("entry") or {}
        if entry.get("type") not in ("register", "apply_id") or not entry.get("removed") or entry.get("set") != []:
            continue
        hit = [
            fault.process
            for fault in rows.memo(faults)
            if fault.name in kinds and entry.get("broker") in fault.targets and fault.index < index[at]
        ]
        if hit:
            return int(at), f"{hit[-1]} destroyed what the only member of the SyncStateSet, {entry.get('broker')}, held"
    return -1, ""


def _target(rows: Rows, at: int) -> tuple[str, ...]:
    node = rows.text("node", at)
    return (node,) if node else ()
