"""Traces that became segments have the rows and the damage of their lines, and what is altered of them is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from chaos import guarded
from chaos.errors import BadInput
from chaos.history import directory, manifest, seal_traces, segments, trace_segments, traces
from chaos.history.directory import trace_files
from chaos.history.manifest import Manifest
from chaos.history.stream import SCHEMA
from tests.chaos.history.test_traces import random_files

SEGMENT = "traces/n.0000.arrows"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several segments of some batches each."""
    monkeypatch.setattr(traces, "BLOCK", 2_000)
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 50)
    monkeypatch.setattr(trace_segments, "BATCH_ROWS", 20)


def write(run: Path, files: dict[str, bytes]) -> Path:
    (run / "traces").mkdir(parents=True)
    for name, data in files.items():
        (run / name).write_bytes(data)
    return run


def read(run: Path, first_index: int = 100) -> tuple[list[dict[str, Any]], list[str]]:
    tables, damage = traces.read_traces(run, first_index, manifest.read(run))
    return pa.concat_tables([SCHEMA.empty_table(), *tables]).to_pylist(), damage


def turned(run: Path, rows: int = 120) -> Path:
    """A run with three segments of one node."""
    lines = [b'{"f":"role","node":"n","step":%d,"value":{"size":%d}}\n' % (at, at % 7) for at in range(rows)]
    seal_traces.seal_traces(write(run, {"traces/n.jsonl": b"".join(lines)}))
    return run


def test_segments_have_the_rows_and_the_damage_of_the_lines(tmp_path: Path) -> None:
    segments = 0
    for seed in range(12):
        files = random_files(seed)
        run = write(tmp_path / str(seed), files)
        wanted = read(run)
        seal_traces.seal_traces(run)
        assert read(run) == wanted
        names, sealed = trace_files(run, manifest.read(run)), manifest.read(run)
        assert not any(name.endswith(directory.LINES) for name in names)
        assert names == sorted(sealed.files) == sorted(f"traces/{path.name}" for path in (run / "traces").iterdir())
        assert directory.altered(run, sealed, ended=True) == []
        segments = max(segments, len(names))
    assert segments > 6


def test_nodes_and_their_segments_are_read_in_the_order_of_their_names_and_numbers(tmp_path: Path) -> None:
    nodes = ("n1", "n10", "n1-a", "n1.5", "n2")
    lines = {node: [b'{"f":"f","node":"%s","step":%d}\n' % (node.encode(), at) for at in range(120)] for node in nodes}
    run = write(tmp_path, {f"traces/{node}.jsonl": b"".join(mine) for node, mine in lines.items()})
    wanted = read(run)
    (run / "traces/n10.jsonl").rename(run / "kept")
    seal_traces.seal_traces(run)
    (run / "kept").rename(run / "traces/n10.jsonl")
    assert read(run) == wanted and len(trace_files(run, manifest.read(run))) > 6
    many = [f"traces/n.{number:04}.arrows" for number in (9_999, 10_000)]
    assert sorted(many, key=directory.node_and_number) == many


