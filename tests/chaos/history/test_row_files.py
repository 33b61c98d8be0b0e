"""Rows come from the shards only while these are the whole history: otherwise the history itself is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from chaos.history import manifest, shards, stream
from chaos.history.bounded import shard_files
from chaos.history.manifest import Manifest
from chaos.history.recorder import STREAM
from chaos.history.row_files import RowFiles
from chaos.history.seal_traces import seal_traces
from tests.chaos.history.test_blocks import PLAN, plain, record


def sends(rows: pa.Table) -> pa.Array:
    return pc.equal(rows["f"], "send")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SINGLE_SHARD_ROWS", 100)
    monkeypatch.setattr(shard_files, "BATCH_ROWS", 16)


def judged(run: Path, seed: int = 3) -> Path:
    """A run whose traces are sealed, one of them as lines, with shards."""
    record(run, seed)
    lines = (run / "traces" / "broker-0.jsonl").rename(run / "lines")
    seal_traces(run)
    lines.rename(run / "traces" / "broker-0.jsonl")
    with Manifest(run) as sealing:
        sealing.seal_files(["traces/broker-0.jsonl"])
    shards.write(run, RowFiles(run).recorded()[0], PLAN)
    return run


def is_the_same(run: Path) -> None:
    for keep in (sends, None):
        (wanted, damage), (found, problems) = RowFiles(run).recorded(keep), RowFiles(run).rows(keep)
        assert plain(found).equals(plain(wanted)) and problems == damage


def test_the_wanted_rows_of_a_sound_run_come_from_its_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = judged(tmp_path)
    is_the_same(run)
    wanted, _ = RowFiles(run).recorded(sends)
    monkeypatch.setattr(RowFiles, "recorded", None)
    assert plain(RowFiles(run).rows(sends)[0]).equals(plain(wanted))
    blocks = pa.concat_tables(RowFiles(run).blocks(sends, ("index", "f")))
    assert sorted(blocks["index"].to_pylist()) == wanted["index"].to_pylist() and set(blocks.column_names) == {
        *("index", "f")
    }


def test_all_rows_of_a_small_run_come_from_its_one_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SINGLE_SHARD_ROWS", 100_000)
    run = judged(tmp_path)
    wanted, _ = RowFiles(run).recorded()
    monkeypatch.setattr(RowFiles, "recorded", None)
    assert plain(RowFiles(run).rows()[0]).equals(plain(wanted))


def _flip(name: str) -> Callable[[Path], None]:
    def harm(run: Path) -> None:
        path = sorted(run.glob(name))[0]
        data = bytearray(path.read_bytes())
        data[Random(len(data)).randrange(len(data))] ^= 4
        path.write_bytes(data)

    return harm


def _go_on(run: Path) -> None:
    with (run / STREAM).open("ab") as file:
        file.write(b"more")


def _add_trace(run: Path) -> None:
    (run / "traces" / "late.jsonl").write_bytes(b'{"f":"send","node":"late"}\n')


def _add_sealed_trace(run: Path) -> None:
    _add_trace(run)
    with Manifest(run) as sealing:
        sealing.seal_files(["traces/late.jsonl"])


def _lose_shard(run: Path) -> None:
    shards.paths(run)[0].unlink()


def _write_unsealed(run: Path) -> None:
    shards.write(run, RowFiles(run).recorded()[0].slice(0, 150), PLAN, sealed=False)


@pytest.mark.parametrize(
    "harm",
    [
        *map(_flip, ("traces/*.jsonl", "traces/*.arrows", "shards/*.parquet", STREAM, manifest.FILE)),
        _go_on, _add_trace, _add_sealed_trace, _lose_shard, _write_unsealed,
    ],
)  # fmt: skip
def test_of_anything_else_the_history_itself_is_read(
    harm: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = judged(tmp_path)
    harm(run)
    is_the_same(run)
    read: list[Path] = []
    empty = (stream.SCHEMA.empty_table(), [])
    monkeypatch.setattr(RowFiles, "recorded", lambda files, keep: read.append(files._run) or empty)
    RowFiles(run).rows(sends)
    assert read == [run]


def test_shards_that_were_made_before_the_last_batch_are_not_the_history(tmp_path: Path) -> None:
    run = judged(tmp_path)
    sealed = manifest.read(run)
    last = sealed.batches[-1]
    shards.write(run, RowFiles(run).recorded()[0].slice(0, 150), PLAN)
    with Manifest(run) as sealing:
        sealing.batch(last._replace(offset=last.offset + last.sum.length, sum=manifest.sum_of(b""), rows=0))
    assert stream.is_sound(run, manifest.read(run))
    is_the_same(run)
