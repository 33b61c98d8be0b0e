"""Bad histories of the tier's uploaders: writes of an old epoch or without the role, and what a later master wrote."""

from __future__ import annotations

import pytest

from chaos.verdict import Validity
from tests.checkers.names import A
from tests.checkers.test_tier import UPLOADER, Tiered, good


def test_a_late_manifest_of_an_old_epoch_is_found() -> None:
    history = good()
    history.master("broker-1", 2)
    history.upload(4, node="broker-1", epoch=2, segments=[(0, 4)])
    history.upload(4, epoch=1, segments=[(0, 4)], request=False)
    history.expect(UPLOADER, A.MANIFEST_EPOCH_REGRESSION)


def test_a_write_after_the_step_that_lost_the_role_is_found() -> None:
    history = good()
    history.role("broker-0", "slave", 2)
    history.trace("broker-0", "tier_request", queue=0, epoch=1, value={"verb": "put", "key": "k"})
    history.expect(UPLOADER, A.STALE_UPLOADER)


def test_requests_before_the_loss_in_the_same_step_and_reads_after_it_are_lawful() -> None:
    history = good()
    history.trace("broker-0", "tier_request", step=90, queue=0, epoch=1, value={"verb": "put", "key": "k"})
    history.role("broker-0", "slave", 2, step=90)
    history.trace("broker-0", "tier_request", step=91, queue=0, epoch=2, value={"verb": "get", "key": "k"})
    history.expect(UPLOADER, validity=Validity.VALID)


def test_a_master_again_must_not_write_for_its_former_epoch() -> None:
    history = good()
    history.master("broker-0", 3)
    history.trace("broker-0", "tier_request", queue=0, epoch=1, value={"verb": "cas", "key": "k"})
    history.expect(UPLOADER, A.STALE_UPLOADER)


def test_a_slave_that_deletes_or_uploads_is_found() -> None:
    history = good()
    history.role("broker-2", "slave", 1)
    history.trace("broker-2", "tier_request", queue=0, epoch=1, value={"verb": "delete", "key": "k"})
    history.expect(UPLOADER, A.FOREIGN_DELETE)
    history.upload(4, node="broker-2", segments=[(0, 4)])
    history.expect(UPLOADER, A.FOREIGN_DELETE, A.STALE_UPLOADER)


@pytest.mark.parametrize(("queue", "verdict"), [(0, Validity.UNKNOWN), (-1, Validity.VALID)])
def test_who_writes_an_object_of_a_queue_tells_so_and_other_objects_are_nobody_s_business(
    queue: int, verdict: Validity
) -> None:
    history = good()
    value = {"caller": "somebody", "key": "x", "request": "r", "outcome": "created"}
    history.trace("store-0", "store_put", queue=queue, hash=1, value=value)
    why = history.expect(UPLOADER, validity=verdict).why
    assert ("somebody wrote to the object store without having reported it" in why) == (queue == 0)


def _decided(f: str, *, epoch: int = 1, version: int = 3) -> Tiered:
    """The master of epoch 2 has written version 3 when a master tells what it makes of a version."""
    history = good()
    history.master("broker-1", 2)
    history.upload(4, node="broker-1", epoch=2, segments=[(0, 4)])
    history.trace("broker-0", f, queue=0, offset=2, epoch=epoch, value={"version": version})
    return history


@pytest.mark.parametrize("f", ["tier_stop", "tier_cut"])
def test_who_judges_by_its_own_log_what_a_later_master_wrote_is_found(f: str) -> None:
    history = _decided(f)
    assert history.rows[-3]["f"] == "store_cas", "the successor's version"
    (anomaly,) = history.expect(UPLOADER, A.SUCCESSOR_JUDGED).anomalies
    assert anomaly.rows == (len(history.rows) - 3, len(history.rows) - 1)


@pytest.mark.parametrize("f", ["tier_stop", "tier_cut"])
@pytest.mark.parametrize(
    "told", [{"version": 2}, {"epoch": 2}, {"epoch": 3}, {"version": 0}, {"version": 4}, {"epoch": -1}]
)
def test_who_judges_an_earlier_version_or_tells_none_may_do_so(f: str, told: dict[str, int]) -> None:
    _decided(f, **told).expect(UPLOADER, validity=Validity.VALID)
