"""Votes, memberships and elections: what controllers decided, held against what they had agreed on."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from chaos.driver import Evidence
from chaos.events import Applied, RaftMembers, RaftRole, TermRaised, Vote
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial, RunContext
from chaos.law import Rows as LawRows
from chaos.operations import FaultRow, HarnessRow, ReadObject
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers.controllers import deserted, kept, old, terms, votes
from checkers.controllers.promise import MEMBERSHIP_JUMP, NEEDLESS_ELECTION, PROMISE

#: Elections without effect that the controllers may begin of themselves, one after the other.
IN_VAIN = 3


class Decisions(Law):
    """What the controllers reported of what they agreed on, and of who led them."""

    promise = PROMISE
    key = Key.RUN
    reads = (Applied, RaftRole, Vote, TermRaised, RaftMembers, ReadObject, HarnessRow, FaultRow)
    evidence = (Evidence.ELECTIONS,)
    part = "decisions"

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
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

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("entries", "no controller reported what it applied")])


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
                f"after the other, that changed nothing, until {facts.at_s(rows, at)}; nothing had happened to the "
                "group meanwhile.",
                *(int(index[one]) for one in mine),
            )
