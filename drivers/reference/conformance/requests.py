"""Single requests at the limits of what nodes take, and of what they know."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from chaos.node import Malformed
from drivers.reference.conformance.case import ASKER, Case, Session, asked, code, conversation
from reference.broker.consumer_requests import MAX_PULL_BYTES
from reference.broker.producer_requests import MAX_TOPIC_QUEUES
from reference.broker.records import MAX_TOPIC_BYTES
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import MAX_DEPTH, MAX_NAME_BYTES, read_object
from reference.wire.requests import BROKER, CONTROLLER, LEADER, MASTER, NAMESERVER, STORE

#: A topic that these cases create. Nobody sends to it.
QUIET_TOPIC = "l" * MAX_TOPIC_BYTES
_NOBODY = "nobody-knows-this"
_LONGEST = "n" * MAX_NAME_BYTES
_MOST, _FAR = (1 << 63) - 1, 1 << 40


def of_requests(topic: str) -> dict[str, Case]:
    """Return cases of one request each. ``topic``: one that holds many messages."""
    return {**of_topics(), **of_reads(topic), **of_administrators(), **of_stores(), **of_others(), **of_names(topic)}


def _topic(expected: Response, name: str, queues: int) -> Case:
    fields: dict[str, Any] = {"topic": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
    return asked(MASTER, Request.UPDATE_AND_CREATE_TOPIC, expected, **fields)


def _pull(role: str, topic: str, expected: str | Response, read: Any = code, **more: Any) -> Case:
    fields: dict[str, Any] = {
        "topic": topic,
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 1,
        "sysFlag": 0,
        "consumerGroup": ASKER,
    }
    return asked(role, Request.PULL_MESSAGE, expected, read, **{**fields, **more})


def _commit(topic: str, **more: Any) -> Case:
    fields: dict[str, Any] = {"topic": topic, "queueId": 0, "consumerGroup": ASKER, **more}
    return asked(MASTER, Request.UPDATE_CONSUMER_OFFSET, Response.INVALID_PARAMETER, **fields)


def of_topics() -> dict[str, Case]:
    refused = Response.INVALID_PARAMETER
    return {
        "a topic without queues": _topic(refused, "limits-none", 0),
        "a topic of one queue, with the longest name": _topic(Response.SUCCESS, QUIET_TOPIC, 1),
        "a topic that is there and shall have more queues": conversation(MASTER, _keeps_its_queues),
        "a topic with too long a name": _topic(refused, "l" * (MAX_TOPIC_BYTES + 1), 1),
        "a topic with too many queues": _topic(refused, "limits-many", MAX_TOPIC_QUEUES + 1),
        "a topic with a name of the system's": _topic(refused, "%limits", 1),
    }


async def _keeps_its_queues(session: Session) -> None:
    for queues in (1, 5):
        await session.expect(0, Request.UPDATE_AND_CREATE_TOPIC, topic=QUIET_TOPIC, writeQueueNums=queues)
    await session.expect(0, Request.GET_MAX_OFFSET, topic=QUIET_TOPIC, queueId=0)
    for queue in (1, -1):
        await session.expect(Response.TOPIC_NOT_EXIST, Request.GET_MAX_OFFSET, topic=QUIET_TOPIC, queueId=queue)


def of_reads(topic: str) -> dict[str, Case]:
    """Return cases that read. ``topic``: one that holds many messages."""
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
        "a read of the tier far behind its end": _pull(
            BROKER, topic, "nothing, or to come again", _not_there, queueOffset=_FAR, demandSource="tier", **any_replica
        ),
        "a commit before the beginning": _commit(topic, commitOffset=-1),
        "a commit behind the end": _commit(topic, commitOffset=_FAR),
        "a commit of a group with too long a name": _commit(
            topic, commitOffset=0, consumerGroup="g" * (MAX_NAME_BYTES + 1)
        ),
        "the end of a queue that is not there": asked(
            MASTER, Request.GET_MAX_OFFSET, Response.TOPIC_NOT_EXIST, topic=topic, queueId=1 << 20
        ),
        "an offset of a group that never committed": asked(
            MASTER, Request.QUERY_CONSUMER_OFFSET, Response.QUERY_NOT_FOUND, topic=topic, queueId=0, consumerGroup="nil"
        ),
    }


def of_administrators() -> dict[str, Case]:
    epochs = "epochs without gaps, the newest one without an end"
    return {
        "which epochs a log has": asked(BROKER, Request.GET_BROKER_EPOCH_CACHE, epochs, _of_json(_epochs)),
        "what a replica says of itself": asked(
            BROKER, Request.DESCRIBE, "a set of a master alone", _of_json(_set_of_a_master)
        ),
        "a log from its beginning": asked(BROKER, Request.READ_LOG, Response.SUCCESS, position=-1),
        "a log behind its end": asked(BROKER, Request.READ_LOG, Response.SUCCESS, position=_FAR),
        "a log from nowhere": asked(BROKER, Request.READ_LOG, Response.INVALID_PARAMETER, position="x"),
    }


def of_stores() -> dict[str, Case]:
    version = json.dumps({"version": 8}).encode()
    swap: dict[str, Any] = {"key": "limits/absent", "request": ASKER}
    return {
        "a change of an object that is not there": asked(
            STORE, Request.STORE_CAS, Response.STORE_CONFLICT, body=version, expected=7, **swap
        ),
        "a change to an older version": asked(
            STORE, Request.STORE_CAS, Response.MESSAGE_ILLEGAL, body=version, expected=8, **swap
        ),
        "an object that is not there": asked(STORE, Request.STORE_GET, Response.STORE_ABSENT, **swap),
        "the deletion of what is not there": asked(STORE, Request.STORE_DELETE, Response.STORE_ABSENT, **swap),
        "a key with a strange name": asked(STORE, Request.STORE_GET, Response.MESSAGE_ILLEGAL, key="../x"),
        "a list that goes on behind all keys": asked(
            STORE, Request.STORE_LIST, "keys behind this one", _behind("zzz"), prefix="", after="zzz", request=ASKER
        ),
    }


def of_others() -> dict[str, Case]:
    """Name servers and controllers, and what nobody understands."""
    unknown = {
        f"a request that no {role} knows": asked(role, 4711, Response.REQUEST_CODE_NOT_SUPPORTED)
        for role in (BROKER, CONTROLLER, NAMESERVER, STORE)
    }
    return unknown | {
        "a route of a topic that is not there": asked(
            NAMESERVER, Request.GET_ROUTEINFO_BY_TOPIC, Response.TOPIC_NOT_EXIST, topic=_NOBODY
        ),
        "a route without a topic": asked(NAMESERVER, Request.GET_ROUTEINFO_BY_TOPIC, Response.SYSTEM_ERROR),
        "a group that is not there": asked(
            CONTROLLER,
            Request.CONTROLLER_GET_REPLICA_INFO,
            Response.CONTROLLER_BROKER_METADATA_NOT_EXIST,
            brokerName=_NOBODY,
        ),
        "a group without a name": asked(
            CONTROLLER, Request.CONTROLLER_GET_REPLICA_INFO, Response.CONTROLLER_INVALID_REQUEST
        ),
    }


def of_names(topic: str) -> dict[str, Case]:
    """Return cases with the longest names, the greatest numbers and the deepest bodies that are understood."""
    queue: dict[str, Any] = {"topic": topic, "queueId": 0}
    return {
        "an offset of a group with the longest name": asked(
            MASTER, Request.QUERY_CONSUMER_OFFSET, Response.QUERY_NOT_FOUND, consumerGroup=_LONGEST, **queue
        ),
        "the clients of a group with the longest name": asked(
            BROKER, Request.GET_CONSUMER_LIST_BY_GROUP, Response.SYSTEM_ERROR, consumerGroup=_LONGEST
        ),
        "a route of a topic with the longest name": asked(
            NAMESERVER, Request.GET_ROUTEINFO_BY_TOPIC, Response.TOPIC_NOT_EXIST, topic=_LONGEST
        ),
        "a group with the longest name": asked(
            CONTROLLER,
            Request.CONTROLLER_GET_REPLICA_INFO,
            Response.CONTROLLER_BROKER_METADATA_NOT_EXIST,
            brokerName=_LONGEST,
        ),
        "the next id of a group that is not there": asked(
            CONTROLLER, Request.CONTROLLER_GET_NEXT_BROKER_ID, "1", _field("nextBrokerId"), brokerName=_LONGEST
        ),
        "a read at the greatest offset": _pull(MASTER, topic, Response.PULL_OFFSET_MOVED, queueOffset=_MOST),
        "a lite read at the greatest offset": asked(
            MASTER,
            Request.LITE_PULL_MESSAGE,
            Response.PULL_OFFSET_MOVED,
            **queue,
            queueOffset=_MOST,
            maxMsgNums=1,
            sysFlag=0,
        ),
        "a read of the local log at the smallest offset": _pull(
            MASTER, topic, Response.PULL_OFFSET_MOVED, queueOffset=-_MOST - 1, demandSource="local"
        ),
        "the end of the queue with the greatest number": asked(
            MASTER, Request.GET_MAX_OFFSET, Response.TOPIC_NOT_EXIST, topic=topic, queueId=_MOST
        ),
        "a client that tells the greatest number": _client(_MOST),
        "a client that tells the smallest number": _client(-_MOST - 1),
        "a client that tells lists as deep as may be": _client(_nested(MAX_DEPTH - 1)),
        "the transfer of the lead to nobody": asked(
            LEADER, Request.CONTROLLER_TRANSFER_LEADER, Response.CONTROLLER_INVALID_REQUEST, controllerName=_NOBODY
        ),
        "the removal of a controller that is none": asked(
            LEADER, Request.CONTROLLER_CHANGE_MEMBERS, Response.SUCCESS, controllerName=_NOBODY, change="remove"
        ),
        "another change of the controllers than there are": asked(
            LEADER,
            Request.CONTROLLER_CHANGE_MEMBERS,
            Response.CONTROLLER_INVALID_REQUEST,
            controllerName=_NOBODY,
            change="rename",
        ),
        "a role from somebody who is no controller": asked(
            BROKER, Request.NOTIFY_BROKER_ROLE_CHANGED, Response.NO_PERMISSION, brokerName=_NOBODY
        ),
    }


def _nested(depth: int) -> object:
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value


def _client(value: object) -> Case:
    body = json.dumps({"clientID": ASKER, "told": value}).encode()
    return asked(BROKER, Request.HEART_BEAT, Response.SUCCESS, body=body)


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
