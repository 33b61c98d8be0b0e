"""Nothing goes before its topic's rule allows, and nothing stays much longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.names import A, L
from tests.checkers.storage.clusters import STORES, Cluster, cluster, digest

LAW = L.RETENTION
#: What wall clocks show when the run begins.
WALL_MS = 1_700_000_000_000
TOPIC, OTHER = 20, 21


def written() -> Cluster:
    """Topic 20 keeps 5 s, topic 21 keeps 100 bytes. Group 0 has 300 sealed bytes of each, in three segments."""
    it = cluster()
    it.topic("t", TOPIC, retain_ms=5_000)
    it.topic("u", OTHER, retain_bytes=100)
    it.fence(0, 1)
    for place in range(3):
        it.add(0, 1, 200 * place, 200 * (place + 1))
        index = it.seal(0, TOPIC, 200 * place, 200 * (place + 1), 2 * place)
        it.seal(0, OTHER, 200 * place, 200 * (place + 1), 2 * place + 1, index=index)
    for row in it.rows:
        if row["f"] == "sealed":
            row["value"] = row["value"].replace('"size": 200', '"size": 100')
    return it


def by_time(it: Cluster, **more: Any) -> None:
    told = {"now_ms": WALL_MS + 60_000, "newest_ms": WALL_MS + 50_000, "size_bytes": 300, "left_bytes": 200}
    it.trim(0, TOPIC, more.pop("version", 1), **{**told, **more})


def by_size(it: Cluster, **more: Any) -> None:
    told = {"now_ms": WALL_MS + 60_000, "newest_ms": WALL_MS + 59_000, "size_bytes": 300, "left_bytes": 100}
    it.trim(0, OTHER, 1, "size", **{**told, **more})


def trimmed() -> Cluster:
    it = written()
    by_time(it)
    by_size(it)
    it.trim(0, TOPIC, 1, now_ms=WALL_MS + 61_000, newest_ms=WALL_MS + 56_000, size_bytes=200, left_bytes=100)
    return it


def finished(
    it: Cluster, *, calm_s: float = 40, oldest_ms: int = 20_000, kept_bytes: int = 199, late_bytes: int = 0
) -> Cluster:
    """After so long a calm, and then so many bytes more, stores hold so much of the topic with a limit by size, the
    oldest 100 bytes of it in a sealed segment."""
    it.phase("recover")
    it.recovered()
    it.wait(calm_s)
    if late_bytes:
        it.add(0, 1, 600, 600 + late_bytes)
    it.phase("collect")
    kept = {str(TOPIC): [WALL_MS + oldest_ms, 100], str(OTHER): [WALL_MS, kept_bytes]}
    segments = [[topic, 400, 600, digest(place), "local"] for place, topic in enumerate((TOPIC, OTHER), 4)]
    for store in range(3):
        it.final(store, 0, 600 + late_bytes, kept=kept, segments=segments, now_ms=WALL_MS + 54_999)
    return it


def test_trims_that_their_rules_allow_keep_the_promise() -> None:
    verdict = finished(trimmed()).expect(LAW, validity=Validity.VALID)
    assert verdict.counts == {"trims": 3, "kept_topics": 6}


def test_what_has_come_lately_may_be_beyond_a_limit() -> None:
    finished(trimmed(), kept_bytes=249, late_bytes=50).expect(LAW, validity=Validity.VALID)
    finished(trimmed(), kept_bytes=250, late_bytes=50).expect(LAW, A.KEPT_TOO_LONG, validity=Validity.INVALID)
    finished(trimmed(), kept_bytes=200, calm_s=29).expect(LAW, validity=Validity.VALID)


def test_a_rule_that_is_new_has_not_let_anything_go_long_ago() -> None:
    it = trimmed()
    it.topic("t", TOPIC, retain_ms=1)
    finished(it, calm_s=29, oldest_ms=20_000).expect(LAW, validity=Validity.VALID)
    it = trimmed()
    it.topic("t", TOPIC, retain_ms=1)
    finished(it, calm_s=31, oldest_ms=20_000).expect(LAW, A.KEPT_TOO_LONG, validity=Validity.INVALID)


def test_no_clock_shows_elsewhere_since_when_there_is_too_much() -> None:
    it = finished(trimmed(), kept_bytes=200)
    it.meta["deployment"] = "process"
    it.expect(LAW, validity=Validity.UNKNOWN)
    it = finished(trimmed())
    it.meta["deployment"] = "process"
    it.expect(LAW, validity=Validity.VALID)


def _young(it: Cluster) -> None:
    by_time(it, now_ms=WALL_MS + 62_000, newest_ms=WALL_MS + 57_001, size_bytes=100, left_bytes=0)


def _too_much(it: Cluster) -> None:
    by_size(it, now_ms=WALL_MS + 62_000, size_bytes=100, left_bytes=99)


def _no_limit(it: Cluster) -> None:
    it.trim(0, OTHER, 1, now_ms=WALL_MS + 62_000, newest_ms=WALL_MS, size_bytes=100, left_bytes=0)


def _unknown_version(it: Cluster) -> None:
    by_time(it, now_ms=WALL_MS + 62_000, size_bytes=100, left_bytes=0, version=2)


def _living_topic(it: Cluster) -> None:
    it.trim(0, TOPIC, 1, "deleted", now_ms=WALL_MS + 62_000, size_bytes=100, left_bytes=0)


def _made_again(it: Cluster) -> None:
    """The new topic's rule is used on the old one's messages."""
    it.topic("t", TOPIC, deleted=True)
    it.topic("t", 30, retain_ms=1)
    by_time(it, version=3, now_ms=WALL_MS + 62_000, size_bytes=100, left_bytes=0)


def _counted_twice(it: Cluster) -> None:
    by_size(it, now_ms=WALL_MS + 62_000, size_bytes=200, left_bytes=100)


def _time_back(it: Cluster) -> None:
    by_time(it, now_ms=WALL_MS + 60_999, size_bytes=100, left_bytes=0)


def _old(it: Cluster) -> None:
    finished(it, oldest_ms=19_000)


def _large(it: Cluster) -> None:
    finished(it, kept_bytes=200)


def _same_id(it: Cluster) -> None:
    it.topic("t", TOPIC, deleted=True)
    it.topic("t", TOPIC)


def _same_id_elsewhere(it: Cluster) -> None:
    it.topic("v", OTHER, retain_bytes=100)


BREACHES: dict[Callable[[Cluster], None], tuple[str, ...]] = {
    _young: (A.TRIMMED_EARLY,),
    _too_much: (A.TRIMMED_EARLY,),
    _no_limit: (A.TRIMMED_EARLY,),
    _unknown_version: (A.TRIMMED_BY_WRONG_RULE,),
    _living_topic: (A.TRIMMED_BY_WRONG_RULE,),
    _made_again: (A.TRIMMED_BY_WRONG_RULE,),
    _counted_twice: (A.SIZE_OVERCOUNTED,),
    _time_back: (A.LOGGED_TIME_WENT_BACK,),
    _old: (A.KEPT_TOO_LONG,),
    _large: (A.KEPT_TOO_LONG,),
    _same_id: (A.TOPIC_ID_USED_AGAIN,),
    _same_id_elsewhere: (A.TOPIC_ID_USED_AGAIN,),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_each_breach_is_found(breach: Callable[[Cluster], None]) -> None:
    it = trimmed()
    breach(it)
    verdict = it.expect(LAW, *BREACHES[breach], validity=Validity.INVALID)
    assert all(anomaly.rows for anomaly in verdict.anomalies)


def test_a_deleted_topic_goes_by_whatever_its_name_says_later() -> None:
    it = trimmed()
    it.topic("t", TOPIC, deleted=True)
    it.topic("t", 30, retain_ms=100_000)
    it.trim(0, TOPIC, 3, "deleted", now_ms=WALL_MS + 62_000, size_bytes=100, left_bytes=0)
    it.expect(LAW, validity=Validity.VALID)


def test_what_is_kept_shortly_after_a_fault_is_unknown() -> None:
    it = trimmed()
    it.wait(40)
    it.undo("kill", it.inject("kill", STORES[0]))
    finished(it, calm_s=5, oldest_ms=0).expect(LAW, validity=Validity.UNKNOWN)
    it = trimmed()
    it.wait(20)
    it.undo("kill", it.inject("kill", STORES[0]))
    finished(it, calm_s=15, kept_bytes=200).expect(LAW, validity=Validity.UNKNOWN)
    it = trimmed()
    it.undo("clock", it.inject("clock", "broker-0", effects={"skews_clocks": ["broker-0"]}))
    finished(it, oldest_ms=0).expect(LAW, validity=Validity.UNKNOWN)


def skewed(*stores: str) -> Cluster:
    """Clocks of stores are set forward by a year; then something is trimmed by the right time, and by that one."""
    it = written()
    for store in stores:
        it.inject("clock", store, effects={"skews_clocks": [store]})
        shown = it.rows[-1]["value"]
        wall_ns = (WALL_MS * 1_000_000) + it.now_ns
        it.rows[-1]["value"] = shown.replace('{"seen": true}', f'{{"{store}": {{"wall_before_ns": {wall_ns}}}}}')
    by_time(it, now_ms=WALL_MS + it.now_ns // 1_000_000 + 1_500, newest_ms=WALL_MS - 5_000)
    by_time(it, now_ms=WALL_MS + it.now_ns // 1_000_000 + 31_536_000_000, size_bytes=200, left_bytes=100)
    return it


@pytest.mark.parametrize(("stores", "found"), [(STORES[:1], True), (STORES[:2], False)])
def test_one_clock_trims_nothing(stores: tuple[str, ...], found: bool) -> None:
    skewed(*stores).expect(LAW, *[A.ONE_CLOCK_FOLLOWED] * found)
    it = skewed(*stores)
    it.meta["deployment"] = "process"
    it.expect(LAW, validity=Validity.VALID)


def test_where_nothing_had_to_go_it_is_not_exercised() -> None:
    cluster().expect(LAW, validity=Validity.NOT_APPLICABLE)


def test_a_log_that_is_not_whole_leaves_the_verdict_unknown() -> None:
    it = trimmed()
    it.revision += 1
    it.topic("v", 40)
    _unknown_version(it)
    it.expect(LAW, validity=Validity.UNKNOWN)


def test_it_keeps_the_contract_of_laws() -> None:
    bad = [(skewed(STORES[0]).table(), [A.ONE_CLOCK_FOLLOWED])]
    for breach, names in BREACHES.items():
        it = trimmed()
        breach(it)
        bad.append((it.table(), [*names]))
    kernels = [registry().kernels[number] for number in registry().of(LAW)]
    good, lately = finished(trimmed()), finished(trimmed(), kept_bytes=249, late_bytes=50)
    check_law(kernels, bad=bad, near_miss=[good.table(), lately.table()], context=good.context())
