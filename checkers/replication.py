"""After recovery each group has as many living copies as it was born with, and a store that was emptied holds nothing.

A copy is bytes, not a vote: a replica that votes and lacks a segment which no object holds is one copy less, and nobody
notices until the others are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from chaos.driver import Evidence
from chaos.events import Applied, EntriesCut, RaftMembers, RaftRole, TermRaised, Uploaded, Vote
from chaos.fault import Effect
from chaos.findings import Findings, decide
from chaos.law import AnomalyKind, Harm, Key, Law, Partial, Promise, RunContext
from chaos.law import Rows as LawRows
from chaos.operations import FaultRow, FinalGroup, HarnessRow, ReadToItsEnd
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.arrays import NEVER
from checkers._facts.faults import Fault, disturbs, faults
from checkers._facts.nodes.due import Span, due_ns, spans
from checkers._facts.raft.group import node_of
from checkers._facts.run import last_reported_ns
from checkers._facts.storage.catalogue import DRAINING, GROUP, STORE, UP, catalogue
from checkers._facts.storage.memberships import Membership, memberships
from checkers._facts.storage.segments import MISSING, Replica, may_be_harmed, replicas, uploads

#: So long after the last fault a group may have too few copies; and so long a store may take to be emptied.
REPLICATED_S = 30.0

TOO_FEW, VOTER_LACKS, DRAIN_LATE = "too-few-copies", "voter-lacks-bytes", "drain-unfinished"

PROMISE = Promise(
    name="replication",
    place=91,
    meaning="After recovery living stores hold all bytes of each group as often as promised; drained ones hold none.",
    anomalies=(
        AnomalyKind(
            name=TOO_FEW,
            meaning="fewer stores than promised hold all bytes of a group long after the last fault",
            headline=("A group has too few copies", "{n} groups have too few copies"),
            harm=Harm.DATA,
        ),
        AnomalyKind(
            name=VOTER_LACKS,
            meaning="a voter lacks a sealed segment that no object holds",
            headline=("A voter lacks bytes of its group", "{n} segments are missing at voters"),
            harm=Harm.DATA,
        ),
        AnomalyKind(
            name=DRAIN_LATE,
            meaning="a store that was drained was a member of a group for too long, and nothing was in the way",
            headline=("A drained store kept its groups",),
            decision=(Applied,),
        ),
    ),
    counts={
        "group_copies": "copies of groups that stores hold after the run",
        "replicated_groups": "groups of which stores show what they hold",
        "drains": "times that a store was drained for as long as the bound",
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


class Replication(Law):
    promise = PROMISE
    key = Key.RUN
    reads = (
        *(FinalGroup, ReadToItsEnd, Applied, Uploaded, RaftMembers, RaftRole, Vote, TermRaised, EntriesCut),
        *(HarnessRow, FaultRow),
    )
    evidence = (Evidence.GROUPS,)

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        found.count("group_copies", len(replicas(rows)))
        if not facts.has_recovered(rows) and not _is_calm(rows, context):
            found.gap("the system did not recover, so it is unknown which copies there are in the end")
        elif facts.may_lack_ends(rows):
            found.gap("a host was lost, with what its stores had reported last")
        else:
            _copies(rows, context, found)
        _drained(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("replicated_groups", "no store showed what it holds after the run")])


def _copies(rows: Rows, context: RunContext, found: Findings) -> None:
    """Check each group's copies after recovery, by the newest membership that it has committed."""
    shown: dict[int, list[Replica]] = {}
    for replica in replicas(rows):
        shown.setdefault(replica.group, []).append(replica)
    births = catalogue(rows).births()
    for group, known in sorted(memberships(rows).items()):
        mine, wanted = shown.get(group, []), len(births.get(group, ()))
        if not known or not wanted:
            found.gap(f"nothing shows who the members of group {group} were at first")
            continue
        found.count("replicated_groups", bool(mine))
        voters = known[-1].members.voters
        _voters_hold(rows, found, mine, voters)
        whole = _whole(mine, voters)
        if len(whole) < wanted:
            _report_too_few(rows, context, found, group, known[-1], mine, whole, wanted)


def _voters_hold(rows: Rows, found: Findings, mine: Sequence[Replica], voters: Set[str]) -> None:
    """Check that no voter lacks a segment that is in no object."""
    uploaded = {one.segment for one in uploads(rows)}
    for replica in mine:
        if replica.name not in voters or may_be_harmed(rows, replica.node):
            continue
        for held in replica.segments:
            if held.where == MISSING and held.segment not in uploaded:
                found.add(
                    VOTER_LACKS,
                    f"{replica.name} votes in group {replica.group} and lacks {held.segment}, of which no object was "
                    "ever uploaded.",
                    int(rows.column("index")[replica.at]),
                )


def _whole(mine: Sequence[Replica], voters: Set[str]) -> list[Replica]:
    """Return the replicas of voters that hold all that any replica of the group has, themselves or in the tier."""
    end = max((replica.end for replica in mine), default=-1)
    return [
        replica
        for replica in mine
        if replica.name in voters and replica.end == end and not any(held.where == MISSING for held in replica.segments)
    ]


