"""Who voted for whom, and what leaders make of it.

A member gives one vote in a term, also over its restarts: so it has to be on the disk before anybody hears of it
(Ongaro's thesis, 3.4 and 3.8). A leader names the votes that it was elected by, and each of these voters has a word of
its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import numpy as np

from chaos.fault import Effect
from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.faults import Fault
from checkers._facts.raft.group import RaftGroup, node_of
from checkers._facts.raft.terms import faults_between
from checkers._facts.run import at_s, may_lack_ends

TWO_VOTES, VOTE_NOT_DURABLE = "two-votes", "vote-not-durable"
UNELECTED_LEADER = "unelected-leader"

#: Voter and term → the rows by which it reported votes in that term, in its own order.
Votes = Mapping[tuple[str, int], Sequence[int]]


def votes_of(rows: Rows, group: RaftGroup) -> Votes:
    """Return the votes that the members report, by node and term."""
    term, found = rows.column("epoch"), dict[tuple[str, int], list[int]]()
    for node, mine in group.by_node(rows, "vote"):
        for at in mine.tolist():
            found.setdefault((node, int(term[at])), []).append(at)
    return found


def _candidate(rows: Rows, at: int) -> str:
    return str(rows.value(at).get("candidate", ""))


def votes_given_once(rows: Rows, context: RunContext, found: Findings, group: RaftGroup, votes: Votes) -> None:
    """Check that no controller votes for another candidate of the same term: it would have forgotten its vote, or give
    it twice. What a fault has taken from its disk nobody need remember."""
    index = rows.column("index")
    found.count("votes", sum(map(len, votes.values())))
    for (node, term), given in sorted(votes.items()):
        first = given[0]
        for at in given[1:]:
            if _candidate(rows, at) == _candidate(rows, first):
                continue
            between = faults_between(rows, context, first, at)
            is_new = group.begins_anew(node, first, at, one_clock=context.one_clock)
            if is_new or any(node in fault.hits(Effect.LOSES_DISK) for fault in between):
                first = at
            elif _may_have_lost(node, between):
                found.gap(f"{node} voted twice in a term, but a fault hit it that declares no effects")
                first = at
            else:
                found.add(
                    group.prefix + TWO_VOTES,
                    f"{node} voted for {_candidate(rows, at)} in term {term} at {at_s(rows, at)}, although it had "
                    f"given its vote of that term to {_candidate(rows, first)} at {at_s(rows, first)}.",
                    int(index[first]),
                    int(index[at]),
                )


def _may_have_lost(node: str, faults: Sequence[Fault]) -> bool:
    return any(fault.may_hit(node) for fault in faults)


def votes_durable(rows: Rows, found: Findings, group: RaftGroup) -> None:
    """Check that a vote was on the disk when it was reported, where the simulator knows the disk. It is reported when
    its answer leaves."""
    at = group.rows(rows, "vote")
    size, disk = rows.numbers("size", at), rows.numbers("disk", at)
    for n in np.flatnonzero((disk >= 0) & (disk < size)).tolist():
        row = int(at[n])
        found.add(
            group.prefix + VOTE_NOT_DURABLE,
            f"{rows.text('node', row)} gave {_candidate(rows, row)} its vote of term "
            f"{int(rows.column('epoch')[row])} at {at_s(rows, row)}, when its disk was sure to hold {disk[n]} bytes of "
            f"{rows.value(row).get('file')}: the vote ends at {size[n]}.",
            int(rows.column("index")[row]),
        )


def leaders_elected(
    rows: Rows, context: RunContext, found: Findings, group: RaftGroup, votes: Votes, memberships: Sequence[Set[str]]
) -> None:
    """Check that each leader that names its votes has those of a majority of the voters, and that none of these says
    otherwise. ``memberships``: the voters as they were at the beginning, and after each change that was committed."""
    for at in group.rows(rows, "raft").tolist():
        value = rows.value(at)
        named, voters = value.get("votes"), value.get("voters")
        if value.get("role") != "leader" or not isinstance(named, list) or not isinstance(voters, list):
            continue
        found.count("elected", 1)
        have = {str(name) for name in named} & {str(name) for name in voters}
        if 2 * len(have) <= len(voters):
            why = f"it had the votes of {_names(have)} alone, where {_names(set(voters))} vote"
            _report(rows, found, group, at, why)
        elif memberships and all(len(set(map(str, voters)) ^ known) > 1 for known in memberships):
            _report(rows, found, group, at, f"it counted on {_names(set(voters))}, who never were all that vote")
        else:
            _voters_agree(rows, context, found, group, votes, at, have)


def _voters_agree(
    rows: Rows, context: RunContext, found: Findings, group: RaftGroup, votes: Votes, at: int, named: Set[str]
) -> None:
    """Without one clock, and where a host took what it knew last, a voter that says nothing says nothing against it."""
    leader, term, index = rows.text("node", at), int(rows.column("epoch")[at]), rows.column("index")
    silence_counts = context.one_clock and bool(votes) and not may_lack_ends(rows)
    for voter in sorted(named):
        given = votes.get((node_of(voter), term), ())
        mine = (vote for vote in given if node_of(_candidate(rows, vote)) == leader)
        if any(not context.one_clock or vote < at for vote in mine):
            continue
        if given:
            other = _candidate(rows, given[0])
            why = f"{voter}, whose vote it counted, had given it to {other}"
            _report(rows, found, group, at, why, int(index[given[0]]))
        elif silence_counts:
            _report(rows, found, group, at, f"{voter}, whose vote it counted, had given none in that term")


def _report(rows: Rows, found: Findings, group: RaftGroup, at: int, why: str, *witness: int) -> None:
    found.add(
        group.prefix + UNELECTED_LEADER,
        f"{rows.text('node', at)} led {group.title} in term {int(rows.column('epoch')[at])} from "
        f"{at_s(rows, at)} on, but {why}.",
        *witness,
        int(rows.column("index")[at]),
    )


def _names(nodes: Set[str]) -> str:
    return ", ".join(sorted(map(str, nodes))) or "nobody"
