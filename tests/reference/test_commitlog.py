"""The commit log on the simulator's disk: crashes with any subset of what was not synced."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Any

import pytest

from reference.broker.commitlog import Base, CommitLog
from reference.broker.files import Completions, SmallFile
from reference.broker.records import Record, encode
from tests.reference.memory import MemoryFiles


class Disk(MemoryFiles):
    """Bytes that are durable only once synced; a crash keeps any subset of the other sectors, sizes and entries."""

    SECTOR = 512

    def __init__(self) -> None:
        super().__init__()
        self.durable: dict[str, bytes] = {}
        self.tokens = 0
        self.syncing: dict[int, dict[str, bytes | None]] = {}

    def sync(self, paths: Iterable[str]) -> int:
        self.tokens += 1
        self.syncing[self.tokens] = {path: bytes(self.files[path]) if path in self.files else None for path in paths}
        return self.tokens

    def end_sync(self, token: int) -> None:
        for path, content in self.syncing.pop(token).items():
            if content is None:
                self.durable.pop(path, None)
            else:
                self.durable[path] = content

    def crash(self, rng: Random) -> None:
        after: dict[str, bytearray] = {}
        for path in sorted(self.files.keys() | self.durable.keys()):
            now, old = self.files.get(path), self.durable.get(path)
            entry = rng.choice((now is not None, old is not None))
            if not entry:
                continue
            size = len(rng.choice([side for side in (now, old) if side is not None]))
            content = bytearray(size)
            for at in range(0, size, self.SECTOR):
                side = rng.choice([side for side in (now, old) if side is not None])
                part = bytes(side[at : at + self.SECTOR])[: size - at]
                content[at : at + len(part)] = part
            after[path] = content
        self.files = after
        self.syncing.clear()
        self.durable = {path: bytes(content) for path, content in after.items()}


class Env:
    """Just enough of an environment for a log: its disk, and syncs that end when the test says so."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk


class Life:
    """One life of a log: recovered at once; ``settle`` ends the syncs that are under way."""

    def __init__(self, disk: Disk, *, segment_bytes: int = 2000) -> None:
        self.env: Any = Env(disk)
        self.disk = disk
        self.completions = Completions()
        self.log = CommitLog(self.completions, segment_bytes=segment_bytes, on_synced=lambda env: None)
        self.records: list[Record] = []
        self.done = disk.tokens
        self.log.load(self.env)
        while not self.log.recover(self.env, self.records.append):
            pass
        self.log.finish_recovery(self.env, lambda env: None)
        self.settle()

    def settle(self, count: int = 1000) -> None:
        while count and self.done < self.disk.tokens:
            self.done += 1
            count -= 1
            self.disk.end_sync(self.done)
            self.completions.done(self.env, self.done)

    def append(self, rng: Random) -> bytes:
        body = rng.randbytes(rng.randrange(1, 400))
        data = encode(topic="t", queue_id=0, offset=0, position=self.log.end, body=body)
        self.log.append(self.env, data)
        return data


def whole(log: CommitLog, env: Any) -> bytes:
    data, at = b"", log.first
    while at < log.end:
        part = log.read_records(env, at, 1000)
        data, at = data + part, at + len(part)
    return data


@pytest.mark.parametrize("seed", range(60))
def test_what_was_synced_survives_any_crash_and_nothing_comes_back_that_was_cut(seed: int) -> None:
    rng, disk = Random(seed), Disk()
    content, floor = b"", 0  # what the log holds, and how much of it no crash may take
    for epoch in range(1, 7):
        life = Life(disk)
        log = life.log
        assert log.end >= floor and log.synced == log.end
        assert whole(log, life.env) == content[: log.end] and log.end <= len(content)
        content = content[: log.end]
        log.begin_epoch(life.env, epoch, lambda env: None)
        for _ in range(rng.randrange(40)):
            action = rng.randrange(10)
            if action < 6:
                content += life.append(rng)
            elif action < 8:
                log.flush(life.env)
            elif action == 8:
                life.settle(rng.randrange(4))
            elif life.records and rng.random() < 0.3:
                life.settle()
                cut = rng.choice(life.records).position
                log.truncate(life.env, cut, lambda env: None)
                life.settle()
                content, life.records = content[:cut], [record for record in life.records if record.position < cut]
        assert log.end == len(content)
        floor = log.synced
        disk.crash(rng)


