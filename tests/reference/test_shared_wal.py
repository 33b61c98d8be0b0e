"""Many logs in one file: whatever a crash tears, all of them are found as they were together at one moment."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.deployments._sim.disk import SimDisk
from chaos.node import DiskFull
from reference.raft.bound import DamagedLog
from reference.raft.log import SMALL_BYTES, Entry, RaftLog
from reference.raft.storage.records import ENTRY, path_of, write_records
from reference.raft.storage.wal import REWRITE_BYTES, Wal

NUMBERS = (1, 2, 7)


LogState = tuple[bool, bool, tuple[str, ...], int, str, int, bytes, tuple[Entry, ...]]
NOTHING: LogState = (False, False, (), 0, "", 0, b"", ())


def state_of(wal: Wal) -> dict[int, LogState]:
    found = {}
    for number, log in wal.logs.items():
        assert isinstance(log, RaftLog)
        entries = tuple(log.entry(index) for index in range(log.first, log.last + 1))
        of_raft = (log.term, log.vote, log.snapshot_index, log.snapshot, entries)
        found[number] = (log.is_born, log.is_gone, log.members, *of_raft)
    return {number: state for number, state in found.items() if state != NOTHING}


class Stored:
    """A shared file on a disk whose syncs end when they are told to."""

    def __init__(self, disk: SimDisk | None = None, rewrite_bytes: int = REWRITE_BYTES, kept_bytes: int = 0) -> None:
        self.tokens: list[int] = []
        self.disk = disk or SimDisk(lambda token, size: None)
        self.disk._on_sync = lambda token, size: self.tokens.append(token)
        self.wal = Wal(lambda number: RaftLog(self.wal, number), rewrite_bytes, kept_bytes)
        self.wal.recover(self.disk)

    def log(self, number: int) -> RaftLog:
        log = self.wal.logs.get(number) or RaftLog(self.wal, number)
        assert isinstance(log, RaftLog)
        return log

    def end_sync(self) -> int:
        token = self.tokens.pop(0)
        self.disk.finish(token)
        env: Any = SimpleNamespace(disk=self.disk)
        self.wal.done(env, token)
        self.wal.go_on(env.disk, token)
        return token

    def read_again(self) -> dict[int, LogState]:
        """What the file holds."""
        wal = Wal(lambda number: RaftLog(wal, number))
        wal.load(self.disk.read(self.wal.tip[0]))
        return state_of(wal)

    def sync(self) -> None:
        """Make all durable, and tell the bound with what comes next."""
        self.wal.note_bound()
        self.wal.sync(self.disk)
        while self.tokens:
            self.end_sync()


class Walk:
    """Lives of one file. ``states``: what all logs held after each change, from the last one that a sync has made
    durable on. ``rewritten``: how often a change came while the next file was being written."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.stored = Stored(rewrite_bytes=700, kept_bytes=100)
        self.states = [state_of(self.stored.wal)]
        self.covers: dict[int, int] = {}  # sync → the number of the state that it makes durable
        self.dropped = 0  # states that are no longer listed
        self.rewritten = 0

    def step(self) -> None:
        log = self.stored.log(self.rng.choice(NUMBERS))
        if not log.is_born or self.rng.random() < 0.01:
            log.begin(self.stored.disk, self.rng.choice(((), ("a", "b"))))
            self.changed()
        change = self.rng.choices((self.put, self.snapshot, self.begin_term, self.bury), (20, 6, 3, 0.3))[0]
        change(log)
        if self.rng.random() < 0.3:
            self.sync()
        if self.rng.random() < 0.3:
            self.end_sync()
        if self.rng.random() < 0.01:
            self.crash()
        self.check_durable()

    def changed(self) -> None:
        self.states.append(state_of(self.stored.wal))
        self.rewritten += self.stored.wal._rewriting is not None

    def put(self, log: RaftLog) -> None:
        index = max(log.first, log.last + 1 - self.rng.choice((0, 0, 0, 1, 3)))
        for _ in range(self.rng.randrange(4)):
            log.put(self.stored.disk, index, Entry(log.term, bytes(self.rng.randrange(200))))
            self.changed()
            index += 1

    def snapshot(self, log: RaftLog) -> None:
        index, data = log.last + self.rng.choice((-5, -1, 0, 0, 2)), b"s" * self.rng.randrange(300)
        if log.first <= index <= log.last:
            log.compact(self.stored.disk, index, data)
        elif index > log.last:
            log.install(self.stored.disk, index, log.term, data)
        self.changed()

    def begin_term(self, log: RaftLog) -> None:
        log.set_term(self.stored.disk, log.term + 1, self.rng.choice(("", "a")))
        self.changed()

    def bury(self, log: RaftLog) -> None:
        log.bury(self.stored.disk)
        self.changed()

    def sync(self) -> None:
        if self.rng.random() < 0.3:
            self.stored.wal.note_bound()
        token = self.stored.wal.sync(self.stored.disk)
        if token is not None:
            self.covers[token] = self.dropped + len(self.states) - 1

    def end_sync(self) -> None:
        if self.stored.tokens:
            durable = self.covers.pop(self.stored.end_sync(), 0)
            if durable > self.dropped:
                del self.states[: durable - self.dropped]
                self.dropped = durable

    def crash(self) -> None:
        self.stored.disk.crash(self.rng)
        self.stored = Stored(self.stored.disk, rewrite_bytes=700, kept_bytes=100)
        found = state_of(self.stored.wal)
        assert found in self.states
        self.states, self.covers, self.dropped = [found], {}, 0

    def check_durable(self) -> None:
        """What counts as durable is in every state that a crash may leave."""
        for number, log in self.stored.wal.logs.items():
            assert isinstance(log, RaftLog)
            for state in self.states:
                of_log = state.get(number, NOTHING)
                assert of_log[5] + len(of_log[7]) >= log.durable


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are rewritten as soon as they can be, one log at a time."""
    monkeypatch.setattr("reference.raft.storage.rewriting.STEP_BYTES", 1)
    monkeypatch.setattr("reference.raft.storage.room.STEP_BYTES", 300)


@pytest.mark.usefixtures("_small")
def test_whatever_a_crash_tears_all_logs_are_found_as_they_were_at_one_moment() -> None:
    rewritten = 0
    for seed in range(12):
        walk = Walk(Random(seed))
        for _ in range(400):
            walk.step()
        rewritten += walk.rewritten
    assert rewritten > 200


def filled(rewrite_bytes: int = REWRITE_BYTES, kept_bytes: int = 0, size: int = 100) -> Stored:
    stored = Stored(rewrite_bytes=rewrite_bytes, kept_bytes=kept_bytes)
    for number in NUMBERS:
        stored.log(number).begin(stored.disk, ("a",))
        for index in range(1, 6):
            stored.log(number).put(stored.disk, index, Entry(1, b"%d" % number * size))
    stored.sync()
    return stored


def test_a_damaged_record_of_one_log_is_damage_of_the_disk() -> None:
    """Nothing of the others is cut off behind it: the disk as a whole counts for lost."""
    stored = filled()
    stored.sync()
    stored.log(1).put(stored.disk, 6, Entry(1, b"more"))
    stored.sync()
    path = stored.wal.tip[0]
    stored.disk.write(path, 150, b"!")
    with pytest.raises(DamagedLog):
        Stored(stored.disk)


def test_a_record_that_does_not_continue_its_log_cuts_nobody_elses() -> None:
    stored = filled()
    wal = stored.wal
    wrong = (1, ENTRY, (99).to_bytes(8, "big") + (1).to_bytes(8, "big"))
    write_records(stored.disk, wal.file, wal.size, wal.checksum, [wrong])
    with pytest.raises(DamagedLog, match="log 1"):
        Stored(stored.disk)


def test_on_a_full_disk_small_records_find_room_and_large_ones_are_refused() -> None:
    stored = filled(kept_bytes=20_000)
    log = stored.log(2)
    stored.disk.capacity_bytes = stored.disk.size(stored.wal.tip[0])
    while log.has_room(stored.disk, 50_000):
        log.put(stored.disk, log.last + 1, Entry(1, b"x" * 50_000))
    assert log.has_room(stored.disk, SMALL_BYTES)
    for term in range(2, 200):
        log.set_term(stored.disk, term, "a")
    stored.sync()
    assert stored.read_again() == state_of(stored.wal)
    with pytest.raises(DiskFull):
        for index in range(log.last + 1, 1000):
            log.put(stored.disk, index, Entry(1, b"x" * 50_000))


def test_a_full_disk_puts_off_the_rewriting_and_nothing_else() -> None:
    stored = filled(rewrite_bytes=30_000, kept_bytes=20_000, size=3000)
    stored.disk.capacity_bytes = stored.disk.size(stored.wal.tip[0]) + 1000
    for round in range(6):
        log = stored.log(2)
        log.compact(stored.disk, log.last, b"")
        for index in range(log.last + 1, log.last + 4):
            log.put(stored.disk, index, Entry(1, b"%d" % round * 3000))
        stored.sync()
    assert stored.wal.file == 1 and stored.read_again() == state_of(stored.wal)
    stored.disk.capacity_bytes = 1 << 30
    for _ in range(20):
        stored.log(2).compact(stored.disk, stored.log(2).last, b"s" * 9000)
        stored.log(2).put(stored.disk, stored.log(2).last + 1, Entry(2, b"x"))
        stored.sync()
    assert stored.wal.file > 1 and stored.disk.list("raft/log.") == [path_of(stored.wal.file)]
    assert stored.read_again() == state_of(stored.wal)


def test_a_file_that_was_replaced_is_gone_for_good_after_the_next_sync() -> None:
    stored = filled(rewrite_bytes=2000)
    for index in range(6, 60):
        stored.log(1).put(stored.disk, index, Entry(1, b"x" * 100))
        stored.log(1).compact(stored.disk, index, b"")
        stored.sync()
    stored.disk.crash(Random(1))
    assert stored.wal.file > 1 and stored.disk.list("raft/log.") == [path_of(stored.wal.file)]
