"""Who voted for whom, and what leaders make of it.

A controller gives one vote in a term, also over its restarts: so it has to be on the disk before anybody hears of it
(Ongaro's thesis, 3.4 and 3.8). A leader names the votes that it was elected by, and each of these voters has a word of
its own. And what an earlier term has left is committed by an entry of the leader's own term, never by itself (3.6.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import numpy as np

from chaos.fault import Effect
from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import Ints
from checkers._facts.faults import Fault
from checkers._facts.nodes.logs import in_node_order, node_traces, nodes_of
from checkers._facts.run import at_s, may_lack_ends
from checkers.controllers.terms import faults_between

TWO_VOTES, VOTE_NOT_DURABLE = "two-votes", "vote-not-durable"
UNELECTED_LEADER, EARLIER_TERM_COMMITTED = "unelected-leader", "earlier-term-committed"

#: Voter and term → the rows by which it reported votes in that term, in its own order.
Votes = Mapping[tuple[str, int], Sequence[int]]


def votes_of(rows: Rows) -> Votes:
    term, found = rows.column("epoch"), dict[tuple[str, int], list[int]]()
    for node in nodes_of(rows, rows.where(kind="trace", f="vote")):
        for at in node_traces(rows, node, "vote").tolist():
            found.setdefault((node, int(term[at])), []).append(at)
    return found


def _candidate(rows: Rows, at: int) -> str:
    return str(rows.value(at).get("candidate", ""))


def votes_given_once(rows: Rows, context: RunContext, found: Findings, votes: Votes) -> None:
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
            if any(node in fault.hits(Effect.LOSES_DISK) for fault in between):
                first = at
            elif _may_have_lost(node, between):
                found.gap(f"{node} voted twice in a term, but a fault hit it that declares no effects")
                first = at
            else:
                found.add(
                    TWO_VOTES,
                    f"{node} voted for {_candidate(rows, at)} in term {term} at {at_s(rows, at)}, although it had "
                    f"given its vote of that term to {_candidate(rows, first)} at {at_s(rows, first)}.",
                    int(index[first]),
                    int(index[at]),
                )


def _may_have_lost(node: str, faults: Sequence[Fault]) -> bool:
    return any(fault.may_hit(node) for fault in faults)


def votes_durable(rows: Rows, found: Findings) -> None:
    """Check that a vote was on the disk when it was reported, where the simulator knows the disk. It is reported when
    its answer leaves."""
    at = rows.where(kind="trace", f="vote")
    size, disk = rows.numbers("size", at), rows.numbers("disk", at)
    for n in np.flatnonzero((disk >= 0) & (disk < size)).tolist():
        row = int(at[n])
        found.add(
            VOTE_NOT_DURABLE,
            f"{rows.text('node', row)} gave {_candidate(rows, row)} its vote of term "
            f"{int(rows.column('epoch')[row])} at {at_s(rows, row)}, when its disk was sure to hold {disk[n]} bytes of "
            f"{rows.value(row).get('file')}: the vote ends at {size[n]}.",
            int(rows.column("index")[row]),
        )


def leaders_elected(
    rows: Rows, context: RunContext, found: Findings, votes: Votes, memberships: Sequence[Set[str]]
) -> None:
    """Check that each leader that names its votes has those of a majority of the voters, and that none of these says
    otherwise. ``memberships``: the voters as they were at the beginning, and after each change that was committed."""
    for at in rows.where(kind="trace", f="raft").tolist():
        value = rows.value(at)
        named, voters = value.get("votes"), value.get("voters")
        if value.get("role") != "leader" or not isinstance(named, list) or not isinstance(voters, list):
            continue
        found.count("elected", 1)
        have = {str(name) for name in named} & {str(name) for name in voters}
        if 2 * len(have) <= len(voters):
            _report(rows, found, at, f"it had the votes of {_names(have)} alone, where {_names(set(voters))} vote")
        elif memberships and all(len(set(map(str, voters)) ^ known) > 1 for known in memberships):
            _report(rows, found, at, f"it counted on {_names(set(voters))}, who never were all that vote")
        else:
            _voters_agree(rows, context, found, votes, at, have)


def _voters_agree(rows: Rows, context: RunContext, found: Findings, votes: Votes, at: int, named: Set[str]) -> None:
    """Without one clock, and where a host took what it knew last, a voter that says nothing says nothing against it."""
    leader, term, index = rows.text("node", at), int(rows.column("epoch")[at]), rows.column("index")
    silence_counts = context.one_clock and bool(votes) and not may_lack_ends(rows)
    for voter in sorted(named):
        given = votes.get((voter, term), ())
        if any(_candidate(rows, vote) == leader and (not context.one_clock or vote < at) for vote in given):
            continue
        if given:
            other = _candidate(rows, given[0])
            _report(rows, found, at, f"{voter}, whose vote it counted, had given it to {other}", int(index[given[0]]))
        elif silence_counts:
            _report(rows, found, at, f"{voter}, whose vote it counted, had given none in that term")


def _report(rows: Rows, found: Findings, at: int, why: str, *witness: int) -> None:
    found.add(
        UNELECTED_LEADER,
        f"{rows.text('node', at)} led the controllers in term {int(rows.column('epoch')[at])} from "
        f"{at_s(rows, at)} on, but {why}.",
        *witness,
        int(rows.column("index")[at]),
    )


def _names(nodes: Set[str]) -> str:
    return ", ".join(sorted(map(str, nodes))) or "nobody"


def committed_by_own_term(rows: Rows, found: Findings, applied: Sequence[int]) -> None:
    """Check up to where a leader has committed when it applies what an earlier term has left. That is where it began,
    or an entry of its own term: one of an earlier term may be on a majority and still be replaced."""
    at = np.array(applied, dtype=np.int64)
    position, term, index = (rows.column(name) for name in ("position", "epoch", "index"))
    committed, claimed = _numbers(rows, at, "committed"), _numbers(rows, at, "committed_term")
    terms = {int(position[row]): int(term[row]) for row in reversed(applied)}
    reported: set[tuple[str, int]] = set()
    for n in np.flatnonzero(committed >= 0).tolist():
        row, end = int(at[n]), int(committed[n])
        election = _last_leading(rows, row)
        began = rows.value(election).get("commit") if election >= 0 else None
        of = terms.get(end, int(claimed[n]))
        if not isinstance(began, int) or end <= began or of >= term[election]:
            continue
        node = rows.text("node", row)
        if (node, end) not in reported:  # it applies many entries after one decision
            reported.add((node, end))
            found.add(
                EARLIER_TERM_COMMITTED,
                f"{node}, the leader of term {int(term[election])}, had committed entry {end} by {at_s(rows, row)}, "
                f"which is of term {of}, and nothing of its own term: it began with {began} as the last one.",
                int(index[election]),
                int(index[row]),
            )


def _numbers(rows: Rows, at: Ints, key: str) -> Ints:
    """Return what each row says under ``key``, -1 where it says nothing."""
    found = np.full(len(at), -1, dtype=np.int64)
    for form in rows.forms(at):
        value = form.value.get(key)
        if isinstance(value, int | np.ndarray):
            found[form.at] = form.whole(value)
    return found


def _last_leading(rows: Rows, at: int) -> int:
    """Return the row by which the node of row ``at`` began to lead, if it still leads then; else -1."""
    mine = rows.where(kind="trace", f="raft", node=rows.text("node", at))
    lived = in_node_order(rows, np.append(mine, at))
    place = int(np.flatnonzero(lived == at)[0])
    life = rows.column("incarnation")
    before = int(lived[place - 1]) if place else -1
    leads = before >= 0 and life[before] == life[at] and rows.value(before).get("role") == "leader"
    return before if leads else -1
