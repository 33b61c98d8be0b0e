"""A message's way through a storage cluster: broker, group, segment, tier; which rows show it, and which led to which.

A group's log is the bytes that its owner appends. A message lies in them where its acknowledgement, or a store's log
in the end, says: the group stands above the position. The rows' classes decide whether there is such a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chaos.events import (
    POSITION_BITS,
    Applied,
    Event,
    GroupAcked,
    GroupAppended,
    GroupFenced,
    GroupSynced,
    MapView,
    Sealed,
    SegmentDropped,
    SegmentHeld,
    SliceOpened,
    StorePut,
    Trimmed,
    Uploaded,
)
from chaos.history.columns import Kind
from chaos.history.history import History
from chaos.history.row import Keep, Row

#: A group, and a position in its bytes.
Place = tuple[int, int]
#: A group, an epoch, and where a record that was written in it ends, or lies at least.
Written = tuple[int, int, int]
#: A pair of rows: the first led to the second.
Edge = tuple[Row, Row]
#: What happens to a piece of a group's bytes, which a row names by where it begins and ends.
PIECES = (GroupAppended, Sealed, Uploaded, SegmentHeld, SegmentDropped)
#: Kinds of entries of meta's log by which slices get owners.
OWNER = "owner"
#: Rows of which a run has few.
FEW = (GroupFenced, SliceOpened, Applied, Trimmed, StorePut)
#: No append, and no acknowledgement of several at once, is about more bytes.
LARGEST = 1 << 22


def is_storage_cluster(history: History) -> bool:
    """Return whether brokers of this run opened slices of groups."""
    return bool(history.rows(SliceOpened).num_rows)


def places(messages: Collection[int], history: History) -> set[Place]:
    """Return where these messages lie in a storage cluster's groups: by who acknowledged them, and by the logs that
    stores hold in the end."""
    wanted = pa.array(sorted(messages), pa.int64())
    found = history.each("op", "send", keep=lambda t: pc.is_in(t["message"], wanted))
    found += history.each("final", "log", keep=lambda t: pc.is_in(t["message"], wanted))
    return {divmod(row.position, 1 << POSITION_BITS) for row in found if row.position >= 0}


def near(wanted: Collection[Place]) -> Keep:
    """Return what keeps, of some rows, all those that :func:`way` needs, and few others."""
    lowest = min((position for _, position in wanted), default=0)
    highest = max((position for _, position in wanted), default=-1)

    def keep(rows: pa.Table) -> Any:
        f, position = rows["f"].cast(pa.string()), rows["position"]
        written = pc.and_(pc.greater(position, lowest - LARGEST), pc.less(position, highest + LARGEST))
        found = pc.and_(pc.is_in(f, _names(GroupAppended, GroupAcked)), written)
        found = pc.or_(found, pc.and_(pc.is_in(f, _names(*PIECES[1:])), pc.less_equal(position, highest)))
        found = pc.or_(found, pc.is_in(f, _names(*FEW)))
        return pc.and_(found, pc.equal(rows["kind"], str(Kind.TRACE)))

    return keep


def _names(*events: type[Event]) -> pa.Array:
    return pa.array([one.f for one in events])


def covers(row: Row, wanted: Collection[Place]) -> bool:
    """Return whether a row is about a piece of a group's bytes in which one of these places lies."""
    group, end = row.value.get("group"), row.value.get("end")
    return isinstance(end, int) and any(group == of and row.position <= at < end for of, at in wanted)


def way(wanted: Collection[Place], offsets: Collection[tuple[int, int]], history: History) -> list[Row]:
    """Return the rows by which what lies at these places was written, sealed, uploaded, copied and deleted, and by
    which those who wrote it had got their slices. ``offsets``: the (queue, offset) of the messages there."""
    if not wanted or not is_storage_cluster(history):
        return []
    found = once(row for row in history.each(*PIECES, keep=near(wanted)) if covers(row, wanted))
    written = {(row.value["group"], row.epoch, row.value["end"]) for row in found if row.f == GroupAppended.f}
    written |= _answered(wanted, history)
    found += [*_owners(written, history), *_acknowledged(written, history), *_trims(wanted, offsets, history)]
    keys = {row.value.get("key") for row in found if row.f == Uploaded.f}
    found += [row for row in history.each(StorePut) if row.value.get("key") in keys]
    return sorted({row.index: row for row in found}.values(), key=lambda row: row.index)


