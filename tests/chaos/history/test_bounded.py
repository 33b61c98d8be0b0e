"""A few kilobytes that would become gigabytes are refused before they do, by the headers that the decoder goes by."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.errors import BadInput, ChaosError, DamagedHistory
from chaos.history import manifest, traces
from chaos.history.bounded import messages, shard_files
from chaos.history.columns import COLUMNS, INTEGERS, VALUE, WORDS
from chaos.history.directory import seal, write_meta
from chaos.history.history import History
from chaos.history.manifest import Batch, Manifest, sum_of
from chaos.history.recorder import STREAM, Recorder
from chaos.history.row_files import RowFiles
from chaos.history.stream import SCHEMA, stream_blocks
from tests.chaos.history.runs import FORM, write_shard
from tests.stormproof.forged import write_stream


def equal_rows(count: int, value: str = "") -> pa.Table:
    """So many rows that hardly take any place on a disk."""
    numbers = {name: pa.array(np.zeros(count, np.int64)) for name in INTEGERS}
    words = {name: pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), ["op"]) for name in WORDS}
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), [value])
    return pa.table({**numbers, **words, VALUE: values})


def shard(run: Path, table: pa.Table, times: int = 1, **form: object) -> Path:
    """A run whose one shard holds these rows so many times, each time in a row group."""
    (run / "shards").mkdir(parents=True)
    path = run / "shards" / "all-0.parquet"
    with pq.ParquetWriter(path, table.schema, **{**FORM, **form}) as writer:
        for _ in range(times):
            writer.write_table(table)
    write_meta(run, {"seed": 1})
    seal(run)
    return path


def assert_refused(run: Path, words: str) -> None:
    before = pa.total_allocated_bytes()
    with pytest.raises(BadInput, match=words):
        History.open(run).recorded()
    assert pa.total_allocated_bytes() - before < 1 << 26


@pytest.mark.parametrize("times", [1, pytest.param(32, marks=pytest.mark.full)])
def test_many_equal_rows_in_few_bytes_are_refused_before_they_are_decoded(
    tmp_path: Path, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once 3.9 MB of Parquet took gigabytes. In short with a lower bound."""
    if times == 1:
        monkeypatch.setattr(shard_files.Budget.__init__, "__defaults__", (64 << 20,))
    monkeypatch.setattr(shard_files, "batches", None)
    path = shard(tmp_path / "run", equal_rows(1 << 20), times, use_dictionary=True, column_encoding=None)
    assert path.stat().st_size < 4_000_000
    assert shard_files.measured(path).rows == times << 20
    assert_refused(tmp_path / "run", r"take more than [\d,]+ bytes when they are decoded")


def test_one_long_text_of_all_rows_counts_for_each_of_them(tmp_path: Path) -> None:
    path = shard(tmp_path / "run", equal_rows(100_000, "x" * 100_000), use_dictionary=[*WORDS, VALUE])
    assert path.stat().st_size < 500_000
    assert_refused(tmp_path / "run", "take more than 2,147,483,648 bytes")


def test_a_page_that_becomes_too_large_is_refused_whatever_the_footer_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shard(tmp_path / "run", equal_rows(10, "x" * 3_000_000))
    monkeypatch.setattr(shard_files, "MOST_PAGE", 1 << 21)
    with pytest.raises(BadInput, match="a page that becomes 3,0"):
        shard_files.measured(path)
    monkeypatch.setattr(shard_files.pages, "MOST_PAGES", 5)
    with pytest.raises(BadInput, match="more than 5 pages"):
        shard_files.measured(shard(tmp_path / "other", equal_rows(10)))


def test_texts_that_are_prefixes_of_one_another_are_refused(tmp_path: Path) -> None:
    plain = equal_rows(10, "x" * 1000)
    plain = plain.set_column(len(COLUMNS) - 1, VALUE, plain[VALUE].cast(pa.string()))
    path = shard(tmp_path / "run", plain, use_dictionary=[*WORDS], column_encoding={VALUE: "DELTA_BYTE_ARRAY"})
    with pytest.raises(DamagedHistory, match="stored in the encoding 7"):
        shard_files.measured(path)


@pytest.mark.parametrize(
    "table",
    [pa.table({"index": [[1], [2]]}), pa.table({"index": ["1"]}), pa.table({"other": [1]}), pa.table({"value": [1.5]})],
)
def test_other_columns_than_those_of_a_history_are_refused(tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table, tmp_path / "odd.parquet")
    with pytest.raises(DamagedHistory, match="which no history has"):
        shard_files.measured(tmp_path / "odd.parquet")


def test_what_a_shard_becomes_is_at_least_what_it_takes(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, lambda: 5)
    for number in range(5_000):
        recorder.record("op", f="send", message=number, process=f"p.{number % 7}", value={"n": number, "t": "é" * 9})
    recorder.close()
    rows, _ = History.open(tmp_path).recorded()
    path = write_shard(tmp_path, "one", rows)
    extent, decoded = shard_files.measured(path), pa.concat_tables(shard_files.batches(path))
    assert decoded.combine_chunks().unify_dictionaries().equals(rows.combine_chunks().unify_dictionaries())
    assert extent.rows == 5_000 and extent.size >= decoded.nbytes - decoded[VALUE].nbytes


