"""Which rows of the run of ``tests/scenarios/split/pictures.yaml`` the pictures of ``docs/design/split.md`` draw."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path

from chaos.events import (
    Applied,
    GroupAcked,
    GroupAppended,
    GroupFenced,
    GroupSynced,
    MapView,
    RaftMembers,
    RaftRole,
    Sealed,
    SegmentHeld,
    SliceOpened,
    StorePut,
    Uploaded,
)
from chaos.history.history import History
from chaos.history.row import Row
from checkers.placement import POSITION_BITS

#: What takes longer belongs to something else, such as a replica that is made later.
SOON_S = 1.0


def first_of_each(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> list[Row]:
    """Return the first row of each key: what all metas apply is drawn once."""
    found: dict[Hashable, Row] = {}
    for row in rows:
        found.setdefault(key(row), row)
    return list(found.values())


def entries(history: History, kind: str, after: Row) -> list[Row]:
    """Return what meta decided of this kind after a row, each entry once."""
    rows = (row for row in history.each(Applied) if row.index > after.index and row.entry.get("kind") == kind)
    return first_of_each(rows, lambda row: (row.entry.get("name"), row.entry.get("revision")))


def fault(history: History, name: str) -> Row:
    return next(row for row in history.each("fault", name) if row.type == "invoke")


def call(history: History, send: Row) -> list[Row]:
    """Return an answered send with its call."""
    return [history.row(send.op), send]


def opened(history: History) -> list[Row]:
    """The owner is killed: how another broker gets its slice, until the first send that it acknowledges."""
    kill = fault(history, "kill")
    gone = next(row for row in entries(history, "broker", kill) if row.entry["value"]["state"] == "gone")
    owner = entries(history, "owner", kill)[0]
    epoch = owner.entry["value"]["epoch"]
    opening = next(row for row in history.each(SliceOpened) if row.epoch == epoch)
    revision = owner.entry["revision"]
    views = (row for row in history.each(MapView) if row.node == opening.node and row.value["revision"] >= revision)
    fences = [row for row in history.each(GroupFenced) if row.epoch == epoch and row.index < opening.index]
    sent = (row for row in history.each("op", "send") if (row.type, row.epoch) == ("ok", epoch))
    return [kill, gone, owner, next(views), *fences, opening, *call(history, next(sent))]


def appended(history: History) -> list[Row]:
    """One send: what a majority has synced is applied by the leader, and then acknowledged."""
    sends = [row for row in history.each("op", "send") if row.type == "ok" and row.at_s > 3]
    group, position = divmod(sends[0].position, 1 << POSITION_BITS)
    added = [row for row in history.each(GroupAppended) if (row.value["group"], row.position) == (group, position)]
    index = added[0].value["log_index"]
    reached = (row for row in history.each(GroupSynced) if row.value["groups"].get(str(group), -1) >= index)
    acked = (row for row in history.each(GroupAcked) if row.value["group"] == group and row.position > position)
    synced = first_of_each(reached, lambda row: row.node)
    found = [*call(history, sends[0]), *synced, *first_of_each(added, lambda row: row.node), next(acked)]
    return [row for row in found if row.at_s < sends[0].at_s + SOON_S]  # not who gets the group's log later


def sealed(history: History) -> list[Row]:
    """A segment ends: it gets a file on each store, then an object, which all count on."""
    first = next(iter(history.each(Sealed)))

    def same(row: Row) -> bool:
        return all(row.value.get(name) == first.value[name] for name in ("group", "end", "digest"))

    found = [row for row in history.each(Sealed, SegmentHeld, Uploaded) if same(row)]
    puts = [row for row in history.each(StorePut) if first.value["digest"] in row.value["key"]]
    found = first_of_each([*found, *puts], lambda row: (row.node, row.f))
    return [row for row in found if row.at_s < first.at_s + SOON_S]


def store_dies(history: History) -> list[Row]:
    """A store that leads a group is gone: the next leader, the new replica, its segments, and the old one's end."""
    loss = fault(history, "store_loss")
    later = [row for row in history.each(RaftRole) if row.index > loss.index and row.value.get("group") is not None]
    leader = next(row for row in later if row.value["role"] == "leader")
    group = leader.value["group"]
    gone = next(row for row in entries(history, "store", loss) if row.entry["value"]["state"] == "gone")
    mine = [row for row in entries(history, "group", loss) if row.entry["name"] == str(group)]
    rows = (row for row in history.each(RaftMembers) if row.index > loss.index and row.value["group"] == group)
    members = first_of_each(rows, lambda row: row.position)[:3]
    newcomer = members[0].value["learners"][0].partition("#")[0]
    held = [row for row in history.each(SegmentHeld) if row.node == newcomer and row.value["group"] == group]
    copied = [row for row in held if row.value["source"] != "made"][:3]
    settled = next(row for row in mine if row.entry["value"]["voters"] == members[-1].value["voters"])
    return [loss, leader, gone, mine[0], *members, *copied, settled]


#: The pictures by name, each with its title.
PICTURES: Mapping[str, tuple[str, Callable[[History], list[Row]]]] = {
    "open": ("How a slice is opened", opened),
    "append": ("How records are appended", appended),
    "seal": ("How a segment is sealed", sealed),
    "store-dies": ("How a group gets its third replica again", store_dies),
}


def rows_of(history: History, name: str) -> list[Row]:
    """Return the rows of a picture in their order."""
    found = {row.index: row for row in PICTURES[name][1](history)}
    return [found[index] for index in sorted(found)]


def picture_file(docs: Path, name: str) -> Path:
    return docs / "design" / f"split-{name}.svg"
