"""What is sealed has the same bytes everywhere, and joins."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.names import A, L
from tests.checkers.storage.clusters import STORES, TIER, Cluster, cluster, digest, key

LAW = L.SEALED


def sealed() -> Cluster:
    """Group 0 is sealed twice; topic 5 goes to the tier, and store-2 gets a copy of it from there."""
    it = cluster()
    it.seal(0, 5, 0, 100, 11)
    index = it.seal(0, 5, 100, 200, 12)
    it.seal(0, 6, 100, 200, 13, index=index)
    it.held(0, 5, 0, 100, 11)
    it.uploaded(0, 5, 0, 100, 11)
    it.held(0, 5, 0, 100, 11, "store-2", source="tier")
    return it


def finished(it: Cluster) -> Cluster:
    """All three stores hold the second segment of topic 5 and the same tail."""
    it.end()
    held = [[5, 0, 100, digest(11), "tier"], [5, 100, 200, digest(12), "local"]]
    for store in range(3):
        it.final(store, 0, 250, sealed=200, segments=held)
    name = key(5, 0, 0, 100, 11)
    it.row("final", f="object", value={"key": name, "size": 100, "digest": digest(11)})
    it.complete_nodes()
    return it


def test_sealed_segments_that_are_alike_keep_the_promise() -> None:
    verdict = finished(sealed()).expect(LAW, validity=Validity.VALID)
    assert verdict.counts == {"sealed_segments": 3, "uploaded_segments": 1, "segment_copies": 5}


def _other_hash(it: Cluster) -> None:
    index = it.seal(0, 5, 200, 300, 14, stores=STORES[:2])
    it.seal(0, 5, 200, 300, 15, stores=STORES[2:], index=index)


def _gap(it: Cluster) -> None:
    it.seal(0, 5, 210, 300, 14)


def _overlap(it: Cluster) -> None:
    it.seal(0, 5, 190, 300, 14)


def _other_upload(it: Cluster) -> None:
    it.uploaded(0, 6, 100, 200, 14)


def _other_copy(it: Cluster) -> None:
    it.held(0, 6, 100, 200, 14, "store-1", source="replica")


def _copy_of_nothing(it: Cluster) -> None:
    it.held(0, 7, 100, 200, 14, "store-1", source="replica")


BREACHES: dict[Callable[[Cluster], None], tuple[str, ...]] = {
    _other_hash: (A.SEGMENTS_DIFFER,),
    _gap: (A.SEGMENT_GAP,),
    _overlap: (A.SEGMENT_GAP,),
    _other_upload: (A.UPLOAD_DIFFERS,),
    _other_copy: (A.COPY_DIFFERS,),
    _copy_of_nothing: (A.COPY_DIFFERS,),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_each_breach_is_found(breach: Callable[[Cluster], None]) -> None:
    it = sealed()
    breach(it)
    verdict = finished(it).expect(LAW, *BREACHES[breach], validity=Validity.INVALID)
    assert all(anomaly.rows for anomaly in verdict.anomalies)


def test_what_is_there_after_the_run_is_compared_too() -> None:
    it = finished(sealed())
    it.final(0, 1, 50, tail=digest(1))
    it.final(1, 1, 50, tail=digest(2))
    it.final(2, 1, 40, tail=digest(3))  # it is not as far
    it.expect(LAW, A.TAILS_DIFFER)
    it = finished(sealed())
    it.final(0, 0, 260, sealed=200, segments=[[5, 100, 200, digest(14), "local"]])
    it.expect(LAW, A.COPY_DIFFERS)
    it = finished(sealed())
    it.row("final", f="object", node=TIER, value={"key": key(5, 0, 0, 100, 11), "size": 9, "digest": digest(1)})
    it.expect(LAW, A.UPLOAD_DIFFERS)


def test_a_harmed_disk_may_find_out() -> None:
    it = sealed()
    it.undo("rot", it.inject("rot", "store-2", effects={"loses_disk": ["store-2"]}))
    _other_hash(it)
    it.held(0, 6, 100, 200, 14, "store-2", source="recovered")
    finished(it).expect(LAW, validity=Validity.VALID)


def test_without_seals_nothing_is_known() -> None:
    assert "sealed anything" in cluster().expect(LAW, validity=Validity.UNKNOWN).why
    it = cluster().end()
    it.final(0, 0, 60, sealed=0)
    assert "by the end" in it.expect(LAW, validity=Validity.NOT_APPLICABLE).why
    it.final(1, 0, 60, sealed=50)  # and nobody reports that seal
    assert "sealed anything" in it.expect(LAW, validity=Validity.UNKNOWN).why


def test_it_keeps_the_contract_of_laws() -> None:
    bad = []
    for breach, names in BREACHES.items():
        it = sealed()
        breach(it)
        bad.append((finished(it).table(), names))
    kernels = [registry().kernels[number] for number in registry().of(LAW)]
    good = finished(sealed())
    check_law(kernels, bad=bad, near_miss=[good.table()], context=good.context())
