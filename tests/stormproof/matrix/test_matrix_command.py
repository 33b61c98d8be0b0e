"""``stormproof matrix`` runs what is left, notes each run when it was judged, and tells the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from chaos.errors import BadInput, DeploymentError
from chaos.history import directory
from reports.matrix.as_markdown import BEGIN, END
from reports.matrix.note import read
from stormproof import doctor, scenario_run
from stormproof.commands.matrix import matrix
from stormproof.matrix import campaign
from tests.stormproof.small_runs import EXPERIMENT

MATRIX = """\
name: little
runs: 2
rows:
  - experiments: [small.yaml]
columns:
  - {name: one, system: reference}
  - {name: etcd, system: etcd}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(EXPERIMENT)
    Path("matrix.yaml").write_text(MATRIX)
    return tmp_path


def command(*words: str) -> Result:
    return CliRunner().invoke(matrix, ["matrix.yaml", *words], catch_exceptions=False)


def test_a_matrix_is_run_once_and_told_ever_after(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("page.md").write_text(f"# A page\n\n{BEGIN}{END}\nthe end\n")
    first = command("--page", "page.md")
    assert first.exit_code == 0 and "2 of 2" in first.stdout and "etcd has no" in first.stdout
    notes = read(Path("runs/matrix-little/notes.jsonl"))
    assert [(one.row, one.column, one.seed, one.verdict, one.on) for one in notes] == [
        ("small", "one", 0, "VALID", "sim"),
        ("small", "one", 1, "VALID", "sim"),
    ]
    assert [one.fault for one in notes[0].outages] == ["partition master"] and notes[0].without_s
    assert 0.5 < notes[0].outages[0].without_s <= notes[0].without_s < 3
    page = Path("page.md").read_text()
    assert page.startswith("# A page\n") and page.endswith("the end\n") and "![verdicts" in page
    assert "(page/grid.svg)" in page and Path("page/grid.svg").read_text().startswith("<?xml")
    assert "| `small` | one | 2 | – |" in page and "| `small` | etcd | n/a |" in page
    kept = {path.name for path in Path("runs/matrix-little/runs").glob("small-0-*/*")}
    assert {"run.json", "verdict.json"} <= kept and "report.html" not in kept and "traces" not in kept

    monkeypatch.setattr(campaign, "execute", lambda *given: pytest.fail("it was run again"))
    again = command("--json")
    told = json.loads(again.stdout)
    assert again.exit_code == 0 and [len(cell["runs"]) for cell in told["cells"]] == [2, 0]
    assert told["cells"][0]["laws"]["durability"] == {"verdict": "VALID", "invalid": 0, "judged": 2}
    assert told["faults"]["partition master"]["one"]["count"] == 2


def test_ctrl_c_loses_no_judged_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def interrupted(scenario: Any, file: Path, seed: int, out: Path, lock: Path) -> Any:
        asked.append(seed)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return scenario_run.execute(scenario, file, seed, out, lock)

    monkeypatch.setattr(campaign, "execute", interrupted)
    first = command()
    assert first.exit_code == 3 and "go on with the same command" in first.stderr and "1 of 2" in first.stdout
    assert command().exit_code == 0 and asked == [0, 1, 1]


def test_a_run_that_could_not_be_carried_out_is_told_and_not_noted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(scenario: Any, file: Path, seed: int, out: Path, lock: Path) -> Any:
        if seed == 0:
            raise DeploymentError("broker-0 died in boot")
        return scenario_run.execute(scenario, file, seed, out, lock)

    monkeypatch.setattr(campaign, "execute", failing)
    done = command()
    assert done.exit_code == 3 and "small on one, seed 0: broker-0 died in boot" in done.stderr
    assert [one.seed for one in read(Path("runs/matrix-little/notes.jsonl"))] == [1]


def test_runs_that_were_made_otherwise_are_noted_once(folder: Path) -> None:
    asked = campaign.Scenario(file=Path("small.yaml"), on="sim", seeds=(7,))
    run = scenario_run.execute(asked, Path("small.yaml"), 7, folder / "elsewhere", folder / "lock").directory
    for _ in range(2):
        done = command("--record", str(run), "--notes", "own.jsonl")
        assert done.exit_code == 0 and "1 of 2" in done.stdout
        assert [(one.seed, one.run) for one in read(Path("own.jsonl"))] == [(7, run.name)]
    Path("small.yaml").write_text(EXPERIMENT.replace("rate_per_s: 20", "rate_per_s: 21"))
    told = command("--table", "--notes", "own.jsonl")
    assert told.exit_code == 2 and "1 notes are of experiments that have changed" in told.stdout
    with pytest.raises(BadInput, match="no cell of the matrix has its experiment"):
        command("--record", str(run), "--notes", "own.jsonl")


def test_an_interrupted_run_is_not_noted_afterwards(folder: Path) -> None:
    asked = campaign.Scenario(file=Path("small.yaml"), on="sim", seeds=(7,))
    run = scenario_run.execute(asked, Path("small.yaml"), 7, folder / "elsewhere", folder / "lock").directory
    directory.update_meta(run, summary={"interrupted": True})
    with pytest.raises(BadInput, match="it was interrupted"):
        command("--record", str(run))


def test_only_what_is_named_is_run(folder: Path) -> None:
    assert command("--column", "etcd").exit_code == 2
    with pytest.raises(BadInput, match=r"matrix\.yaml has no column 'eight'"):
        command("--column", "eight")
    done = command("--row", "small", "--runs", "1")
    assert done.exit_code == 0 and "1 of 2" in done.stdout


def test_broken_notes_are_one_sentence(folder: Path) -> None:
    Path("own.jsonl").write_text('{"row": "small"}\n')
    with pytest.raises(BadInput, match=r"own\.jsonl:1: this is not a note of a run"):
        command("--table", "--notes", "own.jsonl")


def test_a_deployment_that_this_machine_lacks_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "lacking", lambda on: "" if on == "sim" else "no engine")
    Path("matrix.yaml").write_text(MATRIX.replace("{name: etcd, system: etcd}", "{name: inside, on: docker}"))
    done = command("--runs", "1")
    assert done.exit_code == 3 and "error: --on docker: no engine (runs left: 1)" in done.stderr
    assert [one.column for one in read(Path("runs/matrix-little/notes.jsonl"))] == ["one"]


def test_a_system_that_is_not_installed_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "nowhere"))
    crashes = Path(__file__).parents[3] / "examples" / "systems" / "etcd" / "crashes.yaml"
    Path("matrix.yaml").write_text(
        "on: process\nruns: 2\nrows: [{experiments: [etcd.yaml]}]\ncolumns: [{name: here, on: process}]\n"
    )
    Path("etcd.yaml").write_text(crashes.read_text("utf-8"))
    done = command()
    assert done.exit_code == 3 and "error: etcd 3.5.17 is not installed here: `stormproof install" in done.stderr
    assert "(runs left: 2)" in done.stderr


def test_what_an_experiment_is_made_to_break_ends_with_0(folder: Path) -> None:
    text = EXPERIMENT.replace("duration: 4s", "duration: 4s\nmin_acked: 1000000")
    Path("small.yaml").write_text(text)
    assert command("--runs", "1", "--column", "one").exit_code == 2
    Path("small.yaml").write_text(EXPERIMENT + "violates: [durability]\n")
    assert command("--runs", "1", "--column", "one").exit_code == 1, "no run broke it"
