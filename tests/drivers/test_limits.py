"""What answers to questions at the limits mean, and the frames that some of them are asked in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from chaos.driver import Disconnected, MakeFrame
from chaos.node import NOWHERE
from chaos.ops import Failed, QueueRef, Unknown
from drivers._remoting import records as remoting
from drivers.reference.conformance import frames, malformed
from drivers.reference.conformance.case import CLOSED, Session
from drivers.reference.conformance.messages import MESSAGES
from drivers.reference.limits import LimitsClient
from reference.broker import records
from reference.broker.records import MAX_USER_PROPERTIES_BYTES
from reference.tier.objects import content_hash
from reference.wire.codec import MAX_FRAME_BYTES, RemotingCodec
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.requests import FORMS, METADATA_FORMS, Form

QUEUE = QueueRef(index=0, topic="storm", queue_id=0)
NODES = {"broker": ("b",), "controller": ("c",), "nameserver": ("n",), "objectstore": ()}
EMPTY = "a topic without queues"
Answering = Callable[[Command], Command | Exception]


class Plain:
    """A network and a connection whose only answers are those of ``answering``; the route names b as the master."""

    def __init__(self, answering: Answering) -> None:
        self.answering = answering

    def connect(self, client: str, node: str) -> Plain:
        return self

    def now_ns(self) -> int:
        return 0

    async def request(self, message: Command, timeout_s: float) -> Command:
        if message.code == Request.GET_ROUTEINFO_BY_TOPIC and message.fields["topic"] == QUEUE.topic:
            return message.reply(body=b'{"brokerDatas":[{"brokerAddrs":{"0":"b"}}]}')
        if message.code == Request.CONTROLLER_GET_METADATA_INFO:
            return message.reply(fields={"isLeader": "true"})
        answer = self.answering(message)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def oneway(self, message: Command) -> None: ...

    def close(self) -> None: ...


class Bytes(Plain):
    async def exchange(self, request: Command, frame: MakeFrame, timeout_s: float) -> Command:
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
    async def send(answering: Answering, what: str = "a batch whose messages can't be read") -> Any:
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
        for what, question in MESSAGES.items()
        if not question.short
    }
    most = lengths["a message with the longest properties"]
    assert lengths["a message with too long properties"] == most + 1 == MAX_USER_PROPERTIES_BYTES + 1


@pytest.mark.parametrize("frame", [frames.in_pieces, frames.binary, frames.plain])
def test_each_form_of_a_frame_says_the_same(frame: MakeFrame) -> None:
    request = Command(code=30, opaque=7, fields={"topic": "storm", "queueId": "0"})
    (read,) = RemotingCodec().decode(bytearray(b"".join(frame(request))))
    assert (read.code, read.opaque, dict(read.fields)) == (30, 7, dict(request.fields))


def test_the_longest_frame_is_as_long_as_it_may_be() -> None:
    frame = b"".join(frames.longest(Command(code=28, opaque=7)))
    (read,) = RemotingCodec().decode(bytearray(frame))
    assert len(frame) == MAX_FRAME_BYTES and (read.code, read.opaque) == (28, 7)


@pytest.mark.parametrize("what", ["fields that are a list", "a remark that is a number", "too great a length"])
def test_what_can_not_be_understood_closes_a_connection(what: str) -> None:
    one = frames.of_frames("storm")[f"a frame with {what}"]
    assert one.expected == CLOSED

    def answering(message: Command) -> Command:
        raise AssertionError("nothing of it is a message")

    class Strict(Bytes):
        async def exchange(self, request: Command, frame: MakeFrame, timeout_s: float) -> Command:
            with pytest.raises(ValueError):
                RemotingCodec().decode(bytearray(b"".join(frame(request))))
            raise Disconnected("broke")

    assert asyncio.run(one.converse(Session(Strict(answering), "limits", "b", 1))) == CLOSED


def test_each_part_of_a_request_is_asked_in_each_wrong_way_and_the_first_that_is_taken_is_told() -> None:
    what = "requests GET_MIN_OFFSET that can't be understood"
    seen: list[dict[str, str]] = []

    def answering(message: Command) -> Command:
        seen.append(dict(message.fields))
        return message.reply(Response.INVALID_PARAMETER)

    answer = asyncio.run(client(answering).ask(what, ""))
    assert answer.value == {"expected": "code 29 to each", "told": "code 29 to each"}
    assert {"queueId": "0"} in seen and {"topic": "storm"} in seen
    assert {"topic": "storm", "queueId": str(1 << 63)} in seen and {"topic": "storm", "queueId": "x"} in seen
    assert all(fields != {"topic": "storm", "queueId": "0"} for fields in seen)

    def lenient(message: Command) -> Command:
        return message.reply(0 if message.fields.get("queueId") == str(1 << 63) else Response.INVALID_PARAMETER)

    told = asyncio.run(client(lenient).ask(what, "")).value["told"]
    assert told == "code 0 to one with queueId = 9223372036854775808"
    with pytest.raises(Failed):
        asyncio.run(client(says(Response.SYSTEM_BUSY)).ask(what, ""))


@pytest.mark.parametrize(("request_", "form"), [*FORMS.items(), *METADATA_FORMS.items()])
def test_wrong_requests_are_all_different_from_the_right_one_and_from_each_other(request_: Request, form: Form) -> None:
    right = malformed.right_request(request_, form, "storm")
    wrong = [message for _, message in malformed.wrong_requests(request_, form, "storm")]
    assert wrong and right not in wrong
    assert len({(tuple(sorted(one.fields.items())), one.body) for one in wrong}) == len(wrong)


def test_a_conversation_that_goes_otherwise_is_no_answer_and_says_why() -> None:
    with pytest.raises(Failed) as told:
        asyncio.run(client(says(0)).ask("masters of a group", ""))
    assert told.value.reason == "the answer to CONTROLLER_ELECT_MASTER: documented is 2011, it said 0"
    with pytest.raises(Failed) as told:
        asyncio.run(client(says(0, nextBeginOffset="0", offset="7")).ask("both ends of a queue", ""))
    assert told.value.reason.startswith("the beginning of the queue: documented is -1 to -1, it said 7")


def given(what: str, **other: Any) -> bytes:
    """The record that a broker would make of a message, with ``other`` things in it than were sent."""
    sent = MESSAGES[what].request(QUEUE, "K", b"body")
    made = {"flag": 7, "reconsume_times": 3, "born_ms": 1_600_000_000_001, "properties": b"UNIQ_KEY\x01K\x02"}
    made = {"position": 70, **made, **other}
    assert sent.code == Request.SEND_MESSAGE_V2
    return records.encode(topic="storm", queue_id=0, offset=7, body=sent.body, **made)


@pytest.mark.parametrize(
    ("other", "wrong"),
    [
        ({}, ""),
        ({"flag": 8}, "flag 8"),
        ({"reconsume_times": 0}, "reconsumeTimes 0"),
        ({"sys_flag": 1, "born_ms": 5}, "sysFlag 1, bornTimestamp 5"),
        ({"store_host": ("127.0.0.2", 0)}, "msgId 7F000002000000000000000000000046"),
        ({"position": 71}, "msgId 7F000001000000000000000000000047"),
        ({"born_host": ("0.0.0.0", 0)}, f"bornHost {bytes(8)}"),
    ],
)
def test_a_message_is_given_back_as_it_was_sent(other: dict[str, Any], wrong: str) -> None:
    what = "a message in the short form"

    def answering(message: Command) -> Command:
        if message.code == Request.PULL_MESSAGE:
            return message.reply(body=given(what, **other))
        return message.reply(fields={"queueOffset": "7", "position": "70", "msgId": records.message_id(NOWHERE, 70)})

    told = asyncio.run(client(answering).send_question(what, QUEUE, "K", b"body")).value["told"]
    assert told == ("code 0" if not wrong else f"code 0, and readers are given it with {wrong}")


def test_what_another_message_at_the_offset_is_or_what_nobody_can_read_now_says_nothing_of_this_one() -> None:
    what = "a message in the short form"
    bodies = [given(what, flag=8, properties=b"UNIQ_KEY\x01L\x02"), b"no record", b""]
    for body in bodies:

        def answering(message: Command, body: bytes = body) -> Command:
            return message.reply(fields={"queueOffset": "7", "position": "70"}, body=body)

        told = asyncio.run(client(answering).send_question(what, QUEUE, "K", b"body")).value["told"]
        assert told == "code 0"
    assert remoting.decode_all(bodies[0])[0].flag == 8


def test_what_wants_no_answer_and_gets_one_is_wrong_and_silence_must_have_an_effect() -> None:
    def answering(message: Command, commits: Command | Exception, offset: str) -> Command | Exception:
        assert message.is_oneway == (message.code == Request.UPDATE_CONSUMER_OFFSET)
        if message.is_oneway:
            return commits
        return message.reply(fields={"offset": "1" if message.code == Request.GET_MAX_OFFSET else offset})

    def told(commits: Command | Exception, offset: str) -> object:
        asked = client(lambda message: answering(message, commits, offset)).ask("a commit that wants no answer", "")
        return asyncio.run(asked).value["told"]

    assert told(Command(code=0, flags=1), "1") == "code 0"
    assert told(TimeoutError(), "1") == "no answer"
    with pytest.raises(Failed):
        told(TimeoutError(), "0")
    with pytest.raises(Unknown):
        told(Disconnected("broke"), "1")


def test_an_object_that_was_told_to_be_there_is_there_for_ever() -> None:
    there: dict[str, bytes] = {}

    def answering(message: Command) -> Command:
        key = message.fields["key"]
        if message.code == Request.STORE_PUT:
            there[key] = message.body
        if key not in there:
            return message.reply(Response.STORE_ABSENT)
        about = {"version": "-1", "hash": str(content_hash(there[key])), "size": str(len(there[key]))}
        return message.reply(fields=about, body=there[key])

    nodes = {**NODES, "objectstore": ("o",)}
    asker = LimitsClient(Plain(answering), "limits", ("n",), QUEUE, nodes)  # type: ignore[arg-type]

    def told() -> object:
        value = asyncio.run(asker.ask("an object without bytes that was left there", "o")).value
        assert value["expected"] == "it is there" and value["kept"]
        return value["told"]

    assert told() == "it is there" and told() == "it is there"
    there.clear()
    assert told() == "it is gone" and told() == "it is there"
