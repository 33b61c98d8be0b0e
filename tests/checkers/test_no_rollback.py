"""What was read or confirmed goes back in every way that is forbidden, and in those that are lawful."""

from __future__ import annotations

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import BROKERS, REPORTED, SIZE, History
from tests.checkers.names import A, L

LAW = L.NO_ROLLBACK


def led() -> History:
    history = History()
    for node in BROKERS:
        history.trace(node, "start", value={"generation": 1})
    history.phase("load")
    history.master("broker-0", 1)
    history.confirm("broker-0", 3 * SIZE)
    return history


def test_a_place_that_reads_differently_later_rolled_back() -> None:
    history = led()
    history.pull(0, 0, 1)
    history.pull(0, 0, 7)
    verdict = history.expect(LAW, A.ROLLBACK, validity=Validity.INVALID)
    assert verdict.anomalies[0].offset == 1


def test_a_confirmed_log_that_differs_from_what_was_read_rolled_back() -> None:
    history = led()
    history.pull(0, 0)
    history.append("broker-1", 9, 0, epoch=2)
    history.confirm("broker-1", SIZE, 2)
    history.expect(LAW, A.ROLLBACK)


def test_a_final_log_that_differs_from_what_was_read_rolled_back() -> None:
    history = led()
    history.pull(0, 0)
    history.finish(8).expect(LAW, A.ROLLBACK)


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_lower_end_of_the_same_or_a_newer_epoch_is_a_regression(epoch: int) -> None:
    history = led()
    history.bounds(0, 5)
    history.master("broker-1", 2, start=3 * SIZE)
    history.bounds(0, 4, node="broker-1" if epoch == 2 else "broker-0", epoch=epoch)
    history.pull(0, 0)
    assert A.MAX_OFFSET_REGRESSION in {anomaly.name for anomaly in history.verdict(LAW).anomalies}


def test_an_offset_given_out_twice_is_a_regression() -> None:
    history = led()
    history.pull(0, 0, 1, 2)
    history.send(9, offset=2)
    history.expect(LAW, A.MAX_OFFSET_REGRESSION)


@pytest.mark.parametrize(("told", "wrong"), [("confirm", True), ("final-logs", False)])
def test_readers_may_see_later_what_was_acknowledged_where_nobody_tells_what_is_confirmed(
    told: str, wrong: bool
) -> None:
    """As a slave of RocketMQ dies: its master acknowledges before it enters the message into the queue."""
    history = led()
    history.pull(0, 0)
    history.meta = {"tells": ["operations", told]}
    history.send(9, offset=5)
    history.bounds(0, 5)
    assert (A.MAX_OFFSET_REGRESSION in {one.name for one in history.verdict(LAW).anomalies}) == wrong
    history.send(10, offset=4)
    assert A.MAX_OFFSET_REGRESSION in {one.name for one in history.verdict(LAW).anomalies}


def test_slaves_and_deposed_masters_may_tell_lower_ends() -> None:
    history = led()
    history.pull(0, 0)
    history.master("broker-1", 2, start=3 * SIZE)
    history.bounds(0, 5, node="broker-1", epoch=2)
    history.bounds(0, 3, node="broker-0", epoch=1)
    history.bounds(0, 2, node="broker-2", epoch=2)
    history.expect(LAW, validity=Validity.VALID)


def test_overlapping_answers_are_not_ordered() -> None:
    history = led()
    history.pull(0, 0)
    early = history.invoke("bounds", queue=0)
    history.bounds(0, 5)
    history.complete(early, value={"minimum": 0, "maximum": 4}, node="broker-0", epoch=1)
    history.expect(LAW, validity=Validity.VALID)


def test_cutting_below_the_own_confirm_offset_is_a_rollback() -> None:
    history = led()
    history.pull(0, 0)
    history.trace("broker-0", "truncate", position=2 * SIZE, epoch=2)
    history.expect(LAW, A.CONFIRM_ROLLBACK)


