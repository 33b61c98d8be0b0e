"""Where queues are and who serves them follows from what is committed: from members of groups, and owners of slices.

Meta's wish is never a route. So the map of groups is derived from the MEMBERS that a group has committed, it never goes
back at anybody, and it follows in time. A queue stands in one group for as long as its topic lives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.events import POSITION_BITS, Applied, EntriesCut, MapView, RaftMembers, RaftRole, Route, TermRaised, Vote
from chaos.findings import Findings, decide
from chaos.kernel import Key as QueueKey
from chaos.kernel import Needs
from chaos.law import AnomalyKind, Harm, Key, Law, Partial, Promise, RunContext
from chaos.law import Rows as LawRows
from chaos.operations import FaultRow, HarnessRow
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import reads
from checkers._facts.nodes.due import disturbances, due_ns
from checkers._facts.reads import own
from checkers._facts.run import last_reported_ns
from checkers._facts.storage.catalogue import GROUP, OWNER, TOPIC, Entry, catalogue
from checkers._facts.storage.memberships import memberships, raft_groups

#: So long after a change of the members is committed meta's map may not have it yet.
MAP_S = 5.0

MAP_NOT_MEMBERS, MAP_WENT_BACK, MAP_LATE = "map-not-members", "map-went-back", "map-late"
LED_BY_STRANGER, QUEUE_MOVED, ROUTE_UNLOGGED = "led-by-stranger", "queue-moved", "route-unlogged"

PROMISE = Promise(
    name="placement",
    place=87,
    meaning="Each queue is in one group, members serve it, and the map is what was committed and never goes back.",
    anomalies=(
        AnomalyKind(
            name=MAP_NOT_MEMBERS,
            meaning="meta's map gives a group members that the group has not committed",
            headline=("The map named members that the group had not committed",),
            decision=(Applied,),
        ),
        AnomalyKind(
            name=MAP_WENT_BACK,
            meaning="meta or a node went back to an older map",
            headline=("A map went back to an older state",),
            decision=(MapView, Applied),
        ),
        AnomalyKind(
            name=MAP_LATE,
            meaning="meta's map lacked a committed change of a group's members for too long",
            headline=("The map followed a group's members too late",),
        ),
        AnomalyKind(
            name=LED_BY_STRANGER,
            meaning="a store led a group of which it was no member",
            headline=("A store served a group that it was no member of",),
            decision=(RaftRole,),
        ),
        AnomalyKind(
            name=QUEUE_MOVED,
            meaning="messages of one queue were acknowledged in two groups, and its topic was not made again",
            headline=("Messages of one queue went into two groups",),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=ROUTE_UNLOGGED,
            meaning="a name server named an owner that meta's log does not name",
            headline=("A name server named an owner that meta had never named",),
            harm=Harm.CLIENTS,
            decision=(Route,),
        ),
    ),
    counts={
        "map_entries": "entries of meta's map",
        "map_views": "changes of a node's map",
        "placed_queues": "queues of which the group is known",
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


class Placement(Law):
    promise = PROMISE
    key = Key.RUN
    reads = (
        *(Applied, RaftMembers, RaftRole, Vote, TermRaised, EntriesCut),
        *(MapView, Route, HarnessRow, FaultRow),
    )
    evidence = (Evidence.GROUPS,)
    part = "the map"

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        _map_is_committed(rows, found)
        _maps_grow(rows, found)
        _members_lead(rows, found)
        _routes_logged(rows, found)
        if context.one_clock and not context.unfinished:
            _map_in_time(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        needs = [("map_entries", "meta reported no members of a group"), ("map_views", "no node reported its map")]
        return decide(PROMISE, partial, needs=needs)


def _map_is_committed(rows: Rows, found: Findings) -> None:
    """Check that meta's map has the members that a group had committed at the index that it names; and that the index
    only grows."""
    committed = {(group, one.index): one for group, known in memberships(rows).items() for one in known}
    newest: dict[str, Entry] = {}
    for entry in catalogue(rows).of(GROUP):
        found.count("map_entries", 1)
        before = newest.get(entry.name)
        if before is not None and entry.number("index") < before.number("index"):
            found.add(
                MAP_WENT_BACK,
                f"Revision {entry.revision} of meta's log gives group {entry.name} the members of entry "
                f"{entry.number('index')} of its log, although revision {before.revision} gave it those of entry "
                f"{before.number('index')}.",
                *_indices(rows, before.at, entry.at),
            )
        newest[entry.name] = entry
        group = int(entry.name) if entry.name.isdecimal() else -1
        known = committed.get((group, entry.number("index")))
        if known is None and facts.may_lack_ends(rows):
            found.gap("a host was lost, and with it perhaps members that its stores had committed")
        elif known is None or (known.members.voters, known.members.learners) != _members(entry):
            was = f"these are {known.members}" if known else "no store reports such a change of its members"
            found.add(
                MAP_NOT_MEMBERS,
                f"Revision {entry.revision} of meta's log gives group {entry.name} the voters "
                f"{', '.join(sorted(entry.names('voters')))} as of entry {entry.number('index')} of its log; {was}.",
                *_indices(rows, *([known.at] if known and known.at >= 0 else []), entry.at),
            )


def _members(entry: Entry) -> tuple[frozenset[str], frozenset[str]]:
    return entry.names("voters"), entry.names("learners")


def _maps_grow(rows: Rows, found: Findings) -> None:
    """Check that what a node knows of the map never goes back within an incarnation."""
    views = rows.where(kind="trace", f="map_view")
    found.count("map_views", len(views))
    life = rows.column("incarnation")
    for node in facts.nodes_of(rows, views):
        revision, last, groups = -1, -1, dict[str, int]()
        for at in facts.node_traces(rows, node, "map_view").tolist():
            value = rows.value(at)
            if last >= 0 and life[at] != life[last]:
                revision, groups = -1, {}
            changed = {name: index for name, index in (value.get("groups") or {}).items() if isinstance(index, int)}
            now = value.get("revision", -1)
            back = [name for name, index in sorted(changed.items()) if index < groups.get(name, -1)]
            if now < revision or back:
                of = f"of group {back[0]} as of entry {changed[back[0]]}" if back else f"of revision {now}"
                was = f"entry {groups[back[0]]}" if back else f"revision {revision}"
                found.add(
                    MAP_WENT_BACK,
                    f"{node} went back at {facts.at_s(rows, at)} to the map {of}, although it had known {was}.",
                    *_indices(rows, last, at),
                )
            revision, last = max(now, revision), at
            groups |= changed


def _members_lead(rows: Rows, found: Findings) -> None:
    """Check that the leader of a group is a member, by what was committed up to where it began or by a later change."""
    for number, group in raft_groups(rows).items():
        known = memberships(rows).get(number, ())
        for at in group.rows(rows, "raft").tolist():
            value = rows.value(at)
            if value.get("role") != "leader" or not known or not isinstance(value.get("commit"), int):
                continue
            past = [one for one in known if one.index <= value["commit"]][-1:]
            later = [one for one in known if one.index > value["commit"]]
            name = str(value.get("leader", ""))
            if not any(name in one.members.voters for one in (*past, *later)):
                found.add(
                    LED_BY_STRANGER,
                    f"{rows.text('node', at)} led group {number} as {name} from {facts.at_s(rows, at)} on, and the "
                    f"group's members were {(*past, *later)[0].members}.",
                    *_indices(rows, *(one.at for one in past if one.at >= 0), at),
                )


def _routes_logged(rows: Rows, found: Findings) -> None:
    """Check that each owner that a name server names is one of meta's log."""
    log = catalogue(rows)
    named = {(entry.name, entry.number("epoch"), entry.word("broker")) for entry in log.of(OWNER)}
    slices = {name for name, *_ in named}
    for at in rows.where(kind="trace", f="route").tolist():
        value, epoch = rows.value(at), int(rows.column("epoch")[at])
        group, master = str(value.get("group", "")), str(value.get("master", ""))
        if not master or group not in slices or (group, epoch, master) in named:
            continue
        if not log.is_whole:
            found.gap("a name server names an owner that is not in what is on record of meta's log")
            continue
        found.add(
            ROUTE_UNLOGGED,
            f"{rows.text('node', at)} named {master} as the owner of {group} in epoch {epoch} at "
            f"{facts.at_s(rows, at)}, and no entry of meta's log does.",
            *_indices(rows, at),
        )


