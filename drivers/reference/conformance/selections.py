"""Reads of some of a queue's messages: by tags, by conditions on properties, and by what a heartbeat has registered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from chaos.ops import Failed
from drivers._remoting.requests import number
from drivers.reference.conformance.case import Case, Session, asked, code, conversation
from reference.broker.filters import MAX_CHARACTERS, MAX_DEPTH, SQL92, TAG
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.requests import BROKER, MASTER

#: In a pull's flags: the request carries its subscription itself.
_CARRIED = 4
_NOTHING = "no message"
#: Answers to a read of what is not there: nothing that is wanted, nothing at all, another offset.
_WITHOUT = (Response.PULL_RETRY_IMMEDIATELY, Response.PULL_NOT_FOUND, Response.PULL_OFFSET_MOVED)
_NEVER, _ALWAYS, _BAD = "FALSE", "UNIQ_KEY IS NOT NULL OR TRUE", "UNIQ_KEY > 'x'"
_AT_ONCE, _STEPS = 5, 8


def of_selections(topic: str) -> dict[str, Case]:
    """Return the cases. ``topic``: one that holds many messages, none of which has a tag."""

    def read(expected: str | Response, subscription: str, kind: str = SQL92) -> Case:
        fields: Mapping[str, Any] = {"subscription": subscription, "expressionType": kind, "sysFlag": _CARRIED}
        return asked(Request.PULL_MESSAGE, expected, _what_came, topic=topic, **fields)

    def check(expected: Response, condition: str) -> Case:
        body = json.dumps({"subscriptionData": _wanted(topic, condition, 1)}).encode()
        return asked(Request.CHECK_CLIENT_CONFIG, expected, role=BROKER, body=body)

    async def alike(session: Session) -> None:
        await _everything_alike(session, topic)

    async def registered(session: Session) -> None:
        await _by_heartbeat(session, topic)

    refused = Response.SUBSCRIPTION_PARSE_FAILED
    too_deep = "(" * (MAX_DEPTH + 1) + "TRUE" + ")" * (MAX_DEPTH + 1)
    return {
        "a read of a tag that no message has": read(_NOTHING, "limits || none", TAG),
        "a read by a condition that is never true": read(_NOTHING, "NOT (none = 1 OR TRUE)"),
        "a read by an unknown condition": read(_NOTHING, "none <> 1"),
        "a read by no condition": read(refused, "UNIQ_KEY"),
        "a read by an order of texts": read(refused, _BAD),
        "a read by too deep a condition": read(refused, too_deep),
        "a read by too long a condition": read(refused, "TRUE" + " " * MAX_CHARACTERS),
        "a read of no tags": read(refused, "||", TAG),
        "a read by another kind of expression": read(refused, "*", "XPATH"),
        "a condition that can be parsed": check(Response.SUCCESS, _ALWAYS),
        "a condition that can't be parsed": check(refused, _BAD),
        "a read of what each message has": conversation(MASTER, alike),
        "a read of what a heartbeat has registered": conversation(MASTER, registered),
    }


def _what_came(answer: Command) -> str:
    return _NOTHING if answer.code in _WITHOUT and not answer.body else code(answer)


def _wanted(topic: str, condition: str, version: int) -> dict[str, Any]:
    return {"topic": topic, "subString": condition, "expressionType": SQL92, "subVersion": version}


async def _read(session: Session, topic: str, offset: int, group: str, **more: Any) -> Command:
    """Read the local log. Raises :class:`Failed` where the log begins behind the offset by now."""
    fields = {"topic": topic, "queueId": 0, "queueOffset": offset, "sysFlag": 0, "maxMsgNums": _AT_ONCE, **more}
    answer = await session.ask(Request.PULL_MESSAGE, consumerGroup=group, demandSource="local", **fields)
    if answer.code == Response.PULL_OFFSET_MOVED:
        raise Failed("retention was faster")
    return answer


async def _begin(session: Session, topic: str) -> int:
    """Return the first offset of the local log."""
    found = await session.expect(0, Request.SEARCH_OFFSET_BY_TIMESTAMP, topic=topic, queueId=0, timestamp=-1)
    return number(found.fields, "offset")


async def _everything_alike(session: Session, topic: str) -> None:
    """Check that reads by a condition that is always true give the same messages as others, step by step."""
    at = await _begin(session, topic)
    condition: Mapping[str, Any] = {"sysFlag": _CARRIED, "subscription": _ALWAYS, "expressionType": SQL92}
    for _ in range(_STEPS):
        every = await _read(session, topic, at, "limits")
        chosen = await _read(session, topic, at, "limits", **condition)
        if Response.PULL_NOT_FOUND in (every.code, chosen.code):
            return
        size = min(len(every.body), len(chosen.body))
        session.must_be("a read by a condition", chosen.body[:size], every.body[:size])
        following = [number(one.fields, "nextBeginOffset") for one in (every, chosen)]
        if len(every.body) == len(chosen.body):
            session.must_be("the offset after it", following[1], following[0])
        at = min(following)


async def _by_heartbeat(session: Session, topic: str) -> None:
    """Check that a read without a subscription gives what its group's newest one selects."""
    group = f"{session.client}-{session.number}-chosen"

    async def beats(line: str, condition: str, version: int) -> None:
        consumer = {"groupName": group, "subscriptionDataSet": [_wanted(topic, condition, version)]}
        heartbeat = {"clientID": line, "consumerDataSet": [consumer]}
        await session.expect(0, Request.HEART_BEAT, json.dumps(heartbeat).encode(), line=line)

    async def reads(*documented: Response) -> None:
        answer = await _read(session, topic, await _begin(session, topic), group)
        if answer.code not in documented and answer.code != Response.PULL_NOT_FOUND:
            raise Failed(f"a read of what is registered: code {answer.code}: {answer.remark}"[:300])

    await beats("a", _NEVER, 2)
    await reads(Response.PULL_RETRY_IMMEDIATELY)
    await beats("b", _ALWAYS, 3)
    await reads(Response.SUCCESS)
    await beats("a", _BAD, 4)
    await reads(Response.SUBSCRIPTION_PARSE_FAILED)
    await session.expect(0, Request.UNREGISTER_CLIENT, line="a", consumerGroup=group)
    await reads(Response.SUCCESS)
    session.leave("a")
    session.leave("b")
