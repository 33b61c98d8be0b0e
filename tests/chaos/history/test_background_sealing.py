"""Pieces of traces become segments while nodes go on writing: cut short anywhere, it loses no row and repeats none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from chaos.errors import Overtaken
from chaos.history import background_sealing, directory, manifest, seal_traces, segments, traces
from chaos.history.background_sealing import sealing_pieces
from chaos.history.manifest import Manifest
from chaos.history.seal_traces import Lines
from chaos.history.stream import SCHEMA
from chaos.shell.trace_file import TraceFile
from tests.chaos.history.runs import turn

NODES = ("n", "n.5", "n-a")
PIECE = 3_000


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "BLOCK", 1_000)
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 50)


class Nodes:
    """Nodes that trace into a run, and once more into another one in which no line becomes a segment."""

    def __init__(self, folder: Path, seed: int, names: Sequence[str] = NODES) -> None:
        self._names = names
        self.run, self.same = folder / "run", folder / "same"
        self._rng, self._step = Random(seed), 0
        self._files: dict[Path, TraceFile] = {}
        for run in (self.run, self.same):
            (run / directory.TRACES).mkdir(parents=True)

    def write(self, rows: int) -> None:
        """Write some rows of each node; now and then a node starts again, or something odd stands there."""
        for node in self._names:
            for _ in range(rows):
                self._step += 1
                odd = self._rng.choice([b"{no row}\n", b"=\n", b'{"f":"json","node":"n"}\n', b"\n"])
                odd = odd if self._rng.random() < 0.05 else b""
                fields = {"f": self._rng.choice(("append", "synced")), "value": {"size": self._rng.randrange(9)}}
                again = self._rng.random() < 0.02
                for run in (self.run, self.same):
                    self._add(run / directory.TRACES / f"{node}.jsonl", fields, odd, again)

    def _add(self, path: Path, fields: dict[str, Any], odd: bytes, again: bool) -> None:
        if again or path not in self._files:
            self._files[path] = TraceFile(path)
        row = {"kind": "trace", "node": path.stem, "incarnation": 1, "step": self._step}
        self._files[path].add({**row, **dict.fromkeys(("time_ns", "epoch", "queue", "offset"), self._step), **fields,
                               **dict.fromkeys(("position", "message", "hash"), 7)})  # fmt: skip
        self._files[path].write()
        with path.open("ab") as file:
            file.write(odd)

    def tear(self, end: bytes) -> None:
        """The last write of each node is cut off."""
        for run in (self.run, self.same):
            for node in self._names:
                with (run / directory.TRACES / f"{node}.jsonl").open("ab") as file:
                    file.write(end)

    def check(self) -> None:
        """The rows are the same, and so is what is said of odd lines."""
        assert read(self.run) == read(self.same)


def read(run: Path) -> tuple[list[dict[str, Any]], list[str]]:
    tables, damage = traces.read_traces(run, 100, manifest.read(run))
    return pa.concat_tables([SCHEMA.empty_table(), *tables]).to_pylist(), damage


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_the_same_while_their_lines_become_segments(seed: int, tmp_path: Path) -> None:
    nodes, made = Nodes(tmp_path, seed), 0
    for _ in range(6):
        nodes.write(60)
        made += turn(nodes.run, PIECE)
        nodes.check()
        assert not turn(nodes.run, PIECE)
        assert directory.altered(nodes.run, manifest.read(nodes.run), ended=False) == []
    nodes.tear((b"", b'{"f":"torn","node":"n"}', b"0\t1\t2")[seed % 3])
    nodes.check()
    seal_traces.seal_traces(nodes.run)
    nodes.check()
    assert made > 10 and not directory.line_files(nodes.run)
    assert directory.altered(nodes.run, manifest.read(nodes.run), ended=True) == []


def test_lines_give_their_bytes_back_and_keep_their_place(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 1)
    nodes.write(600)
    turn(nodes.run, PIECE)
    for mine, same in zip((nodes.run / "traces").glob("*.jsonl"), (nodes.same / "traces").glob("*.jsonl"), strict=True):
        assert mine.stat().st_size == same.stat().st_size and mine.stat().st_blocks < same.stat().st_blocks / 2
    nodes.write(60)  # nodes start again, and look for the end of their last line
    nodes.check()


def test_the_last_line_is_left_alone_as_long_as_it_may_go_on(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 1)
    nodes.write(80)
    nodes.tear(b'{"f":"torn","value":{"text":"' + b" " * 20_000)
    turn(nodes.run, PIECE)
    nodes.tear(b'"}}\n')
    nodes.check()
    turn(nodes.run, PIECE)
    nodes.check()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], list[str]]]:
    """Has this process end at the step of a number; what was done by then."""
    done: list[str] = []
    last = [1 << 30]

    def begin_step(what: str) -> None:
        done.append(what)
        if len(done) > last[0]:
            raise Killed(what)

    def counted(owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def step(*words: Any, **named: Any) -> Any:
            begin_step(f"before {name}")
            found = call(*words, **named)
            begin_step(f"after {name}")
            return found

        monkeypatch.setattr(owner, name, step)

    for owner, name in ((seal_traces, "write_segment"), (Path, "rename"), (Manifest, "seal"), (Manifest, "gone"),
                        (seal_traces, "punch"), (Path, "unlink")):  # fmt: skip
        counted(owner, name)

    def begin(number: int) -> list[str]:
        done.clear()
        last[0] = number
        return done

    yield begin
    last[0] = 1 << 30


@pytest.mark.parametrize("ended", [False, True])
def test_whenever_it_is_killed_no_row_is_lost_or_read_twice(
    ended: bool, tmp_path: Path, steps: Callable[[int], list[str]]
) -> None:
    nodes = Nodes(tmp_path / "nodes", 2, ["n"])
    nodes.write(60)
    turn(nodes.run, PIECE)
    nodes.write(120)
    nodes.tear(b'{"f":"torn","node":"n"}' if ended else b"")
    kept, seen = tmp_path / "kept", set[str]()
    shutil.copytree(nodes.run, kept)
    for number in range(1 << 20):
        shutil.rmtree(nodes.run)
        shutil.copytree(kept, nodes.run)
        done = steps(number)
        try:
            seal_traces.seal_traces(nodes.run) if ended else turn(nodes.run, PIECE)
            break
        except Killed as where:
            seen.add(str(where))
        steps(1 << 30)
        nodes.check()
        assert directory.altered(nodes.run, manifest.read(nodes.run), ended=False) == []
        seal_traces.seal_traces(nodes.run)  # as whoever ends the run does, after its helper was killed
        nodes.check()
        assert directory.altered(nodes.run, manifest.read(nodes.run), ended=True) == []
    assert done and len(seen) == (12 if ended else 10), seen


def test_lines_of_a_program_that_begins_its_file_again_are_not_lost(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 3)
    nodes.write(200)
    turn(nodes.run, PIECE)
    (nodes.run / "traces/n.jsonl").write_bytes(b'{"f":"again","node":"n"}\n')
    for _ in range(2):
        assert read(nodes.run)[1][-1].startswith("traces/n.jsonl: which of its lines stand in no segment is unknown")
        seal_traces.seal_traces(nodes.run)
    assert (nodes.run / "traces/n.jsonl").read_bytes() == b'{"f":"again","node":"n"}\n'


def test_who_is_overtaken_while_reading_reads_again(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 3)
    nodes.write(600)
    sealed = manifest.read(nodes.run)
    blocks = traces.trace_blocks(nodes.run, 0, sealed, [])
    next(blocks)
    turn(nodes.run, PIECE)
    with pytest.raises(Overtaken, match="is being turned into segments"):
        list(blocks)
    nodes.check()


def test_zeros_that_no_segment_explains_are_damage(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, 3)
    nodes.write(60)
    turn(nodes.run, PIECE)
    nodes.tear(b"\0" * 5_000 + b"\n")
    nodes.check()
    assert read(nodes.run)[1][-1].endswith("is no trace row; it is left out")


def test_a_process_turns_what_nodes_go_on_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, until = Nodes(tmp_path, 4), time.monotonic() + 60
    wanted = {f"traces/{node}.{number:04}.arrows" for node in NODES for number in range(2)}
    with sealing_pieces(nodes.run, piece_bytes=12_000):
        while not wanted <= {*manifest.read(nodes.run).files} and time.monotonic() < until:
            nodes.write(60)
            time.sleep(0.05)
    assert {*manifest.read(nodes.run).files} >= wanted
    nodes.check()
    seal_traces.seal_traces(nodes.run)
    nodes.check()
    assert not directory.line_files(nodes.run) and not manifest.read(nodes.run).damage


def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    code = f"""
import os, pathlib, signal
from chaos.history import background_sealing
with background_sealing.sealing_pieces(pathlib.Path({str(tmp_path)!r})):
    children = pathlib.Path("/proc/self/task", str(os.getpid()), "children").read_text()
    print(children, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    child, until = int(killed.stdout), time.monotonic() + 20
    while os.path.exists(f"/proc/{child}") and time.monotonic() < until:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{child}")


def test_what_cannot_be_turned_is_tried_again_a_piece_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, tried = Nodes(tmp_path, 5), list[str]()

    def full(self: Lines, *, ended: bool) -> None:
        tried.append("")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Lines, "write_segment", full)
    with Manifest(nodes.run) as sealing, background_sealing.ThreadPoolExecutor(1) as worker:
        pieces = background_sealing._Pieces(nodes.run, PIECE, sealing, worker)
        nodes.write(200)
        for _ in range(3):
            pieces.turn("traces/n.jsonl")
        assert len(tried) == 1
        monkeypatch.undo()
        nodes.write(120)
        pieces.turn("traces/n.jsonl")
    assert manifest.read(nodes.run).files
    nodes.check()
