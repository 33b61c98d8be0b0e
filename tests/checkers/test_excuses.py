"""When an excuse by a fault ends, for everything that laws find because it did not happen in time.

What happened without a cause (a needless election, an object that returned) is judged where it happened: a fault that
was near then is near for good. What did *not* happen may still not have happened long after the fault. So each of these
names the test that holds its excuse to an end, or says why no fault excuses it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.checkers.names import ANOMALIES, A

HERE = Path(__file__).parent
EXPIRES = {
    A.LATE_UPLOAD: "tier_continuity/test_uploads.py::test_an_outage_that_is_long_over_excuses_no_upload",
    A.NEVER_TRIMMED: "test_garbage.py::test_a_fault_is_over_for_an_idle_tier_too",
    A.NEVER_COLLECTED: "test_garbage.py::test_a_fault_that_is_long_over_excuses_no_garbage",
    A.LATE_RETENTION: "test_forgotten.py::test_a_fault_puts_deletions_off_until_it_is_over",
    A.LATE_JOIN: "in_sync/test_joins.py::test_what_hinders_a_replica_gives_it_the_whole_bound_again",
    A.LATE_ELECTION: "test_promptness.py::test_what_hindered_an_election_is_an_excuse_until_it_is_long_over",
    A.LATE_VOTE: "test_controllers.py::test_a_vote_is_late_when_what_hindered_it_is_long_over",
    A.LATE_READ: "one request, which its client gives up: the next one is judged anew",
    A.LATE_ANSWER: "one request, which its client gives up: the next one is judged anew",
    A.LOG_KEPT: "it counts the time without a fault on the controller, up to the moment that it is judged at",
    A.STALE_ROUTE: "it counts the longest time without a fault: each end of a fault begins a new one",
    A.STALLED: "service is owed again whenever it may have been interrupted, after one bound",
    A.TIER_STALLED: "it is owed from recovery on, when no fault is left",
    A.UNAVAILABLE: "service is owed again whenever it may have been interrupted, after one bound",
    A.CHANGE_UNSERVED: "service is owed again whenever it may have been interrupted, after one bound",
    A.READ_UNANSWERED: "service is owed again whenever it may have been interrupted, after one bound",
    A.UNANSWERED: "it is owed from recovery on, and again in each time without a fault that is long enough",
    A.NOT_RECOVERED: "it is owed when all faults are undone",
    A.CONFIRM_BEHIND: "it is judged after recovery, when no fault is left",
    A.NEVER_RETURNED: "it is judged after recovery, when no fault is left",
    A.NEVER_DELIVERED: "it is judged after recovery, when no fault is left",
    A.VIEW_BEHIND: "it is judged after recovery, when no fault is left",
    A.MAP_LATE: "storage/test_placement.py::test_a_fault_that_is_long_over_excuses_no_map",
    A.OPENED_LATE: "storage/test_stateless.py::test_a_fault_that_is_long_over_excuses_no_closed_slice",
    A.DRAIN_UNFINISHED: "storage/test_replication.py::test_a_fault_that_is_long_over_excuses_no_drain",
    A.TOO_FEW_COPIES: "it is judged after recovery, when no fault is left",
    A.KEPT_TOO_LONG: "it is judged after recovery, when no fault is left",
    A.OBJECT_ORPHANED: "it is judged after recovery, when no fault is left",
    A.FILE_ORPHANED: "it is judged after recovery, when no fault is left",
    A.WITHHELD: "it is judged after recovery, when no fault is left",
    A.LSO_STALLED: "it is judged by the final read, when no fault is left",
}
#: Those of the names that tell of something that happened, or are counted only.
HAPPENED = {A.NEVER_COMMITTED, "never-delivered-by-policy"}


def test_each_absence_is_in_the_table() -> None:
    told = re.compile(r"^(late|never|un(available|answered)|not)-?|(stalled|unserved|unanswered|behind|kept)$")
    absent = {name for name in ANOMALIES if told.search(name)} - HAPPENED - {A.MEMBER_BEHIND, A.NOT_LINEARIZABLE}
    assert absent <= {*EXPIRES}, absent - {*EXPIRES}
    assert {*EXPIRES} <= {*ANOMALIES}


@pytest.mark.parametrize("name", [name for name, said in EXPIRES.items() if "::" in said])
def test_the_tests_of_the_table_exist(name: str) -> None:
    file, _, test = EXPIRES[name].partition("::")
    assert f"def {test}(" in (HERE / file).read_text("utf-8")