def once(rows: Iterable[Row]) -> list[Row]:
    """Return the first row by which each store did each of these things: after a start it applies its log again."""
    found: dict[Hashable, Row] = {}
    for row in rows:
        where = row.value.get("group"), row.epoch, row.position, row.value.get("end"), row.value.get("topic")
        found.setdefault((row.node, row.f, *map(str, where), bool(row.value.get("accepted"))), row)
    return list(found.values())


def _answered(wanted: Collection[Place], history: History) -> set[Written]:
    """Return what producers were answered to have written at these places."""
    physical = pa.array(sorted(group << POSITION_BITS | position for group, position in wanted), pa.int64())
    sends = history.each("op", "send", keep=lambda t: pc.is_in(t["position"], physical))
    return {(group, row.epoch, at + 1) for row in sends for group, at in [divmod(row.position, 1 << POSITION_BITS)]}


def _owners(written: Collection[Written], history: History) -> Iterator[Row]:
    """Yield how those who wrote these records, or had theirs refused, got their epochs, and the epoch after them."""
    epochs = {(group, epoch + more) for group, epoch, _ in written for more in (0, 1)}
    fences = once(row for row in history.each(GroupFenced) if (row.value.get("group"), row.epoch) in epochs)
    yield from fences
    yield from _openings({(row.value.get("slice"), row.epoch) for row in fences}, history)


def takeovers(witnesses: Iterable[Row], history: History) -> list[Row]:
    """Return how the slices that these rows name were taken over in their epochs: meta's entry, the fences, and the
    opening."""
    named = {ownership(row) if row.f == Applied.f else (row.value.get("slice"), row.epoch) for row in witnesses}
    named = {(name, epoch) for name, epoch in named if isinstance(name, str)}
    if not named:
        return []
    fences = once(row for row in history.each(GroupFenced) if (row.value.get("slice"), row.epoch) in named)
    return [*fences, *_openings(named, history)]


def _openings(owned: Collection[tuple[Any, Any]], history: History) -> Iterator[Row]:
    """Yield meta's entry by which each of these (slice, epoch) got its owner, and where that opened it."""
    yield from (row for row in history.each(SliceOpened) if (row.value.get("slice"), row.epoch) in owned)
    seen: set[tuple[Any, Any]] = set()
    for row in history.each(Applied):
        if (owner := ownership(row)) in owned and owner not in seen:
            seen.add(owner)
            yield row


def ownership(row: Row) -> tuple[Any, Any]:
    """Return (slice, epoch) of an entry of meta's log that gives a slice to a broker; of any other row two times
    None."""
    value = row.entry.get("value")
    is_owner = row.entry.get("kind") == OWNER and isinstance(value, dict)
    return (row.entry.get("name"), value.get("epoch")) if is_owner and isinstance(value, dict) else (None, None)


def _acknowledged(written: Collection[Written], history: History) -> Iterator[Row]:
    """Yield of each of these records the first row by which its broker acknowledged it."""
    acked = history.each(GroupAcked)
    for group, epoch, end in sorted(written):
        mine = (row for row in acked if row.value.get("group") == group and row.epoch == epoch)
        first = next((row for row in mine if row.position >= end), None)
        yield from [first] if first is not None else []


def _trims(
    wanted: Collection[Place], offsets: Collection[tuple[int, int]], history: History
) -> Iterator[Row]:  # fmt: skip
    """Yield on each store the first TRIM by which what lies there was gone."""
    groups, seen = {group for group, _ in wanted}, set()
    for row in history.each(Trimmed):
        starts = row.value.get("starts")
        if row.value.get("group") not in groups or not isinstance(starts, dict) or row.node in seen:
            continue
        known = ((starts.get(str(queue)), offset) for queue, offset in offsets)
        if any(isinstance(start, int) and start > offset for start, offset in known):
            seen.add(row.node)
            yield row


def links(chosen: Sequence[Row], history: History) -> Iterator[Edge]:
    """Yield which of these rows led to which, as far as both name the same entry, slice, piece or object."""
    for same in _alike(chosen):
        first = same[0]
        for row in same[1:]:
            first = row if history.before(row, first) else first
        yield from ((first, row) for row in same if row is not first)
    yield from _sent(chosen, history)
    by_f: dict[str, list[Row]] = {}
    for row in chosen:
        by_f.setdefault(row.f if row.kind == Kind.TRACE else f"{row.f} {row.type}", []).append(row)
    for one, other, is_linked in _LINKED:
        for early in by_f.get(one, ()):
            for late in by_f.get(other, ()):
                if is_linked(early, late) and history.before(early, late):
                    yield early, late


