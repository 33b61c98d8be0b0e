"""Only the owner that meta's log names writes a group, and none that a fence has ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.names import A, L
from tests.checkers.storage.clusters import Cluster, cluster

LAW = L.FENCING


def moved() -> Cluster:
    """broker-0 writes group 0 up to 20; then broker-1 owns it, and writes up to 30."""
    it = cluster()
    it.fence(0, 1)
    it.opened(0, 1, ends={"0": 0})
    it.add(0, 1, 0, 10)
    it.add(0, 1, 10, 20)
    it.acked(0, 1, 20)
    it.owner(0, "broker-1", 2, 2)
    it.fence(0, 2, "broker-1", 2, end=20)
    it.opened(0, 2, "broker-1", 2, ends={"0": 20})
    it.add(0, 1, 20, 25, accepted=False)
    it.add(0, 2, 20, 30)
    it.acked(0, 2, 30, "broker-1")
    return it


def test_a_move_of_a_slice_keeps_the_promise() -> None:
    verdict = moved().expect(LAW, validity=Validity.VALID)
    assert verdict.counts == {"fences": 2, "group_appends": 9, "group_acks": 2}


def test_an_owner_may_fence_again_with_its_epoch() -> None:
    it = moved()
    it.fence(0, 2, "broker-1", 2, end=30)
    it.fence(0, 1, end=30, accepted=False)
    it.expect(LAW, validity=Validity.VALID)


def _late_append(it: Cluster) -> None:
    it.add(0, 1, 30, 35, stores=("store-1",))


def _old_fence(it: Cluster) -> None:
    it.fence(0, 1, end=30)


def _other_life(it: Cluster) -> None:
    it.owner(0, "broker-1", 3, 2)
    it.fence(0, 2, "broker-1", 3, end=30)


def _second_owner(it: Cluster) -> None:
    it.opened(0, 2, ends={"0": 20})


def _unfenced(it: Cluster) -> None:
    it.opened(1, 1, "broker-1", 2, ends={"1": 0})


def _other_end(it: Cluster) -> None:
    it.opened(0, 2, "broker-1", 2, ends={"0": 21})


def _two_lives(it: Cluster) -> None:
    it.owner(0, "broker-1", 2, 3)
    it.fence(0, 3, "broker-1", 2, end=30)
    it.opened(0, 3, "broker-1", 2, incarnation=2, ends={"0": 30})


def _epoch_again(it: Cluster) -> None:
    it.owner(1, "broker-0", 1, 1)


def _unknown_owner(it: Cluster) -> None:
    it.fence(0, 9, end=30)


def _acked_late(it: Cluster) -> None:
    it.add(0, 2, 30, 40)
    it.owner(0, "broker-0", 1, 3)
    it.fence(0, 3, end=35)
    it.acked(0, 2, 40, "broker-1")


def _acked_nothing(it: Cluster) -> None:
    it.acked(0, 2, 31, "broker-1")


def _forgotten(it: Cluster) -> None:
    it.final(1, 0, 30, epoch=1)
    it.final(2, 0, 30, epoch=1, log_index=3)


BREACHES: dict[Callable[[Cluster], None], tuple[str, ...]] = {
    _late_append: (A.APPEND_PAST_FENCE,),
    _old_fence: (A.FENCE_WENT_BACK,),
    _other_life: (A.EPOCH_REUSED, A.FENCE_WENT_BACK, A.TWO_OWNERS),
    _second_owner: (A.OPENED_UNFENCED, A.TWO_OWNERS),
    _unfenced: (A.OPENED_UNFENCED,),
    _other_end: (A.OPENED_UNFENCED,),
    _two_lives: (A.LIFE_REUSED,),
    _epoch_again: (A.EPOCH_REUSED,),
    _unknown_owner: (A.UNLOGGED_OWNER,),
    _acked_late: (A.ACKED_PAST_FENCE,),
    _acked_nothing: (A.ACKED_UNWRITTEN,),
    _forgotten: (A.FENCE_FORGOTTEN,),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_each_breach_is_found(breach: Callable[[Cluster], None]) -> None:
    it = moved()
    breach(it)
    verdict = it.expect(LAW, *BREACHES[breach], validity=Validity.INVALID)
    assert all(anomaly.rows for anomaly in verdict.anomalies)


def test_a_replica_that_has_not_applied_the_newest_fence_may_have_an_older_one() -> None:
    it = moved()
    it.final(0, 0, 30, epoch=2)
    it.final(1, 0, 20, epoch=1, log_index=3)
    it.expect(LAW, validity=Validity.VALID)


def test_no_clock_is_asked() -> None:
    it = moved()
    it.meta["deployment"] = "process"
    it.expect(LAW, validity=Validity.VALID)
    _late_append(it)
    it.expect(LAW, A.APPEND_PAST_FENCE)


def test_what_is_not_on_record_of_metas_log_leaves_the_verdict_unknown() -> None:
    it = moved()
    it.revision += 1
    it.owner(1, "broker-0", 1, 5)
    _unknown_owner(it)
    it.expect(LAW, validity=Validity.UNKNOWN)


def test_a_lost_host_may_have_taken_what_was_acknowledged() -> None:
    it = moved()
    it.row("harness", f="host_lost")
    _acked_nothing(it)
    it.expect(LAW, validity=Validity.UNKNOWN)


def test_without_fences_and_appends_nothing_is_known() -> None:
    it = cluster()
    assert "no store reported a fence" in it.expect(LAW, validity=Validity.UNKNOWN).why


def test_it_keeps_the_contract_of_laws() -> None:
    bad = []
    for breach, names in BREACHES.items():
        it = moved()
        breach(it)
        bad.append((it.table(), names))
    kernels = [registry().kernels[number] for number in registry().of(LAW)]
    check_law(kernels, bad=bad, near_miss=[moved().table()], context=moved().context())
