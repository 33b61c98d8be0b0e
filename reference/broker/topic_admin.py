"""What administrators ask about topics: their queues, where these begin and end, and who reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.node import Env
from reference.broker import properties
from reference.broker.consumer_requests import ConsumerRequests
from reference.broker.parts import Refused, Service
from reference.broker.queues import Queue, Topic
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import text, to_json, whole

#: So many entries of a queue are shown at once, and so many queues; an answer has so many bytes at most.
MAX_ENTRIES, MAX_ROWS, MAX_ANSWER_BYTES = 64, 1 << 13, 8 << 20
_READ_AND_WRITE = 6


class QueueViews:
    """The queues of a broker, as its readers see them. ``group``: the name of the broker group."""

    def __init__(self, broker: Service, group: str, consumer: ConsumerRequests) -> None:
        self.broker = broker
        self.group = group
        self.consumer = consumer

    def topic(self, name: str) -> Topic:
        """Return a topic. Raises :class:`Refused` where there is none."""
        found = self.broker.queues.topics.get(name)
        if found is None or not found.confirmed:
            raise Refused(Response.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return found

    def of_topic(self, topic: Topic) -> Sequence[Queue]:
        """Return the queues of a topic, in order."""
        return self.broker.queues.by_index[topic.first_index : topic.first_index + topic.queues]

    def stored_ms(self, env: Env, queue: Queue, offset: int) -> int:
        """Return when a message was stored; 0 for one that is not in the local log, or not confirmed."""
        if not queue.first <= offset < self.consumer.readable_end(queue):
            return 0
        at, log = offset - queue.first, self.broker.log
        return log.decode(log.read_record(env, queue.positions[at], queue.sizes[at])).store_ms

    def reply(self, env: Env, source: str, message: Command, body: bytes, **fields: str) -> None:
        """Answer. Raises :class:`Refused` where that would be too much for one frame."""
        if len(body) > MAX_ANSWER_BYTES:
            raise Refused(Response.SYSTEM_ERROR, f"the answer has more than {MAX_ANSWER_BYTES >> 20} MiB")
        env.send(source, message.reply(fields=fields, body=body))

    def table(self, rows: Sequence[tuple[Queue, Mapping[str, int] | int]]) -> bytes:
        """Return a table by queues as RocketMQ writes it: its keys are objects, which JSON does not know."""
        if len(rows) > MAX_ROWS:
            raise Refused(Response.SYSTEM_ERROR, f"the answer has more than {MAX_ROWS} queues: name a topic")
        parts = []
        for queue, row in rows:
            key = {"brokerName": self.group, "queueId": queue.queue_id, "topic": queue.topic}
            parts.append(to_json(key) + b":" + to_json(row))
        return b"{" + b",".join(parts) + b"}"


class TopicAdmin:
    def __init__(self, views: QueueViews) -> None:
        self._views = views

    def stats(self, env: Env, source: str, message: Command) -> None:
        """202: where the queues of a topic begin and end, and when their last messages were stored."""
        views = self._asked()
        rows = []
        for queue in views.of_topic(views.topic(text(message.fields, "topic"))):
            least, end = views.consumer.bounds(queue)
            last_ms = views.stored_ms(env, queue, end - 1)
            rows.append((queue, {"lastUpdateTimestamp": last_ms, "maxOffset": end, "minOffset": least}))
        views.reply(env, source, message, b'{"offsetTable":' + views.table(rows) + b"}")

    def config(self, env: Env, source: str, message: Command) -> None:
        """351."""
        views = self._asked()
        views.reply(env, source, message, to_json(_config(views.topic(text(message.fields, "topic")))))

    def all_configs(self, env: Env, source: str, message: Command) -> None:
        """21: all at once, whatever part is asked for."""
        views = self._asked()
        topics = views.broker.queues.known_topics()
        table = {topic.name: _config(topic) for topic in topics}
        body = {"dataVersion": version_of(views.broker), "topicConfigTable": table}
        views.reply(env, source, message, to_json(body), totalTopicNum=str(len(table)))

    def of_system(self, env: Env, source: str, message: Command) -> None:
        """305: the topics of the broker's own that clients could read: there are none."""
        self._views.reply(env, source, message, to_json({"topicList": []}))

    def groups(self, env: Env, source: str, message: Command) -> None:
        """300: the groups that read a topic, or have read it."""
        views = self._asked()
        asked = text(message.fields, "topic")
        indexes = {queue.index for queue in views.of_topic(views.topic(asked))}
        found = {name for name, offsets in views.broker.queues.offsets.items() if indexes & offsets.keys()}
        found |= views.consumer.subscriptions.groups_of(asked)
        views.reply(env, source, message, to_json({"groupList": sorted(found)}))

    def entries(self, env: Env, source: str, message: Command) -> None:
        """321: what the local log holds of a queue, from an offset on."""
        views, fields = self._asked(), message.fields
        queue = views.broker.find_queue(text(fields, "topic"), whole(fields, "queueId"))
        index, count = whole(fields, "index"), min(whole(fields, "count", bits=32), MAX_ENTRIES)
        end = views.consumer.readable_end(queue)
        offsets = range(max(index, queue.first), min(index + max(count, 0), end))
        body = {
            "queueData": [self._entry(env, queue, offset) for offset in offsets],
            "minQueueIndex": queue.first,
            "maxQueueIndex": end,
        }
        views.reply(env, source, message, to_json(body))

    def _entry(self, env: Env, queue: Queue, offset: int) -> dict[str, Any]:
        log, at = self._views.broker.log, offset - queue.first
        data = log.read_record(env, queue.positions[at], queue.sizes[at])
        tag = properties.read(log.decode(data).properties).get("TAGS", "")
        entry = {"physicOffset": queue.positions[at], "physicSize": queue.sizes[at], "tagsCode": tag_code(tag)}
        return {**entry, "eval": True}

    def _asked(self) -> QueueViews:
        self._views.broker.must_serve(any_replica=True)
        return self._views


def version_of(broker: Service) -> dict[str, int]:
    """Return a version of what the log has produced: it grows with the log."""
    return {"counter": broker.queues.dispatched, "stateVersion": broker.epoch, "timestamp": 0}


def tag_code(tag: str) -> int:
    """Return the hash that RocketMQ's queues hold of a tag: that of Java's strings, 0 for none."""
    code = 0
    units = tag.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def _config(topic: Topic) -> dict[str, Any]:
    return {
        "attributes": {},
        "order": False,
        "perm": _READ_AND_WRITE,
        "readQueueNums": topic.queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic.name,
        "topicSysFlag": 0,
        "writeQueueNums": topic.queues,
    }
