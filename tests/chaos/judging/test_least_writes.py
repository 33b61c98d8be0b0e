"""A run in which hardly anything was acknowledged is UNKNOWN, however well that was kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.experiment.reader import load
from chaos.history.directory import read_meta
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run
from chaos.verdict import Engine
from stormproof.launch import SIM, Launch, start

EXPERIMENT = """
name: few
system:
  reference: {brokers: 3, queues: 1, tier: false}
duration: 10s
workloads:
  - queue: {producers: 2, consumers: 1, rate_per_s: 20}
faults:
  - kill: {target: all}
    at: 100ms
    for: 9900ms
"""


@pytest.mark.parametrize(("more", "least", "unknown"), [("", 20, True), ("min_acked: 1\n", 1, False)])
def test_fewer_than_a_tenth_of_what_was_to_be_sent_show_nothing_unless_the_experiment_says_so(
    tmp_path: Path, more: str, least: int, unknown: bool
) -> None:
    file = tmp_path / "few.yaml"
    file.write_text(EXPERIMENT.lstrip() + more)
    run = start(
        Launch(experiment=load(file, deployment=SIM), file=file, deployment=SIM, seed=1, mutant="", out=tmp_path)
    )
    assert read_meta(run).min_acked == least
    (verdict,) = judge([examine_run(run)], engine=Engine.LOCAL)
    said = [why for why in verdict.why if why.endswith(f"acknowledged, and {least} are the least that show anything")]
    assert bool(said) == unknown
