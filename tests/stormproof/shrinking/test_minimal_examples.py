"""The experiments in ``examples/minimal`` fail as their heads say, and give the history whose digest stands there.

The digest changes with the simulated system; ``STORMPROOF_REWRITE=1`` writes the new one into the file.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.experiment.reader import replay_of
from stormproof.shrinking.trial import Trial, try_out
from tests.reference.golden import REWRITE

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "tests" / "scenarios" / "minimal").glob("*.yaml"))
#: Whatever the order of sets, the history is the same.
HASH_SEEDS = range(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the head of a file says."""

    law: str
    anomalies: set[str]
    seed: int
    mutant: str
    digest: str


def told(file: Path) -> Told:
    head = file.read_text("utf-8").partition("\n\n")[0]
    found = re.search(
        r"which breaks\n# (.+) \((\S+)\); cause: .+\n(?:.+\n)*# Seed (\d+), mutant (\S+), .+\n# (\w{64})", head
    )
    assert found, f"{file}: its head does not say what it is"
    anomalies, law, seed, mutant, digest = found.groups()
    return Told(law=law, anomalies=set(anomalies.split(", ")), seed=int(seed), mutant=mutant, digest=digest)


def tried(file: Path, folder: Path) -> Trial:
    asked = told(file)
    return try_out(file.read_text("utf-8"), asked.seed, asked.mutant, folder / "scratch")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_fails_as_its_head_says(file: Path, tmp_path: Path) -> None:
    asked, trial, said = told(file), tried(file, tmp_path), replay_of(file)
    assert (said.on, said.seed, said.bug) == ("sim", asked.seed, asked.mutant), "it runs again by itself"
    assert any(one.law == asked.law and set(one.anomalies) >= asked.anomalies for one in trial.failures), trial


#: Tries the files that it is given, in this order, and prints their digests.
REPLAY = """
import sys
from pathlib import Path
from stormproof.shrinking.trial import try_out
scratch, *asked = sys.argv[1:]
for file, seed, mutant in zip(asked[::3], asked[1::3], asked[2::3]):
    print(Path(file).name, try_out(Path(file).read_text("utf-8"), int(seed), mutant, Path(scratch)).digest)
"""


def replayed(files: Sequence[Path], hash_seed: int, folder: Path) -> dict[str, str]:
    """The digests of all files, each replayed in one new process."""
    asked = [word for file in files for word in (str(file), str(told(file).seed), told(file).mutant)]
    words = [sys.executable, "-c", REPLAY, str(folder / str(hash_seed)), *asked]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return dict(line.split() for line in done.stdout.splitlines())


@pytest.mark.full
def test_each_gives_the_same_history_in_eight_processes(tmp_path: Path) -> None:
    """Another file comes first in each, so that what runs before it does not matter either."""
    if os.environ.get(REWRITE):
        for file in FILES:
            file.write_text(file.read_text("utf-8").replace(told(file).digest, tried(file, tmp_path).digest), "utf-8")
    expected = {file.name: told(file).digest for file in FILES}
    for hash_seed in HASH_SEEDS:
        first = hash_seed % len(FILES)
        assert replayed([*FILES[first:], *FILES[:first]], hash_seed, tmp_path) == expected, hash_seed


def test_there_are_ten_of_different_laws() -> None:
    assert len(FILES) == 10
    assert len({told(file).law for file in FILES}) >= 6


def test_each_has_a_picture_in_the_docs() -> None:
    page = (ROOT / "docs" / "explain.md").read_text("utf-8")
    assert FILES
    for file in FILES:
        assert f"tests/scenarios/minimal/{file.name}" in page and f"(minimal/{told(file).mutant}.svg)" in page
