"""Reads what a run has recorded so far, while it goes on: the harness's rows first, then the traces of its nodes.

A node writes the trace of a step before any message of that step leaves. So the traces that are read after the
harness's rows hold all that nodes had told when something of it reached the harness. Beyond that moment they are ahead
of one another, each as far as its file went when it was read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.errors import DamagedHistory
from chaos.history import manifest
from chaos.history.columns import Kind
from chaos.history.stream import stream_blocks
from chaos.history.traces import trace_blocks

Flags = npt.NDArray[np.bool_]
#: What tells of which step a row is.
_STEP = ("kind", "node", "incarnation", "step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """What a run has recorded so far.

    ``rows``: the wanted ones of it, without steps that may not be whole, and numbered as ``check`` would number them
    now; those below ``of_stream`` keep their numbers for ever. ``recorded``: how many rows were read in all;
    ``until_ns``: the time of the harness's last row, up to which they are complete, -1 before the first. ``damage``:
    one sentence for each part that isn't what was written.
    """

    rows: pa.Table
    of_stream: int
    recorded: int
    until_ns: int
    damage: tuple[str, ...] = ()


def read_prefix(run: Path, wanted: Callable[[pa.Table], Flags]) -> Prefix | None:
    """Read what a run that goes on has recorded so far; None before there is anything. ``wanted`` says which of some
    rows are kept. Raises ``FileNotFoundError`` when files of it are removed meanwhile, :class:`chaos.errors.BadInput`
    for what is no regular file of a size to read."""
    sealed = manifest.read(run)
    promised = sum(batch.rows for batch in sealed.batches)
    if not promised:
        return None
    recorded, until_ns, kept = 0, -1, []
    found: list[str] = []
    try:
        for block in stream_blocks(run, sealed, found):
            recorded += block.num_rows
            until_ns = block["time_ns"][-1].as_py() if block.num_rows else until_ns
            kept.append(block.filter(pa.array(wanted(block))))
    except DamagedHistory as error:
        return None if not kept else _prefix(kept, [], recorded, recorded, until_ns, [*sealed.damage, str(error)])
    damage = [*sealed.damage, *(found if recorded < promised else ())]  # what isn't sealed yet is no damage
    of_stream, traces = recorded, []
    for block in trace_blocks(run, of_stream, sealed, damage):
        recorded += block.num_rows
        traces.append(block.filter(pa.array(wanted(block))))
    return _prefix(kept, traces, of_stream, recorded, until_ns, damage)


def _prefix(
    stream: list[pa.Table], traces: list[pa.Table], of_stream: int, recorded: int, until_ns: int, damage: list[str]
) -> Prefix:
    """Whatever is given is taken from its list, so that hardly a row is held twice."""
    parts = _taken(stream, np.arange(sum(block.num_rows for block in stream)) < end_of_whole_steps(_steps(stream)))
    if traces:
        parts += _taken(traces, whole_steps(_steps(traces)))
    return Prefix(rows=_joined(parts), of_stream=of_stream, recorded=recorded, until_ns=until_ns, damage=tuple(damage))


def _steps(blocks: list[pa.Table]) -> pa.Table:
    """Of which step each row is."""
    return pa.concat_tables([block.select(_STEP) for block in blocks]).unify_dictionaries()


def _taken(blocks: list[pa.Table], wanted: Flags) -> list[pa.Table]:
    """The wanted rows of all blocks, none of which is left."""
    found = []
    while blocks:
        block = blocks.pop(0)
        mine, wanted = wanted[: block.num_rows], wanted[block.num_rows :]
        found.append(block if mine.all() else block.filter(pa.array(mine)))
    return found


def _joined(parts: list[pa.Table]) -> pa.Table:
    """All of them, none of which is left: one column after the other is put together."""
    table = pa.concat_tables(parts).unify_dictionaries()
    parts.clear()
    names, columns = table.column_names, []
    for name in names:
        columns.append(table.select([name]).combine_chunks()[name])
        table = table.drop_columns([name])
    return pa.Table.from_arrays(columns, names)


def end_of_whole_steps(stream: pa.Table) -> int:
    """How many rows come before the last step that any node has traced into the one history, as simulated nodes do:
    more rows of that step may follow. All rows where no node has."""
    traces = np.flatnonzero(_is(stream, "kind", str(Kind.TRACE)))
    if not len(traces):
        return stream.num_rows
    incarnation, step, node = (_codes(stream, name)[traces] for name in ("incarnation", "step", "node"))
    same = (incarnation == incarnation[-1]) & (step == step[-1]) & (node == node[-1])
    return int(traces[np.flatnonzero(same)[0]])


def whole_steps(traces: pa.Table) -> Flags:
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


def _is(table: pa.Table, column: str, text: str) -> Flags:
    return np.asarray(pc.equal(table[column].cast(pa.string()), text).to_numpy(), dtype=np.bool_)
