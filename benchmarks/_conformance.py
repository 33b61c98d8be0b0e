"""What only the reference system can be asked, and who is right where RocketMQ 5.5.0 answers otherwise.

Classes and methods are those of RocketMQ 5.5.0's own sources; where nothing else describes its protocol, they do.
"""

from __future__ import annotations

from collections.abc import Mapping

_LOGS = "`READ_LOG` is a request of the reference system's own"
_DESCRIBE = "`DESCRIBE` is a request of the reference system's own"
_BEGINNING = "the field `minOffset` of an answer to `GET_MAX_OFFSET` is the reference system's own"
#: Cases for brokers and name servers that need what RocketMQ does not have, and what that is.
OUR_OWN: Mapping[str, str] = {
    "what a replica says of itself": _DESCRIBE,
    "a log from its beginning": _LOGS,
    "a log behind its end": _LOGS,
    "a log from nowhere": _LOGS,
    "a log record by record": _LOGS,
    "requests READ_LOG that can't be understood": _LOGS,
    "what a broker is": _DESCRIBE,
    "what a master reports of its slaves": _DESCRIBE,
    "the route of a group through its masters": _DESCRIBE,
    "the routes of who leaves": _DESCRIBE,
    "the bounds of queues, as administrators see them": _BEGINNING,
    "both ends of a queue": _BEGINNING,
    "a read of the tier far behind its end": "the field `demandSource` is the reference system's own",
    "a frame with a wrong checksum": "RocketMQ's frames have no checksum",
}

_WIRE = "[the wire](../../docs/wire.md)"
_PASSED_OVER = (
    "`RemotingCommand.decodeCommandCustomHeaderDirectly` throws for such a field, catches that itself, and goes on"
)
_FIELDS = (
    "the reference, where RocketMQ takes a request that lacks a field or has no number of its type, by `@CFNotNull` and"
    " the types in the header class: `RemotingCommand.decodeCommandCustomHeaderDirectly` logs what it finds wrong and"
    " goes on. Where RocketMQ refuses (code 1), both: no document says with which code. Bounds of lengths and ranges"
    f" are the reference's own ({_WIRE})"
)
_NULL = f"both refuse, and no document says with which code: {_PASSED_OVER}, so the broker fails later with code 1"
_CANT_BE_READ = f"both refuse, and no document says with which code: {_PASSED_OVER} as if the field were missing"
_TAKEN_AS_NONE = f"the reference, since what was sent is lost: {_PASSED_OVER} as if the field were missing"
_NOT_NULL = f"the reference, by `@CFNotNull` in the request's header class: {_PASSED_OVER}"
_BAD_JSON = (
    "both, each by its own: no document says with which code to refuse, and an exception of the broker's JSON reader"
    " becomes code 1. What that reader takes besides, such as numbers for texts and numbers of 65 bits, the reference"
    f" refuses ({_WIRE})"
)
_NO_SUCH_QUEUE = (
    "undecided: `DefaultMessageStore.getMaxOffsetInQueue` answers 0 for a queue that is not there, and no document says"
    f" whether there is an error to report; {_WIRE} says 17"
)
_NO_LIMIT = f"both, each by its own: this limit is the reference's ({_WIRE}), and RocketMQ has none here"
_OPTIONS = (
    f"both, each by its own: `mqadmin` changes RocketMQ's options so, and the reference has none to change ({_WIRE})"
)
_NO_GROUP = (
    "RocketMQ, by `ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST`: `ConsumerManageProcessor.updateConsumerOffset` refuses a"
    " group that no read and no heartbeat has made known"
)
_ZERO = (
    "RocketMQ, by `ConsumerManageProcessor.queryConsumerOffset`: a group without an offset is answered 0 where the"
    " queue still begins at 0 in memory, and 22 otherwise"
)
_ANY_OFFSET = "undecided: `ConsumerManageProcessor.updateConsumerOffset` takes any offset, and no document gives bounds"
_NO_FILTER = (
    "the reference, by `ResponseCode.SUBSCRIPTION_PARSE_FAILED`: `ConsumerFilterManager.build` returns null for what it"
    " can't compile, which `PullMessageProcessor` excludes by an `assert` alone; the read then gives every message"
)
_MORE_PROPERTIES = (
    "RocketMQ, by `AbstractSendMessageProcessor` and `SendMessageProcessor`, which add `MSG_REGION`, `TRACE_ON` and"
    " `CLUSTER` to a message's properties; the reference gives them back as they were sent"
)
_UNCHECKED = (
    f"undecided: `SendMessageProcessor` does not check that, and no document says that it should; {_WIRE} says 13"
)
_EXCEPTION = "both refuse, and no document says with which code: an exception of the broker's becomes code 1"
_TO_TEXT = f"both, each by its own: RocketMQ's JSON reader makes a text of it, and {_WIRE} has the reference refuse it"

