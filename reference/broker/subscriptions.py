"""What heartbeats say of clients: in which groups they produce and consume, and which messages they want."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.node import Env
from reference.broker.clients import Clients
from reference.broker.filters import ALL, TAG, BadSubscription, Filter, read_filter
from reference.broker.parts import Refused
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import item, listed, optional_text, read_object, whole

#: In a pull's flags: the request carries its subscription itself.
_SUBSCRIPTION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Which messages of a topic a consumer wants. Its clock made ``version``, in ms: the newest one counts."""

    topic: str
    expression: str = "*"
    kind: str = TAG
    version: int = 0

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Subscription:
        """Read one of a heartbeat. Raises :class:`chaos.node.Malformed`."""
        return cls(
            topic=item(value, "topic", str),
            expression=item(value, "subString", str, "*"),
            kind=item(value, "expressionType", str, TAG),
            version=item(value, "subVersion", int, 0),
        )

    def filter(self) -> Filter | None:
        """Return what it selects; None for all. Raises :class:`Refused`."""
        try:
            return read_filter(self.kind, self.expression)
        except BadSubscription as error:
            raise Refused(Response.SUBSCRIPTION_PARSE_FAILED, f"the subscription can't be parsed: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A client in one of its groups of consumers. ``ways``: how it consumes, by the names of a heartbeat."""

    client: str
    ways: Mapping[str, str]
    subscriptions: Mapping[str, Subscription]


#: How a consumer consumes, with what that is where its heartbeat doesn't say so.
_WAYS = {
    "consumeType": "CONSUME_ACTIVELY",
    "messageModel": "CLUSTERING",
    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
}


class Subscriptions:
    """What each connection's last heartbeat said, until it ends or its client says goodbye. ``clients`` answers
    them, and notifies the members of a group of each other."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._consumers: dict[str, dict[str, Member]] = {}  # group → connection → member
        self._producers: dict[str, dict[str, str]] = {}  # group → connection → client id

    # Requests

    def heartbeat(self, env: Env, source: str, message: Command) -> None:
        """34."""
        value = {"consumerDataSet": [], "producerDataSet": [], **read_object(message.body)}
        client = item(value, "clientID", str)
        members = {
            item(one, "groupName", str): _read_member(client, one) for one in listed(value, "consumerDataSet", dict)
        }
        producers = [item(one, "groupName", str) for one in listed(value, "producerDataSet", dict)]
        self._clients.heartbeat(env, source, message)
        self._forget_all(source)
        for group, member in members.items():
            self._consumers.setdefault(group, {})[source] = member
        for group in producers:
            self._producers.setdefault(group, {})[source] = client

    def unregister(self, env: Env, source: str, message: Command) -> None:
        """35."""
        consumer, producer = (optional_text(message.fields, name) for name in ("consumerGroup", "producerGroup"))
        self._clients.unregister(env, source, message)
        if not consumer and not producer:
            self._forget_all(source)
        _forget(self._consumers, consumer, source)
        _forget(self._producers, producer, source)

    def check(self, env: Env, source: str, message: Command) -> None:
        """46: whether a subscription can be parsed, which clients ask before they begin to consume."""
        value = item(read_object(message.body), "subscriptionData", dict)
        Subscription.read(value).filter()
        env.send(source, message.reply())

    def closed(self, env: Env, peer: str) -> None:
        """Forget the client at the other end of a connection that is gone."""
        self._clients.closed(env, peer)
        self._forget_all(peer)

    def _forget_all(self, source: str) -> None:
        for table in (self._consumers, self._producers):
            for group in [group for group, known in table.items() if source in known]:
                _forget(table, group, source)

    # What is known

    def consumers(self, group: str) -> Mapping[str, Member]:
        """Return the members of a group, by their connections."""
        return self._consumers.get(group, {})

    def producers(self) -> Iterator[tuple[str, str, str]]:
        """Yield (group, connection, client id)."""
        for group, known in sorted(self._producers.items()):
            for connection, client in known.items():
                yield group, connection, client

    def producers_of(self, group: str) -> list[str]:
        """Return the connections of a group's producers, in order of their names."""
        return sorted(self._producers.get(group, ()))

    def given(self, source: str) -> list[str]:
        """Return the groups in which this client is given messages (``CONSUME_PASSIVELY``): it sends some back."""
        known = [(group, members[source]) for group, members in self._consumers.items() if source in members]
        return sorted(group for group, member in known if member.ways["consumeType"] == "CONSUME_PASSIVELY")

    def groups(self) -> list[str]:
        """Return the groups of consumers."""
        return sorted(self._consumers)

    def groups_of(self, topic: str) -> set[str]:
        """Return the groups whose members want messages of a topic."""
        return {
            group
            for group, members in self._consumers.items()
            if any(topic in member.subscriptions for member in members.values())
        }

    def newest(self, group: str, topic: str) -> Subscription | None:
        """Return what a group wants of a topic: its members' newest subscription."""
        members = self._consumers.get(group, {}).values()
        known = [member.subscriptions[topic] for member in members if topic in member.subscriptions]
        return max(known, key=lambda one: one.version, default=None)

    def of_pull(self, message: Command) -> Filter | None:
        """Return which messages a pull is for; None for all. A pull that doesn't carry its subscription means that of
        its group. Raises :class:`Refused`, and :class:`chaos.node.Malformed`."""
        fields = message.fields
        group, topic = fields.get("consumerGroup", ""), fields.get("topic", "")
        expression, kind = fields.get("subscription", ""), fields.get("expressionType", "") or TAG
        if whole(fields, "sysFlag") & _SUBSCRIPTION:
            if expression in ALL and kind == TAG:
                return None
            return Subscription(topic=topic, expression=expression, kind=kind).filter()
        known = self.newest(group, topic) if group in self._consumers else None
        if known is None and kind != TAG:  # clients look at tags themselves, but not at other properties
            raise Refused(Response.SUBSCRIPTION_NOT_EXIST, f"{group} has no subscription to {topic}")
        return None if known is None else known.filter()


def _read_member(client: str, value: Mapping[str, Any]) -> Member:
    known = [
        Subscription.read(one) for one in listed({"subscriptionDataSet": [], **value}, "subscriptionDataSet", dict)
    ]
    ways = {name: item(value, name, str, default) for name, default in _WAYS.items()}
    return Member(client=client, ways=ways, subscriptions={one.topic: one for one in known})


def _forget(table: dict[str, dict[str, Any]], group: str, source: str) -> None:
    known = table.get(group, {})
    known.pop(source, None)
    if not known:
        table.pop(group, None)
