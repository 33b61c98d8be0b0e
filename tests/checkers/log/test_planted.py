"""Bugs that are planted in a small system with logs, groups and transactions are found in short runs of it."""

from __future__ import annotations

import pytest

from chaos.verdict import Validity
from chaos.workload import Workload
from tests.drivers.toy_logs import ToyLogs
from tests.workloads.played import judged
from workloads import group, log, transactions


def transacting() -> Workload:
    return transactions.create(transactions.Options(crashes=0.1, races=0.1, fences=0.1))


def moving() -> Workload:
    return log.create(log.Options(assign=0.2, seek=0.2))


@pytest.mark.parametrize("workload", [transacting(), moving(), group.create(group.Options(change_s=1.5))])
def test_a_system_without_bugs_keeps_the_promise(workload: Workload) -> None:
    verdict = judged(ToyLogs(), workload).verdicts["log"]
    assert verdict.validity is Validity.VALID, verdict
    assert min(verdict.counts[name] for name in ("log_sends", "log_reads", "log_steps")) > 50


@pytest.mark.parametrize(
    ("bug", "names"),
    [
        ("aborted-readable", {"G1a", "resurrected"}),
        ("open-readable", {"precommitted-read"}),
        ("torn", {"torn", "unseen"}),
        ("offset-without-output", {"offset-without-output"}),
        ("output-without-offset", {"output-without-offset"}),
        ("hanging", {"lso-stalled"}),
    ],
)
def test_what_is_wrong_with_transactions_is_found(bug: str, names: set[str]) -> None:
    assert names <= {*judged(ToyLogs(bug), transacting()).violations.get("log", ())}


def test_a_leader_that_lacks_what_was_acknowledged_is_found() -> None:
    assert "elected-without-acknowledged" in judged(ToyLogs("elected-behind"), moving()).violations["log"]


def test_a_message_that_readers_are_not_given_is_found() -> None:
    assert "int-poll-skip" in judged(ToyLogs("poll-skip"), moving()).violations["log"]
