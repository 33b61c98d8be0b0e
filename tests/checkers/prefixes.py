"""A recorded run as it looks while it goes on: as simulated nodes leave it, and as processes do."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.ends import without_beginnings
from chaos.history.prefix import end_of_whole_steps
from chaos.history.run_meta import RunMeta
from chaos.judging.engine import judge_rows
from chaos.judging.so_far import SoFar, able, judge_so_far
from chaos.law import RunContext

#: An anomaly, as far as it does not depend on which witness was found first.
Name = tuple[str, str, int, int]


def context(meta: dict[str, Any]) -> RunContext:
    return RunContext(run="run", seed=int(meta.get("seed", 0)), meta=RunMeta.of(meta))


def as_processes(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The harness's rows, numbered anew, and the traces of all nodes behind them, one node after the other."""
    is_trace = pc.equal(table["kind"].cast(pa.string()), "trace")
    stream, traces = table.filter(pc.invert(is_trace)), table.filter(is_trace)
    place = np.full(table.num_rows, -1, dtype=np.int64)
    place[stream["index"].to_numpy()] = np.arange(stream.num_rows)
    op = stream["op"].to_numpy()
    stream = _with(stream, op=np.where(op >= 0, place[np.maximum(op, 0)], -1), index=np.arange(stream.num_rows))
    nodes = np.array(traces["node"].cast(pa.string()).to_pylist())
    traces = traces.take(pa.array(np.argsort(nodes, kind="stable")))
    return stream, _with(traces, index=stream.num_rows + np.arange(traces.num_rows))


def _with(table: pa.Table, **columns: Any) -> pa.Table:
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values, pa.int64()))
    return table


def joined(*parts: pa.Table) -> pa.Table:
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def batches(stream: pa.Table) -> list[int]:
    """Where a batch of the harness's rows may end: rows of one operation that follow each other stand in one."""
    op = stream["op"].to_numpy()
    return [0, *(np.flatnonzero(~((op[1:] == op[:-1]) & (op[1:] >= 0))) + 1).tolist(), len(op)]


def simulated_prefixes(table: pa.Table, rng: Random, count: int) -> Iterator[pa.Table]:
    for end in rng.sample(batches(table), count):
        cut = table.slice(0, end)
        yield cut.slice(0, end_of_whole_steps(cut))


def process_prefixes(stream: pa.Table, traces: pa.Table, rng: Random, count: int) -> Iterator[pa.Table]:
    """The harness's rows up to some batch, and of each node's trace some rows, no matter which of them are later."""
    nodes = np.array(traces["node"].cast(pa.string()).to_pylist())
    for end in rng.sample(batches(stream), count):
        keep = np.zeros(len(nodes), dtype=np.bool_)
        for node in np.unique(nodes):
            own = np.flatnonzero(nodes == node)
            keep[own[: rng.choice([0, len(own), rng.randint(0, len(own))])]] = True
        read = joined(traces.filter(pa.array(keep)))
        yield joined(stream.slice(0, end), read.filter(pa.array(whole_steps(read))))


def in_the_end(table: pa.Table, told: RunContext) -> set[Name]:
    return names(SoFar.of(verdict) for verdict in judge_rows([("all-0", table)], told, able()))


def so_far(table: pa.Table, told: RunContext) -> set[Name]:
    found = judge_so_far(without_beginnings(table)[0], told, able())
    assert not [one.state for one in found if "crashed" in one.state]
    return names(found)


def names(found: Any) -> set[Name]:
    return {
        (one.law, anomaly.name, anomaly.queue, anomaly.offset)
        for one in found
        for anomaly in one.violations
        if anomaly.rows
    }


def whole_steps(traces: pa.Table) -> npt.NDArray[np.bool_]:
    """Which rows of the nodes' traces are of whole steps: of all but each node's last one."""
    incarnation, step, node = (_codes(traces, name) for name in ("incarnation", "step", "node"))
    whole = np.ones(len(node), dtype=np.bool_)
    for code in np.unique(node):
        own = np.flatnonzero(node == code)
        whole[own[(incarnation[own] == incarnation[own[-1]]) & (step[own] == step[own[-1]])]] = False
    return whole


def _codes(table: pa.Table, column: str) -> npt.NDArray[np.int64]:
    array = table[column].combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = pc.fill_null(array.indices, -1)
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.int64)
