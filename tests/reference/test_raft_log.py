"""The disk of a Raft member: what a crash tears is cut off, and what was synced and is lost ends the member."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chaos.deployments._sim.disk import SimDisk
from chaos.node import DiskFull
from reference.raft.bound import DamagedLog
from reference.raft.log import LARGE_BYTES, Entry, RaftLog
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


State = tuple[int, str, int, int, bytes, tuple[Entry, ...]]


def state_of(log: RaftLog) -> State:
    entries = tuple(log.entry(index) for index in range(log.first, log.last + 1))
    return log.term, log.vote, log.snapshot_index, log.snapshot_term, log.snapshot, entries


class RaftLogMachine(RuleBasedStateMachine):
    """Lives of one log. ``states``: what it held after each change, from the last one that a sync has made durable on:
    whatever a crash tears, one of these is found again, and it is never taken for damage."""

    def __init__(self) -> None:
        super().__init__()
        self.stored = Stored()
        self.states = [state_of(self.stored.log)]
        self.covers: dict[int, int] = {}  # sync → the number of the state that it makes durable
        self.dropped = 0  # states that are no longer listed

    @property
    def log(self) -> RaftLog:
        return self.stored.log

    def changed(self) -> None:
        self.states.append(state_of(self.log))

    @rule(vote=st.sampled_from(("", "c0", "c1")))
    def begin_term(self, vote: str) -> None:
        self.log.set_term(self.stored.disk, self.log.term + 1, vote)
        self.changed()

    @rule(back=st.integers(-1, 4), entries=st.lists(st.binary(max_size=600), min_size=1, max_size=5))
    def put(self, back: int, entries: list[bytes]) -> None:
        """Replace the last entries, or put some behind them."""
        index = max(self.log.first, self.log.last - back)
        for number, data in enumerate(entries, index):
            self.log.put(self.stored.disk, number, Entry(self.log.term, data))
            self.changed()

    @precondition(lambda self: self.log.last > self.log.snapshot_index)
    @rule(data=st.data(), snapshot=st.binary(max_size=900), aside=st.booleans())
    def compact(self, data: st.DataObject, snapshot: bytes, aside: bool) -> None:
        index = data.draw(st.integers(self.log.first, self.log.last))
        if aside:
            self.write_aside(index, self.log.term_at(index), snapshot)
        self.log.compact(self.stored.disk, index, snapshot)
        self.changed()

    @rule(further=st.integers(-3, 9), snapshot=st.binary(max_size=900), aside=st.booleans())
    def install(self, further: int, snapshot: bytes, aside: bool) -> None:
        index = max(self.log.first, self.log.last + further)
        if aside:
            self.write_aside(index, self.log.term, snapshot)
        self.log.install(self.stored.disk, index, self.log.term, snapshot)
        self.changed()

    def write_aside(self, index: int, term: int, snapshot: bytes) -> None:
        self.log.begin_aside(self.stored.disk, index, term)
        for piece in (snapshot[:300], snapshot[300:]):
            self.log.write_aside(self.stored.disk, piece)
        if len(snapshot) % 2:
            self.end_syncs(1000)

    @rule(bound=st.booleans(), ends=st.booleans())
    def sync(self, bound: bool, ends: bool) -> None:
        if bound:
            self.log.note_bound()
        token = self.log.sync(self.stored.disk)
        if token is not None:
            self.covers.setdefault(token, self.dropped + len(self.states) - 1)
        if ends:
            self.end_syncs(1000)

    @rule(count=st.integers(1, 3))
    def end_syncs(self, count: int) -> None:
        env: Any = SimpleNamespace(disk=self.stored.disk)
        while count and self.stored.tokens:
            count -= 1
            token = self.stored.tokens.pop(0)
            self.stored.disk.finish(token)
            self.log.aside_done(token)
            self.log.done(env, token)
            durable = self.covers.pop(token, 0)
            if durable > self.dropped:
                del self.states[: durable - self.dropped]
                self.dropped = durable

    @precondition(lambda self: len(self.states) > 1)
    @rule(rng=st.integers(0, 1 << 32).map(Random))
    def crash(self, rng: Random) -> None:
        self.stored.disk.crash(rng)
        self.stored = Stored(self.stored.disk)
        found = state_of(self.log)
        assert found in self.states
        self.states, self.covers, self.dropped = [found], {}, 0

    @invariant()
    def what_counts_as_durable_is_in_every_state_that_a_crash_may_leave(self) -> None:
        for _, _, index, _, _, entries in self.states:
            assert index + len(entries) >= self.log.durable


TestRaftLog = RaftLogMachine.TestCase


def test_damage_to_any_byte_that_was_synced_stops_the_member() -> None:
    """Its head, its snapshot, its term and vote, or its entries: without them it could vote twice, or lead without what
    was committed."""
    stored = Stored().worked()
    sure = stored.log.wal.bound.size
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
