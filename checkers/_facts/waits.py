"""Who waited for whom, and for what, when a system should have been whole: from what brokers and controllers said last.

A timeout says only that something did not happen. Each wait here stands on the last row of the one that waits, or on
the last decision of the controllers about its group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.fault import Effect
from chaos.shard_rows import Rows
from checkers._facts.faults import faults, in_force

CONTROLLERS = "the controllers"
#: So many waits are written out in words.
NAMED = 6
#: What a node is held by, so that a node that waits for it waits for the end of the fault.
HOLDS = (Effect.TAKES_DOWN, Effect.ISOLATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """``who`` waits for ``whom``; ``what`` completes "waits for ... to". ``index``: of the row that shows it."""

    who: str
    whom: str
    what: str
    index: int


@dataclass(slots=True, kw_only=True)
class _Group:
    """What the controllers decided last: the master ("" for none) and the SyncStateSet, and in which row. ``roles``:
    the last of each node, and its row; ``gone``: nodes that an error of their own ended, and in which row; ``out``:
    those that a fault holds, and in which row it began."""

    master: str = ""
    members: tuple[str, ...] = ()
    index: int = -1
    position: int = -1
    roles: dict[str, tuple[Mapping[str, Any], int]] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)
    out: dict[str, int] = field(default_factory=dict)


def waits(rows: Rows, until: int) -> list[Wait]:
    """Return all waits that the rows before the row ``until`` show, by group and node. None where no controller
    reported a decision: then it is unknown what is to come."""
    groups = _decided(rows, until)
    _take_roles(rows, until, groups)
    now_ns = int(rows.column("time_ns")[until])
    out = {node: one.index for one in in_force(rows.memo(faults), now_ns) for node in one.hits(*HOLDS)}
    for group in groups.values():
        group.out = out
    return [wait for name in sorted(groups) for wait in _of_group(groups[name])]


def of_reader(rows: Rows, until: int, reader: str, what: str) -> list[Wait]:
    """Return the wait of a reader for the masters to do something, and all other waits; ``until`` is a row of the
    reader."""
    groups, index = _decided(rows, until), int(rows.column("index")[until])
    masters = sorted({group.master or CONTROLLERS for group in groups.values()})
    if not masters:
        return []
    return [Wait(who=reader, whom=" or ".join(masters), what=what, index=index), *waits(rows, until)]


def _decided(rows: Rows, until: int) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    position, index = rows.column("position"), rows.column("index")
    for at in _before(rows, "applied", until):
        entry = rows.value(at).get("entry")
        if not isinstance(entry, Mapping) or "group" not in entry or entry.get("unattended") is True:
            continue
        group = groups.setdefault(str(entry["group"]), _Group())
        if int(position[at]) <= group.position:  # another controller applies what is known
            continue
        group.position = int(position[at])
        if entry.get("type") == "elect":
            group.master, group.index = str(entry.get("master") or ""), int(index[at])
        elif entry.get("type") == "masterless" or entry.get("masterless") is True:
            group.master, group.index = "", int(index[at])
        if isinstance(entry.get("set"), list):
            group.members, group.index = tuple(sorted(map(str, entry["set"]))), int(index[at])
    return {name: group for name, group in groups.items() if group.index >= 0}


def _take_roles(rows: Rows, until: int, groups: Mapping[str, _Group]) -> None:
    """Note the last role of each node; one that was started, or ended by its own error, afterwards has none."""
    started = {rows.text("node", at): at for at in _before(rows, "start", until)}
    crashed = {rows.text("node", at): at for at in _before(rows, "crash", until)}
    gone = {node for node, at in crashed.items() if at > started.get(node, -1)}
    for at in _before(rows, "role", until):
        value, node = rows.value(at), rows.text("node", at)
        name = str(value.get("group", ""))
        group = groups.get(name) or (next(iter(groups.values())) if len(groups) == 1 else None)
        if group is not None:
            since = {} if started.get(node, -1) > at else value
            group.roles[node] = since, int(rows.column("index")[at])
            if node in gone:
                group.gone[node] = int(rows.column("index")[crashed[node]])


def _of_group(group: _Group) -> Iterator[Wait]:
    for node, index in sorted(group.gone.items()):
        group.roles.pop(node)
        who = CONTROLLERS if group.master in ("", node) else group.master
        yield Wait(who=who, whom=node, what="come back, which an error of its own has ended", index=index)
    if not group.master:
        for node, (_, index) in sorted(group.roles.items()):
            yield Wait(who=node, whom=CONTROLLERS, what="elect a master", index=index)
        for node in group.members:
            what = "be there to be elected, as one of the SyncStateSet"
            yield Wait(who=CONTROLLERS, whom=node, what=what, index=group.index)
        return
    for node, (value, index) in sorted(group.roles.items()):
        role, master = str(value.get("role", "")), str(value.get("master") or "")
        if node == group.master:
            if role != "master":
                yield Wait(who=node, whom=CONTROLLERS, what="notify it that it was elected", index=index)
        elif role == "master":
            yield Wait(who=node, whom=CONTROLLERS, what=f"notify it that {group.master} was elected", index=index)
        elif role != "slave":
            yield Wait(who=node, whom=CONTROLLERS, what="name the master that it is to follow", index=index)
        elif master and master != group.master:
            yield Wait(who=node, whom=master, what=f"give it records, though {group.master} was elected", index=index)
        elif node not in group.members:
            what = f"take it into the SyncStateSet ({', '.join(group.members) or 'empty'})"
            yield Wait(who=node, whom=group.master, what=what, index=group.index)
    for node in group.members:
        if node in group.out and node != group.master:
            what = "store its records, as one of the SyncStateSet that a fault holds"
            yield Wait(who=group.master, whom=node, what=what, index=group.out[node])
        elif node not in group.roles and node not in group.gone:
            yield Wait(
                who=group.master, whom=node, what="take a role, of which it has reported none", index=group.index
            )


def _before(rows: Rows, f: str, until: int) -> Iterable[int]:
    return (at for at in rows.where(kind="trace", f=f).tolist() if at < until)


def in_words(found: Sequence[Wait]) -> str:
    """Return the waits as a sentence that follows another one, with a circle in them if there is one; "" for none."""
    if not found:
        return ""
    sentences = [f"{one.who} waits for {one.whom} to {one.what}" for one in found[:NAMED]]
    left = len(found) - NAMED
    more = [f"{left} more {'waits' if left == 1 else 'wait'}"] if left > 0 else []
    circle = _circle(found)
    end = f" {' and '.join(circle)} wait for each other." if circle else ""
    return f" At that time {'; '.join([*sentences, *more])}.{end}"


def _circle(found: Sequence[Wait]) -> list[str]:
    """Return some who wait for each other, the one after the other; empty if nobody does."""
    after: dict[str, list[str]] = {}
    for one in found:
        after.setdefault(one.who, []).append(one.whom)
    for begin in sorted(after):
        paths = [[begin]]
        seen = {begin}
        while paths:
            path = paths.pop()
            for whom in after.get(path[-1], ()):
                if whom == begin:
                    return path
                if whom not in seen:
                    seen.add(whom)
                    paths.append([*path, whom])
    return []
