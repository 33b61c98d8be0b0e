"""The requests that clients and administrators may send: to whom, with which header fields, and with what in the body.

Nodes read each field with :mod:`reference.wire.fields`; a test holds them to these tables. What is in none of them is
passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reference.wire.codes import Request
from reference.wire.fields import MAX_NAME_BYTES

#: Whom a request is for: nodes by their roles, as the driver starts them; MASTER is the broker that takes writes,
#: LEADER the controller that leads.
BROKER, CONTROLLER, NAMESERVER, STORE = "broker", "controller", "nameserver", "objectstore"
MASTER, LEADER = "master", "leader of the controllers"

#: How many replicas a group has at most, and how long the words of a replica's incarnations are.
MAX_REPLICAS, MAX_LIVES_CHARACTERS = 256, 4096
#: The largest object that may be compared and set: its content stands in the trace, too.
MAX_CONTENT_BYTES = 4 << 20
#: Keys of objects, and how they may begin. A key is a path of files on a disk: its parts are names that any file system
#: takes, also with an ending of the store's.
KEY = re.compile(r"(?=.{1,255}\Z)[A-Za-z0-9][A-Za-z0-9._-]{0,199}(?:/[A-Za-z0-9_-][A-Za-z0-9._-]{0,199})*")
KEY_PREFIX = re.compile(r"[A-Za-z0-9._/-]{0,255}")


# Header fields: each is a text on the wire


@dataclass(frozen=True, slots=True)
class Text:
    """A text of so many bytes at most, a name mostly."""

    needed: bool = True
    most: int = MAX_NAME_BYTES


@dataclass(frozen=True, slots=True)
class Topic(Text):
    """The name of a topic that is there."""


@dataclass(frozen=True, slots=True)
class Word(Text):
    """One of these texts."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text that this expression matches as a whole, such as ``example``."""

    expression: re.Pattern[str]
    needed: bool = True
    example: str = "limits"


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number of so many bits, its sign included, from ``least`` to ``most``."""

    needed: bool = True
    bits: int = 64
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Wholes:
    """Whole numbers of 64 bits, with ``;`` between them; none is needed."""

    needed: bool = False


@dataclass(frozen=True, slots=True)
class Flag:
    """``true``, or anything else."""

    needed: bool = False


@dataclass(frozen=True, slots=True)
class Free:
    """Any text."""

    needed: bool = False


@dataclass(frozen=True, slots=True)
class Json:
    """JSON of this shape, as a text."""

    shape: Shape
    needed: bool = True


Field = Text | Pattern | Whole | Wholes | Flag | Free | Json

NAME, TOPIC, I64, I32, FLAG, FREE = Text(), Topic(), Whole(), Whole(bits=32), Flag(), Free()
MAYBE_NAME, MAYBE_I64, MAYBE_I32 = Text(needed=False), Whole(needed=False), Whole(needed=False, bits=32)


# Bodies: JSON


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of values of one shape, so many at most."""

    shape: Shape
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """An object whose members are called by names, all of one shape."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class Object:
    """An object with these members; those in ``optional`` may be missing. ``closed``: it has no other ones."""

    members: Mapping[str, Shape]
    optional: frozenset[str] = frozenset()
    closed: bool = False


#: What a JSON value is like: of this type, or of such a shape.
Shape = type[str] | type[int] | Listed | Table | Object


def _optional(**members: Any) -> Object:
    """Return an object all of whose members may be missing."""
    return Object(members, frozenset(members))


@dataclass(frozen=True, slots=True)
class Form:
    """A request. ``body``: its JSON, None for a request whose body is not read as JSON; ``may_be_empty``: it may come
    without one. ``most_bytes``: so long may the body be, where it has a limit of its own."""

    to: str
    fields: Mapping[str, Field] = field(default_factory=dict)
    body: Shape | None = None
    may_be_empty: bool = True
    most_bytes: int | None = None


_QUEUE: Mapping[str, Field] = {"topic": TOPIC, "queueId": I64}
_QUEUE_OF_ANY: Mapping[str, Field] = {**_QUEUE, "anyReplica": FLAG}
_SEND: Mapping[str, Field] = {
    **_QUEUE,
    "bornTimestamp": I64,
    "flag": I32,
    "sysFlag": I32,
    "reconsumeTimes": MAYBE_I32,
    "batch": FLAG,
    "properties": FREE,
}
#: Names of fields in the second request that sends, by their names in the first one.
SHORT_NAMES: Mapping[str, str] = {
    "producerGroup": "a",
    "topic": "b",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "batch": "m",
}
_PULL: Mapping[str, Field] = {
    **_QUEUE_OF_ANY,
    "queueOffset": I64,
    "maxMsgNums": Whole(least=1),
    "sysFlag": I64,
    "suspendTimeoutMillis": MAYBE_I64,
    "maxMsgBytes": Whole(needed=False, least=1),
    "demandSource": FREE,
    "consumerGroup": FREE,
    "subscription": FREE,
    "expressionType": FREE,
}
_HANDED: Mapping[str, Field] = {"consumerGroup": NAME, "offset": I64, "extraInfo": NAME}
_LOCKS = Object(
    {"consumerGroup": str, "clientId": str, "mqSet": Listed(Object({"topic": str, "queueId": int}))},
    frozenset({"mqSet"}),
)
_SUBSCRIPTION = Object(
    {"topic": str, "subString": str, "expressionType": str, "subVersion": int},
    frozenset({"subString", "expressionType", "subVersion"}),
)
_GROUP: Mapping[str, Field] = {"brokerName": NAME}
_PLACE: Mapping[str, Field] = {"brokerAddr": NAME, "brokerName": NAME, "brokerId": I64}
_OBJECT: Mapping[str, Field] = {"key": Pattern(KEY), "request": MAYBE_NAME, "queue": MAYBE_I64}
_ENTRY: Mapping[str, Field] = {"kind": NAME, "name": NAME}

FORMS: Mapping[Request, Form] = {
    # clients → broker
    Request.SEND_MESSAGE: Form(MASTER, _SEND),
    Request.SEND_MESSAGE_V2: Form(MASTER, {SHORT_NAMES[name]: kind for name, kind in _SEND.items()}),
    Request.SEND_BATCH_MESSAGE: Form(MASTER, {SHORT_NAMES[name]: kind for name, kind in _SEND.items()}),
    Request.CONSUMER_SEND_MSG_BACK: Form(
        MASTER,
        {
            "group": NAME,
            "offset": I64,
            "originTopic": MAYBE_NAME,
            "delayLevel": MAYBE_I32,
            "maxReconsumeTimes": MAYBE_I32,
        },
    ),
    Request.END_TRANSACTION: Form(
        MASTER, {"producerGroup": NAME, "commitLogOffset": I64, "tranStateTableOffset": I64, "commitOrRollback": I32}
    ),
    Request.QUERY_ASSIGNMENT: Form(
        MASTER,
        body=Object(
            dict.fromkeys(("topic", "consumerGroup", "clientId", "strategyName", "messageModel"), str),
            frozenset({"strategyName", "messageModel"}),
        ),
        may_be_empty=False,
    ),
    Request.POP_MESSAGE: Form(
        MASTER,
        {
            "consumerGroup": NAME,
            "topic": TOPIC,
            "queueId": MAYBE_I32,
            "order": FLAG,
            "pollTime": MAYBE_I64,
            "maxMsgNums": Whole(least=1, most=32),
            "invisibleTime": Whole(least=1_000, most=300_000),
        },
    ),
    Request.ACK_MESSAGE: Form(MASTER, _HANDED),
    Request.CHANGE_MESSAGE_INVISIBLETIME: Form(MASTER, {**_HANDED, "invisibleTime": Whole(least=1_000, most=300_000)}),
    Request.LOCK_BATCH_MQ: Form(MASTER, body=_LOCKS, may_be_empty=False),
    Request.UNLOCK_BATCH_MQ: Form(MASTER, body=_LOCKS, may_be_empty=False),
    Request.UPDATE_CONSUMER_OFFSET: Form(MASTER, {**_QUEUE, "consumerGroup": NAME, "commitOffset": Whole(least=0)}),
    Request.UPDATE_AND_CREATE_TOPIC: Form(MASTER, {"topic": NAME, "writeQueueNums": Whole(least=1)}),
    Request.DELETE_TOPIC_IN_BROKER: Form(MASTER, {"topic": NAME}),
    Request.INVOKE_BROKER_TO_RESET_OFFSET: Form(
        MASTER,
        {
            "topic": TOPIC,
            "group": NAME,
            "timestamp": I64,
            "isForce": FLAG,
            "queueId": MAYBE_I32,
            "offset": MAYBE_I64,
        },
    ),
    Request.PULL_MESSAGE: Form(MASTER, _PULL),
    Request.LITE_PULL_MESSAGE: Form(MASTER, _PULL),
    Request.QUERY_MESSAGE: Form(
        MASTER,
        {
            "topic": NAME,
            "key": NAME,
            **dict.fromkeys(("maxNum", "beginTimestamp", "endTimestamp"), I64),
            "indexType": Word(needed=False, most=1, words=("K", "U")),
            "_UNIQUE_KEY_QUERY": FLAG,
        },
    ),
    Request.VIEW_MESSAGE_BY_ID: Form(MASTER, {"offset": I64}),
    Request.QUERY_CONSUMER_OFFSET: Form(MASTER, {**_QUEUE_OF_ANY, "consumerGroup": NAME}),
    Request.GET_MAX_OFFSET: Form(MASTER, _QUEUE_OF_ANY),
    Request.GET_MIN_OFFSET: Form(MASTER, _QUEUE_OF_ANY),
    Request.SEARCH_OFFSET_BY_TIMESTAMP: Form(MASTER, {**_QUEUE_OF_ANY, "timestamp": I64}),
    Request.GET_CONSUMER_LIST_BY_GROUP: Form(BROKER, {"consumerGroup": NAME}),
    Request.UNREGISTER_CLIENT: Form(BROKER, {"consumerGroup": MAYBE_NAME, "producerGroup": MAYBE_NAME}),
    Request.HEART_BEAT: Form(
        BROKER,
        body=Object(
            {
                "clientID": str,
                "consumerDataSet": Listed(
                    Object(
                        {
                            "groupName": str,
                            **dict.fromkeys(("consumeType", "messageModel", "consumeFromWhere"), str),
                            "subscriptionDataSet": Listed(_SUBSCRIPTION),
                        },
                        frozenset({"consumeType", "messageModel", "consumeFromWhere", "subscriptionDataSet"}),
                    )
                ),
                "producerDataSet": Listed(Object({"groupName": str})),
            },
            frozenset({"consumerDataSet", "producerDataSet"}),
        ),
        may_be_empty=False,
    ),
    Request.CHECK_CLIENT_CONFIG: Form(BROKER, body=Object({"subscriptionData": _SUBSCRIPTION}), may_be_empty=False),
    # administrators → broker
    Request.GET_TOPIC_STATS: Form(MASTER, {"topic": TOPIC}),
    Request.GET_TOPIC_CONFIG: Form(MASTER, {"topic": TOPIC}),
    Request.QUERY_GROUPS_OF_TOPIC: Form(MASTER, {"topic": TOPIC}),
    Request.QUERY_CONSUME_QUEUE: Form(MASTER, {**_QUEUE, "index": I64, "count": I32}),
    Request.GET_CONSUME_STATS: Form(MASTER, {"consumerGroup": NAME, "topic": MAYBE_NAME}),
    Request.QUERY_TOPICS_OF_GROUP: Form(MASTER, {"group": NAME}),
    Request.GET_SUBSCRIPTION_GROUP: Form(MASTER, {"group": NAME}),
    Request.QUERY_SUBSCRIPTION_OF_GROUP: Form(BROKER, {"group": NAME, "topic": NAME}),
    Request.GET_CONSUMER_CONNECTIONS: Form(BROKER, {"consumerGroup": NAME}),
    Request.GET_PRODUCER_CONNECTIONS: Form(BROKER, {"producerGroup": NAME}),
    # harness → broker
    Request.READ_LOG: Form(BROKER, {"position": MAYBE_I64}),
    # brokers, administrators → controller
    Request.CONTROLLER_GET_NEXT_BROKER_ID: Form(CONTROLLER, {**_GROUP, "clusterName": FREE}),
    Request.CONTROLLER_GET_REPLICA_INFO: Form(CONTROLLER, _GROUP),
    Request.CONTROLLER_GET_SYNC_STATE_DATA: Form(CONTROLLER, body=Listed(str)),
    Request.BROKER_HEARTBEAT: Form(
        CONTROLLER,
        {
            **_GROUP,
            "brokerId": Whole(least=0),
            "brokerAddr": MAYBE_NAME,
            **dict.fromkeys(("generation", "epoch", "maxOffset"), MAYBE_I64),
            "passOn": FLAG,
        },
    ),
    Request.CONTROLLER_APPLY_BROKER_ID: Form(
        LEADER, {**_GROUP, "clusterName": MAYBE_NAME, "appliedBrokerId": I32, "registerCheckCode": NAME}
    ),
    Request.CONTROLLER_REGISTER_BROKER: Form(
        LEADER,
        {
            **_GROUP,
            "brokerId": I64,
            "brokerAddress": MAYBE_NAME,
            "generation": MAYBE_I64,
            "life": MAYBE_NAME,
            "lives": Text(needed=False, most=MAX_LIVES_CHARACTERS),
            "clean": FLAG,
            "clusterName": FREE,
        },
    ),
    Request.CONTROLLER_ELECT_MASTER: Form(
        LEADER, {**_GROUP, "brokerId": MAYBE_I64, "designateElect": FLAG, "forceElect": FLAG}
    ),
    Request.CONTROLLER_ALTER_SYNC_STATE_SET: Form(
        LEADER,
        {**_GROUP, "masterBrokerId": MAYBE_I64, "masterEpoch": MAYBE_I64},
        Object({"syncStateSet": Listed(int, MAX_REPLICAS), "syncStateSetEpoch": int}, frozenset({"syncStateSetEpoch"})),
        may_be_empty=False,
    ),
    Request.CLEAN_BROKER_DATA: Form(
        LEADER, {**_GROUP, "brokerControllerIdsToClean": Wholes(), "isCleanLivingBroker": FLAG}
    ),
    Request.CONTROLLER_TRANSFER_LEADER: Form(LEADER, {"controllerName": NAME}),
    Request.CONTROLLER_CHANGE_MEMBERS: Form(LEADER, {"controllerName": NAME, "change": Word(words=("add", "remove"))}),
    # brokers, clients → name server
    Request.REGISTER_BROKER: Form(
        NAMESERVER,
        {**_PLACE, "clusterName": MAYBE_NAME},
        _optional(
            topicConfigSerializeWrapper=_optional(
                dataVersion=_optional(stateVersion=int),
                topicConfigTable=Table(_optional(perm=int, readQueueNums=int, writeQueueNums=int, topicSysFlag=int)),
            )
        ),
    ),
    Request.UNREGISTER_BROKER: Form(NAMESERVER, _PLACE),
    Request.DELETE_TOPIC_IN_NAMESERVER: Form(NAMESERVER, {"topic": NAME}),
    Request.WIPE_WRITE_PERM: Form(NAMESERVER, _GROUP),
    Request.ADD_WRITE_PERM: Form(NAMESERVER, _GROUP),
    Request.GET_ROUTEINFO_BY_TOPIC: Form(NAMESERVER, {"topic": NAME}),
    # brokers, harness → object store
    Request.STORE_PUT: Form(STORE, _OBJECT),
    Request.STORE_GET: Form(STORE, _OBJECT),
    Request.STORE_DELETE: Form(STORE, _OBJECT),
    Request.STORE_CAS: Form(
        STORE, {**_OBJECT, "expected": I64}, Object({"version": int}), may_be_empty=False, most_bytes=MAX_CONTENT_BYTES
    ),
    Request.STORE_LIST: Form(
        STORE, {"prefix": Pattern(KEY_PREFIX, needed=False), "request": MAYBE_NAME, "queue": MAYBE_I64, "after": FREE}
    ),
}

#: Those that only nodes with the option ``metadata`` take.
METADATA_FORMS: Mapping[Request, Form] = {
    Request.METADATA_PUT: Form(
        LEADER,
        {"kind": Word(words=("group",)), "name": NAME, "expectedVersion": Whole(needed=False, least=-1)},
        Object({"retries": int}, closed=True),
    ),
    Request.METADATA_GET: Form(CONTROLLER, _ENTRY),
    Request.METADATA_WATCH: Form(CONTROLLER, {"after": MAYBE_I64}),
}
