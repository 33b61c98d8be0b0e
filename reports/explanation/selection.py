"""The rows that may matter for a subject: what was done to its records and objects, and who decided meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chaos.events import Append, Applied, Commit, RaftRole, Role, SyncStateSet
from chaos.history.history import History
from chaos.history.row import Row
from reports.explanation.storage import PIECES, places, takeovers, way
from reports.explanation.subject import Subject, is_about_group

#: Rows by which a node shows that it holds a record durably, confirmed it, or let a producer know.
REACHED = ("synced", "confirm", "acked")
#: What brokers and stores trace of the tier.
TIER_ROWS = ("tier_request", "tier_commit", "tier_view", "tier_stop", "tier_cut", "tier_fault", "store_put",
             "store_cas", "store_delete")  # fmt: skip
#: Entries of the controllers' log by which a group gets or loses a master, or another set.
DECISIONS = ("elect", "masterless", "alter")


def selection(subject: Subject, history: History) -> list[Row]:
    """Return all rows that may matter, by index, each once; of faults only those that were injected."""
    records = list(_records(subject, history))
    logs = list(_logs(records, history))
    logs += _went_on(records, history)
    found = [*subject.witnesses, *records, *_clients(subject, history), *logs]
    decided = [row for row in logs if row.f in ("truncate", "confirm", "append")]
    found += _masters([*subject.witnesses, *records, *decided], history)
    if subject.objects or any(row.f in ("applied", "raft") for row in subject.witnesses):
        found += _controllers(subject, history)
    found += [*_tier(subject, history), *_commits(subject, history)]
    found += way(places(subject.messages, history) | _pieces(subject), subject.places, history)
    found += takeovers(subject.witnesses, history)
    if not history.has_traces:
        found += _polls(subject, history)
    found += injections(history)
    return sorted({row.index: row for row in found}.values(), key=lambda row: row.index)


def _records(subject: Subject, history: History) -> Iterator[Row]:
    """Yield what was stored at the places of the subject or, where it has none, its messages."""
    messages = _set(subject.messages)
    if not subject.places:
        yield from history.each(Append, keep=lambda t: pc.is_in(t["message"], messages))
        return
    for row in history.each(Append, keep=partial(_near, subject)):
        if (row.queue, row.offset) in subject.places:
            yield row


def _pieces(subject: Subject) -> set[tuple[int, int]]:
    """Return the group and position of each piece of a group's bytes that a witness is about."""
    named = ((row.value.get("group"), row.position) for row in subject.witnesses if row.f in {one.f for one in PIECES})
    return {(group, position) for group, position in named if isinstance(group, int)}


def _clients(subject: Subject, history: History) -> Iterator[Row]:
    """Yield the sends of its messages; who was first given what stands at its places, before and in the final
    reading."""
    sends = history.each("op", "send", keep=lambda t: pc.is_in(t["message"], _set(subject.messages)))
    yield from sends
    seen, drain_s = set(), history.phase_s("drain")
    for row in history.each("op", "delivered", keep=partial(_near, subject)):
        key = (row.queue, row.offset, row.message, row.at_s >= drain_s)
        if (row.queue, row.offset) in subject.places and key not in seen:
            seen.add(key)
            yield row


def _near(subject: Subject, table: pa.Table) -> Any:
    """Return which rows have the queue of a place, and the offset of one: all those at its places, and few others."""
    queues, offsets = (_set({place[part] for place in subject.places}) for part in (0, 1))
    return pc.and_(pc.is_in(table["queue"], queues), pc.is_in(table["offset"], offsets))


def _logs(records: Sequence[Row], history: History) -> Iterator[Row]:
    """Yield, of each record on its node, when it was durable, confirmed and acknowledged, and what took it away."""
    nodes = {row.node for row in records}
    if not nodes:
        return
    by_node: dict[str, list[Row]] = {}
    names = (*REACHED, "truncate", "recovered", "start", "bootstrap", "crash", "damaged")
    for row in history.each("trace", *names, keep=lambda t: pc.is_in(t["node"].cast(pa.string()), _set(nodes))):
        by_node.setdefault(row.node, []).append(row)
    for node, traced in by_node.items():
        mine = [row for row in records if row.node == node]
        lowest = min(row.in_node_order for row in mine)
        for row in traced:
            if row.f in REACHED or row.in_node_order < lowest:
                continue
            if row.f != "truncate" or any(took_away(row, record) for record in mine):
                yield row
        for record in mine:
            yield from _reached(record, traced)


