"""What one run went through, in words that other runs share: events, hits of faults, and abstract states.

A node's name, an epoch's number or an offset is another one in each run. So a broker becomes its role, an epoch a
change of masters, and the confirm offsets and the tier's end become the order in which they stand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chaos.events import Applied, Confirm, RaftRole, Role, SyncStateSet, TierView
from chaos.fault import Effect
from chaos.history.history import History
from chaos.history.row import Row
from chaos.history.run_meta import RunMeta
from reports.faults import FaultLine, fault_lines
from reports.sweeps.row import Seen

#: So long after an election a fault counts as one that came right after it.
JUST_S = 1.0
#: So many changes of masters are distinguished.
CHANGES = 5


class Moment(StrEnum):
    """What state the cluster was in when a fault hit it. The first one that fits counts."""

    NO_MASTER = "no master"
    TWO_MASTERS = "two masters"
    AFTER_ELECTION = "just elected"
    SMALL_SET = "set not full"
    OTHER_FAULT = "other fault"
    STEADY = "steady"


@dataclass(slots=True, kw_only=True)
class _Cluster:
    """The cluster at one time, as its rows have shown it until then."""

    nodes: Mapping[str, str]
    groups: int
    roles: dict[tuple[str, str], str] = field(default_factory=dict)  # (node, group) → role
    raft: dict[str, str] = field(default_factory=dict)
    sets: dict[str, int] = field(default_factory=dict)  # group → members
    active: dict[str, FaultLine] = field(default_factory=dict)
    elected_s: float = float("-inf")

    def down(self) -> set[str]:
        return {node for fault in self.active.values() for node in fault.proven.get(Effect.TAKES_DOWN, ())}

    def masters(self) -> int:
        down = self.down()
        return sum(role == "master" and node not in down for (node, _), role in self.roles.items())

    def role_of(self, node: str) -> str:
        own = {role for (name, _), role in self.roles.items() if name == node}
        own |= {self.raft[node]} if node in self.raft else set()
        return "+".join(sorted(own)) or self.nodes.get(node, "node")

    def full(self) -> bool:
        brokers = sum(role == "broker" for role in self.nodes.values())
        return sum(self.sets.values()) >= brokers if self.sets else True

    def moment(self, at_s: float, fault: FaultLine) -> Moment:
        if self.roles and self.masters() != self.groups:
            return Moment.NO_MASTER if self.masters() < self.groups else Moment.TWO_MASTERS
        if at_s - self.elected_s < JUST_S:
            return Moment.AFTER_ELECTION
        if not self.full():
            return Moment.SMALL_SET
        return Moment.OTHER_FAULT if any(one != fault.id for one in self.active) else Moment.STEADY

    def state(self, order: str) -> str:
        down = self.down()
        parts = []
        if self.roles:
            slaves = sum(role == "slave" and node not in down for (node, _), role in self.roles.items())
            parts.append(f"{self.masters()} masters, {slaves} slaves, set {sum(self.sets.values())}")
        if self.raft:
            leaders = sum(role == "leader" and node not in down for node, role in self.raft.items())
            parts.append(f"{leaders} leaders")
        parts += [f"{len(down)} down"] if down else []
        parts += [order] if order else []
        names = sorted({fault.name for fault in self.active.values()})
        return "; ".join([*parts, " + ".join(names) or "no fault"])


class _Order:
    """How the tier's end and the confirm offsets of the brokers stand to each other, at any time."""

    def __init__(self, history: History) -> None:
        self._confirm = {node: _steps(history, Confirm, node) for node in _nodes_with(history, Confirm)}
        self._tier = {node: _steps(history, TierView, node) for node in _nodes_with(history, TierView)}

    def at(self, at_s: float) -> str:
        tier = [place for steps in self._tier.values() if (place := _last(steps, at_s)) >= 0]
        confirmed = [place for steps in self._confirm.values() if (place := _last(steps, at_s)) >= 0]
        if not confirmed:
            return ""
        even = "confirmed alike" if min(confirmed) == max(confirmed) else "confirmed apart"
        if not tier:
            return even
        if max(tier) <= min(confirmed):
            return f"{even}, tier behind all"
        return f"{even}, tier ahead of {'some' if max(tier) <= max(confirmed) else 'all'}"


_Steps = tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.int64]]]


def _nodes_with(history: History, event: type[Confirm | TierView]) -> list[str]:
    return sorted(map(str, pc.unique(history.rows(event)["node"]).to_pylist()))


def _steps(history: History, event: type[Confirm | TierView], node: str) -> _Steps:
    traced = history.rows(event)
    traced = traced.filter(pc.equal(traced["node"], node))
    return history.seconds(traced), traced["position"].to_numpy()


def _last(steps: _Steps, at_s: float) -> int:
    at = int(np.searchsorted(steps[0], at_s, side="right")) - 1
    return int(steps[1][at]) if at >= 0 else -1


