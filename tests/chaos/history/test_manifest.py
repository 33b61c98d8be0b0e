"""The manifest grows a line for each part, whoever writes it, and vouches for nothing that it can't read."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos import guarded
from chaos.errors import MachineError
from chaos.history import directory, manifest
from chaos.history.manifest import Batch, Manifest, Sum, sum_of
from tests.damage import altered

#: Seals a file that grows, again and again.
WRITER = """
import sys
from pathlib import Path
from chaos.history.manifest import Manifest, sum_of
with Manifest(Path(sys.argv[1])) as sealing:
    for number in range(200):
        sealing.seal(sys.argv[2], sum_of(b"x" * number))
"""


#: Of files below a run: no other name is believed.
NAMES = st.text(min_size=1).filter(guarded.is_below)


def test_what_was_sealed_is_read_back(tmp_path: Path) -> None:
    with Manifest(tmp_path) as sealing:
        sealing.batch(Batch(0, Sum(7, 9), 3))
        sealing.segment(Batch(0, Sum(7, 9), 3))
        sealing.seal("traces/odd name\n%.jsonl", sum_of(b"abc"))
        sealing.seal("run.json", sum_of(b"1"))
        sealing.seal("run.json", sum_of(b"2"))
        sealing.seal("shards/a", sum_of(b""))
        sealing.gone("shards/a")
    sealed = manifest.read(tmp_path)
    assert sealed.damage == [] and sealed.batches == sealed.segments == [Batch(0, Sum(7, 9), 3)]
    assert sealed.stream_bytes == 7
    assert sealed.files == {
        "traces/odd name\n%.jsonl": [sum_of(b"abc")],
        "run.json": [sum_of(b"1"), sum_of(b"2")],
    }


def test_several_processes_can_write_one_manifest(tmp_path: Path) -> None:
    """A run that goes on may be judged meanwhile: both seal what they have written."""
    words = [sys.executable, "-P", "-c", WRITER, str(tmp_path)]
    writers = [
        subprocess.Popen([*words, name], env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])})
        for name in "abc"
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    sealed = manifest.read(tmp_path)
    assert sealed.damage == [] and {name: len(sums) for name, sums in sealed.files.items()} == dict.fromkeys("abc", 200)


def test_a_torn_line_stays_one_when_others_follow(tmp_path: Path) -> None:
    with Manifest(tmp_path) as sealing:
        sealing.seal("a", sum_of(b"a"))
        sealing.seal("b", sum_of(b"b"))
    os.truncate(tmp_path / manifest.FILE, (tmp_path / manifest.FILE).stat().st_size - 5)
    with Manifest(tmp_path) as sealing:
        sealing.seal("c", sum_of(b"c"))
    sealed = manifest.read(tmp_path)
    assert sealed.damage == ["manifest: line 2 is damaged"] and list(sealed.files) == ["a", "c"]


def test_a_seal_without_a_sum_vouches_for_nothing(tmp_path: Path) -> None:
    with Manifest(tmp_path) as sealing:
        sealing.seal("a", sum_of(b"a"))
    wrong = "1 seal 1 no-sum traces/b"
    with (tmp_path / manifest.FILE).open("a") as file:
        file.write(f"{zlib.crc32(wrong.encode()):08x} {wrong}\n")
    sealed = manifest.read(tmp_path)
    assert sealed.damage == ["manifest: line 2 is damaged"] and list(sealed.files) == ["a"]


def test_a_disk_that_is_full_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Manifest(tmp_path) as sealing:
        sealing.seal("a", sum_of(b"a"))
        write = os.write
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", lambda handle, data: write(handle, data[:10]))
            with pytest.raises(MachineError, match=os.strerror(errno.ENOSPC)):
                sealing.seal("b", sum_of(b"b"))
        sealing.seal("c", sum_of(b"c"))
    sealed = manifest.read(tmp_path)
    assert sealed.damage == [] and list(sealed.files) == ["a", "c"]


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_manifest_that_is_no_file_is_not_written(tmp_path: Path, kind: str) -> None:
    (tmp_path / "other").write_bytes(b"precious")
    if kind == "pipe":
        os.mkfifo(tmp_path / manifest.FILE)
    else:
        (tmp_path / manifest.FILE).symlink_to(tmp_path / "other")
    with pytest.raises(MachineError):
        Manifest(tmp_path)
    assert (tmp_path / "other").read_bytes() == b"precious"


def test_a_run_that_is_killed_between_a_seal_and_its_writing_is_what_it_was(tmp_path: Path) -> None:
    directory.write_meta(tmp_path, {"seed": 1, "state": "running"})
    with Manifest(tmp_path) as sealing:
        sealing.seal(directory.META, sum_of(b"what was to be written"))
    assert directory.altered(tmp_path, manifest.read(tmp_path), ended=False) == []
    with Manifest(tmp_path) as sealing:
        sealing.seal(directory.META, sum_of(b"and once more"))
    assert directory.altered(tmp_path, manifest.read(tmp_path), ended=False) != []


def test_what_another_program_has_recorded_can_be_sealed(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "a.jsonl").write_text("{}")
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "all-0.parquet").write_bytes(b"")
    directory.seal(tmp_path)
    assert list(manifest.read(tmp_path).files) == ["run.json", "traces/a.jsonl", "shards/all-0.parquet"]
    assert directory.altered(tmp_path, manifest.read(tmp_path), ended=True) == []


@given(st.lists(st.tuples(NAMES, st.binary(max_size=9)), min_size=1, max_size=5), st.data())
def test_a_damaged_manifest_says_so_and_vouches_for_nothing_that_was_not_sealed(
    parts: list[tuple[str, bytes]], data: st.DataObject
) -> None:
    """Only a cut between two lines can't be seen in it: that rows and files are missing there is told by the run."""
    with TemporaryDirectory() as directory:
        run, file = Path(directory), Path(directory) / manifest.FILE
        with Manifest(run) as sealing:
            for number, (name, content) in enumerate(parts):
                sealing.batch(Batch(number, sum_of(content), number))
                sealing.seal(name, sum_of(content))
        whole, sealed = file.read_bytes(), manifest.read(run)
        damaged = data.draw(altered(whole))
        file.write_bytes(damaged)
        found = manifest.read(run)
        cut = whole.startswith(damaged) and damaged[-1:] in (b"", b"\n")
        assert bool(found.damage) == (not cut)
        assert set(found.batches) <= set(sealed.batches)
        assert all(set(sums) <= set(sealed.files[name]) for name, sums in found.files.items())
