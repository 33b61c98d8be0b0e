"""Messages that administrators look for: by their keys, by their places in the log."""

from __future__ import annotations

from typing import Any

from chaos.ops import Failed
from drivers._remoting import records
from drivers._remoting.requests import number
from drivers.reference.conformance.case import ASKER, Case, Session, asked, conversation
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.requests import MASTER

_FOR_EVER = 1 << 53
_NOBODY = "nobody-knows-this"


def of_lookups(topic: str) -> dict[str, Case]:
    """Return the cases. ``topic``: one that holds many messages."""

    def look(key: str, topic: str) -> Case:
        times: dict[str, Any] = {"beginTimestamp": 0, "endTimestamp": _FOR_EVER}
        return asked(Request.QUERY_MESSAGE, Response.QUERY_NOT_FOUND, topic=topic, key=key, maxNum=32, **times)

    def place(position: int) -> Case:
        return asked(Request.VIEW_MESSAGE_BY_ID, "no message", _no_message, offset=position)

    async def by_key(session: Session) -> None:
        await _by_key(session, topic)

    return {
        "messages with a key that none has": look(_NOBODY, topic),
        "messages of a topic that is not there": look("k", _NOBODY),
        "a message before the log": place(-1),
        "a message behind the log": place(1 << 62),
        "messages by their keys and places": conversation(MASTER, by_key),
    }


def _no_message(answer: Command) -> str:
    return "no message" if answer.code == Response.SYSTEM_ERROR and not answer.body else f"code {answer.code}"


async def _by_key(session: Session, topic: str) -> None:
    """Check that the first message of the local log is found by its key, in its time alone, and at its place."""
    begin = await session.expect(0, Request.SEARCH_OFFSET_BY_TIMESTAMP, topic=topic, queueId=0, timestamp=-1)
    read: dict[str, Any] = {
        "topic": topic,
        "queueId": 0,
        "queueOffset": number(begin.fields, "offset"),
        "maxMsgNums": 1,
    }
    answer = await session.ask(Request.PULL_MESSAGE, sysFlag=0, consumerGroup=ASKER, demandSource="local", **read)
    if answer.code in (Response.PULL_NOT_FOUND, Response.PULL_OFFSET_MOVED):
        return
    (stored,) = records.decode_all(answer.body)
    key, at_ms = stored.properties.get("UNIQ_KEY", ""), stored.store_ms

    async def found(begin_ms: int, end_ms: int) -> list[int]:
        about: dict[str, Any] = {"topic": topic, "key": key, "maxNum": 64, "_UNIQUE_KEY_QUERY": "true"}
        answer = await session.ask(Request.QUERY_MESSAGE, may=(), **about, beginTimestamp=begin_ms, endTimestamp=end_ms)
        if answer.code == Response.QUERY_NOT_FOUND:
            return []
        session.must_be("the answer to QUERY_MESSAGE", answer.code, 0)
        return [one.position for one in records.decode_all(answer.body)]

    if stored.position not in await found(at_ms, at_ms):
        raise Failed(f"the message with the key {key} is not found by it")
    if stored.position in [*await found(at_ms + 1, _FOR_EVER), *await found(0, at_ms - 1)]:
        raise Failed(f"the message with the key {key} is found in another time")
    there = await session.expect(0, Request.VIEW_MESSAGE_BY_ID, offset=stored.position)
    session.must_be("the message at a place", there.body, answer.body)
