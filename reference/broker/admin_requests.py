"""Requests of the harness and of administrators: snapshots of state, and the whole log in slices."""

from __future__ import annotations

from typing import Any, Protocol

from chaos.node import Env, Malformed
from reference.broker.membership import Membership
from reference.broker.parts import Replica
from reference.broker.records import SYSTEM, body_hash, message_number
from reference.broker.replication import Replication
from reference.broker.retention import Retention
from reference.wire.command import Command
from reference.wire.fields import to_json, whole

SLICE_BYTES = 256 * 1024


class AdminBroker(Replica, Protocol):
    """The broker, as those see it who look at it."""

    @property
    def role(self) -> str: ...

    @property
    def master(self) -> str:
        """The master of the epoch; "" before this replica knows one."""

    @property
    def has_master_role(self) -> bool: ...

    @property
    def is_master(self) -> bool:
        """Master, and ready to serve."""

    def must_be_recovered(self) -> None:
        """Raise :class:`reference.broker.parts.Refused` while this replica is still going through its log."""


class AdminRequests:
    def __init__(
        self, broker: AdminBroker, membership: Membership, replication: Replication, retention: Retention
    ) -> None:
        self._broker = broker
        self._membership = membership
        self._replication = replication
        self._retention = retention

    def describe(self, env: Env, source: str, message: Command) -> None:
        """9301."""
        broker, log = self._broker, self._broker.log
        master = self._replication.master
        value = {
            "role": broker.role,
            "epoch": broker.epoch,
            "master": broker.master,
            "first": log.first,
            "end": log.end,
            "synced": log.synced,
            "confirm": log.confirm,
            "set": master.set_names() if broker.has_master_role else [],
            "set_epoch": master.set_epoch if broker.has_master_role else -1,
            "generation": self._membership.generation,
            "ready": self._ready(),
            "tier": {str(queue): view.end for queue, view in sorted(broker.tier.views().items())},
            "queues": {str(queue.index): [queue.first, queue.confirmed] for queue in broker.queues.by_index},
        }
        self._reply(env, source, message, value)

    def _ready(self) -> bool:
        """Return whether a slave follows; whether a master serves and has taken the tier over."""
        broker = self._broker
        if broker.has_master_role:
            return broker.is_master and broker.tier.settled
        return self._replication.slave.connected

    def read_log(self, env: Env, source: str, message: Command) -> None:
        """9302: one slice of records, of one segment."""
        self._broker.must_be_recovered()
        log, position = self._broker.log, whole(message.fields, "position", -1)
        if position < log.first:
            position = log.first
        if log.first < position < log.end and not self._broker.queues.begins_at(position):
            raise Malformed(f"no record begins at {position}")
        self._retention.hold_for_reader(env)
        rows: list[list[Any]] = []
        data = log.read_records(env, position, SLICE_BYTES) if position < log.end else b""
        for record in log.decode_all(data):
            system = SYSTEM.get(record.topic, "")
            queue = None if system else self._broker.queues.queue_at(record.topic, record.queue_id, record.position)
            rows.append(
                [
                    log.epoch_at(record.position),
                    record.position,
                    record.size,
                    -1 if queue is None else queue.index,
                    -1 if queue is None else record.offset,
                    -1 if system else message_number(record.properties),
                    body_hash(record.body),
                    system,
                ]
            )
        self._reply(env, source, message, {"records": rows, "next": position + len(data), "end": log.end})

    def read_state(self, env: Env, source: str, message: Command) -> None:
        """9303."""
        broker, log, queues = self._broker, self._broker.log, self._broker.queues
        broker.must_be_recovered()
        self._retention.hold_for_reader(env)
        value = {
            "first": log.first,
            "end": log.end,
            "confirm": log.confirm,
            "role": broker.role,
            "epoch": broker.epoch,
            "epochs": log.epochs,
            "minimums": {str(queue.index): queue.first for queue in queues.by_index},
            "maximums": {str(queue.index): queue.confirmed for queue in queues.by_index},
            "views": [
                {
                    "queue": view.queue,
                    "version": view.version,
                    "offset": view.end,
                    "position": view.position,
                    "epoch": view.epoch,
                    "hash": view.hash,
                }
                for _, view in sorted(broker.tier.views().items())
            ],
            "offsets": {
                group: {str(queue): offset for queue, offset in sorted(table.items())}
                for group, table in sorted(queues.offsets.items())
            },
            "version": queues.version,
            "topics": {
                topic.name: {"queues": topic.queues, "first_index": topic.first_index}
                for topic in queues.known_topics()
            },
        }
        self._reply(env, source, message, value)

    def runtime_info(self, env: Env, source: str, message: Command) -> None:
        """28."""
        log = self._broker.log
        table = {
            "commitLogMinOffset": str(log.first),
            "commitLogMaxOffset": str(log.end),
            "dispatchBehindBytes": str(log.end - self._broker.queues.dispatched),
            "brokerActive": "true" if self._broker.has_master_role else "false",
            "brokerVersionDesc": "reference",
        }
        self._reply(env, source, message, {"table": table})

    def ha_status(self, env: Env, source: str, message: Command) -> None:
        """907."""
        broker, log = self._broker, self._broker.log
        slaves = [
            {
                "addr": peer.name,
                "slaveAckOffset": peer.acked,
                "diff": log.end - peer.acked,
                "inSync": peer.id in self._replication.master.members,
                "transferFromWhere": peer.sent,
            }
            for peer in self._replication.master.peers()
        ]
        value = {
            "master": broker.has_master_role,
            "masterCommitLogMaxOffset": log.end if broker.has_master_role else 0,
            "inSyncSlaveNums": sum(1 for slave in slaves if slave["inSync"]),
            "haConnectionInfo": slaves,
            "haClientRuntimeInfo": {"masterAddr": broker.master, "maxOffset": log.end},
        }
        self._reply(env, source, message, value)

    def epoch_cache(self, env: Env, source: str, message: Command) -> None:
        """1007."""
        broker, log = self._broker, self._broker.log
        ends = [start for _, start in log.epochs[1:]] + [(1 << 63) - 1]
        value = {
            "brokerId": 0 if broker.has_master_role else self._membership.broker_id,
            "brokerName": self._membership.group,
            "clusterName": self._membership.cluster,
            "epochList": [
                {"epoch": epoch, "startOffset": start, "endOffset": end}
                for (epoch, start), end in zip(log.epochs, ends[: len(log.epochs)], strict=True)
            ],
            "maxOffset": log.end,
        }
        self._reply(env, source, message, value)

    def _reply(self, env: Env, source: str, message: Command, value: object) -> None:
        env.send(source, message.reply(body=to_json(value)))
