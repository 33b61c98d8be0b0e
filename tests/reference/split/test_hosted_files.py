"""State machines that keep a part of their state in files: a follower counts only once it has these, durably."""

from __future__ import annotations

import pytest

from chaos.node import Env, Malformed
from reference.raft.storage import room
from reference.split.hosting import host
from tests.reference.split.hosts import Hosts, Listed, Store, disk_of, replica_on


class Filed(Listed):
    """Its snapshots name a file with what was applied; what is sent has its content besides."""

    is_safe = True
    prepared: int | None = None

    def may_compact(self) -> bool:
        return self.is_safe

    def snapshot(self) -> list[bytes]:
        return [b"in the file:%d" % len(self.applied), b""]

    def outgoing(self, snapshot: bytes) -> bytes:
        count = int(snapshot.partition(b":")[2])
        return snapshot + b"\n" + "\n".join(self.applied[:count]).encode()

    def check_snapshot(self, snapshot: bytes) -> None:
        if b"\n" not in snapshot:
            raise Malformed("a snapshot without its file")

    def prepare(self, env: Env, snapshot: bytes) -> int | None:
        env.disk.write("file", 0, snapshot.partition(b"\n")[2])
        self.prepared = env.disk.sync(["file"])
        return self.prepared

    def kept(self, snapshot: bytes) -> bytes:
        return snapshot.partition(b"\n")[0]

    def restore(self, env: Env, snapshot: bytes) -> None:
        content = env.disk.read("file") if env.disk.size("file") > 0 else b""
        self.applied = content.decode().split("\n")[: int(snapshot.partition(b":")[2])]


class FiledStore(Store):
    machine_class = Filed


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "KEPT_BYTES", 8192)
    monkeypatch.setattr(room, "STEP_BYTES", 8192)


def world_with_a_snapshot(**options: int) -> Hosts:
    """Forty entries, most of which only a snapshot holds."""
    world = Hosts(1, 4, 1, born_on=3, store=FiledStore, **options)
    world.run(2000)
    for number in range(40):
        assert world.commit(0, f"v{number}")
    assert world.replicas(0)[world.leader(0)].log.snapshot_index > 20
    return world


def holds_back_syncs(world: Hosts, name: str) -> list[int]:
    """Have no sync of this node's end; return their tokens, as they come."""
    tokens: list[int] = []

    def on_sync(token: int, size: int) -> None:
        world.envs[name].pending.add(token)
        tokens.append(token)

    world.disks[name]._on_sync = on_sync
    return tokens


@pytest.mark.parametrize("piece_bytes", [16, 65_536])
def test_a_follower_counts_once_the_files_of_its_snapshot_are_durable(piece_bytes: int) -> None:
    world = world_with_a_snapshot(piece_bytes=piece_bytes)
    tokens = holds_back_syncs(world, "s3")
    leader = world.replicas(0)[world.leader(0)]
    assert world.change(0, "add", replica_on("s3"))
    world.run(2000)
    assert world.replicas(0)["s3"].log.snapshot_index == 0 == leader.peers[replica_on("s3")].match
    while tokens:
        world.envs["s3"].synced(tokens.pop(0))
        world.run(500)
    assert world.machines_of("s3")[0].applied[:40] == [f"v{number}" for number in range(40)]
    assert leader.peers[replica_on("s3")].match == leader.log.last
    assert b"v0" not in world.replicas(0)["s3"].log.snapshot, "what is logged names the file only"


def test_a_crash_before_the_files_are_durable_leaves_nothing_of_the_snapshot() -> None:
    world = world_with_a_snapshot()
    holds_back_syncs(world, "s3")
    assert world.change(0, "add", replica_on("s3"))
    world.run(1000)
    world.crash("s3")
    world.disks["s3"]._on_sync = lambda token, size: world.on_sync("s3", token)
    world.start("s3")
    world.run(2000)
    assert world.machines_of("s3")[0].applied[:40] == [f"v{number}" for number in range(40)]


