"""Replication of the commit log from the master to its slaves, and the confirm offset that comes of it.

A slave connects to its master, sends its epoch history, and learns where the logs diverge. It cuts its own log there,
durably, before it takes a new record. The master then streams whole records, never across an epoch, within a window.

The confirm offset is the smallest durable end over the SyncStateSet and every set that was proposed and may yet come
true. A member without a connection keeps its last acknowledgement of this epoch, so that it holds the confirm offset
where it is. It never goes back.

The master's half is :class:`MasterReplication`, the slave's half :class:`SlaveReplication`. :class:`Replication` joins
the two and makes, in its policy methods, the decisions that the promises rest on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from chaos.node import Env
from reference.broker.commitlog import Epochs
from reference.broker.master_replication import Hello, MasterBroker, MasterReplication
from reference.broker.membership import Assignment
from reference.broker.slave_replication import SlaveBroker, SlaveReplication
from reference.tier.interface import View
from reference.wire.codes import Request
from reference.wire.command import Command


class ReplicatedBroker(MasterBroker, SlaveBroker, Protocol):
    """The broker, as its replication sees it: in turn a master and a slave."""


class Replication:
    def __init__(self, broker: ReplicatedBroker, options: Mapping[str, Any]) -> None:
        self.broker = broker
        self.flush = str(options.get("flush", "sync"))
        self.acks = str(options.get("acks", "all"))
        self.min_in_sync = int(options.get("min_in_sync", 2))
        self._max_lag_ns = int(options.get("max_lag_ms", 1500)) * 1_000_000
        self.master = MasterReplication(broker, self, options)
        self.slave = SlaveReplication(broker, self)

    # Policy: small decisions, each of which a promise rests on

    def log_version(self) -> int:
        """Return the newest version of records that this replica reads (:mod:`reference.broker.versions`)."""
        return 2

    def own_end(self) -> int:
        """Up to where this replica's own copy counts."""
        return self.broker.log.synced if self.flush == "sync" else self.broker.log.end

    def may_ack(self) -> int:
        """Up to where a slave may acknowledge: what its disk holds, or (asynchronous flush) what it has taken."""
        return self.own_end()

    def confirm_members(self) -> frozenset[int]:
        """Whose copies the confirm offset needs: the SyncStateSet and all that was proposed and may come true."""
        return self.master.members.union({self.broker.membership.broker_id}, *self.master.proposed_sets())

    def confirm_end(self, members: Mapping[int, int]) -> int:
        """Return the confirm offset that these acknowledgements (id → position, -1 unknown) allow."""
        return min(members.values())

    def acknowledged_end(self) -> int:
        """Up to where producers get their ok."""
        if self.acks == "all":
            return self.broker.log.confirm
        needed = 1 if self.acks == "master" else int(self.acks)
        ends = sorted(self.counted_ends().values(), reverse=True)
        return ends[needed - 1] if needed <= len(ends) else -1

    def counted_ends(self) -> dict[str, int]:
        """Whose copies an acknowledgement may stand on, and how far each goes."""
        own = {self.broker.name: self.own_end()}
        if self.acks == "master":
            return own
        if self.acks == "all":
            return own | self.master.member_ends(self.confirm_members())
        return own | {peer.name: peer.acked for peer in self.master.streaming_peers()}

    @property
    def is_weaker(self) -> bool:
        """Whether an acknowledgement promises less than by default, so that it says what it stands on."""
        return self.acks != "all" or self.flush != "sync" or self.min_in_sync < 2

    def promotion_confirm(self) -> int:
        """Return the confirm offset that a new master begins with: what it knew as a slave, though its log goes on."""
        return self.broker.log.confirm

    def may_leave_set(self, behind_ns: int) -> bool:
        """Return whether a member that has been behind, or away, for this long is proposed to leave the
        SyncStateSet."""
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
        self.slave.recovered(env)

    def become_master(self, env: Env, assignment: Assignment) -> None:
        self.slave.stop(env)
        self.master.start(env, assignment)

    def opened(self, env: Env) -> None:
        self.master.opened(env)

    def become_slave(self, env: Env, master: str) -> None:
        self.master.stop(env)
        self.slave.start(env, master)

    def message(self, env: Env, source: str, message: Command) -> None:
        """One of our own replication messages, a request or the answer to REPLICA_HELLO."""
        if message.is_response:
            self.slave.answered(env, source, message)
        elif message.code == Request.REPLICA_HELLO:
            self.master.hello(env, source, Hello.read(message))
        elif message.code == Request.REPLICA_ACK:
            self.master.acknowledged(env, source, message)
        elif message.code == Request.REPLICA_APPEND:
            self.slave.append(env, source, message)
        else:
            self.slave.bootstrap(env, source, message)

    def synced(self, env: Env) -> None:
        """More of the own log is durable."""
        if self.broker.has_master_role:
            self.master.advance(env)
        else:
            self.slave.synced(env)

    def appended(self, env: Env) -> None:
        """Gather what the master has written."""
        self.master.gather(env)

    def publish(self, env: Env, view: View) -> None:
        self.master.publish(env, view)

    def timer(self, env: Env, name: str) -> None:
        if name == "push":
            self.master.push(env)
            self.broker.progress(env)
        elif name == "replicate":
            self.master.tick(env)
        else:
            self.slave.tick(env)

    def closed(self, env: Env, peer: str) -> None:
        self.master.closed(env, peer)
        self.slave.closed(env, peer)
