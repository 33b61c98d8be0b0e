"""The rows of a run for those who draw them: from its shards, which need no parsing, if they are the whole history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.errors import ChaosError
from chaos.history import manifest
from chaos.history.directory import SHARDS, trace_files
from chaos.history.manifest import Sealed
from chaos.history.recorder import read_rows
from chaos.history.shards import WHOLE
from chaos.history.stream import SCHEMA, STREAM, is_sound

#: Rows of a shard that are looked at together.
BATCH_ROWS = 1 << 16
ONE = f"{SHARDS}/{WHOLE}.parquet"

Keep = Callable[[pa.Table], Any]


def typed_rows(run: Path, keep: Keep | None = None) -> tuple[pa.Table, list[str]]:
    """As :func:`chaos.history.recorder.read_rows`, which reads the run unless its shards will do."""
    sealed = manifest.read(run)
    try:
        names = _whole_in_shards(run, sealed)
        if names and (keep is not None or names == [ONE]):
            return _from_shards(run, names, keep), []
    except (ChaosError, OSError, pa.ArrowException, ValueError):
        pass  # whatever it is, the reader of the history says it better
    return read_rows(run, sealed, keep)


def _whole_in_shards(run: Path, sealed: Sealed) -> list[str]:
    """The shards of a run if they were made, without any damage, from all that is there now: only then are they sealed,
    and after all the rest. Empty where that isn't so."""
    shards = sorted(name for name in sealed.files if name.startswith(f"{SHARDS}/"))
    traces = trace_files(run)
    if sealed.damage or not shards or not (run / STREAM).exists() or not set(traces) <= sealed.files.keys():
        return []
    told = [name for name in sealed.files if name.startswith("traces/")]
    last = max([sealed.last_batch, *(sealed.lines[name] for name in told)])
    if min(sealed.lines[name] for name in shards) < last or not is_sound(run, sealed):
        return []
    return [] if any(manifest.altered(run, sealed, name) for name in [*shards, *told]) else shards


def _from_shards(run: Path, names: list[str], keep: Keep | None) -> pa.Table:
    tables = [SCHEMA.empty_table()]
    for name in names:
        file = pq.ParquetFile(run / name, page_checksum_verification=True)
        for batch in file.iter_batches(BATCH_ROWS):
            rows = pa.Table.from_batches([batch]).cast(SCHEMA)
            tables.append(rows if keep is None else rows.filter(keep(rows)))
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    index = table["index"].to_numpy()
    if np.all(index[1:] > index[:-1]):
        return table
    return table.take(pa.array(np.unique(index, return_index=True)[1]))
