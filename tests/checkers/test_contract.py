"""All our laws keep the contract that laws of others are held to."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from chaos.history.run_meta import RunMeta
from chaos.judging.registry import registry
from chaos.law import RunContext
from chaos.testing.laws import check_law
from tests.checkers.harms import HARMS
from tests.checkers.names import LAWS, OF_STORAGE
from tests.checkers.recorded import EXPERIMENT, Recording, record

#: They are held to it beside their own histories, as are those of storage clusters.
WITHOUT_RECORDED = ("answers", "deliveries", "isolation", "linearizable", "log", "watched-views", *OF_STORAGE)


#: A law is asked a hundred times about each history: a third of the messages show it as much.
SPARSE = EXPERIMENT.replace("rate_per_s: 40", "rate_per_s: 13")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(tmp_path_factory.mktemp("recorded"), experiment=SPARSE)


@pytest.mark.parametrize("name", [law for law in LAWS if law not in WITHOUT_RECORDED])
def test_every_law_keeps_the_contract(name: str, good: Recording) -> None:
    known = registry()
    kernels = [known.kernels[number] for number in known.of(name)]
    own = {kind.name for kind in kernels[0].promise.anomalies}
    others = {kind.name for promise in known.promises if promise.name != name for kind in promise.anomalies}
    bad = []
    for harm, anomaly in HARMS.items():
        if anomaly in own - others and not bad:
            run = good.copy()
            harm(run, Random(1))
            bad.append((run.table(), _violations(run, name)))
            assert anomaly in bad[-1][1]
    context = RunContext(run="r", seed=1, meta=RunMeta.of(good.meta))
    check_law(kernels, bad=bad, near_miss=[good.table()], context=context)


@pytest.mark.parametrize(
    ("cut", "words"),
    [({"rows": ()}, "which it does not declare"), ({"columns": ("time_ns",)}, "which it does not declare")],
)
def test_a_law_that_declares_too_little_is_found(cut: dict[str, Any], words: str, good: Recording) -> None:
    context = RunContext(run="r", seed=1, meta=RunMeta.of(good.meta))
    order = next(law for law in registry().kernels.values() if law.promise.name == "order")
    with pytest.raises(AssertionError, match=words):
        check_law(type(order)(needs=replace(order.needs, **cut)), bad=[], near_miss=[good.table()], context=context)


def _violations(run: Recording, law: str) -> list[str]:
    from chaos.judging.engine import judge_rows

    context = RunContext(run="r", seed=1, meta=RunMeta.of(run.meta))
    found = next(verdict for verdict in judge_rows([("all-0", run.table())], context) if verdict.law == law)
    return sorted({anomaly.name for anomaly in found.anomalies if not anomaly.lawful})
