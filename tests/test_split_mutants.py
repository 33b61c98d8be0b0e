"""Each bug that is planted in the split system is found by the law that it was planted for, and nothing without it."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.mutants import ROOT, SPLIT, run
from chaos.verdict import Validity
from reference.split.mutants import MUTANTS, Planted
from stormproof.shipped import experiments

FULL = pytest.mark.full
#: These are short, and are looked for in each `make test`; all others in `make test-full`.
DRAWN = ("same-name-again", "orphan-is-deleted", "member-out-with-the-data")
#: With this seed the correct system must be VALID in each scenario; `make seeds` tries many more.
CORRECT_SEED = 1
#: Laws of which nothing but storage clusters gives evidence.
LAWS = ("fencing", "placement", "groups", "sealed", "replication", "retention", "stateless", "orphans")


@pytest.mark.parametrize(
    "planted", [pytest.param(one, marks=() if one.name in DRAWN else FULL, id=one.name) for one in MUTANTS]
)
def test_each_law_finds_what_was_planted_for_it(planted: Planted) -> None:
    verdict = run(SPLIT.scenario(planted), planted.name, planted.seed, draws=planted.name == DRAWN[0])
    broken = [str(law.law) for law in verdict.laws if law.validity is Validity.INVALID]
    assert planted.law in broken, (verdict.validity, broken, verdict.why)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted({*map(SPLIT.scenario, MUTANTS)}))
def test_the_correct_system_is_valid_where_they_are_found(name: str) -> None:
    verdict = run(name, "", CORRECT_SEED)
    assert verdict.validity is Validity.VALID, (verdict.anomaly_counts(), verdict.why)


def test_they_have_names_of_their_own_and_scenarios_that_exist() -> None:
    assert len({planted.name for planted in MUTANTS}) == len(MUTANTS)
    assert {*map(SPLIT.scenario, MUTANTS)} <= {*experiments(ROOT)}
    assert {*DRAWN} <= {planted.name for planted in MUTANTS}


def test_each_law_of_storage_clusters_and_that_of_consumers_have_two() -> None:
    planted = Counter(mutant.law for mutant in MUTANTS)
    assert [law for law in (*LAWS, "consumers") if planted[law] < 2] == []
