"""What is read of a run that goes on becomes pieces if it is much, and lacks steps that may not be whole."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from chaos.history import stream, traces
from chaos.history.directory import TRACES
from chaos.history.history import History
from chaos.history.made import Made
from chaos.history.manifest import Manifest
from chaos.history.parted.choosing import Chosen, Part
from chaos.history.pieces import Held
from chaos.history.prefix import LastSteps, _prefix, end_of_whole_steps, read_prefix
from chaos.history.recorder import Recorder
from chaos.history.run_meta import RunMeta
from chaos.judging.divided import Divided
from chaos.judging.in_process import InProcess
from chaos.judging.layout import Layout
from chaos.shell.trace_file import TraceFile
from tests.chaos.history.runs import make_large, plain
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


@pytest.mark.parametrize("large", [100, 1 << 20])
def test_the_rows_are_those_of_the_run_without_the_last_step_of_each_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    make_large(monkeypatch, large, 300)
    monkeypatch.setattr(stream, "BLOCK_ROWS", 700)
    record(tmp_path, 4_000)
    with Made(tmp_path) as rows:
        prefix, (whole, _) = read_prefix(tmp_path, every, rows), History.open(tmp_path).recorded()
        assert prefix is not None and prefix.recorded == whole.num_rows == 4_000 and not prefix.damage
        assert (prefix.table is None) == (len(prefix.pieces) > 5) == (large == 100)
        told, traced = whole.slice(0, 2_000), whole.slice(2_000)
        assert end_of_whole_steps(told) == 2_000
        left = [*range(2_000), *(2_000 + np.flatnonzero(whole_steps(traced))).tolist()]
        assert len(left) == 4_000 - 2
        assert plain(pa.concat_tables(prefix.blocks())).equals(plain(whole.take(pa.array(left))))


@pytest.mark.parametrize("seed", range(20))
def test_steps_that_may_not_be_whole_are_found_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Also where nodes take turns, come back to a step, or trace into the one history."""
    rng, history = Random(seed), MadeHistory()
    for number in range(60):
        kind = "trace" if number >= 30 or rng.random() < 0.5 else "op"
        history.row(kind, f="synced", node=rng.choice("abc"), incarnation=rng.choice((1, 1, 2)), step=number // 4)
    table = table_of(history.rows)
    of_stream, last, size = rng.choice((0, 30, 60)), LastSteps(), rng.choice((1, 7, 60))
    for begin in range(0, of_stream, size):
        last.read_stream(table.slice(begin, min(size, of_stream - begin)))
    for begin in range(of_stream, 60, size):
        last.read_traces(table.slice(begin, size))
    told, traced = table.slice(0, of_stream), table.slice(of_stream)
    left = [*range(end_of_whole_steps(told)), *(of_stream + np.flatnonzero(whole_steps(traced))).tolist()]
    for large in (10, 1_000):
        make_large(monkeypatch, large, 10)
        with Made(tmp_path) as rows:
            for begin in range(0, 60, size):
                rows.add(table.slice(begin, size))
            prefix = _prefix(rows, of_stream, 60, -1, [], last)
            assert (prefix.table is None) == (large == 10)
            assert plain(pa.concat_tables(prefix.blocks())).equals(plain(table.take(pa.array(left, pa.int64()))))
            for piece in prefix.pieces:
                assert piece.read(["f", "time_ns"]).equals(piece.read().select(["time_ns", "f"]))


@pytest.mark.parametrize("large", [10, 1_000])
def test_an_operation_that_ends_behind_the_cut_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    """Though its end, which is left out, repeats its beginning."""
    make_large(monkeypatch, large, 10)
    recorder = Recorder(tmp_path, lambda: 1)
    asked = [recorder.record("op", f="send", type="invoke", message=number) for number in range(20)]
    for number, step in enumerate((1, 2, 3, 4, 4)):
        recorder.record_trace({"node": "n", "f": "synced", "incarnation": 1, "step": step, "time_ns": 1})
        for one in asked[4 * number : 4 * number + 4]:
            recorder.record("op", f="send", type="ok", op=one, message=one)
    recorder.close()
    with Made(tmp_path) as rows:
        prefix = read_prefix(tmp_path, every, rows)
        assert prefix is not None and prefix.recorded == 45
        pieces = prefix.pieces or [Held(prefix.table)]
        with InProcess() as tasks:
            plan = (Part("run", "run", own=(Chosen("op"), Chosen("trace"))),)
            ((_, found, _),) = Divided(tasks, pieces, Layout(RunMeta(), plan)).shards()
    assert sorted(found["index"].to_pylist()) == [*range(12, 20), *range(20, 35)]


def test_what_is_held_does_not_grow_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK_ROWS", 1_000)
    monkeypatch.setattr(traces, "BLOCK", 1 << 15)
    make_large(monkeypatch, 2_000, 1_000)
    most = []
    for rows in (8_000, 40_000):
        run = tmp_path / str(rows)
        run.mkdir()
        record(run, rows)
        before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
        pa.set_memory_pool(pool)
        try:
            with Made(run) as held:
                prefix = read_prefix(run, every, held)
                assert prefix is not None
                assert rows - 8 < sum(block.num_rows for block in prefix.blocks()) < rows
        finally:
            pa.set_memory_pool(before)
        most.append(pool.max_memory())
        POOLS.append(pool)
    assert 0 < most[1] < 1.6 * most[0]
