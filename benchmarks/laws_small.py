"""How long judging small runs takes: one of 10,000 operations, cold (a fresh process) and warm, on Spark and in
process; and the processor time that each of many runs of some hundred operations takes together, all processes counted.

``python -m benchmarks.laws_small [--json] [--repeat N] [--runs N]``
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._common import Figure, parser, show
from chaos.history.directory import write_meta
from chaos.history.format import FORMAT
from chaos.history.recorder import Recorder
from chaos.judging.class_archive import build_archive
from chaos.judging.masters import parse
from chaos.judging.outcome import judge
from chaos.judging.run import examine_runs
from chaos.judging.spark import Session
from chaos.ops import message_id
from chaos.verdict import Engine, RunVerdict, Validity, worst

OPERATIONS, FEW_OPERATIONS = 10_000, 300
QUEUES = 4
BROKERS = ("broker-0", "broker-1", "broker-2")
SIZE = 200
WARM_UP = 2
MASTER = "local[2]"
#: Seconds; judging in process when warm has no aim of its own.
AIMS = {"cold_spark": 3.0, "warm_spark": 0.5, "cold_local": 1.0}
CORE = ("durability", "agreement", "no-rollback", "order")

COLD = """
import sys
from pathlib import Path
from benchmarks.laws_small import MASTER, judged, parse
from chaos.judging.spark import Session
if sys.argv[2] == "local":
    judged([Path(sys.argv[1])])
else:
    with Session(parse(MASTER)) as session:
        judged([Path(sys.argv[1])], session)
