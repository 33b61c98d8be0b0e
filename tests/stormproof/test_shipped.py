"""Experiments by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.experiment.reader import load
from reference.mutants import MUTANTS
from stormproof import cli
from stormproof.shipped import experiments, of_reference

ROOT = Path(__file__).parents[2]


def test_every_file_has_one_name() -> None:
    files = [*ROOT.glob("examples/*/**/*.yaml"), *ROOT.glob("tests/scenarios/**/*.yaml")]
    assert sorted(path.resolve() for path in experiments().values()) == sorted(files)
    assert experiments() == experiments(ROOT) and [*experiments()] == sorted(experiments())
    assert {"quickstart", "etcd/crashes", "minimal/append_twice"} <= {*experiments()}


def test_those_for_the_reference_system_are_for_it() -> None:
    for name in ("quickstart", "unreplicated_tail"):
        assert type(load(of_reference()[name], deployment="sim").system.build()).__module__.startswith(
            "drivers.reference"
        )
    assert not any("/" in name for name in of_reference())


def test_planted_bugs_name_scenarios_that_come_along() -> None:
    assert {planted.scenario or "quickstart" for planted in MUTANTS} <= {*of_reference()}


def test_examples_begin_with_what_one_learns() -> None:
    for path in ROOT.glob("examples/*/**/*.yaml"):
        assert path.read_text("utf-8").startswith("# "), path


def test_an_experiment_is_run_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "idle_bootstrap", "--on", "sim", "--engine", "local", "--json", "--out", str(tmp_path)]
    assert cli._run(words) == 0
    assert "idle-bootstrap-0-" in json.loads(capsys.readouterr().out)["run"]


def test_a_file_of_that_name_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quickstart").write_text("name: mine\n", "utf-8")
    assert cli._run(["run", "quickstart", "--on", "sim"]) == 3
    assert "quickstart:" in capsys.readouterr().err


def test_a_name_that_nothing_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["run", "quikstart", "--on", "sim"]) == 3
    assert "quikstart" in capsys.readouterr().err


def test_the_list_says_what_each_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["list", "experiments", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in listed] == [*experiments()]
    assert all(one["summary"] and Path(one["file"]).is_file() for one in listed)
