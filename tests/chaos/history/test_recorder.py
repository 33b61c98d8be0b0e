"""What was recorded is read back, and what is damaged is never taken for sound."""

from __future__ import annotations

import json
import shutil
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from chaos.errors import DamagedHistory, MachineError
from chaos.history import manifest
from chaos.history import recorder as history
from chaos.history.digests import digest
from chaos.history.history import History
from chaos.history.recorder import STREAM, Recorder


def clock(step_ns: int = 1_000_000):
    ticks = count(0, step_ns)
    return lambda: next(ticks)


def record(directory: Path, rows: int = 25, **options) -> Recorder:
    directory.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(directory, clock(), batch_rows=10, **options)
    for number in range(rows):
        recorder.record("op", type="invoke", f="send", process=f"p.{number % 3}", queue=number % 2, value={"n": number})
    return recorder


def test_rows_come_back_with_dense_indexes(tmp_path):
    record(tmp_path).close()
    table, damage = History.open(tmp_path).recorded()
    assert damage == []
    assert table["index"].to_pylist() == list(range(25))
    assert table["process"].to_pylist()[4] == "p.1"
    assert json.loads(table["value"][7].as_py()) == {"n": 7}
    assert table["offset"].to_pylist() == [-1] * 25 and table["node"].to_pylist() == [""] * 25


def test_full_batches_survive_a_harness_that_is_killed(tmp_path):
    recorder = record(tmp_path)
    table, damage = History.open(tmp_path).recorded()  # never closed
    assert table.num_rows == 20 and damage == []
    recorder.close()


def test_old_rows_are_flushed_before_their_batch_is_full(tmp_path):
    recorder = Recorder(tmp_path, clock(60_000_000), batch_rows=1000)
    for _ in range(4):
        recorder.record("op", f="send")
    assert History.open(tmp_path).table.num_rows == 2
    recorder.close()


