"""A VALID that never came where its promises are hard says so: goals in verdicts, in sweeps and in the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chaos.errors import BadInput
from chaos.experiment.reader import load
from reports.sweeps.row import Row, reached
from stormproof import cli
from stormproof.commands import _console
from stormproof.outcome import ExitCode, worst_code

STORM = """\
name: short
system:
  reference: {brokers: 2, queues: 1, tier: false, nameservers: 1, controllers: 1}
duration: 2s
workloads:
  - queue: {producers: 1, consumers: 1, rate_per_s: 20}
faults:
  - switch: {}
    at: 1s
reach: [group silent through a switch, replica damaged]
"""


def row(seed: int, **reached: int) -> Row:
    return Row(file=0, seed=seed, verdict="VALID", code=0, told={"reached": reached})


def test_an_unknown_goal_is_one_error_with_the_nearest_known_one(tmp_path: Path) -> None:
    file = tmp_path / "storm.yaml"
    file.write_text(STORM.replace("replica damaged", "replica_damaged"))
    assert load(file, deployment="sim").reach == ("group silent through a switch", "replica damaged")
    file.write_text(STORM.replace("replica damaged", "replica damagd"))
    with pytest.raises(BadInput) as caught:
        load(file, deployment="sim")
    assert str(caught.value) == f"{file}:10: reach: unknown goal 'replica damagd'; did you mean 'replica damaged'?"


def test_what_a_run_did_not_reach_stands_in_its_verdict(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "storm.yaml"
    file.write_text(STORM)
    words = ["run", str(file), "--on", "sim", "--engine", "local", "--out", str(tmp_path / "runs")]
    assert cli._run([*words, "--must-reach"]) == ExitCode.NOT_REACHED
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith("✓ VALID")
    assert "  not reached: group silent through a switch, replica damaged" in lines
    (run,) = (tmp_path / "runs").iterdir()
    assert "Not reached: group silent through a switch; replica damaged." in (run / "report.html").read_text("utf-8")
    properties = {one.get("name"): one.get("value") for one in ElementTree.parse(run / "junit.xml").iter("property")}
    assert properties["not reached"] == "group silent through a switch; replica damaged"
    assert cli._run(["check", str(run), "--engine", "local", "--json"]) == ExitCode.VALID, "VALID stays VALID"
    told = json.loads(capfd.readouterr().out)
    assert told["verdict"] == "VALID"
    assert told["reached"] == {"group silent through a switch": 0, "replica damaged": 0}
    assert told["not_reached"] == json.loads((run / "verdict.json").read_text("utf-8"))["not_reached"]


def test_a_sweep_tells_how_many_runs_reached_each_goal(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(0, often=3, never=0), row(1, often=1, never=0), row(2, often=0, never=0)]
    assert reached(rows) == {"often": 2, "never": 0}
    _console.show_sweep(rows, [], 3, _console.out())
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["often", "2", "of", "3"] in lines and ["never", "none", "of", "3"] in lines


def test_a_goal_that_none_reached_is_worse_than_unknown_and_better_than_an_error() -> None:
    codes = [ExitCode.VALID, ExitCode.UNKNOWN, ExitCode.NOT_REACHED]
    assert worst_code(codes) == ExitCode.NOT_REACHED
    assert worst_code([*codes, ExitCode.ERROR]) == ExitCode.ERROR
