"""The disk of a Raft member: what a crash tears is cut off, and what was synced and is lost ends the member."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.deployments._sim.disk import SimDisk
from chaos.node import DiskFull
from reference.controller.raft_bound import DamagedLog
from reference.controller.raft_log import LARGE_BYTES, Entry, RaftLog
from tests.reference.raft_member import make_world
from tests.reference.raftnet import World

SNAPSHOT = b"snapshot" * 40


class Stored:
    """A log on a disk whose syncs end when they are told to."""

    def __init__(self, disk: SimDisk | None = None) -> None:
        self.tokens: list[int] = []
        self.disk = disk or SimDisk(lambda token, size: None)
        self.disk._on_sync = lambda token, size: self.tokens.append(token)
        self.log = RaftLog()
        self.log.recover(self.disk)

    def put(self, data: bytes) -> None:
        self.log.put(self.disk, self.log.last + 1, Entry(1, data))

    def sync(self) -> None:
        """Make all durable, and tell the bound with what comes next."""
        self.log.note_bound()
        self.log.sync(self.disk)
        env: Any = SimpleNamespace(disk=self.disk)
        while self.tokens:
            token = self.tokens.pop(0)
            self.disk.finish(token)
            self.log.done(env, token)

    def worked(self) -> Stored:
        """A snapshot, 20 entries behind it, and all of it as old as damage needs."""
        for _ in range(10):
            self.put(b"before")
        self.log.compact(self.disk, 10, SNAPSHOT)
        for number in range(20):
            self.put(b"%d" % number * 20)
            self.sync()
        return self

    @property
    def file(self) -> str:
        return self.disk.list("raft/log.")[-1]

    def flip(self, position: int) -> None:
        byte = self.disk.read(self.file, position, 1)[0]
        self.disk.write(self.file, position, bytes([byte ^ 4]))


@pytest.mark.parametrize("seed", range(100))
def test_a_torn_tail_never_loses_what_was_synced(seed: int) -> None:
    """Lives of one log: a crash is no damage, whatever it tears, and what was synced is there."""
    rng, stored, synced = Random(seed), Stored(), 0
    for _ in range(5):
        for _ in range(rng.randint(0, 40)):
            stored.put(rng.randbytes(rng.randint(1, 400)))
            if rng.random() < 0.3:
                stored.sync()
                synced = stored.log.last
            if rng.random() < 0.1:
                stored.log.compact(stored.disk, stored.log.last, SNAPSHOT)
        log = stored.log
        entries = {index: log.entry(index) for index in range(log.first, log.last + 1)}
        stored.disk.crash(rng)
        stored = Stored(stored.disk)
        again = stored.log
        assert again.last >= synced
        for index in range(max(log.first, again.first), again.last + 1):
            assert again.entry(index) == entries[index]


def test_a_crash_within_the_first_words_is_no_damage() -> None:
    for seed in range(50):
        stored = Stored()
        stored.log.set_term(stored.disk, 1, "c0")
        stored.log.sync(stored.disk)
        stored.disk.crash(Random(seed))
        assert Stored(stored.disk).log.term in (0, 1)


def test_damage_to_any_byte_that_was_synced_stops_the_member() -> None:
    """Its head, its snapshot, its term and vote, or its entries: without them it could vote twice, or lead without what
    was committed."""
    stored = Stored().worked()
    sure = stored.log._bound.size
    assert sure > stored.disk.size(stored.file) - 100
    for position in range(0, sure, 3):
        stored.flip(position)
        with pytest.raises(DamagedLog, match="Votes and committed entries may be lost"):
            Stored(stored.disk)
        stored.flip(position)
    assert Stored(stored.disk).log.last == 30


def test_a_file_that_is_cut_or_gone_stops_the_member() -> None:
    stored = Stored().worked()
    content = stored.disk.read(stored.file)
    for size in (len(content) // 2, 1, 0):
        stored.disk.truncate(stored.file, size)
        with pytest.raises(DamagedLog, match="sound bytes"):
            Stored(stored.disk)
    stored.disk.remove(stored.file)
    with pytest.raises(DamagedLog, match="only 0 sound bytes of file 0"):
        Stored(stored.disk)


def test_an_older_file_that_comes_back_is_not_taken_for_the_damaged_one() -> None:
    stored = Stored()
    stored.put(b"old")
    stored.sync()
    older, content = stored.file, stored.disk.read(stored.file)
    stored.worked()
    assert stored.file != older
    stored.disk.write(older, 0, content)
    assert Stored(stored.disk).log.last == 31
    stored.disk.write(older, 0, content)
    stored.flip(20)
    with pytest.raises(DamagedLog):
        Stored(stored.disk)


def test_behind_the_bound_the_log_ends_where_a_byte_is_wrong() -> None:
    stored = Stored().worked()
    for _ in range(10):
        stored.put(b"x" * 50)
    stored.log.sync(stored.disk)
    stored.flip(stored.disk.size(stored.file) - 120)
    assert 30 <= Stored(stored.disk).log.last < 40


def test_a_controller_with_a_damaged_disk_does_not_start_and_the_others_go_on() -> None:
    world = _busy(make_world(3, 3))
    world.crash("c0")
    disk = world.disks["c0"]
    path = disk.list("raft/log.")[-1]
    disk.replace(path, b"\0" * 30 + disk.durable(path)[30:])
    with pytest.raises(DamagedLog, match="does not start"):
        world.start("c0")
    del world.envs["c0"]
    world.run(3000)
    assert _propose(world, "more") and "more" in world.nodes["c1"].applied


@pytest.mark.parametrize("snapshot_entries", [5, 1000])
def test_a_full_disk_stops_the_member_and_nothing_acknowledged_is_lost(snapshot_entries: int) -> None:
    """The step that can't write has no effect outside: no message of it leaves."""
    world = make_world(4, 1, snapshot_entries=snapshot_entries)
    world.run(2000)
    world.disks["c0"].capacity_bytes = 2000
    acked: list[str] = []
    with pytest.raises(DiskFull):
        for number in range(500):
            value = f"{number:030}"
            if _propose(world, value):
                acked.append(value)
    world.crash("c0")
    world.disks["c0"].capacity_bytes = 1 << 20
    world.heal()
    world.run(2000)
    assert len(acked) > 5 and set(acked) <= set(world.nodes["c0"].applied)


