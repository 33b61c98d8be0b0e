"""Every seed that was asked for has its object in the output, and what broke a promise is INVALID, never an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.errors import DeploymentError, MachineError
from stormproof import cli, launch, sweep

EXAMPLE = "examples/quickstart.yaml"


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli._run([str(word) for word in ("run", EXAMPLE, "--on", "sim", "--engine", "local", *words)])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_two_brokers_with_one_id_are_invalid_though_the_cluster_never_got_ready(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = call(capsys, "--seed", 1, "--mutant", "id-given-twice", "--json", "--out", tmp_path)
    told = json.loads(out)
    assert (code, told["verdict"], told["seed"]) == (1, "INVALID", 1)
    assert told["anomalies"]["duplicate-id"] >= 1
    assert "the cluster was not ready" in "; ".join(told["why"])
    assert err.splitlines()[-1].startswith("stormproof run")
    laws = json.loads((Path(told["run"]) / "verdict.json").read_text())["laws"]
    (law,) = (law for law in laws if law["law"] == "roles")
    assert any("are both broker 1 of their group" in one["explanation"] for one in law["anomalies"])
    swept = sweep._run_one(_launch(tmp_path), True)
    assert swept.prepared is not None
    assert "the cluster was not ready" in swept.error


def _launch(out: Path) -> sweep.Launch:
    from chaos.experiment.reader import load

    mutant = "id-given-twice"
    experiment = load(Path(EXAMPLE), deployment="sim", mutant=mutant)
    return sweep.Launch(experiment=experiment, file=Path(EXAMPLE), deployment="sim", seed=2, mutant=mutant, out=out)


def test_a_run_that_could_not_go_on_and_broke_nothing_is_an_error_with_an_object(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(what: sweep.Launch, follow: object, begun: object, row: object) -> Path:
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


@pytest.mark.parametrize("dies", [False, True])
def test_every_seed_has_its_object(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    def swept(*_: object, **__: object) -> Iterator[sweep.Swept]:
        yield sweep.Swept(seed=2, prepared=None, error="no port is free", directory=tmp_path / "two")
        if dies:
            raise MachineError("a worker process died")

    monkeypatch.setattr(sweep, "sweep", swept)
    code, out, err = call(capsys, "--seeds", "1..3", "--json", "--out", tmp_path)
    told = [(one["seed"], one["verdict"], one["why"]) for one in json.loads(out)]
    other = ("ERROR", ["a worker process died"]) if dies else ("NOT RUN", [])
    assert told == [(1, *other), (2, "ERROR", ["no port is free"]), (3, *other)]
    assert code == 3
    assert f"{3 if dies else 1} ERROR" in err
