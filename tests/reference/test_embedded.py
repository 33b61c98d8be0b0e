"""Controllers within name servers: one node is both."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.mutants import run
from chaos.node import NodeSpec
from chaos.verdict import Validity
from drivers.reference.driver import Options, create
from reference import build
from reference.embedded import NameServerWithController
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.raftnet import World

NAMES = ["controller-0", "controller-1", "controller-2"]


def make(name: str) -> Any:
    options = {"controllers": NAMES, "embedded": True}
    return build(NodeSpec(name=name, role="controller", package="reference", options=options))


def settled() -> World:
    world = World(1, {name: lambda name=name: make(name) for name in NAMES})
    world.run(3000, until=lambda: bool(leaders(world)))
    world.run(200)
    return world


def leaders(world: World) -> list[str]:
    return [name for name in world.envs if world.nodes[name].controller.raft.leads_committed]


def ask(world: World, node: str, code: Request, **fields: str) -> Command:
    world.inbox.clear()
    world.nodes[node].message(world.envs[node], "client", Command(code=code, opaque=7, fields=fields))
    world.run(300)
    (answer,) = (message for _, to, message in world.inbox if to == "client" and message.opaque == 7)
    return answer


def register(world: World, node: str) -> Command:
    about = {"brokerAddr": "b0", "brokerId": "0", "brokerName": "g", "clusterName": "c"}
    return ask(world, node, Request.REGISTER_BROKER, **about)


def test_a_node_answers_for_routes_and_for_elections() -> None:
    world = settled()
    (leader,) = leaders(world)
    assert isinstance(world.nodes[leader], NameServerWithController)
    assert register(world, leader).code == Response.SUCCESS
    assert ask(world, leader, Request.CONTROLLER_GET_NEXT_BROKER_ID, brokerName="g").fields["nextBrokerId"] == "1"
    told = json.loads(ask(world, leader, Request.DESCRIBE).body)
    assert (told["role"], told["routes"]["g"]["brokers"]) == ("leader", ["b0"])
    assert ask(world, leader, Request.SEND_MESSAGE).code == Response.REQUEST_CODE_NOT_SUPPORTED


def test_what_hits_the_node_hits_both() -> None:
    world = settled()
    (old,) = leaders(world)
    others = [name for name in NAMES if name != old]
    for name in NAMES:
        register(world, name)
    world.crash(old)
    world.run(4000, until=lambda: bool(leaders(world)))
    (new,) = leaders(world)
    assert new in others
    for name in others:
        assert json.loads(ask(world, name, Request.GET_BROKER_CLUSTER_INFO).body)["brokerAddrTable"].keys() == {"g"}
    world.start(old)
    world.run(1000)
    told = json.loads(ask(world, old, Request.DESCRIBE).body)
    assert (told["leader"], told["routes"]) == (new, {})


def test_routes_expire_and_a_broken_connection_ends_both_kinds_of_life() -> None:
    world = settled()
    (leader,) = leaders(world)
    register(world, leader)
    beat = {"brokerAddr": "client", "brokerName": "g", "brokerId": "1"}
    assert ask(world, leader, Request.BROKER_HEARTBEAT, **beat).code == Response.SUCCESS
    world.nodes[leader].closed(world.envs[leader], "client")
    told = json.loads(ask(world, leader, Request.DESCRIBE).body)
    assert told["routes"]["g"]["brokers"] == []
    assert len(world.nodes[leader].controller._heartbeats) == 0
    register(world, leader)
    world.run(11_000)
    assert json.loads(ask(world, leader, Request.DESCRIBE).body)["routes"]["g"]["brokers"] == []


def test_the_driver_has_no_other_name_servers() -> None:
    driver = create(Options(embedded=True, tier=False))
    spec = driver.cluster("")
    assert [node.name for node in spec.nodes if node.role != "broker"] == NAMES
    assert driver.nameservers == driver.controllers


@pytest.mark.parametrize("more", [{"metadata": True}, {"nameservers": 2}])
def test_what_does_not_go_with_it_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="embedded"):
        Options(embedded=True, **more)


def test_the_example_is_valid() -> None:
    assert run("embedded_controllers", "", 1).validity is Validity.VALID
