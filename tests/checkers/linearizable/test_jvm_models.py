"""Models and polynomial algorithms of the JVM's checker against brute force (``java/Exhaustive``, ``ModelsTest``)."""

import re
import subprocess
from pathlib import Path

import pytest

from checkers.linearizable.models import MODELS


def run(classes: Path, main: str, *arguments: object) -> str:
    command = ["java", "-Xshare:auto", "-XX:+UseSerialGC", "-cp", classes, f"stormproof.{main}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def judged(output: str) -> dict[str, tuple[int, int]]:
    """Histories and linearizable ones among them, by model."""
    lines = re.findall(r"^(\S+): (\d+) histories of \d+ operations, (\d+) linearizable", output, re.MULTILINE)
    return {model: (int(histories), int(linearizable)) for model, histories, linearizable in lines}


@pytest.mark.full
def test_all_histories_of_three_operations(classes: Path) -> None:
    """States, shortcuts and the whole checker agree with trying all orders; each shortcut decides some of them."""
    output = run(classes, "Exhaustive", 3, 2, "States,Shortcuts,Checker")
    counts = judged(output)
    assert tuple(counts) == MODELS
    assert all(0 < linearizable < histories for histories, linearizable in counts.values()), output
    assert counts["cas-register"][0] > 10_000
    assert counts["mutex"][0] > 100


def test_random_histories_and_states(classes: Path) -> None:
    """Up to eight operations, other first states; each shortcut decides its share, and states read well."""
    assert "queue-order" in run(classes, "ModelsTest", 1, 2_000)


@pytest.mark.full
def test_many_random_histories(classes: Path) -> None:
    run(classes, "ModelsTest", 2, 100_000)


@pytest.mark.full
@pytest.mark.parametrize("model", MODELS[::3])
def test_all_histories_of_four_operations(classes: Path, model: str) -> None:
    """Of every third model, since each takes minutes; ``test_many_random_histories`` has longer ones of all."""
    counts = judged(run(classes, "Exhaustive", 4, 2, "States,Shortcuts,Checker", model))
    assert counts[model][0] > (1_000 if model == "mutex" else 10_000)


@pytest.mark.full
@pytest.mark.parametrize(
    ("model", "operations", "values"), [("mutex", 6, 1), ("fifo-queue", 5, 3), ("register", 5, 2), ("set", 4, 1)]
)
def test_all_longer_histories_of_small_models(classes: Path, model: str, operations: int, values: int) -> None:
    assert judged(run(classes, "Exhaustive", operations, values, "Shortcuts", model))[model][0] > 100_000
