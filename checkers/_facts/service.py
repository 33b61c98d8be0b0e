"""When service is owed: enough nodes are well, and no fault is in force that may have interrupted it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

import numpy as np

from chaos.fault import Effect
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts import clients
from checkers._facts.arrays import Flags, Ints
from checkers._facts.faults import Fault, faults, in_force, service_ended
from checkers._facts.run import brokers, phase_time, replica_groups

#: Effects that take nodes out of service, and those that owe no interruption of sends at all.
TAKES_OUT = (Effect.TAKES_DOWN, Effect.ISOLATES)
HARMLESS = (Effect.HARMS_TIER, Effect.ADDS_REPLICA)
#: How an effect names all clients of the run.
CLIENT = "client"


class Owed(IntEnum):
    """Is service owed at a moment? PERHAPS: a fault is in force whose effects are unknown."""

    NO = 0
    PERHAPS = 1
    YES = 2


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which clients must be served again within the bound: ``certain``, or if the faults of unknown effect
    that were in force did nothing. ``cause`` is the index of the row of the fault that began it, -1 if none did."""

    begin: int
    end: int
    cause: int
    certain: bool


def stretches(
    rows: Rows, context: RunContext, bound_ns: int, *, of_reads: bool = False, by_client: bool = False
) -> list[Stretch]:
    """Return the stretches of the load in which sends must be served, or reads, which need the tier as well; each
    change of who is out begins a new one. A load whose beginning or end is not recorded lasts from the first of the
    sends that are here to the last one: in a history without such phases nothing else shows that there was load.
    ``by_client``: while a fault is in force that some clients alone have felt, the others are owed service."""
    begin, end = phase_time(rows, "load"), phase_time(rows, "heal")
    sends = rows.memo(clients.sends)
    if not len(sends.invoke) or len(rows.where(kind="harness", f="host_lost")):
        return []
    times = rows.column("time_ns")
    begin = begin if begin >= 0 else int(times[sends.invoke[0]])
    end = end if end >= 0 else int(times[sends.invoke[-1]])
    harmless = (Effect.ADDS_REPLICA,) if of_reads else HARMLESS
    known = [fault for fault in rows.memo(faults) if _interferes(fault, harmless)]
    stores = _named(context, "objectstore") if of_reads else frozenset()
    ended = service_ended(rows, context)
    moments = {begin, end, *ended[:2]}
    moments |= {moment for fault in known for moment in (fault.began_ns, fault.until_ns)}

    def owed_at(now: int) -> Owed:
        if ended[0] <= now < ended[1]:
            return Owed.NO if ended[2] else Owed.PERHAPS
        if by_client and any(fault.clients is not None for fault in in_force(known, now)):
            others = [fault for fault in known if fault.clients is None or not rows.memo(_outsiders)[fault.process]]
            return _owed_at(rows, context, others, now, bound_ns, harmless)
        if stores & {node for fault in in_force(known, now) for node in fault.hits(*Effect)}:
            return Owed.NO
        return _owed_at(rows, context, known, now, bound_ns, harmless)

    changes = {now for now, _ in rows.memo(_sets) if begin < now < end}
    moments |= {now for now in changes if owed_at(now) is not owed_at(now - 1)}
    stretches: list[Stretch] = []
    for one, two in pairwise(sorted(moment for moment in moments if begin <= moment <= end)):
        if (owed := owed_at(one)) is not Owed.NO:
            cause = max((fault.index for fault in known if one in (fault.began_ns, fault.until_ns)), default=-1)
            stretches.append(Stretch(one, two, cause, owed is Owed.YES))
    return stretches


def felt(rows: Rows, at: Ints) -> Flags:
    """Return which of these invocations were made by a client while a fault was in force that the client has felt, or
    may have."""
    found = np.zeros(len(at), dtype=np.bool_)
    times, process = rows.column("time_ns")[at], rows.column("process")[at]
    for fault in rows.memo(faults):
        if fault.clients is not None:
            outside = np.isin(process, [rows.code("process", name) for name in rows.memo(_outsiders)[fault.process]])
            found |= ~outside & (times >= fault.began_ns) & (times < fault.until_ns)
    return found


def _outsiders(rows: Rows) -> Mapping[str, frozenset[str]]:
    """Return, by fault on clients, the processes of clients that went on, untouched by it: an operation of theirs began
    and ended well within it, and they are not among those that are seen to have felt it. None, where the names of these
    are none that processes have, for then it is unknown whose they are."""
    found = {}
    times, began = rows.column("time_ns"), rows.memo(clients.sends)
    names = {at: rows.text("process", at) for at in began.invoke.tolist()}
    for fault in rows.memo(faults):
        if fault.clients is None:
            continue
        beginnings = tuple(f"{name}{mark}" for name in fault.clients for mark in ".-")
        touched = {name for name in names.values() if name.startswith(beginnings)}
        went_on = {
            names[invoke]
            for invoke, done in zip(began.invoke[began.ok].tolist(), began.done[began.ok].tolist(), strict=True)
            if times[invoke] >= fault.from_ns and times[done] < fault.until_ns
        }
        found[fault.process] = frozenset(went_on - touched) if touched else frozenset()
    return found


def _named(context: RunContext, role: str) -> frozenset[str]:
    """Return the nodes that ``run.json`` lists with this role."""
    return frozenset(context.meta.named(role))


