"""How many rows the shards of a run hold for a message: what is repeated in several of them included.

``python -m benchmarks.shards.rows RUN [--times N] [--rows M] [--json]``: the rows of a recorded run are repeated N
times, one copy after the other, as queues and messages of their own in one growing log, and parted with M rows of its
own in a shard at most. To have as many shards as a run of K times the length, divide M by K.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks._common import Figure, parser, show
from chaos.history import shards
from chaos.history.history import History
from chaos.judging.plan import plan
from chaos.judging.registry import registry
from chaos.ops import message_id

#: A copy's queues are those of the copy so many before it.
QUEUE_SETS = 8
#: What grows from copy to copy.
SHIFTED = ("index", "incarnation", "step", "position", "epoch", "offset", "queue")
#: Values of rows that hold positions, epochs and lives, too; and which column each of their numbers grows with.
NUMBERED = ("confirm", "acked", "recovered", "role", "tier_commit", "start")
NUMBERS = re.compile(
    r'"(?:(?P<position>confirm|start|first)|(?P<incarnation>generation)|(?P<node>broker-\d+))":(?P<number>\d+)'
)


def copies(table: pa.Table, times: int) -> Iterator[pa.Table]:
    """Yield the same rows again and again, later in the lives of the same nodes."""
    most = {name: int(pc.max(table[name]).as_py()) + 1 for name in SHIFTED}
    numbered = np.isin(table["f"].cast(pa.string()).to_numpy(zero_copy_only=False), NUMBERED)
    numbered &= pc.equal(table["kind"].cast(pa.string()), "trace").to_numpy(zero_copy_only=False)
    values = table["value"].to_pylist()
    for copy in range(times):
        rows = table
        for name, shift in (
            *((name, copy * most[name]) for name in ("index", "incarnation", "step", "position", "epoch")),
            ("op", copy * most["index"]),
            ("message", message_id(copy % QUEUE_SETS * most["queue"], copy // QUEUE_SETS << 30)),
            ("offset", copy // QUEUE_SETS * most["offset"]),
            ("queue", copy % QUEUE_SETS * most["queue"]),
        ):
            numbers = rows[name].to_numpy()
            moved = pa.array(np.where(numbers >= 0, numbers + shift, numbers))
            rows = rows.set_column(rows.column_names.index(name), name, moved)
        later = [*values]
        for at in np.flatnonzero(numbered).tolist() if copy else ():
            later[at] = NUMBERS.sub(lambda found: _later(found, copy, most), values[at])  # noqa: B023
        column = pa.array(later, pa.string()).cast(table["value"].type)
        yield rows.set_column(rows.column_names.index("value"), "value", column)


def _later(found: re.Match[str], copy: int, most: Mapping[str, int]) -> str:
    name = "incarnation" if found["incarnation"] else "position"
    key = found[0][: found.start("number") - found.start()]
    return f"{key}{int(found['number']) + copy * most[name]}"


def tiled(table: pa.Table, times: int) -> pa.Table:
    """All copies in one."""
    return pa.concat_tables(copies(table, times)).unify_dictionaries().combine_chunks()


def main() -> None:
    arguments = parser("shards.rows", __doc__)
    arguments.add_argument("run", type=Path)
    arguments.add_argument("--times", type=int, default=1)
    arguments.add_argument("--rows", type=int, default=shards.SHARD_ROWS)
    given = arguments.parse_args()
    table = tiled(History.open(given.run).table, given.times)
    acked = pc.and_(pc.equal(table["f"], "send"), pc.and_(pc.equal(table["kind"], "op"), pc.equal(table["type"], "ok")))
    messages = int(pc.sum(acked).as_py())
    meta = json.loads((given.run / "run.json").read_text())
    parted = plan(registry().kernels, meta)
    began = time.process_time()
    held: dict[str, list[int]] = {}
    for name, rows in shards.parts(table, parted, given.rows):
        held.setdefault(name.rpartition("-")[0], []).append(rows.num_rows)
    took = time.process_time() - began
    held.pop("rest", None)
    figures = [
        Figure(name="messages", value=messages, unit=""),
        Figure(name="rows of the run", value=round(table.num_rows / messages, 2), unit="/msg"),
        Figure(name="rows in all shards", value=round(sum(map(sum, held.values())) / messages, 2), unit="/msg"),
    ]
    for part, sizes in sorted(held.items()):
        figures.append(Figure(name=f"in {len(sizes)} of {part}", value=round(sum(sizes) / messages, 2), unit="/msg"))
    figures.append(Figure(name="parting, processor time", value=round(took / messages * 1e6, 2), unit="us/msg"))
    show("shards.rows", figures, as_json=given.json)


if __name__ == "__main__":
    main()
