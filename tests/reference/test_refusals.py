"""What brokers and controllers refuse: what they can't understand, and what they can't do."""

from __future__ import annotations

import json
import struct

import pytest

from reference.broker import records
from reference.wire.codes import Request, Response
from tests.reference.broker_cluster import TOPIC, Cluster
from tests.reference.test_controller import BROKERS, GROUP, ask, group, leader, settled

SEND = {"a": "p", "b": TOPIC, "c": "", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
PULL = {"consumerGroup": "g", "topic": TOPIC, "queueId": "0", "queueOffset": "0", "maxMsgNums": "8", "sysFlag": "0"}
COMMIT = {"consumerGroup": "g", "topic": TOPIC, "queueId": "0", "commitOffset": "0"}
HELLO = {"session": "1", "epoch": "1", "id": "99"}

#: What would be delivered otherwise than its producer wants.
IMPOSSIBLE = (
    {"f": "4"},
    {"f": "8"},
    {"f": "12"},
    {"f": "128"},
    {"m": "true"},
    {"i": "TRAN_MSG\x01true\x02"},
    {"i": "TRAN_MSG\x01true\x02PGROUP\x01g\x02DELAY\x013\x02"},
    {"i": "KEYS\x01k\x02DELAY\x01-3\x02"},
    {"i": "TIMER_DELAY_SEC\x01259201\x02"},
    {"i": "TIMER_DELAY_MS\x015.5\x02UNIQ_KEY\x011\x02"},
    {"i": "TIMER_DELIVER_MS\x0199999999999999\x02"},
    {"i": "INNER_MULTI_DISPATCH\x01%LMQ%q\x02"},
    {"i": "x\x01" + "y" * 33_000},
)
POSSIBLE = ({"i": "DELAY\x010\x02TRAN_MSG\x01false\x02"}, {"i": "NO_DELAY\x013\x02KEYS\x01DELAY\x02"}, {"f": "1"})

#: Requests that named a spot where a node died, and others of their kind.
NONSENSE: tuple[tuple[int, dict[str, str], bytes], ...] = (
    (Request.REPLICA_HELLO, {}, b""),
    (Request.REPLICA_HELLO, {**HELLO, "epoch": "x"}, b"{}"),
    (Request.REPLICA_HELLO, HELLO, b"{}"),
    (Request.REPLICA_HELLO, HELLO, b"["),
    (Request.REPLICA_HELLO, {**HELLO, "epoch": "999"}, b"{}"),
    (
        Request.REPLICA_HELLO,
        HELLO,
        b'{"epochs":[["x",1]],"first":0,"end":0,"bootstrapping":false,"views":[]}',
    ),
    (Request.HEART_BEAT, {}, b""),
    (Request.HEART_BEAT, {}, b"[1]"),
    (Request.HEART_BEAT, {}, b'{"clientID":"c","consumerDataSet":[7]}'),
    (Request.HEART_BEAT, {}, b'{"clientID":"c","consumerDataSet":{"groupName":1}}'),
    (Request.HEART_BEAT, {}, b'{"clientID":"\\ud800"}'),
    (Request.HEART_BEAT, {}, b"[" * 100_000),
    (Request.HEART_BEAT, {}, b"[" * 70 + b"]" * 70),
    (Request.READ_LOG, {"position": "x"}, b""),
    (Request.READ_LOG, {"position": "7"}, b""),
    (Request.READ_LOG, {"position": "9" * 5000}, b""),
    (Request.PULL_MESSAGE, {**PULL, "maxMsgNums": "0"}, b""),
    (Request.PULL_MESSAGE, {**PULL, "sysFlag": "x"}, b""),
    (Request.PULL_MESSAGE, {**PULL, "queueOffset": str(1 << 70)}, b""),
    (Request.SEND_MESSAGE_V2, {**SEND, "h": str(1 << 40)}, b"body"),
    (Request.SEND_MESSAGE_V2, {**SEND, "g": "noon"}, b"body"),
    (Request.SEND_MESSAGE_V2, {key: SEND[key] for key in "abcd"}, b"body"),
    (Request.UPDATE_CONSUMER_OFFSET, {**COMMIT, "consumerGroup": "g" * 300}, b""),
    (Request.UPDATE_CONSUMER_OFFSET, {**COMMIT, "commitOffset": "-1"}, b""),
    (Request.UPDATE_AND_CREATE_TOPIC, {"topic": "t" * 200, "writeQueueNums": "1"}, b""),
    (Request.UPDATE_AND_CREATE_TOPIC, {"topic": "%SYS%TOPIC", "writeQueueNums": "1"}, b""),
)


def test_a_broker_answers_what_it_can_not_understand_and_lives_on() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1)

    async def test() -> None:
        master = await cluster.master()
        assert (await cluster.send(master)) is not None
        before = (await cluster.state(master))["end"]
        for code, fields, body in NONSENSE:
            answer = await cluster.ask(master, code, fields, body)
            assert answer is not None, (code, fields)
            assert answer.code == Response.INVALID_PARAMETER, (code, fields, answer)
        assert (await cluster.state(master))["end"] == before

    cluster.run(test)
    assert {row["value"]["code"] for row in cluster.trace if row["f"] == "malformed"} > {Request.REPLICA_HELLO}


