"""Votes, memberships and elections: what controllers decided, held against what they had agreed on."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.driver import Evidence
from chaos.events import Applied, RaftMembers, RaftRole, TermRaised, Vote
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial, RunContext
from chaos.law import Rows as LawRows
from chaos.operations import FaultRow, HarnessRow, ReadObject
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.raft import deserted, members, terms, votes
from checkers._facts.raft.group import RaftGroup, controllers
from checkers.controllers import kept, old, own_term
from checkers.controllers.promise import NEEDLESS_ELECTION, PROMISE

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
        group = controllers(frozenset(context.meta.controllers))
        terms.lower_terms(rows, context, found, group)
        members.memberships(rows, found, group)
        _elections_in_vain(rows, found, applied)
        kept.logs_kept(rows, found, applied)
        deserted.too_early(rows, found, group)
        _votes(rows, context, found, group)
        own_term.committed_by_own_term(rows, found, applied)
        if context.one_clock:
            old.answers_of_old_leaders(rows, found)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("entries", "no controller reported what it applied")])


def _votes(rows: Rows, context: RunContext, found: Findings, group: RaftGroup) -> None:
    changed = members.voters_over_time(rows, group)
    given = votes.votes_of(rows, group)
    votes.votes_given_once(rows, context, found, group, given)
    votes.votes_durable(rows, found, group)
    votes.leaders_elected(rows, context, found, group, given, changed if group.beginning else [])


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