def test_a_sync_that_fails_ends_the_member_before_it_promises_anything() -> None:
    """As the shells do it: no sync ends any more, and the life does. Its answers wait for that sync."""
    world = _busy(make_world(6, 3))
    (leader,) = [name for name in world.names() if world.nodes[name].raft.is_leader]
    follower = next(name for name in world.names() if name != leader)
    world.on_sync, kept = lambda name, token: world.envs[name].pending.add(token), world.on_sync  # type: ignore[method-assign]
    ends: list[int] = []
    world.nodes[leader].raft.propose(world.envs[leader], b"lost?", lambda env, outcome, index: ends.append(index))
    world.run(50)
    assert not ends and world.envs[follower].held[leader]
    world.on_sync = kept  # type: ignore[method-assign]
    for name in list(world.names()):
        world.crash(name)
    world.heal()
    world.run(3000)
    assert not ends and len({tuple(world.nodes[name].applied) for name in world.names()}) == 1


def _busy(world: World) -> World:
    """Entries on all disks, some of them for a while."""
    for number in range(5):
        world.run(1000)
        assert _propose(world, f"v{number}") or number == 0
    world.run(1000)
    return world


def _propose(world: World, value: str) -> bool:
    """Whether it was committed within a moment."""
    ends: list[int] = []
    for name in [name for name in world.envs if world.nodes[name].raft.is_leader]:
        world.nodes[name].raft.propose(world.envs[name], value.encode(), lambda env, _, index: ends.append(index))
    world.run(200)
    return any(index >= 0 for index in ends)


def test_a_large_snapshot_is_the_most_of_a_file_until_half_as_much_stands_behind_it() -> None:
    stored = Stored()
    stored.put(b"before")
    stored.log.compact(stored.disk, 1, b"s" * (LARGE_BYTES + 2))
    stored.put(b"e" * (LARGE_BYTES // 2 - 200))
    assert stored.log.is_mostly_snapshot
    stored.put(b"e" * 200)
    assert not stored.log.is_mostly_snapshot


def test_a_small_snapshot_never_holds_up_the_next_one() -> None:
    stored = Stored()
    stored.put(b"before")
    stored.log.compact(stored.disk, 1, b"s" * LARGE_BYTES)
    assert not stored.log.is_mostly_snapshot


def test_a_file_that_the_next_one_has_replaced_is_removed_when_that_is_durable() -> None:
    it = Stored()
    it.put(b"one")
    it.sync()
    it.log.compact(it.disk, 1, SNAPSHOT)
    assert it.log.count_files(it.disk) == 2
    it.sync()
    assert it.log.count_files(it.disk) == 1
