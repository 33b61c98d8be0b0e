"""The faults of a run, known by their effects alone: which nodes each is proven to have hit, how, and when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chaos.fault import ACCIDENT, Effect
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER, Flags, Ints
from checkers._facts.run import brokers, phase_time


@dataclass(frozen=True, slots=True)
class Fault:
    """One injection. ``process`` is its id. ``effects`` are those that it declares, each with the nodes that it is
    proven to have hit (perhaps none); None where it declares nothing, so that its effects are unknown. ``began_ns`` is
    the time of its first row, or the earlier one that it names as its beginning (``since_ns``); ``until_ns`` is the
    time of its undo or, of one that failed, of its failure; :data:`NEVER` if there was neither. ``unplanned``: an
    accident of the machine, which the harness did not ask for. ``clients``: of a fault on clients, those that are seen
    to have felt it; None where that is not reported, so that all may have. ``lost_data``: nodes whose disks were
    compared, and found to have lost files or blocks in a power cut."""

    process: str
    targets: frozenset[str]
    effects: Mapping[str, frozenset[str]] | None
    began_ns: int
    from_ns: int
    until_ns: int
    index: int
    lost_data: frozenset[str] = frozenset()
    unplanned: bool = False
    clients: frozenset[str] | None = None

    def hits(self, *effects: str) -> frozenset[str]:
        """Return the nodes for which one of these effects is proven."""
        known = self.effects or {}
        return frozenset(node for effect in effects for node in known.get(effect, ()))

    def may_hit(self, node: str) -> bool:
        """Of a fault that declares nothing: may it have done anything at all to this node?"""
        return self.effects is None and (not self.targets or node in self.targets)


@dataclass(slots=True)
class _Entry:
    """What the rows of one injection have reported so far."""

    targets: set[str] = field(default_factory=set)
    declared: set[str] | None = None
    proven: dict[str, set[str]] = field(default_factory=dict)
    began_ns: int = -1
    from_ns: int = -1
    until_ns: int = NEVER
    index: int = -1
    failed: bool = False
    lost_data: set[str] = field(default_factory=set)
    unplanned: bool = False
    clients: frozenset[str] | None = None

    def prove(self, reported: Mapping[str, Any]) -> None:
        for effect, nodes in (reported.get("proven") or {}).items():
            self.proven.setdefault(str(effect), set()).update(map(str, nodes))
        for node, shown in (reported.get("proof") or {}).items():
            if isinstance(shown, Mapping) and any(shown.get(lost) for lost in ("files_lost", "blocks_lost")):
                self.lost_data.add(str(node))


def faults(rows: Rows) -> Sequence[Fault]:
    """Return all injections, in the order in which they took effect; also those that failed, for what they did until
    then. Of one whose outcome is not on record the effects are unknown."""
    entries: dict[str, _Entry] = {}
    times, index = rows.column("time_ns"), rows.column("index")
    for at in rows.where(kind="fault").tolist():
        _note(entries.setdefault(rows.text("process", at), _Entry()), rows, at, int(times[at]), int(index[at]))
    found = [_fault(process, entry) for process, entry in entries.items()]
    return sorted(found, key=lambda fault: (fault.from_ns, fault.process))


def disk_may_be_harmed(rows: Rows, node: str, until_ns: int) -> bool:
    """May a fault have changed, by then, what this node's disk held?"""
    known = (fault for fault in rows.memo(faults) if fault.began_ns <= until_ns)
    return any(node in fault.hits(Effect.LOSES_DISK) or fault.may_hit(node) for fault in known)


