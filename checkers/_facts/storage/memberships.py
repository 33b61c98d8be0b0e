"""Who the members of each group were, by the index in its log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.shard_rows import Rows
from checkers._facts.raft.group import RaftGroup, node_of, numbers
from checkers._facts.raft.members import Members, changes, members_at
from checkers._facts.storage.catalogue import STORE, catalogue

#: How the names of violations of one of many groups begin.
PREFIX = "group-"


@dataclass(frozen=True, slots=True)
class Membership:
    """The members from an index on; ``at``: the row of a store that reports it, -1 for the birth of the group."""

    index: int
    members: Members
    at: int


def raft_groups(rows: Rows) -> Mapping[int, RaftGroup]:
    """Return the groups that stores report, or that meta has given members."""
    births, disks = catalogue(rows).births(), _new_disks(rows)
    return {
        number: RaftGroup(
            number, f"group {number}", f"group {number}'s", births.get(number, frozenset()), PREFIX, disks
        )
        for number in sorted({*numbers(rows), *births})
    }


def _new_disks(rows: Rows) -> Mapping[str, Sequence[int]]:
    """Return by store the rows by which meta numbered another disk of it than the first."""
    first: dict[str, dict[int, int]] = {}
    for entry in catalogue(rows).of(STORE):
        first.setdefault(entry.name, {}).setdefault(entry.number("disk"), entry.at)
    return {name: [*known.values()][1:] for name, known in first.items()}


def memberships(rows: Rows) -> Mapping[int, Sequence[Membership]]:
    """Return the memberships of each group by index, its birth first where that is known."""
    return rows.memo(_memberships)


def _memberships(rows: Rows) -> Mapping[int, Sequence[Membership]]:
    found = {}
    for number, group in raft_groups(rows).items():
        born = [Membership(0, Members(group.beginning, frozenset()), -1)] if group.beginning else []
        later = changes(rows, group.rows(rows, "members").tolist()).items()
        found[number] = [*born, *(Membership(index, members_at(rows, at), at) for index, at in later)]
    return found


def in_force(known: Sequence[Membership], index: int) -> Membership | None:
    """Return the membership at an index of the log; None where it is unknown."""
    place = bisect_right(known, index, key=lambda one: one.index) - 1
    return known[place] if place >= 0 else None


def nodes_of_members(members: Members) -> frozenset[str]:
    """Return the nodes on which the replicas of a membership are."""
    return frozenset(map(node_of, members.all))
