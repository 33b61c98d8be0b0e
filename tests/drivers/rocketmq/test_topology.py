"""Several broker groups, JRaft controllers, and controllers inside of name servers."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping
from typing import Any

import pytest

from chaos.driver import Disconnected, Profile
from chaos.ops import Failed, Unknown
from drivers._java import recipes
from drivers._remoting.dialled import DialledConnection
from drivers._remoting.wire import RemotingCodec
from drivers.rocketmq.client import QueueClient
from drivers.rocketmq.cluster import ControllerType
from drivers.rocketmq.driver import PROBE, Options, create
from drivers.rocketmq.programs import port_of
from reference.wire.command import Command
from tests.drivers.rocketmq.fake import FakeNetwork

GROUPS = {"broker-a": ("broker-0", "broker-1"), "broker-b": ("broker-2", "broker-3")}
#: Who leads each group.
MASTERS = {"broker-a": "broker-1", "broker-b": "broker-2"}
TWO = Options(groups=2, brokers=2, queues=2)


def address(name: str) -> str:
    return f"10.0.0.1:{port_of(name)}"


def state(*, out_of_sync: str = "") -> Mapping[str, object]:
    """As the controllers' leader answers 1006."""
    tables = {}
    for group, names in GROUPS.items():
        entries = [
            {"brokerAddress": address(name), "brokerId": number, "brokerName": group}
            for number, name in enumerate(names, 1)
        ]
        tables[group] = {
            "inSyncReplicas": [one for one in entries if one["brokerAddress"] != address(out_of_sync or "broker-9")],
            "notInSyncReplicas": [one for one in entries if one["brokerAddress"] == address(out_of_sync or "broker-9")],
            "masterAddress": address(MASTERS[group]),
            "masterEpoch": 1,
        }
    return {"replicasInfoTable": tables}


def healthy() -> FakeNetwork:
    network = FakeNetwork()
    network.says("controller-0", 1005, isLeader="true")
    network.says("controller-0", 1006, body=state())
    route = [
        {"brokerName": group, "brokerAddrs": {"0": address(MASTERS[group])}, "cluster": "stormproof"}
        for group in GROUPS
    ]
    network.says("nameserver-0", 105, body={"brokerDatas": route})
    for group, names in GROUPS.items():
        for name in names:
            is_master = name == MASTERS[group]
            epochs = [{"epoch": 1, "startOffset": 0}]
            network.says(name, 1007, body={"brokerId": 0 if is_master else 2, "maxOffset": 9, "epochList": epochs})
            answers = [Command(code=0, flags=1, body=f'{{"topicName":"{one}"}}'.encode()) for one in (PROBE, "storm")]
            network.answers[name, 351] = answers
        network.says(MASTERS[group], 907, body={"master": True, "inSyncSlaveNums": 1})
        network.says(MASTERS[group], 17)
        network.says(MASTERS[group], 310, queueOffset="7")
    return network


def test_each_group_has_a_leader_a_set_and_topics_of_its_own() -> None:
    network = healthy()
    driver = create(TWO)
    assert asyncio.run(driver.set_up(network))
    view = asyncio.run(driver.view(network))
    assert view.settled and view.leaders == ("broker-1", "broker-2")
    assert [(one.name, one.replicas, set(one.in_sync)) for one in view.groups] == [
        (name, names, set(names)) for name, names in GROUPS.items()
    ]
    for master in MASTERS.values():
        assert network.codes(master).count(17) == 2 and network.codes(master).count(310) == 1


@pytest.mark.parametrize(
    "trouble",
    [
        lambda n: n.says("controller-0", 1006, body=state(out_of_sync="broker-3")),
        lambda n: n.says("broker-2", 310, result=1, remark="in-sync replicas not enough"),
        lambda n: n.says("broker-2", 907, body={"master": True, "inSyncSlaveNums": 0}),
    ],
)
def test_a_cluster_is_settled_once_every_group_is(trouble: Any) -> None:
    network = healthy()
    trouble(network)
    assert not asyncio.run(create(TWO).view(network)).settled


def test_clients_ask_the_master_of_the_group_that_has_the_queue() -> None:
    network, driver = healthy(), create(TWO)
    client = QueueClient(network, "client", driver.nodes)
    queues = driver.queues()
    assert [(one.index, one.topic, one.queue_id) for one in queues] == [
        (0, "storm", 0), (1, "storm", 1), (2, "storm", 0), (3, "storm", 1)
    ]  # fmt: skip
    answers = [asyncio.run(client.send(queue, "1", b"x")) for queue in queues]
    assert [one.node for one in answers] == ["broker-1", "broker-1", "broker-2", "broker-2"]
    network.says("broker-2", 310, result=12)
    with pytest.raises(Unknown):
        asyncio.run(client.send(queues[2], "1", b"x"))
    asyncio.run(client.send(queues[0], "1", b"x"))
    assert network.codes("nameserver-0") == [105, 105]  # one for each group: what one forgets, the other one keeps


