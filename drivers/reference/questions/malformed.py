"""Requests that can't be understood: each part of each request that a client may send, missing, too long, of another
type, or outside of its range. Every node refuses all of them with one code, and does nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drivers.reference.questions.question import (
    BROKER,
    CONTROLLER,
    LEADER,
    MASTER,
    NAMESERVER,
    STORE,
    Question,
    Talk,
    must_be_final,
    one_request,
)
from reference.controller.node import MAX_LIVES_CHARACTERS, MAX_REPLICAS
from reference.objectstore.node import MAX_CONTENT_BYTES
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import MAX_DEPTH, MAX_NAME_BYTES

#: The code by which each role refuses what it can't understand.
REFUSAL: Mapping[str, Response] = {
    MASTER: Response.INVALID_PARAMETER,
    BROKER: Response.INVALID_PARAMETER,
    CONTROLLER: Response.CONTROLLER_INVALID_REQUEST,
    LEADER: Response.CONTROLLER_INVALID_REQUEST,
    NAMESERVER: Response.SYSTEM_ERROR,
    STORE: Response.MESSAGE_ILLEGAL,
}
_TOO_LONG = "n" * (MAX_NAME_BYTES + 1)
#: No JSON object as nodes understand it, whatever its members mean.
_NO_OBJECTS: Mapping[str, bytes] = {
    "a body that ends early": b'{"a":1',
    "a body that is a list": b"[]",
    "a body that is no text": b'"\xff"',
    "a number of 65 bits": b'{"a":9223372036854775808}',
    "a negative number of 65 bits": b'{"a":-9223372036854775809}',
    "a number that is none": b'{"a":NaN}',
    "an infinite number": b'{"a":1e999}',
    "half a character": b'{"a":"\\ud800"}',
    "lists that are too deep": b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A request that its node understands, with these ``fields`` and this ``body``. ``names`` are fields that hold a
    name, ``numbers`` those that hold a number of so many bits; those in ``needed`` must be there. ``values`` are other
    wrong values of fields, ``bodies`` wrong bodies, each in a few words; ``refusal`` replaces its role's code."""

    role: str
    request: Request
    fields: Mapping[str, object] = field(default_factory=dict)
    names: Sequence[str] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    needed: Sequence[str] = ()
    values: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    bodies: Mapping[str, bytes] = field(default_factory=dict)
    refusal: Response | None = None

    def wrong(self) -> Iterator[tuple[str, Command]]:
        """Yield the requests that can't be understood, each with what is wrong about it."""
        good = {key: str(value) for key, value in self.fields.items()}
        for key in self.needed:
            yield f"without {key}", self._message({name: value for name, value in good.items() if name != key})
        for key in self.names:
            yield f"with too long a {key}", self._message({**good, key: _TOO_LONG})
        for key, bits in self.numbers.items():
            for value in ("x", str(1 << bits - 1), str((-1 << bits - 1) - 1)):
                yield f"with {key} = {value}", self._message({**good, key: value})
        for key, value in self.values:
            yield f"with {key} = {value[:20]}", self._message({**good, key: value})
        for what, body in self.bodies.items():
            yield f"with {what}", self._message(good, body)

    def _message(self, fields: Mapping[str, str], body: bytes | None = None) -> Command:
        return Command(code=self.request, fields=fields, body=self.body if body is None else body)

    def question(self) -> Question:
        """Return a question that asks all of them, one after the other. It names the first that is taken otherwise than
        documented."""
        refusal = REFUSAL[self.role] if self.refusal is None else self.refusal
        expected = f"code {int(refusal)} to each"

        async def converse(talk: Talk) -> str:
            for what, message in self.wrong():
                answer = await one_request(talk, message)
                if answer.code != refusal:
                    must_be_final(answer)
                    return f"code {answer.code} to one {what}"
            return expected

        return Question(self.role, expected, converse)


def _objects(**wrong: object) -> dict[str, bytes]:
    """Return bodies that are no JSON objects, and objects that have wrong members."""
    return {**_NO_OBJECTS, **{what.replace("_", " "): json.dumps(value).encode() for what, value in wrong.items()}}


