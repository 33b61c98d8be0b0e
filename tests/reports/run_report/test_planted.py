"""What the reports of planted bugs say: the stale master of the demo, and bugs that other laws find."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import reports
from benchmarks.mutants import EXPERIMENTS
from chaos.experiment.reader import load
from chaos.history.directory import read_verdict
from chaos.history.history import History
from chaos.history.row_files import RowFiles
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run
from chaos.verdict import Engine
from reports.run_report.causes import Cause, group
from reports.run_report.story import sentence
from reports.summary import summarise
from stormproof.launch import SIM, Launch, start
from tests.chaos.history.runs import make_large
from tests.reports.run_report.histories import in_large

#: One run of the demo belongs to the short suite.
FULL = pytest.mark.full
PAGE_BYTES = 500_000


def causes(scenario: str, mutant: str, out: Path, seed: int = 1) -> tuple[list[Cause], dict[str, int], str]:
    """The causes of one run, the violations by name, and the page."""
    file = EXPERIMENTS[scenario]
    experiment = load(file, deployment=SIM, mutant=mutant)
    with pytest.MonkeyPatch.context() as patch:
        make_large(patch, 1 << 20, 1_000)
        run = start(Launch(experiment=experiment, file=file, deployment=SIM, seed=seed, mutant=mutant, out=out))
        judge([examine_run(run)], engine=Engine.LOCAL)
        verdict, history = read_verdict(run), History.open(run)
        told = group(history, summarise(history, ()).faults, verdict.violations)
        page = reports.render(run).read_text("utf-8")
        make_large(patch, 1, 1_000)  # as if it had too many rows to hold them
        patch.setattr(RowFiles, "recorded_blocks", None)
        assert History.open(run).is_large
        assert in_large(reports.render(run).read_text("utf-8")) == in_large(page)
    return told, verdict.anomaly_counts(), page


@pytest.mark.parametrize(
    ("scenario", "mutant", "fault", "noun"),
    [
        (
            "stale_master",
            "ack-before-replication",
            r"Partition of controller-\d and broker-\d at 3\.0 s → ",
            "acknowledged",
        ),
        pytest.param(
            "switch_storm", "election-outside-set", r"Kill of broker-\d at 4\.0 s → ", "acknowledged", marks=FULL
        ),
        pytest.param(
            *(
                "stale_master",
                "dispatch-past-confirm",
                r"Partition of controller-\d and broker-\d at 3\.0 s → ",
                "read",
            ),
            marks=FULL,
        ),
    ],
)
def test_a_loss_is_told_from_the_fault_to_the_messages(
    tmp_path: Path, scenario: str, mutant: str, fault: str, noun: str
) -> None:
    told, anomalies, page = causes(scenario, mutant, tmp_path)
    first = told[0]
    assert re.match(fault, sentence(first)), sentence(first)
    assert f"(epoch {1})" in page and f"master of epoch {2}" in page
    gone = sum(len(cause.acknowledged if noun == "acknowledged" else cause.read) for cause in told)
    assert gone == anomalies["lost" if noun == "acknowledged" else "rollback"]
    assert len(told) <= 5
    assert len(page.encode()) <= PAGE_BYTES


@FULL
@pytest.mark.parametrize(
    ("scenario", "mutant", "seed", "begins", "change"),
    [
        ("stale_master", "offset-before-confirm", 1, r"Partition of controller-\d and broker-\d at 3\.0 s → ", (1, 2)),
        (
            "unreplicated_tail",
            "no-truncation-on-rejoin",
            1,
            r"During partition of broker-\d \(2\.0 s to \d\.\d s\): ",
            (2, 3),
        ),
        ("quickstart", "upload-beyond-confirm", 2, "During ", None),
        ("stale_master", "reads-wait-after-takeover", 1, "Not tied to a fault: ", None),
    ],
)
def test_other_violations_are_told_with_no_more_than_rows_prove(
    tmp_path: Path, scenario: str, mutant: str, seed: int, begins: str, change: tuple[int, int] | None
) -> None:
    told, _, page = causes(scenario, mutant, tmp_path, seed)
    first = told[0]
    assert re.match(begins, sentence(first)), sentence(first)
    epochs = first.change and tuple(m.epoch for m in (first.change.before, first.change.after) if m is not None)
    assert epochs == change
    assert (list(first.acknowledged), len(told) <= 5) == ([], True)
    assert len(page.encode()) <= PAGE_BYTES
