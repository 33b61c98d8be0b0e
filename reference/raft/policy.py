"""The decisions that Raft's promises rest on, each in a small method of its own, which planted bugs override."""

from __future__ import annotations

from chaos.node import Env
from reference.raft.log import RaftLog
from reference.raft.members import Members
from reference.raft.read_index import Read
from reference.raft.state import RaftState


class RaftPolicy:
    """What one member decides by its state. ``log_class``: what keeps its entries."""

    log_class: type[RaftLog] = RaftLog

    def __init__(self, state: RaftState) -> None:
        self.state = state

    @property
    def log(self) -> RaftLog:
        return self.state.log

    # Elections

    def may_vote(self, candidate: str, term: int, last_index: int, last_term: int) -> bool:
        """Return whether to vote for a candidate of our own, current term."""
        return self.log.vote in ("", candidate) and self.is_up_to_date(last_index, last_term)

    def is_up_to_date(self, last_index: int, last_term: int) -> bool:
        """Return whether a log that ends so holds all that this one may have committed."""
        return (last_term, last_index) >= (self.log.last_term, self.log.last)

    def leader_is_fresh(self, env: Env) -> bool:
        """Return whether this member has heard its leader lately: then it grants no votes against it."""
        silence_ns = self.state.silence_ns(env)
        return silence_ns is not None and silence_ns < self.state.election_ns

    def votes_needed(self) -> int:
        """How many voters make a leader of a candidate."""
        return self.state.members.majority

    def vote_token(self, env: Env) -> int | None:
        """Return the token of the sync that the answer to a candidate has to wait for."""
        return self.answer_token(env)

    def remember_vote(self, env: Env, term: int, candidate: str) -> None:
        """Keep to whom the vote of this term went."""
        self.log.set_term(env.disk, term, candidate)

    def hears_majority(self, now_ns: int) -> bool:
        """Return whether a majority has answered this leader within two election timeouts."""
        state = self.state
        heard = sum(now_ns - peer.heard_ns < 2 * state.election_ns for peer in state.voting_peers())
        return state.is_voter + heard >= state.members.majority

    # Replication

    def under_way(self) -> int:
        """How many proposals there are whose outcome isn't known yet."""
        return len(self.state.proposals)

    def may_commit(self, index: int) -> bool:
        """Only entries of the leader's own term are committed by counting; earlier ones follow with them."""
        return self.log.term_at(index) == self.state.term

    def own_match(self) -> int:
        """Up to where this leader counts itself: a leader's own disk is one of the majority, too."""
        return self.log.durable

    def answer_token(self, env: Env) -> int | None:
        """Return the token of the sync that an answer which promises something has to wait for."""
        return self.log.sync(env.disk)

    def continues_log(self, previous: int, term: int) -> bool:
        """Return whether entries behind ``previous``, which has this term at the leader, continue this follower's
        log."""
        return previous <= self.log.snapshot_index or self.log.term_at(previous) == term

    def committed_here(self, index: int) -> int:
        """Up to where a follower takes entries for committed, if its leader's word reaches to ``index``."""
        return index

    def tells_commit_at_once(self) -> bool:
        """Return whether followers hear of what is committed by a message of its own, and not with the next append or
        heartbeat: then they apply it, and answer reads, a heartbeat sooner."""
        return True

    # Reads

    def read_is_safe(self, read: Read) -> bool:
        """Return whether a majority has confirmed, after the read was asked, that this member leads."""
        state = self.state
        confirmed = state.is_voter + sum(peer.round >= read.round for peer in state.voting_peers())
        return confirmed >= state.members.majority

    def lease_clock_ns(self, env: Env) -> int:
        """By what a lease is measured."""
        return env.mono_ns()

    def may_read_at(self, index: int) -> bool:
        """Return whether this member has applied all that a read at this index must see."""
        return index <= self.state.applied

    def reads_locally(self) -> bool:
        """Return whether a read may be answered from this member's own state, unasked."""
        return False

    def asks_again(self) -> bool:
        """Return whether a follower that was answered asks for the reads that have come meanwhile."""
        return not self.state.is_leader and self.state.leader != ""

    # Membership

    def with_newcomer(self, members: Members, name: str) -> Members:
        """Who belongs to the group once ``name`` has joined it."""
        return members.with_learner(name)
