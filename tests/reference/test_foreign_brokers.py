"""Brokers as RocketMQ's own: they tell no generation, are known by address, and only their connections break."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.node import Env, NodeSpec
from reference.controller.liveness import Heartbeat, Heartbeats
from reference.controller.node import Controller
from reference.wire.codes import Request, Response
from reference.wire.command import ONEWAY, Command
from tests.reference.raftnet import World
from tests.reference.test_controller import BROKERS, CONTROLLERS, GROUP, FakeBroker, check_roles, entries, group


def address(name: str) -> str:
    return f"{name}:10911"


class ForeignBroker(FakeBroker):
    def call(self, env: Env, code: Request, body: bytes = b"", **fields: object) -> None:
        for key in ("generation", "life", "clean"):
            fields.pop(key, None)
        if "brokerAddress" in fields:
            fields["brokerAddress"] = address(self.name)
        if "registerCheckCode" in fields:
            fields["registerCheckCode"] = f"{address(self.name)};1"
        super().call(env, code, body, **fields)

    def heartbeat(self, env: Env, broker: int) -> None:
        fields = {"brokerName": GROUP, "brokerAddr": address(self.name), "brokerId": str(broker)}
        fields |= {"epoch": str(self.epoch), "maxOffset": "100"}
        for controller in CONTROLLERS:
            env.send(controller, Command(code=Request.BROKER_HEARTBEAT, flags=ONEWAY, fields=fields))

    def message(self, env: Env, source: str, message: Command) -> None:
        known = message.code == Response.CONTROLLER_MASTER_STILL_EXIST
        super().message(env, source, replace(message, code=0) if known else message)

    def learn(self, message: Command) -> None:
        super().learn(message)
        self.master = self.master.partition(":")[0]


def settled(seed: int) -> World:
    lives: dict[str, int] = {}
    ids: dict[str, int] = {}
    make: dict[str, Any] = {}
    for name in CONTROLLERS:
        spec = NodeSpec(name=name, role="controller", package="reference", options={"controllers": list(CONTROLLERS)})
        make[name] = lambda spec=spec: Controller(spec)
    for name in BROKERS:
        make[name] = lambda name=name: ForeignBroker(name, lives, ids)
    world = World(seed, make)
    world.run(6000)
    assert len(group(world)["set"]) == 3
    return world


def test_they_elect_and_a_broken_connection_is_noticed_at_once() -> None:
    world = settled(1)
    old = group(world)["master"]
    assert old in map(address, BROKERS) and group(world)["epoch"] == 1
    world.crash(old.partition(":")[0])
    world.run(300)
    told = group(world)
    assert told["master"] not in ("", old) and told["epoch"] == 2 and old not in told["alive"]
    world.start(old.partition(":")[0])
    world.run(4000)
    assert len(group(world)["set"]) == 3 and group(world)["epoch"] == 2
    check_roles(world)


def test_a_master_that_begins_again_gets_a_new_epoch_and_keeps_its_place_in_the_set() -> None:
    world = settled(2)
    for name in BROKERS:  # all at once, so that nobody else is there
        world.crash(name)
    for name in BROKERS:
        world.start(name)
    world.run(6000)
    told = group(world)
    assert told["master"] and told["epoch"] > 1 and len(told["set"]) == 3
    check_roles(world)
    lives = [entry["generation"] for entry in entries(world) if entry["type"] == "register"]
    assert sorted(lives) == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("again", ["other", "same"])
def test_who_speaks_by_which_connection(again: str) -> None:
    beats = Heartbeats()

    def beat(address: str, connection: str) -> None:
        beats.put(address, Heartbeat("g", 1, 0, (0, 0, 0), "" if connection == address else connection))

    beat("a:1", "one")
    beat("b:1", "one")
    beat("c", "c")
    beat("b:1", "two" if again == "other" else "one")
    assert [len(beats.cut_off(peer)) for peer in ("a:1", "b:1", "nobody")] == [0, 0, 0], "they came by others"
    assert len(beats.cut_off("one")) == (1 if again == "other" else 2)
    assert len(beats.cut_off("two")) == (1 if again == "other" else 0)
    assert len(beats) == 1 and len(beats.cut_off("c")) == 1 and not beats._speakers
