"""Few of the commits that replicas tell of decide what they have to know, and no more is found with all of them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chaos.history.run_meta import RunMeta
from chaos.law import RunContext
from checkers.agreement.metadata import Metadata
from tests.checkers.harms import EMPTIED, HARMS
from tests.checkers.histories import REPORTED, parts_for
from tests.checkers.recorded import recording
from tests.checkers.test_sieves import partial_of, whole

LAW = Metadata()
NODES = ("a", "b", "c")


def replicas(rng: Random) -> pa.Table:
    """Commits that take effect on nodes of two replica groups, at about the same positions; what nodes know when they
    begin anew and after the run, mostly all of it."""
    told: list[dict[str, Any]] = [{"kind": "harness", "f": "phase", "value": '{"phase":"load"}'}]
    known: dict[str, dict[str, int]] = {"g": {}, "h": {}}
    position = 0
    for _ in range(rng.choice((5, 40, 150))):
        position += rng.choice((0, 1, 5)) - (rng.random() < 0.1) * rng.randrange(20)
        group, queue, offset = rng.choice(("g", "h")), rng.choice((-1, 0, 1)), rng.randrange(50)
        row = {"kind": "trace", "node": rng.choice(NODES), "position": position, "queue": queue}
        if rng.random() < 0.1:
            told.append(row | {"f": "bootstrap", "value": json.dumps({"groups": known if rng.random() < 0.6 else {}})})
            continue
        told.append(row | {"f": "commit", "offset": offset, "value": json.dumps({"group": group})})
        known[group] = {**known[group], str(queue): offset}
    for node in NODES:
        confirm = position - rng.choice((0, 0, 10))
        of = {"confirm": confirm, "end": position, "group": rng.choice(("", "", "x"))}
        told.append({"kind": "final", "f": "node", "node": node, "value": json.dumps(of)})
        told.append({"kind": "final", "f": "offsets", "node": node, "value": json.dumps({"groups": known})})
        if rng.random() < 0.9:
            told.append({"kind": "final", "f": "complete", "node": node})
    return whole([{"time_ns": 0, **row} for row in [*told, {"kind": "harness", "f": "recovered"}]])


def check(table: pa.Table, context: RunContext) -> tuple[int, int]:
    """Returns how many anomalies there are, and how many commits were left out."""
    (held,) = parts_for(LAW, table, table.num_rows)
    found = partial_of(LAW, table, context)
    assert partial_of(LAW, held, context) == found
    commits = [int(np.sum(some["f"].cast(pa.string()).to_numpy() == "commit")) for some in (table, held)]
    return len(found["anomalies"]), commits[0] - commits[1]


def check_random(seeds: range) -> None:
    context = RunContext(run="random", seed=0, meta=RunMeta.of({"deployment": "process", "tells": [*REPORTED]}))
    found = [check(replicas(Random(f"commits {seed}")), context) for seed in seeds]
    anomalies, left_out = (sum(some) for some in zip(*found, strict=True))
    assert anomalies > len(seeds) and left_out > 10 * len(seeds)


def test_replicas_are_judged_alike_by_few_commits() -> None:
    check_random(range(60))


@pytest.mark.full
def test_replicas_are_judged_alike_by_few_commits_of_many_histories() -> None:
    check_random(range(60, 500))


@pytest.mark.full
def test_replicas_are_judged_alike_by_few_commits_of_harmed_runs() -> None:
    for number, harm in enumerate([*HARMS, *EMPTIED]):
        run = recording().copy()
        harm(run, Random(f"commits {number}"))
        check(run.table(), RunContext(run=harm.__name__, seed=0, meta=RunMeta.of(run.meta)))
