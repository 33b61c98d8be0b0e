"""Runs from elsewhere, damaged or forged in any way: each command ends, with a sentence where it can't go on, writes
nothing anywhere else, and no damage makes a bad run a good one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

import pytest

from chaos.history.history import History
from chaos.verdict import Validity
from tests.stormproof import forged, hostile, strangers
from tests.stormproof.test_bent import broken, calm, check

#: So many inputs in `make test`, and in all.
FEW, MANY = 20, 1_500
#: Commands by how often each is tried.
OFTEN = (
    "check",
    "check",
    "check",
    "report",
    "rows",
    "explain",
    "finding",
    "summary",
    "diff",
    "export perfetto",
    "runs",
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A VALID run, an INVALID one of a few rows, and the same as another program would have recorded it."""
    folder = tmp_path_factory.mktemp("small")
    good = calm(folder)
    assert check(good).validity is Validity.VALID
    tiny, strange = broken(folder / "tiny"), folder / "strange"
    shutil.copytree(tiny, strange)
    strangers.recorded_again(strange)
    assert check(strange).validity is Validity.INVALID
    return {"good": good, "tiny": tiny, "strange": strange}


@pytest.fixture(scope="module")
def bases(small: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """And an INVALID one with all that a run may have."""
    return {**small, "bad": hostile.recorded(tmp_path_factory.mktemp("bad"))}


def files(run: Path) -> list[str]:
    made = ("report.html", "junit.xml", "perfetto.json", hostile.LOG)
    found = [str(path.relative_to(run)) for path in sorted(run.rglob("*")) if path.is_file()]
    return [name for name in found if name not in made]


def try_one(seed: int, bases: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = Random(seed)
    home = tmp_path / "home"
    shutil.rmtree(home, ignore_errors=True)
    kind = rng.choice(sorted(bases))
    run = home / "runs" / "run"
    shutil.copytree(bases[kind], run)
    (home / "outside").mkdir()
    is_forged = rng.random() < 0.5
    if is_forged:
        forged.forge(rng, run, files(run), History.open(bases[kind]).table)
    else:
        forged.damage(rng, run, files(run))
    what = rng.choice(OFTEN)
    code, printed = hostile.call(
        capsys, hostile.commands(run, bases["good"], home / "new")[what], f"seed {seed}: {kind}, {is_forged=}"
    )
    where = (seed, kind, is_forged, what, code, printed)
    assert {path.name for path in home.iterdir()} <= {"runs", "outside", "new"}, where
    assert os.listdir(home / "runs") == ["run"] and not os.listdir(home / "outside"), where
    if what == "check" and not is_forged:
        assert code in ((0, 2, 3) if kind == "good" else (1, 2, 3)), where
    elif what != "check":
        assert code in (0, 3), where


def test_any_run_is_read_to_an_end(small: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(FEW):
        try_one(seed, small, tmp_path, capsys)


@pytest.mark.full
@pytest.mark.parametrize("part", range(12))
def test_many_runs_are_read_to_an_end(
    bases: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], part: int
) -> None:
    for seed in range(part, MANY, 12):
        try_one(seed, bases, tmp_path, capsys)
