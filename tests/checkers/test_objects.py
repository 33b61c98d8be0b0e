"""What the tier holds is told by ranges of offsets, shard by shard, and compared with what it claims to hold."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from random import Random

import pyarrow as pa
import pytest

from chaos.history.run_meta import RunMeta
from chaos.judging.declared import Declared
from chaos.judging.engine import examine_whole, verdicts
from chaos.judging.registry import registry
from chaos.judging.shard import Shard
from chaos.kernel import Kernel
from chaos.law import Partial, RunContext
from chaos.verdict import Validity
from checkers.tier_continuity import objects
from checkers.tier_continuity.objects import OF_ALL, OF_EACH, TierContent, is_complete
from tests.checkers.histories import BROKERS, History, parts_for
from tests.checkers.names import A, L
from tests.checkers.test_own_tiers import META
from tests.checkers.test_ranges import KERNELS, OFFSETS, check, merged
from tests.checkers.test_tier import Tiered, good

QUEUES = 3


def law_of(part: str) -> Kernel:
    (law,) = (law for law in registry().kernels.values() if law.needs.part == part)
    return law


def tier(rng: Random, nodes: Sequence[str]) -> History:
    """Records of some queues, some of which are not there, or there twice."""
    history = History(meta={**META, "deployment": "sim"})
    history.phase("collect")
    records = [(node, queue, offset) for node in nodes for queue in range(QUEUES) for offset in range(30)]
    odd = rng.choice((0, 0.1, 0.5))
    for node, queue, offset in rng.sample(records, len(records)):
        for _ in range(rng.choice((0, 2)) if rng.random() < odd else 1):
            history.row("final", f="tiered", node=node, queue=queue, offset=offset)
    return history


def told(law: Kernel, tables: Sequence[pa.Table], context: RunContext, rng: Random) -> Partial:
    return merged([law.examine(Declared(Shard(table), law.needs), context) for table in tables], rng)


@pytest.mark.parametrize("seeds", [20, pytest.param(60, marks=pytest.mark.full)])
@pytest.mark.parametrize("part", [OF_ALL.part, OF_EACH.part])
def test_what_is_told_in_parts_is_what_is_there(part: str, seeds: int) -> None:
    (law,) = (law for law in KERNELS.values() if law.needs.part == part)
    for seed in range(seeds):
        rng = Random(f"tier {seed}")
        of_each = part == OF_EACH.part
        history = tier(rng, BROKERS[: rng.choice((1, 2))] if of_each else ("store-0",))
        meta = history.meta if of_each else {"nodes": [{"name": "store-0", "role": "objectstore"}]}
        context = RunContext(run="random", seed=seed, meta=RunMeta.of(meta))
        parts = parts_for(law, history.table(), rng.choice((1, 20)), rng.choice(OFFSETS))
        tiers = TierContent.by_node(told(law, parts, context, rng).facts)
        rows = [row for row in history.rows if row["f"] == "tiered"]
        for node in {row["node"] for row in rows}:
            for queue in range(QUEUES):
                there = [row["offset"] for row in rows if (row["node"], row["queue"]) == (node, queue)]
                one = tiers[node if of_each else ""]
                start, end = sorted(rng.sample(range(-1, 40), 2))
                assert one.records(queue) == len(there)
                assert one.several(queue).tolist() == sorted({at for at in there if there.count(at) > 1})
                assert one.missing(queue, start, end).tolist() == sorted({*range(start, end)} - {*there})


def test_a_manifest_may_claim_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "FAR", 3)
    law = law_of(OF_ALL.part)
    history = History()
    for offset in (0, 1 << 40):
        history.row("final", f="tiered", queue=0, offset=offset)
    tiers = TierContent.by_node(told(law, [history.table()], history.context(), Random(1)).facts)
    far = 1 << 40
    assert tiers[""].missing(0, 0, 1 << 50).tolist() == [1, 2, 3, far + 1, far + 2, far + 3]
    assert tiers[""].missing(1, 5, 1 << 50).tolist() == [5, 6, 7]


@pytest.mark.parametrize("seed", range(20))
def test_manifests_are_compared_with_objects_wherever_these_are_told(seed: int) -> None:
    rng = Random(f"manifest {seed}")
    there = [*range(4)]
    if seed % 4:
        there.remove(rng.choice(there))
    history = Tiered().begin()
    history.upload(4)
    history.finals(0, 1, 2, 3)
    if seed % 2:
        history.row("final", f="tiered", queue=0, offset=rng.choice(there))
    history.rows = [row for row in history.rows if row["f"] != "tiered" or row["offset"] in there]
    (law,) = (one for one in registry().kernels.values() if one.needs.joins == (OF_ALL.part,))
    parts, found = check(law, history.table(), history.context(), rng, 1)
    assert parts and found == bool(seed % 4) + seed % 2


@pytest.mark.parametrize("joins", [OF_ALL.part, OF_EACH.part])
def test_what_an_unexamined_shard_would_have_told_is_not_missing(joins: str) -> None:
    (law,) = (one for one in registry().kernels.values() if one.needs.joins == (joins,))
    claim = {"claimed": 0, "node": "broker-0", "start": 0, "end": 9, "row": 1, "final": 2}
    tier = {"tier": "broker-0" if joins == OF_EACH.part else ""}
    some: tuple[dict[str, object], ...] = (claim, {**tier, "held": [0], "first": [0], "until": [4]})
    twice = (*some, {**tier, "several": [0], "first": [2], "until": [3]})
    context = RunContext(run="x", seed=1, meta=RunMeta.of(META if joins == OF_EACH.part else {}))
    counts = {"tier_queues": 1, "manifest_versions": 1}

    def judged(facts: tuple[dict[str, object], ...], *gaps: str) -> tuple[Validity, int]:
        verdict = law.judge(Partial(counts=counts, facts=facts, gaps=gaps), context)
        return verdict.validity, sum(one.count for one in verdict.anomalies)

    assert judged(some) == (Validity.INVALID, 5)
    assert judged(some, "a shard was lost") == (Validity.UNKNOWN, 0)
    assert judged(twice, "a shard was lost") == (Validity.INVALID, 1), "nothing that is there can be taken away"
    own = {"gap": "one queue was not read"}
    assert judged((*some, own), own["gap"]) == (Validity.INVALID, 5), "it says nothing of the others"
    assert is_complete(Partial(facts=(own,), gaps=(own["gap"],))) and not is_complete(Partial(gaps=("lost",)))


def test_gaps_of_a_kernel_itself_do_not_hide_what_others_lack() -> None:
    history = Tiered().begin()
    history.upload(4)
    history.finals(0, 1, 2, 3)
    told = {"version": 1, "outcome": "applied", "caller": "broker-0", "content": {"start": 0, "end": 0, "segments": []}}
    history.trace("store-0", "store_cas", queue=1, offset=0, position=0, epoch=1, hash=1, value=told)
    history.rows = [row for row in history.rows if (row["f"], row["offset"]) != ("tiered", 1)]
    assert "of queue 1 was not read" in history.verdict(L.TIER_CONTINUITY).why
    history.expect(L.TIER_CONTINUITY, A.TIER_MISSING_OBJECT, validity=Validity.INVALID)


def test_tiers_of_replicas_that_hold_nothing_and_need_not_are_not_judged() -> None:
    history = History(meta={**META, "uses": ["objects"]})
    history.phase("collect")
    history.expect(L.TIER_CONTINUITY, validity=Validity.NOT_APPLICABLE)
    history.meta = META
    history.expect(L.TIER_CONTINUITY, validity=Validity.UNKNOWN)


def test_rows_are_gone_as_soon_as_they_are_examined() -> None:
    """Shards of millions of rows can't wait until somebody looks for cycles of references."""
    history = good().finals(0, 1, 2, 3)
    table, context = history.table(), history.context()
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(one, Shard) for one in gc.get_objects())
        found = verdicts(context, examine_whole(table, context))
        assert sum(isinstance(one, Shard) for one in gc.get_objects()) == before
    finally:
        gc.enable()
    assert any(verdict.validity is Validity.VALID for verdict in found)