def observe(history: History) -> Seen:
    """Return what a run went through. Of a system that traces nothing there are the
    faults, and what clients were answered."""
    faults = [fault for fault in fault_lines(history) if fault.effective == "yes"]
    events: dict[str, float] = {}
    hits: Counter[str] = Counter()
    states: set[str] = set()
    order = _Order(history)
    cluster = _Cluster(nodes=_roles(history.meta), groups=_groups(history.meta))
    for at_s, change in _changes(history, faults):
        if isinstance(change, FaultLine) and change.id not in cluster.active:
            _strike(cluster, change, at_s, events, hits)
        elif isinstance(change, FaultLine):
            del cluster.active[change.id]
        else:
            _take(cluster, change, at_s)
        states.add(cluster.state(order.at(at_s)))
        if cluster.roles and cluster.masters() > cluster.groups:
            events.setdefault("two masters at once", at_s)
    for name, at_s in (*_traced(history), *_asked(history), *_entries(history)):
        events[name] = min(at_s, events.get(name, float("inf")))
    rounded = {name: round(at_s, 6) for name, at_s in sorted(events.items())}
    return Seen(events=rounded, hits=dict(sorted(hits.items())), states=tuple(sorted(states)))


def faults_before(history: History, at_s: float) -> int:
    """Return how many faults had had an effect before this second."""
    return sum(fault.effective == "yes" and fault.start_s < at_s for fault in fault_lines(history))


def _strike(cluster: _Cluster, fault: FaultLine, at_s: float, events: dict[str, float], hits: Counter[str]) -> None:
    moment = cluster.moment(at_s, fault)
    for node in filter(None, fault.targets.split(", ")):
        role = cluster.role_of(node)
        hits[f"{fault.name}|{role}|{moment}"] += 1
        events.setdefault(f"{fault.name} of a {role}", at_s)
        if moment is not Moment.STEADY:
            events.setdefault(f"{fault.name}, {moment}", at_s)
    events.setdefault(f"a fault: {fault.name}", at_s)
    for other in cluster.active.values():
        events.setdefault(f"{fault.name} during {other.name}", at_s)
    cluster.active[fault.id] = fault


def _take(cluster: _Cluster, row: Row, at_s: float) -> None:
    value, node = row.value, row.node
    group = str(value.get("group", ""))
    if row.f == "raft":
        cluster.raft[node] = str(value.get("role", "?"))
        return
    if row.f == "role":
        role = str(value.get("role", "?"))
        if role == "master":
            cluster.elected_s = at_s
        cluster.roles[node, group] = role
    members = value.get("set")
    if isinstance(members, Sequence) and cluster.roles.get((node, group)) == "master":
        cluster.sets[group] = len(members)


def _changes(history: History, faults: Iterable[FaultLine]) -> Iterator[tuple[float, FaultLine | Row]]:
    """Yield all that changes the state, by time; a fault comes twice, where it begins and where it ends."""
    traced = history.each(Role, RaftRole, SyncStateSet)
    found: list[tuple[float, int, FaultLine | Row]] = [(row.at_s, row.index, row) for row in traced]
    for fault in faults:
        found += [(fault.start_s, -1, fault), (max(fault.start_s, fault.end_s), -1, fault)]
    yield from ((at_s, change) for at_s, _, change in sorted(found, key=lambda one: one[:2]))


def _traced(history: History) -> Iterator[tuple[str, float]]:
    """Yield the first time of each kind of trace."""
    first = history.rows("trace").group_by("f").aggregate([("time_ns", "min")])
    for name, time_ns in zip(first["f"].to_pylist(), first["time_ns_min"].to_pylist(), strict=True):
        yield f"a node reports `{name}`", history.second(time_ns)


def _asked(history: History) -> Iterator[tuple[str, float]]:
    """Yield the first operation of each kind that failed, or got no answer."""
    operations = history.rows("op")
    ended = operations.filter(pc.is_in(operations["type"], pa.array(["fail", "info"])))
    first = ended.group_by(["f", "type"]).aggregate([("time_ns", "min")]).to_pylist()
    for one in sorted(first, key=lambda one: (one["f"], one["type"])):
        how = "is refused" if one["type"] == "fail" else "gets no answer"
        yield f"a {one['f']} {how}", history.second(one["time_ns_min"])


def _entries(history: History) -> Iterator[tuple[str, float]]:
    """Yield what the controllers decided, each decision once: kinds of entries, and changes of masters by their
    number."""
    epochs: dict[str, list[int]] = {}
    for row in history.each(Applied):
        entry = row.value.get("entry")
        if not isinstance(entry, Mapping) or entry.get("type") in ("noop", "none"):
            continue
        at_s = row.at_s
        words = [word for word in ("unclean", "bootstrap", "masterless") if entry.get(word) is True]
        yield " ".join([f"the controllers decide `{entry.get('type')}`", *words]), at_s
        if entry.get("type") != "elect" or not isinstance(entry.get("master_epoch"), int):
            continue
        known = epochs.setdefault(str(entry.get("group", "")), [])
        if not known or entry["master_epoch"] > known[-1]:
            known.append(entry["master_epoch"])
            if 1 < len(known) <= CHANGES:
                yield f"change of masters number {len(known) - 1}", at_s


def first_row_s(history: History, wanted: Sequence[Sequence[int]]) -> float:
    """Return the earliest second at which all rows of one of these lists had happened; the end of the run if none has
    any."""
    second = {row.index: row.at_s for row in history.numbered({index for one in wanted for index in one})}
    ends = [max(found) for one in wanted if (found := [second[index] for index in one if index in second])]
    return min(ends, default=history.end_s)


def _roles(meta: RunMeta) -> dict[str, str]:
    return {node.name: node.role for node in meta.nodes}


def _groups(meta: RunMeta) -> int:
    return max(1, len({queue.group for queue in meta.queues}))
