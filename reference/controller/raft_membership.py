"""Changes of the membership, one server at a time (Ongaro's thesis, 4.1 and 4.2), with learners that catch up first.

Majorities before and after such a change have a member in common, so that no joint membership is needed. That holds for
two changes in a row only if the first is committed before the second begins, and across leaders only if a leader has
committed an entry of its own term before it changes anything: Ongaro's erratum of 2015 on raft-dev.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.node import Env
from reference.controller.raft_members import Members, pack_members
from reference.controller.raft_peer import CatchUp, Peer
from reference.controller.raft_state import LEADER
from reference.controller.raft_transfer import Handover
from reference.controller.state_machine import Proposed


class Membership(Handover):
    """Who joins is a learner first. It becomes a voter once it has caught up: within an election timeout it has got all
    that the leader had when that began, so that the next entries won't wait for it for longer."""

    def why_no_change(self) -> str:
        """Why this member can't change the membership now; "" if it can."""
        if self.role != LEADER:
            return "it does not lead"
        if self._transfer is not None:
            return "it hands over to another member"
        if self.commit < self._term_start:
            return "it has committed no entry of its term yet"
        if self.commit < self._memberships.index:
            return "the change before is not committed yet"
        return ""

    def add_learner(self, env: Env, name: str, then: Proposed) -> None:
        assert not self.why_no_change() and name not in self.members.all
        self._change(env, self.members.with_learner(name), then)

    def remove(self, env: Env, name: str, then: Proposed) -> None:
        """Remove another member; a leader that is to go hands over first."""
        assert not self.why_no_change() and name in self.others
        self._change(env, self.members.without(name), then)

    def _change(self, env: Env, members: Members, then: Proposed) -> None:
        now = env.mono_ns()
        for gone in [name for name in self._peers if name not in members.all]:
            del self._peers[gone]
        for name in members.all:
            if name != self.name and name not in self._peers:
                self._peers[name] = Peer(next=self.log.last + 1, heard_ns=now)
        self.propose(env, pack_members(members), then)

    def _on_append_answer(self, env: Env, source: str, fields: Mapping[str, int]) -> None:
        super()._on_append_answer(env, source, fields)
        peer = self._peers.get(source)
        if peer is not None and source in self.members.learners:
            self._watch_learner(env, source, peer)

    def _watch_learner(self, env: Env, name: str, peer: Peer) -> None:
        now = env.mono_ns()
        catch_up = peer.catch_up
        if catch_up is None:
            peer.catch_up = CatchUp(end=self.log.last, since_ns=now)
        elif peer.match >= catch_up.end:
            peer.catch_up = CatchUp(end=self.log.last, since_ns=now)
            if now - catch_up.since_ns <= self._election_ns and not self.why_no_change():
                self._change(env, self.members.with_voter(name), lambda env, outcome, index: None)
