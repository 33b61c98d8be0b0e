"""Laws of queues take for gone what groups have trimmed, and nothing else."""

from __future__ import annotations

import pytest

from chaos.judging.declared import Declared
from chaos.judging.registry import registry
from chaos.judging.shard import Shard
from chaos.verdict import Validity
from tests.checkers.names import A, L
from tests.checkers.storage.clusters import STORES, Cluster, cluster

QUEUES = [{"index": 0, "topic": "t", "queue_id": 3}]
OF_QUEUES = (L.DURABILITY, L.PROGRESS, L.CONSUMERS, L.NO_ROLLBACK)


def read(*, start: int, number: int = 3, topic: int = 20, again: bool = False, begin: int = 2) -> Cluster:
    """Five messages of queue 3 of topic 20 were acknowledged, and the drain is given those from an offset on."""
    it = cluster(queues=QUEUES)
    it.meta["tells"] = [*it.meta["tells"], "final-logs"]
    it.topic("t", 20)
    it.topic("u", 21)
    for sequence in range(5):
        it.send(sequence)
    it.trim(0, topic, 1, starts={str(number): start})
    if again:
        it.topic("t", 30)
        it.trim(0, 30, 2, starts={str(number): 1})
    it.phase("heal")
    it.phase("recover")
    it.recovered()
    it.phase("drain")
    it.drain(*range(begin, 5), begin=begin, end=5)
    it.phase("collect")
    it.phase("stop")
    return it


def test_what_was_trimmed_is_not_lost() -> None:
    read(start=2).expect(L.DURABILITY, validity=Validity.VALID)
    read(start=3).expect(L.DURABILITY, validity=Validity.VALID)


@pytest.mark.parametrize("told", [{"start": 1}, {"start": 2, "number": 2}, {"start": 2, "topic": 21}])
def test_what_was_not_trimmed_is_lost(told: dict[str, int]) -> None:
    read(**told).expect(L.DURABILITY, A.LOST, validity=Validity.INVALID)  # type: ignore[arg-type]


def test_of_a_topic_that_was_made_again_nothing_is_known() -> None:
    read(start=2, again=True).expect(L.DURABILITY, validity=Validity.UNKNOWN)


def test_a_lost_host_may_have_trimmed_more() -> None:
    it = read(start=1)
    it.row("harness", f="host_lost")
    it.expect(L.DURABILITY, validity=Validity.UNKNOWN)


@pytest.mark.parametrize("law", OF_QUEUES)
def test_they_declare_what_they_read(law: str) -> None:
    it = read(start=2)
    for number in registry().of(law):
        kernel = registry().kernels[number]
        kernel.examine(Declared(Shard(it.table()), kernel.needs, strict=True), it.context())


def held(*sequences: int, complete: tuple[str, ...] = STORES) -> Cluster:
    """As :func:`read`, and what the stores hold in the end."""
    it = read(start=2)
    for store in STORES:
        it.log(store, *sequences, begin=2)
    for store in complete:
        it.row("final", f="complete", node=store)
    return it


def test_what_a_broker_has_in_memory_alone_is_lost() -> None:
    held(2, 3, 4).expect(L.DURABILITY, validity=Validity.VALID)
    found = held(2, 3).expect(L.DURABILITY, A.LOST, validity=Validity.INVALID).anomalies[0]
    assert "the final content of every replica" in found.explanation
    held(2, 3, complete=STORES[:2]).expect(L.DURABILITY, validity=Validity.VALID)  # the third may hold it
    assert held(2, 3).verdict(L.DURABILITY).counts["lost"] == 1
