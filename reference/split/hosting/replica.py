"""A member of one of many groups: Raft's, that lets its node say for all groups at once that they have leaders."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.node import Env
from reference.raft.member import Raft
from reference.raft.members import Members, pack_members
from reference.raft.peer import Peer
from reference.raft.policy import RaftPolicy
from reference.raft.sending import Sender
from reference.raft.state import FOLLOWER
from reference.split.hosting.beats import Beat
from reference.split.hosting.group_env import GroupEnv
from reference.wire.codes import Request


class ReplicaPolicy(RaftPolicy):
    """What a replica decides besides."""

    def may_vote(self, candidate: str, term: int, last_index: int, last_term: int) -> bool:
        """A replica that joined by a message has no vote before a snapshot or an entry names it (R6)."""
        return self.state.name in self.state.members.all and super().may_vote(candidate, term, last_index, last_term)

    def is_settled(self, peer: Peer) -> bool:
        """Return whether a follower has all that this leader has, so that a word in a frame for all groups will do."""
        has_all = peer.match == self.log.last and peer.next == peer.match + 1
        return has_all and not peer.probing and peer.sending is None

    def tells_commit_at_once(self) -> bool:
        """With many groups under load, these messages would be half of all."""
        return False

    def is_renewed_by(self, source: str, term: int) -> bool:
        """Return whether a word of this sender is that of the leader whom this replica follows."""
        return self.state.role == FOLLOWER and self.state.leader == source and self.state.term == term

    def may_be_dropped(self, source: str, index: int, members: Members) -> bool:
        """Return whether a replica may be deleted because a member passes on this membership, of the entry at ``index``
        (R11)."""
        is_news = index >= self.state.memberships.index
        return is_news and source in members.all and self.state.name not in members.all


class PairedSender(Sender):
    """Shows settled followers that we lead with a word in the frame that its node gets for all groups."""

    def show(self, env: Env, name: str, peer: Peer) -> None:
        """Show a follower that we lead: one that lacks something, or of which that isn't known, by an append."""
        state = self._state
        assert isinstance(env, GroupEnv) and isinstance(state, Replica)
        if not state.replica_policy.is_settled(peer):
            super().show(env, name, peer)
            return
        peer.untold = False
        env.beats.add(name, Beat(env.group, state.term, state.rounds.last, min(state.commit, peer.match)))


class Replica(Raft):
    """One member."""

    sender_class = PairedSender
    _committed: Members | None = None

    @property
    def replica_policy(self) -> ReplicaPolicy:
        assert isinstance(self.policy, ReplicaPolicy)
        return self.policy

    def committed_members(self) -> tuple[int, Members]:
        """Return the newest membership that is known to be committed, and the index of its entry; 0 for that of the
        group's birth."""
        return self.memberships.committed(self.commit)

    def hears(self, source: str) -> bool:
        """Return whether messages of this replica are taken. A newcomer's snapshot may name only members that have left
        since then, and not the leader that sent it: so all of the others' are (Ongaro's thesis, 4.1)."""
        return source != self.name

    # Beats

    def on_beat(self, env: Env, source: str, beat: Beat) -> Beat:
        """Take a leader's word; return the answer. One that is refused has nothing to do with elections here."""
        if not self.replica_policy.is_renewed_by(source, beat.term):
            return Beat(beat.group, self.term, beat.round, 0)
        self.leader_heard_ns = env.mono_ns()
        self.set_deadline(env)
        self.applier.commit(env, self.policy.committed_here(min(beat.value, self.log.last)))
        return Beat(beat.group, self.term, beat.round, 1)

    def on_beat_answer(self, env: Env, source: str, answer: Beat) -> None:
        """Take a follower's answer: one that refuses is asked by an append what it has, or followed into its term."""
        peer = self.peers.get(source)
        if answer.term > self.term:
            self.roles.follow(env, answer.term, "")
        elif peer is not None and self.is_leader and answer.value and answer.term == self.term:
            self.leading.hear(env, peer, answer.round)
            self.reads.release(env)
            self.membership.watch_learner(env, source)
        elif peer is not None and self.is_leader and not answer.value and not peer.probing:
            peer.probe(peer.match + 1)
            self.sender.send_next(env, source, peer)

    # Members

    def members_applied(self, env: Env, index: int, members: Members) -> None:
        """Have those that are members no more learn it: nothing else is sent to them from now on."""
        before, self._committed = self._committed or self.memberships.beginning, members
        for name in before.all:
            if self.is_leader and name not in members.all:
                self.pass_on_members(env, name)

    def pass_on_members(self, env: Env, to: str) -> None:
        """Send a replica the newest committed membership, as a member of it."""
        index, members = self.committed_members()
        if index and self.name in members.all and to not in members.all:
            self.send(env, to, Request.GROUP_REMOVED, {"index": index, "term": self.term}, pack_members(members))

    def ask_members(self, env: Env, names: Sequence[str]) -> None:
        """Ask these whether this replica was removed: members pass that on to whoever asks for their votes."""
        fields = {"term": self.term, "last": self.log.last, "last_term": self.log.last_term}
        for name in names:
            self.send(env, name, Request.RAFT_PRE_VOTE, fields)
