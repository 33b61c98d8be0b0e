"""What the driver makes of the answers of RocketMQ's nodes, in the form in which a real 5.5.0 gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from chaos.driver import Evidence, Profile
from chaos.ops import Failed, QueueRef, Unknown
from chaos.services import CanHoldObjects
from chaos.workload import body_hash
from drivers._java.recipes import RECIPES
from drivers._remoting.requests import number
from drivers.rocketmq.client import QueueClient
from drivers.rocketmq.cluster import Cluster
from drivers.rocketmq.driver import PROBE, Options, RocketMQ, create
from drivers.rocketmq.files.commit_log import CommitLog
from drivers.rocketmq.final_state import collect_broker
from drivers.rocketmq.programs import port_of
from tests.drivers.rocketmq.fake import FakeNetwork
from tests.drivers.rocketmq.real import MESSAGES, unpack

BROKERS = ("broker-0", "broker-1", "broker-2")
ADDRESSES = {name: f"10.0.0.{number}:{port_of(name)}" for number, name in enumerate(BROKERS, 1)}
QUEUE = QueueRef(index=0, topic="storm", queue_id=1)


def run(steps: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(steps)


def nodes() -> Cluster:
    return create(Options()).nodes


def route(*names: str) -> bytes:
    """As a name server answers 105; keys that are numbers are not quoted."""
    addresses = ",".join(f'{number}:"{ADDRESSES[name]}"' for number, name in enumerate(names))
    return (f'{{"brokerDatas":[{{"brokerAddrs":{{{addresses}}},"brokerName":"broker-a"}}],"queueDatas":[]}}').encode()


def replicas(*in_sync: str) -> dict[str, object]:
    """As the controllers' leader answers 1006; broker-1 has the id 1 and is the master."""
    ids = {"broker-1": 1, "broker-0": 2, "broker-2": 3}
    entries = {
        name: {"alive": True, "brokerAddress": ADDRESSES[name], "brokerId": ids[name], "brokerName": "broker-a"}
        for name in BROKERS
    }
    group = {
        "inSyncReplicas": [entries[name] for name in in_sync],
        "notInSyncReplicas": [entries[name] for name in BROKERS if name not in in_sync],
        "masterAddress": ADDRESSES["broker-1"],
        "masterBrokerId": 1,
        "masterEpoch": 4,
        "syncStateSetEpoch": 9,
    }
    return {"replicasInfoTable": {"broker-a": group}}


def healthy() -> FakeNetwork:
    network = FakeNetwork()
    for name in ("controller-0", "controller-1", "controller-2"):
        leader = f"10.0.1.1:{port_of('controller-1')}"
        network.says(name, 1005, isLeader=str(name == "controller-1").lower(), controllerLeaderAddress=leader)
    network.says("controller-1", 1006, body=replicas(*BROKERS))
    for name in BROKERS:
        broker_id = {"broker-1": 0, "broker-0": 2, "broker-2": 3}[name]
        epochs = [{"epoch": 3, "startOffset": 0, "endOffset": 9}]
        network.says(name, 1007, body={"brokerId": broker_id, "maxOffset": 900, "epochList": epochs})
        network.says(name, 28, body={"table": {"commitLogMinOffset": "0"}})
        network.says(name, 351, body={"topicName": "storm"})
    network.says("broker-1", 907, body={"master": True, "inSyncSlaveNums": 2})
    network.says("broker-1", 17)
    network.says("broker-1", 310, queueOffset="7", queueId="1")
    network.says("nameserver-0", 105, body=route("broker-1", "broker-0", "broker-2"))
    return network


def topics_of(network: FakeNetwork, broker: str, *topics: str) -> None:
    """Have this broker know these topics, asked for in the order in which the driver asks."""
    network.says(broker, 351, body={})
    (empty,) = network.answers[broker, 351]
    network.answers[broker, 351] = [replace(empty, body=f'{{"topicName":"{one}"}}'.encode()) for one in topics]


def view(driver: RocketMQ, network: FakeNetwork) -> Any:
    for broker in BROKERS:
        if [one.body for one in network.answers[broker, 351]] == [b'{"topicName": "storm"}']:
            topics_of(network, broker, PROBE, "storm")
    return run(driver.view(network))