def test_as_long_as_there_are_lines_segments_count_that_are_vouched_for(tmp_path: Path) -> None:
    """As where the harness was killed between a segment and its seal."""
    lines = b"".join(b'{"f":"role","node":"n","step":%d}\n' % at for at in range(120))
    run = turned(tmp_path)
    (run / manifest.FILE).unlink()
    (run / "traces/n.jsonl").write_bytes(lines)
    with Manifest(run) as sealing:
        assert trace_files(run, manifest.read(run)) == ["traces/n.jsonl"] and len(read(run)[0]) == 120
        sealing.seal_files([SEGMENT])
    assert trace_files(run, manifest.read(run)) == [SEGMENT, "traces/n.jsonl"]
    assert directory.altered(run, manifest.read(run), ended=True) == ["traces/n.jsonl is not in the manifest"]


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"noise")])
def test_lines_behind_a_segment_that_is_lost_are_left_out(harm: Callable[[Path], None], tmp_path: Path) -> None:
    run = turned(tmp_path)
    (run / "traces/n.jsonl").write_bytes(b'{"f":"role","node":"n"}\n')
    harm(run / SEGMENT.replace("0000", "0001"))
    rows, damage = read(run)
    assert len(rows) == 76 and "n.jsonl: which of its lines stand in no segment is unknown" in damage[-1]
    seal_traces.seal_traces(run)
    assert (run / "traces/n.jsonl").exists()


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), pa.ArrowInvalid("no")])
def test_lines_that_can_not_be_turned_stay_and_are_vouched_for(
    problem: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []

    def write_segment(path: Path, rows: pa.Table, damage: list[str], end: trace_segments.Place) -> None:
        if written:
            raise problem
        written.append(path)
        trace_segments.write_segment(path, rows, damage, end)

    monkeypatch.setattr(seal_traces, "write_segment", write_segment)
    run = turned(tmp_path)
    assert trace_files(run, manifest.read(run)) == [SEGMENT, "traces/n.jsonl"] == [*manifest.read(run).files]
    rows, damage = read(run)
    assert [row["step"] for row in rows] == [*range(120)] and not damage
    assert directory.altered(run, manifest.read(run), ended=True) == []


def test_a_line_that_is_too_long_stays_with_its_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "LONGEST_LINE", 3_000)
    run = write(tmp_path, {"traces/n.jsonl": b'{"f":"a"}\n' + b" " * 9_000 + b'{"f":"b"}\n'})
    seal_traces.seal_traces(run)
    assert trace_files(run, manifest.read(run)) == ["traces/n.jsonl"]
    with pytest.raises(BadInput, match="has a line of more than 3,000 bytes"):
        read(run)


def test_a_segment_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pa.ipc, "new_stream", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trace_segments.write_segment(tmp_path / "n.0000.arrows", SCHEMA.empty_table(), [], trace_segments.Place())
    assert not list(tmp_path.iterdir())


def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    run = write(tmp_path, {"traces/n.jsonl": b'{"f":"a"}\n', SEGMENT: b"somebody's"})
    seal_traces.seal_traces(run)
    assert (run / SEGMENT).read_bytes() == b"somebody's" and (run / "traces/n.jsonl").exists()


def cut(run: Path, end: Callable[[bytes], int]) -> None:
    data = (run / SEGMENT).read_bytes()
    (run / SEGMENT).write_bytes(data[: end(data)])


def ends(data: bytes) -> list[int]:
    """Where each message of a stream ends."""
    reader, found = pa.BufferReader(data), list[int]()
    while reader.tell() < len(data) - 8:
        pa.ipc.read_message(reader)
        found.append(reader.tell())
    return found


