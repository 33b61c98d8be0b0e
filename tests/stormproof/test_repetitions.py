"""A system that answers a repetition with the place of its first attempt is held to that place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stormproof.foreign import installed

ROOT = Path(__file__).parents[2]
EXPERIMENT = """\
name: repeating
system: {repeating: {places: PLACES}}
duration: 20s
workloads:
  - queue: {producers: 2, consumers: 1, rate_per_s: 20, retry: 1.0}
"""
BUG = ("--bug", "hollow-duplicate")

Run = Callable[..., tuple[str, dict[str, int], dict[str, int]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return the verdict of a run, how often each violation of durability was found, and what that law counted."""
    site = installed(tmp_path / "site")

    def started(*words: str, places: bool = True) -> tuple[str, dict[str, int], dict[str, int]]:
        (tmp_path / "storm.yaml").write_text(EXPERIMENT.replace("PLACES", json.dumps(places)))
        line = [sys.executable, "-P", "-m", "stormproof", "run", "storm.yaml", "--on", "sim", "--seed", "1", "--json"]
        environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
        done = subprocess.run(
            [*line, "--engine", "local", *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.stdout, done.stderr
        printed = json.loads(done.stdout)
        laws = json.loads((tmp_path / printed["run"] / "verdict.json").read_text("utf-8"))["laws"]
        [durability] = [law for law in laws if law["law"] == "durability"]
        found = {one["name"]: one["count"] for one in durability["anomalies"] if not one.get("lawful")}
        return printed["verdict"], found, durability["counts"]

    return started


def test_what_was_acknowledged_only_as_a_repetition_is_there(run: Run) -> None:
    verdict, found, counts = run()
    assert (verdict, found) == ("VALID", {}) and counts["unclear"] >= 10, counts


def test_a_repetition_of_what_was_never_kept_is_a_loss(run: Run) -> None:
    verdict, found, _ = run(*BUG)
    assert verdict == "INVALID" and set(found) == {"lost"}, found


def test_nothing_else_shows_that_it_was_never_kept(run: Run) -> None:
    """Without the place that the answer names, the outcome of each attempt is unknown, and nothing is owed."""
    assert run(*BUG, places=False)[:2] == ("VALID", {})
