"""A node that a stranger killed: what only that explains is UNKNOWN, and all else stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.judging.outcome import judge
from chaos.verdict import Engine, RunVerdict, Validity
from tests.checkers.names import A, L
from tests.checkers.recorded import Recording, record

WHAT = "broker-0, life 1, ended by SIGKILL; its log is empty; the kernel killed it for want of memory"
EXPERIMENT = """\
name: accident
system:
  reference: {{queues: 1}}
duration: 14s
bounds: {{available_s: 4}}
workloads:
  - queue: {{producers: 2, consumers: 1, rate_per_s: 30}}
faults:
  - kill: {{target: {target}}}
    at: 2s
    for: 8s
"""


@pytest.fixture(scope="module")
def majority(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(tmp_path_factory.mktemp("majority"), 3, EXPERIMENT.format(target="majority"))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(tmp_path_factory.mktemp("one"), 3, EXPERIMENT.format(target="nameserver"))


def by_accident(run: Recording) -> Recording:
    """The same run, in which nobody had asked for the kill."""
    found = run.copy()
    found.meta["faults"] = []
    for row in found.rows:
        if row["kind"] == "fault":
            row["f"] = "accident"
            if row["type"] == "invoke":
                row["v"]["detail"] = {"what": WHAT}
    return found


def judged(run: Recording, directory: Path) -> RunVerdict:
    return judge([run.write(directory / "run")], engine=Engine.LOCAL)[0]


def law(verdict: RunVerdict, name: str) -> tuple[Validity, str]:
    return next((law.validity, law.why) for law in verdict.laws if law.law == name)


def test_what_a_planned_fault_excuses_is_unknown_after_an_accident(majority: Recording, tmp_path: Path) -> None:
    assert judged(majority, tmp_path / "planned").validity is Validity.VALID
    verdict = judged(by_accident(majority), tmp_path / "accident")
    validity, why = law(verdict, L.AVAILABILITY)
    assert validity is Validity.UNKNOWN and A.UNAVAILABLE in why and WHAT in why
    assert verdict.validity is Validity.UNKNOWN and law(verdict, L.DURABILITY)[0] is Validity.VALID


def test_a_run_that_needs_no_such_excuse_stays_valid(one: Recording, tmp_path: Path) -> None:
    verdict = judged(by_accident(one), tmp_path)
    assert verdict.validity is Validity.VALID, verdict.why


def test_without_any_fault_the_same_rows_are_invalid(majority: Recording, tmp_path: Path) -> None:
    untold = by_accident(majority)
    untold.drop(lambda row: row["kind"] == "fault")
    verdict = judged(untold, tmp_path)
    assert law(verdict, L.AVAILABILITY)[0] is Validity.INVALID


@pytest.mark.parametrize("which", ["majority", "one"])
def test_a_loss_that_no_accident_explains_stays_invalid(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    run = by_accident(request.getfixturevalue(which))
    message = run.acked()[-1]["message"]
    run.drop(run.drained(message))
    verdict = judged(run, tmp_path)
    assert verdict.validity is Validity.INVALID and law(verdict, L.DURABILITY)[0] is Validity.INVALID


def test_a_system_that_a_stranger_keeps_down_after_the_heal_need_not_recover(one: Recording, tmp_path: Path) -> None:
    for is_accident, validity in ((True, Validity.UNKNOWN), (False, Validity.INVALID)):
        run = by_accident(one) if is_accident else one.copy()
        last = run.find("fault", "accident" if is_accident else "kill", "ok")[-1]
        recovered = run.find("harness", "recovered")[0]
        recovered["f"], recovered["v"] = "not_recovered", {"reason": "broker-0 is not in sync", "seconds": 60}
        if is_accident:
            run.rows.remove(last)  # it lasts
        verdict = judged(run, tmp_path / str(is_accident))
        assert law(verdict, L.AVAILABILITY)[0] is validity


def test_a_node_that_may_have_killed_itself_leaves_the_run_unknown(one: Recording, tmp_path: Path) -> None:
    run = by_accident(one)
    told = run.find("harness", "phase")[-1]
    run.insert(told, f="killed", v={"what": "broker-0, life 1, ended by SIGKILL"})
    verdict = judged(run, tmp_path)
    assert verdict.validity is Validity.UNKNOWN and "it is unknown whether a node killed itself: broker-0" in str(
        verdict.why
    )


UNANSWERED = {"workload": "program", "operations": 179, "f": ["send"], "error": "socket disconnected", "times": 170}


def test_a_workload_that_never_got_an_ok_leaves_the_run_unknown(one: Recording, tmp_path: Path) -> None:
    run = one.copy()
    run.insert(run.find("harness", "phase")[-1], f="unanswered", v=UNANSWERED)
    verdict = judged(run, tmp_path)
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.why == (
        "the workload program never got one ok: 0 of its 179 × send were answered; most often, 170 times:"
        " socket disconnected",
    )