def test_the_view_names_nodes_and_a_healthy_cluster_is_settled() -> None:
    network = healthy()
    found = view(driver := create(Options()), network)
    group = found.groups[0]
    assert (group.leader, group.epoch, set(group.in_sync)) == ("broker-1", 4, set(BROKERS))
    assert found.controller_leader == "controller-1" and found.settled
    assert run(driver.set_up(network))
    made = [message.fields["topic"] for node, message in network.asked if message.code == 17]
    assert made == [PROBE, "storm"] and network.codes("broker-1").count(310) == 1


def test_a_group_that_was_proven_is_not_probed_again() -> None:
    network, driver = healthy(), create(Options())
    assert view(driver, network).settled and view(driver, network).settled
    assert network.codes("broker-1").count(17) == 0 and network.codes("broker-1").count(310) == 1


def test_the_set_up_has_not_ended_without_a_master_or_when_a_topic_was_refused() -> None:
    assert not run(create(Options()).set_up(FakeNetwork()))
    network = healthy()
    network.says("broker-1", 17, result=1)
    assert not run(create(Options()).set_up(network))


@pytest.mark.parametrize(
    "trouble",
    [
        lambda n: n.says("controller-1", 1006, body=replicas("broker-1", "broker-0")),
        lambda n: n.says("broker-1", 907, body={"master": True, "inSyncSlaveNums": 1}),
        lambda n: n.says("broker-2", 1007, body={"brokerId": 0, "maxOffset": 900}),
        lambda n: n.answers.pop(("broker-2", 1007)),
        lambda n: n.says("nameserver-0", 105, body=route("broker-2", "broker-1")),
        lambda n: n.says("nameserver-0", 105, result=17, remark="No topic route info"),
        lambda n: topics_of(n, "broker-0", PROBE, "another"),
        lambda n: n.says("broker-1", 310, result=1, remark="in-sync replicas not enough"),
        lambda n: n.says("broker-1", 310, result=12),
        lambda n: n.says("controller-1", 1006, body=b"{]"),
    ],
)
def test_whatever_is_missing_a_cluster_is_not_settled(trouble: Any) -> None:
    network = healthy()
    trouble(network)
    assert not view(create(Options()), network).settled


def test_of_a_cluster_that_is_down_the_view_knows_little() -> None:
    found = run(create(Options()).view(FakeNetwork()))
    assert found.groups[0].leader == "" and found.brokers == BROKERS and not found.settled


@pytest.mark.parametrize(
    ("code", "remark", "ends"),
    [
        (10, "", Unknown),
        (11, "", Unknown),
        (12, "", Unknown),
        (1, "in-sync replicas not enough", Failed),
        (1, "store putMessage return null", Unknown),
        (2, "[TIMEOUT_CLEAN_QUEUE]broker busy", Failed),
        (14, "service not available now", Failed),
        (17, "topic not exist", Failed),
    ],
)
def test_how_a_send_ends(code: int, remark: str, ends: type[Exception]) -> None:
    network = healthy()
    network.says("broker-1", 310, result=code, remark=remark)
    with pytest.raises(ends):
        run(QueueClient(network, "client", nodes()).send(QUEUE, "1", b"x"))
    assert network.codes("broker-1").count(310) == 1  # no retry


def test_a_send_is_answered_with_its_offset() -> None:
    answer = run(QueueClient(healthy(), "client", nodes()).send(QUEUE, "1", b"x"))
    assert (answer.node, answer.offset, answer.queue, answer.epoch) == ("broker-1", 7, 0, 3)


def test_what_a_broker_answers_that_is_the_master_no_more_does_not_count() -> None:
    network = healthy()
    for code in (34, 15, 14):
        network.says("broker-1", code, offset="5")
    network.says("broker-1", 11, result=19, maxOffset="7")
    master, slave = network.answers["broker-1", 1007][0], network.answers["broker-0", 1007][0]
    client = QueueClient(network, "client", nodes())
    assert run(client.committed(QUEUE, "readers")).epoch == 3
    for steps, ends in (
        (client.committed(QUEUE, "readers"), Failed),
        (client.pull(QUEUE, 7, limit=1), Failed),
        (client.commit(QUEUE, "readers", 5), Unknown),
    ):
        network.answers["broker-1", 1007] = [master, slave]  # it is the one with the route, and then not any more
        client._forget(QUEUE)
        with pytest.raises(ends, match="broker-1 is not the master") as caught:
            run(steps)
        told = caught.value.answer  # laws take offsets of a failed read for the master's
        assert (told.minimum, told.maximum, told.following) == (-1, -1, -1)


