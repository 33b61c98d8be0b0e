"""The crash model: what is synced stays, what isn't may go in any combination."""

from __future__ import annotations

from random import Random

import pytest

from chaos.deployments._sim.disk import SimDisk
from chaos.node import DiskFull
from chaos.shell.sectors import SECTOR_BYTES


class Syncing(SimDisk):
    """Collects the tokens of its syncs; ``end_all`` ends them in order."""

    def __init__(self, **options: int) -> None:
        self.tokens: list[int] = []
        super().__init__(lambda token, pending_bytes: self.tokens.append(token), **options)

    def end_all(self) -> None:
        for token in self.tokens:
            self.finish(token)
        self.tokens.clear()

    def save(self, *paths: str) -> None:
        self.sync(paths)
        self.end_all()


def contents(disk: SimDisk) -> dict[str, bytes]:
    return {path: disk.read(path) for path in disk.list()}


def after_crashes(make: object, seeds: int = 200) -> list[dict[str, bytes]]:
    """What 200 crashes leave behind of the disk that ``make()`` builds."""
    found = []
    for seed in range(seeds):
        disk = make()  # type: ignore[operator]
        disk.crash(Random(seed))
        found.append(contents(disk))
    return found


def test_reads_see_own_writes_and_gaps_are_zero() -> None:
    disk = Syncing()
    disk.write("a/b", 3, b"xyz")
    disk.write("a/b", 4, b"Y")
    assert disk.read("a/b") == b"\0\0\0xYz"
    assert disk.read("a/b", 4, 1) == b"Y" and disk.read("a/b", 5, 10) == b"z" and disk.read("a/b", 6) == b""
    assert disk.size("a/b") == 6 and disk.size("a") == -1 and disk.list("a/") == ["a/b"]
    with pytest.raises(FileNotFoundError):
        disk.read("a")
    with pytest.raises(FileNotFoundError):
        disk.truncate("a", 0)
    disk.remove("a")


def test_synced_bytes_survive_every_crash() -> None:
    def make() -> SimDisk:
        disk = Syncing()
        disk.write("log", 0, b"a" * 2000)
        disk.save("log")
        disk.write("log", 2000, b"b" * 2000)
        return disk

    for left in after_crashes(make):
        assert left["log"][:2000] == b"a" * 2000
        assert set(left["log"][2000:]) <= set(b"b\0")


def test_unsynced_bytes_are_lost_kept_and_torn() -> None:
    def make() -> SimDisk:
        disk = Syncing()
        disk.save("nothing")
        disk.write("log", 0, b"")
        disk.save("log")
        disk.write("log", 0, bytes([7]) * 5000)
        return disk

    found = [left["log"] for left in after_crashes(make)]
    assert b"" in found and bytes([7]) * 5000 in found
    torn = [data for data in found if data.strip(b"\0") and data != bytes([7]) * 5000]
    assert len(torn) > 20
    for data in found:
        for begin in range(0, len(data), SECTOR_BYTES):
            assert len(set(data[begin : begin + SECTOR_BYTES])) == 1, "a sector is written whole or not at all"
    assert any(b"\0\x07" in data for data in torn), "a later sector may survive an earlier one"


def test_bytes_written_after_the_sync_began_are_not_covered() -> None:
    def make() -> SimDisk:
        disk = Syncing()
        disk.write("log", 0, b"covered")
        disk.sync(["log"])
        disk.write("log", 0, b"C")
        disk.write("log", 7, b" not")
        disk.end_all()
        return disk

    found = {left["log"] for left in after_crashes(make)}
    assert {data[1:7] for data in found} == {b"overed"}
    assert {b"covered", b"Covered not"} <= found


def test_a_sync_that_has_not_ended_covers_nothing() -> None:
    def make() -> SimDisk:
        disk = Syncing()
        disk.write("log", 0, b"x")
        disk.sync(["log"])
        return disk

    assert {} in after_crashes(make)


@pytest.mark.parametrize(("ended", "sure"), [(0, b""), (1, b"one"), (2, b"onetw")])
def test_two_syncs_under_way_end_in_order(ended: int, sure: bytes) -> None:
    def make() -> SimDisk:
        disk = Syncing()
        disk.write("log", 0, b"")
        disk.save("log")
        disk.write("log", 0, b"one")
        disk.sync(["log"])
        disk.write("log", 3, b"two")
        disk.truncate("log", 5)
        disk.sync(["log"])
        disk.write("log", 5, b"three")
        for token in disk.tokens[:ended]:
            disk.finish(token)
        return disk

    found = {left["log"] for left in after_crashes(make)}
    assert {sure, b"onetwthree"} <= found
    assert ended == 0 or all(data.startswith(b"one") for data in found)


def test_a_truncation_that_was_not_synced_can_come_back() -> None:
    def make() -> SimDisk:
        disk = Syncing()
        disk.write("log", 0, b"old" * 100)
        disk.save("log")
        disk.truncate("log", 30)
        return disk

    sizes = {len(left["log"]) for left in after_crashes(make)}
    assert {30, 300} <= sizes


def test_a_synced_truncation_stays() -> None:
    def make() -> SimDisk:
        disk = Syncing()
        disk.write("log", 0, b"old" * 100)
        disk.save("log")
        disk.truncate("log", 30)
        disk.save("log")
        return disk

    assert {len(left["log"]) for left in after_crashes(make)} == {30}


