"""What a broker makes of transactions that end twice, of locks that two ask for, and of messages that are popped."""

from __future__ import annotations

import json
from typing import Any

from drivers._remoting.requests import number
from drivers.reference.conformance.case import Case, Session, conversation, of_json
from reference.broker.deferral import COMMIT, ROLLBACK
from reference.wire.codes import Request, Response
from reference.wire.requests import MASTER

_PRODUCERS = "limits-producers"
_INVISIBLE_MS = 60_000


def of_deferred(topic: str) -> dict[str, Case]:
    return {
        "a transaction that is ended twice": conversation(MASTER, lambda session: _ends(session, topic)),
        "a lock that two members ask for": conversation(MASTER, lambda session: _locks(session, topic)),
        "a message that is popped and acknowledged twice": conversation(MASTER, lambda session: _pops(session, topic)),
    }


def _group(session: Session) -> str:
    return f"limits-{session.client}-{session.number}"


async def _ends(session: Session, topic: str) -> None:
    """Check that a half message waits for its own producers, and is decided once."""
    names = f"TRAN_MSG\x01true\x02PGROUP\x01{_PRODUCERS}\x02"
    sent = await session.expect(
        0,
        Request.SEND_MESSAGE_V2,
        b"half",
        a=_PRODUCERS,
        b=topic,
        e=0,
        f=4,
        g=0,
        h=0,
        i=names,
    )
    key = number(sent.fields, "queueOffset")

    async def end(expected: int, decision: int, group: str = _PRODUCERS, place: int = key) -> None:
        ends: dict[str, Any] = {"commitLogOffset": place, "tranStateTableOffset": place}
        await session.expect(expected, Request.END_TRANSACTION, producerGroup=group, commitOrRollback=decision, **ends)

    refused = Response.SYSTEM_ERROR
    await end(refused, COMMIT, group="somebody-else")
    await end(refused, COMMIT, place=key + 1)
    await end(Response.INVALID_PARAMETER, 3)
    await end(0, 0)  # its producers do not know yet
    await end(0, ROLLBACK)
    await end(refused, ROLLBACK)
    await end(refused, COMMIT)


async def _locks(session: Session, topic: str) -> None:
    """Check that a queue is one member's until that gives it back."""

    async def ask(code: int, client: str) -> list[object]:
        queue = {"topic": topic, "brokerName": "b", "queueId": 0}
        body = {"consumerGroup": _group(session), "clientId": client, "mqSet": [queue, {**queue, "queueId": 1 << 20}]}
        answer = await session.expect(0, code, json.dumps(body).encode())
        given = of_json(answer).get("lockOKMQSet") if code == Request.LOCK_BATCH_MQ else []
        assert isinstance(given, list)
        session.must_be("what it names of a queue", given, given and [queue])
        return given

    lock, unlock = Request.LOCK_BATCH_MQ, Request.UNLOCK_BATCH_MQ
    session.must_be("the first who asks", len(await ask(lock, "one")), 1)
    session.must_be("another one", await ask(lock, "two"), [])
    await ask(unlock, "two")
    session.must_be("another one, who gave it back", await ask(lock, "two"), [])
    session.must_be("who has it, again", len(await ask(lock, "one")), 1)
    await ask(unlock, "one")
    session.must_be("another one, after that", len(await ask(lock, "two")), 1)
    await ask(unlock, "two")


async def _pops(session: Session, topic: str) -> None:
    """Check that no other member of the group is given what a member is given, and that it is acknowledged once."""
    group = _group(session)
    asked: dict[str, Any] = {"consumerGroup": group, "topic": topic, "queueId": 0, "maxMsgNums": 1}
    given = await session.expect(0, Request.POP_MESSAGE, **asked, invisibleTime=_INVISIBLE_MS)
    others = await session.expect(0, Request.POP_MESSAGE, **asked, invisibleTime=_INVISIBLE_MS)
    offsets = [answer.fields["msgOffsetInfo"].split(" ")[2] for answer in (given, others)]
    session.must_be("whether another one is given the same", offsets[0] == offsets[1], False)
    for answer, offset in zip((given, others), offsets, strict=True):
        first = answer.fields["startOffsetInfo"].split(" ")[2]
        handle: dict[str, Any] = {"consumerGroup": group, "topic": topic, "queueId": 0, "offset": offset}
        handle["extraInfo"] = f"{first} {answer.fields['popTime']} {_INVISIBLE_MS} 0 0 b 0 {offset}"
        gone = Response.INVALID_PARAMETER
        await session.expect(gone, Request.ACK_MESSAGE, **{**handle, "consumerGroup": f"{group}-others"})
        await session.expect(0, Request.CHANGE_MESSAGE_INVISIBLETIME, **handle, invisibleTime=_INVISIBLE_MS)
        await session.expect(0, Request.ACK_MESSAGE, **handle)
        await session.expect(gone, Request.ACK_MESSAGE, **handle)
        await session.expect(gone, Request.CHANGE_MESSAGE_INVISIBLETIME, **handle, invisibleTime=_INVISIBLE_MS)