def test_messages_say_what_they_become(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist(
        [{"index": number, "kind": "op", "value": "{}" * 50} for number in range(3_000)], SCHEMA
    )
    batches = write_stream(tmp_path, rows)
    data = (tmp_path / STREAM).read_bytes()
    found = [messages.extent(data[one.offset : one.offset + one.sum.length]) for one in batches]
    assert [one.rows for one in found] == [one.rows for one in batches]
    assert sum(one.size for one in found) >= rows.nbytes * 0.9
    for cut in (1, 5, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(ValueError):
            messages.extent(data[:cut])


@pytest.mark.parametrize(
    "batch",
    [
        lambda: equal_rows(9_000_000).set_column(COLUMNS.index(VALUE), VALUE, pa.array([""] * 9_000_000)),
        lambda: pa.Table.from_pylist([{"kind": "op", "value": "x" * (300 << 20)}] * 4, SCHEMA),
    ],
    ids=["rows", "texts"],
)
@pytest.mark.full
def test_a_batch_that_becomes_too_large_is_refused_before_it_is_decoded(
    tmp_path: Path, batch: Callable[[], pa.Table]
) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(batch().cast(SCHEMA))
    refuse_batch(tmp_path, sink.getvalue().to_pybytes())


def refuse_batch(run: Path, data: bytes) -> None:
    (run / STREAM).write_bytes(data)
    with Manifest(run) as sealing:
        sealing.batch(Batch(0, sum_of(data), 1))
    before = pa.total_allocated_bytes()
    with pytest.raises(BadInput, match=r"becomes [\d,]+ bytes; at most"):
        list(stream_blocks(run, manifest.read(run), []))
    assert pa.total_allocated_bytes() - before < 1 << 26


def test_a_batch_of_too_many_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.history.stream.MOST_BATCH", 100_000)
    write_stream(tmp_path, pa.Table.from_pylist([{"kind": "op", "value": "x" * 1000}] * 400, SCHEMA))
    refuse_batch(tmp_path, (tmp_path / STREAM).read_bytes())


def test_rows_beyond_what_was_recorded_are_not_drawn_from_shards(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, lambda: 5)
    recorder.record("op", f="send")
    recorder.close()
    write_shard(tmp_path, "all-0", equal_rows(1_000))
    with Manifest(tmp_path) as sealing:
        sealing.seal_files(["shards/all-0.parquet"])
    table, damage = RowFiles(tmp_path).rows()
    assert table.num_rows == 1 and not damage


def test_typed_lines_with_endless_keys_are_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "traces").mkdir()
    header = {"form": 1, "row": {"f": "x", "node": "n", "incarnation": 0}, "columns": [], "value": ["k" * 1_000_000]}
    (tmp_path / "traces" / "n.jsonl").write_text("=" + json.dumps(header) + "\n" + "1\t0\n" * 100_000)
    found, damage = traces.read_traces(tmp_path, 0, manifest.read(tmp_path))
    assert sum(table.num_rows for table in found) == 0 and len(damage) == 100_000
    monkeypatch.setattr(traces, "LONGEST_LINE", 100)
    monkeypatch.setattr(traces, "BLOCK", 10)
    with pytest.raises(BadInput, match="a line of more than 100 bytes"):
        traces.read_traces(tmp_path, 0, manifest.read(tmp_path))


@pytest.mark.parametrize("name", ["../../outside", "/etc/passwd", "traces/../../x", "a//b", ""])
def test_a_manifest_names_nothing_outside_of_its_run(tmp_path: Path, name: str) -> None:
    with Manifest(tmp_path) as sealing:
        sealing.seal(name, sum_of(b""))
        sealing.seal("run.json", sum_of(b""))
    sealed = manifest.read(tmp_path)
    assert list(sealed.files) == ["run.json"] and sealed.damage == ["manifest: line 1 is damaged"]
    with pytest.raises(ChaosError):
        manifest.altered(tmp_path, sealed, name)


def test_a_manifest_with_another_name_is_read_and_not_appended_to(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with Manifest(tmp_path / "run") as sealing:
        sealing.seal("run.json", sum_of(b""))
    os.link(tmp_path / "run" / manifest.FILE, tmp_path / "other")
    before = (tmp_path / "other").read_bytes()
    with pytest.raises(ChaosError, match="has another name too"):
        Manifest(tmp_path / "run")
    with pytest.raises(ChaosError, match="has another name too"):
        manifest.check_appendable(tmp_path / "run")
    manifest.check_appendable(tmp_path)
    assert list(manifest.read(tmp_path / "run").files) == ["run.json"] and (tmp_path / "other").read_bytes() == before
    assert not (tmp_path / manifest.FILE).exists()
