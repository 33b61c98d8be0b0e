"""Raft members in trouble that comes from outside: slow followers, strangers, and messages that make no sense."""

from __future__ import annotations

from chaos.node import Message
from reference.wire.codes import Request
from tests.reference.raft_member import make_world
from tests.reference.raftnet import World


class Watched(World):
    """``snapshots``: the indices of those that were sent, with each piece."""

    def __init__(self, *told: object) -> None:
        self.snapshots: list[int] = []
        super().__init__(*told)  # type: ignore[arg-type]

    def transmit(self, source: str, to: str, message: Message) -> None:
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
