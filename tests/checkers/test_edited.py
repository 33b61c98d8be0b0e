"""A recorded run with a few rows gone, twice, or otherwise than they were is judged as by the oracles."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.history.run_meta import RunMeta
from chaos.judging.declared import Declared
from chaos.judging.shard import Shard
from chaos.law import Partial, RunContext
from tests.checkers.histories import REPORTED
from tests.checkers.recorded import Recording, Row, recording
from tests.checkers.slow.deliveries import Deliveries
from tests.checkers.slow.random_receivers import receivers
from tests.checkers.test_given import KERNELS, USES, together
from tests.checkers.test_given import told as told_of_deliveries
from tests.checkers.test_kernels import DEPLOYMENTS, PAIRS, check_alike

#: Columns that an edit takes from another row of the same kind.
COLUMNS = ("queue", "offset", "message", "hash", "position", "epoch", "node", "process", "type")
#: How often Hypothesis edits a run, of a hundred times that it tries other properties: each is judged twice.
SHARE = 10


def drop(run: Recording, row: Row, other: Row, draw: st.DrawFn) -> None:
    run.rows = [one for one in run.rows if one is not row]


def repeat(run: Recording, row: Row, other: Row, draw: st.DrawFn) -> None:
    run.insert(row)


def take(run: Recording, row: Row, other: Row, draw: st.DrawFn) -> None:
    """What the other row of its kind has in one column, or one more or less."""
    column = draw(st.sampled_from(COLUMNS))
    row[column] = other[column]
    if isinstance(row[column], int):
        row[column] = max(-1, row[column] + draw(st.sampled_from((0, 0, 1, -1))))


def exchange(run: Recording, row: Row, other: Row, draw: st.DrawFn) -> None:
    """What clients were told, or nodes did, but not when."""
    for column in COLUMNS:
        row[column], other[column] = other[column], row[column]


def renumber(run: Recording, row: Row, other: Row, draw: st.DrawFn) -> None:
    """A number of its value."""
    if numbers := [key for key, value in row["v"].items() if type(value) is int]:
        row["v"][draw(st.sampled_from(numbers))] += draw(st.sampled_from((1, -1, 7, 1000)))


EDITS: tuple[Callable[[Recording, Row, Row, st.DrawFn], None], ...] = (drop, repeat, take, take, exchange, renumber)


@st.composite
def edited(draw: st.DrawFn, whole: Recording) -> Recording:
    """A copy of the run with one to four edits."""
    run = whole.copy()
    names = sorted({(row["kind"], row["f"]) for row in run.rows if row["kind"] in ("op", "final", "trace", "fault")})
    for _ in range(draw(st.integers(1, 4))):
        kind, f = draw(st.sampled_from(names))
        rows = run.find(kind, f)
        if rows:
            edit = draw(st.sampled_from(EDITS))
            edit(run, draw(st.sampled_from(rows)), draw(st.sampled_from(rows)), draw)
    return run


@cache
def given_to_groups() -> Recording:
    rows: list[dict[str, Any]] = receivers(Random("edited 3")).to_pylist()
    for row in rows:
        row["v"] = json.loads(row.pop("value") or "{}")
    return Recording(rows, {"deployment": "sim", "tells": list(REPORTED), "uses": USES})


@settings(max_examples=settings.default.max_examples * SHARE // 100)
@given(st.data(), st.sampled_from(DEPLOYMENTS))
def test_an_edited_run_is_judged_as_by_each_oracle(data: st.DataObject, deployment: str) -> None:
    run = data.draw(edited(recording()))
    table, context = (
        run.table(),
        RunContext(run="edited", seed=0, meta=RunMeta.of({**run.meta, "deployment": deployment})),
    )
    for name in PAIRS:
        check_alike(name, table, context)


@settings(max_examples=settings.default.max_examples * 4 * SHARE // 100)
@given(st.data())
def test_an_edited_run_of_groups_is_judged_as_by_the_oracle(data: st.DataObject) -> None:
    run = data.draw(edited(given_to_groups()))
    rows, context, oracle = (
        Shard(run.table()),
        RunContext(run="edited", seed=0, meta=RunMeta.of(run.meta)),
        Deliveries(),
    )
    found = Partial()
    for law in KERNELS:
        found = found.merge(law.examine(Declared(rows, law.needs), context))
    assert told_of_deliveries(together(found)) == told_of_deliveries(
        oracle.examine(Declared(rows, oracle.needs), context)
    )
