"""Controllers keep to what they agreed on, change nothing without a cause, and serve while a majority is well.

Leaders are judged by causes: a leader whom a majority hears stays, and so does a master that speaks to the controllers.
What may have been a cause is known by its effects and counts for a while after its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from chaos.driver import Evidence
from chaos.fault import Effect
from chaos.judging.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import kept, promptness, reads, requests
from checkers._views.causes import AFTER_S, Causes
from checkers._views.leaders import deserted, late_reads, learners, old, terms, votes
from checkers._views.reads import own

#: A leader may be deposed so long after its election by one that stood for election at the same time.
RACE_S = 5.0
#: Elections without effect that the controllers may begin of themselves, one after the other.
IN_VAIN = 3
_UNDECLARED = "an election, a refusal, or a late answer has no cause but perhaps a fault that declares no effects"

NEEDLESS_ELECTION, ENTRY_LOST, TERM_REGRESSION = "needless-election", "entry-lost", terms.TERM_REGRESSION
CUT_MISSTATED = "cut-misstated"
LATE_ELECTION, NEEDLESS_CHANGE = promptness.LATE_ELECTION, promptness.NEEDLESS_CHANGE
LOG_KEPT, OLD_LEADER = kept.LOG_KEPT, old.OLD_LEADER
LEADER_DESERTED = deserted.LEADER_DESERTED
MEMBERSHIP_JUMP, REFUSED_CHANGE = "membership-jump", "refused-change"
LATE_VOTE = learners.LATE_VOTE
UNSERVED, UNANSWERED = "change-unserved", "read-unanswered"
PROMISE = Promise(
    name="controllers",
    place=85,
    meaning="Controllers keep what they agreed on, elect nobody without a cause, and serve while a majority is well.",
    anomalies=(
        AnomalyKind(name=NEEDLESS_ELECTION, meaning="a leader or master was replaced, or sought, without any cause"),
        AnomalyKind(
            name=LATE_ELECTION, meaning="a dead master was not replaced at once, or an elected one was informed late"
        ),
        AnomalyKind(name=NEEDLESS_CHANGE, meaning="a SyncStateSet was changed without any cause"),
        AnomalyKind(name=ENTRY_LOST, meaning="a controller dropped an entry that was committed"),
        AnomalyKind(name=CUT_MISSTATED, meaning="a controller reported a dropped entry that does not exist"),
        AnomalyKind(
            name=TERM_REGRESSION,
            meaning="a controller's term fell within one life, or below one that it had led with a sound disk",
        ),
        AnomalyKind(
            name=OLD_LEADER, meaning="a controller answered as the leader of a term when a later one was led already"
        ),
        AnomalyKind(
            name=LEADER_DESERTED, meaning="a controller turned to a candidate although it had just heard its leader"
        ),
        AnomalyKind(name=votes.TWO_VOTES, meaning="a controller voted for two candidates of one term"),
        AnomalyKind(name=votes.VOTE_NOT_DURABLE, meaning="a controller gave a vote that its disk did not hold yet"),
        AnomalyKind(name=votes.UNELECTED_LEADER, meaning="a controller led without the votes of a majority"),
        AnomalyKind(
            name=votes.EARLIER_TERM_COMMITTED, meaning="a leader committed what an earlier term had left by itself"
        ),
        AnomalyKind(name=LOG_KEPT, meaning="a controller kept more of its log than it needs"),
        AnomalyKind(name=MEMBERSHIP_JUMP, meaning="a change of the members that is not one step of one controller"),
        AnomalyKind(name=REFUSED_CHANGE, meaning="a change of leader or members was refused, and nothing hindered it"),
        AnomalyKind(name=late_reads.LATE_READ, meaning="a controller answered a read late, and nothing hindered it"),
        AnomalyKind(name=LATE_VOTE, meaning="a controller that joined got its vote late, and nothing hindered it"),
        AnomalyKind(name=UNSERVED, meaning="no change of any object took effect for longer than the bound"),
        AnomalyKind(name=UNANSWERED, meaning="a controller answered no read for longer than the bound"),
    ),
)
_COLUMNS = (*reads.BASIC, *reads.LIVES, "process", "type", "epoch", "position")
DECISIONS = Needs(
    part="decisions",
    key=Key.RUN,
    rows=(
        own("trace", "applied", "raft", "vote", "term_raised", "members"),
        own("op", "read"),
        reads.RUN,
        reads.FAULTS,
    ),
    columns=(*_COLUMNS, "op", "queue", "offset"),
    evidence=(Evidence.ELECTIONS,),
)
CAUSES = Needs(
    part="causes",
    key=Key.RUN,
    rows=(
        own("trace", "applied", "raft", "members", "entries_cut", "start", "crash", "role"),
        own("op", "elect", "read"),
        reads.RUN,
        reads.FAULTS,
    ),
    columns=(*_COLUMNS, "op"),
    evidence=(Evidence.ELECTIONS,),
)
SERVICE = Needs(
    part="service",
    key=Key.RUN,
    rows=(own("op", *requests.KINDS), reads.RUN, reads.FAULTS),
    columns=(*reads.BASIC, "op", "process", "type"),
    uses=(Use.OBJECTS,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """What the controllers reported of what they agreed on, and of who led them."""

    promise: Promise = PROMISE
    needs: Needs = DECISIONS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        applied = rows.where(kind="trace", f="applied").tolist()
        found.count("entries", len({int(rows.column("position")[at]) for at in applied}))
        terms.lower_terms(rows, context, found)
        _memberships(rows, context, found)
        _elections_in_vain(rows, found, applied)
        kept.logs_kept(rows, found, applied)
        deserted.too_early(rows, found)
        _votes(rows, context, found, applied)
        if context.one_clock:
            old.answers_of_old_leaders(rows, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial, needs=[("entries", "no controller reported what it applied")])


@dataclass(frozen=True, slots=True)
class WithoutCause:
    """What was dropped, elected or refused without a cause. A cause is known by its time, so this takes nodes whose
    rows stand in one order."""

    promise: Promise = PROMISE
    needs: Needs = CAUSES

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if not context.one_clock:
            return found.partial()
        found.count("terms", len(rows.where(kind="trace", f="raft")))
        if views.may_lack_ends(rows):
            found.gap("a host was lost, with what its controllers had reported last")
            return found.partial()
        applied = rows.where(kind="trace", f="applied").tolist()
        _cuts(rows, found, applied)
        causes = Causes(rows, context)
        _masters(rows, found, causes, applied)
        _leaders(rows, found, causes)
        _refusals(rows, found, causes)
        learners.late_votes(rows, context, found, causes)
        promptness.late_elections(rows, context, found, causes)
        promptness.late_masters(rows, context, found, causes)
        promptness.needless_changes(rows, context, found, causes)
        late_reads.late_reads(rows, context, found, causes, _UNDECLARED)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        unless = "" if context.one_clock else "each node has a clock of its own, so causes are not known"
        return decide(PROMISE, partial, needs=[("terms", "no controller reported who leads them")], unless=unless)


@dataclass(frozen=True, slots=True)
class _Members:
    voters: frozenset[str]
    learners: frozenset[str]

    def __str__(self) -> str:
        return f"the voters {_names(self.voters)} and the learners {_names(self.learners)}"

    def why_no_step(self, after: _Members) -> str:
        """Say why ``after`` is not one step from here, "" if it is: a learner joins, a learner becomes a voter, or
        somebody leaves."""
        all_before, all_after = self.voters | self.learners, after.voters | after.learners
        if self == after:
            return "changes nothing"
        joined, left = all_after - all_before, all_before - all_after
        moved = (after.voters & self.learners) | (after.learners & self.voters)
        if len(joined) + len(left) + len(moved) > 1:
            return "moves more than one controller"
        if joined & after.voters:
            return f"lets {', '.join(joined)} vote before it has caught up"
        return "takes a controller's vote and keeps it" if after.learners & self.voters else ""


def _votes(rows: Rows, context: RunContext, found: Findings, applied: Sequence[int]) -> None:
    beginning = frozenset(context.meta.controllers)
    changed = [_members(rows, at).voters for at in rows.where(kind="trace", f="members").tolist()]
    given = votes.votes_of(rows)
    votes.votes_given_once(rows, context, found, given)
    votes.votes_durable(rows, found)
    votes.leaders_elected(rows, context, found, given, [beginning, *changed] if beginning else [])
    votes.committed_by_own_term(rows, found, applied)


def _memberships(rows: Rows, context: RunContext, found: Findings) -> None:
    """Check that each committed membership is one step from the one before, and the same on every controller."""
    position, index = rows.column("position"), rows.column("index")
    reported = rows.where(kind="trace", f="members").tolist()
    known: dict[int, int] = {}
    for at in reported:
        first = known.setdefault(int(position[at]), at)
        one, other = _members(rows, first), _members(rows, at)
        if one != other:
            found.add(
                MEMBERSHIP_JUMP,
                f"Entry {int(position[at])} of the controllers' log makes them {one} as {rows.text('node', first)} "
                f"reports, but {other} as {rows.text('node', at)} reports.",
                int(index[first]),
                int(index[at]),
            )
    found.count("memberships", len(known))
    before, witness = _Members(frozenset(context.meta.controllers), frozenset()), -1
    if reported and not before.voters:
        found.gap("nothing shows who the controllers were before their members changed")
    for number in sorted(known):
        at = known[number]
        after = _members(rows, at)
        why = before.why_no_step(after) if before.voters else ""
        if why:
            found.add(
                MEMBERSHIP_JUMP,
                f"Entry {number} of the controllers' log {why}: {before} become {after}.",
                *([int(index[witness])] if witness >= 0 else []),
                int(index[at]),
            )
        before, witness = after, at


def _members(rows: Rows, at: int) -> _Members:
    value = rows.value(at)
    return _Members(frozenset(map(str, value.get("voters", ()))), frozenset(map(str, value.get("learners", ()))))


def _names(nodes: Set[str]) -> str:
    return ", ".join(sorted(nodes)) or "(none)"


def _elections_in_vain(rows: Rows, found: Findings, applied: Sequence[int]) -> None:
    """Check that the controllers begin no election of themselves again and again that changes nothing: nobody could be
    elected, or was already, and nothing has happened to the group since."""
    position, index = rows.column("position"), rows.column("index")
    entries = {int(position[at]): at for at in reversed(applied)}
    rounds: dict[str, list[int]] = {}
    for number in sorted(entries):
        at = entries[number]
        if number - 1 not in entries:  # what had happened is unknown
            rounds.clear()
        entry = rows.value(at).get("entry") or {}
        mine = rounds.setdefault(str(entry.get("group", "")), [])
        if entry.get("by") != "controllers":
            mine.clear()
            continue
        mine.append(at)
        if len(mine) == IN_VAIN + 1:
            found.add(
                NEEDLESS_ELECTION,
                f"The controllers have logged an election of a master of {entry.get('group')} {len(mine)} times, one "
                f"after the other, that changed nothing, until {views.at_s(rows, at)}; nothing had happened to the "
                "group meanwhile.",
                *(int(index[one]) for one in mine),
            )


def _cuts(rows: Rows, found: Findings, applied: Sequence[int]) -> None:
    """Check that no controller drops an entry that any of them has applied by then: somebody counted on it. And that
    what it says that it dropped is there to be dropped."""
    position, index, term = rows.column("position"), rows.column("index"), rows.column("epoch")
    first: dict[tuple[int, int], int] = {}
    for at in applied:
        first.setdefault((int(position[at]), int(term[at])), at)
    for at in rows.where(kind="trace", f="entries_cut").tolist():
        found.count("cuts", 1)
        last = rows.value(at).get("last")
        if (isinstance(last, int) and last < position[at]) or term[at] < 0:
            found.add(
                CUT_MISSTATED,
                f"{rows.text('node', at)} reported at {views.at_s(rows, at)} that it dropped the entries "
                f"{int(position[at])} to {last} of its log, the first of them of term {int(term[at])}: there is no "
                "such entry.",
                int(index[at]),
            )
            continue
        other = first.get((int(position[at]), int(term[at])))
        if other is not None and index[other] < index[at]:
            found.add(
                ENTRY_LOST,
                f"{rows.text('node', at)} dropped the entries {int(position[at])} to {rows.value(at).get('last')} of "
                f"its log at {views.at_s(rows, at)}, although {rows.text('node', other)} had applied the first of them "
                f"at {views.at_s(rows, other)}.",
                int(index[other]),
                int(index[at]),
            )


def _masters(rows: Rows, found: Findings, causes: Causes, applied: Sequence[int]) -> None:
    """Check that a master stays master, as long as nothing touches anybody."""
    times, index, position = (rows.column(name) for name in ("time_ns", "index", "position"))
    master: dict[str, tuple[str, int]] = {}
    seen: set[int] = set()
    for at in applied:
        entry = rows.value(at).get("entry") or {}
        if int(position[at]) in seen or entry.get("type") != "elect" or entry.get("unattended"):
            continue
        seen.add(int(position[at]))
        group, elected, now = str(entry.get("group", "")), str(entry.get("master", "")), int(times[at])
        before = master.get(group)
        master[group] = elected, at
        found.count("elections", 1)
        if before is None or entry.get("bootstrap") or causes.began_ns < 0 or now < causes.began_ns:
            continue
        if causes.touched(now) or causes.any_life(now):
            continue
        if causes.nobody_knows(now):
            found.gap(_UNDECLARED)
            continue
        found.add(
            NEEDLESS_ELECTION,
            f"The controllers replaced {before[0]} by {elected} as the master of {group} at {views.at_s(rows, at)}, "
            "although no fault had touched any node for a while, and none had started or crashed.",
            int(index[before[1]]),
            int(index[at]),
        )


def _leaders(rows: Rows, found: Findings, causes: Causes) -> None:
    """Check that a leader whom a majority hears stays, whatever the others do."""
    for at, before, now in _successions(rows):
        if causes.began_ns < 0 or now < causes.began_ns:
            continue
        touched = causes.touched(now)
        leader = rows.text("node", before)
        if leader not in causes.controllers - touched or len(causes.controllers - touched) < causes.majority:
            continue
        if causes.asked(now) or _was_a_race(rows, at, before):
            continue
        if causes.nobody_knows(now):
            found.gap(_UNDECLARED)
            continue
        found.add(
            NEEDLESS_ELECTION,
            f"{rows.text('node', at)} took over from {leader} as the controllers' leader at {views.at_s(rows, at)}, "
            f"although {leader} and a majority of the controllers had not been touched by any fault for a while.",
            int(rows.column("index")[before]),
            int(rows.column("index")[at]),
        )


def _successions(rows: Rows) -> Iterator[tuple[int, int, int]]:
    """Yield (row by which a controller leads, row by which the one before did, time of the former)."""
    times, before = rows.column("time_ns"), -1
    for at in rows.where(kind="trace", f="raft").tolist():
        if rows.value(at).get("role") == "leader":
            if before >= 0:
                yield at, before, int(times[at])
            before = at


def _was_a_race(rows: Rows, at: int, before: int) -> bool:
    """Return whether somebody had a higher term already when the leader before was elected, or that was just before."""
    times, term = rows.column("time_ns"), rows.column("epoch")
    reported = rows.where(kind="trace", f="raft")
    early = reported[reported < before]
    return bool((term[early] > term[before]).any()) or int(times[at]) - int(times[before]) < RACE_S * 1e9


def _refusals(rows: Rows, found: Findings, causes: Causes) -> None:
    """Check that what an administrator asks of the controllers is granted when nothing hinders it."""
    times, index = rows.column("time_ns"), rows.column("index")
    asked: dict[str, int] = {}
    for at in rows.where(kind="fault").tolist():
        process, kind = rows.text("process", at), rows.text("type", at)
        if kind == "invoke":
            asked[process] = at
        elif kind == "fail" and process in asked and _is_change(rows.value(asked[process]), causes.controllers):
            now, begin = int(times[at]), int(times[asked[process]])
            elected = any(begin - causes.after_ns < then <= now for _, _, then in _successions(rows))
            touched = causes.touched(now, begin, but=process) & causes.controllers
            if touched or elected or causes.any_life(now, begin):
                continue
            if causes.nobody_knows(now, begin):
                found.gap(_UNDECLARED)
                continue
            found.add(
                REFUSED_CHANGE,
                f"The controllers refused a change of their leader or members at {views.at_s(rows, at)}, although no "
                f"fault had touched any of them for a while: {rows.value(at).get('reason', 'no reason was given')}.",
                int(index[asked[process]]),
                int(index[at]),
            )


def _is_change(asked: Mapping[str, object], controllers: Set[str]) -> bool:
    """Return whether this fault asks for a change of the controllers' leader or members, and nothing else."""
    effects, targets = asked.get("effects"), asked.get("targets")
    if not isinstance(effects, Mapping) or not isinstance(targets, list) or not effects:
        return False
    wanted = {Effect.SWITCHES_MASTER, Effect.REMOVES_REPLICA}
    return set(effects) <= wanted and bool(targets) and set(map(str, targets)) <= controllers


