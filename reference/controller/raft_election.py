"""Who leads: pre-vote, votes, roles, and a leader that has to hear a majority (Ongaro's thesis, 3.4, 9.6 and 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos import events
from chaos.node import Env
from reference.controller.raft_peer import Peer
from reference.controller.raft_reads import Reads, refuse
from reference.controller.raft_state import CANDIDATE, FOLLOWER, LEADER, Ballot, Vote
from reference.wire.codes import Request

ELECTION, HEARTBEAT = "raft.election", "raft.heartbeat"


class Election(Reads):
    """Elections of one member, and its role."""

    def _set_deadline(self, env: Env) -> None:
        self._deadline_ns = env.mono_ns() + self._election_ns + env.rng.randrange(self._election_ns)

    def _election_timer(self, env: Env) -> None:
        """Followers only move the deadline; the timer looks at it when it fires."""
        if self.role == LEADER:
            return
        self.log.note_bound()
        left_ns = self._deadline_ns - env.mono_ns()
        if left_ns > 0 and self.others:
            env.set_timer(ELECTION, left_ns)
            return
        refuse(env, self._questions.end_late(env.mono_ns()))
        if self.is_voter:
            self._campaign(env, pre=True)
        else:
            self._set_deadline(env)
            self._become(env, FOLLOWER, "")
        env.set_timer(ELECTION, max(1, self._deadline_ns - env.mono_ns()))

    def _campaign(self, env: Env, *, pre: bool, transfer: bool = False) -> None:
        """Ask for votes. ``pre``: only ask whether they would be granted, so that the term rises only for an election
        that can be won. ``transfer``: the leader itself wants it, so that nobody has to wait for its silence."""
        self._set_deadline(env)
        if not pre:
            self.log.set_term(env.disk, self.term + 1, self.name)
        self._become(env, CANDIDATE, "")
        self._ballot = Ballot(self.term + pre, pre, self.log.tip)
        token = self.answer_token(env)
        fields = {"term": self._ballot.term, "last": self.log.last, "last_term": self.log.last_term}
        if transfer:
            fields["transfer"] = 1
        code = Request.RAFT_PRE_VOTE if pre else Request.RAFT_VOTE
        for other in self.others:
            self._send(env, other, code, fields, after=token)
        if token is None:
            self._count_vote(env, self.name)

    def _count_vote(self, env: Env, voter: str) -> None:
        ballot = self._ballot
        if ballot is None:
            return
        if voter == self.name and not ballot.pre and voter not in ballot.granted:
            self._trace_vote(env, Vote(ballot.term, voter, ballot.tip))
        ballot.granted.add(voter)
        votes = sum(name in ballot.granted for name in self.members.voters)
        if votes < self.votes_needed() or self.name not in ballot.granted:
            return
        self._ballot = None
        self._elected_by = tuple(sorted(ballot.granted))
        if ballot.pre:
            self._campaign(env, pre=False)
        else:
            self._lead(env)

    def _silence_ns(self, env: Env) -> int | None:
        """For how long this node has not heard its leader; None if it never has."""
        if self.role == LEADER:
            return 0
        return None if self._leader_heard_ns is None else env.mono_ns() - self._leader_heard_ns

    def _leader_is_fresh(self, env: Env) -> bool:
        """Whether this node has heard its leader lately: then it grants no votes against it."""
        silence_ns = self._silence_ns(env)
        return silence_ns is not None and silence_ns < self._election_ns

    def _on_pre_vote(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        granted = (
            fields["term"] > self.term
            and not self._leader_is_fresh(env)
            and self.is_up_to_date(fields["last"], fields["last_term"])
        )
        term = fields["term"] if granted else self.term
        answer = {"answer": 1, "term": term, "granted": int(granted)}
        if granted:
            answer["pre"] = 1
        self._send(env, source, Request.RAFT_PRE_VOTE, answer)

    def _on_vote(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        term = fields["term"]
        if term > self.term and self._leader_is_fresh(env) and "transfer" not in fields:
            return
        if term > self.term:
            self._trace_raised(env, source, term, is_transfer="transfer" in fields)
            self._follow(env, term, "")
        granted = term == self.term and self.may_vote(source, term, fields["last"], fields["last_term"])
        if granted and self.log.vote != source:
            self.remember_vote(env, term, source)
            self._set_deadline(env)
        answer = {"answer": 1, "term": self.term, "granted": int(granted)}
        token = self.vote_token(env)
        self._send(env, source, Request.RAFT_VOTE, answer, after=token)
        if granted:
            self._note_vote(env, Vote(term, source, self.log.tip), token)

    def _note_vote(self, env: Env, vote: Vote, token: int | None) -> None:
        """A vote is traced in the step in which its answer leaves: one that a crash takes before that was none."""
        if token is None:
            self._trace_vote(env, vote)
        else:
            self._untold_votes.append((token, vote))

    def _votes_durable(self, env: Env, token: int) -> None:
        """A sync has ended, and with it all that were started before it."""
        told = [vote for known, vote in self._untold_votes if known <= token]
        self._untold_votes = [(known, vote) for known, vote in self._untold_votes if known > token]
        for vote in told:
            self._trace_vote(env, vote)

    def _trace_vote(self, env: Env, vote: Vote) -> None:
        """Of a vote that has moved to the log's next file meanwhile, nobody need know how long the old one was."""
        path, size = vote.tip
        where: dict[str, Any] = {"file": path, "size": size} if path == self.log.tip[0] else {}
        env.trace(events.Vote(epoch=vote.term, candidate=vote.candidate, **where))

    def _trace_raised(self, env: Env, source: str, term: int, *, is_transfer: bool) -> None:
        silence_ns = self._silence_ns(env)
        told = {} if silence_ns is None else {"silence_ms": silence_ns // 1_000_000}
        election_ms = self._election_ns // 1_000_000
        env.trace(events.TermRaised(epoch=term, by=source, election_ms=election_ms, transfer=int(is_transfer), **told))

    def _on_vote_answer(self, env: Env, source: str, code: int, fields: Mapping[str, int]) -> None:
        ballot = self._ballot
        pre = code == Request.RAFT_PRE_VOTE
        if ballot is not None and fields["granted"] and (ballot.pre, ballot.term) == (pre, fields["term"]):
            self._count_vote(env, source)

    # Roles

    def _announce_role(self, env: Env) -> None:
        self._announced = (self.role, self.leader, self.term)
        led: dict[str, Any] = {}
        if self.role == LEADER:
            led = {"votes": list(self._elected_by), "voters": list(self.members.voters), "commit": self.commit}
        env.trace(events.RaftRole(epoch=self.term, role=self.role, leader=self.leader, **led))
        self.machine.role_changed(env)

    def _become(self, env: Env, role: str, leader: str) -> None:
        deposed = self.role == LEADER and role != LEADER
        self.role, self.leader, self._ballot = role, leader, None
        if deposed:
            env.cancel_timer(HEARTBEAT)
            self._peers.clear()
            self._lease.end()
            self._set_deadline(env)
            env.set_timer(ELECTION, self._deadline_ns - env.mono_ns())
        if self._announced != (role, leader, self.term):
            self._announce_role(env)
        if deposed:
            self._end_leadership(env)

    def _end_leadership(self, env: Env) -> None:
        """Whatever was under way may still be committed by another leader: its outcome is unknown."""
        proposals, self._proposals = self._proposals, {}
        transfer, self._transfer = self._transfer, None
        reads = self._rounds.end()
        for then in proposals.values():
            then(env, None, -1)
        if transfer is not None:
            transfer.then(env, True)
        refuse(env, [read.then for read in reads])

    def _follow(self, env: Env, term: int, leader: str) -> None:
        """Be a follower in ``term``, which is at least our own."""
        if term > self.term:
            self.log.set_term(env.disk, term, "")
            self.log.sync(env.disk)
        if leader != self.leader:
            refuse(env, self._questions.end())
        self._become(env, FOLLOWER, leader)

    def _lead(self, env: Env) -> None:
        now = env.mono_ns()
        self._peers = {other: Peer(next=self.log.last + 1, heard_ns=now) for other in self.others}
        self._term_start = self.log.last + 1
        env.cancel_timer(ELECTION)
        refuse(env, self._questions.end())
        self._become(env, LEADER, self.name)
        self._append(env, b"")
        env.set_timer(HEARTBEAT, self._heartbeat_ns)

    def _heartbeat_timer(self, env: Env) -> None:
        """Tell the followers that we lead; step down when no majority has been heard for two election timeouts."""
        if self.role != LEADER:
            return
        self.log.note_bound()
        now = env.mono_ns()
        heard = self.is_voter + sum(now - peer.heard_ns < 2 * self._election_ns for peer in self._voting_peers())
        if heard < self.members.majority:
            self._become(env, FOLLOWER, "")
            return
        if self._lease.is_wanted:
            self._lease.sent(self._rounds.renew(), self.lease_clock_ns(env))
        for name, peer in self._peers.items():
            if now - peer.heard_ns > self._election_ns:
                peer.probe(peer.match + 1)
            self._send_append(env, name, peer)
        env.set_timer(HEARTBEAT, self._heartbeat_ns)
