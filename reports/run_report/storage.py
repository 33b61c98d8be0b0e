"""What a storage cluster went through: who owned each slice, where groups had their replicas, and what they sealed.

The rows' classes decide: a run without them has nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from chaos.events import Applied, RaftMembers, RaftRole, Sealed, SliceClosed, SliceOpened, Uploaded
from chaos.history.history import History
from chaos.history.row import Row
from reports.faults import FaultLine
from reports.summary import Bar

#: A moment at which a lane changes: the second, and what it says from then on; "" for nothing.
Change = tuple[float, str]


#: So many slices or groups of a node are named at a moment.
NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSegments:
    """The sealed segments of a group: ``end`` is that of the last one, ``seals`` is (second of the SEAL, second of the
    UPLOADED, end) of each, in order of their ends; a segment that was not uploaded waits until the run's end."""

    end: int
    seals: Sequence[tuple[float, float, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStory:
    """What is drawn of a storage cluster. ``owners`` has a lane for each slice, ``leaders`` one for each group,
    ``moved`` one for each group whose members changed, out of ``groups`` in all."""

    owners: Sequence[Bar] = ()
    leaders: Sequence[Bar] = ()
    moved: Sequence[Bar] = ()
    groups: int = 0
    sealed: Mapping[int, SealedSegments] = field(default_factory=dict)

    @property
    def events(self) -> list[tuple[float, str]]:
        """What one can step to: who opened a slice, and which members a group then had."""
        owners = [(bar.start_s, f"{bar.lane}: {bar.label}") for bar in self.owners]
        moves = [(new.start_s, f"{new.lane}: {new.label}") for old, new in pairwise(self.moved) if old.lane == new.lane]
        return [*owners, *moves]

    @property
    def roles(self) -> Iterator[Bar]:
        """Yield what each node did for which slices or groups, from one change to the next."""
        for kind, bars in (("owner", self.owners), ("leader", self.leaders)):
            by_node: dict[str, list[tuple[float, float, str]]] = {}
            for bar in bars:
                node, _, epoch = bar.label.rpartition(" ")
                name = f"{bar.lane}: {epoch}" if kind == "owner" else bar.lane.removeprefix("group ")
                by_node.setdefault(node, []).append((bar.start_s, bar.end_s, name))
            for node, held in sorted(by_node.items()):
                yield from _together(node, kind, held)


def _together(node: str, kind: str, held: Sequence[tuple[float, float, str]]) -> Iterator[Bar]:
    moments = sorted({at for start, end, _ in held for at in (start, end)})
    for start, end in pairwise(moments):
        names = [name for begin, until, name in held if begin <= start and until >= end]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        what = "" if kind == "owner" else "groups "
        if names:
            label = f"{kind} {what}{', '.join(names[:NAMED])}{more}"
            yield Bar(lane=node, start_s=start, end_s=end, label=label, kind=kind)


def storage_story(history: History, faults: Sequence[FaultLine]) -> StorageStory:
    """Return what the rows of a run say of slices and groups."""
    leaders = list(_leaders(history, faults))
    return StorageStory(
        owners=list(_owners(history, faults)),
        leaders=leaders,
        moved=list(_moved(history)),
        groups=len({bar.lane for bar in leaders}),
        sealed=_sealed(history),
    )


def _owners(history: History, faults: Sequence[FaultLine]) -> Iterator[Bar]:
    """Yield who served each slice: from the moment when it had fenced all groups of it, to that when it closed it, its
    life ended, or the next one had fenced them."""
    opened: dict[str, list[Row]] = {}
    for row in history.each(SliceOpened):
        opened.setdefault(str(row.value.get("slice", "?")), []).append(row)
    closed = list(history.each(SliceClosed))
    for name in sorted(opened, key=_in_order):
        terms = sorted(opened[name], key=lambda row: (row.epoch, row.at_s))
        for term, after in zip(terms, [*terms[1:], None], strict=True):
            ends = [
                row.at_s for row in closed if (row.node, row.epoch) == (term.node, term.epoch) and _is_of(row, name)
            ]
            ends += [fault.start_s for fault in faults if term.node in fault.ended]
            ends += [after.at_s] if after is not None else []
            end_s = min((at for at in ends if at >= term.at_s), default=history.end_s)
            label = f"{term.node} {term.epoch}"
            yield Bar(lane=name, start_s=term.at_s, end_s=end_s, label=label, kind="master")


def _is_of(row: Row, name: str) -> bool:
    return str(row.value.get("slice", "?")) == name


def _leaders(history: History, faults: Sequence[FaultLine]) -> Iterator[Bar]:
    """Yield who led each group in which term: until it knew better, its life ended, or another one led a later term."""
    roles: dict[int, list[Row]] = {}
    for row in history.each(RaftRole):
        if (group := _number(row.value.get("group"))) >= 0:
            roles.setdefault(group, []).append(row)
    for group, found in sorted(roles.items()):
        for row in (row for row in found if row.value.get("role") == "leader"):
            ends = [one.at_s for one in found if one.index > row.index and _ends(one, row)]
            ends += [fault.start_s for fault in faults if row.node in fault.ended and fault.start_s > row.at_s]
            end_s = min(ends, default=history.end_s)
            label = f"{row.node} {row.epoch}"
            yield Bar(lane=f"group {group}", start_s=row.at_s, end_s=end_s, label=label, kind="leader")


def _ends(later: Row, leader: Row) -> bool:
    return later.node == leader.node or (later.value.get("role") == "leader" and later.epoch > leader.epoch)


def _moved(history: History) -> Iterator[Bar]:
    """Yield, of each group whose members changed, one bar for each committed membership; before them the one that it
    was born with, where rows say which."""
    changes: dict[int, dict[int, Change]] = {}
    for row in history.each(RaftMembers):
        if (group := _number(row.value.get("group"))) >= 0:
            more = _stores(row.value.get("learners"))
            words = _stores(row.value.get("voters")) + (f" (+ {more})" if more else "")
            changes.setdefault(group, {}).setdefault(row.position, (row.at_s, words))
    for row in history.each(Applied) if changes else ():
        value, group = row.entry.get("value"), _number(row.entry.get("name"))
        if row.entry.get("kind") == "group" and group in changes and isinstance(value, dict) and value.get("birth"):
            changes[group].setdefault(0, (row.at_s, _stores(value["birth"])))
    for group, by_index in sorted(changes.items()):
        yield from _bars(f"group {group}", [by_index[index] for index in sorted(by_index)], history.end_s)


def _bars(lane: str, changes: Sequence[Change], end_s: float) -> Iterator[Bar]:
    for (start, label), after in zip(changes, [*(at for at, _ in changes[1:]), end_s], strict=True):
        yield Bar(lane=lane, start_s=start, end_s=max(after, start), label=label, kind="slave")


def _sealed(history: History) -> dict[int, SealedSegments]:
    """Return what each group has sealed, by the first store that applied the SEAL, and the first that knew of the
    object."""
    sealed: dict[int, dict[tuple[int, int], float]] = {}
    for row in history.each(Sealed):
        place = (_number(row.value.get("end")), _number(row.value.get("topic")))
        sealed.setdefault(_number(row.value.get("group")), {}).setdefault(place, row.at_s)
    uploaded: dict[tuple[int, ...], float] = {}
    for row in history.each(Uploaded):
        uploaded.setdefault(tuple(_number(row.value.get(name)) for name in ("group", "end", "topic")), row.at_s)
    return {
        group: SealedSegments(
            end=max(end for end, _ in found),
            seals=[
                (at_s, uploaded.get((group, end, topic), history.end_s), end)
                for (end, topic), at_s in sorted(found.items())
            ],
        )
        for group, found in sorted(sealed.items())
        if group >= 0
    }


def _stores(replicas: Any) -> str:
    """Return the stores of these replicas, each with its number; the number of its disk says nothing to readers."""
    names = replicas if isinstance(replicas, list) else []
    return ", ".join(str(name).partition("#")[0] for name in names)


def _number(value: Any) -> int:
    """Return a number that stands in a row, also as the name of an entry; -1 for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _in_order(name: str) -> tuple[str, int]:
    head, _, number = name.rpartition("-")
    return head, _number(number)