def test_a_flipped_byte_ends_the_log_there() -> None:
    rng, disk = Random(1), Disk()
    life = Life(disk)
    ends = []
    for _ in range(30):
        life.append(rng)
        ends.append(life.log.end)
    life.log.flush(life.env)
    life.settle()
    paths = disk.list("log/")
    assert len(paths) > 3
    disk.files[paths[1]][100] ^= 4
    again = Life(disk)
    base = int(paths[1].removeprefix("log/"))
    assert again.log.end == base and again.log.end in ends
    assert disk.list("log/") == paths[:1]


def test_bytes_of_an_epoch_count_only_once_the_epoch_is_durable() -> None:
    rng, disk = Random(2), Disk()
    life = Life(disk)
    life.log.begin_epoch(life.env, 1, lambda env: None)
    life.settle()
    life.append(rng)
    before = life.log.end
    life.log.flush(life.env)
    life.log.begin_epoch(life.env, 2, lambda env: None)
    life.append(rng)
    life.settle(1)
    life.log.flush(life.env)
    assert life.log.synced == before
    life.settle()
    assert life.log.synced == life.log.end and life.log.epochs == [(1, 0), (2, before)]


def test_epochs_without_records_leave_the_history() -> None:
    life = Life(Disk())
    for epoch in (1, 2, 3):
        life.log.begin_epoch(life.env, epoch, lambda env: None)
    assert life.log.epochs == [(3, 0)]
    life.append(Random(3))
    life.log.begin_epoch(life.env, 4, lambda env: None)
    life.log.truncate(life.env, life.log.end, lambda env: None)
    assert life.log.epochs == [(3, 0)]


@pytest.mark.parametrize("seed", range(20))
def test_a_log_that_begins_anew_is_the_old_one_nothing_or_the_new_one(seed: int) -> None:
    rng, disk = Random(seed), Disk()
    life = Life(disk)
    for _ in range(20):
        life.append(rng)
    life.log.flush(life.env)
    life.settle()
    old = life.log.end
    base = Base(position=9000, queues={0: 12}, topics=[("t", 1, 0)], offsets={"g": {0: 3}})
    life.log.restart_at(life.env, base, [(5, 100)], lambda env: None)
    life.settle(rng.randrange(5))
    disk.crash(rng)
    again = Life(disk).log
    if again.first == 9000:
        assert (again.base, again.epochs, again.bootstrapping, again.end) == (base, [(5, 100)], False, 9000)
    else:
        assert again.first == 0 and (again.bootstrapping or again.end == old)


def keep(reached: list[int], number: int, env: Any) -> None:
    reached.append(number)


@pytest.mark.parametrize("seed", range(40))
def test_a_small_file_holds_its_last_durable_value_or_a_later_one(seed: int) -> None:
    rng, disk = Random(seed), Disk()
    durable = written = 0
    for _ in range(5):
        env: Any = Env(disk)
        completions = Completions()
        file = SmallFile("state", completions)
        value = file.load(disk)
        found = 0 if value is None else value["n"]
        assert durable <= found <= written
        written = found
        done = disk.tokens
        reached = [found]
        for _ in range(rng.randrange(6)):
            written += 1
            file.save(env, {"n": written, "pad": "x" * rng.randrange(2000)}, partial(keep, reached, written))
            while done < disk.tokens and rng.random() < 0.5:
                done += 1
                disk.end_sync(done)
                completions.done(env, done)
        durable = max(reached)
        disk.crash(rng)


def test_what_lies_on_the_disk_waits_for_its_epoch() -> None:
    """The second epoch is written only once the first one is: the records' own sync ends before."""
    life, told = Life(Disk()), []
    log = life.log

    def durable(env: Any) -> None:
        told.append((log.synced, log.waits_for_epoch))

    for epoch in (1, 2):
        log.begin_epoch(life.env, epoch, durable)
        life.append(Random(epoch))
    log.flush(life.env)
    life.settle(2)
    assert (log.synced, log.waits_for_epoch) == (0, True)
    life.settle()
    assert told[-1] == (log.end, False) == (log.synced, log.waits_for_epoch)
