"""Runs as another program records them: ``run.json``, and the rows as a shard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from chaos.history import directory, manifest
from chaos.history.history import History
from chaos.history.stream import STREAM
from tests.chaos.history.runs import write_shard

SHARD = "all-0"


def recorded(run: Path, table: pa.Table, **meta: Any) -> Path:
    """Write these rows as a run in the simulator, and seal it."""
    write_shard(run, SHARD, table)
    directory.write_meta(run, {"deployment": "sim", "rows": table.num_rows, **meta})
    directory.seal(run)
    return run


def recorded_again(run: Path) -> Path:
    """Leave of a run what another program would have recorded of it, and return its shard."""
    shard = write_shard(run, SHARD, History.open(run).table)
    for name in (STREAM, manifest.FILE):
        (run / name).unlink()
    directory.seal(run)
    return shard
