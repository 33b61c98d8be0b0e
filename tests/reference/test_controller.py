"""The controllers as nodes: elections by themselves, answers after commit, reads anywhere, no split opinion."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from chaos.node import Env, NodeSpec
from reference.controller.node import Controller
from reference.wire.codes import Request, Response
from reference.wire.command import ONEWAY, Command
from tests.reference.raftnet import MS, World
from tests.reference.seam import deliver

CONTROLLERS = ("c0", "c1", "c2")
BROKERS = ("b0", "b1", "b2")
GROUP = "g"


class FakeBroker:
    """As much of a broker as controllers see: identity, heartbeats, polls, and a growing SyncStateSet when master."""

    def __init__(self, name: str, lives: dict[str, int], ids: dict[str, int]) -> None:
        self.name, self.lives, self.ids = name, lives, ids
        self.calls: dict[int, int] = {}
        self.opaque = 0
        self.asked = 0
        self.joined = False
        self.master = ""
        self.epoch = 0
        self.set: tuple[int, ...] = ()
        self.set_epoch = 0
        self.notified = 0

    def start(self, env: Env) -> None:
        self.lives[self.name] = self.lives.get(self.name, 0) + 1
        env.set_timer("tick", 50 * MS)

    def call(self, env: Env, code: Request, body: bytes = b"", **fields: object) -> None:
        self.opaque += 1
        self.calls[self.opaque] = code
        texts = {"clusterName": "c", "brokerName": GROUP, **{key: str(value) for key, value in fields.items()}}
        message = Command(code=code, opaque=self.opaque, fields=texts, body=body)
        env.send(CONTROLLERS[self.asked % len(CONTROLLERS)], message)

    def timer(self, env: Env, name: str) -> None:
        env.set_timer("tick", 150 * MS)
        self.asked += self.calls != {}
        self.calls.clear()
        broker = self.ids.get(self.name)
        if broker is None:
            self.call(env, Request.CONTROLLER_GET_NEXT_BROKER_ID)
        elif not self.joined:
            life = self.lives[self.name]
            fields = {"brokerId": broker, "brokerAddress": self.name, "generation": life, "life": f"{life}"}
            self.call(env, Request.CONTROLLER_REGISTER_BROKER, clean="true", **fields)
        else:
            self.heartbeat(env, broker)
            if not self.master:
                self.call(env, Request.CONTROLLER_ELECT_MASTER, brokerId=broker, designateElect="false")
            elif self.master == self.name and len(self.set) < len(self.ids):
                body = json.dumps({"syncStateSet": sorted(self.ids.values()), "syncStateSetEpoch": self.set_epoch})
                fields = {"masterBrokerId": broker, "masterEpoch": self.epoch}
                self.call(env, Request.CONTROLLER_ALTER_SYNC_STATE_SET, body.encode(), **fields)
            else:
                self.call(env, Request.CONTROLLER_GET_REPLICA_INFO)

    def heartbeat(self, env: Env, broker: int) -> None:
        fields = {"brokerName": GROUP, "brokerAddr": self.name, "brokerId": str(broker), "epoch": str(self.epoch)}
        fields |= {"maxOffset": "100", "generation": str(self.lives[self.name])}
        for controller in CONTROLLERS:
            env.send(controller, Command(code=Request.BROKER_HEARTBEAT, flags=ONEWAY, fields=fields))

    def message(self, env: Env, source: str, message: Command) -> None:
        if message.code == Request.NOTIFY_BROKER_ROLE_CHANGED and not message.is_response:
            self.notified += 1
            self.learn(message)
            return
        code = self.calls.pop(message.opaque, 0)
        if message.code == Response.CONTROLLER_NOT_LEADER:
            self.asked += 1
        elif code == Request.CONTROLLER_GET_NEXT_BROKER_ID:
            number = int(message.fields["nextBrokerId"])
            self.call(
                env, Request.CONTROLLER_APPLY_BROKER_ID, appliedBrokerId=number, registerCheckCode=f"{self.name};1"
            )
            self.applying = number
        elif code == Request.CONTROLLER_APPLY_BROKER_ID and message.code == 0:
            self.ids[self.name] = self.applying
        elif code == Request.CONTROLLER_REGISTER_BROKER and message.code == 0:
            self.joined = True
            self.learn(message)
        elif code and message.code == 0:
            self.learn(message)

    def learn(self, message: Command) -> None:
        epoch = int(message.fields.get("masterEpoch", "-1"))
        if epoch >= self.epoch:
            self.master, self.epoch = message.fields["masterAddress"], epoch
            told = json.loads(message.body)
            self.set = tuple(told.get("syncStateSet", ()))
            self.set_epoch = int(message.fields.get("syncStateSetEpoch", -1))
        elif "masterEpoch" not in message.fields and "newSyncStateSetEpoch" not in message.fields:
            self.master = ""

    def done(self, env: Env, token: int) -> None: ...

    def closed(self, env: Env, peer: str) -> None: ...


def make_world(seed: int, **options: object) -> World:
    names = {"controllers": list(CONTROLLERS), "snapshot_entries": 20, **options}
    lives: dict[str, int] = {}
    ids: dict[str, int] = {}
    make: dict[str, Any] = {}
    for name in CONTROLLERS:
        spec = NodeSpec(name=name, role="controller", package="reference", options=names)
        make[name] = lambda spec=spec: Controller(spec)
    for name in BROKERS:
        make[name] = lambda name=name: FakeBroker(name, lives, ids)
    return World(seed, make)


def leader(world: World) -> Controller:
    found = [world.nodes[name] for name in CONTROLLERS if name in world.envs and world.nodes[name].raft.is_leader]
    return max(found, key=lambda node: node.raft.term)


def group(world: World) -> dict[str, Any]:
    node = leader(world)
    told: dict[str, Any] = node.describe(world.envs[node.raft.name])["groups"][GROUP]
    return told


def settled(seed: int, **options: object) -> World:
    world = make_world(seed, **options)
    world.run(6000)
    assert len(group(world)["set"]) == 3
    return world


def ask(world: World, to: str, code: int, body: bytes = b"", **fields: object) -> Command | None:
    world.inbox.clear()
    texts = {key: str(value) for key, value in fields.items()}
    deliver(world.nodes[to], world.envs[to], "client", Command(code=code, fields=texts, body=body))
    world.run(3000, until=lambda: bool(world.inbox))
    return world.inbox[0][2] if world.inbox else None


def entries(world: World, name: str = "") -> list[dict[str, Any]]:
    """Applied entries by index, over all controllers; they must agree."""
    found: dict[int, tuple[int, dict[str, Any]]] = {}
    for node, _, f, row in world.traces:
        if f == "applied" and name in ("", node):
            entry = (row["epoch"], row["entry"])
            assert found.setdefault(row["position"], entry) == entry, f"controllers differ at {row['position']}"
    return [found[index][1] for index in sorted(found)]


def check_roles(world: World) -> Counter[str]:
    """One master per epoch, epochs only grow, each master from the set before it, retired ones out of it."""
    epoch, set_epoch = 0, 0
    members: list[str] = []
    seen: Counter[str] = Counter()
    for entry in entries(world):
        seen[entry["type"]] += 1
        if "master_epoch" in entry and entry["type"] != "alter":
            assert entry["master_epoch"] == epoch + 1
            epoch = entry["master_epoch"]
        if entry["type"] == "elect":
            assert entry["previous_set"] == members
            assert entry["bootstrap"] or entry["master"] in members
        if "set" in entry:
            assert entry["set_epoch"] == set_epoch + 1
            members, set_epoch = entry["set"], entry["set_epoch"]
    return seen


def test_a_group_comes_to_life() -> None:
    world = settled(1)
    told = group(world)
    assert (told["epoch"], sorted(told["set"]), sorted(told["alive"])) == (1, list(BROKERS), list(BROKERS))
    assert sorted(told["brokers"].values()) == [1, 2, 3]
    assert check_roles(world)["elect"] == 1


def test_a_dead_master_is_replaced_at_once_and_everybody_is_told() -> None:
    world = settled(2)
    old = group(world)["master"]
    world.crash(old)
    world.run(200)
    told = group(world)
    assert told["master"] != old
    assert told["epoch"] == 2
    others = [world.nodes[name] for name in BROKERS if name != old]
    assert all((broker.master, broker.epoch) == (told["master"], 2) for broker in others)
    assert all(broker.notified for broker in others)


def test_a_silent_master_is_replaced_after_the_timeout() -> None:
    world = settled(3)
    old = group(world)["master"]
    world.isolate(old)
    world.run(1000)
    assert group(world)["master"] == old
    world.run(1500)
    assert group(world)["master"] != old


def test_a_restarted_master_gets_a_new_epoch() -> None:
    world = settled(4)
    old = group(world)["master"]
    for name in BROKERS:
        if name != old:
            world.crash(name)
    world.run(300)
    world.crash(old)
    world.start(old)
    world.run(4000)
    told = group(world)
    assert told["master"] == old
    assert told["epoch"] >= 3
    check_roles(world)


def test_a_new_leader_does_not_take_silence_for_death() -> None:
    world = settled(5)
    master = group(world)["master"]
    for _ in range(3):
        name = leader(world).raft.name
        world.crash(name)
        world.run(3000)
        world.start(name)
        world.run(1000)
    assert (group(world)["master"], group(world)["epoch"]) == (master, 1)


def test_a_planned_switch_needs_a_living_member_of_the_set() -> None:
    world = settled(6)
    told = group(world)
    target = next(name for name in BROKERS if name != told["master"])
    fields = {"brokerName": GROUP, "clusterName": "c", "brokerId": told["brokers"][target], "designateElect": "true"}
    answer = ask(world, leader(world).raft.name, Request.CONTROLLER_ELECT_MASTER, **fields)
    assert answer is not None
    assert (answer.code, answer.fields["masterAddress"], answer.fields["masterEpoch"]) == (0, target, "2")
    dead = told["master"]
    world.crash(dead)
    world.run(500)
    refused = ask(
        world, leader(world).raft.name, Request.CONTROLLER_ELECT_MASTER, **fields | {"brokerId": told["brokers"][dead]}
    )
    assert refused is not None
    assert refused.code == Response.CONTROLLER_ELECT_MASTER_FAILED


def test_followers_answer_reads_and_refuse_writes() -> None:
    world = settled(7)
    follower = next(name for name in CONTROLLERS if name != leader(world).raft.name)
    info = ask(world, follower, Request.CONTROLLER_GET_REPLICA_INFO, brokerName=GROUP)
    assert info is not None
    assert (info.code, info.fields["masterAddress"]) == (0, group(world)["master"])
    assert sorted(json.loads(info.body)["syncStateSet"]) == [1, 2, 3]
    data = ask(world, follower, Request.CONTROLLER_GET_SYNC_STATE_DATA, body=b'["g", "none"]')
    assert data is not None
    table = json.loads(data.body)["replicasInfoTable"]
    assert list(table) == [GROUP]
    assert len(table[GROUP]["inSyncReplicas"]) == 3
    write = ask(world, follower, Request.CONTROLLER_ELECT_MASTER, brokerName=GROUP, brokerId=1)
    assert write is not None
    assert write.code == Response.CONTROLLER_NOT_LEADER
    unknown = ask(world, follower, Request.CONTROLLER_GET_REPLICA_INFO, brokerName="none")
    assert unknown is not None
    assert unknown.code == Response.CONTROLLER_BROKER_METADATA_NOT_EXIST
    metadata = ask(world, follower, Request.CONTROLLER_GET_METADATA_INFO)
    assert metadata is not None
    assert metadata.fields["controllerLeaderId"] == leader(world).raft.name
    assert metadata.fields["isLeader"] == "false"


def test_an_isolated_leader_answers_no_read_and_confirms_no_write() -> None:
    world = settled(8)
    old = leader(world).raft.name
    for other in CONTROLLERS:
        if other != old:
            world.block(old, other)
    world.inbox.clear()
    read = Command(code=Request.CONTROLLER_GET_REPLICA_INFO, opaque=1, fields={"brokerName": GROUP})
    fields = {"brokerName": GROUP, "brokerId": "2", "designateElect": "true"}
    write = Command(code=Request.CONTROLLER_ELECT_MASTER, opaque=2, fields=fields)
    world.nodes[old].message(world.envs[old], "client", read)
    world.nodes[old].message(world.envs[old], "client", write)
    world.run(5000)
    codes = {answer.opaque: answer.code for _, _, answer in world.inbox}
    assert codes == {1: Response.CONTROLLER_NOT_LEADER, 2: Response.SYSTEM_ERROR}
    world.heal()
    world.run(3000)
    check_roles(world)


def test_nonsense_is_refused() -> None:
    world = settled(9)
    name = leader(world).raft.name
    cases: list[tuple[int, dict[str, str], bytes]] = [
        (Request.CONTROLLER_APPLY_BROKER_ID, {"brokerName": GROUP}, b""),
        (Request.CONTROLLER_REGISTER_BROKER, {"brokerName": GROUP, "brokerId": "one"}, b""),
        (Request.CONTROLLER_ALTER_SYNC_STATE_SET, {"brokerName": GROUP}, b"[]"),
        (Request.CONTROLLER_ALTER_SYNC_STATE_SET, {"brokerName": GROUP}, b"{"),
        (Request.CONTROLLER_ALTER_SYNC_STATE_SET, {"brokerName": GROUP}, b'{"syncStateSet": 3}'),
        (Request.CONTROLLER_ALTER_SYNC_STATE_SET, {"brokerName": GROUP}, b'{"syncStateSet": [[]]}'),
        (Request.CLEAN_BROKER_DATA, {"brokerName": GROUP, "brokerControllerIdsToClean": "x"}, b""),
        (Request.CONTROLLER_ELECT_MASTER, {}, b""),
        (Request.CONTROLLER_TRANSFER_LEADER, {}, b""),
        (Request.CONTROLLER_TRANSFER_LEADER, {"controllerName": name}, b""),
        (Request.CONTROLLER_CHANGE_MEMBERS, {"controllerName": name, "change": "swap"}, b""),
        (Request.CONTROLLER_CHANGE_MEMBERS, {"controllerName": name, "change": "remove"}, b""),
        (Request.BROKER_HEARTBEAT, {"brokerName": GROUP}, b""),
        (Request.CONTROLLER_GET_REPLICA_INFO, {}, b""),
        (Request.CONTROLLER_GET_SYNC_STATE_DATA, {}, b"{"),
    ]
    before = leader(world).replicas.snapshot()
    for code, fields, body in cases:
        answer = ask(world, name, code, body, **fields)
        assert answer is not None
        assert answer.code == Response.CONTROLLER_INVALID_REQUEST, (code, answer)
    unknown = ask(world, name, 4711)
    assert unknown is not None
    assert unknown.code == Response.REQUEST_CODE_NOT_SUPPORTED
    assert leader(world).replicas.snapshot() == before


def test_the_leader_hands_over_and_members_leave_and_join() -> None:
    world = settled(11)
    old = leader(world).raft.name
    target, third = leader(world).raft.others
    answer = ask(world, old, Request.CONTROLLER_TRANSFER_LEADER, controllerName=target)
    assert answer is not None
    assert answer.code == Response.SUCCESS
    world.run(1000)
    assert leader(world).raft.name == target
    for change, voters in (("remove", {old, target}), ("add", {old, target, third})):
        changed = ask(world, target, Request.CONTROLLER_CHANGE_MEMBERS, controllerName=third, change=change)
        assert changed is not None
        assert changed.code == Response.SUCCESS
        world.run(2000)
        assert set(leader(world).raft.members.voters) == voters
    assert world.nodes[third].replicas.snapshot() == leader(world).replicas.snapshot()
    check_roles(world)


def storm(world: World, seed: int, rounds: int) -> None:
    """Crashes, cuts and partitions of controllers and brokers, and then none any more."""
    rng = Random(f"storm/{seed}")
    world.run(4000)
    for _ in range(rounds):
        world.run(rng.randint(20, 600))
        one, other = rng.sample([*CONTROLLERS, *BROKERS], 2)
        kind = rng.randrange(7)
        if kind < 2 and one in world.envs:
            world.crash(one)
        elif kind == 2:
            world.isolate(one)
        elif kind == 3:
            world.blocked.add((one, other))
        elif kind == 4:
            world.cut(one, other)
        else:
            world.heal()
    world.heal()
    world.run(8000)


@pytest.mark.parametrize("seed", range(12))
def test_storms_never_split_the_controllers_and_the_group_recovers(seed: int) -> None:
    world = make_world(seed)
    storm(world, seed, 60)
    seen = check_roles(world)
    assert seen["elect"] >= 2
    told = group(world)
    assert sorted(told["set"]) == list(BROKERS)
    assert all(world.nodes[name].master == told["master"] for name in BROKERS)
    states = [world.nodes[name].replicas.snapshot() for name in CONTROLLERS]
    assert states[0] == states[1] == states[2]
