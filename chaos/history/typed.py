"""The rows of a run for those who draw them: from its shards, which need no parsing, if they are the whole history."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos import guarded
from chaos.errors import ChaosError
from chaos.history import manifest
from chaos.history.bounded import shard_files
from chaos.history.columns import COLUMNS
from chaos.history.directory import SHARDS, TRACES, trace_files
from chaos.history.manifest import Sealed
from chaos.history.recorder import read_rows
from chaos.history.shards import WHOLE
from chaos.history.stream import MOST_ROWS, SCHEMA, STREAM, is_sound

ONE = f"{SHARDS}/{WHOLE}.parquet"

#: Says of some rows which ones are wanted (an array of booleans); makes of those what is held.
Keep = Callable[[pa.Table], Any]
Shape = Callable[[pa.Table], pa.Table]


class TypedRun:
    """The rows of one run, for readers that look at them several times: what vouches for its shards is checked once."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._sealed = manifest.read(run)
        self._promised = _promised(self._sealed)
        try:
            self._shards = _whole_in_shards(run, self._sealed, self._promised)
        except (ChaosError, OSError, pa.ArrowException, ValueError):
            self._shards = []  # whatever it is, the reader of the history says it better

    @property
    def is_large(self) -> bool:
        """Whether its rows stand in several shards, so that nobody should hold all of them."""
        return bool(self._shards) and self._shards != [ONE]

    def rows(
        self, keep: Keep | None = None, *, columns: Collection[str] = COLUMNS, shape: Shape | None = None
    ) -> tuple[pa.Table, list[str]]:
        """As :func:`chaos.history.recorder.read_rows`, which reads the run unless its shards will do. ``columns``:
        those that ``keep`` and ``shape`` need, ``index`` among them; ``shape`` may make other columns of them, but no
        other rows."""
        try:
            if self._shards and (keep is not None or self._shards == [ONE]):
                return self._from_shards(keep, [name for name in COLUMNS if name in columns], shape), []
        except (ChaosError, OSError, pa.ArrowException, ValueError):
            self._shards = []
        table, damage = read_rows(self._run, self._sealed, keep)
        table = table.select([name for name in table.column_names if name in columns])
        return table if shape is None else shape(table), damage

    def blocks(
        self, keep: Keep, columns: Collection[str] = COLUMNS, held: shard_files.Budget | None = None
    ) -> Iterator[pa.Table]:
        """Yield the wanted rows with these columns, ``index`` among them, some at a time, each once: one shard after
        the other. ``held``: what they may take together. Raises whatever it takes where the shards won't do; for runs
        that are large."""
        schema = pa.schema([SCHEMA.field(name) for name in COLUMNS if name in columns])
        seen = _Seen(self._promised)
        for name in self._shards:
            for rows in shard_files.batches(self._run / name, schema.names, held):
                wanted = np.array(keep(rows), dtype=np.bool_)
                yield rows.filter(pa.array(seen.new(rows["index"].to_numpy(), wanted)))

    def _from_shards(self, keep: Keep | None, columns: list[str], shape: Shape | None) -> pa.Table:
        empty = pa.schema([SCHEMA.field(name) for name in columns]).empty_table()
        tables = [empty if shape is None else shape(empty)]
        every = (lambda rows: np.ones(rows.num_rows, np.bool_)) if keep is None else keep
        held = shard_files.Budget(self._run) if keep is None else None
        tables += [rows if shape is None else shape(rows) for rows in self.blocks(every, columns, held)]
        table = pa.concat_tables(tables).unify_dictionaries()
        index = table["index"].to_numpy()
        if np.all(index[1:] > index[:-1]):
            return table.combine_chunks()
        return table.take(pa.array(np.argsort(index, kind="stable"))).combine_chunks()


class _Seen:
    """Which rows were taken already, a bit for each of at most so many: some stand in several shards."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._taken = np.zeros(0, np.uint8)

    def new(self, index: npt.NDArray[np.int64], wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Those of the wanted rows that are taken now. Rows of a sound history are numbered from 0 on."""
        most = int(index.max(initial=-1)) + 1
        if most > self._rows or index.min(initial=0) < 0:
            raise ValueError("rows are numbered otherwise")
        place, bit = index >> 3, np.left_shift(1, index & 7).astype(np.uint8)
        if most > 8 * len(self._taken):
            more = max(most // 8 + 1, 2 * len(self._taken)) - len(self._taken)
            self._taken = np.append(self._taken, np.zeros(more, np.uint8))
        found: npt.NDArray[np.bool_] = wanted & (self._taken[place] & bit == 0)
        np.bitwise_or.at(self._taken, place[found], bit[found])
        return found


def typed_rows(run: Path, keep: Keep | None = None) -> tuple[pa.Table, list[str]]:
    """:meth:`TypedRun.rows` of a run that is looked at once."""
    return TypedRun(run).rows(keep)


def _promised(sealed: Sealed) -> int:
    """How many rows a run may have: those of its batches, and a trace row takes some bytes."""
    traced = sum(sums[-1].length for name, sums in sealed.files.items() if name.startswith(f"{TRACES}/"))
    return min(MOST_ROWS, sum(batch.rows for batch in sealed.batches) + traced)


def _whole_in_shards(run: Path, sealed: Sealed, promised: int) -> list[str]:
    """Return the shards of a run if they were made, without any damage, from all that is there now: only then are they
    sealed, and after all the rest. Empty where that isn't so, or where they hold more than that can be."""
    shards = sorted(name for name in sealed.files if name.startswith(f"{SHARDS}/"))
    traces = trace_files(run)
    if sealed.damage or not shards or not guarded.is_there(run / STREAM) or not set(traces) <= sealed.files.keys():
        return []
    sealed_traces = [name for name in sealed.files if name.startswith(f"{TRACES}/")]
    last = max([sealed.last_batch, *(sealed.lines[name] for name in sealed_traces)])
    if min(sealed.lines[name] for name in shards) < last or not is_sound(run, sealed):
        return []
    if any(manifest.altered(run, sealed, name) for name in [*shards, *sealed_traces]):
        return []
    return shards if all(shard_files.measured(run / name).rows <= promised for name in shards) else []
