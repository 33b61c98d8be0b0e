"""A member of Raft as a whole: which part each message, timer and sync concerns, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chaos.node import Env
from reference.raft.applying import APPLY, Applier
from reference.raft.election import Election
from reference.raft.following import Following
from reference.raft.leading import Leading
from reference.raft.log import RaftLog
from reference.raft.membership import Membership
from reference.raft.messages import MESSAGES, check_cluster, numbers_of
from reference.raft.options import RaftOptions
from reference.raft.policy import RaftPolicy
from reference.raft.read_index import Readable
from reference.raft.reads import MAX_READS, Reads
from reference.raft.roles import ELECTION, HEARTBEAT, Roles
from reference.raft.sending import Sender
from reference.raft.snapshots import Snapshots
from reference.raft.state import FOLLOWER, RaftState
from reference.raft.state_machine import Proposed, StateMachine
from reference.raft.transfer import Handover
from reference.wire.codes import Request
from reference.wire.command import Command


class Raft(RaftState):
    """One member: its state, and the steps that it takes with its parts. Every entry point is one step of the node that
    it is a part of."""

    sender_class: type[Sender] = Sender
    leading_class: type[Leading] = Leading
    membership_class: type[Membership] = Membership

    def __init__(
        self,
        name: str,
        members: Sequence[str],
        machine: StateMachine,
        options: RaftOptions,
        policy: type[RaftPolicy] = RaftPolicy,
        log: RaftLog | None = None,
    ) -> None:
        super().__init__(name, members, machine, options, policy.log_class() if log is None else log)
        self.policy = policy(self)
        self.sender = self.sender_class(self)
        self.reads = Reads(self, self.policy, self.sender)
        self.snapshots = Snapshots(self)
        self.applier = Applier(self, self.snapshots, self.reads)
        self.leading = self.leading_class(self, self.policy, self.sender, self.reads, self.applier)
        self.roles = Roles(self, self.policy, self.reads, self.leading)
        self.following = Following(self, self.policy, self.roles, self.applier)
        self.election = Election(self, self.policy, self.roles, self.reads)
        self.handover = Handover(self, self.election)
        self.membership = self.membership_class(self, self.policy, self.leading)

    # What the node asks of it

    @property
    def has_room(self) -> bool:
        """Whether a client's proposal fits into the window."""
        return self.under_way() < self.options.window

    @property
    def can_read(self) -> bool:
        """Whether one more read may wait here."""
        return len(self.reads) < MAX_READS

    def under_way(self) -> int:
        """Return how many proposals there are whose outcome isn't known yet."""
        return self.policy.under_way()

    def propose(self, env: Env, data: bytes, then: Proposed) -> None:
        """As the leader, append an entry (:meth:`reference.raft.leading.Leading.propose`)."""
        self.leading.propose(env, data, then)

    def read(self, env: Env, then: Readable) -> None:
        """Call ``then`` once the state machine may be read (:meth:`reference.raft.reads.Reads.read`)."""
        self.reads.read(env, then)

    def transfer(self, env: Env, target: str, then: Callable[[Env, bool], None]) -> None:
        """Have another voter lead (:meth:`reference.raft.transfer.Handover.begin`)."""
        self.handover.begin(env, target, then)

    def why_no_change(self) -> str:
        """Return why this member can't change the membership now; "" if it can."""
        return self.membership.why_no_change()

    def add_learner(self, env: Env, name: str, then: Proposed) -> None:
        """As the leader, take in a newcomer."""
        self.membership.add(env, name, then)

    def remove(self, env: Env, name: str, then: Proposed) -> None:
        """As the leader, remove another member."""
        self.membership.remove(env, name, then)

    def log_fields(self, env: Env, index: int) -> Mapping[str, Any]:
        """Return what is traced of the log with the entry at ``index``."""
        return self.snapshots.log_fields(env, index)

    def committed_fields(self, term: int) -> dict[str, int]:
        """Return what a leader traces when it applies an entry that an earlier term has left: up to where it has
        committed, and of which term the last of these entries is."""
        if not self.is_leader or term >= self.term:
            return {}
        return {"committed": self.commit, "committed_term": self.log.term_at(self.commit)}

    # Steps

    def start(self, env: Env) -> None:
        self.log.recover(env.disk)
        self.commit = self.applied = self.log.snapshot_index
        self.snapshots.restore(env)
        self.log.sync(env.disk)
        if self.lease.is_wanted:
            self.leader_heard_ns = env.mono_ns()  # the life before may have heard a leader just now
        self.roles.announce(env)
        self.set_deadline(env)
        env.set_timer(ELECTION, 0 if self.is_alone else self.deadline_ns - env.mono_ns())

    def timer(self, env: Env, name: str) -> bool:
        """Take a timer; False if it is none of Raft's."""
        if name == ELECTION:
            self.election.timeout(env)
        elif name == HEARTBEAT:
            self._heartbeat(env)
        elif name == APPLY:
            self.applier.apply(env)
        else:
            return False
        return True

    def _heartbeat(self, env: Env) -> None:
        self.roles.heartbeat(env)
        self.handover.heartbeat(env)

    def done(self, env: Env, token: int) -> bool:
        """Take the end of a sync; False if it is none of Raft's."""
        snapshot_is_due = self.log.aside_done(token) or self.snapshots.is_prepared(token)
        if not self.log.done(env, token) and not snapshot_is_due:
            return False
        self.election.votes_durable(env, token)
        if snapshot_is_due:
            self._go_on_with_snapshot(env)
        if self.ballot is not None and not self.log.syncing:
            self.election.count_vote(env, self.name)
        if self.is_leader:
            if not self.log.syncing:
                self.log.sync(env.disk)
            self.leading.advance_commit(env)
        return True

    def _go_on_with_snapshot(self, env: Env) -> None:
        installed = self.snapshots.go_on(env)
        if installed is not None and self.leader and self.role == FOLLOWER:
            self.following.answer(env, self.leader, {"round": 0}, ok=True, match=installed)

    def closed(self, env: Env, peer: str) -> None:
        """Messages under way may be lost: send again from what the follower is known to have."""
        known = self.peers.get(peer)
        if known is not None:
            known.probe(known.match + 1)
        if peer == self.leader:
            self.reads.refuse_asked(env)

    def message(self, env: Env, source: str, message: Command) -> bool:
        """Take a message of another member; False if it is none of Raft's."""
        if message.code not in MESSAGES or not self._is_known(source):
            return False
        check_cluster(message, self.cluster_id)
        self.take(env, source, message.code, numbers_of(message), message.body)
        return True

    def take(self, env: Env, source: str, code: int, fields: Mapping[str, int], body: bytes) -> None:
        """Take a message of a member that is known, by the numbers in it."""
        term = fields["term"]
        if "answer" in fields:
            if term > self.term and "pre" not in fields:
                self.roles.follow(env, term, "")
            self._on_answer(env, source, code, fields)
        elif code == Request.RAFT_APPEND:  # most are
            self.following.on_append(env, source, fields, body)
        else:
            self._take_rare(env, source, code, fields, body)

    def _take_rare(self, env: Env, source: str, code: int, fields: Mapping[str, int], body: bytes) -> None:
        {
            Request.RAFT_PRE_VOTE: self.election.on_pre_vote,
            Request.RAFT_VOTE: self.election.on_vote,
            Request.RAFT_SNAPSHOT: self._on_snapshot,
            Request.RAFT_READ: self.reads.on_question,
            Request.RAFT_TIMEOUT_NOW: self.handover.on_timeout_now,
        }[Request(code)](env, source, fields, body)

    def _is_known(self, source: str) -> bool:
        """Members of the beginning are heard even when they are none now: they may not know it, and we may not know
        that they are again."""
        return source != self.name and source in (*self.members.all, *self.memberships.beginning.all)

    def _on_answer(self, env: Env, source: str, code: int, fields: Mapping[str, int]) -> None:
        if code in (Request.RAFT_PRE_VOTE, Request.RAFT_VOTE):
            self.election.on_vote_answer(env, source, code, fields)
        elif code == Request.RAFT_READ:
            self.reads.on_answer(env, fields)
        elif code == Request.RAFT_SNAPSHOT:
            self.leading.on_piece_answer(env, source, fields)
        else:
            self._on_append_answer(env, source, fields)

    def _on_append_answer(self, env: Env, source: str, fields: Mapping[str, int]) -> None:
        """Take a follower's answer to an append. It may change how the follower does, what is committed, whether it
        needs a snapshot, may take over, and may vote."""
        peer = self.peers.get(source)
        had = 0 if peer is None else peer.match
        self.snapshots.settle(source, fields)
        self.leading.on_append_answer(env, source, fields)
        if peer is not None and peer.sending is None and peer.next > self.log.last:
            peer.is_far_behind = False
        self.handover.caught_up(env, source, had)
        self.membership.watch_learner(env, source)

    def _on_snapshot(self, env: Env, source: str, fields: Mapping[str, int], body: bytes) -> None:
        self.snapshots.check(fields, body)
        if self.following.accept_leader(env, source, fields):
            held = self.snapshots.take(env, source, fields, body)
            if held is not None:
                self.following.answer(env, source, fields, ok=True, match=held)
