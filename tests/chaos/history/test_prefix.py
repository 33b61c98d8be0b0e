"""What is read of a run that goes on is held once, and without steps that may not be whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from chaos.history import stream
from chaos.history.directory import TRACES
from chaos.history.manifest import Manifest
from chaos.history.prefix import end_of_whole_steps, read_prefix, whole_steps
from chaos.history.recorder import Recorder, read_rows
from chaos.shell.trace_file import TraceFile

#: Counts what it gives; whatever it gave must be freed before it is.
POOL = pa.proxy_memory_pool(pa.default_memory_pool())


def record(run: Path, rows: int) -> None:
    """Half of the rows by the harness, half by two nodes."""
    (run / TRACES).mkdir()
    recorder = Recorder(run, lambda: 1, batch_rows=500, batch_ns=None)
    for number in range(rows // 2):
        recorder.record("op", f="send", type="invoke", process="producer-0.0", queue=number % 4, message=number)
    recorder.close()
    for node in ("broker-0", "broker-1"):
        file = TraceFile(run / TRACES / f"{node}.jsonl")
        for number in range(rows // 4):
            row = {"node": node, "f": "synced", "incarnation": 1, "step": number // 3, "position": number, "time_ns": 1}
            file.add({**row, "value": {}})
        file.write()
    with Manifest(run) as manifest:
        manifest.seal_files([f"{TRACES}/{node}.jsonl" for node in ("broker-0", "broker-1")])


def every(rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.ones(rows.num_rows, np.bool_)


def test_the_rows_are_those_of_the_run_without_the_last_step_of_each_node(tmp_path: Path) -> None:
    record(tmp_path, 4_000)
    prefix, (whole, _) = read_prefix(tmp_path, every), read_rows(tmp_path)
    assert prefix is not None and prefix.recorded == whole.num_rows == 4_000 and not prefix.damage
    told, traces = whole.slice(0, 2_000), whole.slice(2_000)
    assert end_of_whole_steps(told) == 2_000
    left = [*range(2_000), *(2_000 + np.flatnonzero(whole_steps(traces))).tolist()]
    assert prefix.rows["index"].to_pylist() == left and len(left) == 4_000 - 2
    for name in whole.column_names:
        assert prefix.rows[name].to_pylist() == whole[name].take(pa.array(left)).to_pylist()


def test_hardly_a_row_is_held_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK_ROWS", 1_000)
    record(tmp_path, 40_000)
    before = pa.default_memory_pool()
    pa.set_memory_pool(POOL)
    try:
        prefix = read_prefix(tmp_path, every)
    finally:
        pa.set_memory_pool(before)
    assert prefix is not None
    assert prefix.rows.nbytes < POOL.max_memory() < 2 * prefix.rows.nbytes