def without(records: Sequence[Row], history: History) -> set[tuple[str, int]]:
    """Return (node, epoch) in which a node that stored one of these records had to be without it, since the log of
    that epoch's master did not reach so far."""
    roles = [row for row in history.each(Role) if row.value.get("role") == "master"]
    starts = [(row, start) for row in roles if isinstance(start := row.value.get("start"), int)]
    return {
        (record.node, master.epoch)
        for record in records
        for master, start in starts
        if record.epoch < master.epoch and record.end > start and record.node != master.node
    }


def _went_on(records: Sequence[Row], history: History) -> Iterator[Row]:
    """Yield what a node stored first in an epoch in which it had to be without one of these records."""
    sought = without(records, history)
    if not sought:
        return
    nodes, epochs = _set({node for node, _ in sought}), _set({epoch for _, epoch in sought})
    mine = history.each(
        Append,
        keep=lambda t: pc.and_(pc.is_in(t["node"].cast(pa.string()), nodes), pc.is_in(t["epoch"], epochs)),
    )
    for row in mine:
        if (row.node, row.epoch) in sought:
            sought.discard((row.node, row.epoch))
            yield row


def staying(records: Sequence[Row], chosen: Sequence[Row], history: History) -> set[int]:
    """Return the rows by which nodes showed that these records stay: they confirmed them, or went on with them in an
    epoch in which they had to be without them."""
    sought = without(records, history)
    removals = [row for row in chosen if row.f in ("truncate", "bootstrap")]
    found = set()
    for record in records:
        for row in chosen:
            mine = row.node == record.node and row.in_node_order > record.in_node_order
            if not mine or row.f not in ("confirm", "append"):
                continue
            same = (row.incarnation, row.epoch) == (record.incarnation, record.epoch)
            confirmed = row.f == "confirm" and same and row.position >= record.end
            gone = any(
                cut.node == row.node and record.in_node_order < cut.in_node_order < row.in_node_order
                for cut in removals
            )
            if confirmed or (row.f == "append" and (row.node, row.epoch) in sought and not gone):
                found.add(row.index)
    return found


def took_away(cut: Row, record: Row) -> bool:
    """Return whether a truncation of this node cut a record of it off."""
    same = cut.node == record.node and record.in_node_order < cut.in_node_order
    return cut.f == "truncate" and same and 0 <= cut.position < record.end


def _reached(record: Row, traced: Iterable[Row]) -> Iterator[Row]:
    """Yield the first row of each name by which the node had gone past the record, in that incarnation."""
    missing = set(REACHED)
    for row in traced:
        later = row.incarnation == record.incarnation and row.in_node_order > record.in_node_order
        if later and row.f in ("truncate", "bootstrap"):
            return
        same = row.f == REACHED[0] or row.epoch == record.epoch
        if later and same and row.f in missing and row.position >= record.end:
            missing.discard(row.f)
            yield row


def _masters(found: Sequence[Row], history: History) -> Iterator[Row]:
    """Yield who became what in the epochs of these rows, and how the set changed between the traces among them."""
    epochs = {epoch for row in found if (epoch := _master_epoch(row)) > 0}
    traced = [row.index for row in found if row.kind == "trace"]
    begin, end = min(traced, default=0), max(traced, default=-1)
    yield from history.each(Role, keep=lambda t: pc.is_in(t["epoch"], _set(epochs)))
    for row in history.each(SyncStateSet, keep=lambda t: pc.is_in(t["epoch"], _set(epochs))):
        if begin <= row.index <= end:
            yield row
    seen = set()
    for row in history.each(Applied):
        entry = row.entry
        timely = entry.get("type") != "alter" or begin <= row.index <= end
        decided = str(entry.get("type")) in DECISIONS or entry.get("masterless")
        if decided and timely and _master_epoch(row) in epochs and row.position not in seen:
            seen.add(row.position)
            yield row


def _master_epoch(row: Row) -> int:
    """Return the epoch of the master that a row is about; rows of controllers have their term in the column."""
    if row.f == "applied":
        epoch = row.entry.get("master_epoch")
        return epoch if isinstance(epoch, int) else -1
    return -1 if row.f == "raft" else row.epoch


