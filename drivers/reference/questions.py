"""What lies at the limits of the reference system, and how ``docs/wire.md`` says that it is answered."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from chaos.driver import MakeFrame
from chaos.node import Malformed, Message
from chaos.ops import QueueRef
from reference.broker.consumer_requests import MAX_PULL_BYTES
from reference.broker.producer_requests import MAX_TOPIC_QUEUES
from reference.broker.records import MAX_BODY_BYTES, MAX_TOPIC_BYTES, MAX_USER_PROPERTIES_BYTES
from reference.wire.codec import MAX_FRAME_BYTES
from reference.wire.codec import RemotingCodec as Codec
from reference.wire.codes import Request, Response
from reference.wire.fields import MAX_NAME_BYTES, read_object

#: Roles of nodes, as the driver starts them; a question to MASTER is for whoever takes writes.
MASTER, BROKER, CONTROLLER, NAMESERVER, STORE = "", "broker", "controller", "nameserver", "objectstore"
#: The group that these questions name, and the store's word for them.
ASKER = "limits"
CLOSED = "the connection is closed"
_NOBODY = "nobody-knows-this"
_MOST, _FAR = (1 << 63) - 1, 1 << 40
_BINARY, _START, _WORD, _KEY = struct.Struct(">hBhiii"), struct.Struct(">II"), struct.Struct(">I"), struct.Struct(">H")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``told`` says in the words of ``expected`` what an answer amounts to; ``frame`` makes the bytes of the request,
    where the frames that everybody sends are not what is asked about."""

    role: str
    request: Message
    expected: str
    told: Callable[[Message], str]
    frame: MakeFrame | None = None


def code(answer: Message) -> str:
    return f"code {answer.code}"


# How answers are read


def _in_bounds(answer: Message) -> str:
    return f"at most {MAX_PULL_BYTES} bytes" if len(answer.body) <= MAX_PULL_BYTES else f"{len(answer.body)} bytes"


def _behind_the_end(answer: Message) -> str:
    able = (Response.PULL_OFFSET_MOVED, Response.PULL_RETRY_IMMEDIATELY)
    return "another offset, or to come again" if answer.code in able else code(answer)


def _of_json(read: Callable[[dict[str, Any]], str]) -> Callable[[Message], str]:
    """What a body says, read as strictly as nodes read: numbers fit into 64 bits."""

    def told(answer: Message) -> str:
        if answer.code != Response.SUCCESS:
            return code(answer)
        try:
            return read(read_object(answer.body))
        except (Malformed, KeyError, TypeError, ValueError) as error:
            return f"a body that can't be read: {error}"[:200]

    return told


def _set_of_a_master(body: dict[str, Any]) -> str:
    is_master, has_set = body["role"] == "master", bool(body["set"]) or body["set_epoch"] >= 0
    return "a set of a master alone" if is_master or not has_set else f"a {body['role']} with a set"


def _epochs(body: dict[str, Any]) -> str:
    known = body["epochList"]
    gaps = any(one["endOffset"] != after["startOffset"] for one, after in pairwise(known))
    open_end = not known or known[-1]["endOffset"] == _MOST
    return "epochs without gaps, the newest one without an end" if open_end and not gaps else f"epochs {known}"[:200]


def _behind(key: str) -> Callable[[Message], str]:
    def told(answer: Message) -> str:
        if answer.code != Response.SUCCESS:
            return code(answer)
        return "keys behind this one" if all(one > key for one, _ in json.loads(answer.body)) else "keys before it"

    return told


def _addresses(find: Callable[[Message], Sequence[str]]) -> Callable[[Message], str]:
    def told(answer: Message) -> str:
        if answer.code != Response.SUCCESS:
            return code(answer)
        found = find(answer)
        return "addresses" if found and all(":" in one for one in found) else f"names {sorted(found)}"[:200]

    return told


def _of_routes(answer: Message) -> list[str]:
    return [name for group in json.loads(answer.body)["brokerDatas"] for name in group["brokerAddrs"].values()]


def _of_groups(answer: Message) -> list[str]:
    groups = json.loads(answer.body)["brokerAddrTable"].values()
    return [name for group in groups for name in group["brokerAddrs"].values()]


