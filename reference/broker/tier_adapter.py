"""The broker, as its tier sees it: see :class:`reference.tier.interface.BrokerInterface`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from chaos.node import Env
from reference.broker.parts import Replica
from reference.broker.queues import Queue
from reference.broker.records import body_hash
from reference.broker.replication import Replication
from reference.tier.interface import Stored, TopicQueue, View


class TieredBroker(Replica, Protocol):
    """The broker, as its adapter for the tier sees it."""

    @property
    def name(self) -> str: ...

    @property
    def generation(self) -> int: ...

    @property
    def is_master(self) -> bool: ...

    @property
    def replication(self) -> Replication: ...

    @property
    def env(self) -> Env:
        """The environment of the step that is running."""

    def offered_end(self, queue: Queue) -> int:
        """Return the offset after the last record that the tier may have."""


class BrokerAdapter:
    def __init__(self, broker: TieredBroker) -> None:
        self._broker = broker

    @property
    def name(self) -> str:
        return self._broker.name

    @property
    def generation(self) -> int:
        return self._broker.generation

    @property
    def is_master(self) -> bool:
        return self._broker.is_master

    @property
    def epoch(self) -> int:
        return self._broker.epoch

    @property
    def confirm(self) -> int:
        return self._broker.log.confirm

    def queues(self) -> Sequence[TopicQueue]:
        queues = self._broker.queues
        return [
            TopicQueue(index=queue.index, topic=queue.topic, queue_id=queue.queue_id, gone=queue.gone)
            for topic in queues.confirmed_topics()
            for queue in queues.by_index[topic.first_index : topic.first_index + topic.queues]
        ]

    def local_start(self, queue: int) -> int:
        return self._broker.queues.by_index[queue].first

    def local_end(self, queue: int) -> int:
        return self._broker.offered_end(self._broker.queues.by_index[queue])

    def local_records(self, queue: int, offset: int, *, max_bytes: int, max_count: int) -> Sequence[Stored]:
        """Return records of the local log. The environment of this step is the broker's: reading needs its disk."""
        held, log, env = self._broker.queues.by_index[queue], self._broker.log, self._broker.env
        found: list[Stored] = []
        size = 0
        for at in range(
            max(offset - held.first, 0), min(self._broker.offered_end(held), offset + max_count) - held.first
        ):
            size += held.sizes[at]
            if offset < held.first or (found and size > max_bytes):
                break
            position = held.positions[at]
            data = log.read_record(env, position, held.sizes[at])
            found.append(
                Stored(
                    queue=queue,
                    offset=held.first + at,
                    position=position,
                    epoch=log.epoch_at(position),
                    hash=body_hash(log.decode(data).body),
                    data=data,
                )
            )
        return found

    def epoch_at(self, position: int) -> int:
        return self._broker.log.epoch_at(position)

    def publish(self, env: Env, view: View) -> None:
        self._broker.replication.publish(env, view)