@pytest.mark.parametrize("piece_bytes", [16, 65_536])
def test_a_snapshot_is_sent_again_once_there_is_room_for_its_files(
    piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_with_a_snapshot(piece_bytes=piece_bytes)
    full = True

    def prepare(self: Filed, env: Env, snapshot: bytes) -> int | None:
        if full:
            raise Malformed("no room")
        return prepares(self, env, snapshot)

    prepares = Filed.prepare
    monkeypatch.setattr(Filed, "prepare", prepare)
    assert world.change(0, "add", replica_on("s3"))
    world.run(2000)
    assert not world.machines_of("s3")[0].applied
    full = False
    world.run(3000)
    assert world.machines_of("s3")[0].applied[:40] == [f"v{number}" for number in range(40)]


def test_a_snapshot_is_made_again_once_its_sender_has_what_it_lacked(monkeypatch: pytest.MonkeyPatch) -> None:
    world, makes = world_with_a_snapshot(), Filed.outgoing
    monkeypatch.setattr(Filed, "outgoing", lambda self, snapshot: snapshot)
    assert world.change(0, "add", replica_on("s3"))
    world.run(2000)
    assert not world.machines_of("s3")[0].applied
    monkeypatch.setattr(Filed, "outgoing", makes)
    world.run(2000)
    assert world.machines_of("s3")[0].applied[:40] == [f"v{number}" for number in range(40)]


def test_nothing_is_dropped_from_the_log_while_files_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Filed, "is_safe", False)
    world = Hosts(2, 3, 1, store=FiledStore)
    world.run(2000)
    for number in range(40):
        assert world.commit(0, f"v{number}")
    assert all(replica.log.snapshot_index == 0 for replica in world.replicas(0).values())


def test_a_membership_keeps_the_index_of_its_entry_over_a_snapshot_and_a_restart() -> None:
    world = Hosts(3, 4, 1, born_on=3)
    world.run(2000)
    assert world.change(0, "add", replica_on("s3"))
    world.run(2000)
    index, members = world.replicas(0)[world.leader(0)].committed_members()
    assert index and replica_on("s3") in members.voters
    for number in range(80):
        assert world.commit(0, f"v{number}")
    world.run(500)
    for name in ("s0", "s1", "s2", "s3"):
        assert world.replicas(0)[name].log.snapshot_index > index
        world.crash(name)
    world.heal()
    world.run(2000)
    assert {replica.committed_members() for replica in world.replicas(0).values()} == {(index, members)}


def test_a_store_whose_disk_is_full_refuses_large_entries_and_goes_on_to_vote() -> None:
    world = Hosts(4, 3, 2)
    world.run(2000)
    full = world.leader(0)
    disk = world.disks[full]
    disk.capacity_bytes = disk.size("raft/log.00000001")
    node, env = world.nodes[full], world.envs[full]
    assert node.host.has_room(env, 100)
    while node.host.has_room(env, 6000):
        assert world.commit(0, "x" * 6000)
    for number in range(60):  # a snapshot is due by then, for which there is no room
        assert world.commit(0, f"small {number}")
    world.crash(next(name for name in world.names() if name != full))
    world.run(2000)
    assert world.commit(0, "with the full one alone") and world.commit(1, "here too")
    assert disk_of(full) == node.host.disk


def test_an_answer_to_what_a_sync_under_way_covers_leaves_at_its_end() -> None:
    world = Hosts(5, 3, 1)
    world.run(2000)
    lead = world.leader(0)
    follower = next(name for name in world.names() if name != lead)
    host, env = world.nodes[lead].host, world.envs[lead]
    tokens = holds_back_syncs(world, follower)
    assert world.commit(0, "x") and len(tokens) == 1
    leader, name = host.member(0), replica_on(follower)
    leader.sender.send_next(host.env_of(env, 0), name, leader.peers[name])  # an append of nothing
    host.step_over(env)
    world.run(20)
    assert leader.peers[name].in_flight
    world.envs[follower].synced(tokens.pop())
    world.run(20)
    assert not leader.peers[name].in_flight
