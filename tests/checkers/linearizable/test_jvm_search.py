"""The searches of the JVM's checker against all orders of random small histories (``java/SearchTest.java``)."""

import subprocess
from pathlib import Path

import pytest

HISTORIES = 40_000


@pytest.mark.parametrize(("seed", "operations"), [(1, 8), pytest.param(2, 11, marks=pytest.mark.full)])
def test_both_searches_agree_with_trying_everything(classes: Path, seed: int, operations: int) -> None:
    """Verdicts, orders, longest branches and memory; in slices of one step; with budgets that refuse."""
    command = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", classes, "stormproof.search.SearchTest"]
    run = subprocess.run(
        [*command, str(HISTORIES), str(seed), str(operations)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(f"{HISTORIES} histories agree"), run.stdout
