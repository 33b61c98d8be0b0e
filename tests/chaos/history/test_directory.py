"""Run directories are made once, written in single steps, and hold the rows by queue."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from chaos.errors import BadInput, DamagedHistory, MachineError
from chaos.history import directory as store
from chaos.history.history import History
from chaos.history.verdict_json import verdict_json
from chaos.verdict import Anomaly, RunVerdict, Validity, Verdict
from tests.checkers.names import A, L


def a_verdict(run: str, validity: Validity = Validity.VALID) -> RunVerdict:
    lost = Anomaly(law=L.DURABILITY, name=A.LOST, explanation="gone", rows=(3, 5), count=4)
    lawful = Anomaly(law=L.DURABILITY, name=A.REDELIVERY, explanation="twice", count=9, lawful=True)
    law = Verdict(law=L.DURABILITY, validity=validity, anomalies=(lost, lawful), counts={"acked": 8})
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
    written = json.loads((tmp_path / store.VERDICT).read_text())
    assert json.loads(json.dumps(verdict_json(store.read_verdict(tmp_path)))) == written
    assert written["verdict"] == "INVALID" and written["anomalies"] == {"lost": 4}
    assert written["laws"][0]["anomalies"][0] == {
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
    with pytest.raises(BadInput, match="not a run directory"):
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
    assert store.read_meta(store.resolve("latest", tmp_path)).json["seed"] == 2
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


def test_clean_leaves_links_and_goes_on(tmp_path):
    """A link among the runs ended `clean` with an error, and all runs after it stayed."""
    for name in ("a", "elsewhere", "z"):
        (tmp_path / name / "run").mkdir(parents=True)
        store.write_meta(tmp_path / name / "run", {"state": "finished"})
    (tmp_path / "a" / "link").symlink_to(tmp_path / "elsewhere" / "run")
    (tmp_path / "z" / "run").rename(tmp_path / "a" / "zz")
    assert [run.name for run in store.clean(tmp_path / "a", keep_failed=False)] == ["run", "zz"]
    assert (tmp_path / "elsewhere" / "run" / "run.json").exists()


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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest", "run.json", "verdict.json"]


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "all-0.parquet").write_text("no parquet")
    store.seal(tmp_path)
    with pytest.raises(DamagedHistory, match=r"all-0\.parquet is no shard of a history"):
        History.open(tmp_path).recorded()


def test_json_files_are_replaced_in_one_step(tmp_path):
    path = tmp_path / "run.json"
    store.write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        store.write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
