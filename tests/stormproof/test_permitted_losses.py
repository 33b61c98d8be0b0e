"""A system that loses what its profile permits is never told as an unqualified success, and ``--no-loss-by-policy``
makes it INVALID: on the command line, in files, in tests, in sweeps and in matrices."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chaos.history.directory import read_meta, read_verdict
from chaos.judging import class_archive
from stormproof import cli, scenario_run
from stormproof.scenarios import Scenario

#: A master acknowledges what it alone has, is cut off, and another one is elected.
LOSSY = """\
name: lossy
system:
  reference: {queues: 1, tier: false}
profile: {acks: master, min_in_sync: 1}
duration: 6s
workloads:
  - queue: {producers: 2, consumers: 1, rate_per_s: 40}
faults:
  - partition: {shape: halves, target: master}
    at: 1500ms
    for: 3s
"""
LOST = re.compile(r"^✓ VALID; ([\d,]+) lost, as .*allows.*  lossy, seed 1, sim$", re.MULTILINE)
MATRIX = """\
name: small
on: sim
runs: 1
rows:
  - experiments: [lossy.yaml]
columns:
  - {name: one, system: reference}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds the experiment, and in ``runs`` one run of it, whose directory is ``latest``."""
    made = tmp_path_factory.mktemp("lossy")
    (made / "lossy.yaml").write_text(LOSSY)
    assert call(made, "run", str(made / "lossy.yaml"), "--on", "sim", "--seed", "1", "--engine", "local") == 0
    return made


def call(folder: Path, *words: str) -> int:
    return cli._run([*words, "--out", str(folder / "runs")])


def last(folder: Path) -> Path:
    return max((folder / "runs").glob("lossy-1-*"), key=lambda run: run.stat().st_mtime_ns)


def numbers(run: Path) -> int:
    """How many messages the verdict says were lost by policy."""
    return sum(one.count for one in read_verdict(run).permitted)


def test_the_run_says_which_profile_holds_and_what_was_lost(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = folder / "lossy.yaml"
    assert call(folder, "run", str(file), "--on", "sim", "--seed", "1", "--engine", "local", "-v") == 0
    told = capfd.readouterr()
    assert f"profile: flush: sync, acks: master, min_in_sync: 1 ({file}:4)" in told.err
    line, run = LOST.search(told.out), last(folder)
    assert line and int(line[1].replace(",", "")) == numbers(run) > 20
    law = next(one for one in told.out.splitlines() if one.startswith("durability"))
    assert re.search(rf"VALID +{line[1]} lost, as ", law)
    assert read_meta(run).json["profile_from"] == {"by": "experiment", "line": 4}
    assert f"<title>✓ {line[1]} lost, as the profile permits: " in (run / "report.html").read_text("utf-8")
    case = ElementTree.parse(run / "junit.xml").find(".//testcase[@name='run']/system-out")
    assert case is not None and str(case.text).startswith(f"VALID; {line[1]} lost, as ")
    assert cli._run(["runs", str(folder / "runs")]) == 0
    assert f"VALID    {line[1]} lost, as " in capfd.readouterr().out
    assert call(folder, "summary") == 0
    assert re.match(r"## Stormproof: \d VALID \(\d of them with losses by policy\)\n", capfd.readouterr().out)


def test_no_loss_by_policy_is_remembered_by_the_run(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--on", "sim", "--seed", "1", "--engine", "local", "--no-loss-by-policy", "--json"]
    assert call(folder, "run", str(folder / "lossy.yaml"), *words) == 1
    told, run = json.loads(capfd.readouterr().out), last(folder)
    assert (told["verdict"], told["no_loss_by_policy"]) == ("INVALID", True)
    assert re.search(r"`acks: master` allows at [^;]*; --no-loss-by-policy forbids it$", told["line"])
    assert told["anomalies"] == {"lost-by-policy": numbers(run)}
    assert read_meta(run).json["replay"].endswith("--no-loss-by-policy")
    for again in (["check", str(run), "--engine", "local"], ["replay", str(run), "--engine", "local"]):
        assert call(folder, *again) == 1
        assert "; --no-loss-by-policy forbids it  " in capfd.readouterr().out


def test_a_recorded_run_may_be_judged_so_too(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = min((folder / "runs").glob("lossy-1-*"))
    for words, code, verdict in ((["--no-loss-by-policy"], 1, "✕ INVALID; "), ([], 0, "✓ VALID; ")):
        assert call(folder, "check", str(run), "--engine", "local", *words) == code
        lines = capfd.readouterr().out.splitlines()
        assert any(line.startswith(verdict) for line in lines) and read_verdict(run).no_loss_by_policy == bool(code)


@pytest.mark.full  # in the short suite test_engine.py compares both engines
def test_spark_tells_the_same(folder: Path) -> None:
    class_archive.find_java()
    run = min((folder / "runs").glob("lossy-1-*"))
    found = []
    for engine in ("local", "spark"):
        assert call(folder, "check", str(run), "--engine", engine) == 0
        found.append(replace(read_verdict(run), engine="", seconds=0.0))
    assert found[0] == found[1]


@pytest.mark.full  # a matrix tells it in the short suite
def test_a_sweep_tells_how_many_of_its_valid_runs_lost_something(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = str(folder / "lossy.yaml")
    assert call(folder, "run", file, "--on", "sim", "--seeds", "1..2", "--engine", "local") == 0
    told = capfd.readouterr().out
    assert re.search(r"2 seeds: 2 VALID \(2 of them with [\d,]+ lost by policy\), 0 INVALID", told)
    page = Path(told.rpartition("page: ")[2].strip()).read_text("utf-8")
    assert re.search(r"<li><b>2</b>with [\d,]+ lost by policy</li>", page) and 'title="seed 1: VALID; ' in page
    assert call(folder, "sweep", file, "--seeds", "1..1", "--no-loss-by-policy") == 1
    told = capfd.readouterr()
    assert "1 INVALID" in told.out and "--no-loss-by-policy forbids; there is no other failure to keep" in told.err


def test_so_does_a_matrix(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    matrix = folder / "matrix.yaml"
    matrix.write_text(MATRIX)
    assert call(folder, "matrix", str(matrix)) == 0
    told = capfd.readouterr()
    assert re.search(r"[\d,]+ lost by policy in 1 of 1 runs", told.out) and "VALID; " in told.err
    assert call(folder, "matrix", str(matrix), "--table", "--no-loss-by-policy") == 1  # it was noted without
    matrix.write_text(MATRIX.replace("name: small", "name: strict"))
    assert call(folder, "matrix", str(matrix), "--no-loss-by-policy") == 1
    assert "INVALID; " in capfd.readouterr().err


def test_and_a_test(folder: Path) -> None:
    for forbidden, verdict in ((False, "VALID"), (True, "INVALID")):
        asked = Scenario(file=folder / "lossy.yaml", on="sim", seeds=(1,), no_loss_by_policy=forbidden)
        run = scenario_run.execute(asked, asked.file, 1, folder / f"tests-{forbidden}", folder / "lock")
        assert run.verdict.validity == verdict and scenario_run.is_expected(asked, run) is not forbidden
        laws = " (durability)" if forbidden else ""
        assert re.match(rf"{verdict}{re.escape(laws)}; [\d,]+ lost, as ", scenario_run.summary(run))
