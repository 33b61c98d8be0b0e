"""How much memory the shards of a long run take: to write them, and to read each and run its kernels.

``python -m benchmarks.shards.memory RUN [--times N] [--rows M] [--json]``: the rows of a recorded run are repeated as
``benchmarks.shards.rows`` does, spooled, and parted with M rows of its own in a shard at most. That, and each shard
with its kernels, has a process of its own, whose peak of resident memory is reported; of each part the shard that took
the most, and how many bytes of it there are for each message of the run.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks._common import Figure, parser, show
from benchmarks.shards.rows import copies
from chaos.history import shards
from chaos.history.history import History
from chaos.history.run_meta import RunMeta

#: Rows of a block, as ``check`` reads them.
BLOCK_ROWS = 1 << 17


def main() -> None:
    arguments = parser("shards.memory", __doc__)
    arguments.add_argument("run", type=Path)
    arguments.add_argument("--times", type=int, default=1)
    arguments.add_argument("--rows", type=int, default=shards.SHARD_ROWS)
    given = arguments.parse_args()
    figures = []
    with tempfile.TemporaryDirectory(dir=given.run) as folder:
        peak, messages = _apart(_write, given.run, Path(folder), given.times, given.rows)
        figures.append(Figure(name="messages", value=messages, unit=""))
        figures.append(Figure(name="parting", value=peak, unit="MiB"))
        empty, _ = _apart(len, ())
        figures.append(Figure(name="a process that does nothing", value=empty, unit="MiB"))
        most: dict[str, tuple[float, int, int]] = {}
        for path in sorted(Path(folder).glob("*.parquet")):
            part = path.stem.rpartition("-")[0]
            took, found = _apart(_examine, given.run, path)
            assert not found, f"{path.stem}: {found}"
            most[part] = max(most.get(part, (0, 0, 0)), (took, pq.read_metadata(path).num_rows, 0))
    for part, (took, rows, _) in sorted(most.items()):
        more = (took - empty) * 2**20 / messages
        figures.append(Figure(name=f"{part}, {rows} rows", value=took, unit=f"MiB, {more:.0f} B/msg"))
    show("shards.memory", figures, as_json=given.json)


def _apart(do: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Return the peak of resident memory (MiB) of a process that does this, and what it returns."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_report, args=(there, do, arguments))
    process.start()
    there.close()
    report: tuple[float, Any] = here.recv()
    process.join()
    return report


def _report(pipe: Any, do: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    from chaos.judging.registry import registry

    registry()
    found = do(*arguments)
    pipe.send((round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1), found))


def _write(run: Path, folder: Path, times: int, most: int) -> int:
    """Write the shards of the repeated run; return how many messages were acknowledged."""
    import pyarrow.compute as pc

    from chaos.history import sharding
    from chaos.history.spool import Spool
    from chaos.judging.plan import plan
    from chaos.judging.registry import registry

    table, messages = History.open(run).table, 0
    with Spool(folder) as spool:
        for rows in copies(table, times):
            for begin in range(0, rows.num_rows, BLOCK_ROWS):
                spool.add(rows.slice(begin, BLOCK_ROWS).combine_chunks())
            sent = pc.and_(pc.equal(rows["f"], "send"), pc.equal(rows["kind"], "op"))
            messages += int(pc.sum(pc.and_(sent, pc.equal(rows["type"], "ok"))).as_py())
        assert spool.in_order and spool.whole() is None, "so few rows are held in memory; give more --times"
        sharding.fill(folder, spool, plan(registry().kernels, json.loads((run / "run.json").read_text())), most)
    return messages


def _examine(run: Path, shard: Path) -> str:
    """Examine a shard; return what crashed, if anything did."""
    from chaos.judging import plan
    from chaos.judging.engine import examine_shard
    from chaos.judging.registry import registry
    from chaos.judging.shard import Shard
    from chaos.law import RunContext

    meta = json.loads((run / "run.json").read_text())
    kernels = registry().kernels
    columns = plan.columns([kernels[number] for number in plan.served(shard.stem, kernels) or ()])
    found = examine_shard(
        shard.stem, Shard.read(shard, columns), RunContext(run="tiled", seed=0, meta=RunMeta.of(meta))
    )
    return "; ".join(gap for _, partial in found for gap in partial.gaps if "crashed" in gap)


if __name__ == "__main__":
    main()
