"""Reads that wait for messages, and who consumes in a group: what brokers remember of connections."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from chaos.ops import Failed, Unknown
from chaos.tasks import gather
from drivers.reference.conformance.case import ASKER, Case, Session, conversation, of_json
from drivers.reference.conformance.requests import QUIET_TOPIC
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.requests import BROKER, MASTER

#: In a pull's flags: it may wait at the end of its queue.
_MAY_WAIT = 2
#: A read waits for so long. One that is answered as empty before the least of them has not waited, whatever the node's
#: clock does: none runs faster than ten times.
_SHORT_MS, _LONG_MS, _LEAST_S = 700, 1400, 0.05
_FOR_EVER_MS = 60_000
#: For so long one waits for an answer that must not come.
_SILENT_S = 0.3
_NO_ANSWER = "no answer"
#: At the end of many reads that wait for different times, one more comes.
_TIMES_MS, _LATE_MS = range(100, 1600, 100), 1250


def of_waiting(topic: str) -> dict[str, Case]:
    async def waits(session: Session) -> None:
        await _reads_that_wait(session, topic)

    async def does_not(session: Session) -> None:
        await _read_that_does_not_wait(session, topic)

    async def silent(session: Session) -> str:
        return await _one_way(session, topic)

    return {
        "reads that wait while others commit, and leave": conversation(MASTER, waits),
        "a read that may not wait": conversation(MASTER, does_not),
        "a commit that wants no answer": Case(MASTER, _NO_ANSWER, silent),
        "who consumes in a group": conversation(BROKER, _consumers),
    }


async def _reads_that_wait(session: Session, topic: str) -> None:
    """Check that two wait for different times, one at a quiet queue, one until its client leaves, and that a commit
    takes effect."""
    queue: Mapping[str, Any] = {"topic": topic, "queueId": 0}
    end = await session.expect(0, Request.GET_MAX_OFFSET, **queue)

    async def reads(line: str, wait_ms: int, topic: str, offset: str) -> float:
        """Return for how many seconds it has waited in vain; 0 for a read that was given messages."""
        began_ns = session.network.now_ns()
        fields: dict[str, Any] = {
            "topic": topic,
            "queueId": 0,
            "queueOffset": offset,
            "maxMsgNums": 1,
            "consumerGroup": ASKER,
        }
        fields |= {"sysFlag": _MAY_WAIT, "suspendTimeoutMillis": wait_ms}
        answer = await session.ask(Request.PULL_MESSAGE, line=line, may=(Response.TOPIC_NOT_EXIST,), **fields)
        waited_s = (session.network.now_ns() - began_ns) / 1e9
        if answer.code == Response.TOPIC_NOT_EXIST and topic == QUIET_TOPIC:
            return 0.0
        if answer.code == Response.PULL_NOT_FOUND and waited_s < _LEAST_S:
            raise Failed(f"a read that may wait for {wait_ms} ms was answered as empty after {waited_s:.3f} s")
        if answer.code not in (Response.PULL_NOT_FOUND, Response.SUCCESS):
            raise Failed(f"a read that waits: code {answer.code}: {answer.remark}")
        return waited_s if answer.code == Response.PULL_NOT_FOUND else 0.0

    at = end.fields["offset"]

    async def leaves() -> None:
        with suppress(Unknown):
            await reads("left", _LONG_MS, topic, at)

    async def commits() -> None:
        await session.expect(0, Request.UPDATE_CONSUMER_OFFSET, consumerGroup=ASKER, commitOffset=0, **queue)
        session.leave("left")

    await gather(
        reads("waits", _LONG_MS, topic, at),
        reads("waits", _SHORT_MS, topic, at),
        _each_its_own_time(reads),
        leaves(),
        commits(),
    )


async def _each_its_own_time(reads: Callable[[str, int, str, str], Coroutine[Any, Any, float]]) -> None:
    """Read at one queue to which nobody sends: a read that may wait for longer does, by the same clock, and many that
    wait leave room for one more."""

    async def waits(ms: int) -> float:
        return await reads("waits", ms, QUIET_TOPIC, "0")

    async def one_more() -> float:
        await waits(_LATE_MS)
        return await waits(_TIMES_MS[0])

    waited_s = await gather(*map(waits, _TIMES_MS), one_more())
    first_s, last_s = waited_s[0], waited_s[len(_TIMES_MS) - 1]
    if 0.0 < last_s < 2.0 * first_s:
        raise Failed(f"one who may wait for long waited {last_s:.3f} s, and another one {first_s:.3f} s")


async def _read_that_does_not_wait(session: Session, topic: str) -> None:
    """Send a read that names a time for which it would wait, but not the flag by which it may."""
    queue: Mapping[str, Any] = {"topic": topic, "queueId": 0}
    end = await session.expect(0, Request.GET_MAX_OFFSET, **queue)
    pull: Mapping[str, Any] = {**queue, "queueOffset": end.fields["offset"], "maxMsgNums": 1, "sysFlag": 0}
    answer = await session.ask(Request.PULL_MESSAGE, suspendTimeoutMillis=_FOR_EVER_MS, consumerGroup=ASKER, **pull)
    if answer.code not in (Response.PULL_NOT_FOUND, Response.SUCCESS):
        raise Failed(f"a read at the end: code {answer.code}: {answer.remark}")


async def _one_way(session: Session, topic: str) -> str:
    """Send a request that takes effect, but is not answered. It commits the end of the queue, since none takes a group
    back."""
    queue: Mapping[str, Any] = {"topic": topic, "queueId": 0}
    end = (await session.expect(0, Request.GET_MAX_OFFSET, **queue)).fields.get("offset")
    about = {**queue, "consumerGroup": f"{session.client}-one-way"}
    answer = await session.silence(Request.UPDATE_CONSUMER_OFFSET, _SILENT_S, **about, commitOffset=end)
    if answer is not None:
        return f"code {answer.code}"
    stored = await session.expect(0, Request.QUERY_CONSUMER_OFFSET, **about)
    session.must_be("the offset of a commit that was not answered", stored.fields.get("offset"), end)
    return _NO_ANSWER


async def _consumers(session: Session) -> None:
    """Check that a client is one of a group from its heartbeat on, until it says otherwise or its connection ends."""
    group = f"{session.client}-{session.number}"

    async def beats(line: str, *groups: str) -> None:
        heartbeat = {"clientID": line, "consumerDataSet": [{"groupName": one} for one in groups]}
        await session.expect(0, Request.HEART_BEAT, json.dumps(heartbeat).encode(), line=line)

    async def members(*expected: str) -> None:
        code = Response.SUCCESS if expected else Response.SYSTEM_ERROR
        answer = await session.expect(code, Request.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)
        session.must_be("the clients of a group", _ids(answer) if expected else [], list(expected))

    await members()
    await beats("b", "another", group)
    await beats("a", group)
    await members("a", "b")
    await session.expect(0, Request.UNREGISTER_CLIENT, line="a", producerGroup=group)
    await session.expect(0, Request.UNREGISTER_CLIENT, line="b", consumerGroup="another")
    await members("a", "b")
    await session.expect(0, Request.UNREGISTER_CLIENT, line="a", consumerGroup=group)
    await members("b")
    await beats("a", group)
    await session.expect(0, Request.UNREGISTER_CLIENT, line="a")
    await members("b")
    await beats("a", group)
    await beats("b", "another")
    await members("a")
    session.leave("b")
    session.leave("a")
    for _ in range(3):  # the end of a connection may come later than a request over another one
        answer = await session.ask(
            Request.GET_CONSUMER_LIST_BY_GROUP, may=(Response.SYSTEM_ERROR,), consumerGroup=group
        )
        if answer.code == Response.SYSTEM_ERROR:
            return
    raise Failed(f"a client that has left is still one of its group: {_ids(answer)}")


def _ids(answer: Command) -> object:
    return of_json(answer).get("consumerIdList")