def test_coming_back_from_a_crash_without_what_was_confirmed_is_a_rollback() -> None:
    history = led()
    history.pull(0, 0)
    history.trace("broker-0", "start", incarnation=2, step=1, value={"generation": 2})
    history.trace("broker-0", "recovered", incarnation=2, step=2, position=SIZE, value={"first": 0, "confirm": SIZE})
    history.expect(LAW, A.CONFIRM_ROLLBACK)


@pytest.mark.parametrize("told", [{"generation": 1}, {"generation": 9, "disk": "another"}])
def test_a_wiped_or_another_disk_may_begin_with_nothing(told: dict[str, object]) -> None:
    history = led()
    history.pull(0, 0)
    history.trace("broker-0", "start", incarnation=2, step=1, value=told)
    history.trace("broker-0", "recovered", incarnation=2, step=2, position=0, value={"first": 0, "confirm": 0})
    history.expect(LAW, validity=Validity.VALID)


def test_a_disk_that_is_known_by_its_word_may_not_lose_what_was_confirmed_on_it() -> None:
    history = led()
    for life, end in ((2, 2 * SIZE), (3, 0)):
        history.trace("broker-0", "start", incarnation=life, step=1, value={"generation": life, "disk": "another"})
        history.trace("broker-0", "recovered", incarnation=life, step=2, position=end, value={"first": 0})
        history.trace("broker-0", "confirm", incarnation=life, step=3, position=end, epoch=2)
    history.pull(0, 0)
    history.expect(LAW, A.CONFIRM_ROLLBACK)


@pytest.mark.parametrize("bootstrapped", [True, False])
def test_dropping_the_whole_log_is_lawful_only_to_begin_anew_from_the_tier(bootstrapped: bool) -> None:
    history = led()
    history.pull(0, 0)
    history.trace("broker-0", "truncate", position=0, epoch=2)
    if bootstrapped:
        history.trace("broker-0", "bootstrap", position=2 * SIZE, epoch=2)
    history.confirm("broker-0", 2 * SIZE, 2)
    history.expect(LAW, *(() if bootstrapped else (A.CONFIRM_ROLLBACK,)))


def test_a_master_without_what_an_older_epoch_confirmed_is_a_rollback() -> None:
    history = led()
    history.pull(0, 0)
    history.master("broker-1", 2, start=2 * SIZE)
    history.expect(LAW, A.CONFIRM_ROLLBACK)


def test_the_order_of_recording_does_not_matter_for_masters() -> None:
    history = led()
    history.pull(0, 0)
    history.master("broker-1", 2, start=4 * SIZE)
    history.confirm("broker-1", 9 * SIZE, 2)
    history.expect(LAW, validity=Validity.VALID)


def test_runs_without_reads_or_confirms_are_unknown() -> None:
    led().expect(LAW, validity=Validity.UNKNOWN)
    history = History()
    history.pull(0, 0)
    history.expect(LAW, validity=Validity.UNKNOWN)


def test_what_was_read_may_be_taken_back_only_by_a_cut_that_the_profile_permits() -> None:
    def run(profile: dict, *, switch: bool, **meta: object) -> History:
        history = led()
        history.meta |= {"profile": profile, "tells": [*set(REPORTED) - {"elections"}], **meta}
        history.pull(0, 0, 1)
        if switch:
            history.master("broker-1", 2, start=3 * SIZE)
        history.pull(0, 0, 7, node="broker-1" if switch else "broker-0", epoch=2 if switch else 1)
        return history

    run({"acks": "master"}, switch=False).expect(LAW, A.ROLLBACK)
    verdict = run({"acks": "master"}, switch=True).expect(LAW, validity=Validity.VALID)
    assert verdict.counts["permitted_by_policy"] > 0
    # Where readers see nothing but what is confirmed, few copies excuse nothing of it.
    run({"acks": "master"}, switch=True, readers_see="confirmed").expect(LAW, A.ROLLBACK)
    run({"min_in_sync": 1}, switch=True).expect(LAW, A.ROLLBACK)
    run({}, switch=True).expect(LAW, A.ROLLBACK)