# How frames are made


def in_pieces(request: Message) -> Sequence[bytes]:
    """Cut in the middle of its length, of its checksum, and before its last byte."""
    frame = Codec().encode(request)
    return frame[:2], frame[2:30], frame[30:-1], frame[-1:]


def binary(request: Message) -> Sequence[bytes]:
    """A header in RocketMQ's own form."""
    fields = b"".join(
        _KEY.pack(len(key.encode())) + key.encode() + _WORD.pack(len(value.encode())) + value.encode()
        for key, value in request.fields.items()
    )
    header = _BINARY.pack(request.code, 0, 400, request.opaque, request.flags, 0) + _WORD.pack(len(fields)) + fields
    return (_START.pack(4 + len(header) + len(request.body), 1 << 24 | len(header)) + header + request.body,)


def plain(request: Message) -> Sequence[bytes]:
    """Without a checksum, as clients of other make send it."""
    return (_json({"code": request.code, "opaque": request.opaque, "extFields": dict(request.fields)}),)


def _with(**members: object) -> MakeFrame:
    return lambda request: (_json({"code": request.code, "opaque": request.opaque, **members}),)


def _json(header: Mapping[str, object]) -> bytes:
    text = json.dumps(header).encode()
    return _START.pack(4 + len(text), len(text)) + text


def _damaged(request: Message) -> Sequence[bytes]:
    frame = bytearray(Codec().encode(replace(request, body=b"body")))
    frame[-1] ^= 1
    return (bytes(frame),)


def _too_long(request: Message) -> Sequence[bytes]:
    return (_START.pack(MAX_FRAME_BYTES - 3, 2) + b"{}",)


# The questions


def _asked(
    role: str,
    request: int,
    expected: str | Response,
    told: Callable[[Message], str] = code,
    /,
    *,
    frame: MakeFrame | None = None,
    body: bytes = b"",
    **fields: Any,
) -> Question:
    """``fields`` of the header become texts."""
    return Question(
        role=role,
        request=Message(code=request, fields={key: str(value) for key, value in fields.items()}, body=body),
        expected=f"code {int(expected)}" if isinstance(expected, Response) else expected,
        told=told,
        frame=frame,
    )


