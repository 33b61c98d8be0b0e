"""Run directories are made once, written in single steps, and hold the rows by queue."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from chaos.errors import BadInput, DamagedHistory, MachineError
from chaos.history import directory as store
from chaos.history.recorder import Recorder, read_rows
from chaos.verdict import Anomaly, AnomalyName, LawName, RunVerdict, Validity, Verdict


def a_verdict(run: str, validity: Validity = Validity.VALID) -> RunVerdict:
    lost = Anomaly(law=LawName.DURABILITY, name=AnomalyName.LOST, explanation="gone", rows=(3, 5), count=4)
    lawful = Anomaly(law=LawName.DURABILITY, name=AnomalyName.REDELIVERY, explanation="twice", count=9)
    law = Verdict(law=LawName.DURABILITY, validity=validity, anomalies=(lost, lawful), counts={"acked": 8})
    return RunVerdict(run=run, seed=3, validity=validity, laws=[law], digest="ab", engine="local", seconds=0.5)


def test_no_run_takes_the_place_of_another(tmp_path):
    made = {store.new_run(tmp_path, "quick", 7) for _ in range(5)}
    assert len(made) == 5 and all(run.name.startswith("quick-7-") for run in made)


def test_a_parent_that_is_a_file_is_one_clear_error(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(MachineError, match="cannot make a run directory"):
        store.new_run(tmp_path / "runs", "quick", 1)


def test_a_verdict_comes_back_with_violations_counted_and_lawful_findings_not(tmp_path):
    store.write_verdict(tmp_path, a_verdict("r", Validity.INVALID))
    told = store.read_verdict(tmp_path)
    assert told["verdict"] == "INVALID" and told["anomalies"] == {"lost": 4}
    assert told["laws"][0]["anomalies"][0] == {
        "law": "durability",
        "name": "lost",
        "explanation": "gone",
        "rows": [3, 5],
        "queue": -1,
        "offset": -1,
        "message": -1,
        "count": 4,
    }
    assert not list(tmp_path.glob("*.new"))


def test_what_is_no_run_or_not_judged_is_said_so(tmp_path):
    with pytest.raises(BadInput, match="no run directory"):
        store.read_meta(tmp_path)
    with pytest.raises(BadInput, match="not judged yet"):
        store.read_verdict(tmp_path)
    (tmp_path / store.META).write_text('{"seed": ')
    with pytest.raises(DamagedHistory):
        store.read_meta(tmp_path)


def test_latest_is_the_run_that_was_written_last(tmp_path):
    with pytest.raises(BadInput, match="no run"):
        store.resolve("latest", tmp_path)
    for seed in range(3):
        store.write_meta(store.new_run(tmp_path, "a", seed), {"seed": seed})
    assert store.read_meta(store.resolve("latest", tmp_path))["seed"] == 2
    with pytest.raises(BadInput, match="nowhere"):
        store.resolve("nowhere", tmp_path)


def test_clean_keeps_failed_and_running_runs(tmp_path):
    for name, state, validity in (
        ("valid", "finished", Validity.VALID),
        ("invalid", "finished", Validity.INVALID),
        ("unjudged", "finished", None),
        ("running", "running", None),
        ("up", "up", None),
    ):
        run = tmp_path / name
        run.mkdir()
        store.write_meta(run, {"state": state, "pid": os.getpid()})
        if validity:
            store.write_verdict(run, a_verdict(name, validity))
    assert [run.name for run in store.clean(tmp_path, keep_failed=True)] == ["valid"]
    store.clean(tmp_path, keep_failed=False)
    assert sorted(run.name for run in store.runs(tmp_path)) == ["running", "up"]


def test_clean_takes_a_run_whose_harness_is_dead(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for name, meta in (("killed", {"state": "running", "pid": dead.pid}), ("old", {"state": "running"})):
        (tmp_path / name).mkdir()
        store.write_meta(tmp_path / name, meta)
    assert len(store.clean(tmp_path, keep_failed=False)) == 2


def test_trimming_keeps_what_the_run_is_and_what_was_found(tmp_path):
    store.write_meta(tmp_path, {})
    store.write_verdict(tmp_path, a_verdict("r"))
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "all-0.parquet").write_text("x")
    (tmp_path / "history.arrows").write_text("x")
    store.trim(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "verdict.json"]


def mixed_history(directory, sends: int):
    recorder = Recorder(directory, lambda: 1, batch_rows=50_000, batch_ns=None)
    recorder.record("harness", f="phase", value={"phase": "load"})
    recorder.record_trace({"node": "broker-0", "f": "role", "epoch": 1, "value": {"role": "master"}})
    recorder.record_trace({"node": "broker-0", "f": "synced", "position": 9})
    recorder.record_trace({"node": "store-0", "f": "store_cas", "queue": 1})
    for number in range(sends):
        recorder.record("op", type="invoke", f="send", queue=number % 4)
    recorder.record("fault", type="invoke", f="kill")
    recorder.record("final", f="complete", node="broker-0")
    recorder.record("final", f="manifest", queue=2)
    recorder.close()
    return read_rows(directory)[0]


def test_a_small_run_is_one_shard(tmp_path):
    table = mixed_history(tmp_path, 50)
    assert [path.name for path in store.write_shards(tmp_path, table)] == ["all-0.parquet"]
    (tmp_path / "history.arrows").unlink()
    again, damage = read_rows(tmp_path)
    assert again.num_rows == table.num_rows and damage == []


def test_a_large_run_is_sharded_by_queue_and_each_shard_has_what_all_laws_need(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "SINGLE_SHARD_ROWS", 100)
    monkeypatch.setattr(store, "SHARD_ROWS", 120)
    table = mixed_history(tmp_path, 400)
    paths = store.write_shards(tmp_path, table)
    assert [path.name for path in paths] == [
        "control.parquet",
        "queue-0.parquet",
        "queue-1.parquet",
        "queue-2.parquet",
        "queue-3.parquet",
    ]
    import pyarrow.parquet as pq

    shards = {path.stem: pq.read_table(path) for path in paths}
    for number in range(4):
        shard = shards[f"queue-{number}"]
        assert {queue for queue in shard["queue"].to_pylist() if queue >= 0} == {number}
        assert {"phase", "role", "kill", "complete"} <= set(shard["f"].to_pylist())
        assert "synced" not in shard["f"].to_pylist()
        assert np.all(np.diff(shard["index"].to_numpy()) > 0)
    control = set(shards["control"]["f"].to_pylist())
    assert control == {"phase", "role", "synced", "store_cas", "kill", "complete", "manifest"}
    (tmp_path / "history.arrows").unlink()
    assert read_rows(tmp_path)[0].num_rows == table.num_rows  # repeated rows come once


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "all-0.parquet").write_text("no parquet")
    with pytest.raises(DamagedHistory, match=r"all-0\.parquet"):
        read_rows(tmp_path)


def test_json_files_are_replaced_in_one_step(tmp_path):
    path = tmp_path / "run.json"
    store.write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        store.write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
