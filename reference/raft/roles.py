"""Which role a member has, and what changes with it (Ongaro's thesis, 3.4 and 6.2)."""

from __future__ import annotations

from typing import Any

from chaos import events
from chaos.node import Env
from reference.raft.leading import Leading
from reference.raft.peer import Peer
from reference.raft.policy import RaftPolicy
from reference.raft.reads import Reads, refuse
from reference.raft.state import FOLLOWER, LEADER, RaftState

ELECTION, HEARTBEAT = "raft.election", "raft.heartbeat"


class Roles:
    """The role of one member."""

    def __init__(self, state: RaftState, policy: RaftPolicy, reads: Reads, leading: Leading) -> None:
        self._state, self._policy, self._reads, self._leading = state, policy, reads, leading
        self._announced = ("", "", -1)

    def announce(self, env: Env) -> None:
        """Say which role this is, in the trace and to the state machine."""
        state = self._state
        self._announced = (state.role, state.leader, state.term)
        led: dict[str, Any] = {}
        if state.is_leader:
            led = {"votes": list(state.elected_by), "voters": list(state.members.voters), "commit": state.commit}
        env.trace(events.RaftRole(epoch=state.term, role=state.role, leader=state.leader, **led))
        state.machine.role_changed(env)

    def become(self, env: Env, role: str, leader: str) -> None:
        state = self._state
        deposed = state.is_leader and role != LEADER
        state.role, state.leader, state.ballot = role, leader, None
        if deposed:
            env.cancel_timer(HEARTBEAT)
            state.peers.clear()
            state.lease.end()
            state.set_deadline(env)
            env.set_timer(ELECTION, state.deadline_ns - env.mono_ns())
        if self._announced != (role, leader, state.term):
            self.announce(env)
        if deposed:
            self._end_leadership(env)

    def _end_leadership(self, env: Env) -> None:
        """Whatever was under way may still be committed by another leader: its outcome is unknown."""
        state = self._state
        proposals, state.proposals = state.proposals, {}
        transfer, state.transferring = state.transferring, None
        reads = state.rounds.end()
        for then in proposals.values():
            then(env, None, -1)
        if transfer is not None:
            transfer.then(env, True)
        refuse(env, [read.then for read in reads])

    def follow(self, env: Env, term: int, leader: str) -> None:
        """Be a follower in ``term``, which is at least our own."""
        state = self._state
        if term > state.term:
            state.log.set_term(env.disk, term, "")
            state.log.sync(env.disk)
        if leader != state.leader:
            self._reads.refuse_asked(env)
        self.become(env, FOLLOWER, leader)

    def lead(self, env: Env) -> None:
        """Lead in the term of the election that was won."""
        state, now = self._state, env.mono_ns()
        state.peers = {other: Peer(next=state.log.last + 1, heard_ns=now) for other in state.others}
        state.term_start = state.log.last + 1
        env.cancel_timer(ELECTION)
        self._reads.refuse_asked(env)
        self.become(env, LEADER, state.name)
        self._leading.begin_term(env)
        env.set_timer(HEARTBEAT, state.heartbeat_ns)

    def heartbeat(self, env: Env) -> None:
        """Send the followers heartbeats; step down when no majority has been heard for two election timeouts."""
        state = self._state
        if not state.is_leader:
            return
        state.log.note_bound()
        now = env.mono_ns()
        if not self._policy.hears_majority(now):
            self.become(env, FOLLOWER, "")
            return
        if state.lease.is_wanted:
            state.lease.sent(state.rounds.renew(), self._policy.lease_clock_ns(env))
        for name, peer in state.peers.items():
            if now - peer.heard_ns > state.election_ns:
                peer.probe(peer.match + 1)
            self._leading.sender.show(env, name, peer)
        env.set_timer(HEARTBEAT, state.heartbeat_ns)
