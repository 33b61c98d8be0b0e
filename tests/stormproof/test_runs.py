"""``stormproof runs``: the table, and what programs read."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from reports.index.overview import RunLine
from stormproof import cli
from stormproof.commands.runs import _table
from tests.reports.index.test_index import judged, made

LINE = RunLine(
    directory=Path("runs/storm-3-20260102T030405"),
    verdict="INVALID",
    experiment="storm",
    deployment="sim",
    mutant="lossy",
    seed=3,
    started="2026-01-02T03:04:05+00:00",
    duration_s=20.0,
    violated=("durability", "order"),
)
WIDE = """\
run                      experiment     on   seed  started (UTC)     load  verdict  found
storm-3-20260102T030405  storm (lossy)  sim  3     2026-01-02 03:04  20 s  INVALID  durability, order
"""
NARROW = """\
run                      on   verdict  found
storm-3-20260102T030405  sim  INVALID  durability, order
"""


@pytest.mark.parametrize(("width", "golden"), [(120, WIDE), (60, NARROW)])
def test_the_table_fits_its_terminal(width: int, golden: str) -> None:
    console = Console(file=io.StringIO(), width=width)
    console.print(_table([LINE], wide=width > 100))
    told = console.file.getvalue()  # type: ignore[attr-defined]
    assert "".join(f"{line.rstrip()}\n" for line in told.splitlines()) == golden


def test_runs_are_printed_for_people_and_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from chaos.verdict import Validity

    judged(made(tmp_path, "a"), Validity.VALID)
    made(tmp_path, "b\x1b[31m", seed="no number")
    assert cli._run(["runs", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "DAMAGED" in out and "\x1b" not in out
    assert cli._run(["runs", str(tmp_path), "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["name"], first["verdict"], first["seed"], first["violated"]) == ("a", "VALID", 3, [])
    assert (second["verdict"], second["seed"]) == ("DAMAGED", None)
    assert cli._run(["runs", str(tmp_path), "--html"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/index.html\n"


def test_what_is_no_folder_of_runs_is_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["runs", str(tmp_path)]) == 0
    assert "there is no run" in capsys.readouterr().out
    assert cli._run(["runs", str(tmp_path / "none")]) == 3
    assert "is not a folder" in capsys.readouterr().err
    assert cli._run(["runs", str(tmp_path), "--json", "--html"]) == 3
