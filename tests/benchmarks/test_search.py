"""The comparison of a search that learns with random seeds: what it tries are experiments, and no try is done twice."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from benchmarks import search
from chaos.experiment.reader import load
from reference.mutants import MUTANTS
from stormproof.launch import SIM
from stormproof.shrinking.document import text

(PLANTED,) = (one for one in MUTANTS if one.name == "ack-before-replication")


def test_what_is_changed_stays_an_experiment(tmp_path: Path) -> None:
    rng, file = Random(1), tmp_path / "search.yaml"
    kept = [search._of_seed(seed, PLANTED.name, tmp_path) for seed in (1, 2)]
    texts = set()
    for _ in range(20):
        document, seed = search.mutated(rng, kept)
        file.write_text(text(document))
        assert load(file, deployment=SIM, mutant=PLANTED.name).faults
        texts.add(file.read_text())
        kept.append((document, seed))
    assert len(texts) > 10


@pytest.mark.parametrize("learned", [False, True])
def test_a_try_counts_the_runs_until_the_bug_is_found(learned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter(range(1, 100))
    monkeypatch.setattr(
        search, "_shown", lambda *_: search.Shown(found=(n := next(runs)) == 7, seen=frozenset({str(n)}))
    )
    assert search.tried(PLANTED, 0, learned=learned) == 7
    monkeypatch.setattr(search, "_shown", lambda *_: search.Shown(found=False, seen=frozenset()))
    assert search.tried(PLANTED, 0, learned=learned) == 0


def test_only_tries_of_this_code_are_known(tmp_path: Path) -> None:
    file = tmp_path / "search.jsonl"
    assert search.known(file, "a") == {}
    line = {"mutant": "m", "try": 0, "learned": True, "runs": 3}
    file.write_text(json.dumps({**line, "code": "a"}) + "\n" + json.dumps({**line, "try": 1, "code": "b"}) + "\n")
    assert search.known(file, "a") == {("m", 0, True): 3}


def test_a_try_without_a_find_counts_as_more_than_all_runs() -> None:
    assert search.row("m", [0, 3, 0], [1, 2, 0]) == "| `m` | 3 | more than 25 | 2 | 1 of 3 | 2 of 3 |"