def test_overwriting_after_truncation_may_mix_old_and_new() -> None:
    def make() -> SimDisk:
        disk = Syncing()
        disk.write("log", 0, b"o" * 4096)
        disk.save("log")
        disk.truncate("log", 1024)
        disk.write("log", 1024, b"n" * 1024)
        return disk

    found = {left["log"] for left in after_crashes(make, 400)}
    assert b"o" * 1024 + b"n" * 1024 in found and b"o" * 4096 in found
    assert b"o" * 1024 + b"n" * 1024 + b"o" * 2048 in found


def test_rename_is_one_step_and_durable_once_the_new_name_is_synced() -> None:
    def make(save: bool) -> SimDisk:
        disk = Syncing()
        disk.write("meta", 0, b"old")
        disk.save("meta")
        disk.write("meta.new", 0, b"new")
        disk.save("meta.new")
        disk.rename("meta.new", "meta")
        if save:
            disk.save("meta")
        return disk

    found = after_crashes(lambda: make(False))
    assert {"meta": b"new"} in found and {"meta": b"old", "meta.new": b"new"} in found
    assert all(left in ({"meta": b"new"}, {"meta": b"old", "meta.new": b"new"}) for left in found)
    assert all(left == {"meta": b"new"} for left in after_crashes(lambda: make(True)))


def test_rename_without_sync_of_the_content_may_leave_an_empty_file() -> None:
    def make() -> SimDisk:
        disk = Syncing()
        disk.write("meta.new", 0, b"new")
        disk.rename("meta.new", "meta")
        return disk

    found = after_crashes(make)
    assert {"meta": b""} in found and {"meta": b"new"} in found and {} in found


def test_creation_and_removal_are_durable_after_sync_only() -> None:
    def make(save: bool) -> SimDisk:
        disk = Syncing()
        disk.write("old", 0, b"o")
        disk.save("old")
        disk.remove("old")
        disk.write("new", 0, b"n")
        if save:
            disk.save("old", "new")
        return disk

    names = {tuple(left) for left in after_crashes(lambda: make(False))}
    assert names == {("old",), ("new",), ("new", "old"), ()}
    assert {tuple(left) for left in after_crashes(lambda: make(True))} == {("new",)}


def test_a_full_disk_refuses_the_write_as_a_whole() -> None:
    disk = Syncing(capacity_bytes=1000)
    disk.write("a", 0, bytes(900))
    with pytest.raises(DiskFull, match="900 of 1000"):
        disk.write("b", 0, bytes(101))
    assert disk.size("b") == -1
    disk.write("a", 0, bytes(900))
    disk.truncate("a", 100)
    disk.write("b", 0, bytes(900))
    disk.remove("b")
    disk.write("c", 0, bytes(10))
    disk.write("d", 0, bytes(20))
    disk.rename("d", "c")
    disk.write("b", 0, bytes(880))
    assert disk.size("c") == 20


def test_against_a_plain_model_when_everything_is_synced() -> None:
    """Random operations, each followed by a sync of what it touched: every crash leaves exactly the model."""
    rng = Random(11)
    disk, model = Syncing(), dict[str, bytearray]()
    for _ in range(3000):
        path, other = rng.choice("abc"), rng.choice("abc")
        kind = rng.randrange(6)
        if kind < 3:
            offset, data = rng.randrange(1500), rng.randbytes(rng.randrange(1, 700))
            disk.write(path, offset, data)
            content = model.setdefault(path, bytearray())
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data
        elif kind == 3 and path in model:
            size = rng.randrange(1500)
            disk.truncate(path, size)
            del model[path][size:]
        elif kind == 4 and path in model and path != other:
            disk.rename(path, other)
            model[other] = model.pop(path)
        elif kind == 5:
            disk.remove(path)
            model.pop(path, None)
        if rng.random() < 0.5:
            continue
        disk.save("a", "b", "c")
        if rng.random() < 0.3:
            disk.crash(rng)
        assert contents(disk) == model


@pytest.mark.parametrize("seed", range(40))
def test_what_was_synced_and_left_alone_survives(seed: int) -> None:
    """Random operations, syncs of single paths that end late, and crashes: a path that was synced and not touched
    since holds exactly what it held when the sync began, or is still gone."""
    rng = Random(seed)
    disk = Syncing()
    sure: dict[str, bytes | None] = {}
    under_way: dict[int, tuple[str, bytes | None]] = {}
    checked = 0
    for _ in range(2000):
        path, other = rng.choice("abcd"), rng.choice("abcd")
        touched: tuple[str, ...] = (path,)
        kind = rng.randrange(100)
        if kind < 35:
            disk.write(path, rng.randrange(2500), rng.randbytes(rng.randrange(900)))
        elif kind < 45 and disk.size(path) >= 0:
            disk.truncate(path, rng.randrange(2500))
        elif kind < 55 and disk.size(path) >= 0 and path != other:
            disk.rename(path, other)
            touched = path, other
        elif kind < 60:
            disk.remove(path)
        else:
            touched = ()
        for name in touched:
            sure.pop(name, None)
            under_way = {token: state for token, state in under_way.items() if state[0] != name}
        if 60 <= kind < 80:
            token = disk.sync([path])
            under_way[token] = path, (disk.read(path) if disk.size(path) >= 0 else None)
        elif 80 <= kind < 96 and disk.tokens:
            token = disk.tokens.pop(0)
            disk.finish(token)
            if token in under_way:
                name, content = under_way.pop(token)
                sure[name] = content
        elif kind >= 96:
            disk.crash(rng)
            disk.tokens.clear()
            under_way.clear()
            for name, content in sure.items():
                assert (disk.read(name) if disk.size(name) >= 0 else None) == content, name
                checked += 1
            sure.clear()
    assert checked > 5
