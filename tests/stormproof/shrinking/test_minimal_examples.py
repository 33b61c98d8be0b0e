"""The experiments in ``examples/minimal`` fail as their heads say, and give the history whose digest stands there.

The digest changes with the simulated system; ``STORMPROOF_REWRITE=1`` writes the new one into the file.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from stormproof.shrinking.trial import Trial, try_out
from tests.reference.golden import REWRITE

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "examples" / "minimal").glob("*.yaml"))
#: Whatever the order of sets, the history is the same.
HASH_SEEDS = range(20)


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
    asked, trial = told(file), tried(file, tmp_path)
    assert any(one.law == asked.law and set(one.anomalies) >= asked.anomalies for one in trial.failures), trial


@pytest.mark.full
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_gives_the_same_history_in_every_process(file: Path, tmp_path: Path) -> None:
    asked = told(file)
    if os.environ.get(REWRITE):
        file.write_text(file.read_text("utf-8").replace(asked.digest, tried(file, tmp_path).digest), "utf-8")
        asked = told(file)
    code = (
        "import sys; from pathlib import Path; from stormproof.shrinking.trial import try_out;"
        "print(try_out(Path(sys.argv[1]).read_text(), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])).digest)"
    )
    for seed in HASH_SEEDS:
        words = [sys.executable, "-c", code, str(file), str(asked.seed), asked.mutant, str(tmp_path / str(seed))]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == asked.digest


def test_each_has_a_picture_in_the_docs() -> None:
    page = (ROOT / "docs" / "shrink.md").read_text("utf-8")
    assert FILES
    for file in FILES:
        assert f"examples/minimal/{file.name}" in page and f"(minimal/{told(file).mutant}.svg)" in page