def _controllers(subject: Subject, history: History) -> Iterator[Row]:
    """Yield what the controllers applied to the objects while the witnesses were on their way, and who led them."""
    first, last = subject.first.index, subject.last.index
    for row in history.each(Applied, keep=lambda t: pc.less(t["index"], last)):
        if row.index > first and str(row.entry.get("group")) in subject.objects and row.entry.get("type") != "none":
            yield row
    raft = history.each(RaftRole, keep=lambda t: pc.less(t["index"], last))
    leads = [row for row in raft if row.index < first and row.value.get("role") == "leader"]
    yield from leads[-1:]
    yield from (row for row in raft if row.index > first)


def injections(history: History) -> list[Row]:
    """Return the faults that took place: the row by which each was asked for, with all that it is ``proven`` to have
    hit and its ``proof``, which later rows hold."""
    asked: dict[str, Row] = {}
    done: dict[str, Row] = {}
    for row in history.each("fault"):
        if row.type == "invoke":
            asked[row.process] = row
        if row.type == "ok" and row.process in asked:
            before = done.get(row.process, asked[row.process])
            proven = {str(node) for one in (before, row) for node in _nodes(one.value.get("proven"))}
            proof = before.value.get("proof") or row.value.get("proof") or {}
            whole = {**asked[row.process].value, "proven": {"nodes": sorted(proven)}, "proof": proof}
            done[row.process] = replace(asked[row.process], value=whole)
    return list(done.values())


def _nodes(proven: object) -> list[Any]:
    return [node for nodes in proven.values() for node in nodes] if isinstance(proven, dict) else []


def _tier(subject: Subject, history: History) -> Iterator[Row]:
    """Yield the rows about the requests, and the versions of manifests, that the witnesses name."""
    of_tier = [row for row in subject.witnesses if is_of_tier(row)]
    requests = {word for row in of_tier if (word := _word(row, "request"))}
    versions = {(row.queue, word) for row in of_tier if (word := _word(row, "version"))}
    if not requests and not versions:
        return
    for row in history.each("trace", *TIER_ROWS):
        if _word(row, "request") in requests or (row.queue, _word(row, "version")) in versions:
            yield row


def _commits(subject: Subject, history: History) -> Iterator[Row]:
    """Yield where the offsets of its groups took effect on each node: the first one, the first as far as a witness
    says, and where one takes a group back, with the one before."""
    if not subject.groups:
        return
    named = {(row.queue, str(row.value["group"]), row.offset) for row in subject.witnesses if is_about_group(row)}
    last: dict[tuple[str, int, str], Row] = {}
    queues = _set({queue for queue, _ in subject.groups})
    for row in history.each(Commit, keep=lambda t: pc.is_in(t["queue"], queues)):
        group = str(row.value.get("group"))
        if (row.queue, group) not in subject.groups:
            continue
        before = last.get((row.node, row.queue, group))
        last[row.node, row.queue, group] = row
        reached = before.offset if before else -1
        if before is None or any(
            reached < offset <= row.offset for queue, name, offset in named if (queue, name) == (row.queue, group)
        ):
            yield row
        elif before and row.offset < before.offset:
            yield from (before, row)


def is_of_tier(row: Row) -> bool:
    """Return whether a row is about manifests and the requests that change them."""
    return row.f.startswith(("tier_", "store_", "manifest", "view"))


def _word(row: Row, name: str) -> str:
    """Return a value as text, "" without one."""
    return str(row.value[name]) if name in row.value else ""


def _polls(subject: Subject, history: History) -> Iterator[Row]:
    """Yield polls by which a node showed another role, master or epoch than before, between the first and last
    witness."""
    shown: dict[tuple[str, str], Any] = {}
    for row in history.each("poll"):
        now = (_word(row, "role"), _word(row, "master"), _word(row, "leader"), row.epoch)
        changed = shown.get((row.node, row.f)) != now
        shown[row.node, row.f] = now
        if changed and row.type != "invoke" and subject.first.index <= row.index <= subject.last.index:
            yield row


def _set(values: Iterable[Any]) -> pa.Array:
    found = sorted(values)
    return pa.array(found, pa.string() if found and isinstance(found[0], str) else pa.int64())
