"""Objects in the controllers' metadata: only clients change them, and every controller tells the same of them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from chaos.node import NodeSpec
from reference.controller.node import UNATTENDED, Controller
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.raftnet import World

CONTROLLERS = ("c0", "c1", "c2")


class Client:
    """Asks one controller at a time, from outside."""

    def __init__(self, seed: int, cluster: str = UNATTENDED) -> None:
        options = {"controllers": list(CONTROLLERS), "snapshot_entries": 10}
        specs = {
            name: NodeSpec(name=name, role="controller", package="reference", options=options) for name in CONTROLLERS
        }
        self.world = World(seed, {name: lambda spec=spec: Controller(spec) for name, spec in specs.items()})  # type: ignore[misc]
        self.cluster = cluster
        self.number = 0

    @property
    def leader(self) -> str:
        self.world.run(5_000, until=lambda: any(self.leads(name) for name in self.world.envs))
        return next(name for name in self.world.envs if self.leads(name))

    def leads(self, name: str) -> bool:
        return bool(self.world.nodes[name].raft.leads_committed)

    def ask(self, node: str, code: Request, body: object = None, **fields: object) -> Command:
        self.number += 1
        texts = {"clusterName": self.cluster, "brokerName": "o", **{key: str(value) for key, value in fields.items()}}
        content = b"" if body is None else json.dumps(body).encode()
        message = Command(code=code, opaque=self.number, fields=texts, body=content)
        self.world.nodes[node].message(self.world.envs[node], f"client-{self.number}", message)
        self.world.run(3_000, until=lambda: self.answer() is not None)
        found = self.answer()
        assert found is not None, "no answer"
        return found

    def answer(self) -> Command | None:
        mine = [message for _, to, message in self.world.inbox if to == f"client-{self.number}"]
        return mine[0] if mine else None

    def create(self, members: int = 3) -> None:
        for broker in range(1, members + 1):
            made = self.ask(
                self.leader,
                Request.CONTROLLER_APPLY_BROKER_ID,
                appliedBrokerId=broker,
                registerCheckCode=f"o/{broker};0",
            )
            assert made.code == 0
        made = self.ask(self.leader, Request.CONTROLLER_ELECT_MASTER, brokerId=1, designateElect="false")
        assert made.code in (0, Response.CONTROLLER_MASTER_STILL_EXIST)

    def alter(self, epoch: int, *members: int) -> Command:
        body = {"syncStateSet": list(members), "syncStateSetEpoch": epoch}
        fields = {"masterBrokerId": 1, "masterEpoch": 1}
        return self.ask(self.leader, Request.CONTROLLER_ALTER_SYNC_STATE_SET, body, **fields)

    def state(self, node: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.ask(node, Request.CONTROLLER_GET_REPLICA_INFO).body)
        return told


def test_a_set_is_changed_without_a_single_heartbeat() -> None:
    client = Client(1)
    client.create()
    assert client.alter(1, 1, 3).code == 0
    assert client.alter(1, 1, 2).code == Response.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
    assert [client.state(name) for name in CONTROLLERS] == [{"syncStateSet": [1, 3], "syncStateSetEpoch": 2}] * 3


def test_without_the_cluster_s_name_a_silent_group_is_looked_after() -> None:
    client = Client(1, cluster="stormproof")
    for broker in (1, 2):
        client.ask(
            client.leader, Request.CONTROLLER_APPLY_BROKER_ID, appliedBrokerId=broker, registerCheckCode=f"b{broker};0"
        )
    elected = client.ask(client.leader, Request.CONTROLLER_ELECT_MASTER, brokerId=1, designateElect="false")
    assert elected.code == Response.CONTROLLER_ELECT_MASTER_FAILED


@pytest.mark.parametrize("seed", range(4))
def test_crashes_and_new_leaders_change_nothing(seed: int) -> None:
    client, rng = Client(seed), Random(seed)
    client.create()
    assert client.alter(1, 1, 2, 3).code == 0
    for _ in range(6):
        victim = client.leader if rng.random() < 0.5 else rng.choice(CONTROLLERS)
        client.world.crash(victim)
        client.world.run(rng.randint(500, 4_000))
        client.world.heal()
        client.world.run(4_000)
    expected = {"syncStateSet": [1, 2, 3], "syncStateSetEpoch": 2}
    assert client.leader and [client.state(name) for name in CONTROLLERS] == [expected] * 3
    assert {group.master for group in (client.world.nodes[name].replicas.groups["o"] for name in CONTROLLERS)} == {1}


def test_steps_of_making_an_object_that_come_late_change_nothing() -> None:
    client = Client(2)
    client.create()
    assert client.alter(1, 1, 2).code == 0
    written = client.ask(
        client.leader, Request.CONTROLLER_REGISTER_BROKER, brokerId=3, brokerAddress="here", generation=1
    )
    assert written.code == 0
    client.create()
    group = client.world.nodes[client.leader].replicas.groups["o"]
    assert (group.members, group.set_epoch, group.master, group.master_epoch) == ((1, 2), 2, 1, 1)
    assert group.replicas[3].address == "here"


def test_entries_of_such_groups_are_marked_in_the_trace() -> None:
    client = Client(3)
    client.create()
    client.alter(1, 1, 2)
    entries = [value["entry"] for _, _, f, value in client.world.traces if f == "applied" and "group" in value["entry"]]
    assert entries and all(entry.get("unattended") is True for entry in entries)
