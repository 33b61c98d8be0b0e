"""Changes of the membership, one server at a time (Ongaro's thesis, 4.1 and 4.2), with learners that catch up first.

Majorities before and after such a change have a member in common, so that no joint membership is needed. That holds for
two changes in a row only if the first is committed before the second begins, and across leaders only if a leader has
committed an entry of its own term before it changes anything: Ongaro's erratum of 2015 on raft-dev.
"""

from __future__ import annotations

from chaos.node import Env
from reference.raft.leading import Leading
from reference.raft.members import Members, pack_members
from reference.raft.peer import CatchUp, Peer
from reference.raft.policy import RaftPolicy
from reference.raft.state import RaftState
from reference.raft.state_machine import Proposed


class Membership:
    """Who joins is a learner first. It becomes a voter once it has caught up: within an election timeout it has got all
    that the leader had when that began, so that the next entries won't wait for it for longer."""

    def __init__(self, state: RaftState, policy: RaftPolicy, leading: Leading) -> None:
        self.state = state
        self._policy, self._leading = policy, leading

    def why_no_change(self) -> str:
        """Why this member can't change the membership now; "" if it can."""
        state = self.state
        if not state.is_leader:
            return "it does not lead"
        if state.is_handing_over:
            return "it hands over to another member"
        if state.commit < state.term_start:
            return "it has committed no entry of its term yet"
        if self.must_wait(state.memberships.index):
            return "the change before is not committed yet"
        return ""

    def must_wait(self, index: int) -> bool:
        """Return whether a change waits for the one before it, of the entry at ``index``: the majorities of two in a
        row have a member in common, those of three need not."""
        return self.state.commit < index

    def add(self, env: Env, name: str, then: Proposed) -> None:
        """Take in a newcomer, as a learner."""
        assert not self.why_no_change() and name not in self.state.members.all
        self._change(env, self._policy.with_newcomer(self.state.members, name), then)

    def remove(self, env: Env, name: str, then: Proposed) -> None:
        """Remove another member; a leader that is to go hands over first."""
        assert not self.why_no_change() and name in self.state.others
        self._change(env, self.state.members.without(name), then)

    def _change(self, env: Env, members: Members, then: Proposed) -> None:
        state, now = self.state, env.mono_ns()
        for gone in [name for name in state.peers if name not in members.all]:
            del state.peers[gone]
        for name in members.all:
            if name != state.name and name not in state.peers:
                state.peers[name] = Peer(next=state.log.last + 1, heard_ns=now)
        self._leading.propose(env, pack_members(members), then)

    def watch_learner(self, env: Env, name: str) -> None:
        """Give a vote to a learner that has caught up, now that it has answered."""
        state, peer = self.state, self.state.peers.get(name)
        if peer is None or name not in state.members.learners:
            return
        now, catch_up = env.mono_ns(), peer.catch_up
        if catch_up is None:
            peer.catch_up = CatchUp(end=state.log.last, since_ns=now)
        elif peer.match >= catch_up.end:
            peer.catch_up = CatchUp(end=state.log.last, since_ns=now)
            if now - catch_up.since_ns <= state.election_ns and not self.why_no_change():
                self._change(env, state.members.with_voter(name), _ended)


def _ended(env: Env, outcome: object, index: int) -> None:
    """Do nothing: nobody waits for a learner's vote."""
