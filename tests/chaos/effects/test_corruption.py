"""Damage to disks: only what is old is harmed, all of it may be, and what was done is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.deployments._sim.disk import SimDisk
from chaos.deployments._sim.files import CopiedFiles, SimFiles
from chaos.effects.corruption import SECTOR, AtDisk, Files, Harm, Kind, at_disk, do_harm, mark, transfer
from chaos.machines.folder_disk import RealFiles

OLD = {"a/log": bytes([7]) * 100, "b": b"small", "turned": b"first"}


@pytest.fixture(params=["real", "sim", "copy"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    made: dict[str, Files] = {
        "real": RealFiles(tmp_path / "disk"),
        "sim": SimFiles(SimDisk(lambda token, pending_bytes: None)),
        "copy": CopiedFiles(),
    }
    it = made[request.param]
    for name, content in OLD.items():
        it.put(name, content)
    return it


def contents(files: Files) -> dict[str, bytes]:
    return {name: files.read(name) for name in files.names()}


def age(files: Files) -> dict[str, tuple[int, int]]:
    """Mark them, and go on: one file grows, one is written anew, one comes."""
    marked = mark(files)
    files.put("a/log", OLD["a/log"] + b"young")
    files.put("turned", b"again")
    files.put("new", b"young")
    return marked


def test_bits_flip_in_old_bytes_alone_and_anywhere_in_them(files: Files) -> None:
    marked, hit = age(files), set()
    young = contents(files)
    for draw in range(300):
        done = do_harm(files, marked, Harm(kind=Kind.FLIP, draw=draw, count=3))
        assert len(done) == 3
        for change in done:
            name, offset, before, after = (change[key] for key in ("file", "offset", "before", "after"))
            assert isinstance(name, str) and isinstance(offset, int)
            assert isinstance(before, int) and isinstance(after, int) and (before ^ after).bit_count() == 1
            assert young[name][offset] == before and files.read(name)[offset] == after
            hit.add((name, offset))
        for name, content in young.items():
            files.put(name, content)
    assert hit == {("a/log", at) for at in range(100)} | {("b", at) for at in range(5)}


def test_what_is_written_over_zeros_makes_the_rest_of_its_file_no_younger(files: Files) -> None:
    files.put("a/log", b"old" + bytes(100))
    marked = mark(files)
    files.put("a/log", b"old" + b"young" + bytes(95))
    (done,) = do_harm(files, marked, Harm(kind=Kind.FLIP, draw=1, files="a/*"))
    assert isinstance(done["offset"], int) and done["offset"] < 3


def test_a_file_is_cut_within_its_old_bytes(files: Files) -> None:
    marked = age(files)
    (done,) = do_harm(files, marked, Harm(kind=Kind.CUT, draw=5, files="a/*"))
    assert done == {"file": "a/log", "size_before": 105, "size_after": len(files.read("a/log"))}
    assert len(files.read("a/log")) < 100 and files.read("b") == b"small"


def test_sectors_are_written_to_other_places_of_their_file(files: Files) -> None:
    before = b"".join(bytes([number]) * SECTOR for number in range(8))
    files.put("a/log", before)
    marked = mark(files)
    young = b"young" * SECTOR
    hit, held = set(), set()
    for draw in range(200):
        files.put("a/log", before + young)
        done = do_harm(files, marked, Harm(kind=Kind.MISDIRECT, draw=draw, count=2))
        now = files.read("a/log")
        assert len(done) == 2 and now[len(before) :] == young, "only old sectors, as many as were asked for"
        changed = {at for at in range(8) if now[at * SECTOR] != at}
        assert changed == {change["offset"] // SECTOR for change in done}  # type: ignore[operator]
        for at in range(8):
            sector = now[at * SECTOR : (at + 1) * SECTOR]
            assert sector == sector[:1] * SECTOR and sector[0] < 8, "each is a whole one"
        hit |= changed
        held |= {now[at * SECTOR] for at in changed}
    assert hit == held == set(range(8))
    assert contents(files).keys() == OLD.keys()


def test_equal_sectors_can_not_be_misdirected(files: Files) -> None:
    files.put("a/log", bytes(4 * SECTOR))
    assert do_harm(files, mark(files), Harm(kind=Kind.MISDIRECT, draw=1)) == []


def test_where_nothing_is_old_nothing_is_done(files: Files) -> None:
    marked = age(files)
    before = contents(files)
    for name in ("turned", "new", "nothing"):
        assert do_harm(files, marked, Harm(kind=Kind.FLIP, draw=1, files=name, count=9)) == []
    assert do_harm(files, {}, Harm(kind=Kind.CUT, draw=1)) == []
    assert contents(files) == before


def test_the_same_draw_does_the_same(files: Files) -> None:
    copy = CopiedFiles()
    transfer(files, copy)
    harm = Harm(kind=Kind.FLIP, draw=7, count=4)
    assert do_harm(files, mark(files), harm) == do_harm(copy, mark(copy), harm) and contents(files) == contents(copy)


def test_a_disk_goes_back_to_its_copy_and_holds_nothing_else(files: Files, tmp_path: Path) -> None:
    copy = RealFiles(tmp_path / "copies" / "node")
    assert at_disk(files, copy, AtDisk.COPY, {}) == {"files": 3, "changed": 3, "names": ["a/log", "b", "turned"]}
    age(files)
    files.remove("b")
    told = at_disk(files, copy, AtDisk.PUT_BACK, {})
    assert told == {"files": 3, "changed": 4, "names": ["a/log", "b", "new", "turned"]}
    assert contents(files) == OLD and at_disk(files, copy, AtDisk.PUT_BACK, {})["changed"] == 0
    files.remove("b")
    assert at_disk(files, copy, AtDisk.COPY, {})["changed"] == 1 and copy.names() == ["a/log", "turned"]
