"""An experiment that says itself which run it repeats: where, with which seed, with which planted bug."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.history import directory
from stormproof import cli
from tests.stormproof.small_runs import EXPERIMENT


def ran(folder: Path, *words: str) -> dict[str, object]:
    """What ``run.json`` says of the run that the file and these words make."""
    cli._run(["run", str(folder / "small.yaml"), "--out", str(folder / "runs"), "--json", *words])
    return dict(directory.read_meta(directory.runs(folder / "runs")[-1]).json)


def test_a_file_runs_as_it_says_and_options_win(tmp_path: Path) -> None:
    said = "replay: {on: sim, seed: 5, bug: ack-before-replication}\n"
    (tmp_path / "small.yaml").write_text(EXPERIMENT + said)
    meta = ran(tmp_path)
    assert (meta["deployment"], meta["seed"], meta["mutant"]) == ("sim", 5, "ack-before-replication")
    meta = ran(tmp_path, "--seed", "0", "--bug", "")
    assert (meta["deployment"], meta["seed"], meta["mutant"]) == ("sim", 0, "")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("{on: ssh}", "replay: on: unknown deployment for a replay 'ssh'; known: process, sim"),
        ("{on: simm}", "did you mean 'sim'?"),
        ("{seed: -1}", "replay: seed: expected 0 to 9223372036854775807, got -1"),
        ("{seed: x}", "replay: seed: expected an integer"),
        ("{bug: nosuch}", "unknown planted bug 'nosuch'"),
        ("{mutant: x}", "replay: unknown key 'mutant'"),
    ],
)
def test_a_mistake_in_it_is_reported_with_its_line(
    said: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.yaml").write_text(f"{EXPERIMENT}replay: {said}\n")
    assert cli._run(["run", str(tmp_path / "small.yaml"), "--out", str(tmp_path / "runs")]) == 3
    out, err = capsys.readouterr()
    assert out == "" and why in err, err
    assert "bug: nosuch" in said.replace("{", "") or ".yaml:" in err
    assert not (tmp_path / "runs").exists()
