"""Rows are parted as a plan says: all of a key together, some everywhere, and none is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.history import shards
from chaos.history.history import History
from chaos.history.parted import numbers
from chaos.history.parted.choosing import Chosen, Part
from chaos.history.recorder import Recorder

EVERYWHERE = (Chosen("harness"), Chosen("trace", ("role",)))
QUEUES = Part(
    "queue", "queue", own=(Chosen("op", ("send",)),), everywhere=(Chosen("harness"), Chosen("trace", ("role",)))
)
RUN = Part("run", "run", own=(Chosen("trace", ("synced",)), Chosen("op", queueless=True)))
PLAN = (QUEUES, RUN)


def mixed_history(directory: Path, sends: int) -> pa.Table:
    recorder = Recorder(directory, lambda: 1, batch_rows=50_000, batch_ns=None)
    recorder.record("harness", f="phase", value={"phase": "load"})
    recorder.record_trace({"node": "broker-0", "f": "role", "epoch": 1, "value": {"role": "master"}})
    recorder.record_trace({"node": "broker-0", "f": "synced", "position": 9})
    recorder.record("op", type="invoke", f="create", value={"object": "o"})
    for number in range(sends):
        value = {"group": f"g-{number % 3}"}
        recorder.record("op", type="invoke", f="send", queue=number % 4, node=f"broker-{number % 5}", value=value)
    recorder.record("final", f="manifest", queue=2)
    recorder.close()
    return History.open(directory).table


#: What keeps a run from being VALID whose stream is gone.
STANDS_IN = "history.arrows is missing; the shards that were made of it stand in for it"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SINGLE_SHARD_ROWS", 100)
    monkeypatch.setattr(shards, "SHARD_ROWS", 120)


def read(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def test_a_small_run_is_one_shard(tmp_path: Path) -> None:
    table = mixed_history(tmp_path, 50)
    assert [path.name for path in shards.write(tmp_path, table, PLAN)] == ["all-0.parquet"]
    (tmp_path / "history.arrows").unlink()
    again, damage = History.open(tmp_path).recorded()
    assert again.num_rows == table.num_rows and damage == [STANDS_IN]


def test_a_large_run_is_parted_as_the_plan_says_and_loses_nothing(tmp_path: Path) -> None:
    table = mixed_history(tmp_path, 400)
    paths = shards.write(tmp_path, table, PLAN)
    assert [path.stem for path in paths] == ["queue-0", "queue-1", "queue-2", "queue-3", "rest-0", "run-0"]
    for number, path in enumerate(paths[:4]):
        rows = read(path)
        assert {row["queue"] for row in rows if row["queue"] >= 0} == {number}
        assert {row["f"] for row in rows} == {"phase", "role", "send"}
        assert np.all(np.diff([row["index"] for row in rows]) > 0)
    assert {row["f"] for row in read(paths[4])} == {"manifest"}
    assert {row["f"] for row in read(paths[5])} == {"synced", "create"}
    (tmp_path / "history.arrows").unlink()
    again, damage = History.open(tmp_path).recorded()
    assert again.num_rows == table.num_rows and damage == [STANDS_IN]  # repeated rows come once


@pytest.mark.parametrize(("key", "of"), [("node", "node"), ("group", "value"), ("queue", "queue")])
def test_rows_of_one_key_stand_together(tmp_path: Path, key: str, of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_ROWS", 1)
    table = mixed_history(tmp_path, 400)
    seen: dict[object, set[str]] = {}
    parts = dict(shards.parts(table, (Part("k", key, own=(Chosen("op"),)),)))
    for name, rows in parts.items():
        for row in rows.to_pylist():
            if row["kind"] == "op":
                seen.setdefault(row[of], set()).add(name)
    assert len(parts) > 2 and all(len(names) == 1 for names in seen.values())


@pytest.mark.parametrize("seed", range(30))
def test_wanted_numbers_are_found_in_any_block(seed: int) -> None:
    rng = np.random.default_rng(seed)
    index = rng.choice(60, int(rng.integers(0, 20)), replace=bool(seed % 3 == 0))
    index = np.sort(index) if seed % 2 else index
    wanted = np.unique(rng.integers(0, 60, int(rng.integers(0, 30))))
    assert numbers.wanted(index, wanted).tolist() == [one in wanted for one in index.tolist()]
