"""Where offsets have gaps, only what is known to stand at an offset is missed there, in one piece and in parts."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import pytest

from chaos.history.run_meta import GAPS, RunMeta
from chaos.judging.registry import registry
from chaos.law import Partial
from chaos.verdict import Validity, Verdict
from checkers import order
from checkers.consumers import passed
from checkers.deliveries import in_order
from tests.checkers.histories import History, shards_for
from tests.checkers.names import A, L

WITH_GAPS: dict[str, Any] = {"offsets": GAPS}


def with_gaps(**meta: Any) -> History:
    return History(meta={**WITH_GAPS, **meta})


def in_parts(history: History, part: str, joins: str = "") -> Verdict:
    """Judge by one kernel, and the one that it joins, in shards of few rows."""
    by_part = {law.needs.part: law for law in registry().kernels.values()}
    laws = [by_part[name] for name in (part, joins) if name]
    context = history.context()
    partials = [
        law.examine(rows, context) for law in laws for rows in shards_for(law, history.table(), most=4, offsets=2)
    ]
    return laws[0].judge(reduce(Partial.merge, partials), context)


def names_of(verdict: Verdict) -> set[str]:
    return {anomaly.name for anomaly in verdict.anomalies}


def test_a_run_has_gaps_by_its_driver_or_by_its_transactions() -> None:
    assert not RunMeta.of({}).has_gaps and not RunMeta.of({"uses": ["queues", "logs"]}).has_gaps
    assert RunMeta.of({"offsets": GAPS}).has_gaps and RunMeta.of({"uses": ["queues", "transactions"]}).has_gaps


def test_a_library_has_transactions_in_queues_where_it_leaves_gaps() -> None:
    library = {"uses": ["queues", "deliveries"]}
    assert RunMeta.of({**library, **WITH_GAPS}).has_transactions and not RunMeta.of(library).has_transactions
    assert not RunMeta.of(WITH_GAPS).has_transactions and RunMeta.of({"uses": ["transactions"]}).has_transactions


# What one pull gives


def jumping(*acked: int, meta: dict[str, Any]) -> History:
    """Offsets 0 and 4 are read with one pull, from 0 on; these are acknowledged."""
    history = History(meta=meta)
    for offset in acked:
        history.send(offset)
    history.pull(0, 0, 4, offsets=(0, 4))
    return history


@pytest.mark.parametrize("meta", [WITH_GAPS, {"uses": ["queues", "logs", "transactions"]}])
def test_a_pull_may_jump_over_what_nobody_knows(meta: dict[str, Any]) -> None:
    jumping(0, 4, meta={}).expect(L.ORDER, A.CONSUMER_REORDER)
    jumping(0, 4, meta=meta).expect(L.ORDER, validity=Validity.VALID)


def test_a_pull_may_not_jump_over_a_message() -> None:
    history = jumping(0, 3, 4, meta=WITH_GAPS)
    (found,) = history.expect(L.ORDER, A.CONSUMER_REORDER).anomalies
    assert "past offset 3, which is there" in found.explanation and found.offset == 4
    assert names_of(in_parts(history, order.DELIVERED.part, order.STORED.part)) == {A.CONSUMER_REORDER}
    assert not names_of(in_parts(jumping(0, 4, meta=WITH_GAPS), order.DELIVERED.part, order.STORED.part))


def test_a_pull_may_not_jump_over_what_another_one_was_given() -> None:
    history = jumping(0, meta=WITH_GAPS)
    history.pull(2, 2, process="consumer-1.0")
    history.expect(L.ORDER, A.CONSUMER_REORDER)


@pytest.mark.parametrize("offsets", [(3, 2), (3, 3), (2, 4)])
def test_a_step_back_stays_wrong(offsets: tuple[int, int]) -> None:
    history = with_gaps()
    history.send(0)
    history.pull(3, 3, 4, offsets=offsets)
    history.expect(L.ORDER, A.CONSUMER_REORDER)


@pytest.mark.parametrize(("begin", "name"), [(1, ""), (2, A.CONSUMER_REORDER)])
def test_a_pull_may_begin_behind_a_gap(begin: int, name: str) -> None:
    history = with_gaps()
    history.send(0)
    history.send(2, 2)
    history.pull(1, *([2] if begin == 1 else [3]), offsets=(2,) if begin == 1 else (3,))
    history.expect(L.ORDER, *filter(None, [name]))


def test_where_losses_are_permitted_a_gap_may_become_a_message() -> None:
    history = jumping(0, 3, 4, meta={**WITH_GAPS, "profile": {"acks": "master"}})
    history.inject("kill", "broker-0")
    history.expect(L.ORDER, validity=Validity.VALID)


# Readers come forward


def empty_pull(history: History, offset: int, following: int, **answer: Any) -> None:
    op = history.invoke("pull", process="consumer-0.0", queue=0, offset=offset, value={"group": "g"})
    value = {"minimum": 0, "maximum": 9, "following": following, "asked": offset, **answer}
    history.complete(op, value=value, node="broker-0", epoch=1)


@pytest.mark.parametrize(("following", "known", "wrong"), [(6, False, ""), (2, False, ""), (6, True, "wrong-next")])
def test_a_reader_is_sent_on_over_gaps_alone(following: int, known: bool, wrong: str) -> None:
    history = with_gaps()
    history.send(0)
    if known:
        history.send(4)
    history.pull(0, 0, 1, maximum=9)
    empty_pull(history, 2, following)
    history.expect(L.PROGRESS, *([A.WRONG_NEXT_OFFSET] if wrong else []))


def test_a_message_that_was_read_is_not_empty_later() -> None:
    for offset, names in ((3, [A.UNREADABLE]), (4, [])):
        history = with_gaps(uses=["queues", "transactions"])
        history.pull(3, 3, maximum=9)
        empty_pull(history, offset, offset)
        history.expect(L.PROGRESS, *names)


def test_an_acknowledgement_in_a_transaction_may_come_before_its_mark() -> None:
    for uses, names in ((["queues"], [A.UNREADABLE]), (["queues", "transactions"], []), (["queues", "deliveries"], [])):
        history = with_gaps(uses=uses)
        history.send(5)
        empty_pull(history, 2, 2)
        history.expect(L.PROGRESS, *names)


# Groups


def committing(*given: int, top: int, acked: tuple[int, ...], meta: dict[str, Any]) -> History:
    history = History(meta=meta)
    for offset in acked:
        history.send(offset)
    history.pull(0, *given, offsets=given, group="g")
    history.commit(top)
    return history


def test_a_group_may_commit_past_gaps_and_not_past_messages() -> None:
    near = committing(0, 4, top=5, acked=(0, 4), meta=WITH_GAPS)
    near.expect(L.CONSUMERS, validity=Validity.VALID)
    committing(0, 4, top=5, acked=(0, 4), meta={}).expect(L.CONSUMERS, A.SKIPPED)
    bad = committing(0, 4, top=5, acked=(0, 2, 4), meta=WITH_GAPS)
    (found,) = bad.expect(L.CONSUMERS, A.SKIPPED).anomalies
    assert found.offset == 2
    assert names_of(in_parts(bad, passed.NEEDS.part)) == {A.SKIPPED}
    assert not names_of(in_parts(near, passed.NEEDS.part))


def test_the_end_of_a_queue_with_gaps_is_known_from_its_final_reading() -> None:
    for drained, names in ((False, []), (True, [A.COMMIT_BEYOND_END])):
        history = committing(0, top=3, acked=(0,), meta=WITH_GAPS)
        if drained:
            history.drain(0)
        history.expect(L.CONSUMERS, *names)


def receiving(*offsets: int) -> History:
    history = with_gaps(uses=["queues", "deliveries"])
    for offset in offsets:
        op = history.invoke("receive", queue=0, value={"group": "g", "in_order": 1})
        history.complete(op, node="broker-0")
        more = {"process": "client", "queue": 0, "offset": offset, "message": offset, "hash": offset}
        history.row("op", type="ok", op=op, f="delivered", **more)
    return history


@pytest.mark.parametrize(("offsets", "names"), [((0, 3, 5), set()), ((0, 5, 3), {A.OUT_OF_ORDER})])
def test_an_orderly_group_may_jump_and_is_given_nothing_too_early(offsets: tuple[int, ...], names: set[str]) -> None:
    history = receiving(*offsets)
    whole = history.verdict(L.DELIVERIES)
    assert names_of(whole) == names, json.dumps([one.explanation for one in whole.anomalies])
    assert names_of(in_parts(history, in_order.NEEDS.part)) == names


# Ends


def test_with_transactions_pulls_and_bounds_name_ends_of_their_own() -> None:
    for uses, names in (
        (["queues"], [A.MAX_OFFSET_REGRESSION]),
        (["queues", "transactions"], []),
        (["queues", "deliveries"], []),
    ):
        history = with_gaps(uses=uses)
        history.bounds(0, 9)
        history.pull(0, 0, maximum=5)
        history.expect(L.NO_ROLLBACK, *names)
    history.pull(0, 0, maximum=4)
    history.expect(L.NO_ROLLBACK, A.MAX_OFFSET_REGRESSION)