def test_a_switch_is_one_groups() -> None:
    network, driver = healthy(), create(TWO)
    network.step_ns = 5_000_000_000
    network.says("controller-0", 1002)
    with pytest.raises(Unknown):  # in this table the master never changes
        asyncio.run(driver.switch(network, "broker-3", "broker-b"))
    assert (network.fields(1002)["brokerName"], network.fields(1002)["brokerId"]) == ("broker-b", "2")
    with pytest.raises(Failed, match="doesn't know broker-3"):
        asyncio.run(driver.switch(network, "broker-3", "broker-a"))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for one in recipes.RECIPES:
        (one.folder / "lib").mkdir(parents=True)
        for made in one.makes:
            (one.folder / made).touch()


def config(options: Options, name: str) -> tuple[Mapping[str, str], Mapping[str, int]]:
    """The properties of a node, and its ports."""
    (program,) = (one.program for one in create(options).promising(Profile()).cluster("").nodes if one.name == name)
    assert program is not None
    lines = (line.partition("=") for line in str(program.files["node.conf"]).splitlines())
    return {key: value for key, _, value in lines}, program.ports


@pytest.mark.usefixtures("installed")
def test_the_second_groups_brokers_have_its_name() -> None:
    told = [config(TWO, f"broker-{number}")[0]["brokerName"] for number in range(4)]
    assert told == ["broker-a", "broker-a", "broker-b", "broker-b"]


@pytest.mark.usefixtures("installed")
def test_jraft_controllers_vote_at_ports_of_their_own() -> None:
    told, ports = config(Options(controller_type=ControllerType.JRAFT), "controller-1")
    assert told["controllerType"] == "jRaft" and told["jRaftServerId"] == f"{{ip:controller-1}}:{ports['votes']}"
    assert told["jRaftInitConf"].split(",")[1] == told["jRaftServerId"] and "controllerDLegerPeers" not in told
    assert told["jRaftControllerRPCAddr"].split(",")[1] == f"{{ip:controller-1}}:{ports['main']}"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("kind", list(ControllerType))
def test_an_embedded_controller_and_its_name_server_are_one_node_with_a_port_each(kind: ControllerType) -> None:
    options = Options(embedded=True, controller_type=kind)
    names = [node.name for node in create(options).cluster("").nodes]
    assert names == ["controller-0", "controller-1", "controller-2", "broker-0", "broker-1", "broker-2"]
    told, ports = config(options, "controller-2")
    assert told["enableControllerInNamesrv"] == "true" and told["listenPort"] == str(ports["nameserver"])
    assert ports["main"] == port_of("controller-2") != ports["nameserver"]
    addresses = config(options, "broker-0")[0]["namesrvAddr"].split(";")
    assert addresses[2] == f"{{ip:controller-2}}:{ports['nameserver']}" and len(addresses) == 3
    told, _ = config(Options(embedded=True, tier=True, shared_tier=True), "broker-0")
    assert told["tieredStoreFilePath"] == "{disk}/../controller-0/tier"


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"version": "5.1.4", "controller_type": ControllerType.JRAFT}, "5.1.4 has no JRaft .* came with 5.2.0"),
        ({"embedded": True, "nameservers": 2}, "leave out nameservers: 2"),
        ({"embedded": True, "controller_package": "reference"}, "leave out controller_type and embedded"),
        ({"controller_type": ControllerType.JRAFT, "controller_package": "reference"}, "leave out controller_type"),
    ],
)
def test_what_cant_be_had_together_is_refused_in_one_sentence(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        Options(**options)


class Door:
    """Implements what :class:`DialledConnection` needs of :class:`chaos.driver.Dials`: a port that answers like this,
    and how often it was dialled."""

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.dialled = list(answers), [""][:0]

    async def dial(self, client: str, node: str, port: str = "") -> tuple[StreamReader, StreamWriter]:
        self.dialled.append(f"{client} {node} {port}")
        if not self.answers:
            raise Disconnected(f"{node} is down", sent=False)
        self.server = await asyncio.start_server(self._answer, "127.0.0.1")
        host, number = self.server.sockets[0].getsockname()
        return await asyncio.open_connection(host, number)

    async def _answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(self.answers.pop(0))
        await writer.drain()
        writer.close()


def test_a_request_to_another_port_of_a_node_dials_it() -> None:
    answer = RemotingCodec().encode(Command(code=0, opaque=1, flags=1, body=b"{}"))
    late = RemotingCodec().encode(Command(code=7, opaque=9, flags=1))

    async def asked(door: Door) -> Command:
        connection = DialledConnection(door, "client", "controller-0", "nameserver", RemotingCodec())  # type: ignore[arg-type]
        return await connection.request(Command(code=105), 5.0)

    door = Door(late + answer)
    assert asyncio.run(asked(door)).body == b"{}" and door.dialled == ["client controller-0 nameserver"]
    for answers, sent in (((), False), ((b"",), True), ((late,), True), ((b"\xff" * 64,), True)):
        with pytest.raises(Disconnected) as error:
            asyncio.run(asked(Door(*answers)))
        assert error.value.sent is sent
