"""Name servers of a split cluster: routes from meta's log alone, which never go back."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.split.meta_world import METAS, MetaWorld

NS = "nameserver-0"


def cluster() -> MetaWorld:
    it = MetaWorld(nameservers=1, cluster="c")
    it.register("broker-0")
    it.register("broker-1")
    it.beat(1000)
    it.topic("t", 7)
    it.beat(100)
    return it


def route(it: MetaWorld, topic: str = "t") -> dict[str, Any]:
    answer = it.ask(NS, Request.GET_ROUTEINFO_BY_TOPIC, topic=topic)
    assert answer.code == 0, answer.remark
    found: dict[str, Any] = json.loads(answer.body)
    return found


def addresses(it: MetaWorld) -> dict[str, Any]:
    return {data["brokerName"]: data["brokerAddrs"] for data in route(it)["brokerDatas"]}


def test_a_route_names_each_slice_with_its_owner_and_its_share_of_the_queues() -> None:
    it = cluster()
    owners = {f"slice-{number}": {"0": broker} for number, (broker, _) in enumerate(it.owners())}
    assert addresses(it) == owners
    counts = {data["brokerName"]: data["readQueueNums"] for data in route(it)["queueDatas"]}
    assert sum(counts.values()) == 7 and sorted(counts.values()) == [3, 4]
    table = json.loads(it.ask(NS, Request.GET_BROKER_CLUSTER_INFO).body)
    assert table["clusterAddrTable"] == {"c": ["slice-0", "slice-1"]}
    assert {name: data["brokerAddrs"] for name, data in table["brokerAddrTable"].items()} == owners
    assert json.loads(it.ask(NS, Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body) == {"topicList": ["t"]}


def test_a_topic_with_one_queue_has_one_slice_and_a_deleted_one_has_none() -> None:
    it = cluster()
    it.topic("u", 1)
    it.beat(100)
    assert len(route(it, "u")["brokerDatas"]) == len(route(it, "u")["queueDatas"]) == 1
    it.ask(it.leader, Request.META_DELETE_TOPIC, topic="u")
    it.beat(100)
    assert it.ask(NS, Request.GET_ROUTEINFO_BY_TOPIC, topic="u").code == Response.TOPIC_NOT_EXIST
    assert it.ask(NS, Request.GET_ROUTEINFO_BY_TOPIC).code == Response.SYSTEM_ERROR


def test_without_a_living_owner_a_slice_has_no_address() -> None:
    it = cluster()
    for name in ("broker-0", "broker-1"):
        it.die(name, silently=False)
    it.beat(500)
    assert addresses(it) == {"slice-0": {}, "slice-1": {}}
    described = json.loads(it.ask(NS, Request.DESCRIBE).body)
    assert all(found["master"] == "" and found["epoch"] >= 2 for found in described["routes"].values())
    assert described["revision"] == it.cluster.revision and described["incarnation"] == 1


def test_routes_go_on_without_meta_and_never_go_back() -> None:
    it = cluster()
    before = addresses(it)
    for name in METAS:
        it.crash(name)
    it.run(2000)
    assert addresses(it) == before
    it.heal()
    it.beat(3000)
    for _ in range(3):
        it.die("broker-1", silently=False)
        it.beat(300)
        it.crash(NS)
        it.start(NS)
        it.register("broker-1", f"w{it.now}")
        it.beat(1000)
    lives: dict[tuple[int, str], list[int]] = {}
    revisions: list[int] = []
    for node, life, f, row in it.traces:
        if f == "route":
            lives.setdefault((life, row["group"]), []).append(row["epoch"])
        if f == "map_view" and node == NS:
            revisions.append(row["revision"])
    assert all(found == sorted(found) for found in lives.values()) and revisions == sorted(revisions)
    assert max(map(max, lives.values())) >= 4


def test_nothing_is_said_before_anything_is_known() -> None:
    it = MetaWorld(nameservers=1)
    for name in METAS:
        it.crash(name)
    it.crash(NS)
    it.start(NS)
    assert it.ask(NS, Request.GET_ROUTEINFO_BY_TOPIC, topic="t").code == Response.SYSTEM_BUSY
    assert it.ask(NS, Request.REGISTER_BROKER).code == Response.REQUEST_CODE_NOT_SUPPORTED


def test_an_entry_that_meta_never_writes_is_not_believed() -> None:
    it = cluster()
    follower = it.nodes[NS].follower
    known = follower.view.revision
    replicas = {"birth": [], "voters": ["store-1#2"], "learners": [], "wanted": [], "index": 0}
    bad = [
        ["group", "x", 1, known + 1, replicas],
        ["group", "1", 1, known + 1, {**replicas, "voters": ["store-1"]}],
        ["group", "1", 1, known + 1, {**replicas, "index": -1}],
        ["owner", "slice-x", 1, known + 1, {"broker": "b", "life": 1, "epoch": 1}],
        ["broker", "b", 1, known + 1, {"life": 1, "nonce": "", "state": "up?"}],
        ["topic", "t", 1, known + 1, None],
    ]
    for row, form in product(bad, ("changes", "entries")):
        body = json.dumps({form: [row]}).encode()
        fields = {"revision": str(known + 1)}
        answer = Command(code=0, flags=1, opaque=follower._call, fields=fields, body=body)
        it.transmit(follower._controller, NS, answer)
        it.run(50)
        assert follower.view.revision == known
