"""The tier and the stores keep what is referred to, and nothing else for long."""

from __future__ import annotations

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.names import A, L
from tests.checkers.storage.clusters import REPLICAS, TIER, Cluster, cluster, digest, key

LAW = L.ORPHANS
TOPIC = 5


def deleted(it: Cluster, name: str) -> None:
    value = {"caller": "store-0", "key": name, "request": "r", "outcome": "deleted"}
    it.trace(TIER, "store_delete", value=value)


def uploaded() -> Cluster:
    it = cluster()
    for number, begin in ((1, 0), (2, 100)):
        it.seal(0, TOPIC, begin, begin + 100, number)
        it.uploaded(0, TOPIC, begin, begin + 100, number)
    return it


def used() -> Cluster:
    """Two segments of topic 5 in group 0 go to the tier, and the first of them goes with a trim."""
    it = uploaded()
    it.wait(5)
    it.trim(0, TOPIC, 1, size_bytes=200, left_bytes=100)
    it.wait(5)
    deleted(it, key(TOPIC, 0, 0, 100, 1))
    return it


def finished(
    it: Cluster, *objects: str, calm_s: float = 70, where: str = "tier", listed: bool = True, **more: object
) -> Cluster:
    """The stores refer to the second segment, and the tier holds these objects, or that one."""
    for phase in ("heal", "recover"):
        it.phase(phase)
    it.recovered()
    it.phase("drain")
    it.wait(calm_s)
    it.phase("collect")
    for store in range(3):
        it.final(store, 0, 250, segments=[[TOPIC, 100, 200, digest(2), where]], **more)
    for name in objects or (key(TOPIC, 0, 100, 200, 2),):
        it.row("final", f="object", value={"key": name, "size": 100, "digest": digest(2)})
    it.complete_nodes(*(["store-0"] if not listed else []))
    return it


SECOND = key(TOPIC, 0, 100, 200, 2)
LATE = key(TOPIC, 0, 0, 100, 9)


def test_what_is_referred_to_is_there_and_nothing_else() -> None:
    verdict = finished(used()).expect(LAW, validity=Validity.VALID)
    assert verdict.counts == {"stored_objects": 2, "left_objects": 1, "deleted_objects": 1}


def test_an_object_that_is_named_and_gone_is_found() -> None:
    found = finished(used(), "seg/x").expect(LAW, A.OBJECT_MISSING, validity=Validity.INVALID).anomalies[0]
    assert "store-2#3 counts on the object" in found.explanation
    finished(used(), "seg/x", where="local").expect(LAW, validity=Validity.VALID)  # it has a file of its own
    finished(used(), "seg/x", listed=False).expect(LAW, validity=Validity.UNKNOWN)
    it = used()
    it.undo("wipe", it.inject("wipe", TIER))
    finished(it, "seg/x").expect(LAW, validity=Validity.UNKNOWN)


@pytest.mark.parametrize("deployment", ["sim", "process"])
def test_an_object_goes_after_a_trim(deployment: str) -> None:
    it = uploaded()
    it.trim(0, TOPIC, 1, size_bytes=200, left_bytes=200)  # which deletes nothing
    deleted(it, key(TOPIC, 0, 0, 100, 1))
    it.meta["deployment"] = deployment
    it.trim(1, TOPIC, 1)  # of another group
    it.trim(0, 6, 1)  # of another topic
    early = finished(it)
    early.expect(LAW, A.OBJECT_DELETED_EARLY, validity=Validity.INVALID)
    it.trim(0, TOPIC, 1, size_bytes=200, left_bytes=100)
    it.expect(LAW, *[A.OBJECT_DELETED_EARLY] * (deployment == "sim"))


@pytest.mark.parametrize(("calm_s", "found"), [(70, True), (50, False)])
def test_an_object_that_nobody_refers_to_goes_in_time(calm_s: float, found: bool) -> None:
    it = used()
    it.put(LATE)
    verdict = finished(it, SECOND, LATE, calm_s=calm_s).expect(LAW, *[A.OBJECT_ORPHANED] * found)
    assert found or verdict.validity is Validity.VALID
    it.meta["deployment"] = "process"
    it.expect(LAW, validity=Validity.VALID)


def test_a_trimmed_object_counts_from_its_trim_and_faults_put_it_off() -> None:
    first = key(TOPIC, 0, 0, 100, 1)
    it = uploaded()
    it.wait(50)
    it.trim(0, TOPIC, 1, size_bytes=200, left_bytes=100)
    finished(it, SECOND, first, calm_s=50).expect(LAW, validity=Validity.VALID)
    it = used()
    it.wait(20)
    it.trim(0, TOPIC, 1, size_bytes=100, left_bytes=100)  # another trim that does not let it go
    finished(it, SECOND, first, calm_s=45).expect(LAW, A.OBJECT_ORPHANED)
    it = used()
    it.put(LATE)
    fault = it.inject("kill", "store-1")
    it.wait(30)
    it.undo("kill", fault)
    finished(it, SECOND, LATE, calm_s=50).expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize(("calm_s", "found"), [(70, True), (20, False)])
def test_files_that_no_group_names_go_in_time(calm_s: float, found: bool) -> None:
    it = finished(used(), calm_s=calm_s, strays=["segments/x"])
    it.expect(LAW, *[A.FILE_ORPHANED] * found)


def test_a_replica_that_left_gives_its_files_up() -> None:
    it = used()
    it.members(0, REPLICAS[1:])
    finished(it).expect(LAW, A.FILE_ORPHANED, validity=Validity.INVALID)
    it = used()
    it.members(0, REPLICAS[1:])
    finished(it, calm_s=20).expect(LAW, validity=Validity.VALID)


def test_without_objects_it_is_not_exercised() -> None:
    finished(cluster(), "x", where="local").expect(LAW, validity=Validity.NOT_APPLICABLE)


def test_it_keeps_the_contract_of_laws() -> None:
    late, early, left = used(), used(), used()
    late.put(LATE)
    early.seal(1, TOPIC, 0, 100, 3)
    early.uploaded(1, TOPIC, 0, 100, 3)
    deleted(early, key(TOPIC, 1, 0, 100, 3))
    left.members(0, REPLICAS[1:])
    bad = [
        (finished(used(), "seg/x").table(), [A.OBJECT_MISSING]),
        (finished(late, SECOND, LATE).table(), [A.OBJECT_ORPHANED]),
        (finished(early).table(), [A.OBJECT_DELETED_EARLY]),
        (finished(left).table(), [A.FILE_ORPHANED]),
    ]
    kernels = [registry().kernels[number] for number in registry().of(LAW)]
    good = finished(used())
    check_law(kernels, bad=bad, near_miss=[good.table()], context=good.context())
