"""Routes: the newest master epoch wins, whatever registers afterwards."""

from __future__ import annotations

import json
from typing import Any

from chaos.node import NodeSpec
from reference.nameserver import NameServer
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.raftnet import World
from tests.reference.seam import deliver


def make_world() -> World:
    spec = NodeSpec(name="ns", role="nameserver", package="reference", options={"expire_ms": 3000})
    return World(1, {"ns": lambda: NameServer(spec)})


def ask(world: World, source: str, message: Command) -> Command:
    world.inbox.clear()
    deliver(world.nodes["ns"], world.envs["ns"], source, message)
    ((_, to, answer),) = world.inbox
    assert to == source
    return answer


def register(world: World, address: str, broker: int, epoch: int, topics: tuple[str, ...] = ("t",)) -> Command:
    table = {name: {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6} for name in topics}
    wrapper = {"dataVersion": {"stateVersion": epoch}, "topicConfigTable": table}
    body = json.dumps({"topicConfigSerializeWrapper": wrapper}).encode()
    fields = {"brokerName": "g", "brokerAddr": address, "clusterName": "c", "brokerId": str(broker)}
    return ask(world, address, Command(code=Request.REGISTER_BROKER, fields=fields, body=body))


def addresses(world: World, topic: str = "t") -> Any:
    answer = ask(world, "client", Command(code=Request.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic}))
    if answer.code:
        return answer.code
    (data,) = json.loads(answer.body)["brokerDatas"]
    return data["brokerAddrs"]


def routes(world: World) -> list[tuple[int, str, list[str]]]:
    return [(row["epoch"], row["master"], row["brokers"]) for _, _, f, row in world.traces if f == "route"]


def test_a_route_names_the_master_as_zero_and_the_slaves_by_id() -> None:
    world = make_world()
    register(world, "b1", 0, 1)
    answer = register(world, "b2", 2, 1)
    assert answer.fields["masterAddr"] == "b1"
    assert addresses(world) == {"0": "b1", "2": "b2"}
    assert addresses(world, "other") == Response.TOPIC_NOT_EXIST


def test_an_older_master_never_comes_back() -> None:
    world = make_world()
    register(world, "b1", 0, 1)
    register(world, "b2", 0, 2)
    assert addresses(world) == {"0": "b2"}, "the old master's address leaves the route at once"
    register(world, "b1", 0, 1)
    assert addresses(world) == {"0": "b2"}
    world.nodes["ns"].closed(world.envs["ns"], "b2")
    register(world, "b1", 0, 1)
    assert addresses(world) == Response.TOPIC_NOT_EXIST, "the epoch is remembered when its master is gone"


def test_a_slave_of_a_newer_epoch_puts_the_older_master_out() -> None:
    world = make_world()
    register(world, "b1", 0, 1)
    register(world, "b2", 2, 2)
    assert addresses(world) == {"2": "b2"}


def test_a_demoted_master_moves_to_its_own_id() -> None:
    world = make_world()
    register(world, "b1", 0, 1)
    register(world, "b2", 0, 2)
    register(world, "b1", 1, 2)
    assert addresses(world) == {"0": "b2", "1": "b1"}


def test_a_wiped_broker_is_in_the_route_once() -> None:
    world = make_world()
    register(world, "b2", 2, 1)
    register(world, "b2", 4, 1)
    assert addresses(world) == {"4": "b2"}


def test_registrations_expire_and_end_with_their_connection() -> None:
    world = make_world()
    register(world, "b1", 0, 1)
    world.run(2000)
    register(world, "b2", 2, 1)
    world.run(2000)
    assert addresses(world) == {"2": "b2"}
    world.nodes["ns"].closed(world.envs["ns"], "b2")
    assert addresses(world) == Response.TOPIC_NOT_EXIST


def test_unregistering_as_master_leaves_a_later_registration_alone() -> None:
    world = make_world()
    register(world, "b1", 1, 2)
    fields = {"brokerName": "g", "brokerAddr": "b1", "clusterName": "c", "brokerId": "0"}
    ask(world, "b1", Command(code=Request.UNREGISTER_BROKER, fields=fields))
    assert addresses(world) == {"1": "b1"}
    ask(world, "b1", Command(code=Request.UNREGISTER_BROKER, fields={**fields, "brokerId": "1"}))
    assert addresses(world) == Response.TOPIC_NOT_EXIST


def test_each_change_of_a_route_is_traced_once() -> None:
    world = make_world()
    for _ in range(3):
        register(world, "b1", 0, 1)
    register(world, "b2", 2, 1)
    register(world, "b2", 0, 2)
    assert routes(world) == [(1, "b1", ["b1"]), (1, "b1", ["b1", "b2"]), (2, "b2", ["b2"])]


def test_cluster_and_topics_are_listed() -> None:
    world = make_world()
    register(world, "b1", 0, 1, ("t", "u"))
    answer = ask(world, "client", Command(code=Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
    assert json.loads(answer.body) == {"topicList": ["t", "u"]}
    answer = ask(world, "client", Command(code=Request.GET_BROKER_CLUSTER_INFO))
    assert json.loads(answer.body)["brokerAddrTable"]["g"]["brokerAddrs"] == {"0": "b1"}
    answer = ask(world, "client", Command(code=Request.DESCRIBE))
    assert json.loads(answer.body) == {"routes": {"g": {"master": "b1", "epoch": 1, "brokers": ["b1"]}}}


def test_nonsense_is_refused_and_changes_nothing() -> None:
    world = make_world()
    fields = {"brokerName": "g", "brokerAddr": "b1", "brokerId": "zero"}
    for body in (b"{", b"[]", b'{"topicConfigSerializeWrapper": 3}', b""):
        answer = ask(world, "b1", Command(code=Request.REGISTER_BROKER, fields=fields, body=body))
        assert answer.code == Response.SYSTEM_ERROR
    assert ask(world, "b1", Command(code=4711)).code == Response.REQUEST_CODE_NOT_SUPPORTED
    assert not routes(world)


def test_administrators_stop_clients_from_sending_to_a_group_and_let_them_again() -> None:
    world = make_world()
    register(world, "b1", 0, 1, ("t", "u"))

    def perms() -> list[int]:
        answer = ask(world, "client", Command(code=Request.GET_ROUTEINFO_BY_TOPIC, fields={"topic": "t"}))
        return [queues["perm"] for queues in json.loads(answer.body)["queueDatas"]]

    def says(code: Request, group: str = "g") -> dict[str, str]:
        answer = ask(world, "admin", Command(code=code, fields={"brokerName": group}))
        assert answer.code == 0
        return dict(answer.fields)

    assert says(Request.WIPE_WRITE_PERM, "another") == {"wipeTopicCount": "0"} and perms() == [6]
    assert says(Request.WIPE_WRITE_PERM) == {"wipeTopicCount": "2"} and perms() == [4]
    register(world, "b2", 0, 2, ("t", "u"))
    assert perms() == [4], "until administrators say otherwise, also under another master"
    assert says(Request.ADD_WRITE_PERM) == {"addTopicCount": "2"} and perms() == [6]


def test_administrators_see_its_options_and_do_not_change_them() -> None:
    world = make_world()
    assert ask(world, "admin", Command(code=Request.GET_NAMESERVER_CONFIG)).body == b"expire_ms=3000\n"
    refused = ask(world, "admin", Command(code=Request.UPDATE_NAMESERVER_CONFIG, body=b"expire_ms=1"))
    assert refused.code == Response.NO_PERMISSION and "options are given at the start" in refused.remark