def _note(entry: _Entry, rows: Rows, at: int, now_ns: int, index: int) -> None:
    value, type = rows.value(at), rows.text("type", at)
    entry.unplanned |= rows.text("f", at) == ACCIDENT
    node = rows.text("node", at)
    entry.targets.update(map(str, value.get("targets") or ([node] if node else [])))
    if type == "invoke":
        since_ns = (value.get("detail") or {}).get("since_ns", now_ns)
        entry.began_ns, entry.index = min(now_ns, since_ns) if isinstance(since_ns, int) else now_ns, index
        if "effects" in value:
            entry.declared = set(map(str, value["effects"] or ()))
    elif type == "ok":
        entry.prove(value)
        if value.get("phase") == "undo":
            entry.until_ns = now_ns
            felt = (value.get("proof") or {}).get("clients")
            entry.clients = frozenset(map(str, felt)) if isinstance(felt, list) else None
        elif entry.from_ns < 0:
            entry.from_ns = now_ns
    elif type == "fail":
        entry.prove(value)
        entry.failed = True
        if entry.from_ns < 0:
            entry.until_ns = now_ns


def _fault(process: str, entry: _Entry) -> Fault:
    known = entry.declared is not None and (entry.from_ns >= 0 or entry.failed)
    effects = {effect: frozenset(entry.proven.get(effect, ())) for effect in sorted(entry.declared or ())}
    from_ns = entry.from_ns if entry.from_ns >= 0 else entry.began_ns
    return Fault(
        process=process,
        targets=frozenset(entry.targets),
        effects=effects if known else None,
        began_ns=entry.began_ns if entry.began_ns >= 0 else from_ns,
        from_ns=from_ns,
        until_ns=entry.until_ns,
        index=entry.index,
        lost_data=frozenset(entry.lost_data),
        unplanned=entry.unplanned,
        clients=entry.clients,
    )


def destroyers(context: RunContext) -> tuple[Effect, ...]:
    """Return the effects that take from a replica what it was counted on to hold: under asynchronous flush a crash
    does."""
    return (Effect.LOSES_DISK, *((Effect.MAY_CRASH,) if context.profile.flush == "async" else ()))


@dataclass(frozen=True, slots=True)
class Destruction:
    """The row of the entry by which the controllers learned that the only sure copy was gone, the fault that destroyed
    it, and on which replica. ``certain``: the fault is proven to; else it declares nothing, so that it may have."""

    at: int
    replica: str
    fault: Fault
    certain: bool

    @property
    def why(self) -> str:
        did = "destroyed" if self.certain else "may have destroyed (it declares no effects)"
        return f"{self.fault.process} {did} what the only member of the SyncStateSet, {self.replica}, held"


def only_copy_destroyed(rows: Rows, context: RunContext) -> Destruction | None:
    """Return how the run itself took from a group the last replica that was sure to hold everything, if it did: the
    last member of the SyncStateSet lost what its disk held or, under asynchronous flush, crashed, and since it had
    become a member. Nothing is owed after that."""
    found: Destruction | None = None
    index = rows.column("index")
    for at in rows.where(kind="trace", f="applied").tolist():
        entry = rows.value(at).get("entry") or {}
        if entry.get("type") not in ("register", "apply_id") or not entry.get("removed") or entry.get("set") != []:
            continue
        replica = str(entry.get("broker", ""))
        since_ns = _member_since_ns(rows, at, replica)
        before = [one for one in rows.memo(faults) if one.index < index[at] and one.until_ns >= since_ns]
        sure = [fault for fault in before if replica in fault.hits(*destroyers(context))]
        if sure:
            return Destruction(at, replica, sure[-1], True)
        perhaps = [fault for fault in before if fault.may_hit(replica)]
        if perhaps and found is None:
            found = Destruction(at, replica, perhaps[-1], False)
    return found


def _member_since_ns(rows: Rows, until: int, replica: str) -> int:
    """Return when this replica came into the set that it was in before the entry of this row; -1 where that is not
    known."""
    place, times = rows.column("position"), rows.column("time_ns")
    group, since_ns, seen = (rows.value(until).get("entry") or {}).get("group"), -1, set[int]()
    applied = rows.where(kind="trace", f="applied")
    applied = applied[place[applied] < place[until]]
    for at in applied[np.argsort(place[applied], kind="stable")].tolist():
        entry = rows.value(at).get("entry") or {}
        if int(place[at]) in seen or entry.get("group") != group or not isinstance(entry.get("set"), list):
            continue
        seen.add(int(place[at]))
        if replica not in entry["set"]:
            since_ns = -1
        elif since_ns < 0:
            since_ns = int(times[at])
    return since_ns


