"""What is read of a run that goes on goes through a file if it is much, and lacks steps that may not be whole."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from chaos.history import spool, stream, traces
from chaos.history.directory import TRACES
from chaos.history.history import History
from chaos.history.manifest import Manifest
from chaos.history.prefix import LastSteps, WholeSteps, end_of_whole_steps, read_prefix
from chaos.history.recorder import Recorder
from chaos.history.spool import Spool
from chaos.shell.trace_file import TraceFile
from tests.checkers.histories import History as MadeHistory
from tests.checkers.histories import table_of
from tests.checkers.prefixes import whole_steps

#: Whatever a pool gave must be freed before it is.
POOLS: list[pa.MemoryPool] = []


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


@pytest.mark.parametrize("most", [100, 1 << 20])
def test_the_rows_are_those_of_the_run_without_the_last_step_of_each_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(spool, "MOST_ROWS", most)
    monkeypatch.setattr(stream, "BLOCK_ROWS", 700)
    record(tmp_path, 4_000)
    with Spool(tmp_path) as rows:
        prefix, (whole, _) = read_prefix(tmp_path, every, rows), History.open(tmp_path).recorded()
        assert prefix is not None and prefix.recorded == whole.num_rows == 4_000 and not prefix.damage
        assert (prefix.rows.whole() is None) == (most == 100)
        told, traced = whole.slice(0, 2_000), whole.slice(2_000)
        assert end_of_whole_steps(told) == 2_000
        left = [*range(2_000), *(2_000 + np.flatnonzero(whole_steps(traced))).tolist()]
        assert len(left) == 4_000 - 2
        for name in whole.column_names:
            found = [one for block in prefix.rows.blocks([name]) for one in block[name].to_pylist()]
            assert found == whole[name].take(pa.array(left)).to_pylist()


@pytest.mark.parametrize("seed", range(20))
def test_steps_that_may_not_be_whole_are_found_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Also where nodes take turns, come back to a step, or trace into the one history."""
    monkeypatch.setattr(spool, "MOST_ROWS", 10)
    rng, history = Random(seed), MadeHistory()
    for number in range(60):
        kind = "trace" if number >= 30 or rng.random() < 0.5 else "op"
        history.row(kind, f="synced", node=rng.choice("abc"), incarnation=rng.choice((1, 1, 2)), step=number // 4)
    table = table_of(history.rows)
    of_stream, last, size = rng.choice((0, 30, 60)), LastSteps(), rng.choice((1, 7, 60))
    with Spool(tmp_path) as rows:
        for begin in range(0, 60, size):
            rows.add(table.slice(begin, size))
        for begin in range(0, of_stream, size):
            last.read_stream(table.slice(begin, min(size, of_stream - begin)))
        for begin in range(of_stream, 60, size):
            last.read_traces(table.slice(begin, size))
        found = WholeSteps(rows, of_stream, last)
        told, traced = table.slice(0, of_stream), table.slice(of_stream)
        left = [*range(end_of_whole_steps(told)), *(of_stream + np.flatnonzero(whole_steps(traced))).tolist()]
        for backwards in (False, True):
            numbers = [
                one for block in found.blocks(["index"], backwards=backwards) for one in block["index"].to_pylist()
            ]
            assert sorted(numbers) == left


def test_what_is_held_does_not_grow_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK_ROWS", 1_000)
    monkeypatch.setattr(traces, "BLOCK", 1 << 15)
    monkeypatch.setattr(spool, "MOST_ROWS", 2_000)
    most = []
    for rows in (8_000, 40_000):
        run = tmp_path / str(rows)
        run.mkdir()
        record(run, rows)
        before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
        pa.set_memory_pool(pool)
        try:
            with Spool(run) as held:
                prefix = read_prefix(run, every, held)
                assert prefix is not None
                assert rows - 8 < sum(block.num_rows for block in prefix.rows.blocks()) < rows
        finally:
            pa.set_memory_pool(before)
        most.append(pool.max_memory())
        POOLS.append(pool)
    assert 0 < most[1] < 1.6 * most[0]