def rewritten(schema: Callable[[pa.Schema], pa.Schema], rows: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    def harm(run: Path) -> None:
        table = pa.ipc.open_stream((run / SEGMENT).read_bytes()).read_all()
        with pa.ipc.new_stream(run / SEGMENT, schema(table.schema)) as writer:
            writer.write_table(rows(table).cast(schema(table.schema)))

    return harm


def as_it_was(any_of_them: Any) -> Any:
    return any_of_them


HARMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda run: (run / SEGMENT).write_bytes(b""), "traces/n.0000.arrows is no segment of a trace: "),
    "noise": (lambda run: (run / SEGMENT).write_bytes(Random(1).randbytes(500)), "is no segment of a trace: "),
    "cut in a message": (lambda run: cut(run, lambda data: len(data) // 2), "is no segment of a trace: "),
    "cut after a batch": (
        lambda run: cut(run, lambda data: ends(data)[-2]),
        "it has 60 rows, and says that they are 76",
    ),
    "other columns": (
        lambda run: shutil.copyfile(recorded(run), run / SEGMENT),
        "it has other columns",
    ),
    "fewer rows": (rewritten(as_it_was, lambda rows: rows.slice(1)), "rows, and says that they are"),
    "a row without a step": (
        rewritten(as_it_was, lambda rows: rows.set_column(3, "step", pa.array([None] * len(rows), pa.int64()))),
        "a row lacks something",
    ),
    "sentences that are none": (
        rewritten(lambda schema: schema.with_metadata({**schema.metadata, b"damage": b"5"}), as_it_was),
        "what it says of its lines is not a list",
    ),
    "sentences without an end": (
        rewritten(lambda schema: schema.with_metadata({**schema.metadata, b"damage": b"[" * 99_999}), as_it_was),
        "is no segment of a trace: ",
    ),
    "more rows than there are in the world": (
        rewritten(lambda schema: schema.with_metadata({**schema.metadata, b"rows": b"9" * 30}), as_it_was),
        "no segment has 9",
    ),
}


def recorded(run: Path) -> Path:
    with pa.ipc.new_stream(run / "other", SCHEMA) as writer:
        writer.write_table(SCHEMA.empty_table())
    return run / "other"


@pytest.mark.parametrize("name", HARMS)
def test_what_is_no_segment_is_damage_and_named(name: str, tmp_path: Path) -> None:
    harm, words = HARMS[name]
    run = turned(tmp_path)
    assert len(trace_files(run, manifest.read(run))) == 2
    whole, _ = read(run)
    of_others = [row["step"] for row in whole][trace_segments.segment_rows(run, SEGMENT) :]
    harm(run)
    rows, damage = read(run)
    assert len(damage) == 1 and SEGMENT in damage[0] and words in damage[0], damage
    assert [row["step"] for row in rows][len(rows) - len(of_others) :] == of_others, "what follows it is read"
    assert len(rows) <= 120 and SEGMENT in " ".join(directory.altered(run, manifest.read(run), ended=True))


def test_a_segment_that_would_become_too_large_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = turned(tmp_path)
    monkeypatch.setattr(trace_segments, "MOST_BATCH", 5_000)
    rows, damage = read(run)
    assert rows == [] and len(damage) == 2 and all("at most 5,000 are decoded" in one for one in damage)


def test_a_segment_that_is_no_regular_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = turned(tmp_path)
    (run / SEGMENT).rename(run / "elsewhere")
    (run / SEGMENT).symlink_to(run / "elsewhere")
    for reading in (lambda: read(run), lambda: trace_segments.segment_rows(run, SEGMENT)):
        with pytest.raises(BadInput, match=r"traces/n\.0000\.arrows is a link"):
            reading()
    (run / SEGMENT).unlink()
    (run / "elsewhere").rename(run / SEGMENT)
    for module in (traces, trace_segments):
        monkeypatch.setattr(module, "LARGEST_SEGMENT", 10)
    for reading in (lambda: read(run), lambda: trace_segments.segment_rows(run, SEGMENT)):
        with pytest.raises(BadInput, match="at most 10 are read"):
            reading()


def test_a_segment_says_how_many_rows_it_has(tmp_path: Path) -> None:
    run = turned(tmp_path)
    assert [trace_segments.segment_rows(run, name) for name in trace_files(run, manifest.read(run))] == [76, 44]
    (run / SEGMENT).write_bytes(b"noise")
    assert trace_segments.segment_rows(run, SEGMENT) == 0


def test_what_was_sealed_and_is_gone_is_missing(tmp_path: Path) -> None:
    run = turned(tmp_path)
    (run / SEGMENT).unlink()
    assert directory.altered(run, manifest.read(run), ended=True) == [f"{SEGMENT} is missing"]


def test_a_trace_without_a_row_is_there_all_the_same(tmp_path: Path) -> None:
    run = write(tmp_path, {"traces/n.jsonl": b""})
    seal_traces.seal_traces(run)
    assert trace_files(run, manifest.read(run)) == [SEGMENT] and read(run) == ([], [])


def test_strangers_seal_their_segments_as_their_lines(tmp_path: Path) -> None:
    run = turned(tmp_path)
    (run / manifest.FILE).unlink()
    directory.seal(run)
    assert sorted(manifest.read(run).files) == trace_files(run, manifest.read(run))
    with Manifest(run) as sealing:
        sealing.seal(SEGMENT, manifest.sum_of(b""))
    assert guarded.is_there(run / SEGMENT)
    assert directory.altered(run, manifest.read(run), ended=True)