def test_a_stream_that_would_begin_within_a_record_is_refused_and_its_master_lives_on() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1)

    async def test() -> None:
        master = await cluster.master()
        assert (await cluster.send(master)) is not None
        told = await cluster.state(master)
        body = json.dumps({"epochs": [[told["epoch"], 0]], "first": 0, "end": 7, "bootstrapping": False, "views": []})
        hello = {**HELLO, "epoch": str(told["epoch"])}
        answer = await cluster.ask(master, Request.REPLICA_HELLO, hello, body.encode())
        assert answer is not None and answer.fields["point"] == "7"
        ack = {"session": answer.fields["session"], "position": "7", "end": "7"}
        refused = await cluster.ask(master, Request.REPLICA_ACK, ack)
        assert refused is not None and refused.code == Response.INVALID_PARAMETER
        assert (await cluster.state(master))["end"] == told["end"]

    cluster.run(test)


def test_nobody_but_a_controller_gives_roles() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1)

    async def test() -> None:
        master = await cluster.master()
        fields = {"masterBrokerId": "9", "masterAddress": "x", "masterEpoch": "99", "syncStateSetEpoch": "9"}
        answer = await cluster.ask(master, Request.NOTIFY_BROKER_ROLE_CHANGED, fields, b'{"syncStateSet":[9]}')
        assert answer is not None
        assert answer.code == Response.NO_PERMISSION
        assert (await cluster.state(master))["role"] == "master"

    cluster.run(test)


def test_a_broker_refuses_what_it_can_not_do() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1)

    async def test() -> None:
        master = await cluster.master()
        before = (await cluster.state(master))["end"]
        for wanted in IMPOSSIBLE:
            answer = await cluster.ask(master, Request.SEND_MESSAGE_V2, {**SEND, **wanted}, b"body")
            assert answer is not None
            assert answer.code == Response.MESSAGE_ILLEGAL, (wanted, answer)
        assert (await cluster.state(master))["end"] == before
        for wanted in POSSIBLE:
            answer = await cluster.ask(master, Request.SEND_MESSAGE_V2, {**SEND, **wanted}, b"body")
            assert answer is not None
            assert answer.code == 0, (wanted, answer)

    cluster.run(test)


def test_the_store_refuses_rules_and_keys_that_are_none() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1, tier=True)

    async def test() -> None:
        for body in (
            b"",
            b"[]",
            b'{"effect":"slow"}',
            b'{"effect":"slow","verbs":["put"],"per_mille":1,"delay_ms":-1}',
        ):
            answer = await cluster.ask("store-0", Request.STORE_BREAK, {"rule": "r"}, body)
            assert answer is not None
            assert answer.code == Response.MESSAGE_ILLEGAL
        for key in ("a//b", "a/./b", "a/", "x" * 220, "y/" + "x" * 220, "."):
            answer = await cluster.ask("store-0", Request.STORE_PUT, {"key": key}, b"body")
            assert answer is not None
            assert answer.code == Response.MESSAGE_ILLEGAL, key

    cluster.run(test)


def test_a_record_says_where_it_comes_from_and_where_it_was_stored() -> None:
    hosts = {"born_host": ("10.1.2.3", 40_000), "store_host": ("192.168.0.9", 10_911)}
    data = records.encode(topic="t", queue_id=0, offset=0, position=96, body=b"b", **hosts)
    assert struct.unpack_from(">4Bi", data, 48) == (10, 1, 2, 3, 40_000)
    assert struct.unpack_from(">4Bi", data, 64) == (192, 168, 0, 9, 10_911)
    assert records.decode(data).body == b"b"
    assert records.message_id(hosts["store_host"], 96) == "C0A8000900002A9F" + "0" * 14 + "60"


@pytest.mark.parametrize("generation", [None, 0, -1])
def test_who_tells_no_generation_is_never_elected(generation: int | None) -> None:
    world = settled(9)
    told = {} if generation is None else {"generation": generation}
    name = leader(world).raft.name
    one = next(address for address in group(world)["brokers"] if address != group(world)["master"])
    number = group(world)["brokers"][one]
    about = {"clusterName": "c", "brokerName": GROUP, "brokerId": number}
    for broker in BROKERS:
        world.crash(broker)
    world.run(5000)
    answer = ask(world, name, Request.CONTROLLER_REGISTER_BROKER, brokerAddress=one, life="real", **about, **told)
    assert answer is not None
    assert answer.code == 0
    for _ in range(10):
        beat = {"brokerAddr": one, "epoch": 9, "maxOffset": 900}
        ask(world, name, Request.BROKER_HEARTBEAT, **beat, **about, **told)
        ask(world, name, Request.CONTROLLER_ELECT_MASTER, **about, designateElect="false")
    assert group(world)["master"] == ""
    assert one not in group(world)["set"]
