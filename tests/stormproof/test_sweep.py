"""The correct system keeps its promises on every seed of the quickstart, judged in one Spark job."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEEDS = range(15)
TIMEOUT_S = 40 * 60


@pytest.mark.full
@pytest.mark.spark
def test_the_quickstart_is_valid_on_every_seed(tmp_path: Path) -> None:
    words = ["run", "examples/start/quickstart.yaml", "--on", "sim", "--seeds", f"{SEEDS[0]}..{SEEDS[-1]}"]
    done = subprocess.run(
        [sys.executable, "-m", "stormproof", *words, "--engine", "spark", "--json", "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    found = {run["seed"]: run["verdict"] for run in json.loads(done.stdout)}
    assert {seed: verdict for seed, verdict in found.items() if verdict != "VALID"} == {}
    assert list(found) == list(SEEDS)
    assert done.returncode == 0, done.stderr[-3000:]