def all_destroyed(rows: Rows, context: RunContext) -> str:
    """Return how the run itself destroyed, or may have, every copy that was sure ("" if it didn't)."""
    if why := _all_disks_destroyed(rows, context):
        return why
    only = only_copy_destroyed(rows, context)
    return only.why if only is not None else ""


def _all_disks_destroyed(rows: Rows, context: RunContext) -> str:
    """Did all replicas lose what their disks held, with no moment in between at which all were well again?"""
    known = rows.memo(faults)
    for fault in known:
        names = set(brokers(rows, context, fault.from_ns))
        at_once = [one for one in known if one.from_ns <= fault.from_ns <= one.until_ns]
        sure = {node for one in at_once for node in one.hits(Effect.LOSES_DISK)}
        if names and names <= sure:
            return "the run itself destroyed what every replica's disk held"
        if names and names <= sure | {name for name in names for one in at_once if one.may_hit(name)}:
            return "faults that declare no effects may have destroyed what every replica's disk held"
    return ""


def service_ended(rows: Rows, context: RunContext) -> tuple[int, int, bool]:
    """From when until when nobody could be master because the run had destroyed the only sure copy: to the next
    election, if there was one; and whether that is certain. (NEVER, NEVER, True) if that did not happen."""
    destroyed, times, place = only_copy_destroyed(rows, context), rows.column("time_ns"), rows.column("position")
    if destroyed is None:
        return NEVER, NEVER, True
    applied = rows.where(kind="trace", f="applied")
    applied = applied[place[applied] > place[destroyed.at]]
    group = (rows.value(destroyed.at).get("entry") or {}).get("group")
    entries = [(at, rows.value(at).get("entry") or {}) for at in applied.tolist()]
    elections = [at for at, entry in entries if entry.get("type") == "elect" and entry.get("group") == group]
    return int(times[destroyed.at]), min((int(times[at]) for at in elections), default=NEVER), destroyed.certain


def calm_times(rows: Rows) -> list[tuple[int, int]]:
    """Return the stretches of time, from the load until the drain ends, in which no fault was in force that is proven
    to have done anything to anybody, or whose effects are unknown. None where a host was lost, nor after a drain in a
    run that did not recover."""
    begin, end = phase_time(rows, "load"), phase_time(rows, "collect")
    recovered = len(rows.where(kind="harness", f="recovered")) > 0
    end = end if end >= 0 and recovered else phase_time(rows, "heal")
    if begin < 0 or end < 0 or len(rows.where(kind="harness", f="host_lost")):
        return []
    return [(max(one, begin), min(two, end)) for one, two in quiet(_disturbing(rows), end) if min(two, end) > begin]


def were_calm(rows: Rows, since_ns: Ints, until_ns: Ints) -> Flags:
    """In which of these spans of time was no such fault in force?"""
    calm = np.ones(len(since_ns), dtype=np.bool_)
    for one in rows.memo(_disturbing):
        calm &= (one.began_ns > until_ns) | (one.until_ns < since_ns)
    return calm


def _disturbing(rows: Rows) -> Sequence[Fault]:
    return [fault for fault in rows.memo(faults) if fault.effects is None or disturbs(fault)]


def disturbs(fault: Fault) -> bool:
    """Is it proven to have done anything at all to a node?"""
    return bool(fault.hits(*Effect))


def quiet(known: Sequence[Fault], last_ns: int) -> list[tuple[int, int]]:
    """Return the stretches of time, up to this one, in which none of these faults was in force."""
    found, free_from = [], 0
    for fault in sorted(known, key=lambda fault: fault.began_ns):
        if fault.began_ns > free_from:
            found.append((free_from, fault.began_ns))
        free_from = max(free_from, min(fault.until_ns, last_ns))
    return [*found, (free_from, last_ns)]


def in_force(known: Iterable[Fault], at_ns: int) -> list[Fault]:
    """Those of the faults that were in force at this time."""
    return [fault for fault in known if fault.began_ns <= at_ns < fault.until_ns]