"""


class _Rows(Recorder):
    def __init__(self, run: Path) -> None:
        super().__init__(run, lambda: len(self) * 1_000_000, batch_ns=None)
        self.steps = dict.fromkeys(BROKERS, 0)

    def trace(self, node: str, f: str, **columns: Any) -> None:
        self.steps[node] += 1
        self.record("trace", f=f, node=node, incarnation=1, step=self.steps[node], **columns)

    def send(self, queue: int, offset: int, position: int) -> None:
        message = message_id(queue, offset)
        same: dict[str, Any] = {"queue": queue, "message": message, "hash": message * 7 + 1}
        asked = self.record("op", f="send", type="invoke", process="producer-0.0", **same)
        for node in BROKERS:
            self.trace(node, "append", epoch=1, position=position, offset=offset, value={"size": SIZE}, **same)
            self.trace(node, "synced", position=position + SIZE)
        members: dict[str, Any] = {"set": list(BROKERS), "proposed": []}
        self.trace("broker-0", "confirm", epoch=1, position=position + SIZE, value=members)
        where: dict[str, Any] = {"op": asked, "offset": offset, "position": position, "node": "broker-0", "epoch": 1}
        self.record("op", f="send", type="ok", process="producer-0.0", **where, **same)

    def pull(self, queue: int, offset: int, count: int, maximum: int, **value: Any) -> int:
        who: dict[str, Any] = {"process": "consumer-0.0", "queue": queue}
        asked = self.record("op", f="pull", type="invoke", offset=offset, value=value, **who)
        reply: dict[str, Any] = {"minimum": 0, "maximum": maximum, "source": "local", **value}
        answer: dict[str, Any] = {"op": asked, "type": "ok", "node": "broker-0", "epoch": 1}
        self.record("op", f="pull", value=reply, **answer, **who)
        for number in range(offset, offset + count):
            message = message_id(queue, number)
            self.record("op", f="delivered", offset=number, message=message, hash=message * 7 + 1, **answer, **who)
        return offset + count


def write(run: Path, operations: int) -> int:
    """Write a run without a fault: half sends, half pulls, with full traces, a drain and the final logs. Return how
    many rows it has."""
    run.mkdir()
    rng, made = random.Random(1), _Rows(run)
    made.record("harness", f="phase", value={"phase": "load"})
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
    made.record("harness", f="recovered", value={"seconds": 1})
    made.record("harness", f="phase", value={"phase": "drain"})
    for queue, end in enumerate(ends):
        asked = made.record("op", f="drain", type="invoke", queue=queue, offset=0, value={"by": "queue"})
        made.pull(queue, 0, end, end, by="queue")
        made.record("op", f="drain", type="ok", op=asked, queue=queue, offset=end, value={"by": "queue"})
        for node in BROKERS:
            for offset in range(end):
                message = message_id(queue, offset)
                same: dict[str, Any] = {"queue": queue, "offset": offset, "message": message, "hash": message * 7 + 1}
                made.record("final", f="log", node=node, epoch=1, position=offset, **same)
    for node in BROKERS:
        made.record("final", f="node", node=node, value={"role": "slave", "confirm": position})
        made.record("final", f="complete", node=node)
    made.close()
    nodes = [{"name": name, "role": "broker"} for name in BROKERS]
    meta = {"run": run.name, "seed": 1, "format": FORMAT, "rows": len(made), "state": "finished", "nodes": nodes}
    evidence = ["operations", "final-logs", "confirm"]
    write_meta(run, {**meta, "deployment": "sim", "brokers": [*BROKERS], "tells": evidence})
    return len(made)


def judged(runs: Sequence[Path], session: Session | None = None) -> list[RunVerdict]:
    return judge(examine_runs(runs, session=session), engine=Engine.LOCAL, write=False)


def measure(repeat: int, runs: int) -> dict[str, Any]:
    """Seconds, the median of ``repeat``; and milliseconds of processor time a run."""
    build_archive()
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory())
        run = Path(name) / "run"
        found: dict[str, Any] = {"operations": OPERATIONS, "rows": write(run, OPERATIONS)}
        for engine in ("local", "spark"):
            found[f"cold_{engine}_s"] = _median(repeat, partial(_cold, run, engine))
        session = stack.enter_context(Session(parse(MASTER)))
        found["warm_local_s"] = _median(repeat, lambda: judged([run]))
        found["warm_spark_s"] = _median(repeat, lambda: judged([run], session))
        many = [Path(name) / f"many-{number}" for number in range(runs)]
        found["rows_of_many"] = write(many[0], FEW_OPERATIONS)
        for one in many[1:]:
            shutil.copytree(many[0], one)
        for engine, on in (("local", None), ("spark", session)):
            cpu_s = _median(repeat, lambda on=on: judged(many, on), lambda: _cpu_s(os.getpid()))  # type: ignore[misc]
            found[f"many_{engine}_ms"] = round(1e3 * cpu_s / runs, 2)
        verdicts = [*judged([run], session), *judged(many[:1])]
    core = [law for verdict in verdicts for law in verdict.laws if law.law in CORE]
    if worst(law.validity for law in core) is not Validity.VALID:
        raise AssertionError(f"the generated runs must be VALID: {core}")
    return found


def _median(repeat: int, work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    for _ in range(WARM_UP):
        work()
    seconds = []
    for _ in range(repeat):
        began = clock()
        work()
        seconds.append(clock() - began)
    return round(statistics.median(seconds), 3)


def _cold(run: Path, engine: str) -> None:
    subprocess.run([sys.executable, "-c", COLD, str(run), engine], check=True, stderr=subprocess.DEVNULL)


def _cpu_s(process: int) -> float:
    """Return the processor time of a process and of all its descendants, with those that it has seen end."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
        children = [path.read_text("ascii").split() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:  # it has just ended
        return 0.0
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_cpu_s(int(child)) for some in children for child in some)


def main() -> int:
    arguments = parser("laws_small", __doc__)
    arguments.add_argument("--repeat", type=int, default=5, help="measured repetitions of each figure")
    arguments.add_argument("--runs", type=int, default=200, help="how many runs are judged together")
    given = arguments.parse_args()
    found = measure(given.repeat, given.runs)
    figures = [Figure(name=name, value=found[name], unit="") for name in ("operations", "rows")]
    for name in ("cold_spark", "warm_spark", "cold_local", "warm_local"):
        figures.append(Figure(name=name, value=found[f"{name}_s"], unit="s", aim=AIMS.get(name)))
    figures.append(Figure(name="rows_of_many", value=found["rows_of_many"], unit=""))
    for name in ("many_spark", "many_local"):
        figures.append(Figure(name=f"{name}_a_run", value=found[f"{name}_ms"], unit="ms"))
    show("laws_small", figures, as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