def _map_in_time(rows: Rows, context: RunContext, found: Findings) -> None:
    """Check that meta's map has a committed change of a group's members before the bound is over. What a fault hinders
    is due again once the fault is long over."""
    times, bound_ns = rows.column("time_ns"), int(1e9 * facts.bound(context, "route_s", MAP_S))
    last_ns, hindrances = last_reported_ns(rows), disturbances(rows)
    known: dict[int, list[tuple[int, int]]] = {}
    for entry in catalogue(rows).of(GROUP):
        group = int(entry.name) if entry.name.isdecimal() else -1
        known.setdefault(group, []).append((entry.number("index"), int(times[entry.at])))
    for group, changes in memberships(rows).items():
        for one in changes:
            if one.at < 0:
                continue
            due = due_ns(int(times[one.at]), hindrances, bound_ns)
            if due > last_ns or any(index >= one.index and at <= due for index, at in known.get(group, ())):
                continue
            found.add(
                MAP_LATE,
                f"Group {group} committed entry {one.index} of its log, by which its members are {one.members}, at "
                f"{facts.at_s(rows, one.at)}, and meta's map did not have that {bound_ns / 1e9:g} s later, or after "
                "the last fault that hindered it.",
                *_indices(rows, one.at),
            )


QUEUES = Needs(
    part="queues",
    key=QueueKey.OFFSET,
    rows=(own("op", "send"), reads.TOPIC_ENTRIES, reads.RUN),
    columns=(*reads.BASIC, *reads.OPERATIONS, "position"),
    evidence=(Evidence.GROUPS,),
)


