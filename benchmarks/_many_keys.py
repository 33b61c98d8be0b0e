"""A million registers with ten operations each, judged on Spark: the rows of a key lie scattered over all files."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import _histories
from benchmarks._common import Figure
from chaos.judging.spark import Session
from checkers.linearizable import check_keys

KEYS = 1_000_000
OPERATIONS = 10
TEMPLATES = 1_000
FILES = 8
AIM_PER_S = 1_000_000


def measure(rounds: int) -> list[Figure]:
    """Operations a second, the first time and the best of the following ones; wrong verdicts end the benchmark."""
    with tempfile.TemporaryDirectory(prefix="stormproof-keys-") as folder:
        paths = _write(Path(folder))
        seconds = []
        with Session(full_speed=True) as session:
            session.wait()
            for _ in range(rounds + 1):
                began = time.perf_counter()
                verdict = check_keys(session, paths, "register", init=0)
                seconds.append(time.perf_counter() - began)
                expected = {"keys": KEYS, "operations": KEYS * OPERATIONS, "valid": KEYS, "invalid": 0, "undecided": 0}
                if dict(verdict.counts) != expected:
                    raise AssertionError(f"expected {expected}, got {dict(verdict.counts)} ({verdict.why})")
    count = KEYS * OPERATIONS
    return [
        Figure(name="spark-keys.operations", value=count, unit=""),
        Figure(name="spark-keys.cold", value=round(count / seconds[0]), unit="/s", more_is_better=True),
        Figure(
            name="spark-keys.warm", value=round(count / min(seconds[1:])), unit="/s", aim=AIM_PER_S, more_is_better=True
        ),
    ]


def _write(folder: Path) -> list[Path]:
    """Histories of three clients, a thousand different ones, each under a thousand keys; rows in order of time."""
    rng = Random(4)
    columns: dict[str, list[int | None]] = {name: [] for name in ("process", "f", "value", "call", "ret")}
    for number in range(TEMPLATES):
        choose = _histories.register_calls(rng, 5, cas=False)
        made = _histories.record(
            f"{number}", "register", rng, clients=3, calls=OPERATIONS, choose=choose, apply=_histories.register("0")
        )
        for operation in made.operations:
            value = operation.arguments[0]
            columns["process"].append(int(operation.process))
            columns["f"].append(int(operation.f))
            columns["value"].append(int(str(value)))
            columns["call"].append(operation.call)
            columns["ret"].append(operation.ret)
    template = {name: np.array(column, dtype=float) for name, column in columns.items()}
    keys = np.repeat(np.arange(KEYS, dtype=np.int64), OPERATIONS)
    paths = []
    for part in range(FILES):
        rows = np.arange(part, KEYS * OPERATIONS, FILES)
        rows = rows[np.argsort(template["call"][rows % (TEMPLATES * OPERATIONS)], kind="stable")]
        at = rows % (TEMPLATES * OPERATIONS)
        table = {"key": pa.array(keys[rows])}
        for name, kind in (
            ("process", pa.int32()),
            ("f", pa.int8()),
            *((n, pa.int64()) for n in ("value", "call", "ret")),
        ):
            column = template[name][at]
            table[name] = pa.array(np.nan_to_num(column).astype(np.int64), kind, mask=np.isnan(column))
        path = folder / f"part-{part}.parquet"
        pq.write_table(pa.table(table), path, compression="zstd")
        paths.append(path)
    return paths