def _sent(chosen: Sequence[Row], history: History) -> Iterator[Edge]:
    """Yield edges from each send to the rows by which its message was first added, as far as it is known where."""
    for send in (row for row in chosen if (row.f, row.type) == ("send", "invoke")):
        lying = {
            divmod(row.position, 1 << POSITION_BITS)
            for row in chosen
            if row.message == send.message and row.kind in (Kind.OP, Kind.FINAL) and row.position >= 0
        }
        added = (row for row in chosen if row.f == GroupAppended.f and covers(row, lying))
        first = next((row for row in added if history.before(send, row)), None)
        yield from [(send, first)] if first is not None else []


def _alike(chosen: Iterable[Row]) -> Iterator[Sequence[Row]]:
    """Yield the rows by which different nodes applied one entry of one group's log."""
    entries: dict[Hashable, list[Row]] = {}
    for row in chosen:
        group = row.value.get("group")
        index = row.value.get("log_index", row.position if row.f in (GroupFenced.f, "members") else None)
        if row.kind == Kind.TRACE and isinstance(group, int) and isinstance(index, int):
            entries.setdefault((row.f, group, index, str(row.value.get("topic"))), []).append(row)
    yield from entries.values()


def _is_owned(entry: Row, later: Row) -> bool:
    return ownership(entry) == (later.value.get("slice"), later.epoch)


def _is_opened(fence: Row, opened: Row) -> bool:
    return (fence.value.get("slice"), fence.epoch) == (opened.value.get("slice"), opened.epoch)


def _is_acknowledged(added: Row, acked: Row) -> bool:
    end, same = added.value.get("end"), added.value.get("group") == acked.value.get("group")
    return same and added.epoch == acked.epoch and isinstance(end, int) and acked.position >= end


def _is_answered(acked: Row, answer: Row) -> bool:
    group, position = divmod(answer.position, 1 << POSITION_BITS)
    return (acked.value.get("group"), acked.node) == (group, answer.node) and acked.position > position


def _is_put(segment: Row, put: Row) -> bool:
    return segment.node == put.value.get("caller") and str(segment.value.get("digest")) in str(put.value.get("key"))


def _is_of_object(put: Row, uploaded: Row) -> bool:
    return put.value.get("key") == uploaded.value.get("key")


def _is_durable(synced: Row, added: Row) -> bool:
    ends, group = synced.value.get("groups"), added.value.get("group")
    index, until = added.value.get("log_index"), ends.get(str(group)) if isinstance(ends, dict) else None
    return isinstance(until, int) and isinstance(index, int) and until >= index


def _is_learned(entry: Row, view: Row) -> bool:
    decided, known, value = entry.entry.get("revision"), view.value.get("revision"), entry.entry.get("value")
    is_known = isinstance(decided, int) and isinstance(known, int) and decided <= known
    return is_known and isinstance(value, dict) and value.get("broker") == view.node


def _is_taken_over(view: Row, fence: Row) -> bool:
    return fence.value.get("broker") == view.node


def _is_copied(members: Row, held: Row) -> bool:
    lists = [found for name in ("voters", "learners") if isinstance(found := members.value.get(name), list)]
    mine = any(str(name).partition("#")[0] == held.node for names in lists for name in names)
    return mine and members.value.get("group") == held.value.get("group") and held.value.get("source") != "made"


def _is_wanted(entry: Row, members: Row) -> bool:
    return entry.entry.get("kind") == "group" and str(entry.entry.get("name")) == str(members.value.get("group"))


#: What leads to what: the names of both rows (of operations with their outcome), and what links the two.
_LINKED: Sequence[tuple[str, str, Callable[[Row, Row], bool]]] = (
    ("applied", GroupFenced.f, _is_owned),
    ("applied", MapView.f, _is_learned),
    (MapView.f, GroupFenced.f, _is_taken_over),
    (GroupFenced.f, SliceOpened.f, _is_opened),
    (GroupSynced.f, GroupAppended.f, _is_durable),
    (GroupAppended.f, GroupAcked.f, _is_acknowledged),
    (GroupAcked.f, "send ok", _is_answered),
    (Sealed.f, StorePut.f, _is_put),
    (StorePut.f, Uploaded.f, _is_of_object),
    ("applied", "members", _is_wanted),
    ("members", SegmentHeld.f, _is_copied),
)
