"""A disk that has lost what it was sure to hold: no crash is taken for that, and that is not taken for a crash."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chaos.node import DiskFull
from reference.broker.commitlog import Base, Damaged
from reference.broker.files import Completions, SmallFile
from tests.reference.test_commitlog import Disk, Env, Life, whole


def worked(seed: int) -> tuple[Life, int]:
    """A log that was written, synced and noted as it comes; and how much its disk is sure to hold by its own word."""
    rng, life = Random(seed), Life(Disk())
    life.log.begin_epoch(life.env, 1, lambda env: None)
    life.append(rng)
    life.log.flush(life.env)
    life.settle()
    life.log.note_bounds(life.env)
    life.settle()
    noted = life.log.synced
    for _ in range(rng.randrange(60)):
        action = rng.randrange(10)
        if action < 6:
            life.append(rng)
        elif action < 8:
            life.log.flush(life.env)
        elif action == 8:
            life.settle(rng.randrange(4))
        else:
            life.settle()
            life.log.note_bounds(life.env)
            noted = life.log.synced
            life.settle()
    return life, noted


@pytest.mark.parametrize("seed", range(40))
def test_no_crash_looks_like_damage(seed: int) -> None:
    life, noted = worked(seed)
    life.disk.crash(Random(seed))
    again = Life(life.disk).log
    assert again.end >= noted and not again.is_damaged


@pytest.mark.parametrize("seed", range(60))
def test_no_damage_to_what_was_noted_looks_like_a_crash(seed: int) -> None:
    """Whatever is confirmed: the bytes were on the disk, and others may have been told so."""
    life, noted = worked(seed)
    rng = Random(seed)
    life.disk.crash(rng)
    paths = [path for path in life.disk.list("log/") if int(path[4:]) < noted]
    path = rng.choice(paths)
    size = min(life.disk.size(path), noted - int(path[4:]))
    if rng.random() < 0.5:
        life.disk.truncate(path, rng.randrange(size))
    else:
        life.disk.files[path][rng.randrange(size)] ^= 1 << rng.randrange(8)
    again = Life(life.disk).log
    assert again.confirm == 0 and again.end < noted and again.is_damaged


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("seed", range(10))
def test_a_small_file_that_was_copied_survives_damage_to_one_of_its_slots(seed: int, slot: int) -> None:
    rng, disk = Random(seed), Disk()
    env: Any = Env(disk)
    for life in range(4):
        completions, done = Completions(), disk.tokens
        file = SmallFile("state", completions)
        assert file.load(disk) == (life - 1 if life else None)
        for value in (-life, life):
            file.save(env, value, lambda env: None)
        for _ in range(3):
            while done < disk.tokens:
                done += 1
                disk.end_sync(done)
                completions.done(env, done)
            file.copy(env)
        if rng.random() < 0.5:
            disk.files[f"state.{slot}"][rng.randrange(disk.size(f"state.{slot}"))] ^= 4
        else:
            disk.truncate(f"state.{slot}", rng.randrange(disk.size(f"state.{slot}")))


def test_a_disk_that_is_full_has_no_room_for_a_copy_and_nobody_ends_of_that(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, completions = Disk(), Completions()
    env: Any = Env(disk)
    file = SmallFile("state", completions)
    file.save(env, 1, lambda env: None)
    disk.end_sync(1)
    completions.done(env, 1)
    with monkeypatch.context() as full:
        full.setattr(disk, "write", refuse)
        file.copy(env)
    assert disk.list() == ["state.1"]
    file.copy(env)
    disk.end_sync(2)
    assert disk.read("state.0") == disk.read("state.1")


def refuse(path: str, offset: int, data: bytes) -> None:
    raise DiskFull(path)


def test_a_log_without_the_state_that_explains_it_is_damaged() -> None:
    life, _ = worked(3)
    for slot in (0, 1):
        life.disk.remove(f"state.{slot}")
    again = Life(life.disk)
    assert again.log.is_damaged
    again.log.restart_at(again.env, Base(), [], lambda env: None)
    again.settle()
    assert not again.log.is_damaged and again.log.end == 0 and not Life(life.disk).log.is_damaged


def test_a_log_without_records_that_lost_its_state_is_damaged() -> None:
    """It began anew at a master's base, and nothing has come since: only its state says how far it is."""
    life = Life(Disk())
    life.log.restart_at(life.env, Base(position=5000), [], lambda env: None)
    for _ in range(2):
        life.settle()
        life.log.note_bounds(life.env)
    life.settle()
    assert not life.disk.list("log/")
    life.disk.files["state.0"][20] ^= 1
    once = Life(life.disk).log
    assert once.end == 5000 and not once.is_damaged
    life.disk.files["state.1"][20] ^= 1
    assert Life(life.disk).log.is_damaged


@pytest.mark.parametrize("seed", range(10))
def test_a_crash_within_the_first_words_of_a_log_is_no_damage(seed: int) -> None:
    """Nothing was promised yet; whoever forgot its place for that could not be elected, and might be the only one."""
    life = Life(Disk())
    life.log.begin_epoch(life.env, 1, lambda env: None)
    life.disk.crash(Random(seed))
    assert not Life(life.disk).log.is_damaged


def test_nothing_is_read_that_was_not_written() -> None:
    life, _ = worked(4)
    log, content = life.log, whole(life.log, life.env)
    path = life.disk.list("log/")[0]
    size = int.from_bytes(content[:4], "big")
    assert log.read_record(life.env, 0, size) == content[:size]
    for at in (2, 40, size - 3):
        life.disk.files[path][at] ^= 32
        with pytest.raises(Damaged, match="at position 0"):
            log.read_record(life.env, 0, size)
        with pytest.raises(Damaged, match="at position 0"):
            log.read_records(life.env, 0, 1000)
        life.disk.files[path][at] ^= 32
    assert whole(log, life.env) == content
