"""Nothing is changed without a cause: elections, refusals, entries that are dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from chaos.driver import Evidence
from chaos.events import Applied, Crash, EntriesCut, RaftMembers, RaftRole, Role, Start
from chaos.fault import Effect
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial
from chaos.law import Rows as LawRows
from chaos.operations import Elect, FaultRow, HarnessRow, ReadObject
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import promptness
from checkers._facts.causes import Causes
from checkers.controllers import late_reads, learners
from checkers.controllers.promise import CUT_MISSTATED, ENTRY_LOST, NEEDLESS_ELECTION, PROMISE, REFUSED_CHANGE

#: A leader may be deposed so long after its election by one that stood for election at the same time.
RACE_S = 5.0

_UNDECLARED = "an election, a refusal, or a late answer has no cause but perhaps a fault that declares no effects"


class WithoutCause(Law):
    """What was dropped, elected or refused without a cause. A cause is known by its time, so this takes nodes whose
    rows stand in one order."""

    promise = PROMISE
    key = Key.RUN
    reads = (Applied, RaftRole, RaftMembers, EntriesCut, Start, Crash, Role, Elect, ReadObject, HarnessRow, FaultRow)
    evidence = (Evidence.ELECTIONS,)
    part = "causes"

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        if not context.one_clock:
            found.not_owed("each node has a clock of its own, so causes are not known")
            return found.partial()
        found.count("terms", len(rows.where(kind="trace", f="raft")))
        if facts.may_lack_ends(rows):
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

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("terms", "no controller reported who leads them")])


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
                f"{rows.text('node', at)} reported at {facts.at_s(rows, at)} that it dropped the entries "
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
                f"its log at {facts.at_s(rows, at)}, although {rows.text('node', other)} had applied the first of them "
                f"at {facts.at_s(rows, other)}.",
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
            f"The controllers replaced {before[0]} by {elected} as the master of {group} at {facts.at_s(rows, at)}, "
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
            f"{rows.text('node', at)} took over from {leader} as the controllers' leader at {facts.at_s(rows, at)}, "
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
                f"The controllers refused a change of their leader or members at {facts.at_s(rows, at)}, although no "
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
