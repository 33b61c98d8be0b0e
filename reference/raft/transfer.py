"""A leader that hands over to a member of its choice (Ongaro's thesis, 3.10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chaos.node import Env
from reference.raft.election import Election
from reference.raft.state import FOLLOWER, RaftState, Transfer
from reference.wire.codes import Request


class Handover:
    """The leader takes no more proposals until the target has all that it has. Then it asks it to stand for election at
    once, and again with each heartbeat. If it still leads after an election timeout it gives up."""

    def __init__(self, state: RaftState, election: Election) -> None:
        self._state, self._election = state, election

    def begin(self, env: Env, target: str, then: Callable[[Env, bool], None]) -> None:
        """Have ``target`` lead, another voter. ``then`` is called with True once this member leads no more, with False
        if it gave up."""
        state = self._state
        assert state.is_leader and state.transferring is None and target in state.peers
        state.transferring = Transfer(target=target, deadline_ns=env.mono_ns() + state.election_ns, then=then)
        self._send_timeout_now(env)

    def _send_timeout_now(self, env: Env) -> None:
        state, transfer = self._state, self._state.transferring
        if transfer is not None and state.peers[transfer.target].match >= state.log.last:
            state.lease.give_up()
            state.send(env, transfer.target, Request.RAFT_TIMEOUT_NOW, {"term": state.term})

    def heartbeat(self, env: Env) -> None:
        """Ask the target again, or give up."""
        state, transfer = self._state, self._state.transferring
        if transfer is not None and env.mono_ns() >= transfer.deadline_ns:
            state.transferring = None
            transfer.then(env, False)
        else:
            self._send_timeout_now(env)

    def caught_up(self, env: Env, source: str, had: int) -> None:
        """Hand over to a follower that had the entries up to ``had`` and may have more of them now."""
        state, transfer = self._state, self._state.transferring
        if transfer is not None and transfer.target == source and state.peers[source].match > had:
            self._send_timeout_now(env)

    def on_timeout_now(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        state = self._state
        if state.is_voter and state.role == FOLLOWER and source == state.leader and fields["term"] == state.term:
            self._election.campaign(env, pre=False, transfer=True)
