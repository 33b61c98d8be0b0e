"""Which queues are a member's: computed by the broker, for clients that don't compute it themselves.

Source: RocketMQ's ``QueryAssignmentProcessor``, whose answer is that of the client's ``AllocateMessageQueueAveragely``
or ``AllocateMessageQueueAveragelyByCircle`` over the members that the broker knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from chaos.node import Env
from reference.broker.parts import Refused, Service
from reference.broker.subscriptions import Subscriptions
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import item, read_object, to_json

T = TypeVar("T")
BROADCASTING = "BROADCASTING"


def averagely(members: int, place: int, queues: Sequence[T]) -> Sequence[T]:
    """Return the queues of the member at this place: a run of neighbours, as many as the others have, or one more."""
    each, more = divmod(len(queues), members)
    begin = place * each + min(place, more)
    return queues[begin : begin + each + (place < more)]


def by_circle(members: int, place: int, queues: Sequence[T]) -> Sequence[T]:
    """Return the queues of the member at this place: every so many-th one."""
    return queues[place::members]


STRATEGIES: Mapping[str, Callable[[int, int, Sequence[int]], Sequence[int]]] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": by_circle,
}


class Assignments:
    """Answers members. ``group``: what routes call this group of brokers."""

    def __init__(self, broker: Service, subscriptions: Subscriptions, group: str) -> None:
        self._broker = broker
        self._subscriptions = subscriptions
        self._group = group

    def query(self, env: Env, source: str, message: Command) -> None:
        """400: the queues of a topic, as far as they are here, that are this member's of its group."""
        self._broker.must_serve()
        value = {"strategyName": "AVG", "messageModel": "CLUSTERING", **read_object(message.body)}
        name, group = item(value, "topic", str), item(value, "consumerGroup", str)
        client, strategy = item(value, "clientId", str), item(value, "strategyName", str)
        model = item(value, "messageModel", str)
        topic = self._broker.queues.topics.get(name)
        if topic is None or not topic.confirmed:
            raise Refused(Response.TOPIC_NOT_EXIST, f"no topic {name!r}")
        if strategy not in STRATEGIES:
            raise Refused(Response.INVALID_PARAMETER, f"strategyName must be one of {', '.join(STRATEGIES)}")
        queues: Sequence[int] = range(topic.queues)
        if model != BROADCASTING:
            members = sorted({member.client for member in self._subscriptions.consumers(group).values()})
            if client not in members:
                raise Refused(Response.SYSTEM_ERROR, f"{client} is no member of {group}, as far as this broker knows")
            queues = STRATEGIES[strategy](len(members), members.index(client), queues)
        found = [
            {"messageQueue": {"topic": name, "brokerName": self._group, "queueId": number}, "mode": "PULL"}
            for number in queues
        ]
        env.send(source, message.reply(body=to_json({"messageQueueAssignments": found})))
