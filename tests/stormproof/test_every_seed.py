"""Every seed that was asked for has its object in the output, and what broke a promise is INVALID, never an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from chaos.errors import DeploymentError, MachineError
from stormproof import cli, launch
from stormproof.campaign import local
from stormproof.campaign.campaign import OnDone, Task
from stormproof.launch import Launch

EXAMPLE = "examples/start/quickstart.yaml"


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli._run([str(word) for word in ("run", EXAMPLE, "--on", "sim", "--engine", "local", *words)])
    told = capsys.readouterr()
    return code, told.out, told.err


def _first(tasks: Sequence[Task], on_done: OnDone, **_: object) -> None:
    """The first task alone, in this process."""
    on_done(tasks[0].do())


def test_two_brokers_with_one_id_are_invalid_though_the_cluster_never_got_ready(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = call(capsys, "--seed", 1, "--bug", "id-given-twice", "--json", "--out", tmp_path)
    told = json.loads(out)
    assert (code, told["verdict"], told["seed"]) == (1, "INVALID", 1)
    assert told["anomalies"]["duplicate-id"] >= 1
    assert "the cluster was not ready" in "; ".join(told["why"])
    assert err.splitlines()[-1].startswith("stormproof run")
    laws = json.loads((Path(told["run"]) / "verdict.json").read_text())["laws"]
    (law,) = (law for law in laws if law["law"] == "roles")
    assert any("are both broker 1 of their group" in one["explanation"] for one in law["anomalies"])
    monkeypatch.setattr(local, "run", _first)
    code, out, _ = call(capsys, "--seeds", "2..2", "--bug", "id-given-twice", "--json", "--out", tmp_path / "many")
    (told,) = json.loads(out)
    assert (code, told["verdict"], told["seed"]) == (1, "INVALID", 2)
    assert "the cluster was not ready" in "; ".join(told["why"])


def test_a_run_that_could_not_go_on_and_broke_nothing_is_an_error_with_an_object(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(what: Launch, follow: object, begun: object, row: object) -> Path:
        run = tmp_path / "a-run"
        run.mkdir()
        begun(run)  # type: ignore[operator]
        raise DeploymentError("no port is free")

    monkeypatch.setattr(launch, "start", start)
    code, out, err = call(capsys, "--seed", 7, "--json", "--out", tmp_path)
    told = json.loads(out)
    assert (code, told["verdict"], told["seed"], told["why"]) == (3, "ERROR", 7, ["no port is free"])
    assert told["run"] == str(tmp_path / "a-run")
    assert "error: no port is free" in err


@pytest.mark.parametrize("full", [False, True])
def test_every_seed_has_its_object(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    def start(what: Launch, on_directory: Callable[[Path], None]) -> Path:
        on_directory(what.out)
        raise MachineError("the disk is full") if full else DeploymentError("no port is free")

    monkeypatch.setattr(launch, "start", start)
    monkeypatch.setattr(local, "run", _first)
    code, out, err = call(capsys, "--seeds", "1..2", "--json", "--out", tmp_path)
    why = "the disk is full" if full else "no port is free"
    told = [(one["seed"], one["verdict"], one["why"]) for one in json.loads(out)]
    assert told == [(1, "ERROR", [why]), (2, "NOT RUN", [])]
    assert code == 3 and "1 ERROR" in err
    assert ("stormproof sweep --resume" in err) == full