def test_a_flipped_byte_ends_what_is_believed(tmp_path):
    record(tmp_path).close()
    batch = manifest.read(tmp_path).batches[2]
    assert batch.rows == 10
    data = bytearray((tmp_path / STREAM).read_bytes())
    data[batch.offset + batch.sum.length // 2] ^= 1
    (tmp_path / STREAM).write_bytes(data)
    table, damage = History.open(tmp_path).recorded()
    assert table.num_rows == 10
    assert len(damage) == 1 and "batch 2" in damage[0] and "checksum" in damage[0]


@pytest.mark.parametrize("before", range(12))
def test_an_answer_and_its_messages_stand_in_one_batch(tmp_path, before):
    recorder = Recorder(tmp_path, clock(1_000_000_000), batch_rows=10)
    for _ in range(before):
        recorder.record("op", f="send", type="invoke")
    asked = recorder.record("op", f="pull", type="invoke")
    recorder.record("op", f="pull", type="ok", op=asked)
    for offset in range(15):
        recorder.record("op", f="delivered", type="ok", op=asked, offset=offset)
    recorder.record("op", f="send", type="invoke")
    assert len(recorder) == before + 18
    kept = History.open(tmp_path).table  # as a kill would leave it
    assert kept.num_rows == before + 17 and kept["f"].to_pylist().count("delivered") == 15
    recorder.close()


def test_every_cut_of_the_stream_is_noticed_and_what_is_before_it_is_read(tmp_path):
    record(tmp_path).close()
    data = (tmp_path / STREAM).read_bytes()
    ends = [batch.offset + batch.sum.length for batch in manifest.read(tmp_path).batches]
    for cut in range(ends[0], len(data), 97):
        (tmp_path / STREAM).write_bytes(data[:cut])
        table, damage = History.open(tmp_path).recorded()
        assert damage
        assert table.num_rows == min(25, 10 * sum(end <= cut for end in ends[1:]))


def test_bytes_that_nobody_vouches_for_are_damage(tmp_path):
    record(tmp_path).flush()
    lines = (tmp_path / manifest.FILE).read_text().splitlines(keepends=True)
    (tmp_path / manifest.FILE).write_text("".join(lines[:-1]))
    table, damage = History.open(tmp_path).recorded()
    assert table.num_rows == 20 and "not vouched for" in damage[0]


def test_a_torn_line_of_the_manifest_is_damage(tmp_path):
    record(tmp_path).flush()
    text = (tmp_path / manifest.FILE).read_text()
    (tmp_path / manifest.FILE).write_text(text[:-9])
    table, damage = History.open(tmp_path).recorded()
    assert table.num_rows == 20 and damage
    assert manifest.read(tmp_path).damage == ["manifest: its last line is cut off"]


def test_a_history_that_is_deleted_while_it_is_written_ends_its_run(tmp_path):
    recorder = record(tmp_path / "run", rows=25)
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(MachineError, match=r"history\.arrows was deleted while the run went on"):
        recorder.flush()
    recorder.close()


def test_an_empty_stream_is_a_damaged_history(tmp_path):
    record(tmp_path).close()
    (tmp_path / STREAM).write_bytes(b"")
    with pytest.raises(DamagedHistory):
        History.open(tmp_path).recorded()


@pytest.mark.parametrize("name", [b"index", b"ind\xff\xfe"])
def test_columns_of_any_name_are_no_history(tmp_path, name):
    """Names in Arrow's schema are bytes, whatever they say."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("index", pa.int8())])) as writer:
        writer.write(pa.record_batch({"index": pa.array([1], pa.int8())}))
    data = sink.getvalue().to_pybytes().replace(b"index", name)
    (tmp_path / STREAM).write_bytes(data)
    with manifest.Manifest(tmp_path) as sealing:
        sealing.batch(manifest.Batch(0, manifest.sum_of(data), 1))
    with pytest.raises(DamagedHistory):
        History.open(tmp_path).recorded()


def test_traces_of_processes_follow_the_recorded_rows(tmp_path):
    record(tmp_path).close()
    traces = tmp_path / "traces"
    traces.mkdir()
    good = {"node": "broker-0", "incarnation": 1, "step": 1, "f": "append", "offset": 5, "value": {"size": 3}}
    lines = [json.dumps({**good, "step": step}) for step in (1, 2)]
    (traces / "broker-0.jsonl").write_text("\n".join(lines) + "\n" + lines[0][:20])
    (traces / "broker-1.jsonl").write_text(json.dumps({**good, "node": "broker-1"}) + "\n")
    table, damage = History.open(tmp_path).recorded()
    assert damage == []  # a torn last line is how a kill looks
    assert table["index"].to_pylist() == list(range(28))
    assert table["node"].to_pylist()[25:] == ["broker-0", "broker-0", "broker-1"]
    assert table["kind"].to_pylist()[25:] == ["trace"] * 3
    assert table["value"][25].as_py() == '{"size":3}'


def test_a_bad_line_amid_a_trace_is_damage(tmp_path):
    record(tmp_path).close()
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "broker-0.jsonl").write_text('{"node":"broker-0","f":"start"}\nnonsense\n{"f":"role"}\n')
    table, damage = History.open(tmp_path).recorded()
    assert table.num_rows == 27
    assert len(damage) == 1 and "broker-0.jsonl:2" in damage[0]


def test_the_digest_sees_operations_but_neither_indexes_nor_traces(tmp_path):
    def made(name: str, *, traced: bool, offset: int) -> str:
        folder = tmp_path / name
        folder.mkdir()
        recorder = Recorder(folder, lambda: 7)
        if traced:
            recorder.record_trace({"node": "broker-0", "f": "start", "incarnation": 1, "value": {}})
        asked = recorder.record("op", type="invoke", f="send", process="p", value={"ä": 1})
        recorder.record("op", type="ok", f="send", process="p", op=asked, offset=offset)
        recorder.close()
        return digest(History.open(folder).table)

    plain = made("plain", traced=False, offset=3)
    assert made("traced", traced=True, offset=3) == plain
    assert made("other", traced=False, offset=4) != plain


def test_the_digest_of_a_known_history_stays_what_it_was(tmp_path):
    record(tmp_path).close()
    first = digest(History.open(tmp_path).table)
    assert len(first) == 64
    record(tmp_path / "again", batch_ns=None).close()
    assert digest(History.open(tmp_path / "again").table) == first  # batches don't matter


def test_a_full_disk_is_one_clear_error_and_keeps_what_was_flushed(tmp_path, monkeypatch):
    recorder = record(tmp_path, rows=10)
    recorder.flush()

    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(history._Tee, "write", full)
    with pytest.raises(MachineError, match="No space left"):
        for _ in range(11):
            recorder.record("op", f="send")
    with pytest.raises(MachineError):
        recorder.flush()
    recorder.close()
    assert History.open(tmp_path).table.num_rows == 10


def test_a_history_is_never_overwritten(tmp_path):
    record(tmp_path).close()
    with pytest.raises(MachineError):
        Recorder(tmp_path, clock())
