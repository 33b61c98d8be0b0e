"""A shard that is read from a file has the rows that were written, however the file tells them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.history.columns import COLUMNS, INTEGERS, WORDS
from chaos.history.shards import FORM
from chaos.judging import forms
from chaos.judging.shard import Shard
from tests.checkers.histories import table_of


def whole(told: list[dict[str, Any]]) -> pa.Table:
    """These rows with all columns of a history, numbered."""
    none = {name: -1 if name in INTEGERS else "" for name in COLUMNS}
    return table_of([none | {"index": at, "time_ns": at} | row for at, row in enumerate(told)])


def rows(count: int) -> pa.Table:
    """Rows with columns of one number, of one number but for the last row, and of many."""
    told = [
        {"kind": "op", "f": "pull", "queue": 3, "offset": at, "epoch": 2, "position": 5 if at + 1 < count else 6}
        for at in range(count)
    ]
    return whole(told)


@pytest.mark.parametrize(("count", "group"), [(1, 10), (9, 10), (9, 4), (9, 8)])
def test_columns_of_one_number_are_those_that_were_written(tmp_path: Path, count: int, group: int) -> None:
    table, path = rows(count), tmp_path / "all-0.parquet"
    pq.write_table(table, path, row_group_size=group, **FORM)
    read, held = Shard.read(path), Shard(table)
    assert len(read) == count
    for name in (*INTEGERS, *WORDS):
        assert read.column(name).tolist() == held.column(name).tolist(), name
    assert read.where(kind="op", f="pull").tolist() == [*range(count)]
    assert not len(read.where(kind="op", f="send"))


def test_a_column_with_rows_that_lack_it_is_not_taken_for_one_number(tmp_path: Path) -> None:
    table, path = rows(4), tmp_path / "all-0.parquet"
    lacking = pa.array([7, None, 7, 7], pa.int64())
    pq.write_table(table.set_column(table.column_names.index("message"), "message", lacking), path, **FORM)
    assert Shard.read(path).column("message").tolist() == [7, -1, 7, 7]


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "all-0.parquet"
    pq.write_table(rows(4).drop_columns(["epoch"]), path, **FORM)
    with pytest.raises(KeyError, match="it has no column epoch"):
        Shard.read(path)


def test_what_stands_under_a_key_is_the_same_whoever_asked_before() -> None:
    rng = Random(1)
    values = [json.dumps(rng.choice(({"n": rng.randrange(5)}, {"g": rng.choice("ab")}, {"m": 1}))) for _ in range(80)]
    values += ["", ""]
    rng.shuffle(values)
    table = whole([{"kind": "op", "f": "x", "value": value} for value in values])
    asked = Shard(table)
    for _ in range(20):
        at = np.array(sorted(rng.sample(range(len(values)), rng.randrange(len(values)))), dtype=np.int64)
        fresh = Shard(table)
        assert asked.numbers("n", at).tolist() == fresh.numbers("n", at).tolist()
        assert asked.words("g", at) == fresh.words("g", at)
        told = [json.loads(values[place] or "{}") for place in at.tolist()]
        assert asked.numbers("n", at).tolist() == [value.get("n", -1) for value in told]
        assert asked.words("g", at) == [value.get("g", "") for value in told]


def test_few_texts_are_searched_as_many_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(2)
    blanks = ("", " ", "\t\n", "\r\f", "\v", "\u00a0")
    words = ("a", "", "b b", "\u00e9\u4e2d", 'q\\"q', "x\\\\", "\n", "\u0661")
    numbers = ("0", "-0", "7", "-12", "007", str(2**63 - 1), str(-(2**63)), "1.5", "1e3", "\u0661", "null", "-", '"3"')
    values = ["", "n", '{"n":', '"n":1"n":2']
    for _ in range(400):
        n, g = (
            f'"{key}":{rng.choice(blanks)}{what}'
            for key, what in (("n", rng.choice(numbers)), ("g", f'"{rng.choice(words)}"'))
        )
        values.append(rng.choice(("{%s,%s}", "{%s}%s", "%s%s")) % tuple(rng.sample([n, g], 2)))
    table = whole([{"kind": "op", "f": "x", "value": value} for value in values])
    at = np.arange(len(values))
    found = []
    for few in (0, len(values)):
        monkeypatch.setattr(forms, "FEW", few)
        found.append(
            (Shard(table).numbers("n", at).tolist(), Shard(table).words("g", at), Shard(table).labels("g", at)[1])
        )
    assert found[0] == found[1] and len(set(found[0][0])) > 5 and len(set(found[0][1])) > 5
    for few in (0, 9):
        monkeypatch.setattr(forms, "FEW", few)
        for number in (2**63, -(2**63) - 1, 10**30):
            with pytest.raises(pa.ArrowInvalid):
                Shard(whole([{"kind": "op", "f": "x", "value": f'{{"n":{number}}}'}])).numbers("n", at[:1])
