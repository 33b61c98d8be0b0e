"""What answers to questions at the limits mean, and the frames that some of them are asked in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from chaos.driver import Disconnected, MakeFrame
from chaos.node import Message
from chaos.ops import Failed, QueueRef, Unknown
from drivers.reference import questions
from drivers.reference.limits import LimitsClient
from reference.wire.codec import RemotingCodec
from reference.wire.codes import Request, Response

QUEUE = QueueRef(index=0, topic="storm", queue_id=0)
NODES = {"broker": ("b",), "controller": ("c",), "nameserver": ("n",), "objectstore": ()}
EMPTY = "a topic without queues"
Answering = Callable[[Message], Message | Exception]


class Plain:
    """A network and a connection whose only answers are those of ``answering``; the route names b as the master."""

    def __init__(self, answering: Answering) -> None:
        self.answering = answering

    def connect(self, client: str, node: str) -> Plain:
        return self

    async def request(self, message: Message, timeout_s: float) -> Message:
        if message.code == Request.GET_ROUTEINFO_BY_TOPIC and message.fields["topic"] == QUEUE.topic:
            return message.reply(body=b'{"brokerDatas":[{"brokerAddrs":{"0":"b"}}]}')
        answer = self.answering(message)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def oneway(self, message: Message) -> None: ...

    def close(self) -> None: ...


class Bytes(Plain):
    async def exchange(self, request: Message, frame: MakeFrame, timeout_s: float) -> Message:
        return await self.request(RemotingCodec().decode(bytearray(b"".join(frame(request))))[0], timeout_s)


def client(answering: Answering, kind: type[Plain] = Plain) -> LimitsClient:
    return LimitsClient(kind(answering), "limits", ("n",), QUEUE, NODES)  # type: ignore[arg-type]


def says(code: int, remark: str = "r", **fields: str) -> Answering:
    return lambda message: message.reply(code, fields=fields, remark=remark)


def test_who_has_no_store_or_no_frames_has_no_such_questions() -> None:
    plain, able = client(says(0)), client(says(0), Bytes)
    assert {"a request in pieces", "a route from outside"} <= set(able.questions) - set(plain.questions)
    assert "an object that is not there" not in able.questions
    assert plain.questions[EMPTY] == ("",) and plain.questions["which epochs a log has"] == ("b",)
    assert not set(plain.messages) & set(able.questions)


@pytest.mark.parametrize("code", [Response.INVALID_PARAMETER, Response.SUCCESS, Response.MESSAGE_ILLEGAL])
def test_an_answer_is_told_beside_the_documented_one(code: Response) -> None:
    answer = asyncio.run(client(says(code)).ask(EMPTY, ""))
    assert answer.node == "b" and answer.value == {"expected": "code 29", "told": f"code {int(code)}"}


@pytest.mark.parametrize("code", [Response.SYSTEM_BUSY, Response.SERVICE_NOT_AVAILABLE, Response.FLUSH_SLAVE_TIMEOUT])
def test_a_refusal_for_the_moment_is_no_answer(code: Response) -> None:
    with pytest.raises(Failed) as told:
        asyncio.run(client(says(code)).ask(EMPTY, ""))
    assert told.value.answer.value == {}


def test_who_does_not_answer_says_nothing_but_a_closed_connection_may_be_the_answer() -> None:
    with pytest.raises(Unknown):
        asyncio.run(client(lambda message: TimeoutError()).ask("a log behind its end", "b"))
    closed = client(lambda message: Disconnected("broke"), Bytes)
    with pytest.raises(Unknown):
        asyncio.run(closed.ask("a request in pieces", "b"))
    refused = client(lambda message: Disconnected("refused", sent=False), Bytes)
    with pytest.raises(Unknown):
        asyncio.run(refused.ask("a request in pieces", "b"))


def test_messages_are_taken_or_refused_as_documented_or_nobody_knows() -> None:
    async def send(answering: Answering, what: str = "a batch") -> Any:
        return await client(answering).send_question(what, QUEUE, "K", b"body")

    taken = asyncio.run(send(says(0, queueOffset="7", position="70"), "a message with the longest properties"))
    assert (taken.offset, taken.position, taken.value) == (7, 70, {"expected": "code 0", "told": "code 0"})
    with pytest.raises(Failed) as right:
        asyncio.run(send(says(Response.MESSAGE_ILLEGAL)))
    assert right.value.answer.value == {"expected": "code 13", "told": "code 13"}
    for busy in (says(Response.SYSTEM_BUSY), says(Response.SYSTEM_ERROR, "in-sync replicas not enough")):
        with pytest.raises(Failed) as told:
            asyncio.run(send(busy))
        assert told.value.answer.value == {}
    with pytest.raises(Unknown):
        asyncio.run(send(says(Response.FLUSH_SLAVE_TIMEOUT)))


def test_properties_are_as_long_as_they_may_be_and_one_byte_longer() -> None:
    lengths = {
        what: len(question.request(QUEUE, "0" * 32, b"b").fields["properties"].encode())
        for what, question in questions.MESSAGES.items()
    }
    most = lengths["a message with the longest properties"]
    assert lengths["a message with too long properties"] == most + 1 == questions.MAX_USER_PROPERTIES_BYTES + 1


@pytest.mark.parametrize("frame", [questions.in_pieces, questions.binary, questions.plain])
def test_each_form_of_a_frame_says_the_same(frame: MakeFrame) -> None:
    request = Message(code=30, opaque=7, fields={"topic": "storm", "queueId": "0"})
    (read,) = RemotingCodec().decode(bytearray(b"".join(frame(request))))
    assert (read.code, read.opaque, dict(read.fields)) == (30, 7, dict(request.fields))


def test_what_can_not_be_understood_closes_a_connection() -> None:
    bad = [one for one in questions.of_frames("storm").values() if one.expected == questions.CLOSED]
    assert len(bad) == 6
    for one in bad:
        assert one.frame is not None
        with pytest.raises(ValueError):
            RemotingCodec().decode(bytearray(b"".join(one.frame(one.request))))
