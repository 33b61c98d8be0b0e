"""A leader that hands over to a member of its choice (Ongaro's thesis, 3.10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chaos.node import Env
from reference.controller.raft_snapshots import Snapshots
from reference.controller.raft_state import FOLLOWER, LEADER, Transfer
from reference.wire.codes import Request


class Handover(Snapshots):
    """The leader takes no more proposals until the target has all that it has. Then it tells it to stand for election
    at once, and again with each heartbeat. If it still leads after an election timeout it gives up."""

    def transfer(self, env: Env, target: str, then: Callable[[Env, bool], None]) -> None:
        """Have ``target`` lead, another voter. ``then`` gets True once this member leads no more, False if it gave
        up."""
        assert self.role == LEADER and self._transfer is None and target in self._peers
        self._transfer = Transfer(target=target, deadline_ns=env.mono_ns() + self._election_ns, then=then)
        self._tell_target(env)

    def _tell_target(self, env: Env) -> None:
        transfer = self._transfer
        if transfer is not None and self._peers[transfer.target].match >= self.log.last:
            self._lease.give_up()
            self._send(env, transfer.target, Request.RAFT_TIMEOUT_NOW, {"term": self.term})

    def _heartbeat_timer(self, env: Env) -> None:
        super()._heartbeat_timer(env)
        transfer = self._transfer
        if transfer is not None and env.mono_ns() >= transfer.deadline_ns:
            self._transfer = None
            transfer.then(env, False)
        else:
            self._tell_target(env)

    def _on_append_answer(self, env: Env, source: str, fields: Mapping[str, int]) -> None:
        had = self._peers[source].match if source in self._peers else 0
        super()._on_append_answer(env, source, fields)
        transfer = self._transfer
        if transfer is not None and transfer.target == source and self._peers[source].match > had:
            self._tell_target(env)

    def _on_timeout_now(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        if self.is_voter and self.role == FOLLOWER and source == self.leader and fields["term"] == self.term:
            self._campaign(env, pre=False, transfer=True)
