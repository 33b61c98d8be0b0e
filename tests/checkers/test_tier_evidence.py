"""What nobody tells of the tier proves nothing, and what comes back after it was deleted is found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import content, m
from tests.checkers.names import A
from tests.checkers.test_own_tiers import held
from tests.checkers.test_tier import BOUND, CONTINUITY, METADATA, UPLOADER, Tiered, good, stored


def changed(row: dict[str, Any], **told: Any) -> None:
    row["value"] = json.dumps(json.loads(row["value"]) | told)


# Upload bound


def test_a_version_whose_uploader_told_no_step_has_no_confirm_offset_to_compare_with() -> None:
    history = Tiered().begin()
    history.upload(2)
    history.upload(4, segments=[(0, 2), (2, 2)], request=False)
    verdict = history.finals(0, 1, 2, 3).expect(BOUND, validity=Validity.UNKNOWN)
    assert "broker-0 did not say when it sent a manifest of queue 0" in verdict.why


def test_a_tier_is_compared_with_logs_that_somebody_told() -> None:
    history = held(0, 1, 2, 3)
    history.rows = [row for row in history.rows if (row["kind"], row["f"]) != ("final", "log")]
    verdict = history.expect(BOUND, validity=Validity.UNKNOWN)
    assert "no log reported an offset that a record of the tier has" in verdict.why


def test_a_tier_that_holds_a_queue_which_no_replica_has_goes_beyond_all_logs() -> None:
    history = held(0, 1, 2, 3)
    message = m(0, 5)
    history.row("final", f="tiered", node="broker-0", queue=5, offset=0, message=message, hash=content(message))
    history.expect(BOUND, A.UPLOAD_BEYOND_CONFIRM)


def test_a_replica_that_does_not_tell_where_its_queues_end_may_go_further_than_the_others() -> None:
    history = held(0, 1, 2, 3, 4)
    row = next(row for row in history.rows if (row["f"], row["node"]) == ("node", "broker-1"))
    value = json.loads(row["value"])
    del value["maximums"]
    row["value"] = json.dumps(value)
    assert "broker-1 did not report where" in history.expect(BOUND, validity=Validity.UNKNOWN).why


@pytest.mark.parametrize(("hash", "names"), [(2, ()), (77, (A.TIER_OFFSET_REGRESSION,))])
def test_a_store_that_names_no_requests_tells_one_version_once_or_the_same_again(
    hash: int, names: tuple[str, ...]
) -> None:
    history = good()
    history.version -= 1
    history.rows[history.upload(4, segments=[(0, 2), (2, 2)])]["hash"] = hash
    history.finals(0, 1, 2, 3).expect(BOUND, *names)


# Single uploader


def test_a_version_in_the_name_of_another_node_is_found() -> None:
    history = good()
    row = history.rows[history.upload(4, segments=[(0, 2), (2, 2)])]
    changed(row, caller="broker-2")
    verdict = history.expect(UPLOADER, A.STALE_UPLOADER)
    assert "broker-2 wrote version 3" in verdict.anomalies[0].explanation


def test_a_write_without_a_request_needs_a_caller_that_told_of_its_requests() -> None:
    history = good()
    told = {"key": "k9", "outcome": "created"}
    history.trace("store-0", "store_put", queue=0, hash=9, value={**told, "caller": "broker-0"})
    history.expect(UPLOADER, validity=Validity.VALID)
    history.trace("store-0", "store_put", queue=0, hash=9, value={**told, "caller": "broker-2"})
    assert "broker-2 wrote to the object store" in history.expect(UPLOADER, validity=Validity.UNKNOWN).why


# Continuity


@pytest.mark.parametrize("deleted", [True, False])
def test_an_object_that_was_deleted_before_a_manifest_names_it_is_missing(deleted: bool) -> None:
    history = Tiered().begin()
    history.upload(2)
    stored(history, "store_put", "created", key="k2")
    if deleted:
        stored(history, "store_delete", "deleted", key="k2")
    history.upload(4, segments=[(0, 2), (2, 2)])
    history.finals(0, 1, 2, 3).expect(CONTINUITY, *((A.TIER_MISSING_OBJECT,) if deleted else ()))


def test_an_object_that_was_dropped_deleted_and_named_again_is_missing() -> None:
    history = good()
    history.upload(4, start=2)
    stored(history, "store_delete", "deleted", key="k0")
    history.upload(4, start=2)
    history.expect(CONTINUITY)
    history.upload(4, segments=[(0, 2), (2, 2)])
    verdict = history.finals(0, 1, 2, 3).expect(CONTINUITY, A.TIER_MISSING_OBJECT)
    assert "names the object k0, which had been deleted" in verdict.anomalies[0].explanation


def test_an_object_that_was_written_again_after_its_deletion_is_there() -> None:
    history = Tiered().begin()
    for f, outcome in (("store_put", "created"), ("store_delete", "deleted"), ("store_put", "created")):
        stored(history, f, outcome, key="k0")
    history.upload(4)
    history.finals(0, 1, 2, 3).expect(CONTINUITY, validity=Validity.VALID)


@pytest.mark.parametrize(("start", "names"), [(0, (A.TIER_GAP,)), (4, ())])
def test_a_manifest_without_segments_holds_nothing(start: int, names: tuple[str, ...]) -> None:
    history = Tiered().begin()
    history.upload(4, start=start, segments=[])
    history.upload(4)
    history.finals(0, 1, 2, 3).expect(CONTINUITY, *names)


# Metadata


def test_after_a_run_in_which_no_replica_tells_a_view_nobody_knows_whether_one_is_stale() -> None:
    history = good().finals(0, 1, 2, 3)
    history.rows = [row for row in history.rows if (row["kind"], row["f"]) != ("final", "view")]
    assert "no replica reported its view" in history.expect(METADATA, validity=Validity.UNKNOWN).why
