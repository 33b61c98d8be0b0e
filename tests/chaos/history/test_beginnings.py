"""The row that ends an operation repeats its beginning, also where another program recorded it."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from chaos.history.beginnings import Beginnings
from chaos.history.columns import COLUMNS, GIVEN, REPEATED
from chaos.history.history import History
from chaos.history.recorder import Recorder
from chaos.history.stream import SCHEMA

SCHEMA_OF_GIVEN = pa.schema([SCHEMA.field(name) for name in GIVEN])


def record(run: Path, seed: int, rows: int = 150) -> pa.Table:
    """Record operations that begin and end in any order, some twice, some never, some as another one."""
    rng, begun = Random(seed), [1 << 40]
    run.mkdir(exist_ok=True)
    recorder = Recorder(run, iter(range(1, 1 << 20)).__next__, batch_rows=7, batch_ns=None)
    values = ({}, {"group": "g"}, {"group": "ä", "n": 1}, {"n": 12, "group": "ä", "more": [1]})
    for _ in range(rows):
        kind, f = rng.choice(("op", "op", "op", "poll", "harness")), rng.choice(("send", "pull", "delivered"))
        row = {"f": f, "value": rng.choice(values), "offset": rng.randrange(-1, 5)}
        if rng.random() < 0.5:
            begun.append(recorder.record(kind, type="invoke", **row))
        else:
            recorder.record(kind, type=rng.choice(("ok", "info", "")), op=rng.choice(begun[-5:]), **row)
    recorder.close()
    return History.open(run).table


@pytest.mark.parametrize("seed", range(20))
def test_what_is_found_again_is_what_would_have_been_recorded(seed: int, tmp_path: Path) -> None:
    table = record(tmp_path, seed)
    assert any(began >= 0 for began in table["began_ns"].to_pylist())
    former, rng = table.select(GIVEN), Random(seed)
    completed, pieces, at = Beginnings(), [], 0
    while at < table.num_rows:
        pieces.append(completed.repeat(former.slice(at, size := rng.randrange(1, 40))).cast(SCHEMA))
        at += size
    assert pa.concat_tables(pieces).unify_dictionaries().to_pylist() == table.to_pylist()


@pytest.mark.parametrize("seed", range(10))
def test_an_end_repeats_the_beginning_that_it_names(seed: int, tmp_path: Path) -> None:
    rows = record(tmp_path, seed).to_pylist()
    ended = set()
    for row in rows:
        begun = rows[row["op"]] if 0 <= row["op"] < row["index"] else None
        is_end = (
            begun is not None
            and row["kind"] == begun["kind"] == "op"
            and (row["type"], begun["type"]) != ("invoke", "")
            and row["type"] != "invoke"
            and begun["type"] == "invoke"
            and row["f"] == begun["f"] != "delivered"
            and row["op"] not in ended
        )
        if not is_end or begun is None:
            assert [row[name] for name in REPEATED] == [-1, -1, -1]
            continue
        ended.add(row["op"])
        assert [row["began_ns"], row["began_offset"]] == [begun["time_ns"], begun["offset"]]
        given, found = (json.loads(one["value"] or "{}") for one in (begun, row))
        assert given.keys() <= found.keys()
    assert ended


def test_an_end_keeps_what_it_says_itself(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, lambda: 5)
    asked = recorder.record("op", type="invoke", f="cas", offset=3, value={"object": "x", "expected": 1})
    recorder.record("op", type="ok", f="cas", op=asked, offset=9, value={"expected": 2, "epoch": 7})
    recorder.close()
    end = History.open(tmp_path).row(1)
    assert (end.began_ns, end.began_offset, end.offset) == (5, 3, 9)
    assert end.value == {"object": "x", "expected": 2, "epoch": 7}


def test_rows_of_shards_that_repeat_nothing_are_completed() -> None:
    empty = SCHEMA.empty_table().select(GIVEN)
    assert Beginnings().repeat(empty).column_names == list(COLUMNS)


def test_a_strangers_history_may_hold_nothing_or_nonsense() -> None:
    none = dict.fromkeys(GIVEN)
    begun = {**none, "index": 0, "time_ns": 4, "kind": "op", "type": "invoke", "f": "pull", "offset": 3}
    ended = {**none, "index": 1, "op": 0, "kind": "op", "type": "ok", "f": "pull"}
    schema = SCHEMA_OF_GIVEN
    for first, last, joined in (
        ('{"a":1}', None, '{"a":1}'),
        ('{"a":"\\ud800"}', "{}", "{}"),
        ("nonsense", "[1]", "[1]"),
        (None, None, None),
        ('{"a":1}', '{"b":2}', '{"a":1,"b":2}'),
    ):
        table = pa.Table.from_pylist([{**begun, "value": first}, {**ended, "value": last}, none], schema=schema)
        found = Beginnings().repeat(table).to_pylist()
        assert [row["began_ns"] for row in found] == [-1, 4, -1] and found[1]["began_offset"] == 3
        assert found[1]["value"] == joined, first
