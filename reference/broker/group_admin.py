"""What administrators ask about groups of consumers and producers: how far they have read, and who is connected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chaos.node import Env
from reference.broker.filters import SQL92
from reference.broker.parts import Refused
from reference.broker.queues import Queue
from reference.broker.subscriptions import Subscription
from reference.broker.topic_admin import MAX_ROWS, QueueViews, tag_code, version_of
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import optional_text, text, to_json

Rows = Sequence[tuple[Queue, Mapping[str, int]]]
#: Of a client's language and version brokers here remember nothing.
_UNKNOWN_PROGRAM = {"language": "OTHER", "version": 0}


class GroupAdmin:
    def __init__(self, views: QueueViews) -> None:
        self._views = views

    # How far groups have read

    def stats(self, env: Env, source: str, message: Command) -> None:
        """208: a group's offsets, in one topic or in all that it has any in."""
        views, fields = self._asked(), message.fields
        group, topic = text(fields, "consumerGroup"), optional_text(fields, "topic")
        topics = [views.topic(topic).name] if topic else self._topics_of(group)
        rows = [row for name in topics for row in self._rows(env, group, name)]
        views.reply(env, source, message, self._stats(rows))

    def all_stats(self, env: Env, source: str, message: Command) -> None:
        """317: the same for all groups and topics, and how many messages are not read in all."""
        views = self._asked()
        groups, behind, count = [], 0, 0
        for group in sorted(views.broker.queues.offsets):
            of_topics = [self._rows(env, group, topic) for topic in self._topics_of(group)]
            count += sum(map(len, of_topics))
            if count > MAX_ROWS:
                raise Refused(Response.SYSTEM_ERROR, f"the answer has more than {MAX_ROWS} queues: name a group")
            behind += sum(row["brokerOffset"] - row["consumerOffset"] for rows in of_topics for _, row in rows)
            groups.append(b"{" + to_json(group) + b":[" + b",".join(map(self._stats, of_topics)) + b"]}")
        here = to_json(env.endpoints(source)[1][0])
        body = b'{"brokerAddr":%b,"consumeStatsList":[%b],"totalDiff":%d}' % (here, b",".join(groups), behind)
        views.reply(env, source, message, body)

    def topics(self, env: Env, source: str, message: Command) -> None:
        """343: the topics in which a group has offsets."""
        self._asked()
        found = self._topics_of(text(message.fields, "group"))
        self._views.reply(env, source, message, to_json({"topicList": found}))

    def _topics_of(self, group: str) -> list[str]:
        queues = self._views.broker.queues
        return sorted({queues.by_index[index].topic for index in queues.offsets.get(group, ())})

    def _rows(self, env: Env, group: str, topic: str) -> Rows:
        views, rows = self._views, []
        offsets = views.broker.queues.offsets.get(group, {})
        for queue in views.of_topic(views.topic(topic)):
            offset = offsets.get(queue.index, 0)
            row = {"brokerOffset": views.consumer.bounds(queue)[1], "consumerOffset": offset, "pullOffset": offset}
            rows.append((queue, {**row, "lastTimestamp": views.stored_ms(env, queue, offset - 1)}))
        return rows

    def _stats(self, rows: Rows) -> bytes:
        return b'{"offsetTable":' + self._views.table(rows) + b"}"

    # What groups are like

    def config(self, env: Env, source: str, message: Command) -> None:
        """352."""
        self._asked()
        group = text(message.fields, "group")
        if group not in self._known():
            raise Refused(Response.SUBSCRIPTION_GROUP_NOT_EXIST, f"group[{group}] not exist")
        self._views.reply(env, source, message, to_json(_config(group)))

    def all_configs(self, env: Env, source: str, message: Command) -> None:
        """201: all at once, whatever part is asked for."""
        views = self._asked()
        table = {group: _config(group) for group in self._known()}
        body = {"dataVersion": version_of(views.broker), "forbiddenTable": {}, "subscriptionGroupTable": table}
        views.reply(env, source, message, to_json(body), totalGroupNum=str(len(table)))

    def _known(self) -> list[str]:
        """Return the groups that have an offset or a member."""
        views = self._views
        return sorted({*views.broker.queues.offsets, *views.consumer.subscriptions.groups()})

    # Who is connected

    def consumers(self, env: Env, source: str, message: Command) -> None:
        """203."""
        subscriptions, group = self._views.consumer.subscriptions, text(message.fields, "consumerGroup")
        members = subscriptions.consumers(group)
        if not members:
            raise Refused(Response.CONSUMER_NOT_ONLINE, f"the consumer group[{group}] not online")
        ways = next(iter(members.values())).ways
        topics = {topic for member in members.values() for topic in member.subscriptions}
        newest = [one for topic in sorted(topics) if (one := subscriptions.newest(group, topic))]
        body = {
            **ways,
            "connectionSet": _connections(env, ((at, member.client) for at, member in members.items())),
            "subscriptionTable": {one.topic: _subscription(one) for one in newest},
        }
        self._views.reply(env, source, message, to_json(body))

    def subscription(self, env: Env, source: str, message: Command) -> None:
        """345: what a group wants of a topic."""
        group, topic = text(message.fields, "group"), text(message.fields, "topic")
        found = self._views.consumer.subscriptions.newest(group, topic)
        body = {"group": group, "topic": topic, "subscriptionData": None if found is None else _subscription(found)}
        self._views.reply(env, source, message, to_json(body))

    def producers(self, env: Env, source: str, message: Command) -> None:
        """204."""
        asked = text(message.fields, "producerGroup")
        known = self._views.consumer.subscriptions.producers()
        found = [(connection, client) for group, connection, client in known if group == asked]
        if not found:
            raise Refused(Response.SYSTEM_ERROR, f"the producer group[{asked}] not exist")
        self._views.reply(env, source, message, to_json({"connectionSet": _connections(env, found)}))

    def all_producers(self, env: Env, source: str, message: Command) -> None:
        """328."""
        table: dict[str, list[dict[str, Any]]] = {}
        for group, connection, client in self._views.consumer.subscriptions.producers():
            where = {"clientId": client, "remoteIP": env.endpoints(connection)[0][0], "lastUpdateTimestamp": 0}
            table.setdefault(group, []).append({**where, **_UNKNOWN_PROGRAM})
        self._views.reply(env, source, message, to_json({"data": table}))

    def _asked(self) -> QueueViews:
        self._views.broker.must_serve(any_replica=True)
        return self._views


def _connections(env: Env, clients: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    found = []
    for connection, client in clients:
        host, port = env.endpoints(connection)[0]
        found.append({"clientAddr": f"{host}:{port}", "clientId": client, **_UNKNOWN_PROGRAM})
    return found


def _subscription(one: Subscription) -> dict[str, Any]:
    tags = [] if one.kind == SQL92 else [tag.strip() for tag in one.expression.split("||") if tag.strip("* ")]
    return {
        "classFilterMode": False,
        "codeSet": [tag_code(tag) for tag in tags],
        "expressionType": one.kind,
        "subString": one.expression,
        "subVersion": one.version,
        "tagsSet": tags,
        "topic": one.topic,
    }


def _config(group: str) -> dict[str, Any]:
    """Return what holds for every group here: all may read, and nothing is kept of them but their offsets."""
    return {
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "groupName": group,
        "notifyConsumerIdsChangedEnable": True,
    }