def _of_writers(topic: str) -> list[Form]:
    queue: dict[str, object] = {"topic": topic, "queueId": 0}
    send = {**queue, "bornTimestamp": 0, "flag": 0, "sysFlag": 0}
    short = {"b": topic, "e": 0, "f": 0, "g": 0, "h": 0}
    return [
        Form(
            role=MASTER,
            request=Request.SEND_MESSAGE,
            fields=send,
            names=("topic",),
            numbers={"queueId": 64, "bornTimestamp": 64, "flag": 32, "sysFlag": 32, "reconsumeTimes": 32},
            needed=tuple(send),
            body=b"x",
        ),
        Form(
            role=MASTER,
            request=Request.SEND_MESSAGE_V2,
            fields=short,
            names=("b",),
            numbers={"e": 64, "g": 64, "h": 32, "f": 32, "j": 32},
            needed=tuple(short),
            body=b"x",
        ),
        Form(
            role=MASTER,
            request=Request.UPDATE_CONSUMER_OFFSET,
            fields={**queue, "consumerGroup": "limits", "commitOffset": 0},
            names=("topic", "consumerGroup"),
            numbers={"queueId": 64, "commitOffset": 64},
            needed=("topic", "queueId", "consumerGroup", "commitOffset"),
            values=(("commitOffset", "-1"),),
        ),
        Form(
            role=MASTER,
            request=Request.UPDATE_AND_CREATE_TOPIC,
            fields={"topic": "limits-none", "writeQueueNums": 1},
            names=("topic",),
            numbers={"writeQueueNums": 64},
            needed=("topic", "writeQueueNums"),
            values=(("writeQueueNums", "0"), ("writeQueueNums", "-1")),
        ),
    ]


def _of_readers(topic: str) -> list[Form]:
    queue: dict[str, object] = {"topic": topic, "queueId": 0}
    of_queue = {"names": ("topic",), "numbers": {"queueId": 64}, "needed": ("topic", "queueId")}
    pull = {**queue, "queueOffset": 0, "maxMsgNums": 1, "sysFlag": 0}
    return [
        Form(
            role=MASTER,
            request=Request.PULL_MESSAGE,
            fields=pull,
            names=("topic",),
            numbers=dict.fromkeys(
                ("queueId", "queueOffset", "maxMsgNums", "sysFlag", "suspendTimeoutMillis", "maxMsgBytes"), 64
            ),
            needed=tuple(pull),
            values=(("maxMsgNums", "0"), ("maxMsgNums", "-1"), ("maxMsgBytes", "0"), ("maxMsgBytes", "-1")),
        ),
        Form(
            role=MASTER,
            request=Request.QUERY_CONSUMER_OFFSET,
            fields={**queue, "consumerGroup": "limits"},
            names=("topic", "consumerGroup"),
            numbers={"queueId": 64},
            needed=("topic", "queueId", "consumerGroup"),
        ),
        Form(role=MASTER, request=Request.GET_MAX_OFFSET, fields=queue, **of_queue),  # type: ignore[arg-type]
        Form(role=MASTER, request=Request.GET_MIN_OFFSET, fields=queue, **of_queue),  # type: ignore[arg-type]
        Form(
            role=MASTER,
            request=Request.SEARCH_OFFSET_BY_TIMESTAMP,
            fields={**queue, "timestamp": 0},
            names=("topic",),
            numbers={"queueId": 64, "timestamp": 64},
            needed=("topic", "queueId", "timestamp"),
        ),
        Form(role=BROKER, request=Request.READ_LOG, numbers={"position": 64}),
    ]


def _of_clients() -> list[Form]:
    client = {"clientID": "limits", "consumerDataSet": [{"groupName": "limits"}]}
    return [
        Form(
            role=BROKER,
            request=Request.GET_CONSUMER_LIST_BY_GROUP,
            fields={"consumerGroup": "limits"},
            names=("consumerGroup",),
            needed=("consumerGroup",),
        ),
        Form(
            role=BROKER,
            request=Request.HEART_BEAT,
            bodies=_objects(
                no_client={"consumerDataSet": []},
                a_client_that_is_a_number={**client, "clientID": 1},
                groups_that_are_no_list={**client, "consumerDataSet": {}},
                a_group_that_is_a_text={**client, "consumerDataSet": ["limits"]},
                a_group_without_a_name={**client, "consumerDataSet": [{}]},
                a_name_that_is_a_number={**client, "consumerDataSet": [{"groupName": 1}]},
            ),
        ),
    ]


