"""An owner that was replaced says nothing of what it no longer knows: where a queue ends, and what was committed."""

from __future__ import annotations

import pytest

from chaos.verdict import Validity
from tests.checkers.names import A, L
from tests.checkers.storage.clusters import Cluster, cluster

OLD, NEW = 1, 2


def loaded() -> Cluster:
    """Under the old owner five messages were acknowledged, under the new one a sixth."""
    it = cluster()
    for sequence in range(5):
        it.send(sequence, epoch=OLD)
    it.send(5, epoch=NEW, node="broker-1")
    return it


def judged(it: Cluster, law: str) -> set[str]:
    return {anomaly.name for anomaly in it.verdict(law).anomalies}


@pytest.mark.parametrize(("maximum", "wrong"), [(5, True), (6, False)])
def test_an_end_below_what_the_next_owner_acknowledged_is_found(maximum: int, wrong: bool) -> None:
    it = loaded()
    it.bounds(0, maximum, epoch=OLD)
    assert (A.MAX_OFFSET_REGRESSION in judged(it, L.NO_ROLLBACK)) == wrong


def test_nothing_new_below_what_the_next_owner_acknowledged_is_found() -> None:
    it = loaded()
    it.pull(5, maximum=5, epoch=OLD)
    verdict = it.expect(L.NO_ROLLBACK, A.MAX_OFFSET_REGRESSION, validity=Validity.INVALID)
    assert "(epoch 2) had shown" in verdict.anomalies[0].explanation


def test_messages_may_come_with_an_old_end() -> None:
    it = loaded()
    it.pull(3, 3, 4, maximum=5, epoch=OLD)
    assert not judged(it, L.NO_ROLLBACK)


def test_an_answer_that_was_under_way_before_is_not_too_old() -> None:
    it = cluster()
    it.send(0, epoch=OLD)
    early = it.invoke("bounds", queue=0)
    it.send(1, epoch=NEW, node="broker-1")
    it.complete(early, value={"minimum": 0, "maximum": 1}, node="broker-0", epoch=OLD)
    assert not judged(it, L.NO_ROLLBACK)


def test_an_old_owner_may_acknowledge_late_what_it_had_stored() -> None:
    it = cluster()
    early = it.invoke("send", queue=0, message=0)
    it.send(1, offset=1, epoch=NEW, node="broker-1")
    it.complete(early, offset=0, message=0, node="broker-0", epoch=OLD)
    assert not judged(it, L.NO_ROLLBACK)


@pytest.mark.parametrize("told", ["groups", "final-logs"])
def test_what_a_group_had_committed_at_the_next_owner_is_not_forgotten(told: str) -> None:
    """Elsewhere a master of an older epoch may not know of it."""
    it = loaded()
    it.meta["tells"] = ["operations", told]
    it.pull(0, *range(6), group="g", epoch=NEW, node="broker-1")
    it.commit(2, epoch=OLD)
    it.commit(5, epoch=NEW)
    it.committed(2, epoch=OLD)
    assert (A.COMMIT_REGRESSION in judged(it, L.CONSUMERS)) == (told == "groups")
