"""What RocketMQ's Java client 5.5.0 asks a split cluster, as it stood on a real wire, and that it is answered."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from reference.broker.records import decode_all
from reference.wire.codec import RemotingCodec
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.split.broker_world import BrokerWorld
from tests.reference.split.meta_world import MetaWorld

OF_CONSUMERS = {"ReqT": "0", "topic": "storm", "consumerGroup": "library-pull", "queueId": "0", "bname": "slice-1"}
ROUTE = {"ReqT": "0", "topic": "storm"}
SEND = {
    "a": "library-producers",
    "b": "storm",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1795983882678",
    "h": "0",
    "i": "UNIQ_KEY\x0100000000000000000000030000000003\x02WAIT\x01true\x02",
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "slice-1",
}
PULL = {
    **OF_CONSUMERS,
    "commitOffset": "0",
    "subscription": "*",
    "suspendTimeoutMillis": "20000",
    "sysFlag": "22",
    "expressionType": "TAG",
    "maxMsgNums": "10",
    "queueOffset": "0",
    "subVersion": "0",
    "maxMsgBytes": "2147483647",
}
PUSHED = {
    **{name: value for name, value in OF_CONSUMERS.items() if name != "ReqT"},
    "commitOffset": "-1",
    "suspendTimeoutMillis": "15000",
    "sysFlag": "2",
    "expressionType": "TAG",
    "maxMsgNums": "32",
    "queueOffset": "0",
    "subVersion": "1795984207772",
    "maxMsgBytes": "262144",
}
SUBSCRIPTION = {
    "classFilterMode": False,
    "codeSet": [],
    "expressionType": "TAG",
    "subString": "*",
    "tagsSet": [],
    "subVersion": 1795983880863,
    "topic": "storm",
}
CONSUMER = {
    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
    "consumeType": "CONSUME_ACTIVELY",
    "groupName": "library-pull",
    "messageModel": "CLUSTERING",
    "subscriptionDataSet": [SUBSCRIPTION],
    "unitMode": False,
}
BEAT = {
    "clientID": "192.0.2.2@library-pull-0@STREAM",
    "consumerDataSet": [CONSUMER],
    "heartbeatFingerprint": 0,
    "producerDataSet": [{"groupName": "CLIENT_INNER_PRODUCER"}],
    "withoutSub": False,
}


def framed(code: int, fields: dict[str, str], body: bytes = b"", flag: int = 0, opaque: int = 7) -> Command:
    """Return a request as it is read from the frame that the Java client makes of it."""
    known = {"code": code, "extFields": fields, "flag": flag, "language": "JAVA", "opaque": opaque}
    header = json.dumps({**known, "serializeTypeCurrentRPC": "JSON", "version": 513}).encode()
    frame = struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body
    (message,) = RemotingCodec().decode(bytearray(frame))
    return message


class Java:
    """The client, with a broker that owns two slices of one group each."""

    def __init__(self) -> None:
        self.world = BrokerWorld(groups=2, slices=2, member_grace_ms=0)
        self.world.open()
        self.world.learn(self.world.topic("storm", topic_id=12))
        self._opaque = 0

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"", flag: int = 0) -> int:
        self._opaque += 1
        self.world.deliver("java", framed(code, fields, body, flag, self._opaque))
        return self._opaque

    def answer(self, number: int) -> Command:
        return self.world.answers[number]

    def sent(self) -> int:
        number = self.ask(Request.SEND_MESSAGE_V2, SEND, b"body")
        self.world.stored(self.world.take(Request.GROUP_APPEND))
        return number


def test_a_send_names_its_slice_and_is_told_its_place() -> None:
    java = Java()
    answer = java.answer(java.sent())
    assert answer.code == 0 and {"queueId": "0", "queueOffset": "0"}.items() <= answer.fields.items()
    assert len(answer.fields["msgId"]) == 32


@pytest.mark.parametrize(("code", "fields"), [(Request.LITE_PULL_MESSAGE, PULL), (Request.PULL_MESSAGE, PUSHED)])
def test_consumers_are_given_records_with_the_queue_as_it_is_called_there(code: int, fields: dict[str, str]) -> None:
    java = Java()
    held = java.ask(code, fields)
    assert java.world.code(held) is None, "at the end it may wait"
    java.sent()
    answer = java.answer(held)
    assert answer.code == 0 and [(one.queue_id, one.body) for one in decode_all(answer.body)] == [(0, b"body")]
    wanted = {"suggestWhichBrokerId": "0", "nextBeginOffset": "1", "minOffset": "0", "maxOffset": "1"}
    assert wanted.items() <= answer.fields.items()


def test_offsets_of_a_group_are_committed_one_way_and_found_again() -> None:
    java = Java()
    java.sent()
    asked = java.ask(Request.QUERY_CONSUMER_OFFSET, OF_CONSUMERS)
    java.world.confirmed()
    assert java.world.code(asked) == Response.QUERY_NOT_FOUND, "so it begins where its own rule says"
    silent = java.ask(Request.UPDATE_CONSUMER_OFFSET, {**OF_CONSUMERS, "commitOffset": "1"}, flag=2)
    commit = java.world.take(Request.GROUP_COMMIT)
    java.world.deliver(commit.to, commit.message.reply())
    again = java.ask(Request.QUERY_CONSUMER_OFFSET, OF_CONSUMERS)
    java.world.confirmed()
    assert java.world.code(silent) is None and java.answer(again).fields["offset"] == "1"


def test_its_consumers_hear_of_each_other() -> None:
    java = Java()
    assert java.world.code(java.ask(Request.HEART_BEAT, {"ReqT": "0"}, json.dumps(BEAT).encode())) == 0
    (notice,) = java.world.waiting(Request.NOTIFY_CONSUMER_IDS_CHANGED)
    assert (notice.to, notice.message.fields) == ("java", {"consumerGroup": "library-pull"})
    members = java.ask(Request.GET_CONSUMER_LIST_BY_GROUP, {"ReqT": "0", "consumerGroup": "library-pull"})
    assert json.loads(java.answer(members).body) == {"consumerIdList": [BEAT["clientID"]]}


def test_its_consumers_may_ask_whether_their_condition_is_one() -> None:
    java = Java()
    for condition, code in (("n > 1", 0), ("n >", Response.SUBSCRIPTION_PARSE_FAILED)):
        subscription = {"topic": "storm", "subString": condition, "expressionType": "SQL92", "subVersion": 1}
        body = {"clientId": BEAT["clientID"], "group": "library-pull", "subscriptionData": subscription}
        assert java.world.code(java.ask(Request.CHECK_CLIENT_CONFIG, {"ReqT": "0"}, json.dumps(body).encode())) == code


def test_what_a_broker_does_not_do_is_refused_by_the_code_that_it_knows() -> None:
    java = Java()
    for code in (320, 36, 41):  # a batch, a message that is sent back, a lock of queues
        assert java.world.code(java.ask(code, {"ReqT": "0"})) == Response.REQUEST_CODE_NOT_SUPPORTED


def test_a_route_names_slices_as_brokers_by_addresses_that_the_client_reaches() -> None:
    it = MetaWorld(nameservers=1, cluster="c")
    it.register("broker-0")
    it.beat(1000)
    it.topic("storm", 4)
    it.beat(100)
    asked = framed(Request.GET_ROUTEINFO_BY_TOPIC, ROUTE)
    answer = it.ask("nameserver-0", asked.code, **asked.fields)
    seen = RemotingCodec().readdress(asked.code, answer, {"broker-0": "127.0.0.1:5002"}.__getitem__)
    route: dict[str, Any] = json.loads(seen.body)
    assert [one["brokerAddrs"] for one in route["brokerDatas"]] == [{"0": "127.0.0.1:5002"}] * 2
    assert [one["brokerName"] for one in route["queueDatas"]] == ["slice-0", "slice-1"]
