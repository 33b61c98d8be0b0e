"""Who led and who voted, in each group: what binds the controllers binds each of them."""

from __future__ import annotations

from chaos.driver import Evidence
from chaos.events import Applied, Damaged, EntriesCut, RaftMembers, RaftRole, Start, TermRaised, Vote
from chaos.fault import Effect
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial, RunContext
from chaos.law import Rows as LawRows
from chaos.operations import FaultRow, HarnessRow
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.raft import deserted, members, terms, votes
from checkers._facts.raft.group import UNNAMED, RaftGroup, node_of
from checkers._facts.storage.catalogue import STORE, catalogue
from checkers._facts.storage.memberships import PREFIX, raft_groups
from checkers.groups.promise import DISK_GIVEN_UP, PROMISE, TWO_LEADERS, WIPED_VOTER


class Elections(Law):
    """What the members of each group, and of meta, reported of votes, terms and memberships."""

    promise = PROMISE
    key = Key.RUN
    reads = (RaftRole, Vote, TermRaised, RaftMembers, EntriesCut, Damaged, Start, Applied, HarnessRow, FaultRow)
    evidence = (Evidence.GROUPS,)
    part = "elections"

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        meta = RaftGroup(UNNAMED, "meta", "meta's", frozenset(context.meta.controllers), PREFIX)
        for group in (meta, *raft_groups(rows).values()):
            _leaders(rows, found, group)
            terms.lower_terms(rows, context, found, group)
            deserted.too_early(rows, found, group)
            members.memberships(rows, found, group)
            given_votes = votes.votes_of(rows, group)
            votes.votes_given_once(rows, context, found, group, given_votes)
            votes.votes_durable(rows, found, group)
            known = members.voters_over_time(rows, group) if group.beginning else []
            votes.leaders_elected(rows, context, found, group, given_votes, known)
        if context.one_clock:
            _voters_had_their_disks(rows, found)
        _disks_kept(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("group_terms", "no store reported who leads a group")])


def _leaders(rows: Rows, found: Findings, group: RaftGroup) -> None:
    """Check that no two members lead in one term."""
    term, index = rows.column("epoch"), rows.column("index")
    first: dict[int, int] = {}
    for at in group.rows(rows, "raft").tolist():
        if rows.value(at).get("role") != "leader":
            continue
        other = first.setdefault(int(term[at]), at)
        if rows.text("node", other) != rows.text("node", at):
            found.add(
                TWO_LEADERS,
                f"{rows.text('node', other)} led {group.title} in term {int(term[at])} from {facts.at_s(rows, other)} "
                f"on, and {rows.text('node', at)} from {facts.at_s(rows, at)} on.",
                int(index[other]),
                int(index[at]),
            )
    found.count("group_terms", len(first) if group.number != UNNAMED else 0)


def _voters_had_their_disks(rows: Rows, found: Findings) -> None:
    """Check that no leader counts the vote of a member whose disk was gone: its store had begun on an empty disk, or on
    another one, after meta had numbered that member's. For runs with one clock, which orders the two."""
    disks: dict[str, tuple[int, str]] = {}
    for entry in catalogue(rows).of(STORE):
        disks.setdefault(f"{entry.name}#{entry.number('disk')}", (entry.at, entry.word("word")))
    lives = rows.column("incarnation")
    starts = {(rows.text("node", at), int(lives[at])): at for at in rows.where(kind="trace", f="start").tolist()}
    for group in raft_groups(rows).values():
        given = votes.votes_of(rows, group)
        for at in group.rows(rows, "raft").tolist():
            value = rows.value(at)
            for voter in value.get("votes") or () if value.get("role") == "leader" else ():
                vote = next(iter(given.get((node_of(voter), int(rows.column("epoch")[at])), ())), -1)
                start = starts.get((node_of(voter), int(lives[vote])), -1) if vote >= 0 else -1
                numbered, word = disks.get(voter, (-1, ""))
                if 0 <= numbered < start and rows.value(start).get("disk") != word:
                    found.add(
                        WIPED_VOTER,
                        f"{rows.text('node', at)} led {group.title} from {facts.at_s(rows, at)} on by the vote of "
                        f"{voter}, which that store gave after it had begun on another disk at "
                        f"{facts.at_s(rows, start)}.",
                        *(int(rows.column("index")[one]) for one in (numbered, start, vote, at)),
                    )


def _disks_kept(rows: Rows, context: RunContext, found: Findings) -> None:
    """Check that a store gives its disk up only after a fault has taken something from it: with each such disk a group
    has one copy less."""
    times, known = rows.column("time_ns"), rows.memo(facts.faults)
    for at in rows.where(kind="trace", f="damaged").tolist():
        node = rows.text("node", at)
        before = [one for one in known if not context.one_clock or one.began_ns <= times[at]]
        if any(node in fault.hits(Effect.LOSES_DISK) for fault in before):
            continue
        if any(fault.may_hit(node) for fault in before):
            found.gap(f"{node} gave its disk up, perhaps after a fault that declares no effects")
            continue
        found.add(
            DISK_GIVEN_UP,
            f"{node} found its disk damaged at {facts.at_s(rows, at)} and gave it up, and no fault had taken anything "
            "from that disk.",
            int(rows.column("index")[at]),
        )
