"""What nodes answer when they are read one by one: copies that differ, that lag, and that could not be read."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.driver import Evidence
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from checkers.agreement.node_reads import NodeReads
from tests.checkers.histories import History, content, m
from tests.checkers.names import A, L

NODES = ("queue-0", "queue-1", "queue-2")
REPORTED = {"tells": [Evidence.OPERATIONS, Evidence.NODE_READS], "brokers": list(NODES)}


def holding(
    *copies: dict[int, int],
    queue: int = 0,
    ends: dict[str, dict[str, Any]] | None = None,
    history: History | None = None,
) -> History:
    """A recovered run in which each node answered its copy: offset → number of the message. ``ends`` replaces columns
    of the row that tells how far a node was read; None leaves the row out."""
    if history is None:
        history = History(meta=REPORTED)
        history.phase("recover")
        history.recovered()
        history.phase("drain")
    nodes = NODES[: len(copies)]
    history.row("final", f="holders", queue=queue, value={"nodes": list(nodes)})
    for node, copy in zip(nodes, copies, strict=True):
        for offset, number in copy.items():
            message = m(number, queue)
            known = {"message": message, "hash": content(message)}
            history.row("final", f="node_read", node=node, queue=queue, offset=offset, **known)
    for node, copy in zip(nodes, copies, strict=True):
        end = {"offset": max(copy, default=-1) + 1, "value": {"minimum": min(copy, default=0)}}
        end |= (ends or {}).get(node, {})
        if end["offset"] >= 0:
            history.row("final", f="node_end", node=node, queue=queue, **end)
    return history


SAME = {0: 0, 1: 1, 2: 2}
DIFFERENT = {0: 0, 1: 7, 2: 2}
HOLE = {0: 0, 2: 2}
#: An older part was removed from it by the rules.
LATER = {1: 1, 2: 2}


def test_equal_copies_are_valid() -> None:
    verdict = holding(SAME, SAME, SAME).expect(L.AGREEMENT, validity=Validity.VALID)
    assert verdict.counts["node_reads"] == 9 and verdict.counts["records_compared"] == 3


@pytest.mark.parametrize(
    ("copies", "said"),
    [
        ((SAME, DIFFERENT), "what queue-0 answered there by itself after recovery, but message 0/7 is what queue-1"),
        (
            (SAME, HOLE),
            "queue-1 was read up to offset 3 of queue 0 by itself after recovery, but gave nothing at offset 1",
        ),
        ((HOLE, SAME), "queue-0 was read up to offset 3"),
    ],
)
def test_copies_that_differ_diverge(copies: tuple[dict[int, int], ...], said: str) -> None:
    verdict = holding(*copies).expect(L.AGREEMENT, A.REPLICA_DIVERGENCE, validity=Validity.INVALID)
    assert said in verdict.anomalies[0].explanation


def test_a_divergence_is_found_although_another_node_was_down() -> None:
    down = {"queue-2": {"offset": 0, "value": {"minimum": 0, "reason": "it could not be reached"}}}
    holding(SAME, DIFFERENT, {}, ends=down).expect(L.AGREEMENT, A.REPLICA_DIVERGENCE, validity=Validity.INVALID)


@pytest.mark.parametrize("copies", [(SAME, LATER), (LATER, SAME), (HOLE, HOLE)])
def test_copies_that_begin_later_or_lack_the_same_are_valid(copies: tuple[dict[int, int], ...]) -> None:
    holding(*copies).expect(L.AGREEMENT, validity=Validity.VALID)


@pytest.mark.parametrize(
    ("copies", "ends", "why"),
    [
        (
            (SAME, {0: 0}),
            {"queue-1": {"value": {"minimum": 0, "reason": "it ended at 1, another one at 3"}}},
            "queue 0 was not read to its end through queue-1: it ended at 1, another one at 3",
        ),
        (
            (SAME, SAME, {}),
            {"queue-2": {"value": {"minimum": 0, "reason": "it could not be reached"}}},
            "through queue-2: it could not be reached",
        ),
        ((SAME, SAME), {"queue-1": {"offset": -1}}, "through queue-1: its reading did not end"),
        ((SAME,), {}, "no two nodes answered what the same offset holds"),
        (({}, {}), {}, "no two nodes answered what the same offset holds"),
    ],
)
def test_what_could_not_be_compared_is_unknown(copies: Any, ends: Any, why: str) -> None:
    verdict = holding(*copies, ends=ends).expect(L.AGREEMENT, validity=Validity.UNKNOWN)
    assert why in verdict.why


def test_without_recovery_copies_may_differ() -> None:
    history = History(meta=REPORTED)
    history.phase("drain")
    verdict = holding(SAME, DIFFERENT, history=history).expect(L.AGREEMENT, validity=Validity.UNKNOWN)
    assert "had not recovered" in verdict.why


def test_a_driver_that_does_not_offer_it_is_owed_nothing() -> None:
    history = History(meta={**REPORTED, "tells": [Evidence.OPERATIONS]})
    history.phase("drain")
    history.expect(L.AGREEMENT, validity=Validity.NOT_APPLICABLE)


def test_it_keeps_the_contract_in_shards_and_in_one_piece() -> None:
    def parts(*copies: dict[int, int]) -> History:
        history = holding(*copies)
        return holding(*(dict(copy) for copy in reversed(copies)), queue=1, history=history)

    bad = [
        (parts(SAME, DIFFERENT).table(), [A.REPLICA_DIVERGENCE]),
        (parts(SAME, HOLE).table(), [A.REPLICA_DIVERGENCE]),
    ]
    check_law(NodeReads(), bad=bad, near_miss=[parts(SAME, SAME, LATER).table()], context=holding(SAME).context())


def test_each_queue_has_an_offset_that_two_nodes_answered() -> None:
    history = holding({0: 0, 1: 1}, {2: 2, 3: 3}, queue=1, history=holding(SAME, SAME))
    verdict = history.expect(L.AGREEMENT, validity=Validity.UNKNOWN)
    assert verdict.why == "no two nodes answered what the same offset of queue 1 holds"
    holding(SAME, queue=1, history=holding(SAME, SAME)).expect(L.AGREEMENT, validity=Validity.VALID)