def _of_controllers() -> list[Form]:
    named = {"names": ("brokerName",), "needed": ("brokerName",), "fields": {"brokerName": "limits"}}
    heartbeat: dict[str, object] = {"brokerName": "limits", "brokerId": 1}
    lists = {"a list of numbers": b"[1]", "a list of lists": b'[["x"]]', "an object": b'{"a":1}', "no JSON": b"["}
    return [
        Form(role=CONTROLLER, request=Request.CONTROLLER_GET_NEXT_BROKER_ID, **named),  # type: ignore[arg-type]
        Form(role=CONTROLLER, request=Request.CONTROLLER_GET_REPLICA_INFO, **named),  # type: ignore[arg-type]
        Form(role=CONTROLLER, request=Request.CONTROLLER_GET_SYNC_STATE_DATA, bodies=lists),
        Form(
            role=CONTROLLER,
            request=Request.BROKER_HEARTBEAT,
            fields=heartbeat,
            names=("brokerName", "brokerAddr"),
            numbers=dict.fromkeys(("brokerId", "generation", "epoch", "maxOffset"), 64),
            needed=tuple(heartbeat),
            values=(("brokerId", "-1"),),
        ),
    ]


def _of_the_leader() -> list[Form]:
    replica: dict[str, object] = {"brokerName": "limits", "brokerId": 1}
    sets = {
        "no set": {},
        "a set that is no list": {"syncStateSet": 1},
        "a set of texts": {"syncStateSet": ["1"]},
        "a set of lists": {"syncStateSet": [[1]]},
        "a set of fractions": {"syncStateSet": [1.5]},
        "more replicas than a group has": {"syncStateSet": [1] * (MAX_REPLICAS + 1)},
        "an epoch that is a text": {"syncStateSet": [1], "syncStateSetEpoch": "1"},
    }
    return [
        Form(
            role=LEADER,
            request=Request.CONTROLLER_APPLY_BROKER_ID,
            fields={"brokerName": "limits", "appliedBrokerId": 0, "registerCheckCode": "limits;0"},
            names=("brokerName", "clusterName", "registerCheckCode"),
            numbers={"appliedBrokerId": 32},
            needed=("brokerName", "appliedBrokerId", "registerCheckCode"),
        ),
        Form(
            role=LEADER,
            request=Request.CONTROLLER_REGISTER_BROKER,
            fields=replica,
            names=("brokerName", "brokerAddress", "life"),
            numbers={"brokerId": 64, "generation": 64},
            needed=tuple(replica),
            values=(("lives", "n" * (MAX_LIVES_CHARACTERS + 1)),),
        ),
        Form(
            role=LEADER,
            request=Request.CONTROLLER_ELECT_MASTER,
            fields={"brokerName": "limits", "brokerId": 1},
            names=("brokerName",),
            numbers={"brokerId": 64},
            needed=("brokerName",),
        ),
        Form(
            role=LEADER,
            request=Request.CONTROLLER_ALTER_SYNC_STATE_SET,
            fields={"brokerName": "limits", "masterBrokerId": 1, "masterEpoch": 1},
            names=("brokerName",),
            numbers={"masterBrokerId": 64, "masterEpoch": 64},
            needed=("brokerName",),
            body=b'{"syncStateSet":[1],"syncStateSetEpoch":1}',
            bodies={**_NO_OBJECTS, **{what: json.dumps(value).encode() for what, value in sets.items()}},
        ),
        Form(
            role=LEADER,
            request=Request.CLEAN_BROKER_DATA,
            fields={"brokerName": "limits"},
            names=("brokerName",),
            needed=("brokerName",),
            values=(("brokerControllerIdsToClean", "x"), ("brokerControllerIdsToClean", f"1;{1 << 63}")),
        ),
    ]


def _of_members() -> list[Form]:
    return [
        Form(
            role=LEADER,
            request=Request.CONTROLLER_TRANSFER_LEADER,
            fields={"controllerName": "nobody"},
            names=("controllerName",),
            needed=("controllerName",),
        ),
        Form(
            role=LEADER,
            request=Request.CONTROLLER_CHANGE_MEMBERS,
            fields={"controllerName": "nobody", "change": "remove"},
            names=("controllerName", "change"),
            needed=("controllerName", "change"),
        ),
    ]


