"""What a shard says of its rows, and what it keeps of them, while kernels look at them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chaos.history.columns import COLUMNS, INTEGERS
from chaos.judging import forms, shard
from chaos.judging.shard import Shard
from tests.checkers.histories import table_of


def whole(told: list[dict[str, Any]]) -> pa.Table:
    """These rows with all columns of a history, numbered."""
    none = {name: -1 if name in INTEGERS else "" for name in COLUMNS}
    return table_of([none | {"index": at, "time_ns": at} | row for at, row in enumerate(told)])


def test_values_that_were_parsed_one_by_one_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "MOST_PARSED", 10)
    rows = Shard(whole([{"value": f'{{"n":{number}}}'} for number in range(95)]))
    for row in [*range(95), 3, 94, *range(95)]:
        assert rows.value(row) == {"n": row}
        assert len(rows._parsed) <= 10


def test_values_of_many_rows_are_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "MOST_PARSED", 10)
    monkeypatch.setattr(shard, "PARSED_AT_ONCE", 4)
    rows = Shard(whole([{"value": f'{{"n":{number}}}'} for number in range(40)]))
    for wanted in ([*range(40)], [3, 3, 39, 0], [], [7, 8, 9, 10, 7, 8]):
        rows.value(8)
        assert [*rows.values(np.array(wanted, dtype=np.int64))] == [{"n": row} for row in wanted]
        assert len(rows._parsed) <= 10


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


@pytest.mark.parametrize("kinds", [3, 1_000])
def test_texts_that_mostly_differ_are_not_compared_and_say_the_same(
    kinds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(kinds)
    drawn = [rng.randrange(kinds) for _ in range(60)]
    values = [json.dumps({"n": number, "g": str(-number)}) for number in drawn]
    table, at = whole([{"kind": "op", "f": "x", "value": value} for value in values]), np.arange(60)
    few = Shard(table)
    monkeypatch.setattr(shard, "MOST_PARSED", 50)
    monkeypatch.setattr(shard, "SAMPLE", 10)
    many = Shard(table)
    assert many.numbers("n", at).tolist() == few.numbers("n", at).tolist()
    assert many.words("g", at) == few.words("g", at) and [*many.values(at)] == [*few.values(at)]
    assert (len(many._searchable().values.dictionary) == 60) == (kinds > 60)


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
