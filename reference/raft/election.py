"""Who leads: pre-vote and votes (Ongaro's thesis, 3.4, 4.2.3 and 9.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaos import events
from chaos.node import Env
from reference.raft.policy import RaftPolicy
from reference.raft.reads import Reads
from reference.raft.roles import ELECTION, Roles
from reference.raft.state import CANDIDATE, FOLLOWER, Ballot, RaftState
from reference.wire.codes import Request


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote that was given. ``tip``: the file of the log that holds it, and how long that file was with it."""

    term: int
    candidate: str
    tip: tuple[str, int]


class Election:
    """Elections of one member."""

    def __init__(self, state: RaftState, policy: RaftPolicy, roles: Roles, reads: Reads) -> None:
        self._state, self._policy, self._roles, self._reads = state, policy, roles, reads
        self._untraced: list[tuple[int, Vote]] = []  # with the sync that each waits for

    def timeout(self, env: Env) -> None:
        """Followers only move the deadline; the timer looks at it when it fires."""
        state = self._state
        if state.is_leader:
            return
        state.log.note_bound()
        left_ns = state.deadline_ns - env.mono_ns()
        if left_ns > 0 and not state.is_alone:
            env.set_timer(ELECTION, left_ns)
            return
        self._reads.refuse_late(env)
        if state.is_voter:
            self.campaign(env, pre=True)
        else:
            state.set_deadline(env)
            self._roles.become(env, FOLLOWER, "")
        env.set_timer(ELECTION, max(1, state.deadline_ns - env.mono_ns()))

    def campaign(self, env: Env, *, pre: bool, transfer: bool = False) -> None:
        """Ask for votes. ``pre``: only ask whether they would be granted, so that the term rises only for an election
        that can be won. ``transfer``: the leader itself wants it, so that nobody has to wait for its silence."""
        state = self._state
        state.set_deadline(env)
        if not pre:
            state.log.set_term(env.disk, state.term + 1, state.name)
        self._roles.become(env, CANDIDATE, "")
        ballot = state.ballot = Ballot(state.term + pre, pre, state.log.tip)
        token = self._policy.answer_token(env)
        fields = {"term": ballot.term, "last": state.log.last, "last_term": state.log.last_term}
        if transfer:
            fields["transfer"] = 1
        code = Request.RAFT_PRE_VOTE if pre else Request.RAFT_VOTE
        for other in state.others:
            state.send(env, other, code, fields, after=token)
        if token is None:
            self.count_vote(env, state.name)

    def count_vote(self, env: Env, voter: str) -> None:
        """Count a vote for this candidate; its own counts once it is durable."""
        state, ballot = self._state, self._state.ballot
        if ballot is None:
            return
        if voter == state.name and not ballot.pre and voter not in ballot.granted:
            self._trace_vote(env, Vote(ballot.term, voter, ballot.tip))
        ballot.granted.add(voter)
        votes = sum(name in ballot.granted for name in state.members.voters)
        if votes < self._policy.votes_needed() or state.name not in ballot.granted:
            return
        state.ballot = None
        state.elected_by = tuple(sorted(ballot.granted))
        if ballot.pre:
            self.campaign(env, pre=False)
        else:
            self._roles.lead(env)

    def on_pre_vote(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        state = self._state
        granted = (
            fields["term"] > state.term
            and not self._policy.leader_is_fresh(env)
            and self._policy.is_up_to_date(fields["last"], fields["last_term"])
        )
        term = fields["term"] if granted else state.term
        answer = {"answer": 1, "term": term, "granted": int(granted)}
        if granted:
            answer["pre"] = 1
        state.send(env, source, Request.RAFT_PRE_VOTE, answer)

    def on_vote(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        state, policy, term = self._state, self._policy, fields["term"]
        if term > state.term and policy.leader_is_fresh(env) and "transfer" not in fields:
            return
        if term > state.term:
            self._trace_raised(env, source, term, is_transfer="transfer" in fields)
            self._roles.follow(env, term, "")
        granted = term == state.term and policy.may_vote(source, term, fields["last"], fields["last_term"])
        if granted and state.log.vote != source:
            policy.remember_vote(env, term, source)
            state.set_deadline(env)
        answer = {"answer": 1, "term": state.term, "granted": int(granted)}
        token = policy.vote_token(env)
        state.send(env, source, Request.RAFT_VOTE, answer, after=token)
        if granted:
            self._note_vote(env, Vote(term, source, state.log.tip), token)

    def on_vote_answer(self, env: Env, source: str, code: int, fields: Mapping[str, int]) -> None:
        ballot = self._state.ballot
        pre = code == Request.RAFT_PRE_VOTE
        if ballot is not None and fields["granted"] and (ballot.pre, ballot.term) == (pre, fields["term"]):
            self.count_vote(env, source)

    # What is traced

    def _note_vote(self, env: Env, vote: Vote, token: int | None) -> None:
        """Trace a vote in the step in which its answer leaves: one that a crash takes before that was none."""
        if token is None:
            self._trace_vote(env, vote)
        else:
            self._untraced.append((token, vote))

    def votes_durable(self, env: Env, token: int) -> None:
        """Trace the votes that a sync has made durable: it has ended, and with it all that were started before it."""
        durable = [vote for known, vote in self._untraced if known <= token]
        self._untraced = [(known, vote) for known, vote in self._untraced if known > token]
        for vote in durable:
            self._trace_vote(env, vote)

    def _trace_vote(self, env: Env, vote: Vote) -> None:
        """Of a vote that has moved to the log's next file meanwhile, nobody need know how long the old one was."""
        path, size = vote.tip
        where: dict[str, Any] = {"file": path, "size": size} if path == self._state.log.tip[0] else {}
        env.trace(events.Vote(epoch=vote.term, candidate=vote.candidate, **where))

    def _trace_raised(self, env: Env, source: str, term: int, *, is_transfer: bool) -> None:
        silence_ns = self._state.silence_ns(env)
        silence = {} if silence_ns is None else {"silence_ms": silence_ns // 1_000_000}
        election_ms = self._state.options.election_ms
        env.trace(
            events.TermRaised(epoch=term, by=source, election_ms=election_ms, transfer=int(is_transfer), **silence)
        )
