"""Who the members of a group are, change by change: each is one step from the one before, and the same for all.

A change that moves more than one member may leave two majorities that have nobody in common (Ongaro's thesis, 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers._facts.raft.group import RaftGroup

MEMBERSHIP_JUMP = "membership-jump"


@dataclass(frozen=True, slots=True)
class Members:
    """A membership: who votes, and who is only sent the log."""

    voters: frozenset[str]
    learners: frozenset[str]

    def __str__(self) -> str:
        return f"the voters {_names(self.voters)} and the learners {_names(self.learners)}"

    @property
    def all(self) -> frozenset[str]:
        """All members, whether they vote or not."""
        return self.voters | self.learners

    def why_no_step(self, after: Members) -> str:
        """Say why ``after`` is not one step from here, "" if it is: a learner joins, a learner becomes a voter, or
        somebody leaves."""
        if self == after:
            return "changes nothing"
        joined, left = after.all - self.all, self.all - after.all
        moved = (after.voters & self.learners) | (after.learners & self.voters)
        if len(joined) + len(left) + len(moved) > 1:
            return "moves more than one member"
        if joined & after.voters:
            return f"lets {', '.join(joined)} vote before it has caught up"
        return "takes a member's vote and keeps it" if after.learners & self.voters else ""


def members_at(rows: Rows, at: int) -> Members:
    """Return the membership that a row reports."""
    value = rows.value(at)
    return Members(frozenset(map(str, value.get("voters", ()))), frozenset(map(str, value.get("learners", ()))))


def changes(rows: Rows, reported: Iterable[int]) -> dict[int, int]:
    """Return each committed change by the index of its entry, ascending, with the first row that reports it."""
    position, known = rows.column("position"), dict[int, int]()
    for at in reported:
        known.setdefault(int(position[at]), at)
    return dict(sorted(known.items()))


def voters_over_time(rows: Rows, group: RaftGroup) -> list[Set[str]]:
    """Return who voted at the beginning, and after each change that was committed."""
    return [group.beginning, *(members_at(rows, at).voters for at in group.rows(rows, "members").tolist())]


def memberships(rows: Rows, found: Findings, group: RaftGroup) -> None:
    """Check that each committed membership is one step from the one before, and the same on every member."""
    position, index = rows.column("position"), rows.column("index")
    reported = group.rows(rows, "members").tolist()
    known = changes(rows, reported)
    for at in reported:
        first = known[int(position[at])]
        one, other = members_at(rows, first), members_at(rows, at)
        if one != other:
            found.add(
                group.prefix + MEMBERSHIP_JUMP,
                f"Entry {int(position[at])} of {group.possessive} log makes them {one} as {rows.text('node', first)} "
                f"reports, but {other} as {rows.text('node', at)} reports.",
                int(index[first]),
                int(index[at]),
            )
    found.count("memberships", len(known))
    before, witness = Members(group.beginning, frozenset()), -1
    if reported and not before.voters:
        found.gap(f"nothing shows who {group.title} were before their members changed")
    for number, at in known.items():
        after = members_at(rows, at)
        why = before.why_no_step(after) if before.voters else ""
        if why:
            found.add(
                group.prefix + MEMBERSHIP_JUMP,
                f"Entry {number} of {group.possessive} log {why}: {before} become {after}.",
                *([int(index[witness])] if witness >= 0 else []),
                int(index[at]),
            )
        before, witness = after, at


def _names(nodes: Set[str]) -> str:
    return ", ".join(sorted(nodes)) or "(none)"
