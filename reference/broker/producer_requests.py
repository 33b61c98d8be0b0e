"""Requests that append to the log: messages, consumer offsets, topics. Each is answered when its record counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from chaos import events
from chaos.node import DiskFull, Env
from reference.broker import properties
from reference.broker.parts import Growing, Refused, Service
from reference.broker.queues import (
    MAX_QUEUES,
    Queue,
    deletion_body,
    offsets_body,
    settled_body,
    topic_body,
    version_body,
)
from reference.broker.records import (
    DEFERRED_RECORDS,
    MAX_TOPIC_BYTES,
    OFFSET_RECORDS,
    SETTLED_RECORDS,
    TOPIC_RECORDS,
    VERSION_RECORDS,
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
#: Topics of the system's own, of which each group of consumers has one: messages that it sent back, and those that it
#: sent back too often.
RETRY_PREFIX, DEAD_PREFIX = "%RETRY%", "%DLQ%"
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
        """10, 310 and 320: append one message, or a batch of them, or one that is to come to its queue later."""
        broker = self._broker
        broker.must_serve()
        asked = SendRequest.read(message)
        self._make_retry_topic(env, asked)
        queue = broker.find_queue(asked.topic, asked.queue_id)
        parts = list(asked.messages()) if asked.batch else [asked]
        if not parts:
            raise Refused(Response.MESSAGE_ILLEGAL, "a batch without messages")
        for part in parts:
            part.must_be_possible()
        now_ms = env.wall_ns() // _MS
        due_ms = asked.due_ms(now_ms) if len(parts) == 1 and not asked.batch else None
        for part in parts if asked.batch else ():
            part.must_be_at_once()
        self.must_be_in_sync()
        if due_ms is None or 0 <= due_ms <= now_ms:
            answer = self._put(env, source, queue, parts)
        else:
            self.must_be_readable(env)
            answer = self._defer(env, source, asked, due_ms)
        self._wait(env, self._sends, source, message, {**answer, **broker.identity_fields(env)})

    def _put(self, env: Env, source: str, queue: Queue, parts: Sequence[SendRequest]) -> dict[str, str]:
        """Append messages to their queue; return what the answer says of them. A disk that is full after some of a
        batch were written leaves these: the outcome of such a batch is unknown."""
        broker = self._broker
        first, ids, position = broker.next_offset(queue), [], broker.log.end
        client, here = env.endpoints(source)
        for number, part in enumerate(parts):
            at, offset = broker.log.end, broker.next_offset(queue)
            data = part.record(
                queue_id=queue.queue_id,
                offset=offset,
                position=at,
                store_ms=env.wall_ns() // _MS,
                born_host=client,
                store_host=here,
            )
            self.append(env, data, partly=number > 0)
            self.put(env, queue, data, message_number(part.properties.encode()), body_hash(part.body))
            ids.append(message_id(here, at))
        return {
            "msgId": ",".join(ids),
            "queueId": str(queue.queue_id),
            "queueOffset": str(first),
            "position": str(position),
        }

    def put(self, env: Env, queue: Queue, data: bytes, number: int, hash: int, settles: int = 0) -> None:
        """Take in a record that was appended for a queue: its next one."""
        broker = self._broker
        position, offset = broker.log.end - len(data), broker.next_offset(queue)
        broker.queues.add_message(queue, position, len(data), settles)
        env.trace(
            events.Append(
                epoch=broker.epoch,
                position=position,
                queue=queue.index,
                offset=offset,
                message=number,
                hash=hash,
                size=len(data),
                settles=settles or None,
            )
        )

    def _defer(self, env: Env, source: str, asked: SendRequest, due_ms: int) -> dict[str, str]:
        """Append a message that is to come to its queue later; its answer names no place there."""
        position = self._broker.log.end
        client, here = env.endpoints(source)
        more = {properties.REAL_TOPIC: asked.topic, properties.REAL_QUEUE: str(asked.queue_id)}
        data = asked.record(
            topic=DEFERRED_RECORDS,
            queue_id=0,
            offset=0,
            position=position,
            store_ms=env.wall_ns() // _MS,
            born_host=client,
            store_host=here,
            more={**more, **({properties.DUE_MS: str(due_ms)} if due_ms >= 0 else {})},
        )
        self.append_deferred(env, data)
        key = properties.read(asked.properties.encode()).get(properties.KEY, "")
        return {
            "msgId": message_id(here, position),
            "queueId": str(asked.queue_id),
            "queueOffset": str(position),
            "position": str(position),
            **({"transactionId": key} if due_ms < 0 and key else {}),
        }

    def append_deferred(self, env: Env, data: bytes) -> None:
        """Append the record of a message that waits."""
        self.append(env, data)
        self._broker.added(env, decode(data), self._broker.epoch)
        self.written(env)

    def settle(self, env: Env, key: int) -> None:
        """Append the record by which a deferred message never comes."""
        self.append_system(env, SETTLED_RECORDS, settled_body(key))

    def await_effect(
        self, env: Env, source: str, message: Command, fields: Mapping[str, str], body: bytes = b""
    ) -> None:
        """Answer a request when all that the log now holds has taken effect."""
        self._wait(env, self._changes, source, message, fields, body)

    def _make_retry_topic(self, env: Env, asked: SendRequest) -> None:
        """A consumer that can't send a message back sends it again, to its group's topic for that."""
        if asked.topic.startswith(RETRY_PREFIX):
            self.make_topic(env, asked.topic)

    def make_topic(self, env: Env, name: str) -> None:
        """Make a topic of the system's own, of one queue, unless it is there. Raises :class:`Refused`."""
        broker = self._broker
        if self._is_there(name):
            return
        if len(name.encode()) > MAX_TOPIC_BYTES:
            raise Refused(Response.INVALID_PARAMETER, f"no topic has a name of {len(name.encode())} bytes")
        if broker.queues.next_index() >= MAX_QUEUES:
            raise Refused(Response.NO_PERMISSION, f"a group is given {MAX_QUEUES} queues in all, and no more")
        self.must_be_in_sync()
        self.append_topic(env, name, 1)

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
        self.must_be_in_sync()
        self.append_offset(env, group, queue, offset)
        self._wait(env, self._changes, source, message, broker.identity_fields(env))

    def append_offset(self, env: Env, group: str, queue: Queue, offset: int, *, reset: bool = False) -> None:
        self.append_system(env, OFFSET_RECORDS, offsets_body(group, queue.index, offset, reset=reset))

    def create_topic(self, env: Env, source: str, message: Command) -> None:
        """17: create a topic; one that exists keeps its queues."""
        fields, broker = message.fields, self._broker
        broker.must_serve()
        name, count = text(fields, "topic"), whole(fields, "writeQueueNums")
        if not 0 < count <= MAX_TOPIC_QUEUES or len(name.encode()) > MAX_TOPIC_BYTES or name.startswith("%"):
            raise Refused(Response.INVALID_PARAMETER, f"no topic {name!r} with {count} queues")
        if not self._is_there(name):
            if broker.queues.next_index() + count > MAX_QUEUES:
                raise Refused(Response.NO_PERMISSION, f"a group is given {MAX_QUEUES} queues in all, and no more")
            self.must_be_in_sync()
            self.append_topic(env, name, count)
        self._wait(env, self._changes, source, message, broker.identity_fields(env))

    def _is_there(self, name: str) -> bool:
        """Return whether there is such a topic, confirmed or not. Raises :class:`Refused` while it is being deleted."""
        topic = self._broker.queues.topics.get(name)
        if topic is not None and topic.is_ending:
            raise Refused(Response.SYSTEM_BUSY, f"retry: topic {name} is being deleted")
        return topic is not None

    def delete_topic(self, env: Env, source: str, message: Command) -> None:
        """215: delete a topic and all that it holds. One that is not there is gone already."""
        self._broker.must_serve()
        topic = self._broker.queues.topics.get(text(message.fields, "topic"))
        if topic is not None and not topic.is_ending:
            self.must_be_in_sync()
            self.must_be_readable(env)
            self.append_system(env, TOPIC_RECORDS, deletion_body(topic))
        self._wait(env, self._changes, source, message, self._broker.identity_fields(env))

    def append_topic(self, env: Env, name: str, count: int) -> None:
        self.append_system(env, TOPIC_RECORDS, topic_body(name, count, self._broker.queues.next_index()))

    # Appending

    def may_write(self, version: int) -> bool:
        """Policy: records of a newer version are written once all replicas read them."""
        return self._broker.replication.master.all_read(version)

    def must_be_readable(self, env: Env, version: int = 2) -> None:
        """Have the log take records of this version from now on. Raises :class:`Refused` where some replica can't read
        them."""
        broker = self._broker
        if version > broker.replication.log_version():
            raise Refused(Response.MESSAGE_ILLEGAL, "brokers of this version do not support that")
        if broker.queues.version < version:
            self.must_be_in_sync()
            if not self.may_write(version):
                raise Refused(Response.SYSTEM_BUSY, f"retry: not all replicas read records of version {version} yet")
            self.append_system(env, VERSION_RECORDS, version_body(version))

    def must_be_in_sync(self) -> None:
        replication = self._broker.replication
        if len(replication.master.members) < replication.min_in_sync:
            raise Refused(Response.SYSTEM_ERROR, "in-sync replicas not enough")

    def append(self, env: Env, data: bytes, *, partly: bool = False) -> None:
        """Append a record. Raises :class:`Refused` when the disk is full: nothing has happened then, unless what it
        belongs to was written ``partly`` before. Wherever else that comes up the broker ends, for what it holds in
        memory may be ahead of its disk."""
        try:
            self._broker.log.append(env, data)
        except DiskFull as error:
            code = Response.FLUSH_DISK_TIMEOUT if partly else Response.SERVICE_NOT_AVAILABLE
            raise Refused(code, "the disk is full") from error

    def append_system(self, env: Env, topic: str, body: bytes) -> None:
        """Append a record of the system's own."""
        broker = self._broker
        data = encode(
            topic=topic, queue_id=0, offset=0, position=broker.log.end, body=body, store_ms=env.wall_ns() // _MS
        )
        self.append(env, data)
        broker.added(env, decode(data), broker.epoch)
        self.written(env)

    def written(self, env: Env) -> None:
        self._broker.replication.appended(env)

    def _wait(
        self,
        env: Env,
        queue: deque[PendingRequest],
        source: str,
        message: Command,
        fields: Mapping[str, str],
        body: bytes = b"",
    ) -> None:
        """Answer when everything that the log now holds counts."""
        deadline = env.mono_ns() + self._timeout_ns
        if not queue:
            env.set_timer("waiting" if queue is self._sends else "changes", self._timeout_ns)
        answer = message.reply(fields=fields, body=body)
        queue.append(PendingRequest(self._broker.log.end, source, message, answer, deadline))
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
