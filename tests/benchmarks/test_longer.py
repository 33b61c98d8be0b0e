"""A long run that is made of a short one is a run like any other: its laws count what all copies did."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.longer.__main__ import Longer
from chaos.history.directory import runs

SHORT = """
name: steady
system:
  reference: {queues: 2}
duration: 3s
workloads:
  - queue: {producers: 4, consumers: 2, rate_per_s: 60, commit_s: 1}
  - tier_read: {readers: 1, rate_per_s: 2}
"""
COPIES = 3


def stormproof(*words: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "stormproof", *words], capture_output=True, check=True)


def laws(run: Path) -> dict[str, Any]:
    return {one["law"]: one for one in json.loads((run / "verdict.json").read_text())["laws"]}


@pytest.mark.full
def test_three_copies_of_a_run_are_valid_and_hold_three_times_as_much(tmp_path: Path) -> None:
    experiment = tmp_path / "short.yaml"
    experiment.write_text(SHORT)
    stormproof("run", experiment, "--on", "process", "--seed", "1", "--engine", "local", "--out", tmp_path / "runs")
    (short,) = runs(tmp_path / "runs")
    longer = tmp_path / "longer"
    Longer(short).write(longer, COPIES)
    stormproof("check", longer, "--engine", "local")
    before, after = laws(short), laws(longer)
    assert {name: one["validity"] for name, one in after.items()} == {
        name: one["validity"] for name, one in before.items()
    }
    assert before["tier-continuity"]["validity"] == after["durability"]["validity"] == "VALID"
    for law, count in (("availability", "acked"), ("durability", "acked"), ("tier-continuity", "tiered_records")):
        assert after[law]["counts"][count] == COPIES * before[law]["counts"][count] > 0