def test_a_route_counts_for_a_second() -> None:
    network = healthy()
    client = QueueClient(network, "client", nodes())
    for _ in range(3):
        run(client.send(QUEUE, "1", b"x"))
    assert network.codes("nameserver-0") == [105]
    network.clock_ns += 1_100_000_000
    run(client.send(QUEUE, "1", b"x"))
    assert network.codes("nameserver-0") == [105, 105]


@pytest.mark.parametrize(
    "body",
    [
        b"{]",
        b"[]",
        b"{}",
        b'{"brokerDatas":null}',
        b'{"brokerDatas":[7]}',
        b'{"brokerDatas":[{"brokerName":"broker-a"}]}',
    ],
)
def test_a_damaged_route_is_no_error_of_ours(body: bytes) -> None:
    """RocketMQ's frames carry no checksum, so bytes that a fault has changed come to whoever reads them."""
    network = healthy()
    network.says("nameserver-0", 105, body=body)
    with pytest.raises(Failed, match="no route from nameserver-0: damaged answer"):
        run(QueueClient(network, "client", nodes()).send(QUEUE, "1", b"x"))
    assert not network.codes("broker-1")


@pytest.mark.parametrize("text", ["", "-", "x", "\u00b2", "9" * 19, "9" * 40, "9" * 5000])
def test_what_is_no_number_of_64_bits_is_none(text: str) -> None:
    assert number({"offset": text}, "offset") == -1
    assert number({"offset": str(2**63 - 1)}, "offset") == 2**63 - 1
    assert number({"offset": str(-(2**63))}, "offset") == -(2**63)


def test_a_route_to_a_stranger_is_refused() -> None:
    network = healthy()
    route_of_a_stranger = b'{"brokerDatas":[{"brokerName":"broker-a","brokerAddrs":{"0":"10.0.0.9:1"}}]}'
    network.says("nameserver-0", 105, body=route_of_a_stranger)
    with pytest.raises(Failed, match=r"10\.0\.0\.9:1"):
        run(QueueClient(network, "client", nodes()).send(QUEUE, "1", b"x"))


def test_a_group_is_made_known_once_to_each_master_and_again_after_trouble() -> None:
    network = healthy()
    network.says("broker-1", 34)
    network.says("broker-1", 15)
    client = QueueClient(network, "client", nodes())

    async def twice() -> None:
        await client.commit(QUEUE, "readers", 3)
        await client.commit(QUEUE, "readers", 4)

    run(twice())
    assert [code for code in network.codes("broker-1") if code != 1007] == [34, 15, 15]
    network.says("broker-1", 15, result=26, remark="the consumer's group info not exist")
    with pytest.raises(Failed):
        run(client.commit(QUEUE, "readers", 5))
    network.says("broker-1", 15)
    run(client.commit(QUEUE, "readers", 5))
    assert [code for code in network.codes("broker-1") if code != 1007][-2:] == [34, 15]
    del network.answers["broker-1", 34]
    with pytest.raises(Failed):
        run(client.committed(QUEUE, "others"))


def test_a_replica_is_read_by_asking_it_and_its_bounds_are_two_questions(tmp_path: Any) -> None:
    log = list(CommitLog(folder=unpack(tmp_path) / "store/commitlog").read())
    first = next(one for one in log if one.queue_id == 1)
    data = (tmp_path / "store/commitlog/00000000000000000000").read_bytes()[first.position : first.end]
    network = healthy()
    network.says("broker-2", 11, body=data, nextBeginOffset="1", minOffset="0", maxOffset="82")
    network.says("broker-2", 30, offset="82")
    network.says("broker-2", 31, offset="5")
    client = QueueClient(network, "client", nodes())
    answer = run(client.pull(QUEUE, 0, limit=1, node="broker-2"))
    assert [(one.offset, one.hash) for one in answer.messages] == [(0, body_hash(first.body))]
    bounds = run(client.bounds(QUEUE, "broker-2"))
    assert (bounds.minimum, bounds.maximum) == (5, 82) and network.codes("nameserver-0") == []
    with pytest.raises(Failed):
        run(client.pull(QUEUE, 0, limit=1, source="tier"))


