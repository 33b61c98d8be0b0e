"""A run that takes a fifth of a second: one partition of the master, one queue, four simulated seconds."""

from __future__ import annotations

from pathlib import Path

from stormproof import scenario_run
from stormproof.scenarios import Scenario, ScenarioRun

EXPERIMENT = """\
name: small
system:
  reference: {tier: false, queues: 1, nameservers: 1, broker_options: {linger_ms: 0}}
duration: 4s
workloads:
  - queue: {producers: 1, consumers: 1, rate_per_s: 20}
faults:
  - partition: {shape: isolate, target: master}
    at: 1s
    for: 2s
"""
#: A planted bug that this run shows with seed 0: the old master answers reads beyond what is confirmed.
BUG, LAW, ANOMALY = "dispatch-past-confirm", "no-rollback", "max-offset-regression"


def planted(folder: Path) -> ScenarioRun:
    """The run with the bug, in a directory below ``folder``."""
    file = folder / "small.yaml"
    file.write_text(EXPERIMENT)
    asked = Scenario(file=file, on="sim", seeds=(0,), mutant=BUG)
    return scenario_run.execute(asked, file, 0, folder, folder / "lock")