_UNREADABLE: Mapping[str, tuple[str, ...]] = {
    _FIELDS: (
        *("SEND_MESSAGE", "SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE", "CONSUMER_SEND_MSG_BACK", "POP_MESSAGE"),
        *("UPDATE_CONSUMER_OFFSET", "UPDATE_AND_CREATE_TOPIC", "INVOKE_BROKER_TO_RESET_OFFSET", "PULL_MESSAGE"),
        *("LITE_PULL_MESSAGE", "VIEW_MESSAGE_BY_ID", "QUERY_CONSUMER_OFFSET", "GET_MAX_OFFSET", "GET_MIN_OFFSET"),
        *("SEARCH_OFFSET_BY_TIMESTAMP", "GET_CONSUMER_LIST_BY_GROUP", "GET_TOPIC_STATS", "GET_TOPIC_CONFIG"),
        *("QUERY_GROUPS_OF_TOPIC", "GET_CONSUME_STATS", "QUERY_TOPICS_OF_GROUP", "GET_SUBSCRIPTION_GROUP"),
        *("QUERY_SUBSCRIPTION_OF_GROUP", "GET_CONSUMER_CONNECTIONS", "GET_PRODUCER_CONNECTIONS"),
        *("QUERY_MESSAGE", "REGISTER_BROKER"),
    ),
    "both, each by its own: `QueryConsumeQueueRequestHeader` demands no field, and a number that can't be read is taken"
    " for 0": ("QUERY_CONSUME_QUEUE",),
    _BAD_JSON: ("QUERY_ASSIGNMENT", "LOCK_BATCH_MQ", "UNLOCK_BATCH_MQ", "HEART_BEAT", "CHECK_CLIENT_CONFIG"),
    "both refuse, and no document says with which code: `ExtraInfoUtil` throws for the handle, which is none of"
    " RocketMQ's": ("ACK_MESSAGE", "CHANGE_MESSAGE_INVISIBLETIME"),
    "RocketMQ, by `EndTransactionProcessor`: nothing is answered where `commitOrRollback` is 0, as in this request;"
    " its clients want no answer": ("END_TRANSACTION",),
    _NO_LIMIT: ("DELETE_TOPIC_IN_BROKER", "UNREGISTER_CLIENT"),
    _NOT_NULL: (
        *("UNREGISTER_BROKER", "DELETE_TOPIC_IN_NAMESERVER", "WIPE_WRITE_PERM", "ADD_WRITE_PERM"),
        "GET_ROUTEINFO_BY_TOPIC",
    ),
}
_OF_MESSAGES: Mapping[str, tuple[str, ...]] = {
    _MORE_PROPERTIES: (
        *("a message with the least flag", "a message with the greatest flag"),
        *("a message with the least bornTimestamp", "a message with the greatest bornTimestamp"),
        *("a message with the least reconsumeTimes", "a message with the greatest reconsumeTimes"),
        *("a message with the longest properties", "a message with a delay of nothing"),
        *("a message of no transaction", "a message in the short form"),
        "a message in the short form that was never consumed",
    ),
    _CANT_BE_READ: (
        *("a message with flag above the greatest", "a message with bornTimestamp above the greatest"),
        "the end of the queue with the greatest number",
    ),
    _NULL: ("a message without a queue",),
    _TAKEN_AS_NONE: ("a message with reconsumeTimes above the greatest",),
    _EXCEPTION: (
        *("a message with a delay that is no number", "a message without a body"),
        *("a batch whose messages can't be read", "a batch in the short form whose messages can't be read"),
    ),
    _UNCHECKED: (
        *("a half message without its property", "a half message of no producers", "a half message that is delayed"),
        *("a message that ends a transaction", "a batch by its flag", "a message with the property TRAN_MSG"),
        "a message with the property INNER_MULTI_DISPATCH",
    ),
    "RocketMQ, by `AbstractSendMessageProcessor.msgCheck`: a queue that the topic does not have is a wrong parameter"
    f" (29); {_WIRE} says 17": ("a message of a queue that is not there",),
    "both, each by its own: `MessageExtEncoder` takes 32,767 bytes, and the reference keeps room for what it"
    " adds itself": ("a message with too long properties",),
}
_OF_READS: Mapping[str, tuple[str, ...]] = {
    _NO_SUCH_QUEUE: ("a topic that is deleted, and made again", "the end of a queue that is not there"),
    "undecided: `PullMessageProcessor` checks neither bound, and no document says what a read of nothing means": (
        *("a read of no messages", "a read of no bytes"),
    ),
    _ANY_OFFSET: ("a commit before the beginning", "a commit behind the end"),
    _NO_GROUP: (
        *("a commit of a group with too long a name", "a commit that wants no answer"),
        "how far a group has read, as administrators see it",
    ),
    _ZERO: ("an offset of a group that never committed", "an offset of a group with the longest name"),
    "RocketMQ, by `PullRequestHoldService`: it looks every 5 s at the reads that wait, so one may wait longer than its"
    " `suspendTimeoutMillis`": ("reads that wait while others commit, and leave",),
    "RocketMQ, by `ClientManageProcessor.unregisterClient`: a client leaves only the groups that it names, and the"
    " reference has it leave all where it names none. `ConsumerGroupInfo` gives clients no order either, where another"
    " run may end": ("who consumes in a group",),
    "undecided: `SelectorParser` takes a property alone for a condition, and no document says whether it is one": (
        "a read by no condition",
    ),
    _NO_FILTER: ("a read by an order of texts", "a read by another kind of expression"),
    _NO_LIMIT: ("a read by too deep a condition", "a read by too long a condition"),
    "RocketMQ, by `ResponseCode.FILTER_DATA_NOT_EXIST`: `PullMessageProcessor` answers 27 where the condition of the"
    " heartbeat could not be compiled": ("a read of what a heartbeat has registered",),
    "the reference, by the milliseconds that the request has: `IndexFile` keeps whole seconds, so that a search from a"
    " message's own time on misses it": ("messages by their keys and places",),
    "undecided: `AckMessageProcessor` does not check to which group a message was given, and no document says that it"
    " must": ("a message that is popped and acknowledged twice",),
    "undecided: `RebalanceLockManager` locks any queue that is named, and no document says that it must be there": (
        "a lock that two members ask for",
    ),
    "both refuse, and no document says with which code: `EndTransactionRequestHeader.checkFields` throws for a third"
    " decision, which becomes code 1": ("a transaction that is ended twice",),
}
_OF_OTHERS: Mapping[str, tuple[str, ...]] = {
    _NO_LIMIT: ("a topic without queues", "a topic with too many queues"),
    "RocketMQ, by `TopicValidator`: `%` is among the characters of a topic": ("a topic with a name of the system's",),
    "RocketMQ, by `AdminBrokerProcessor.updateAndCreateTopic`: the topic then has as many queues as were asked for;"
    f" {_WIRE} has the reference keep those that it has": ("a topic that is there and shall have more queues",),
    _OPTIONS: ("a change of the options of a nameserver", "a change of the options of a broker"),
    "undecided: `AdminBrokerProcessor` answers with an empty list or table, and no document says that it must refuse": (
        *("the readers of a topic that is not there", "the reading of a topic that is not there"),
    ),
    "RocketMQ, by `BrokerConfig.autoCreateSubscriptionGroup`: to ask for a group makes it"
    " (`SubscriptionGroupManager.findSubscriptionGroupConfig`)": ("a group that no client has named",),
    _NOT_NULL: ("a route without a topic",),
    "RocketMQ, by `RouteInfoManager.registerBroker`: it refuses a broker's first registration where that has one topic"
    " alone": ("the routes of who falls silent",),
    _TO_TEXT: ("a frame with a field that is a number", "a frame with a remark that is a number"),
    "both: RFC 8259 (8.2) says that what becomes of half a character can't be foretold": (
        "a frame with half a character",
    ),
    "the reference, by RFC 8259 (8.1): JSON between systems is UTF-8, which these bytes are not": (
        "a frame with the bytes of half a character",
    ),
    "both, each by its own: the frame has ten bytes so far, and RocketMQ's `NettyRemotingServer.HandshakeHandler` waits"
    " for twelve before it reads the length": ("a frame with too great a length",),
    'the reference, by RFC 8259 (4): names in JSON are texts, and RocketMQ writes `{0:"…"}`': (
        "the cluster from outside",
    ),
    "undecided: `AdminBrokerProcessor.notifyBrokerRoleChanged` fails since there is no body, and does not look at who"
    " asks; no document says who may": ("a role from somebody who is no controller",),
}
#: By case, who is right by which document.
RIGHT: Mapping[str, str] = {
    **{f"requests {one} that can't be understood": why for why, some in _UNREADABLE.items() for one in some},
    **{name: why for part in (_OF_MESSAGES, _OF_READS, _OF_OTHERS) for why, names in part.items() for name in names},
}


#: How a sentence begins.
SIDES = ("the reference", "RocketMQ", "both", "undecided")


def right_by(name: str) -> str:
    return RIGHT.get(name, "undecided: not looked into yet")
