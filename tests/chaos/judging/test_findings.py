"""Findings of many shards become the counts that one shard would have told."""

from __future__ import annotations

import numpy as np

from chaos.judging.findings import MAX_REPORTED, Findings, cap
from chaos.law import AnomalyKind, Partial, Promise

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
