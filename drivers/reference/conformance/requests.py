"""Single requests at the limits of what nodes take, and of what they know."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from chaos.node import Malformed
from drivers.reference.conformance.case import ASKER, Case, Session, asked, code, conversation
from reference.broker.producer_requests import MAX_TOPIC_QUEUES
from reference.broker.pulls import MAX_PULL_BYTES
from reference.broker.records import MAX_TOPIC_BYTES
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import MAX_DEPTH, MAX_NAME_BYTES, read_object
from reference.wire.requests import BROKER, CONTROLLER, MASTER, NAMESERVER, STORE

#: A topic that these cases create. Nobody sends to it.
QUIET_TOPIC = "l" * MAX_TOPIC_BYTES
_NOBODY = "nobody-knows-this"
#: A topic that these cases make and delete.
_DELETED_TOPIC = "limits-deleted"
_LONGEST = "n" * MAX_NAME_BYTES
_MOST, _FAR = (1 << 63) - 1, 1 << 40


def of_requests(topic: str) -> dict[str, Case]:
    """Return cases of one request each. ``topic``: one that holds many messages."""
    return {**of_topics(), **of_reads(topic), **of_administrators(), **of_stores(), **of_others(), **of_names(topic)}


def _pull(topic: str, expected: str | Response, read: Any = code, **fields: Any) -> Case:
    return asked(Request.PULL_MESSAGE, expected, read, topic=topic, **fields)


def of_topics() -> dict[str, Case]:
    def topic(expected: Response, name: str, queues: int) -> Case:
        return asked(Request.UPDATE_AND_CREATE_TOPIC, expected, topic=name, writeQueueNums=queues)

    refused = Response.INVALID_PARAMETER
    return {
        "a topic without queues": topic(refused, "limits-none", 0),
        "a topic of one queue, with the longest name": topic(Response.SUCCESS, QUIET_TOPIC, 1),
        "a topic that is there and shall have more queues": conversation(MASTER, _keeps_its_queues),
        "a topic with too long a name": topic(refused, "l" * (MAX_TOPIC_BYTES + 1), 1),
        "a topic with too many queues": topic(refused, "limits-many", MAX_TOPIC_QUEUES + 1),
        "a topic with a name of the system's": topic(refused, "%limits", 1),
        "a topic that is deleted, and made again": conversation(MASTER, _is_deleted),
        "a deletion of a topic that is not there": asked(
            Request.DELETE_TOPIC_IN_BROKER, Response.SUCCESS, topic=_NOBODY
        ),
        "a name server that forgets a topic that it does not know": asked(
            Request.DELETE_TOPIC_IN_NAMESERVER, Response.SUCCESS, topic=_NOBODY
        ),
    }


async def _is_deleted(session: Session) -> None:
    for queues in (2, 1):
        await session.expect(0, Request.UPDATE_AND_CREATE_TOPIC, topic=_DELETED_TOPIC, writeQueueNums=queues)
        await session.expect(0, Request.GET_MAX_OFFSET, topic=_DELETED_TOPIC, queueId=queues - 1)
        await session.expect(0, Request.DELETE_TOPIC_IN_BROKER, topic=_DELETED_TOPIC)
        await session.expect(Response.TOPIC_NOT_EXIST, Request.GET_MAX_OFFSET, topic=_DELETED_TOPIC, queueId=0)


async def _keeps_its_queues(session: Session) -> None:
    for queues in (1, 5):
        await session.expect(0, Request.UPDATE_AND_CREATE_TOPIC, topic=QUIET_TOPIC, writeQueueNums=queues)
    await session.expect(0, Request.GET_MAX_OFFSET, topic=QUIET_TOPIC, queueId=0)
    for queue in (1, -1):
        await session.expect(Response.TOPIC_NOT_EXIST, Request.GET_MAX_OFFSET, topic=QUIET_TOPIC, queueId=queue)


def of_reads(topic: str) -> dict[str, Case]:
    """Return cases that read. ``topic``: one that holds many messages."""
    refused = Response.INVALID_PARAMETER
    every: dict[str, Any] = {"maxMsgNums": 1 << 30, "maxMsgBytes": 1 << 30}
    behind: dict[str, Any] = {"role": BROKER, "queueOffset": _FAR, "anyReplica": "true"}
    moved, nothing = "another offset, or to come again", "nothing, or to come again"

    def commit(**fields: Any) -> Case:
        return asked(Request.UPDATE_CONSUMER_OFFSET, refused, topic=topic, **fields)

    return {
        "a read of no messages": _pull(topic, refused, maxMsgNums=0),
        "a read of no bytes": _pull(topic, refused, maxMsgBytes=0),
        "a read of all that there is": _pull(topic, f"at most {MAX_PULL_BYTES} bytes", _in_bounds, **every),
        "a read far behind the end": _pull(topic, moved, _behind_the_end, **behind),
        "a read of the tier far behind its end": _pull(topic, nothing, _not_there, demandSource="tier", **behind),
        "a commit before the beginning": commit(commitOffset=-1),
        "a commit behind the end": commit(commitOffset=_FAR),
        "a commit of a group with too long a name": commit(consumerGroup="g" * (MAX_NAME_BYTES + 1)),
        "the end of a queue that is not there": asked(
            Request.GET_MAX_OFFSET, Response.TOPIC_NOT_EXIST, topic=topic, queueId=1 << 20
        ),
        "an offset of a group that never committed": asked(
            Request.QUERY_CONSUMER_OFFSET, Response.QUERY_NOT_FOUND, topic=topic, consumerGroup="nil"
        ),
    }


def of_administrators() -> dict[str, Case]:
    epochs, alone = "epochs without gaps, the newest one without an end", "a set of a master alone"
    fixed = {
        f"a change of the options of a {role}": asked(code, Response.NO_PERMISSION, role=role, body=b"a=b\n")
        for role, code in (
            (BROKER, Request.UPDATE_BROKER_CONFIG),
            (CONTROLLER, Request.UPDATE_CONTROLLER_CONFIG),
            (NAMESERVER, Request.UPDATE_NAMESERVER_CONFIG),
        )
    }
    unknown = {
        f"{what} of a topic that is not there": asked(code, Response.TOPIC_NOT_EXIST, topic=_NOBODY)
        for what, code in (
            ("the bounds", Request.GET_TOPIC_STATS),
            ("the queues", Request.GET_TOPIC_CONFIG),
            ("the readers", Request.QUERY_GROUPS_OF_TOPIC),
            ("the reading", Request.GET_CONSUME_STATS),
        )
    }
    return {
        **fixed,
        **unknown,
        "the consumers of a group without members": asked(
            Request.GET_CONSUMER_CONNECTIONS, Response.CONSUMER_NOT_ONLINE, consumerGroup=_NOBODY
        ),
        "a group that no client has named": asked(
            Request.GET_SUBSCRIPTION_GROUP, Response.SUBSCRIPTION_GROUP_NOT_EXIST, group=_NOBODY
        ),
        "which epochs a log has": asked(Request.GET_BROKER_EPOCH_CACHE, epochs, _of_json(_epochs), role=BROKER),
        "what a replica says of itself": asked(Request.DESCRIBE, alone, _of_json(_set_of_a_master), role=BROKER),
        "a log from its beginning": asked(Request.READ_LOG, Response.SUCCESS, position=-1),
        "a log behind its end": asked(Request.READ_LOG, Response.SUCCESS, position=_FAR),
        "a log from nowhere": asked(Request.READ_LOG, Response.INVALID_PARAMETER, position="x"),
    }


def of_stores() -> dict[str, Case]:
    absent: dict[str, Any] = {"key": "limits/absent", "request": ASKER}

    def swap(expected: Response, version: int) -> Case:
        return asked(Request.STORE_CAS, expected, body=b'{"version": 8}', expected=version, **absent)

    return {
        "a change of an object that is not there": swap(Response.STORE_CONFLICT, 7),
        "a change to an older version": swap(Response.MESSAGE_ILLEGAL, 8),
        "an object that is not there": asked(Request.STORE_GET, Response.STORE_ABSENT, **absent),
        "the deletion of what is not there": asked(Request.STORE_DELETE, Response.STORE_ABSENT, **absent),
        "a key with a strange name": asked(Request.STORE_GET, Response.MESSAGE_ILLEGAL, key="../x"),
        "a list that goes on behind all keys": asked(
            Request.STORE_LIST, "keys behind this one", _behind("zzz"), prefix="", after="zzz", request=ASKER
        ),
    }


def of_others() -> dict[str, Case]:
    """Name servers and controllers, and what nobody understands."""
    unknown = {
        f"a request that no {role} knows": asked(4711, Response.REQUEST_CODE_NOT_SUPPORTED, role=role)
        for role in (BROKER, CONTROLLER, NAMESERVER, STORE)
    }
    route, group = Request.GET_ROUTEINFO_BY_TOPIC, Request.CONTROLLER_GET_REPLICA_INFO
    return unknown | {
        "a route of a topic that is not there": asked(route, Response.TOPIC_NOT_EXIST, topic=_NOBODY),
        "a route without a topic": asked(route, Response.SYSTEM_ERROR, topic=None),
        "a group that is not there": asked(group, Response.CONTROLLER_BROKER_METADATA_NOT_EXIST, brokerName=_NOBODY),
        "a group without a name": asked(group, Response.CONTROLLER_INVALID_REQUEST, brokerName=None),
    }


def of_names(topic: str) -> dict[str, Case]:
    """Return cases with the longest names, the greatest numbers and the deepest bodies that are understood."""
    moved, refused = Response.PULL_OFFSET_MOVED, Response.CONTROLLER_INVALID_REQUEST
    change = Request.CONTROLLER_CHANGE_MEMBERS
    return {
        "an offset of a group with the longest name": asked(
            Request.QUERY_CONSUMER_OFFSET, Response.QUERY_NOT_FOUND, topic=topic, consumerGroup=_LONGEST
        ),
        "the clients of a group with the longest name": asked(
            Request.GET_CONSUMER_LIST_BY_GROUP, Response.SYSTEM_ERROR, consumerGroup=_LONGEST
        ),
        "a route of a topic with the longest name": asked(
            Request.GET_ROUTEINFO_BY_TOPIC, Response.TOPIC_NOT_EXIST, topic=_LONGEST
        ),
        "a group with the longest name": asked(
            Request.CONTROLLER_GET_REPLICA_INFO,
            Response.CONTROLLER_BROKER_METADATA_NOT_EXIST,
            brokerName=_LONGEST,
        ),
        "the next id of a group that is not there": asked(
            Request.CONTROLLER_GET_NEXT_BROKER_ID, "1", _field("nextBrokerId"), brokerName=_LONGEST
        ),
        "a read at the greatest offset": _pull(topic, moved, queueOffset=_MOST),
        "a lite read at the greatest offset": asked(Request.LITE_PULL_MESSAGE, moved, topic=topic, queueOffset=_MOST),
        "a read of the local log at the smallest offset": _pull(
            topic, moved, queueOffset=-_MOST - 1, demandSource="local"
        ),
        "the end of the queue with the greatest number": asked(
            Request.GET_MAX_OFFSET, Response.TOPIC_NOT_EXIST, topic=topic, queueId=_MOST
        ),
        "a client that names the greatest number": _client(_MOST),
        "a client that names the smallest number": _client(-_MOST - 1),
        "a client that names lists as deep as may be": _client(_nested(MAX_DEPTH - 1)),
        "the transfer of the lead to nobody": asked(
            Request.CONTROLLER_TRANSFER_LEADER, refused, controllerName=_NOBODY
        ),
        "the removal of a controller that is none": asked(
            change, Response.SUCCESS, controllerName=_NOBODY, change="remove"
        ),
        "another change of the controllers than there are": asked(
            change, refused, controllerName=_NOBODY, change="rename"
        ),
        "a role from somebody who is no controller": asked(
            Request.NOTIFY_BROKER_ROLE_CHANGED, Response.NO_PERMISSION, role=BROKER, brokerName=_NOBODY
        ),
    }


def _nested(depth: int) -> object:
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value


def _client(value: object) -> Case:
    body = json.dumps({"clientID": ASKER, "told": value}).encode()
    return asked(Request.HEART_BEAT, Response.SUCCESS, body=body)


def _field(name: str) -> Callable[[Command], str]:
    return lambda answer: answer.fields.get(name, "") if answer.code == Response.SUCCESS else code(answer)


def _in_bounds(answer: Command) -> str:
    return f"at most {MAX_PULL_BYTES} bytes" if len(answer.body) <= MAX_PULL_BYTES else f"{len(answer.body)} bytes"


def _behind_the_end(answer: Command) -> str:
    able = (Response.PULL_OFFSET_MOVED, Response.PULL_RETRY_IMMEDIATELY)
    return "another offset, or to come again" if answer.code in able else code(answer)


def _not_there(answer: Command) -> str:
    able = (Response.PULL_NOT_FOUND, Response.PULL_RETRY_IMMEDIATELY)
    return "nothing, or to come again" if answer.code in able else code(answer)


def _of_json(read: Callable[[dict[str, Any]], str]) -> Callable[[Command], str]:
    """Return a function that says what a body says, read as strictly as nodes read: numbers fit into 64 bits."""

    def read_body(answer: Command) -> str:
        if answer.code != Response.SUCCESS:
            return code(answer)
        try:
            return read(read_object(answer.body))
        except (Malformed, KeyError, TypeError, ValueError) as error:
            return f"a body that can't be read: {error}"[:200]

    return read_body


def _set_of_a_master(body: dict[str, Any]) -> str:
    is_master, has_set = body["role"] == "master", bool(body["set"]) or body["set_epoch"] >= 0
    return "a set of a master alone" if is_master or not has_set else f"a {body['role']} with a set"


def _epochs(body: dict[str, Any]) -> str:
    known = body["epochList"]
    gaps = any(one["endOffset"] != after["startOffset"] for one, after in pairwise(known))
    open_end = not known or known[-1]["endOffset"] == _MOST
    return "epochs without gaps, the newest one without an end" if open_end and not gaps else f"epochs {known}"[:200]


def _behind(key: str) -> Callable[[Command], str]:
    def which_keys(answer: Command) -> str:
        if answer.code != Response.SUCCESS:
            return code(answer)
        return "keys behind this one" if all(one > key for one, _ in json.loads(answer.body)) else "keys before it"

    return which_keys