@dataclass(frozen=True, slots=True)
class Service:
    """What clients of objects were answered."""

    promise: Promise = PROMISE
    needs: Needs = SERVICE

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        bound_ns = int(1e9 * views.bound(context, "available_s", AFTER_S))
        asked = requests.of(rows)
        found.count("requests", sum(len(views.calls(rows, f).invoke) for f in requests.KINDS))
        found.count("answered", int(asked.ok.sum()))
        owed = requests.owed(rows, context)
        found.count("owed", len(owed))
        for one in owed:
            _changes(rows, found, asked, one, bound_ns)
            _reads(rows, found, asked, one, bound_ns)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        asked = "requests" in partial.counts and partial.counts["requests"]
        unless = "" if asked else "no client read or changed an object by itself"
        needs = [
            ("answered", "no request about an object was answered"),
            ("owed", "at no time is it known that enough controllers were well for service to be owed"),
        ]
        none = "" if context.meta.controllers else "the system has no controllers"
        return decide(PROMISE, partial, needs=needs, unless=unless or none)


def _changes(rows: Rows, found: Findings, asked: requests.Requests, owed: requests.Owed, bound_ns: int) -> None:
    # A controller that does not lead refuses changes, so the one that led must have been asked.
    nodes = owed.well if owed.well & {*asked.to} else frozenset()
    for first, last in asked.in_vain(asked.changes, owed, bound_ns, nodes=nodes):
        found.add(
            UNSERVED,
            f"No change of an object took effect for {(last.ended_ns - first.began_ns) / 1e9:.1f} s, from "
            f"{views.at_s(rows, first.at)} on, although clients tried and a majority of the controllers was well; "
            f"{bound_ns / 1e9:g} s are permitted.",
            first.index,
            last.index,
        )


def _reads(rows: Rows, found: Findings, asked: requests.Requests, owed: requests.Owed, bound_ns: int) -> None:
    for node in sorted(owed.well):
        for first, last in asked.in_vain(asked.unanswered_by(node), owed, bound_ns):
            found.add(
                UNANSWERED,
                f"{node} answered no read for {(last.ended_ns - first.began_ns) / 1e9:.1f} s, from "
                f"{views.at_s(rows, first.at)} on, although it and a majority of the controllers were well; "
                f"{bound_ns / 1e9:g} s are permitted.",
                first.index,
                last.index,
            )


def create(options: Options) -> Sequence[Decisions | WithoutCause | Service]:
    return (Decisions(), WithoutCause(), Service())
