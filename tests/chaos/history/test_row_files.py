"""The rows of a large run are read in pieces, which say the same as the run read as a whole, whatever became of it; and
shards, where a stranger has recorded nothing else."""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from chaos.errors import DamagedHistory
from chaos.history import manifest
from chaos.history.directory import LINES, altered, trace_files
from chaos.history.ends import without_beginnings
from chaos.history.manifest import Manifest
from chaos.history.pieces import pieces
from chaos.history.recorder import STREAM, Recorder
from chaos.history.row_files import RowFiles
from chaos.history.seal_traces import seal_traces
from tests.chaos.history.runs import make_large, plain, record, sends, write_shard


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where pieces are made."""
    make_large(monkeypatch)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with three segments of its stream, and traces that became segments."""
    record(tmp_path / "run", 3)
    seal_traces(tmp_path / "run")
    return tmp_path / "run"


def every(rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.ones(rows.num_rows, np.bool_)


def seal_again(run: Path) -> None:
    """Vouch for what stands there, but for no segments, as earlier formats have it."""
    sealed = manifest.read(run)
    (run / manifest.FILE).unlink()
    with Manifest(run) as sealing:
        for batch in sealed.batches:
            sealing.batch(batch)
        sealing.seal_files(trace_files(run, manifest.read(run)))


def _as_lines(run: Path) -> None:
    with Manifest(run) as sealing:
        for name in trace_files(run, manifest.read(run)):
            (run / name).unlink()
            sealing.gone(name)
    record(run.with_name("again"), 3)
    for path in run.with_name("again").glob("traces/*"):
        path.rename(run / "traces" / path.name)
    with Manifest(run) as sealing:
        sealing.seal_files(trace_files(run, manifest.read(run)))


def _damaged_line(run: Path) -> None:
    _as_lines(run)
    with (run / trace_files(run, manifest.read(run))[0]).open("ab") as file:
        file.write(b"{no row}\n")
    seal_again(run)


def is_the_same(run: Path) -> None:
    for keep in (sends, None):
        (wanted, damage), (found, problems) = RowFiles(run).recorded(keep), RowFiles(run).rows(keep)
        assert plain(found).equals(plain(wanted)) and problems == damage


def test_the_rows_of_a_large_run_come_from_its_pieces(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_the_same(run)
    wanted, _ = RowFiles(run).recorded()
    assert len(pieces(run, manifest.read(run))) > 4
    monkeypatch.setattr(RowFiles, "recorded_blocks", None)
    assert RowFiles(run).is_large and plain(RowFiles(run).rows()[0]).equals(plain(wanted))
    found, _ = RowFiles(run).rows(sends)
    assert plain(found).equals(plain(wanted.filter(sends(wanted))))


@pytest.mark.parametrize("columns", [("index",), ("f", "kind"), ("value", "step", "index"), ("began_ns", "op")])
def test_a_piece_gives_the_columns_that_are_asked_for(columns: tuple[str, ...], run: Path) -> None:
    for piece in pieces(run, manifest.read(run)):
        whole = piece.read()
        names = [name for name in whole.column_names if name in columns]
        assert piece.read(columns).to_pydict() == whole.select(names).to_pydict() and len(names) == len(columns)


@pytest.mark.parametrize("harm", [_as_lines, seal_again, _damaged_line])
def test_of_a_large_run_that_cannot_be_read_apart_pieces_are_made_for_as_long_as_somebody_reads(
    harm: Callable[[Path], None], run: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harm(run)
    is_the_same(run)
    wanted, damage = RowFiles(run).recorded()
    assert not pieces(run, manifest.read(run)) and len(damage) == (harm is _damaged_line)
    monkeypatch.setattr(RowFiles, "recorded", None)
    files = RowFiles(run)
    assert files.is_large and len([*temporary.glob("*/*.arrows")]) > 2
    for _ in range(2):
        found, problems = files.rows(sends)
        assert plain(found).equals(plain(wanted.filter(sends(wanted)))) and problems == damage
    del files
    gc.collect()
    assert not [*temporary.iterdir()]


def test_where_no_pieces_can_be_made_a_large_run_is_read_all_the_same(
    run: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _damaged_line(run)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "nowhere"))
    is_the_same(run)
    assert not RowFiles(run).is_large and len(RowFiles(run).rows(sends)[1]) == 1


def _flip(name: str) -> Callable[[Path], None]:
    def harm(run: Path) -> None:
        path = sorted(run.glob(name))[0]
        data = bytearray(path.read_bytes())
        data[Random(len(data)).randrange(len(data))] ^= 4
        path.write_bytes(data)

    return harm


def _cut(run: Path) -> None:
    data = (run / STREAM).read_bytes()
    (run / STREAM).write_bytes(data[: len(data) * 2 // 3])


def _go_on(run: Path) -> None:
    with (run / STREAM).open("ab") as file:
        file.write(b"more")


def _add_trace(run: Path) -> None:
    (run / "traces" / f"late{LINES}").write_bytes(b'{"f":"send","node":"late"}\n')


def _lose_trace(run: Path) -> None:
    (run / trace_files(run, manifest.read(run))[0]).unlink()


def _swap_traces(run: Path) -> None:
    one, other = (run / name for name in trace_files(run, manifest.read(run))[:2])
    one.rename(run / "kept")
    other.rename(one)
    (run / "kept").rename(other)


def _repeat(run: Path) -> None:
    """As a program of others might number its rows."""
    for name in (STREAM, manifest.FILE):
        (run / name).unlink()
    recorder = Recorder(run, lambda: 1, batch_rows=20, batch_ns=None)
    for _ in range(3):
        recorder._next = 0
        for _ in range(80):
            recorder.record("op", f="send")
    recorder.close()


@pytest.mark.parametrize(
    "harm",
    [
        *map(_flip, ("traces/*.arrows", STREAM, manifest.FILE)),
        _cut, _go_on, _add_trace, _lose_trace, _swap_traces, _damaged_line, _repeat,
    ],
)  # fmt: skip
def test_damage_is_found_whatever_pieces_there_are(harm: Callable[[Path], None], run: Path) -> None:
    harm(run)
    is_the_same(run)
    sealed = manifest.read(run)
    assert [*RowFiles(run).rows(sends)[1], *sealed.damage, *altered(run, sealed, ended=True)]


def _noise(path: Path) -> None:
    path.write_bytes(Random(1).randbytes(path.stat().st_size))


def _third_segment(run: Path) -> None:
    third = manifest.read(run).segments[2]  # the second one may be read ahead
    data = bytearray((run / STREAM).read_bytes())
    data[third.offset + third.sum.length - 3] ^= 1
    (run / STREAM).write_bytes(data)


@pytest.mark.parametrize("which", ["a segment of the stream", "a segment of a trace", "a piece that was made"])
def test_a_piece_that_is_altered_meanwhile_costs_no_row_and_gives_none_twice(
    which: str, run: Path, temporary: Path
) -> None:
    if which == "a piece that was made":
        _damaged_line(run)
    files = RowFiles(run)
    assert files.is_large
    if which == "a segment of the stream":
        _third_segment(run)
    else:
        _noise(
            sorted([*temporary.glob("*/*.arrows")] or [run / name for name in trace_files(run, manifest.read(run))])[-1]
        )
    wanted, damage = RowFiles(run).recorded(sends)
    found, problems = files.rows(sends)
    assert plain(found).equals(plain(wanted)) and problems == damage
    assert not files.is_large and len(damage) == 1


#: What keeps a run from being VALID whose stream is gone.
STANDS_IN = f"{STREAM} is missing; the shards that were made of it stand in for it"


def left_alone(run: Path, *shards: pa.Table) -> None:
    """Leave these shards alone of what was recorded."""
    for number, rows in enumerate(shards):
        write_shard(run, f"some-{number}", rows)
    (run / STREAM).unlink()
    with Manifest(run) as sealing:
        sealing.seal_files(f"shards/some-{number}.parquet" for number in range(len(shards)))


def test_shards_that_are_all_that_is_left_are_read_each_row_once(run: Path) -> None:
    whole, _ = RowFiles(run).recorded()
    ends = without_beginnings(whole)[0]
    left_alone(run, ends.slice(0, 100), ends.slice(60))
    for keep in (sends, None):
        found, damage = RowFiles(run).rows(keep)
        assert damage == [STANDS_IN] and plain(found).equals(plain(whole.filter((keep or every)(whole))))
    (run / manifest.FILE).unlink()  # of a stranger, who has recorded nothing else
    with Manifest(run) as sealing:
        sealing.seal_files(f"shards/some-{number}.parquet" for number in range(2))
    assert RowFiles(run).rows()[1] == [] and not RowFiles(run).is_large


def test_what_is_wrong_with_shards_is_damage(run: Path) -> None:
    whole, _ = RowFiles(run).recorded()
    other = whole.set_column(whole.column_names.index("queue"), "queue", pa.array([9] * len(whole)))
    left_alone(run, whole.slice(0, 100), other.slice(90), whole.slice(200))
    assert RowFiles(run).rows()[1][1].endswith("rows stand in two shards with different contents")
    third, more = (run / "shards" / f"{name}.parquet" for name in ("some-2", "more"))
    third.rename(more)
    with pytest.raises(DamagedHistory, match=r"more\.parquet is not in the manifest; .*some-2\.parquet is missing"):
        RowFiles(run).rows()
    more.rename(third)
    write_shard(run, "some-1", whole.slice(130))
    with pytest.raises(DamagedHistory, match="some-1"):
        RowFiles(run).rows()
    with Manifest(run) as sealing:
        sealing.seal_files(["shards/some-1.parquet"])
    assert RowFiles(run).rows()[1] == [STANDS_IN, "30 rows are missing between the others"]
    shutil.rmtree(run / "shards")
    with pytest.raises(DamagedHistory, match="holds no history: neither"):
        RowFiles(run).rows()
