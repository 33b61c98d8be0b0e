"""The planted bugs of the documented system with logs break the promise, and the system without one keeps it."""

from __future__ import annotations

import pytest

from chaos.verdict import Validity
from chaos.workload import Workload
from tests.drivers.toy_logs import ToyLogs
from tests.workloads.played import Played, judged
from workloads import list_append, transactions


def played(workload: Workload, *bug: str) -> Played:
    return judged(ToyLogs(*bug), workload, seconds=6.0)


@pytest.mark.parametrize(
    ("workload", "bug", "names"),
    [
        (transactions.create(transactions.Options()), "open-readable", ["G1c-realtime"]),
        (list_append.create(list_append.Options()), "aborted-readable", ["G1a"]),
    ],
    ids=["queues", "keys"],
)
def test_a_planted_bug_is_found(workload: Workload, bug: str, names: list[str]) -> None:
    assert played(workload, bug).violations["isolation"] == names


def test_a_system_without_one_isolates_transactions_as_logs_do() -> None:
    over_queues = played(transactions.create(transactions.Options()))
    over_keys = played(list_append.create(list_append.Options()))
    assert over_queues.validity("isolation") is over_keys.validity("isolation") is Validity.VALID
    counts = over_queues.verdicts["isolation"].counts
    assert counts["transactions"] and counts["given"] and counts["ordered_sends"]
    assert over_keys.verdicts["isolation"].counts["transaction_edges"]
