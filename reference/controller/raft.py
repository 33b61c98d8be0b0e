"""Raft for the controllers: pre-vote, check-quorum, snapshots in pieces, pipelined appends, ReadIndex, and changes of
leader and members.

Source: Ongaro's thesis; each layer names its chapters. All messages are one-way and may be lost with their connection;
no answer that promises something leaves before that is durable.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.node import Env, Message
from reference.controller.raft_election import ELECTION, HEARTBEAT
from reference.controller.raft_membership import Membership
from reference.controller.raft_messages import check_cluster, numbers_of
from reference.controller.raft_reads import refuse
from reference.controller.raft_replication import APPLY
from reference.controller.raft_state import LEADER
from reference.wire.codes import Request


class Raft(Membership):
    """One member. Every entry point is one step of the node that it is a part of."""

    def start(self, env: Env) -> None:
        self.log.recover(env.disk)
        self.commit = self.applied = self.log.snapshot_index
        self._restore(env)
        self.log.sync(env.disk)
        if self._lease.is_wanted:
            self._leader_heard_ns = env.mono_ns()  # the life before may have heard a leader just now
        self._announce_role(env)
        self._set_deadline(env)
        env.set_timer(ELECTION, 0 if not self.others else self._deadline_ns - env.mono_ns())

    def timer(self, env: Env, name: str) -> bool:
        if name == ELECTION:
            self._election_timer(env)
        elif name == HEARTBEAT:
            self._heartbeat_timer(env)
        elif name == APPLY:
            self._apply(env)
        else:
            return False
        return True

    def done(self, env: Env, token: int) -> bool:
        aside = self.log.aside_done(token)
        if not self.log.done(env, token):
            return False
        self._votes_durable(env, token)
        if aside:
            self._aside_done(env)
        if self._ballot is not None and not self.log.syncing:
            self._count_vote(env, self.name)
        if self.role == LEADER:
            if not self.log.syncing:
                self.log.sync(env.disk)
            self._advance_commit(env)
        return True

    def closed(self, env: Env, peer: str) -> None:
        """Messages under way may be lost: send again from what the follower is known to have."""
        known = self._peers.get(peer)
        if known is not None:
            known.probe(known.match + 1)
        if peer == self.leader:
            refuse(env, self._questions.end())

    def message(self, env: Env, source: str, message: Message) -> bool:
        """Take a message of another member; False if it is none of Raft's."""
        handler = {
            Request.RAFT_PRE_VOTE: self._on_pre_vote,
            Request.RAFT_VOTE: self._on_vote,
            Request.RAFT_APPEND: self._on_append,
            Request.RAFT_SNAPSHOT: self._on_snapshot,
            Request.RAFT_READ: self._on_read,
            Request.RAFT_TIMEOUT_NOW: self._on_timeout_now,
        }.get(message.code)  # type: ignore[call-overload]
        if handler is None or not self._is_known(source):
            return False
        check_cluster(message, self.cluster_id)
        fields = numbers_of(message)
        term = fields["term"]
        if "answer" in fields:
            if term > self.term and "pre" not in fields:
                self._follow(env, term, "")
            self._on_answer(env, source, message.code, fields)
        else:
            handler(env, source, fields, message.body)
        return True

    def _is_known(self, source: str) -> bool:
        """Members of the beginning are heard even when they are none now: they may not know it, and we may not know
        that they are again."""
        return source != self.name and source in (*self.members.all, *self._memberships.beginning.all)

    def _on_answer(self, env: Env, source: str, code: int, fields: Mapping[str, int]) -> None:
        if code in (Request.RAFT_PRE_VOTE, Request.RAFT_VOTE):
            self._on_vote_answer(env, source, code, fields)
        elif code == Request.RAFT_READ:
            self._on_read_answer(env, fields)
        elif code == Request.RAFT_SNAPSHOT:
            self._on_piece_answer(env, source, fields)
        else:
            self._on_append_answer(env, source, fields)
