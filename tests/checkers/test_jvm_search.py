"""The searches of the JVM's checker against all orders of random small histories (``java/SearchTest.java``)."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HISTORIES = 40_000


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checker and the test, compiled."""
    assert shutil.which("javac"), "the checker on the JVM needs a JDK of at least version 17"
    out = tmp_path_factory.mktemp("classes")
    sources = sorted((ROOT / "checkers/linearizable/jvm/stormproof").glob("*.java"))
    test = Path(__file__).parent / "java/SearchTest.java"
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", out, *sources, test], check=True)
    return out


@pytest.mark.parametrize(("seed", "operations"), [(1, 8), (2, 11)])
def test_both_searches_agree_with_trying_everything(classes: Path, seed: int, operations: int) -> None:
    """Verdicts, orders, longest branches and memory; in slices of one step; with budgets that refuse."""
    command = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", classes, "stormproof.SearchTest"]
    run = subprocess.run(
        [*command, str(HISTORIES), str(seed), str(operations)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(f"{HISTORIES} histories agree"), run.stdout