def _of_name_servers() -> list[Form]:
    place: dict[str, object] = {"brokerAddr": "limits", "brokerName": "limits", "brokerId": 1}

    def wrapped(**members: object) -> dict[str, object]:
        return {"topicConfigSerializeWrapper": members}

    wrong = _objects(
        topics_that_are_no_object={"topicConfigSerializeWrapper": [1]},
        a_version_that_is_no_object=wrapped(dataVersion=[1]),
        an_epoch_that_is_a_text=wrapped(dataVersion={"stateVersion": "1"}),
        a_table_that_is_no_object=wrapped(topicConfigTable=[1]),
        a_topic_that_is_no_object=wrapped(topicConfigTable={"limits": 1}),
        a_topic_with_too_long_a_name=wrapped(topicConfigTable={_TOO_LONG: {}}),
        a_topic_without_a_name=wrapped(topicConfigTable={"": {}}),
        queues_that_are_a_text=wrapped(topicConfigTable={"limits": {"readQueueNums": "1"}}),
    )
    of_broker = {"names": ("brokerAddr", "brokerName"), "numbers": {"brokerId": 64}, "needed": tuple(place)}
    return [
        Form(role=NAMESERVER, request=Request.REGISTER_BROKER, fields=place, bodies=wrong, **of_broker),  # type: ignore[arg-type]
        Form(role=NAMESERVER, request=Request.UNREGISTER_BROKER, fields=place, **of_broker),  # type: ignore[arg-type]
        Form(
            role=NAMESERVER,
            request=Request.GET_ROUTEINFO_BY_TOPIC,
            fields={"topic": "limits"},
            names=("topic",),
            needed=("topic",),
        ),
    ]


def _of_stores() -> list[Form]:
    wrong = ("../x", "/x", "x/", "x//y", ".x", "x/.y", "x y", "x@y", "x" * 201, "x/" * 127 + "xy", "ä")
    keys = tuple(("key", word) for word in wrong)
    prefixes = tuple(("prefix", word) for word in ("x y", "x@y", "x" * 256))
    good: dict[str, object] = {"key": "limits/malformed", "queue": -1, "request": "limits"}
    of_any = {"names": ("request",), "numbers": {"queue": 64}}
    return [
        *(
            Form(role=STORE, request=request, fields=good, needed=("key",), values=keys, **of_any)  # type: ignore[arg-type]
            for request in (Request.STORE_PUT, Request.STORE_GET, Request.STORE_DELETE)
        ),
        Form(
            role=STORE,
            request=Request.STORE_CAS,
            fields={**good, "expected": 0},
            names=("request",),
            numbers={"queue": 64, "expected": 64},
            needed=("key", "expected"),
            values=keys,
            body=b'{"version":1}',
            bodies={
                **_NO_OBJECTS,
                "no version": b"{}",
                "a version that is a text": b'{"version":"1"}',
                "the same version": b'{"version":0}',
                "too much content": b'{"version":1,"a":"' + b"a" * MAX_CONTENT_BYTES + b'"}',
            },
        ),
        Form(role=STORE, request=Request.STORE_LIST, fields={"prefix": "limits"}, values=prefixes, **of_any),  # type: ignore[arg-type]
    ]


def of_metadata_requests() -> list[Form]:
    """Return the requests for nodes with the option ``metadata``."""
    of_entry = {"names": ("kind", "name"), "needed": ("kind", "name"), "refusal": Response.INVALID_PARAMETER}
    entry: dict[str, object] = {"kind": "group", "name": "limits"}
    return [
        Form(
            role=LEADER,
            request=Request.METADATA_PUT,
            fields=entry,
            numbers={"expectedVersion": 64},
            values=(("kind", "nothing"), ("expectedVersion", "-2")),
            body=b'{"retries":1}',
            bodies=_objects(
                no_member={},
                another_member={"retries": 1, "more": 1},
                a_member_that_is_a_text={"retries": "1"},
                another_kind_of_value={"queues": 1},
            ),
            **of_entry,  # type: ignore[arg-type]
        ),
        Form(role=CONTROLLER, request=Request.METADATA_GET, fields=entry, **of_entry),  # type: ignore[arg-type]
        Form(
            role=CONTROLLER,
            request=Request.METADATA_WATCH,
            numbers={"after": 64},
            refusal=Response.INVALID_PARAMETER,
        ),
    ]


def forms(topic: str) -> list[Form]:
    """Return the requests of all nodes, whatever their options are. ``topic``: one that is there."""
    of_brokers = (*_of_writers(topic), *_of_readers(topic), *_of_clients())
    return [*of_brokers, *_of_controllers(), *_of_the_leader(), *_of_members(), *_of_name_servers(), *_of_stores()]


def as_questions(every: Sequence[Form]) -> dict[str, Question]:
    return {f"requests {one.request.name} that can't be understood": one.question() for one in every}


def of_malformed(topic: str) -> dict[str, Question]:
    return as_questions(forms(topic))
