"""Raft members in trouble that comes from outside: slow followers, strangers, and messages that make no sense."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.node import Malformed
from reference.controller.heartbeats import Gathered, pass_on
from reference.controller.liveness import Heartbeat
from reference.raft.log import Entry, pack_entries
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.raft_member import make_world
from tests.reference.raftnet import World
from tests.reference.seam import deliver
from tests.reference.test_controller import CONTROLLERS
from tests.reference.test_controller import make_world as make_controllers


class Watched(World):
    """``snapshots``: the indices of those that were sent, with each piece."""

    def __init__(self, *told: object) -> None:
        self.snapshots: list[int] = []
        super().__init__(*told)  # type: ignore[arg-type]

    def transmit(self, source: str, to: str, message: Command) -> None:
        if message.code == Request.RAFT_SNAPSHOT and "answer" not in message.fields:
            self.snapshots.append(int(message.fields["index"]))
        super().transmit(source, to, message)


def _leader(world: World) -> str:
    (name,) = [name for name in world.envs if world.nodes[name].raft.is_leader]
    return name


def test_a_slow_follower_does_not_get_one_snapshot_after_the_other() -> None:
    """Its snapshot takes longer than the leader needs to make the next one. There may be a second one, which was being
    made when the first one began to be sent."""
    made = make_world(11, 3, snapshot_entries=20, piece_bytes=24)
    world = Watched(11, made.make)
    world.run(2000)
    leader = _leader(world)
    follower = next(name for name in world.names() if name != leader)

    def propose(count: int) -> None:
        for number in range(count):
            value = f"{number:010}".encode()
            world.nodes[leader].raft.propose(world.envs[leader], value, lambda env, outcome, index: None)
            world.run(5)

    world.isolate(follower)
    world.run(1000)
    propose(60)
    assert world.nodes[leader].raft.log.snapshot_index >= 40
    world.blocked.clear()
    world.snapshots.clear()
    propose(200)
    world.run(1000)
    assert len(world.snapshots) > 20 and len(set(world.snapshots)) <= 2
    assert world.nodes[follower].applied == world.nodes[leader].applied
    propose(25)
    log = world.nodes[leader].raft.log
    assert log.last - log.snapshot_index < 60


def test_nobody_keeps_entries_for_a_follower_that_is_gone() -> None:
    world = make_world(12, 3, snapshot_entries=20)
    world.run(2000)
    leader = _leader(world)
    world.crash(next(name for name in world.names() if name != leader))
    world.run(1000)
    for number in range(100):
        world.nodes[leader].raft.propose(world.envs[leader], b"%d" % number, lambda env, outcome, index: None)
        world.run(20)
    log = world.nodes[leader].raft.log
    assert log.last - log.snapshot_index <= 25


# Strangers, and messages that make no sense


def test_a_peer_of_another_cluster_is_refused() -> None:
    """It has the name and the place of a member, since somebody mixed addresses up."""
    world = make_world(13, 3, cluster_id="east")
    stranger = make_world(13, 3, cluster_id="west").make["c2"]
    world.crash("c2")
    world.make["c2"] = stranger
    world.heal()
    world.run(5000)
    leader = _leader(world)
    assert leader != "c2"
    assert world.nodes["c2"].raft.term == 0 and world.nodes["c2"].raft.leader == ""
    append = Command(code=Request.RAFT_APPEND, fields={"term": "99", "cluster": "west"})
    for told in (append, replace(append, fields={"term": "99"})):
        with pytest.raises(Malformed, match=r"the sender is of cluster '(west)?', this controller of 'east'"):
            world.nodes[leader].message(world.envs[leader], "c2", told)
    assert world.nodes[leader].raft.term < 99


PIECE = {"commit": 0, "round": 0, "index": 7, "snapshot_term": 1, "offset": 0, "size": 10}
APPEND = {"commit": 0, "round": 0, "prev": 0, "prev_term": 0}


@pytest.mark.parametrize(
    ("code", "fields", "body"),
    [
        (Request.RAFT_SNAPSHOT, PIECE | {"size": 3}, b"four"),  # goes beyond its end
        (Request.RAFT_SNAPSHOT, PIECE | {"offset": 8}, b"four"),
        (Request.RAFT_SNAPSHOT, PIECE | {"offset": -4}, b"four"),
        (Request.RAFT_SNAPSHOT, PIECE | {"size": 1 << 31}, b"four"),  # larger than any
        (Request.RAFT_SNAPSHOT, PIECE | {"snapshot_term": "first"}, b"four"),
        (Request.RAFT_SNAPSHOT, PIECE, b"whole, bad"),  # no state
        (Request.RAFT_SNAPSHOT, PIECE, b'\0{"voters"'),  # no membership
        (Request.RAFT_SNAPSHOT, PIECE | {"size": 23}, b'\0{"voters":["a"]}\nhello'),
        (Request.RAFT_SNAPSHOT, {key: PIECE[key] for key in PIECE if key != "offset"}, b"four"),
        (Request.RAFT_APPEND, APPEND, b"short"),
        (Request.RAFT_APPEND, APPEND, pack_entries([Entry(1, b"{")])),
        (Request.RAFT_APPEND, APPEND, pack_entries([Entry(1, b'{"op":"dance"}')])),
        (Request.RAFT_APPEND, APPEND, pack_entries([Entry(1, b'\0{"voters":[]}')])),
        (Request.RAFT_APPEND, APPEND | {"prev_term": -1}, b""),
        (Request.RAFT_TIMEOUT_NOW, {"term": -1}, b""),
        (Request.CONTROLLER_PASS_HEARTBEATS, {}, b"[[1]]"),
    ],
)
def test_what_makes_no_sense_is_refused_before_it_has_any_effect(
    code: Request, fields: dict[str, object], body: bytes
) -> None:
    world = make_controllers(14)
    world.run(2000)
    leader = max(CONTROLLERS, key=lambda name: world.nodes[name].raft.is_leader)
    follower = next(name for name in CONTROLLERS if name != leader)
    node, env = world.nodes[follower], world.envs[follower]
    before = (node.raft.term, node.raft.leader, node.raft.commit, node.raft.log.last, node.replicas.snapshot())
    told = {key: str(value) for key, value in ({"term": 1000} | fields).items()}
    with pytest.raises(Malformed):
        node.message(env, leader, Command(code=code, fields=told, body=body))
    assert before == (node.raft.term, node.raft.leader, node.raft.commit, node.raft.log.last, node.replicas.snapshot())


def test_a_controller_that_was_removed_passes_heartbeats_on_and_a_stranger_does_not() -> None:
    world = make_controllers(16)
    world.run(2000)
    leader = max(CONTROLLERS, key=lambda name: world.nodes[name].raft.is_leader)
    removed = next(name for name in CONTROLLERS if name != leader)
    node, env = world.nodes[leader], world.envs[leader]
    node.raft.remove(env, removed, lambda env, outcome, index: None)
    world.run(500)
    assert removed not in node.raft.others
    gathered = Gathered()
    gathered.add("broker-9", Heartbeat("g", 9, 0, (1, 100, 1)))
    bundle = pass_on(gathered.bundle(0), "")
    node.message(env, removed, bundle)
    assert "broker-9" in node.describe(env)["groups"]["g"]["alive"]
    with pytest.raises(Malformed, match="is no controller"):
        node.message(env, "stranger", bundle)


def test_a_snapshot_that_makes_no_sense_as_a_whole_is_dropped_with_its_last_piece() -> None:
    world = make_controllers(15)
    node, env = world.nodes[CONTROLLERS[0]], world.envs[CONTROLLERS[0]]

    def piece(offset: int, body: bytes) -> Command:
        fields = PIECE | {"term": 50, "offset": offset}
        return Command(code=Request.RAFT_SNAPSHOT, fields={key: str(fields[key]) for key in fields}, body=body)

    node.message(env, CONTROLLERS[1], piece(0, b"whole"))
    with pytest.raises(Malformed):
        node.message(env, CONTROLLERS[1], piece(5, b", bad"))
    world.run(100)
    assert node.raft.commit == 0 and node.raft.log.snapshot_index == 0 and node.raft.snapshots.incoming is None


# Too much at once


@pytest.mark.parametrize(
    ("mode", "count"),
    [
        ("parallel", 2200),
        pytest.param("parallel", 5_000, marks=pytest.mark.full),
        pytest.param("classic", 2200, marks=pytest.mark.full),
    ],
)
def test_brokers_that_all_reconnect_at_once_are_served_or_told_to_come_again(mode: str, count: int) -> None:
    """As many changes as the window or the queue holds are under way; who comes later is told so at once."""
    world = make_controllers(16, mode=mode, snapshot_entries=100_000)
    world.run(2000)
    leader = next(name for name in CONTROLLERS if world.nodes[name].raft.is_leader)
    node, env = world.nodes[leader], world.envs[leader]
    waiting = list(range(count))
    served = 0
    for _ in range(2):
        world.inbox.clear()
        for number in waiting:
            fields = {"clusterName": "c", "brokerName": f"group-{number // 2}", "brokerId": str(number % 2 + 1)}
            deliver(node, env, f"b-{number}", Command(code=Request.BROKER_HEARTBEAT, opaque=-1, fields=fields))
            fields |= {"appliedBrokerId": fields["brokerId"], "registerCheckCode": f"{number};0"}
            ask = Command(code=Request.CONTROLLER_APPLY_BROKER_ID, opaque=number, fields=fields)
            deliver(node, env, f"b-{number}", ask)
        assert node.raft.under_way() <= 1024
        world.run(40_000 if mode == "classic" else 2000)
        codes = {message.opaque: message.code for _, _, message in world.inbox}
        assert codes.pop(-1) == Response.SUCCESS and list(codes) != waiting and sorted(codes) == waiting
        assert set(codes.values()) == {Response.SUCCESS, Response.SYSTEM_BUSY}
        waiting = [number for number in waiting if codes[number] != Response.SUCCESS]
        served += 1024
        assert len(waiting) == count - served
    assert len(node.replicas.groups) >= served // 2 and node.raft.is_leader
