"""Which rows are those of which Raft group, and how people call it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from chaos.shard_rows import Rows
from checkers._facts.arrays import Ints, parts
from checkers._facts.nodes.logs import in_node_order, nodes_of

#: What members of any group report of themselves.
REPORTS = ("raft", "vote", "term_raised", "members", "entries_cut")
#: The number of the one group whose members name none: the controllers.
UNNAMED = -1
#: What stands between the name of a node and the number of its disk, in the name of a replica.
_DISK = "#"


@dataclass(frozen=True, slots=True)
class RaftGroup:
    """One group. ``title`` and ``possessive``: how people call it, as in "the leader of group 3" and "group 3's log".
    ``beginning``: who voted at first; nobody where that is unknown. ``prefix``: how the names of its violations
    begin. ``new_disks``: by node, the rows by which it was given another disk than the one that it began with; what was
    on the one before nobody need remember."""

    number: int
    title: str
    possessive: str
    beginning: frozenset[str]
    prefix: str = ""
    new_disks: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def begins_anew(self, node: str, one: int, other: int, *, one_clock: bool) -> bool:
        """Return whether a node was given another disk between two rows; at any time where clocks of nodes differ."""
        return any(one < row < other or not one_clock for row in self.new_disks.get(node, ()))

    def rows(self, rows: Rows, f: str) -> Ints:
        """Return the rows of these reports of its members, in the order of the history."""
        return rows.memo(_SPLIT[f]).get(self.number, np.empty(0, dtype=np.int64))

    def by_node(self, rows: Rows, f: str) -> list[tuple[str, Ints]]:
        """Return these reports by node, those of each in its own order."""
        mine = self.rows(rows, f)
        node = rows.column("node")[mine]
        return [(name, in_node_order(rows, mine[node == rows.code("node", name)])) for name in nodes_of(rows, mine)]


def controllers(beginning: frozenset[str]) -> RaftGroup:
    """Return the group of the controllers, whose members name none."""
    return RaftGroup(UNNAMED, "the controllers", "the controllers'", beginning)


def node_of(replica: str) -> str:
    """Return the node of a member: its name without the number of its disk."""
    return replica.partition(_DISK)[0]


def numbers(rows: Rows) -> list[int]:
    """Return the numbers of the groups whose members report anything, ascending."""
    return sorted({number for f in REPORTS for number in rows.memo(_SPLIT[f])} - {UNNAMED})


def _split(rows: Rows, f: str) -> Mapping[int, Ints]:
    """Return group → rows."""
    at = rows.where(kind="trace", f=f)
    return {number: at[mine] for number, mine in parts(rows.numbers("group", at)).items()}


_SPLIT = {f: partial(_split, f=f) for f in REPORTS}
