"""Planted bugs of elections among the controllers: who votes, and what a leader makes of what it finds."""

from __future__ import annotations

from chaos.node import Env
from reference.mutants._planted import Planted
from reference.raft.policy import RaftPolicy


class VotesBeforeFsync(RaftPolicy):
    """The answer to a candidate doesn't wait until the disk has the vote."""

    def vote_token(self, env: Env) -> int | None:
        super().vote_token(env)
        return None


class VotesInMemory(RaftPolicy):
    """To whom a vote went is known in this life alone: the disk has the term."""

    def remember_vote(self, env: Env, term: int, candidate: str) -> None:
        self.log.vote = candidate


class LeadsByOneLess(RaftPolicy):
    """A candidate needs one vote less than a majority has, if there are more than three who vote."""

    def votes_needed(self) -> int:
        return super().votes_needed() - (len(self.state.members.voters) > 3)


class CountsEarlierTerms(RaftPolicy):
    """A leader counts who has what earlier terms have left, and commits that, before its own first entry is there."""

    def may_commit(self, index: int) -> bool:
        return True


MUTANTS = (
    Planted(
        name="votes-before-fsync",
        law="controllers",
        stands_for="a vote in the page cache: its answer leaves, a power cut takes it, and the next candidate gets it",
        parts={"controller": {"raft_policy": VotesBeforeFsync}},
        scenario="voter_power_loss",
    ),
    Planted(
        name="votes-in-memory",
        law="controllers",
        stands_for="a term that is written down and a vote that isn't: who restarts votes once more in the same term",
        parts={"controller": {"raft_policy": VotesInMemory}},
        scenario="voter_power_loss",
    ),
    Planted(
        name="leads-by-one-less",
        law="controllers",
        stands_for="a majority that is rounded down, so that two leaders of one term may be elected",
        parts={"controller": {"raft_policy": LeadsByOneLess}},
        scenario="voter_power_loss",
    ),
    Planted(
        name="counts-earlier-terms",
        law="controllers",
        stands_for="figure 8 of Raft's paper, and nothing else: an earlier term's entry is committed by counting",
        parts={"controller": {"raft_policy": CountsEarlierTerms}},
        scenario="entries_of_earlier_terms",
    ),
)
