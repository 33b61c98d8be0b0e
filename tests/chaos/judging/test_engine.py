"""The engine gives one verdict, however the rows are parted and wherever the kernels run; and it survives bad input."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from chaos.errors import MachineError
from chaos.judging import class_archive
from chaos.judging import engine as _engine
from chaos.judging.engine import RunInput, Session, judge, judge_rows
from chaos.law import Law, Partial, Rows, RunContext, Scope
from chaos.verdict import LawName, Validity, Verdict
from tests.checkers.histories import BROKERS, SIZE, History, table_of

REPEATED = {"role", "confirm", "recovered", "truncate", "retention", "set", "start", "bootstrap"}
OF_THE_TIER = {"store_cas", "store_delete", "tier_request", "tier_commit", "tier_view", "tiered", "manifest", "view"}


def busy(seed: int, *, queues: int = 4, sends: int = 60) -> History:
    """A history with everything in it, sometimes broken in several ways at once."""
    rng = random.Random(seed)
    history = History()
    for node in BROKERS:
        history.trace(node, "start", value={"generation": 1})
    history.phase("load")
    history.master("broker-0", 1)
    ends, position = [0] * queues, 0
    for _ in range(sends):
        queue = rng.randrange(queues)
        offset = ends[queue]
        ends[queue] += 1
        for node in BROKERS:
            history.append(node, offset, queue=queue, position=position)
        position += SIZE
        history.trace("broker-1", "synced", position=position)
        history.confirm("broker-0", position, value={"set": list(BROKERS)})
        history.send(offset, queue=queue, type="ok" if rng.random() < 0.9 else "info")
        if rng.random() < 0.3 and offset:
            asked = rng.randrange(offset)
            history.pull(asked, asked, queue=queue, group="g", maximum=offset - (rng.random() < 0.02))
            history.commit(asked + 1, queue=queue)
        if rng.random() < 0.05:
            history.committed(rng.randrange(offset + 1), queue=queue)
        if rng.random() < 0.1:
            value = {"version": offset, "outcome": "applied", "content": {"start": 0, "segments": []}}
            same: dict[str, Any] = {"queue": queue, "offset": offset, "position": position, "epoch": 1}
            history.trace("broker-0", "tier_commit", **same, value={"version": offset})
            history.trace("store-0", "store_cas", **same, hash=offset, value=value)
    history.undo("kill", history.inject("kill", "broker-1"))
    history.phase("heal")
    history.recovered()
    history.phase("drain")
    for queue, end in enumerate(ends):
        gone = end - (rng.random() < 0.2)
        history.drain(*range(gone), queue=queue, end=end)
        for node in BROKERS:
            history.log(node, *range(gone), queue=queue)
    for node in BROKERS:
        history.node(node, role="master" if node == "broker-0" else "slave", confirm=position)
    history.phase("stop")
    return history


def parted(history: History, buckets: int) -> list[tuple[str, Any]]:
    """The rows as the store parts those of a large run."""

    def repeated(row: dict[str, Any]) -> bool:
        kind, f = row["kind"], row["f"]
        return (
            kind in ("fault", "harness")
            or (kind, f) in (("final", "node"), ("final", "complete"))
            or (kind == "trace" and f in REPEATED)
        )

    shards = []
    for bucket in range(buckets):
        mine = [
            row for row in history.rows if (row["queue"] >= 0 and row["queue"] % buckets == bucket) or repeated(row)
        ]
        shards.append((f"queue-{bucket}", table_of(mine)))
    control = [row for row in history.rows if row["queue"] < 0 or row["f"] in OF_THE_TIER]
    return [*shards, ("control", table_of(control))]


@pytest.mark.parametrize("seed", range(12))
def test_shards_give_the_verdict_of_the_whole(seed: int) -> None:
    history = busy(seed)
    whole = judge_rows([("all-0", history.table())], history.context())
    for buckets in (1, 2, 4):
        shards = parted(history, buckets)
        random.Random(seed).shuffle(shards)
        assert judge_rows(shards, history.context()) == whole


def test_rows_out_of_order_are_put_in_order() -> None:
    history = busy(3)
    shuffled = list(history.rows)
    random.Random(1).shuffle(shuffled)
    context = history.context()
    assert judge_rows([("all-0", table_of(shuffled))], context) == judge_rows([("all-0", history.table())], context)


def test_the_generated_histories_are_not_all_alike() -> None:
    seen = {verdict.validity for seed in range(12) for verdict in judge_rows([("all-0", busy(seed).table())], CONTEXT)}
    assert seen == set(Validity)


CONTEXT = RunContext(run="r", seed=1, meta={"deployment": "sim", "brokers": list(BROKERS)})


class Crashing:
    name = LawName.ORDER
    scope = Scope.QUEUE

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        raise ZeroDivisionError("nothing to divide by")

    def judge(self, partials: Sequence[Partial], context: RunContext) -> Verdict:
        return next(law for law in REAL if law.name is LawName.ORDER).judge(partials, context)


REAL: tuple[Law, ...] = _engine.laws()


def test_a_crashed_kernel_is_unknown_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_engine, "laws", lambda: (*REAL[:1], Crashing()))
    verdicts = judge_rows([("all-0", busy(1).table())], CONTEXT)
    order = next(verdict for verdict in verdicts if verdict.law is LawName.ORDER)
    assert order.validity is Validity.UNKNOWN
    assert "nothing to divide by" in order.why


class DyingSpark(Session):
    """A session whose every job fails, as when a worker is killed."""

    def __init__(self) -> None:
        pass

    def map(self, work: Any, tasks: Sequence[Any]) -> Any:
        raise RuntimeError("the worker was killed\nlong stack")


def test_a_spark_job_that_dies_leaves_every_law_unknown(tmp_path: Path) -> None:
    path = tmp_path / "all-0.parquet"
    pq.write_table(busy(3).table(), path)
    inputs = [RunInput(context=CONTEXT, shards=[path]), RunInput(context=CONTEXT, shards=[path])]
    for verdicts in judge(inputs, engine="spark", session=DyingSpark()):
        assert {verdict.validity for verdict in verdicts} == {Validity.UNKNOWN}
        assert "the Spark job failed: the worker was killed" in verdicts[0].why


def test_a_file_that_is_no_parquet_and_a_run_without_shards_are_unknown(tmp_path: Path) -> None:
    bad = tmp_path / "all-0.parquet"
    bad.write_bytes(b"not a table")
    inputs = [RunInput(context=CONTEXT, shards=[bad]), RunInput(context=CONTEXT, shards=[])]
    for verdicts in judge(inputs, engine="local"):
        assert {verdict.validity for verdict in verdicts} == {Validity.UNKNOWN}
    assert "all-0.parquet" in judge(inputs[:1], engine="local")[0][0].why


def test_damage_makes_valid_laws_unknown() -> None:
    history = History()
    history.send(0)
    context = RunContext(run="r", seed=1, meta={}, damage=("batch 7 is torn",))
    order = next(v for v in judge_rows([("all-0", history.table())], context) if v.law is LawName.ORDER)
    assert (order.validity, order.why) == (Validity.UNKNOWN, "batch 7 is torn")


def test_every_law_has_a_verdict() -> None:
    assert {verdict.law for verdict in judge_rows([], CONTEXT)} == set(LawName)


def test_anomalies_become_rows() -> None:
    verdicts = judge_rows([("all-0", busy(2).table())], CONTEXT)
    table = _engine.anomaly_table([("r", verdicts)])
    assert table.num_rows == sum(len(verdict.anomalies) for verdict in verdicts)


def test_missing_java_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(class_archive, "_version", lambda java: -1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MachineError, match="Java 17 or newer"):
        Session().wait()


@pytest.mark.spark
def test_spark_gives_the_local_verdicts_even_beside_a_foreign_checkers_folder(tmp_path: Path) -> None:
    (tmp_path / "checkers").mkdir()
    (tmp_path / "checkers" / "__init__.py").write_text("raise SystemError('the wrong package')")
    for seed in range(3):
        for name, table in parted(busy(seed), 2):
            pq.write_table(table, tmp_path / f"{name}.parquet")
            (tmp_path / f"run-{seed}").mkdir(exist_ok=True)
            pq.write_table(table, tmp_path / f"run-{seed}" / f"{name}.parquet")
    script = f"""
import sys
from pathlib import Path
from chaos.law import RunContext
from chaos.judging.engine import RunInput, Session, judge
runs = [
    RunInput(
        context=RunContext(run=str(n), seed=n, meta={{"deployment": "sim", "brokers": {list(BROKERS)!r}}}),
        shards=sorted(Path({str(tmp_path)!r}, f"run-{{n}}").glob("*.parquet")),
    )
    for n in range(3)
]
with Session() as session:
    spark = judge(runs, engine="spark", session=session)
assert spark == judge(runs, engine="local")
print(len(spark))
"""
    root = Path(_engine.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3"]