def test_a_switch_asks_the_leader_for_the_targets_id() -> None:
    network = healthy()
    network.step_ns = 5_000_000_000
    network.says("controller-1", 1002, masterEpoch="5")
    with pytest.raises(Unknown):  # in this table the master never changes
        run(create(Options()).switch(network, "broker-2", "broker-a"))
    assert network.fields(1002)["brokerId"] == "3"
    network.says("controller-1", 1002, result=2012, remark="elect failed")
    with pytest.raises(Failed, match="2012"):
        run(create(Options()).switch(network, "broker-2", "broker-a"))


def test_what_every_broker_holds_is_told_with_its_limits(tmp_path: Any) -> None:
    log = list(CommitLog(folder=unpack(tmp_path) / "store/commitlog").read())
    data = b"".join(path.read_bytes() for path in sorted((tmp_path / "store/commitlog").iterdir()))
    network = healthy()
    mine = [one for one in log if one.queue_id == 1]
    slices = [mine[:50], mine[50:]]
    network.says("broker-0", 11, body=b"")
    (empty,) = network.answers["broker-0", 11]
    bodies = [b"".join(data[one.position : one.end] for one in part) for part in slices]
    network.answers["broker-0", 11] = [replace(empty, body=body) for body in bodies]
    network.says("broker-0", 31, offset="0")
    network.says("broker-0", 30, offset=str(MESSAGES[1]))
    rows: list[tuple[str, dict[str, Any]]] = []

    def record(kind: str, **columns: Any) -> int:
        rows.append((kind, columns))
        return len(rows)

    driver = create(Options(queues=1))
    network.answers = {key: value for key, value in network.answers.items() if key[0] == "broker-0"}
    assert run(collect_broker(network, "broker-0", driver.queues(), record))
    logs = [columns for _, columns in rows if columns["f"] == "log"]
    assert [one["offset"] for one in logs] == list(range(MESSAGES[1])) and logs[0]["message"] == 1
    (told,) = (columns["value"] for _, columns in rows if columns["f"] == "node")
    assert told["confirm"] == mine[-1].end and told["first"] == 0 and told["maximums"] == {"0": MESSAGES[1]}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp := RECIPES[0].folder / "lib").mkdir(parents=True)
    for made in RECIPES[0].makes:
        (tmp.parent / made).touch()


@pytest.mark.usefixtures("installed")
def test_controllers_may_be_nodes_of_a_package() -> None:
    chosen = Options(controller_package="reference", timeout_ms=3000, controller_options={"mode": "classic"})
    driver = create(chosen).promising(Profile(unclean=True))
    (one,) = (node for node in driver.cluster("").nodes if node.name == "controller-1")
    assert (one.role, one.package, one.program) == ("controller", "reference", None)
    names = [f"controller-{number}" for number in range(3)]
    assert one.options == {"controllers": names, "broker_timeout_ms": 3000, "unclean": True, "mode": "classic"}
    assert isinstance(driver, CanHoldObjects) and Evidence.ELECTIONS in driver.evidence()
    assert not isinstance(create(Options()), CanHoldObjects) and driver.nodes.node_at("controller-2") == "controller-2"
    with pytest.raises(ValueError, match="there is no package 'refrence'"):
        create(Options(controller_package="refrence")).cluster("")


@pytest.mark.usefixtures("installed")
def test_the_programs_are_set_up_for_the_profile() -> None:
    weak = create(Options(broker_options={"slaveTimeout": 1000})).promising(Profile(flush="async", acks="master"))
    spec = weak.cluster("")
    assert len({port for node in spec.nodes if node.program for port in node.program.ports.values()}) == 13
    (broker,) = (node.program for node in spec.nodes if node.name == "broker-2")
    assert broker is not None
    lines = str(broker.files["node.conf"]).splitlines()
    assert {"flushDiskType=ASYNC_FLUSH", "allAckInSyncStateSet=false", "slaveTimeout=1000", "brokerIP1={ip}"} <= set(
        lines
    )
    for options, wrong in (
        ({"minInSyncReplicas": 1}, "minInSyncReplicas can't be given"),
        ({"slaveTimeout": "1\nminInSyncReplicas=1"}, "'slaveTimeout' is not one line"),
    ):
        with pytest.raises(ValueError, match=wrong):
            create(Options(broker_options=options)).cluster("")
    with pytest.raises(ValueError, match="needs 4 replicas"):
        create(Options()).promising(Profile(min_in_sync=4)).cluster("")


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected three numbers from 5\.1\.3 on, such as 5\.5\.0, got '4\.9\.4'"):
        Options(version="4.9.4")
