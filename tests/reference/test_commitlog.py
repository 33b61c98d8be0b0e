"""The commit log on the simulator's disk: crashes with any subset of what was not synced."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reference.broker.commitlog import Base, CommitLog
from reference.broker.files import Completions, SmallFile
from reference.broker.records import Record, encode
from tests.damage import altered, flipped
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

    def append(self, rng: Random, size: int = 100) -> bytes:
        body = rng.randbytes(size)
        data = encode(topic="t", queue_id=0, offset=0, position=self.log.end, body=body)
        self.log.append(self.env, data)
        return data


def whole(log: CommitLog, env: Any) -> bytes:
    data, at = b"", log.first
    while at < log.end:
        part = log.read_records(env, at, 1000)
        data, at = data + part, at + len(part)
    return data


class LogMachine(RuleBasedStateMachine):
    """Lives of one log beside what it may hold: ``content`` from the position ``origin`` on. What is under way (a cut,
    or a log that begins anew) has happened, or not, after a crash."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.origin, self.content, self.epoch = 0, b"", 0
        self.epochs: dict[int, int] = {}  # position of a record → its epoch
        self.cut = self.anew = -1
        self.firsts = {0}
        self.whole = False  # no crash can make the log look damaged
        self.life = Life(self.disk)

    @property
    def ends(self) -> list[int]:
        return [*self.epochs, self.origin + len(self.content)]

    def busy(self) -> bool:
        return self.cut >= 0 or self.anew >= 0

    @precondition(lambda self: not self.busy())
    @rule(sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=6), begins=st.booleans(), flush=st.booleans())
    def append(self, sizes: list[int], begins: bool, flush: bool) -> None:
        log = self.life.log
        if begins or log.last_epoch != self.epoch:
            self.epoch += 1
            log.begin_epoch(self.life.env, self.epoch, lambda env: None)
        for size in sizes:
            self.epochs[log.end] = log.last_epoch
            self.content += self.life.append(Random(size), size)
        if flush:
            log.flush(self.life.env)

    @precondition(lambda self: not self.busy())
    @rule()
    def note_bounds(self) -> None:
        self.life.log.confirm = max(self.life.log.confirm, self.life.log.synced)
        self.life.log.note_bounds(self.life.env)

    @rule(count=st.sampled_from((1, 2, 1000)))
    def end_syncs(self, count: int) -> None:
        self.life.settle(count)
        if count < 1000:
            return
        self.whole = self.whole or self.disk.size("state.1") >= 0
        if self.anew >= 0:
            self._begun_anew()
        elif self.cut >= 0:
            self._cut_at(self.cut)
        self.cut = self.anew = -1
        self.firsts = {self.life.log.first}

    def _begun_anew(self) -> None:
        self.origin = self.anew
        self.content, self.epochs = b"", {}

    def _cut_at(self, end: int) -> None:
        self.content = self.content[: end - self.origin]
        self.epochs = {position: epoch for position, epoch in self.epochs.items() if position < end}

    @precondition(lambda self: not self.busy() and self.epochs)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.life.settle()
        self.cut = data.draw(st.sampled_from([end for end in self.ends if end >= self.life.log.first]))
        self.life.log.truncate(self.life.env, self.cut, lambda env: None)
        self.whole = False

    @precondition(lambda self: not self.busy())
    @rule(data=st.data())
    def retain(self, data: st.DataObject) -> None:
        ends = [end for end in self.life.log.segment_ends() if end <= self.life.log.synced]
        if ends:
            self.firsts.add(end := data.draw(st.sampled_from(ends)))
            self.life.log.advance(self.life.env, Base(position=end, queues={0: end}))

    @precondition(lambda self: not self.busy() and len(self.epochs) > 4)
    @rule(further=st.integers(0, 5000))
    def restart(self, further: int) -> None:
        self.life.settle()
        self.anew, self.whole = self.life.log.end + further, False
        self.epoch += 1
        self.firsts = {self.life.log.first}
        base = Base(position=self.anew, queues={0: 12}, topics=[("t", 1, 0)], offsets={"g": {0: 3}})
        self.life.log.restart_at(self.life.env, base, [(self.epoch, self.origin)], lambda env: None)

    @precondition(lambda self: self.busy() or self.epochs)
    @rule(rng=st.integers(0, 1 << 32).map(Random))
    def crash(self, rng: Random) -> None:
        floor = min(self.life.log.synced, *(at for at in (self.cut,) if at >= 0), self.life.log.end)
        self.disk.crash(rng)
        self.life = Life(self.disk)
        log = self.life.log
        assert log.synced == log.end
        if self.anew >= 0 and log.first == self.anew and not log.bootstrapping:
            self._begun_anew()
        elif log.bootstrapping:
            assert self.anew >= 0 and log.end == log.first
            self.anew = max(self.anew, log.end)
            log.restart_at(self.life.env, Base(position=self.anew), [(self.epoch, 0)], lambda env: None)
            self.life.settle()
            self._begun_anew()
        else:
            assert log.end >= (0 if self.anew >= 0 else floor) and log.first in self.firsts
            assert all(log.epoch_at(at) == epoch for at, epoch in self.epochs.items() if log.first <= at < floor)
            assert not (self.whole and log.is_damaged)
            self._cut_at(log.end)
            self.epochs = {at: log.epoch_at(at) for at in self.epochs}
        self.cut = self.anew = -1
        self.firsts, self.whole = {log.first}, False

    @invariant()
    def the_log_holds_what_was_written(self) -> None:
        log = self.life.log
        if not self.busy():
            assert log.end == self.origin + len(self.content) and log.first <= log.synced <= log.end
            assert whole(log, self.life.env) == self.content[log.first - self.origin :]


