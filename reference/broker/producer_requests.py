"""Requests that append to the log: messages, consumer offsets, topics. Each is answered when its record counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from chaos import events
from chaos.node import DiskFull, Env
from reference.broker.parts import Growing, Refused, Service
from reference.broker.queues import MAX_QUEUES, Queue, offsets_body, topic_body
from reference.broker.records import (
    MAX_TOPIC_BYTES,
    OFFSET_RECORDS,
    TOPIC_RECORDS,
    body_hash,
    decode,
    encode,
    message_id,
    message_number,
)
from reference.broker.replication import Replication
from reference.broker.sends import PendingRequest, SendRequest
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import text, whole

MAX_TOPIC_QUEUES = 1024
_MS = 1_000_000


class ProducerBroker(Service, Growing, Protocol):
    """The broker, as its writers see it."""

    @property
    def is_master(self) -> bool:
        """Master, and ready to serve."""

    @property
    def replication(self) -> Replication: ...

    def next_offset(self, queue: Queue) -> int:
        """Return the offset of the next record of a queue."""


class ProducerRequests:
    def __init__(self, broker: ProducerBroker, options: Mapping[str, Any]) -> None:
        self._broker = broker
        self._timeout_ns = int(options.get("ack_timeout_ms", 3000)) * _MS
        self._sends: deque[PendingRequest] = deque()  # in log order, as are the deadlines
        self._changes: deque[PendingRequest] = deque()  # consumer offsets and topics: answered when they take effect

    @property
    def timeout_ms(self) -> int:
        """How long a request may wait for its record to count."""
        return self._timeout_ns // _MS

    # Requests

    def send(self, env: Env, source: str, message: Command) -> None:
        """10 and 310: append one message."""
        broker = self._broker
        broker.must_serve()
        asked = SendRequest.read(message)
        queue = broker.find_queue(asked.topic, asked.queue_id)
        asked.must_be_possible()
        self._must_be_in_sync()
        position, offset = broker.log.end, broker.next_offset(queue)
        client, here = env.endpoints(source)
        data = asked.record(
            queue_id=queue.queue_id,
            offset=offset,
            position=position,
            store_ms=env.wall_ns() // _MS,
            born_host=client,
            store_host=here,
        )
        self._append(env, data)
        broker.queues.add_message(queue, position, len(data))
        env.trace(
            events.Append(
                epoch=broker.epoch,
                position=position,
                queue=queue.index,
                offset=offset,
                message=message_number(asked.properties.encode()),
                hash=body_hash(message.body),
                size=len(data),
            )
        )
        answer = {
            "msgId": message_id(here, position),
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
            "position": str(position),
            **broker.identity_fields(env),
        }
        self._wait(env, self._sends, source, message, answer)

    def commit(self, env: Env, source: str, message: Command) -> None:
        """15: store a group's next offset to read."""
        fields, broker = message.fields, self._broker
        broker.must_serve()
        queue = broker.find_queue(text(fields, "topic"), whole(fields, "queueId"))
        group, offset = text(fields, "consumerGroup"), whole(fields, "commitOffset")
        if not 0 <= offset <= queue.confirmed:
            raise Refused(Response.INVALID_PARAMETER, f"offset {offset} is not in 0..{queue.confirmed}")
        if not broker.queues.has_room(group, queue):
            raise Refused(Response.NO_PERMISSION, "there is no room for more offsets of groups")
        self._must_be_in_sync()
        body = offsets_body(group, queue.index, offset)
        self._append_system(env, OFFSET_RECORDS, body)
        self._wait(env, self._changes, source, message, broker.identity_fields(env))

    def create_topic(self, env: Env, source: str, message: Command) -> None:
        """17: create a topic; one that exists keeps its queues."""
        fields, broker = message.fields, self._broker
        broker.must_serve()
        name, count = text(fields, "topic"), whole(fields, "writeQueueNums")
        if not 0 < count <= MAX_TOPIC_QUEUES or len(name.encode()) > MAX_TOPIC_BYTES or name.startswith("%"):
            raise Refused(Response.INVALID_PARAMETER, f"no topic {name!r} with {count} queues")
        if name not in broker.queues.topics:
            if broker.queues.next_index() + count > MAX_QUEUES:
                raise Refused(Response.NO_PERMISSION, f"this group has at most {MAX_QUEUES} queues")
            self._must_be_in_sync()
            self.append_topic(env, name, count)
        self._wait(env, self._changes, source, message, broker.identity_fields(env))

    def append_topic(self, env: Env, name: str, count: int) -> None:
        self._append_system(env, TOPIC_RECORDS, topic_body(name, count, self._broker.queues.next_index()))

    # Appending

    def _must_be_in_sync(self) -> None:
        replication = self._broker.replication
        if len(replication.master.members) < replication.min_in_sync:
            raise Refused(Response.SYSTEM_ERROR, "in-sync replicas not enough")

    def _append(self, env: Env, data: bytes) -> None:
        """Append a record. Raises :class:`Refused` when the disk is full: nothing has happened then. Wherever else that
        comes up the broker ends, for what it holds in memory may be ahead of its disk."""
        try:
            self._broker.log.append(env, data)
        except DiskFull as error:
            raise Refused(Response.SERVICE_NOT_AVAILABLE, "the disk is full") from error

    def _append_system(self, env: Env, topic: str, body: bytes) -> None:
        """Append a record of the system's own."""
        broker = self._broker
        data = encode(
            topic=topic, queue_id=0, offset=0, position=broker.log.end, body=body, store_ms=env.wall_ns() // _MS
        )
        self._append(env, data)
        broker.added(env, decode(data), broker.epoch)
        self.written(env)

    def written(self, env: Env) -> None:
        self._broker.replication.appended(env)

    def _wait(
        self, env: Env, queue: deque[PendingRequest], source: str, message: Command, fields: Mapping[str, str]
    ) -> None:
        """Answer when everything that the log now holds counts."""
        deadline = env.mono_ns() + self._timeout_ns
        if not queue:
            env.set_timer("waiting" if queue is self._sends else "changes", self._timeout_ns)
        queue.append(PendingRequest(self._broker.log.end, source, message, message.reply(fields=fields), deadline))
        self.written(env)
        if not self._broker.replication.master.is_gathering:
            self._broker.progress(env)

    # Answering

    def complete(self, env: Env) -> None:
        """Answer what counts by now."""
        broker = self._broker
        if self._sends:
            acknowledged, answered = broker.replication.acknowledged_end(), -1
            while self._sends and self._sends[0].end <= acknowledged:
                waiting = self._sends.popleft()
                answered = waiting.end
                waiting.respond(env, waiting.answer)
            if answered >= 0:
                stood_on: dict[str, Any] = {}
                if broker.replication.is_weaker:
                    stood_on["copies"] = self._copies(answered)
                env.trace(events.Acked(epoch=broker.epoch, position=answered, confirm=broker.log.confirm, **stood_on))
        while self._changes and self._changes[0].end <= broker.queues.dispatched:
            waiting = self._changes.popleft()
            waiting.respond(env, waiting.answer)

    def _copies(self, position: int) -> dict[str, int]:
        """Return the replicas that hold everything below this position, as far as acknowledgements count them."""
        return {name: end for name, end in self._broker.replication.counted_ends().items() if end >= position}

    def _unclear(self, env: Env, waiting: PendingRequest, remark: str) -> None:
        waiting.respond(env, waiting.request.reply(Response.FLUSH_SLAVE_TIMEOUT, remark=remark))

    def timer(self, env: Env, name: str) -> None:
        """End requests that waited too long; their outcome is unknown: their records may yet count."""
        queue, now = self._sends if name == "waiting" else self._changes, env.mono_ns()
        while queue and queue[0].deadline_ns <= now:
            self.late(env, queue.popleft())
        if queue:
            env.set_timer(name, queue[0].deadline_ns - now)

    def late(self, env: Env, waiting: PendingRequest) -> None:
        """Policy: who waited too long gets an unclear answer, and that is all."""
        self._unclear(env, waiting, "not acknowledged in time")

    def abandon(self, env: Env) -> None:
        """Give up the requests that wait, since the role is lost: what became of the records is for the next master to
        say."""
        for queue in (self._sends, self._changes):
            while queue:
                self._unclear(env, queue.popleft(), "the broker is no longer master")