def _interferes(fault: Fault, harmless: Sequence[Effect]) -> bool:
    """May this fault have interrupted service? One that is proven to have done nothing of that kind begins no new
    bound either."""
    return fault.effects is None or any(nodes for effect, nodes in fault.effects.items() if effect not in harmless)


def _owed_at(
    rows: Rows, context: RunContext, known: Sequence[Fault], now: int, bound_ns: int, harmless: Sequence[Effect]
) -> Owed:
    """Return whether service is owed at this time. A fault with another effect than to take nodes out of service only
    owes recovery after its undo, and so does one that concerns clients."""
    active = in_force(known, now)
    if any(CLIENT in fault.hits(*Effect) or _does_more(fault, harmless) for fault in active):
        return Owed.NO
    out = {node for fault in active for node in fault.hits(*TAKES_OUT)}
    enough = _enough_left(rows, context, known, out, now, bound_ns)
    return min(enough, Owed.PERHAPS) if any(fault.effects is None for fault in active) else enough


def _does_more(fault: Fault, harmless: Sequence[Effect]) -> bool:
    """Has it a proven effect besides? A node that is down or cut off may also have crashed: that changes nothing as
    long as it is out."""
    known = fault.effects or {}
    crashed = fault.hits(Effect.MAY_CRASH) - fault.hits(*TAKES_OUT)
    return bool(crashed) or any(known[one] for one in known if one not in (*TAKES_OUT, *harmless, Effect.MAY_CRASH))


def _enough_left(
    rows: Rows, context: RunContext, known: Sequence[Fault], out: Set[str], at_ns: int, bound_ns: int
) -> Owed:
    """Are a majority of controllers, and of each group enough brokers, one of them of its SyncStateSet, untouched?"""
    names = brokers(rows, context, at_ns)
    others = _named(context, "nameserver")
    if others and others <= out:
        return Owed.NO
    if not out:
        return Owed.YES
    controllers = context.meta.controllers
    members = _set_at(rows, at_ns) if rows.memo(_sets) else names
    enough = 2 * sum(name not in out for name in controllers) > len(controllers) - (not controllers)
    for group in _by_group(rows, names):
        left = [name for name in group if name not in out]
        enough &= len(left) >= context.profile.min_in_sync and any(name in members for name in left)
    if enough or out & {*names, *others}:
        return Owed.YES if enough else Owed.NO
    return _settled(known, names, at_ns, bound_ns)


def _settled(known: Sequence[Fault], names: Sequence[str], at_ns: int, bound_ns: int) -> Owed:
    """Had no fault touched a broker for as long as the bound? Then traffic goes on even while no controller is up."""
    lately = [fault for fault in known if fault.from_ns <= at_ns and fault.until_ns > at_ns - bound_ns]
    if any(fault.hits(*(effect for effect in Effect if effect not in HARMLESS)) & set(names) for fault in lately):
        return Owed.NO
    return Owed.PERHAPS if any(fault.may_hit(name) for fault in lately for name in names) else Owed.YES


def _by_group(rows: Rows, names: Sequence[str]) -> Sequence[Sequence[str]]:
    """Return these brokers, by the groups that they report to be of; all together where they don't report several."""
    group_of = rows.memo(replica_groups)
    if len({*group_of.values()} - {""}) < 2:
        return [names]
    groups = {group_of.get(name, "") for name in names}
    return [[name for name in names if group_of.get(name, "") == group] for group in sorted(groups)]


def _sets(rows: Rows) -> Sequence[tuple[int, frozenset[str]]]:
    """Return (time, who is in the SyncStateSet of its group from then on), by time: as the controllers committed it or,
    without their word, as masters reported it."""
    last: dict[str, tuple[str, ...]] = {}
    found = []
    for now, group, members in _changes(rows):
        last[group] = members
        found.append((now, frozenset(name for names in last.values() for name in names)))
    return found


def _changes(rows: Rows) -> Sequence[tuple[int, str, tuple[str, ...]]]:
    """(time, group, its set from then on), by time."""
    times = rows.column("time_ns")
    applied: list[tuple[int, str, tuple[str, ...], int]] = []
    for at in rows.where(kind="trace", f="applied").tolist():
        entry = rows.value(at).get("entry") or {}
        if "set" in entry and not entry.get("unattended"):
            group, number = str(entry.get("group", "")), int(entry.get("set_epoch", -1))
            applied.append((int(times[at]), group, tuple(entry["set"]), number))
    if applied:
        first: dict[tuple[str, int], tuple[int, str, tuple[str, ...]]] = {}
        for now, group, members, number in sorted(applied):  # each controller applies it, some of them late or again
            first.setdefault((group, number), (now, group, members))
        return sorted(first.values())
    by_masters = [*rows.where(kind="trace", f="set").tolist(), *rows.where(kind="trace", f="role").tolist()]
    values = [(int(times[at]), rows.value(at)) for at in by_masters]
    return sorted((now, str(value.get("group", "")), tuple(value["set"])) for now, value in values if value.get("set"))


def _set_at(rows: Rows, at_ns: int) -> frozenset[str]:
    """Who was in the SyncStateSet of its group at this time."""
    known = rows.memo(_sets)
    place = bisect_right(known, at_ns, key=lambda one: one[0]) - 1
    return known[place][1] if place >= 0 else frozenset()