TestLog = LogMachine.TestCase


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30), st.data())
def test_whatever_is_damaged_the_log_that_is_left_is_a_beginning_of_it(sizes: list[int], data: st.DataObject) -> None:
    life = Life(Disk())
    ends = [life.append(Random(size), size) and life.log.end for size in sizes]
    life.log.flush(life.env)
    life.settle()
    content = whole(life.log, life.env)
    path = data.draw(st.sampled_from(life.disk.list("log/")))
    life.disk.files[path] = bytearray(data.draw(altered(bytes(life.disk.files[path]))))
    again = Life(life.disk)
    assert again.log.end in (0, *ends) and whole(again.log, again.env) == content[: again.log.end]
    assert [record.end for record in again.records] == [end for end in ends if end <= again.log.end]


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


class SmallFileMachine(RuleBasedStateMachine):
    """One value after another, in lives that end by a crash: the last durable one is found, or a later one."""

    def __init__(self) -> None:
        super().__init__()
        self.disk, self.written, self.durable = Disk(), 0, 0
        self.load()

    def load(self) -> None:
        self.env: Any = Env(self.disk)
        self.completions, self.done = Completions(), self.disk.tokens
        self.file = SmallFile("state", self.completions)
        value = self.file.load(self.disk)
        found = 0 if value is None else value["n"]
        assert self.durable <= found <= self.written
        self.durable = self.written = found

    @rule(pad=st.integers(0, 2000))
    def save(self, pad: int) -> None:
        self.written += 1
        self.file.save(self.env, {"n": self.written, "pad": "x" * pad}, partial(self._reached, self.written))

    def _reached(self, number: int, env: Any) -> None:
        self.durable = max(self.durable, number)

    @rule()
    def copy(self) -> None:
        self.file.copy(self.env)

    @precondition(lambda self: self.done < self.disk.tokens)
    @rule()
    def end_a_sync(self) -> None:
        self.done += 1
        self.disk.end_sync(self.done)
        self.completions.done(self.env, self.done)

    @rule(rng=st.integers(0, 1 << 32).map(Random))
    def crash(self, rng: Random) -> None:
        self.disk.crash(rng)
        self.load()


TestSmallFile = SmallFileMachine.TestCase


@given(st.integers(1, 4), st.booleans(), st.integers(0, 1), st.data())
def test_a_bit_that_flips_in_a_small_file_hides_at_most_the_slot_it_is_in(
    saves: int, copied: bool, slot: int, data: st.DataObject
) -> None:
    disk = Disk()
    env: Any = Env(disk)
    completions = Completions()
    file = SmallFile("state", completions)
    for number in range(1, saves + 1):
        file.save(env, number, lambda env: None)
        completions.done(env, disk.tokens)
    if copied:
        file.copy(env)
    path = f"state.{slot}"
    if path in disk.files:
        disk.files[path] = bytearray(data.draw(flipped(bytes(disk.files[path]))))
    newest = not copied and slot == saves % 2
    assert SmallFile("state", completions).load(disk) == (saves - newest or None)


def test_no_bit_of_an_older_versions_number_makes_it_the_newest() -> None:
    disk = Disk()
    env: Any = Env(disk)
    completions = Completions()
    file = SmallFile("state", completions)
    for number in (1, 2):
        file.save(env, number, lambda env: None)
        completions.done(env, disk.tokens)
    for bit in range(64):
        disk.files["state.1"][bit // 8] ^= 1 << bit % 8
        assert SmallFile("state", completions).load(disk) == 2
        disk.files["state.1"][bit // 8] ^= 1 << bit % 8


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