def _topic(expected: Response, name: str, queues: int) -> Question:
    fields: dict[str, Any] = {"topic": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
    return _asked(MASTER, Request.UPDATE_AND_CREATE_TOPIC, expected, **fields)


def _pull(role: str, topic: str, expected: str | Response, told: Any = code, **more: Any) -> Question:
    fields: dict[str, Any] = {
        "topic": topic,
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 1,
        "sysFlag": 0,
        "consumerGroup": ASKER,
    }
    return _asked(role, Request.PULL_MESSAGE, expected, told, **{**fields, **more})


def _commit(topic: str, **more: Any) -> Question:
    fields: dict[str, Any] = {"topic": topic, "queueId": 0, "consumerGroup": ASKER, **more}
    return _asked(MASTER, Request.UPDATE_CONSUMER_OFFSET, Response.INVALID_PARAMETER, **fields)


def of_topics() -> dict[str, Question]:
    refused = Response.INVALID_PARAMETER
    return {
        "a topic without queues": _topic(refused, "limits-none", 0),
        "a topic of one queue, with the longest name": _topic(Response.SUCCESS, "l" * MAX_TOPIC_BYTES, 1),
        "a topic with too long a name": _topic(refused, "l" * (MAX_TOPIC_BYTES + 1), 1),
        "a topic with too many queues": _topic(refused, "limits-many", MAX_TOPIC_QUEUES + 1),
        "a topic with a name of the system's": _topic(refused, "%limits", 1),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuestion:
    """A message that is sent under a key. Its header fields are ``more`` besides the usual ones; its properties are
    ``properties``, and as much filler behind the key as makes them ``length`` bytes long. ``body`` replaces its own."""

    expected: Response
    more: Mapping[str, object] = field(default_factory=dict)
    properties: str = ""
    length: int = 0
    body: bytes | None = None

    def request(self, queue: QueueRef, key: str, body: bytes) -> Message:
        start = f"{self.properties}UNIQ_KEY\x01{key}\x02"
        fields = {
            "topic": queue.topic,
            "queueId": queue.queue_id,
            "bornTimestamp": 0,
            "flag": 0,
            "sysFlag": 0,
            "properties": start + ("k\x01" + "v" * (self.length - len(start) - 2) if self.length else ""),
            **self.more,
        }
        texts = {name: str(value) for name, value in fields.items()}
        return Message(code=Request.SEND_MESSAGE, fields=texts, body=body if self.body is None else self.body)


def _taken(**more: object) -> MessageQuestion:
    return MessageQuestion(expected=Response.SUCCESS, more=more)


def _refused(**more: object) -> MessageQuestion:
    return MessageQuestion(expected=Response.MESSAGE_ILLEGAL, more=more)


MESSAGES: Mapping[str, MessageQuestion] = {
    "a message with the smallest flag": _taken(flag=-(1 << 31)),
    "a message with the greatest flag": _taken(flag=(1 << 31) - 1),
    "a message with a flag of 33 bits": replace(_refused(flag=1 << 31), expected=Response.INVALID_PARAMETER),
    "a message with the longest properties": replace(_taken(), length=MAX_USER_PROPERTIES_BYTES),
    "a message with too long properties": replace(_refused(), length=MAX_USER_PROPERTIES_BYTES + 1),
    "a message with a delay of nothing": replace(_taken(), properties="DELAY\x010\x02"),
    "a delayed message": replace(_refused(), properties="DELAY\x013\x02"),
    "a message of a transaction": _refused(sysFlag=0b100),
    "a batch": _refused(batch="true"),
    "a message without a body": replace(_refused(), body=b""),
    "a message with too long a body": replace(_refused(), body=b"x" * (MAX_BODY_BYTES + 1)),
}


def of_reads(topic: str) -> dict[str, Question]:
    """``topic``: one that holds many messages."""
    any_replica: dict[str, Any] = {"anyReplica": "true"}
    return {
        "a read of no messages": _pull(MASTER, topic, Response.INVALID_PARAMETER, maxMsgNums=0),
        "a read of no bytes": _pull(MASTER, topic, Response.INVALID_PARAMETER, maxMsgBytes=0),
        "a read of all that there is": _pull(
            MASTER, topic, f"at most {MAX_PULL_BYTES} bytes", _in_bounds, maxMsgNums=1 << 30, maxMsgBytes=1 << 30
        ),
        "a read far behind the end": _pull(
            BROKER, topic, "another offset, or to come again", _behind_the_end, queueOffset=_FAR, **any_replica
        ),
        "a commit before the beginning": _commit(topic, commitOffset=-1),
        "a commit behind the end": _commit(topic, commitOffset=_FAR),
        "a commit of a group with too long a name": _commit(
            topic, commitOffset=0, consumerGroup="g" * (MAX_NAME_BYTES + 1)
        ),
        "the end of a queue that is not there": _asked(
            MASTER, Request.GET_MAX_OFFSET, Response.TOPIC_NOT_EXIST, topic=topic, queueId=1 << 20
        ),
        "an offset of a group that never committed": _asked(
            MASTER, Request.QUERY_CONSUMER_OFFSET, Response.QUERY_NOT_FOUND, topic=topic, queueId=0, consumerGroup="nil"
        ),
    }


def of_administrators() -> dict[str, Question]:
    epochs = "epochs without gaps, the newest one without an end"
    return {
        "which epochs a log has": _asked(BROKER, Request.GET_BROKER_EPOCH_CACHE, epochs, _of_json(_epochs)),
        "what a replica says of itself": _asked(
            BROKER, Request.DESCRIBE, "a set of a master alone", _of_json(_set_of_a_master)
        ),
        "a log from its beginning": _asked(BROKER, Request.READ_LOG, Response.SUCCESS, position=-1),
        "a log behind its end": _asked(BROKER, Request.READ_LOG, Response.SUCCESS, position=_FAR),
        "a log from nowhere": _asked(BROKER, Request.READ_LOG, Response.INVALID_PARAMETER, position="x"),
    }


def of_stores() -> dict[str, Question]:
    version = json.dumps({"version": 8}).encode()
    swap: dict[str, Any] = {"key": "limits/absent", "request": ASKER}
    return {
        "a change of an object that is not there": _asked(
            STORE, Request.STORE_CAS, Response.STORE_CONFLICT, body=version, expected=7, **swap
        ),
        "a change to an older version": _asked(
            STORE, Request.STORE_CAS, Response.MESSAGE_ILLEGAL, body=version, expected=8, **swap
        ),
        "an object that is not there": _asked(STORE, Request.STORE_GET, Response.STORE_ABSENT, **swap),
        "the deletion of what is not there": _asked(STORE, Request.STORE_DELETE, Response.STORE_ABSENT, **swap),
        "a key with a strange name": _asked(STORE, Request.STORE_GET, Response.MESSAGE_ILLEGAL, key="../x"),
        "a list that goes on behind all keys": _asked(
            STORE, Request.STORE_LIST, "keys behind this one", _behind("zzz"), prefix="", after="zzz", request=ASKER
        ),
    }


def of_others() -> dict[str, Question]:
    """Name servers and controllers, and what nobody understands."""
    unknown = {
        f"a request that no {role} knows": _asked(role, 4711, Response.REQUEST_CODE_NOT_SUPPORTED)
        for role in (BROKER, CONTROLLER, NAMESERVER, STORE)
    }
    return unknown | {
        "a route of a topic that is not there": _asked(
            NAMESERVER, Request.GET_ROUTEINFO_BY_TOPIC, Response.TOPIC_NOT_EXIST, topic=_NOBODY
        ),
        "a route without a topic": _asked(NAMESERVER, Request.GET_ROUTEINFO_BY_TOPIC, Response.SYSTEM_ERROR),
        "a group that is not there": _asked(
            CONTROLLER,
            Request.CONTROLLER_GET_REPLICA_INFO,
            Response.CONTROLLER_BROKER_METADATA_NOT_EXIST,
            brokerName=_NOBODY,
        ),
        "a group without a name": _asked(
            CONTROLLER, Request.CONTROLLER_GET_REPLICA_INFO, Response.CONTROLLER_INVALID_REQUEST
        ),
    }


def of_frames(topic: str) -> dict[str, Question]:
    """What only bytes can say; and what a client from outside is told."""
    info, taken = Request.GET_BROKER_RUNTIME_INFO, Response.SUCCESS
    route: dict[str, Any] = {"topic": topic}
    kinds: dict[str, MakeFrame] = {"in pieces": in_pieces, "with a binary header": binary, "without a checksum": plain}
    good = {
        f"a request {kind}": _asked(
            BROKER, Request.GET_MAX_OFFSET, taken, frame=frame, topic=topic, queueId=0, anyReplica="true"
        )
        for kind, frame in kinds.items()
    }
    bad: dict[str, MakeFrame] = {
        "fields that are a list": _with(extFields=[1]),
        "a field that is a number": _with(extFields={"a": 1}),
        "a remark that is a number": _with(remark=1),
        "a number of 33 bits": _with(flag=1 << 33),
        "a wrong checksum": _damaged,
        "too great a length": _too_long,
    }
    return {
        **good,
        **{f"a frame with {what}": _asked(BROKER, info, CLOSED, frame=frame) for what, frame in bad.items()},
        "a route from outside": _asked(
            NAMESERVER,
            Request.GET_ROUTEINFO_BY_TOPIC,
            "addresses",
            _addresses(_of_routes),
            frame=in_pieces,
            **route,
        ),
        "the cluster from outside": _asked(
            NAMESERVER, Request.GET_BROKER_CLUSTER_INFO, "addresses", _addresses(_of_groups), frame=binary
        ),
    }


def questions(topic: str, *, frames: bool) -> dict[str, Question]:
    """All but messages, by name; ``frames``: also those in bytes of our own making."""
    plain_ones = {
        **of_topics(),
        **of_reads(topic),
        **of_administrators(),
        **of_stores(),
        **of_others(),
    }
    return plain_ones | of_frames(topic) if frames else plain_ones
