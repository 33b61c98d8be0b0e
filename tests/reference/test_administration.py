"""What administrators are answered, in the words of RocketMQ."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from reference.broker import group_admin, topic_admin
from reference.broker.topic_admin import tag_code
from reference.wire.codec import RemotingCodec
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.properties import properties
from tests.reference.broker_cluster import TOPIC, Cluster

#: A member's name that is an object, as RocketMQ's JSON has it.
_OBJECT_KEY = re.compile(rb'(?<=[{,])\{"brokerName"[^}]*\}(?=:)')


class Administered(Cluster):
    async def asked(self, code: int, node: str = "broker-0", **fields: Any) -> Command:
        answer = await self.ask(node, code, {name: str(value) for name, value in fields.items()})
        assert answer is not None
        return answer

    async def said(self, code: int, node: str = "broker-0", **fields: Any) -> Any:
        """Return the JSON of an answer; the object that names a member is that name, as a text."""
        answer = await self.asked(code, node, **fields)
        assert answer.code == 0, answer.remark
        return json.loads(_OBJECT_KEY.sub(lambda found: json.dumps(found[0].decode()).encode(), answer.body))

    async def beats(self) -> None:
        wanted = {"topic": TOPIC, "subString": "TagA || TagB", "expressionType": "TAG", "subVersion": 7}
        consumer = {"groupName": "g", "consumeType": "CONSUME_ACTIVELY", "subscriptionDataSet": [wanted]}
        body = {"clientID": "me@1", "consumerDataSet": [consumer], "producerDataSet": [{"groupName": "p"}]}
        answer = await self.ask("broker-0", Request.HEART_BEAT, {}, json.dumps(body).encode())
        assert answer is not None and answer.code == 0


def key(queue: int, topic: str = TOPIC) -> str:
    return f'{{"brokerName":"broker","queueId":{queue},"topic":"{topic}"}}'


async def commit(cluster: Administered, group: str, queue: int, offset: int) -> None:
    place = {"topic": TOPIC, "queueId": queue, "consumerGroup": group, "commitOffset": offset}
    assert (await cluster.asked(Request.UPDATE_CONSUMER_OFFSET, **place)).code == 0


async def send(cluster: Administered, tags: str) -> list[Command]:
    sent = []
    for tag in tags:
        fields = {"topic": TOPIC, "queueId": "0", "sysFlag": "0", "bornTimestamp": "0", "flag": "0"}
        answer = await cluster.ask(
            "broker-0", Request.SEND_MESSAGE, {**fields, "properties": f"TAGS\x01Tag{tag}\x02"}, b"x"
        )
        assert answer is not None and answer.code == 0
        sent.append(answer)
    return sent


def test_where_queues_begin_and_end() -> None:
    cluster = Administered(brokers=1)

    async def script() -> None:
        await send(cluster, "ABA")
        stats = (await cluster.said(Request.GET_TOPIC_STATS, topic=TOPIC))["offsetTable"]
        newest = await cluster.said(Request.QUERY_CONSUME_QUEUE, topic=TOPIC, queueId=0, index=0, count=9)
        assert stats.keys() == {key(0), key(1)}
        assert stats[key(0)].items() >= {"minOffset": 0, "maxOffset": 3}.items()
        assert stats[key(0)]["lastUpdateTimestamp"] > 1_000_000
        assert stats[key(1)] == {"minOffset": 0, "maxOffset": 0, "lastUpdateTimestamp": 0}
        assert (newest["minQueueIndex"], newest["maxQueueIndex"]) == (0, 3)
        assert [entry["tagsCode"] for entry in newest["queueData"]] == [2598919, 2598920, 2598919]
        some = await cluster.said(Request.QUERY_CONSUME_QUEUE, topic=TOPIC, queueId=0, index=1, count=1)
        assert some["queueData"] == newest["queueData"][1:2]
        for index, count in ((0, -1), (3, 5), (1 << 40, 5), (-9, 9)):
            none = await cluster.said(Request.QUERY_CONSUME_QUEUE, topic=TOPIC, queueId=0, index=index, count=count)
            assert none["queueData"] == []
        for code in (Request.GET_TOPIC_STATS, Request.GET_TOPIC_CONFIG, Request.QUERY_GROUPS_OF_TOPIC):
            assert (await cluster.asked(code, topic="another")).code == Response.TOPIC_NOT_EXIST

    cluster.run(script)


def test_how_far_groups_have_read() -> None:
    cluster = Administered(brokers=1, topics={TOPIC: 2, "other": 1})

    async def script() -> None:
        await send(cluster, "ABA")
        await commit(cluster, "g", 0, 1)
        await commit(cluster, "h", 1, 0)
        stats = (await cluster.said(Request.GET_CONSUME_STATS, consumerGroup="g"))["offsetTable"]
        assert stats.keys() == {key(0), key(1)}
        row = stats[key(0)]
        assert (row["brokerOffset"], row["consumerOffset"], row["pullOffset"]) == (3, 1, 1)
        assert row["lastTimestamp"] > 1_000_000
        assert stats[key(1)] == {"brokerOffset": 0, "consumerOffset": 0, "pullOffset": 0, "lastTimestamp": 0}
        assert (await cluster.said(Request.GET_CONSUME_STATS, consumerGroup="g", topic=TOPIC))["offsetTable"] == stats
        other = (await cluster.said(Request.GET_CONSUME_STATS, consumerGroup="g", topic="other"))["offsetTable"]
        assert other.keys() == {key(0, "other")}
        assert (await cluster.said(Request.GET_CONSUME_STATS, consumerGroup="nobody"))["offsetTable"] == {}
        every = await cluster.said(Request.GET_BROKER_CONSUME_STATS, isOrder="false")
        assert every["totalDiff"] == 5
        assert [list(one) for one in every["consumeStatsList"]] == [["g"], ["h"]]
        assert every["consumeStatsList"][0]["g"] == [{"offsetTable": stats}]
        assert (await cluster.said(Request.QUERY_TOPICS_OF_GROUP, group="g"))["topicList"] == [TOPIC]
        assert (await cluster.said(Request.QUERY_GROUPS_OF_TOPIC, topic=TOPIC))["groupList"] == ["g", "h"]
        assert (await cluster.said(Request.QUERY_GROUPS_OF_TOPIC, topic="other"))["groupList"] == []

    cluster.run(script)


def test_what_topics_and_groups_are_like() -> None:
    cluster = Administered(brokers=1)

    async def script() -> None:
        await commit(cluster, "h", 0, 0)
        await cluster.beats()
        # As a broker of 5.5.0 answered for a topic of four queues.
        documented = {"attributes": {}, "order": False, "perm": 6, "readQueueNums": 2, "topicFilterType": "SINGLE_TAG"}
        documented |= {"topicName": TOPIC, "topicSysFlag": 0, "writeQueueNums": 2}
        assert await cluster.said(Request.GET_TOPIC_CONFIG, topic=TOPIC, lo="true") == documented
        every = await cluster.asked(Request.GET_ALL_TOPIC_CONFIG)
        assert json.loads(every.body)["topicConfigTable"] == {TOPIC: documented}
        assert every.fields["totalTopicNum"] == "1"
        assert (await cluster.said(Request.GET_SYSTEM_TOPICS)) == {"topicList": []}
        groups = await cluster.said(Request.GET_ALL_SUBSCRIPTION_GROUPS)
        assert groups["subscriptionGroupTable"].keys() == {"g", "h"}
        one = await cluster.said(Request.GET_SUBSCRIPTION_GROUP, group="g")
        assert one == groups["subscriptionGroupTable"]["g"] and one["groupName"] == "g"
        unknown = await cluster.asked(Request.GET_SUBSCRIPTION_GROUP, group="nobody")
        assert unknown.code == Response.SUBSCRIPTION_GROUP_NOT_EXIST

    cluster.run(script)


def test_who_is_connected() -> None:
    cluster = Administered(brokers=1)

    async def script() -> None:
        for code, fields in (
            (Request.GET_CONSUMER_CONNECTIONS, {"consumerGroup": "g"}),
            (Request.GET_PRODUCER_CONNECTIONS, {"producerGroup": "p"}),
        ):
            refused = await cluster.asked(code, **fields)
            assert refused.code in (Response.CONSUMER_NOT_ONLINE, Response.SYSTEM_ERROR)
        await cluster.beats()
        found = await cluster.said(Request.GET_CONSUMER_CONNECTIONS, consumerGroup="g")
        assert (found["consumeType"], found["messageModel"]) == ("CONSUME_ACTIVELY", "CLUSTERING")
        assert [one["clientId"] for one in found["connectionSet"]] == ["me@1"]
        wanted = found["subscriptionTable"][TOPIC]
        assert (wanted["tagsSet"], wanted["codeSet"]) == (["TagA", "TagB"], [2598919, 2598920])
        assert (wanted["subString"], wanted["subVersion"]) == ("TagA || TagB", 7)
        asked = await cluster.said(Request.QUERY_SUBSCRIPTION_OF_GROUP, group="g", topic=TOPIC)
        assert asked == {"group": "g", "topic": TOPIC, "subscriptionData": wanted}
        none = await cluster.said(Request.QUERY_SUBSCRIPTION_OF_GROUP, group="g", topic="other")
        assert none["subscriptionData"] is None
        (producer,) = (await cluster.said(Request.GET_PRODUCER_CONNECTIONS, producerGroup="p"))["connectionSet"]
        assert producer["clientId"] == "me@1"
        every = (await cluster.said(Request.GET_ALL_PRODUCERS))["data"]
        assert [one["clientId"] for one in every["p"]] == ["me@1"]
        assert (await cluster.said(Request.QUERY_GROUPS_OF_TOPIC, topic=TOPIC))["groupList"] == ["g"]

    cluster.run(script)


def test_slaves_answer_and_nodes_keep_their_options() -> None:
    cluster = Administered(brokers=3)

    async def script() -> None:
        master = await cluster.master()
        slave = next(name for name in cluster.brokers if name != master)
        stats = [await cluster.said(Request.GET_TOPIC_STATS, node, topic=TOPIC) for node in (master, slave)]
        assert stats[0] == stats[1]
        shown = (await cluster.asked(Request.GET_BROKER_CONFIG, slave)).body.decode().splitlines()
        assert "min_in_sync=2" in shown and 'topics={"storm": 2}' in shown and "brokerName=broker" in shown
        refused = await cluster.asked(Request.UPDATE_BROKER_CONFIG, slave)
        assert refused.code == Response.NO_PERMISSION and "options are given at the start" in refused.remark
        refused = await cluster.asked(Request.UPDATE_CONTROLLER_CONFIG, "controller-0")
        assert refused.code == Response.NO_PERMISSION
        assert b"virtual_time=true" in (await cluster.asked(Request.GET_CONTROLLER_CONFIG, "controller-0")).body
        epochs = await cluster.state(slave, Request.GET_BROKER_EPOCH_CACHE)
        assert epochs["clusterName"] == "stormproof"

    cluster.run(script)


def test_what_is_too_much_for_a_frame_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Administered(brokers=1)

    async def script() -> None:
        await commit(cluster, "g", 0, 0)
        monkeypatch.setattr(topic_admin, "MAX_ROWS", 1)
        monkeypatch.setattr(group_admin, "MAX_ROWS", 1)
        for code, fields in (
            (Request.GET_TOPIC_STATS, {"topic": TOPIC}),
            (Request.GET_CONSUME_STATS, {"consumerGroup": "g"}),
            (Request.GET_BROKER_CONSUME_STATS, {}),
        ):
            refused = await cluster.asked(code, **fields)
            assert refused.code == Response.SYSTEM_ERROR and "more than 1 queues" in refused.remark
        monkeypatch.setattr(topic_admin, "MAX_ANSWER_BYTES", 10)
        refused = await cluster.asked(Request.GET_ALL_TOPIC_CONFIG)
        assert refused.code == Response.SYSTEM_ERROR

    cluster.run(script)


@pytest.mark.parametrize(
    ("tag", "code"), [("", 0), ("TagA", 2598919), ("ä", 228), ("polygenelubricants", -(1 << 31)), ("😀", 1772899)]
)
def test_tags_have_the_hash_of_java(tag: str, code: int) -> None:
    assert tag_code(tag) == code


def test_options_are_escaped_as_java_reads_them() -> None:
    assert properties({"b": "x\ny\\z", "a": {"t": 1}, "c": 3}) == b'a={"t": 1}\nb=x\\ny\\\\z\nc=3\n'


def test_addresses_in_what_administrators_read_are_those_that_clients_reach() -> None:
    state = {"masterAddress": "b0", "inSyncReplicas": [{"brokerAddress": "b1", "brokerName": "b1"}]}
    answer = Command(code=0, body=json.dumps({"replicasInfoTable": {"g": state}}).encode())
    changed = RemotingCodec().readdress(Request.CONTROLLER_GET_SYNC_STATE_DATA, answer, lambda name: f"h:{name}")
    (found,) = json.loads(changed.body)["replicasInfoTable"].values()
    assert found == {"masterAddress": "h:b0", "inSyncReplicas": [{"brokerAddress": "h:b1", "brokerName": "b1"}]}
    status = {"haConnectionInfo": [{"addr": "b1"}], "haClientRuntimeInfo": {"masterAddr": ""}}
    answer = Command(code=0, body=json.dumps(status).encode())
    changed = RemotingCodec().readdress(Request.GET_BROKER_HA_STATUS, answer, lambda name: f"h:{name}")
    assert json.loads(changed.body) == {
        "haConnectionInfo": [{"addr": "h:b1"}],
        "haClientRuntimeInfo": {"masterAddr": ""},
    }
