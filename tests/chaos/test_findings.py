"""Findings of many shards become the counts that one shard would have told."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np
import pytest

from chaos.findings import MAX_REPORTED, Findings, cap, decide
from chaos.law import AnomalyKind, Partial, Promise
from chaos.merged_moments import moments_of
from chaos.moments import LEAST_SHIFT
from chaos.verdict import Anomaly, Validity

PROMISE = Promise(
    name="kept", place=1, meaning="Things are kept.", anomalies=(AnomalyKind(name="gone", meaning="a thing is gone"),)
)


def shard(queue: int, count: int) -> Partial:
    found = Findings(PROMISE)
    found.add_each("gone", np.arange(count), lambda n: found.add("gone", f"{queue}/{n}", 100 * queue + n, queue=queue))
    return found.partial()


def test_shards_that_leave_as_many_untold_are_both_counted() -> None:
    anomalies = cap(PROMISE, [one for queue in (0, 1) for one in shard(queue, 50).anomalies])
    assert len(anomalies) == MAX_REPORTED + 1
    assert sum(one.count for one in anomalies) == 100


def test_so_are_those_of_two_ranges_of_one_queue() -> None:
    parts = []
    for begin in (0, 50):
        found = Findings(PROMISE)
        for offset in range(begin, begin + 50):
            found.add("gone", f"offset {offset}", offset, queue=0, offset=offset)
        parts.append(found.partial())
    merged = parts[0].merge(parts[1])
    assert sum(one.count for one in cap(PROMISE, merged.anomalies)) == 100


def test_what_two_shards_tell_alike_is_told_once() -> None:
    twice = [one for _ in range(2) for one in shard(-1, 50).anomalies]
    assert sum(one.count for one in cap(PROMISE, twice)) == 50


def test_when_all_of_many_were_done_is_known_where_each_reports_it() -> None:
    def found_in(begin: int, acted_ns: np.ndarray | None) -> Partial:
        found = Findings(PROMISE)
        each = np.arange(begin, begin + 50)
        found.add_each("gone", each, lambda n: found.add("gone", f"{n}", int(n)), acted_ns=acted_ns)
        return found.partial()

    times = np.arange(100) << LEAST_SHIFT
    first, second = found_in(0, times[:50]), found_in(50, times[50:])
    verdict = decide(PROMISE, first.merge(second))
    assert verdict.moments == {"gone": moments_of(times, whole=True)}
    assert not decide(PROMISE, first.merge(found_in(50, None))).moments["gone"].whole
    one = Findings(PROMISE)
    one.add("gone", "it is", 7, acted_ns=int(times[7]))
    assert one.partial().moments == {"gone": moments_of(times[7:8], whole=True)}
    one.add("gone", "it is", 8)
    assert not one.partial().moments["gone"].whole


PERMITTING = Promise(
    name="kept",
    place=1,
    meaning="Things are kept.",
    anomalies=(
        AnomalyKind(name="gone", meaning="a thing is gone"),
        AnomalyKind(name="gone-by-policy", meaning="the same by policy", lawful=True, by_policy=True),
    ),
)
ASYNC = "`flush: async` allows at the power cut of 12.0 s"
ACKS = "`acks: 1` allows at the switch of 14.0 s"


def permitted(queue: int, begin: int, **numbers: int) -> Partial:
    """So many losses of each policy in one range of one queue."""
    found = Findings(PERMITTING)
    for name, policy in {"flushed": ASYNC, "acked": ACKS}.items():
        each = np.arange(begin, begin + numbers[name])
        tell = partial(_tell, found, queue, policy)
        found.add_each("gone-by-policy", each, tell, queues=np.full(len(each), queue), policy=policy)
    return found.partial()


def _tell(found: Findings, queue: int, policy: str, at: int) -> None:
    found.add("gone-by-policy", f"{queue}/{at}", at, queue=queue, offset=at, policy=policy)


def totals(anomalies: tuple[Anomaly, ...]) -> dict[str, int]:
    assert all(one.lawful and one.by_policy for one in anomalies)
    told: dict[str, int] = {}
    for one in anomalies:
        told[one.policy] = told.get(one.policy, 0) + one.count
    return told


def test_losses_of_each_policy_are_counted_whole_however_their_rows_were_parted() -> None:
    ranges = [permitted(0, 0, flushed=30, acked=1), permitted(0, 500, flushed=30, acked=45)]
    for parts in (ranges, [*ranges, permitted(1, 0, flushed=7, acked=0)]):
        joined = reduce(Partial.merge, parts)
        capped = cap(PERMITTING, joined.anomalies)
        assert totals(capped) == {ASYNC: 60 + 7 * (len(parts) - 2), ACKS: 46}
        assert cap(PERMITTING, reduce(lambda late, early: early.merge(late), parts).anomalies) == capped
        assert totals(cap(PERMITTING, capped)) == totals(capped)
    assert len([one for one in capped if one.rows]) == MAX_REPORTED


def test_a_policy_excuses_only_what_is_declared_as_permitted() -> None:
    with pytest.raises(ValueError, match="declares 'gone' as nothing by policy"):
        Findings(PERMITTING).add("gone", "a thing", 1, policy=ASYNC)
    with pytest.raises(ValueError, match="what the profile permits is allowed"):
        AnomalyKind(name="gone", meaning="a thing is gone", by_policy=True)


def test_a_part_of_a_law_that_needs_nothing_and_counts_nothing_is_valid_unless_its_partial_says_why_not() -> None:
    found = decide(PROMISE, Partial(), unless="no workload uses queues")
    assert found.validity is Validity.VALID
    found = decide(PROMISE, Partial(not_owed="there is no store"))
    assert (found.validity, found.why) == (Validity.NOT_APPLICABLE, "there is no store")
