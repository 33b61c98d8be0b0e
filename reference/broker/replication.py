"""Replication of the commit log from the master to its slaves, and the confirm offset that comes of it.

A slave dials its master, tells its epoch history, and is told where the logs part; it cuts its own log there, durably,
before it takes one new record. The master then streams whole records, never across an epoch, within a window.

The confirm offset is the smallest durable end over the SyncStateSet and every set that was proposed and may yet come
true. A member without a connection keeps its last acknowledgement of this epoch, so that it holds the confirm offset
where it is. It never goes back.

The master's half is :class:`Leading`, the slave's half :class:`Following`; the decisions that the promises rest on are
the policy methods of :class:`Replication`, which joins the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chaos.node import Env, Message
from reference.broker.commitlog import Epochs
from reference.broker.master_replication import Leading
from reference.broker.membership import Assignment
from reference.broker.slave_replication import Following
from reference.tier.interface import View
from reference.wire.codes import Request

if TYPE_CHECKING:
    from reference.broker.node import Broker


class Replication:
    def __init__(self, broker: Broker, options: Mapping[str, Any]) -> None:
        self.broker = broker
        self.flush = str(options.get("flush", "sync"))
        self.acks = str(options.get("acks", "all"))
        self.min_in_sync = int(options.get("min_in_sync", 2))
        self._max_lag_ns = int(options.get("max_lag_ms", 1500)) * 1_000_000
        self.leading = Leading(self, options)
        self.following = Following(self)

    # Policy: small decisions, each of which a promise rests on

    def own_end(self) -> int:
        """Up to where this replica's own copy counts."""
        return self.broker.log.synced if self.flush == "sync" else self.broker.log.end

    def may_ack(self) -> int:
        """Up to where a slave may acknowledge: what its disk holds, or (asynchronous flush) what it has taken."""
        return self.own_end()

    def confirm_members(self) -> frozenset[int]:
        """Whose copies the confirm offset needs: the SyncStateSet and all that was proposed and may come true."""
        return self.leading.members.union({self.broker.membership.broker_id}, *self.leading.proposed_sets())

    def confirm_end(self, members: Mapping[int, int]) -> int:
        """The confirm offset that these acknowledgements (id → position, -1 unknown) allow."""
        return min(members.values())

    def acknowledged_end(self) -> int:
        """Up to where producers get their ok."""
        if self.acks == "all":
            return self.broker.log.confirm
        if self.acks == "master":
            return self.own_end()
        ends = sorted([self.own_end(), *self.leading.connected_ends()], reverse=True)
        needed = int(self.acks)
        return ends[needed - 1] if needed <= len(ends) else -1

    def promotion_confirm(self) -> int:
        """The confirm offset that a new master begins with: what it knew as a slave, though its log goes on."""
        return self.broker.log.confirm

    def may_leave_set(self, behind_ns: int) -> bool:
        """Whether a member that has been behind, or away, for this long is proposed to leave the SyncStateSet."""
        return behind_ns > self._max_lag_ns

    def truncation_point(self, epochs: Epochs, end: int) -> int:
        """Where a slave's log with this history parts from ours: the end of the newest epoch that both logs hold with
        the same start. -1 when there is none."""
        own = dict(self.broker.log.epochs)
        for epoch, start in reversed(epochs):
            if own.get(epoch) == start:
                return min(end, self.broker.log.epoch_end(start))
            end = start
        return -1

    # What the broker calls

    def recovered(self, env: Env) -> None:
        self.following.recovered(env)

    def lead(self, env: Env, assignment: Assignment) -> None:
        self.following.stop(env)
        self.leading.start(env, assignment)

    def opened(self, env: Env) -> None:
        self.leading.opened(env)

    def follow(self, env: Env, master: str) -> None:
        self.leading.stop(env)
        self.following.start(env, master)

    def message(self, env: Env, source: str, message: Message) -> None:
        """One of our own replication messages, a request or the answer to REPLICA_HELLO."""
        if message.is_response:
            self.following.answered(env, source, message)
        elif message.code == Request.REPLICA_HELLO:
            self.leading.hello(env, source, message)
        elif message.code == Request.REPLICA_ACK:
            self.leading.acknowledged(env, source, message)
        elif message.code == Request.REPLICA_APPEND:
            self.following.append(env, source, message)
        else:
            self.following.bootstrap(env, source, message)

    def synced(self, env: Env) -> None:
        """More of the own log is durable."""
        if self.broker.is_leading:
            self.leading.advance(env)
        else:
            self.following.synced(env)

    def appended(self, env: Env) -> None:
        """The master has written records."""
        self.leading.pump(env)

    def publish(self, env: Env, view: View) -> None:
        self.leading.publish(env, view)

    def timer(self, env: Env, name: str) -> None:
        if name == "replicate":
            self.leading.tick(env)
        else:
            self.following.tick(env)

    def closed(self, env: Env, peer: str) -> None:
        self.leading.closed(env, peer)
        self.following.closed(env, peer)
