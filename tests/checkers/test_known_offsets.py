"""Replicas know no offset of a group after the run that nobody committed."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import BROKERS, History
from tests.checkers.names import A, L


def ended(groups: dict[str, dict[str, int]], *nodes: str, **meta: Any) -> History:
    """The group g commits 2, then 3 without an answer, and is refused 5; these nodes have these offsets in the end."""
    history = History(meta=meta)
    history.phase("load")
    for sequence in range(6):
        history.send(sequence)
    history.pull(0, *range(6), group="g")
    history.commit(2)
    history.commit(3, type="info")
    history.commit(5, type="fail")
    for node in nodes:
        history.row("final", f="offsets", node=node, value={"groups": groups})
    return history.finish(*range(6))


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"g": {"0": 4}}, "had committed 3 at most"),
        ({"g": {"0": 2, "1": 1}}, "had committed nothing"),
        ({"g": {"0": 2}, "h": {"0": 1}}, "of group h"),
    ],
)
@pytest.mark.parametrize("nodes", [BROKERS, BROKERS[1:2]])
def test_an_offset_that_a_replica_has_and_nobody_committed_is_found(
    groups: dict[str, dict[str, int]], words: str, nodes: tuple[str, ...]
) -> None:
    verdict = ended(groups, *nodes).expect(L.CONSUMERS, A.NEVER_COMMITTED, validity=Validity.INVALID)
    assert len(verdict.anomalies) == len(nodes) and words in verdict.anomalies[0].explanation
    assert f"After the run {nodes[0]} has" in verdict.anomalies[0].explanation


@pytest.mark.parametrize("offset", [2, 3])
def test_an_offset_that_may_have_been_committed_is_lawful(offset: int) -> None:
    ended({"g": {"0": offset, "1": 0}}, *BROKERS).expect(L.CONSUMERS, validity=Validity.VALID)


@pytest.mark.parametrize("use", ["limits", "deliveries"])
def test_a_group_that_something_else_than_a_consumer_may_be_is_lawful(use: str) -> None:
    others = {"g": {"0": 2}, "h": {"0": 1}}
    ended(others, *BROKERS, uses=["queues", use]).expect(L.CONSUMERS, validity=Validity.VALID)
    own = ended({"g": {"0": 4}}, *BROKERS, uses=["queues", use])
    own.expect(L.CONSUMERS, A.NEVER_COMMITTED, validity=Validity.INVALID)