@dataclass(frozen=True, slots=True)
class Queues:
    """All messages of a queue are acknowledged in one group. Shards report which groups they saw, and the first row."""

    promise: Promise = PROMISE
    needs: Needs = QUEUES

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        _groups_seen(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        found = Findings(PROMISE)
        seen: dict[int, dict[int, tuple[int, int]]] = {}
        for queue, group, row, since_ns in (one for fact in partial.facts for one in fact["seen"]):
            of_queue = seen.setdefault(queue, {})
            of_queue[group] = min(of_queue.get(group, (row, since_ns)), (row, since_ns))
        found.count("placed_queues", len(seen))
        for queue, groups in sorted(seen.items()):
            (row, group), *others = sorted((first[0], group) for group, first in groups.items())
            for later, other in others:
                when = facts.in_s(groups[other][1])
                said = f"A message of queue {queue} was acknowledged in group {other} at {when}, "
                found.add(QUEUE_MOVED, f"{said}although one before was in group {group}.", row, later, queue=queue)
        return decide(PROMISE, partial.merge(found.partial()))


def _groups_seen(rows: Rows, context: RunContext, found: Findings) -> None:
    """Note in which groups messages of each queue were acknowledged, unless its topic was made again."""
    sends = facts.calls(rows, "send")
    done = np.sort(sends.done[sends.ok])
    done = done[rows.column("position")[done] >= 0]
    ids: dict[str, set[int]] = {}
    for entry in catalogue(rows).of(TOPIC):
        ids.setdefault(entry.name, set()).add(entry.number("id"))
    again = [one.index for one in context.meta.queues if len(ids.get(one.topic, ())) > 1]
    done = done[~np.isin(rows.column("queue")[done], again)]
    queue, group = rows.column("queue")[done], rows.column("position")[done] >> POSITION_BITS
    _, first = np.unique(np.stack([queue, group], axis=1), axis=0, return_index=True)
    if len(first):
        index, since_ns = rows.column("index")[done[first]], facts.since_load_ns(rows, done[first])
        seen = np.stack([queue[first], group[first], index, since_ns], axis=1)
        found.fact(seen=seen.tolist())


def _indices(rows: Rows, *at: int) -> list[int]:
    return sorted(int(rows.column("index")[one]) for one in at)


def create(options: Options) -> Sequence[Placement | Queues]:
    return (Placement(), Queues())
