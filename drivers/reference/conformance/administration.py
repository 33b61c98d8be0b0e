"""What administrators are answered of queues and groups agrees with what clients are."""

from __future__ import annotations

import json
import re
from typing import Any

from chaos.ops import Failed
from drivers._remoting.requests import number
from drivers.reference.conformance.case import Case, Session, conversation
from reference.wire.codes import Request
from reference.wire.command import Command
from reference.wire.requests import MASTER

#: The name of a member that is an object, as RocketMQ writes tables by queues, up to its colon.
_KEY = re.compile(rb'(?<=[{,])\{"brokerName":[^{}]*?"queueId":(\d+),[^{}]*?\}(?=:)')


def of_administration(topic: str) -> dict[str, Case]:
    """Return the cases. ``topic``: one that is there."""

    async def bounds(session: Session) -> None:
        await _bounds(session, topic)

    async def offsets(session: Session) -> None:
        await _offsets(session, topic)

    return {
        "the bounds of queues, as administrators see them": conversation(MASTER, bounds),
        "how far a group has read, as administrators see it": conversation(MASTER, offsets),
    }


async def _bounds(session: Session, topic: str) -> None:
    """Check that both ends of a queue lie where clients were answered before and after."""
    first = await session.expect(0, Request.GET_MAX_OFFSET, topic=topic, queueId=0)
    row = _row(session, await session.expect(0, Request.GET_TOPIC_STATS, topic=topic))
    last = await session.expect(0, Request.GET_MAX_OFFSET, topic=topic, queueId=0)
    for name, field in (("minOffset", "minOffset"), ("maxOffset", "offset")):
        low, high = (number(one.fields, field) for one in (first, last))
        if low <= high and not low <= row[name] <= high:
            session.must_be(name, row[name], f"{low} to {high}")
    config = json.loads((await session.expect(0, Request.GET_TOPIC_CONFIG, topic=topic)).body)
    session.must_be("the name of a topic", config.get("topicName"), topic)


async def _offsets(session: Session, topic: str) -> None:
    """Check that a commit is seen, by the group and by the topic."""
    group = f"{session.client}-seen"
    place: dict[str, Any] = {"topic": topic, "queueId": 0}
    end = number((await session.expect(0, Request.GET_MAX_OFFSET, **place)).fields, "offset")
    await session.expect(0, Request.UPDATE_CONSUMER_OFFSET, **place, consumerGroup=group, commitOffset=end)
    for topics in ({}, {"topic": topic}):
        row = _row(session, await session.expect(0, Request.GET_CONSUME_STATS, consumerGroup=group, **topics))
        session.must_be("the offset of a group", row["consumerOffset"], end)
        if row["brokerOffset"] < end:
            raise Failed(f"the queue ends at {row['brokerOffset']}, and its group has read up to {end}")
    groups = json.loads((await session.expect(0, Request.QUERY_GROUPS_OF_TOPIC, topic=topic)).body)
    session.must_be("whether a topic names its group", group in groups["groupList"], True)
    seen = json.loads((await session.expect(0, Request.QUERY_TOPICS_OF_GROUP, group=group)).body)
    session.must_be("the topics of a group", seen["topicList"], [topic])


def _row(session: Session, answer: Command) -> dict[str, Any]:
    """Return what a table says of queue 0. Raises :class:`Failed` where it says nothing."""
    try:
        table = json.loads(_KEY.sub(rb'"\1"', answer.body))["offsetTable"]
        row: dict[str, Any] = table["0"]
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"a table by queues that can't be read: {error}") from error
    return row
