"""How long judging a small run takes: 10,000 operations, cold (a fresh process) and warm, on Spark and in process.

``python -m benchmarks.laws_small [--json] [--repeat N]``
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._common import Figure, parser, show
from chaos.history.beginnings import Beginnings
from chaos.history.columns import INTEGERS, VALUE, WORDS
from chaos.history.run_meta import RunMeta
from chaos.law import RunContext
from chaos.ops import message_id
from chaos.verdict import Validity, worst

OPERATIONS = 10_000
QUEUES = 4
BROKERS = ("broker-0", "broker-1", "broker-2")
SIZE = 200
WARM_UP = 2
#: Seconds; judging in process when warm has no aim of its own.
AIMS = {"cold_spark": 3.0, "warm_spark": 0.5, "cold_local": 1.0}

COLD = """
import sys, time
from functools import partial
from pathlib import Path
from benchmarks.laws_small import context
from chaos.judging.engine import RunInput, judge
judge([RunInput(context=context(), shards=[Path(sys.argv[1])])], engine=sys.argv[2])
"""


def context() -> RunContext:
    nodes = [{"name": name, "role": "broker"} for name in BROKERS]
    evidence = ["operations", "final-logs", "confirm"]
    meta = {"deployment": "sim", "brokers": list(BROKERS), "nodes": nodes, "tells": evidence}
    return RunContext(run="benchmark", seed=1, meta=RunMeta.of(meta))


class _Rows:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.steps = dict.fromkeys(BROKERS, 0)

    def add(self, kind: str, f: str, *, value: dict[str, Any] | None = None, **columns: Any) -> int:
        index = len(self.rows)
        row: dict[str, Any] = dict.fromkeys(INTEGERS, -1) | dict.fromkeys(WORDS, "")
        row |= {"index": index, "time_ns": index * 1_000_000, "kind": kind, "f": f, **columns}
        row[VALUE] = json.dumps(value) if value else ""
        self.rows.append(row)
        return index

    def trace(self, node: str, f: str, **columns: Any) -> None:
        self.steps[node] += 1
        self.add("trace", f, node=node, incarnation=1, step=self.steps[node], **columns)

    def send(self, queue: int, offset: int, position: int) -> None:
        message = message_id(queue, offset)
        same: dict[str, Any] = {"queue": queue, "message": message, "hash": message * 7 + 1}
        asked = self.add("op", "send", type="invoke", process="producer-0.0", **same)
        for node in BROKERS:
            self.trace(node, "append", epoch=1, position=position, offset=offset, value={"size": SIZE}, **same)
            self.trace(node, "synced", position=position + SIZE)
        members: dict[str, Any] = {"set": list(BROKERS), "proposed": []}
        self.trace("broker-0", "confirm", epoch=1, position=position + SIZE, value=members)
        where: dict[str, Any] = {"op": asked, "offset": offset, "position": position, "node": "broker-0", "epoch": 1}
        self.add("op", "send", type="ok", process="producer-0.0", **where, **same)

    def pull(self, queue: int, offset: int, count: int, maximum: int, **value: Any) -> int:
        who: dict[str, Any] = {"process": "consumer-0.0", "queue": queue}
        asked = self.add("op", "pull", type="invoke", offset=offset, value=value, **who)
        reply: dict[str, Any] = {"minimum": 0, "maximum": maximum, "source": "local", **value}
        answer: dict[str, Any] = {"op": asked, "type": "ok", "node": "broker-0", "epoch": 1}
        self.add("op", "pull", value=reply, **answer, **who)
        for number in range(offset, offset + count):
            message = message_id(queue, number)
            self.add("op", "delivered", offset=number, message=message, hash=message * 7 + 1, **answer, **who)
        return offset + count


def history(operations: int = OPERATIONS) -> pa.Table:
    """Return a run without a fault: half sends, half pulls, with full traces, a drain and the final logs."""
    rng, made = random.Random(1), _Rows()
    made.add("harness", "phase", value={"phase": "load"})
    for node in BROKERS:
        role: dict[str, Any] = {"role": "master" if node == "broker-0" else "slave", "start": 0}
        made.trace(node, "role", epoch=1, value=role)
    ends, read, position = [0] * QUEUES, [0] * QUEUES, 0
    for _ in range(operations // 2):
        queue = rng.randrange(QUEUES)
        made.send(queue, ends[queue], position)
        position += SIZE
        ends[queue] += 1
        queue = rng.randrange(QUEUES)
        read[queue] = made.pull(queue, read[queue], ends[queue] - read[queue], ends[queue], group="g")
    made.add("harness", "recovered", value={"seconds": 1})
    made.add("harness", "phase", value={"phase": "drain"})
    for queue, end in enumerate(ends):
        asked = made.add("op", "drain", type="invoke", queue=queue, offset=0, value={"by": "queue"})
        made.pull(queue, 0, end, end, by="queue")
        made.add("op", "drain", type="ok", op=asked, queue=queue, offset=end, value={"by": "queue"})
        for node in BROKERS:
            for offset in range(end):
                message = message_id(queue, offset)
                same: dict[str, Any] = {"queue": queue, "offset": offset, "message": message, "hash": message * 7 + 1}
                made.add("final", "log", node=node, epoch=1, position=offset, **same)
    for node in BROKERS:
        made.add("final", "node", node=node, value={"role": "slave", "confirm": position})
        made.add("final", "complete", node=node)
    columns: dict[str, Any] = {}
    for name in (*INTEGERS, *WORDS, VALUE):
        kind = pa.int64() if name in INTEGERS else pa.string()
        array = pa.array([row[name] for row in made.rows], kind)
        columns[name] = array if name in INTEGERS else array.dictionary_encode()
    return Beginnings().repeat(pa.table(columns))


def measure(repeat: int) -> dict[str, Any]:
    """Seconds, the median of ``repeat``."""
    from chaos.judging.engine import RunInput, Session, build_archive, judge

    build_archive()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all-0.parquet"
        table = history()
        pq.write_table(table, path, compression="zstd")
        found: dict[str, Any] = {"operations": OPERATIONS, "rows": table.num_rows}
        for engine in ("local", "spark"):
            found[f"cold_{engine}_s"] = _median(repeat, partial(_cold, path, engine))
        inputs = [RunInput(context=context(), shards=[path])]
        found["warm_local_s"] = _median(repeat, lambda: judge(inputs, engine="local"))
        with Session() as session:
            found["warm_spark_s"] = _median(repeat, lambda: judge(inputs, session=session))
            judged = judge(inputs, session=session)
    core = [v for v in judged[0] if v.law in ("durability", "agreement", "no-rollback", "order")]
    if worst(verdict.validity for verdict in core) is not Validity.VALID:
        raise AssertionError(f"the generated run must be VALID: {core}")
    return found


def _median(repeat: int, work: Any) -> float:
    for _ in range(WARM_UP):
        work()
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return round(statistics.median(seconds), 3)


def _cold(path: Path, engine: str) -> None:
    subprocess.run([sys.executable, "-c", COLD, str(path), engine], check=True, stderr=subprocess.DEVNULL)


def main() -> int:
    arguments = parser("laws_small", __doc__)
    arguments.add_argument("--repeat", type=int, default=5, help="measured repetitions of each figure")
    given = arguments.parse_args()
    found = measure(given.repeat)
    figures = [Figure(name=name, value=found[name], unit="") for name in ("operations", "rows")]
    for name in ("cold_spark", "warm_spark", "cold_local", "warm_local"):
        figures.append(Figure(name=name, value=found[f"{name}_s"], unit="s", aim=AIMS.get(name)))
    show("laws_small", figures, as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
