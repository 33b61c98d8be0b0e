"""Administrators' requests that set the offsets of a group of consumers, also back.

An offset that is set is a record of the log, like one that is committed, but it holds exactly, whatever was stored
before. Members of the group that are connected are notified once it is confirmed; they begin again there.

Sources: RocketMQ's ``AdminBrokerProcessor.resetOffset`` and ``Broker2Client.resetOffset``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.node import Env
from reference.broker.parts import Refused
from reference.broker.producer_requests import ProducerBroker, ProducerRequests
from reference.broker.queues import Queue
from reference.broker.topic_admin import QueueViews
from reference.wire.codes import Request, Response
from reference.wire.command import ONEWAY, Command
from reference.wire.fields import text, whole


@dataclass(frozen=True, slots=True)
class _Notice:
    """What the members of a group are sent once the log is confirmed up to ``end``."""

    end: int
    group: str
    command: Command


class ResetRequests:
    """``_notices``: in the order of the log."""

    def __init__(self, broker: ProducerBroker, producer: ProducerRequests, views: QueueViews) -> None:
        self._broker = broker
        self._producer = producer
        self._views = views
        self._notices: deque[_Notice] = deque()

    def reset(self, env: Env, source: str, message: Command) -> None:
        """222: set a group's offsets in a topic to the messages stored at a time (ms since 1970; -1: to the end), or
        its offset in one queue. Without ``isForce`` they only go back. The answer has the offsets of then."""
        broker, fields = self._broker, message.fields
        broker.must_serve()
        topic, group, time_ms = text(fields, "topic"), text(fields, "group"), whole(fields, "timestamp")
        queue_id, offset = whole(fields, "queueId", -1, bits=32), whole(fields, "offset", -1)
        force = fields.get("isForce") == "true"
        first = broker.find_queue(topic, max(queue_id, 0))
        queues = [first] if queue_id >= 0 else self._views.of_topic(broker.queues.topics[topic])
        if offset >= 0 and (queue_id < 0 or offset > first.confirmed):
            raise Refused(Response.INVALID_PARAMETER, f"offset {offset} needs a queueId, whose queue reaches it")
        wanted = [(one, offset if offset >= 0 else self._at(env, one, time_ms)) for one in queues]
        known = broker.queues.offsets.get(group, {})
        table = [(one, at if force else min(at, known.get(one.index, at))) for one, at in wanted]
        self._write(env, group, table)
        body = b'{"offsetTable":' + self._views.table(table) + b"}"
        told = {"topic": topic, "group": group, "timestamp": str(time_ms), "isForce": str(force).lower()}
        command = Command(code=Request.RESET_CONSUMER_CLIENT_OFFSET, flags=ONEWAY, fields=told, body=body)
        self._notices.append(_Notice(broker.log.end, group, command))
        self._producer.await_effect(env, source, message, broker.identity_fields(env), body)

    def _at(self, env: Env, queue: Queue, time_ms: int) -> int:
        return queue.confirmed if time_ms < 0 else self._views.consumer.offset_at(env, queue, time_ms)

    def _write(self, env: Env, group: str, table: Sequence[tuple[Queue, int]]) -> None:
        if not all(self._broker.queues.has_room(group, queue) for queue, _ in table):
            raise Refused(Response.NO_PERMISSION, "there is no room for more offsets of groups")
        self._producer.must_be_in_sync()
        self._producer.must_be_readable(env)
        for queue, offset in table:
            self._producer.append_offset(env, group, queue, offset, reset=True)

    def notify(self, env: Env) -> None:
        """220: tell the members of groups whose offsets were set, as far as that is confirmed."""
        while self._notices and self._notices[0].end <= self._broker.queues.dispatched:
            notice = self._notices.popleft()
            for connection in self._views.consumer.subscriptions.consumers(notice.group):
                env.send(connection, notice.command)

    def abandon(self) -> None:
        """The role is lost: what became of the records is for the next master to say."""
        self._notices.clear()