def _report_too_few(
    rows: Rows,
    context: RunContext,
    found: Findings,
    group: int,
    known: Membership,
    mine: Sequence[Replica],
    whole: Sequence[Replica],
    wanted: int,
) -> None:
    """Report a group with too few copies, unless there are too few stores, or it may be that it gets them yet."""
    complete, born = facts.complete_nodes(rows), catalogue(rows).last(GROUP)[str(group)]
    up = [entry for entry in catalogue(rows).last(STORE).values() if entry.word("state") == UP]
    if len(up) < wanted:
        found.count("groups_without_stores", 1)
        return
    unread = sorted({node_of(name) for name in known.members.voters} - complete)
    if unread:
        found.gap(f"{', '.join(unread)} could not be read to the end, and a group may have too few copies")
        return
    bound_s = facts.bound(context, "recover_s", REPLICATED_S)
    if not _is_calm(rows, context):
        found.gap(f"group {group} has too few copies, and the last fault was less than {bound_s:g} s ago")
        return
    who = ", ".join(sorted(replica.name for replica in whole)) or "nobody"
    found.add(
        TOO_FEW,
        f"{wanted} stores are to hold group {group}, and {bound_s:g} s after the last fault {who} held all of its "
        f"{max((replica.end for replica in mine), default=0)} bytes; its members are {known.members}.",
        *sorted(int(rows.column("index")[at]) for at in (born.at, known.at, *(one.at for one in mine)) if at >= 0),
    )


def _is_calm(rows: Rows, context: RunContext) -> bool:
    """Return whether the bound was over since the last fault when stores showed what they hold. What lacks copies then
    may be the very reason for which the system does not recover."""
    last_ns = max((_end_ns(rows, one) for one in rows.memo(faults) if one.effects is None or disturbs(one)), default=-1)
    bound_s = facts.bound(context, "recover_s", REPLICATED_S)
    return facts.phase_time(rows, "collect") - last_ns >= bound_s * 1e9


def _end_ns(rows: Rows, fault: Fault) -> int:
    """Return when a fault ended; with recovery at the latest."""
    return min(fault.until_ns, facts.phase_time(rows, "recover")) if fault.until_ns == NEVER else fault.until_ns


@dataclass(frozen=True, slots=True)
class _Drain:
    """A time in which meta's log said that a store is to be emptied."""

    store: str
    at: int
    began_ns: int
    until_ns: int


def _drains(rows: Rows) -> Iterator[_Drain]:
    times, draining = rows.column("time_ns"), dict[str, int]()
    for entry in catalogue(rows).of(STORE):
        at = draining.get(entry.name)
        if entry.word("state") == DRAINING:
            draining.setdefault(entry.name, entry.at)
        elif at is not None:
            del draining[entry.name]
            yield _Drain(entry.name, at, int(times[at]), int(times[entry.at]))
    for name, at in sorted(draining.items()):
        yield _Drain(name, at, int(times[at]), last_reported_ns(rows))


def _drained(rows: Rows, context: RunContext, found: Findings) -> None:
    """Check that a drained store is a member of nothing once the bound is over. How long that took only one clock
    shows; elsewhere it is unknown where one is a member still, or again, unless the drain itself was shorter."""
    bound_ns = int(1e9 * facts.bound(context, "recover_s", REPLICATED_S))
    for drain in _drains(rows):
        if not context.one_clock:
            holds = any(_holds(rows, known, drain.store, NEVER) for known in memberships(rows).values())
            if holds and _may_last(rows, drain, bound_ns):
                found.gap(f"{drain.store} was drained and is a member in the end, and no clock shows for how long")
            continue
        due = due_ns(drain.began_ns, _hindrances(rows, drain), bound_ns)
        if context.unfinished or due > drain.until_ns or _stores_up(rows, due) < _copies_wanted(rows):
            continue
        found.count("drains", 1)
        left = [group for group, known in memberships(rows).items() if _holds(rows, known, drain.store, due)]
        if left:
            found.add(
                DRAIN_LATE,
                f"{drain.store} was to be emptied from {facts.at_s(rows, drain.at)} on, and {bound_ns / 1e9:g} s "
                "later, or after the last fault that hindered it, it still was a member of the groups "
                f"{', '.join(map(str, left[:9]))}.",
                int(rows.column("index")[drain.at]),
            )


def _may_last(rows: Rows, drain: _Drain, bound_ns: int) -> bool:
    """Return whether a drain may have lasted for the bound where clocks differ: the harness has one, and knows when it
    asked for each drain of this store, and when it had undone it."""
    asked = [
        fault
        for fault in rows.memo(faults)
        if drain.store in fault.targets and (fault.effects is None or Effect.REMOVES_REPLICA in fault.effects)
    ]
    lasted_ns = sum(fault.until_ns - fault.began_ns for fault in asked)
    return not asked or max(lasted_ns, drain.until_ns - drain.began_ns) >= bound_ns


def _holds(rows: Rows, known: Sequence[Membership], store: str, at_ns: int) -> bool:
    """Return whether a store was a member of a group at this time."""
    times = rows.column("time_ns")
    then = [one for one in known if one.at < 0 or times[one.at] <= at_ns]
    return bool(then) and store in map(node_of, then[-1].members.all)


def _hindrances(rows: Rows, drain: _Drain) -> list[Span]:
    """Return the spans of the faults that may have been in the way: all but those that only drain this store."""
    others = [effect for effect in Effect if effect is not Effect.REMOVES_REPLICA]
    known = [one for one in rows.memo(faults) if one.effects is None or disturbs(one)]
    return spans(one for one in known if one.effects is None or one.hits(*others) or one.hits(*Effect) - {drain.store})


def _copies_wanted(rows: Rows) -> int:
    """Return how many stores each group needs."""
    return max(map(len, catalogue(rows).births().values()), default=0)


def _stores_up(rows: Rows, at_ns: int) -> int:
    """Return how many stores could take replicas at this time, as meta's log says."""
    times, states = rows.column("time_ns"), dict[str, str]()
    for entry in catalogue(rows).of(STORE):
        if times[entry.at] <= at_ns:
            states[entry.name] = entry.word("state")
    return sum(state == UP for state in states.values())


def create(options: Options) -> Replication:
    return Replication()
