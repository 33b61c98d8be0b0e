"""The strict disk: what was synced is on the real disk, what was not is nowhere but in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from chaos.node import DiskFull
from chaos.shell.strict_disk import StrictDisk


class Life:
    """A node's disk over several lives; ``die`` forgets what is in memory, as a killed process would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.done: list[int] = []
        self.errors: list[OSError] = []
        self.capacity_bytes: int | None = None
        self._told = threading.Condition()
        self.begin()

    def begin(self) -> None:
        self.disk = StrictDisk(self.root, self._on_done, self._on_error, capacity_bytes=self.capacity_bytes)

    def die(self) -> StrictDisk:
        self.disk.close()
        self.done.clear()
        self.begin()
        return self.disk

    def sync(self, *paths: str) -> None:
        token = self.disk.sync(paths)
        with self._told:
            assert self._told.wait_for(lambda: token in self.done or self.errors, 10)

    def wait_for_error(self) -> OSError:
        with self._told:
            assert self._told.wait_for(lambda: self.errors, 10)
        return self.errors[0]

    def _on_done(self, token: int) -> None:
        with self._told:
            self.done.append(token)
            self._told.notify_all()

    def _on_error(self, error: OSError) -> None:
        with self._told:
            self.errors.append(error)
            self._told.notify_all()


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path / "disk")
    yield life
    life.disk.close()


def test_unsynced_bytes_never_reach_the_real_disk(life: Life) -> None:
    life.disk.write("a/log", 0, b"synced")
    life.sync("a/log")
    life.disk.write("a/log", 6, b" and not")
    life.disk.write("b", 3, b"new")
    assert life.disk.read("a/log") == b"synced and not" and life.disk.read("b") == b"\0\0\0new"
    assert (life.root / "a/log").read_bytes() == b"synced" and not (life.root / "b").exists()
    disk = life.die()
    assert disk.list() == ["a/log"] and disk.size("a/log") == 6 and disk.size("b") == -1
    assert disk.read("a/log", 2, 3) == b"nce"


def test_an_unsynced_truncation_and_removal_come_back(life: Life) -> None:
    for name in ("cut", "gone"):
        life.disk.write(name, 0, b"0123456789")
    life.sync("cut", "gone")
    life.disk.truncate("cut", 4)
    life.disk.remove("gone")
    assert life.disk.read("cut") == b"0123" and life.disk.list() == ["cut"]
    disk = life.die()
    assert disk.read("cut") == disk.read("gone") == b"0123456789"
    disk.truncate("cut", 4)
    disk.remove("gone")
    life.sync("cut", "gone")
    disk = life.die()
    assert disk.read("cut") == b"0123" and disk.list() == ["cut"]


def test_a_rename_is_durable_once_the_new_name_is_synced(life: Life) -> None:
    life.disk.write("state", 0, b"old")
    life.sync("state")
    life.disk.write("state.tmp", 0, b"newer")
    life.disk.rename("state.tmp", "state")
    assert life.disk.read("state") == b"newer" and life.disk.list() == ["state"]
    assert life.die().read("state") == b"old"
    life.disk.write("state.tmp", 0, b"newer")
    life.disk.rename("state.tmp", "state")
    life.sync("state")
    disk = life.die()
    assert disk.read("state") == b"newer" and disk.list() == ["state"]
    assert [path.name for path in life.root.iterdir()] == ["state"]


def test_syncs_end_in_their_order(life: Life) -> None:
    for number in range(20):
        life.disk.write(f"file-{number % 3}", number * 10, b"x" * 10)
        life.disk.sync([f"file-{number % 3}"])
    life.sync("nothing of that name")
    assert life.done == list(range(1, 22))


def test_a_full_disk_refuses_the_write_whole(life: Life) -> None:
    life.capacity_bytes = 100
    disk = life.die()
    disk.write("log", 0, b"x" * 90)
    with pytest.raises(DiskFull, match="no room for 15 bytes more"):
        disk.write("log", 85, b"y" * 20)
    assert disk.read("log") == b"x" * 90
    disk.write("log", 0, b"z" * 90)


def test_a_sync_that_fails_is_told_and_nothing_follows(life: Life) -> None:
    life.disk.write("log", 0, b"a")
    life.sync("log")
    (life.root / "log").unlink()
    life.disk.write("log", 1, b"b")
    life.disk.sync(["log"])
    assert isinstance(life.wait_for_error(), FileNotFoundError)
    life.disk.sync(["log"])
    assert life.done == [1]


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a//b", "a/./b", "", ".pending-1"])
def test_a_node_stays_in_its_directory(life: Life, path: str) -> None:
    with pytest.raises(ValueError, match="no path on a node's disk"):
        life.disk.write(path, 0, b"x")


def test_missing_files(life: Life) -> None:
    life.disk.remove("none")
    for act in (lambda: life.disk.read("none"), lambda: life.disk.truncate("none", 0)):
        with pytest.raises(FileNotFoundError):
            act()


@pytest.mark.parametrize("seed", range(10))
def test_after_a_sync_of_everything_memory_and_disk_agree(life: Life, seed: int) -> None:
    rng = Random(seed)
    names = ["a", "b", "c/d", "c/e"]
    for _ in range(150):
        disk, name, other = life.disk, rng.choice(names), rng.choice(names)
        match rng.randint(0, 5):
            case 0 | 1:
                disk.write(name, rng.randint(0, 50), rng.randbytes(rng.randint(1, 30)))
            case 2 if disk.size(name) >= 0:
                disk.truncate(name, rng.randint(0, 50))
            case 3 if disk.size(name) >= 0:
                disk.rename(name, other)
            case 4:
                disk.remove(name)
            case 5:
                disk.sync(rng.sample(names, 2))
    seen = {name: life.disk.read(name) for name in life.disk.list()}
    life.sync(*names)
    disk = life.die()
    assert {name: disk.read(name) for name in disk.list()} == seen
