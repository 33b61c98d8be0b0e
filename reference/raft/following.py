"""The follower's side of replication (Ongaro's thesis, 3.5)."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.node import Env
from reference.raft.applying import Applier
from reference.raft.log import unpack_entries
from reference.raft.members import unpack_members
from reference.raft.policy import RaftPolicy
from reference.raft.roles import Roles
from reference.raft.state import RaftState
from reference.wire.codes import Request


class Following:
    """Replication, as a follower."""

    def __init__(self, state: RaftState, policy: RaftPolicy, roles: Roles, applier: Applier) -> None:
        self._state, self._policy, self._roles, self._applier = state, policy, roles, applier

    def accept_leader(self, env: Env, source: str, fields: Mapping[str, int]) -> bool:
        """Follow the sender if its term isn't older than ours; answer it with ours otherwise."""
        state = self._state
        if fields["term"] < state.term:
            answer = {"answer": 1, "term": state.term, "ok": 0, "match": 0, "prev": -1, "round": 0}
            state.send(env, source, Request.RAFT_APPEND, answer)
            return False
        self._roles.follow(env, fields["term"], source)
        state.leader_heard_ns = env.mono_ns()
        state.set_deadline(env)
        return True

    def answer(self, env: Env, source: str, fields: Mapping[str, int], *, ok: bool, match: int) -> None:
        """Report to the leader up to where this log is as its own, once that is durable."""
        answer = {"answer": 1, "term": self._state.term, "ok": int(ok), "match": match, "round": fields["round"]}
        answer["prev"] = fields.get("prev", -1)
        self._state.send(env, source, Request.RAFT_APPEND, answer, after=self._policy.answer_token(env))

    def on_append(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        state = self._state
        entries = unpack_entries(body)
        for entry in entries:
            if unpack_members(entry.data) is None:
                state.machine.check(entry.data)
        if not self.accept_leader(env, source, fields):
            return
        previous = fields["prev"]
        if not self._policy.continues_log(previous, fields["prev_term"]):
            self.answer(env, source, fields, ok=False, match=self._common_point(previous))
            return
        index = previous
        for entry in entries:
            index += 1
            if index <= state.log.snapshot_index or state.log.term_at(index) == entry.term:
                continue
            if index <= state.commit:
                return  # no correct leader replaces what is committed: keep it, and do not answer
            if not state.log.has_room(env.disk, len(entry.data)):
                return  # the leader sends it again, now and then
            state.put(env, index, entry)
        self.answer(env, source, fields, ok=True, match=index)
        self._applier.commit(env, self._policy.committed_here(min(fields["commit"], index)))

    def _common_point(self, previous: int) -> int:
        """Where the leader should try next: before the whole term that differs."""
        state = self._state
        if previous > state.log.last:
            return state.log.last
        term = state.log.term_at(previous)
        while previous > state.commit and state.log.term_at(previous) == term:
            previous -= 1
        return previous
