"""What began an operation is left out where its end repeats all of it, and made again of that."""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from chaos.history.beginnings import Beginnings
from chaos.history.columns import COLUMNS, GIVEN, INTEGERS, VALUE, WORDS
from chaos.history.ends import with_beginnings, without, without_beginnings
from chaos.history.parted.choosing import Chosen, Part
from chaos.history.stream import SCHEMA
from chaos.judging.divided import parted
from chaos.judging.packing import pack, unpack
from chaos.judging.plan import _Keep
from chaos.judging.shard import Shard

VALUES: tuple[dict[str, Any], ...] = ({}, {"group": "g"}, {"group": "ä", "n": 12}, {"n": 1, "more": [1, {}]})


def operations(seed: int, rows: int = 120) -> list[dict[str, Any]]:
    """Operations of some clients, with traces between them; some have no end, some differ from it."""
    rng, made, open_ = Random(seed), [], []
    for index in range(rows):
        row: dict[str, Any] = dict.fromkeys(INTEGERS, -1) | dict.fromkeys(WORDS, "") | {"value": ""}
        row |= {"index": index, "time_ns": 10 * index, "kind": "trace", "f": "append", "node": "n"}
        made.append(row)
        at = rng.random()
        if at < 0.4:
            row |= {"kind": "op", "type": "invoke", "f": rng.choice(("send", "pull")), "node": "", "queue": index % 3}
            row |= {"process": f"p{index}", "offset": rng.randrange(-1, 5), "message": rng.randrange(-1, 9)}
            given = rng.choice(VALUES)
            row["value"] = json.dumps(given, separators=(",", ":")) if given else ""
            open_.append(index)
        elif at < 0.8 and open_:
            begun = made[open_.pop(rng.randrange(len(open_)))]
            row |= {name: begun[name] for name in ("kind", "f", "process", "queue", "message")}
            row |= {"op": begun["index"], "type": rng.choice(("ok", "fail", "info")), "offset": rng.randrange(9)}
            given = json.loads(begun["value"] or "{}") | rng.choice(({}, {"maximum": 4}, {"n": 5}))
            row["value"] = json.dumps(given, separators=(",", ":")) if given else ""
            row["queue"] = rng.choice((row["queue"], row["queue"], row["queue"], 7))
    return made


def history(seed: int) -> pa.Table:
    columns = {name: [row[name] for row in operations(seed)] for name in GIVEN}
    given = pa.schema([SCHEMA.field(name) for name in GIVEN])
    plain = {
        name: pa.array(column, pa.int64() if name in INTEGERS else pa.string()) for name, column in columns.items()
    }
    return Beginnings().repeat(pa.table(plain).cast(given)).cast(SCHEMA)


@pytest.mark.parametrize("seed", range(20))
def test_what_was_left_out_is_made_again(seed: int) -> None:
    table = history(seed)
    ends, missing = without_beginnings(table)
    assert not len(missing)
    left_out = {row["op"] for row in ends.to_pylist() if row["began_value"] >= 0}
    assert left_out and set(table["index"].to_pylist()) - set(ends["index"].to_pylist()) == left_out
    again, stands_for = with_beginnings(ends)
    assert again.sort_by("index").to_pylist() == table.to_pylist()
    assert set(stands_for.tolist()) == set(ends["index"].to_pylist())


@pytest.mark.parametrize("seed", range(20))
def test_an_operation_that_differs_from_its_end_keeps_its_beginning(seed: int) -> None:
    rows = history(seed).to_pylist()
    kept = {row["index"] for row in without_beginnings(history(seed))[0].to_pylist()}
    for row in rows:
        if row["op"] < 0 or row["kind"] != "op":
            continue
        begun = rows[row["op"]]
        first, last = (json.loads(one[VALUE] or "{}") for one in (begun, row))
        is_same = row["queue"] == begun["queue"] and all(last.get(name) == first[name] for name in first)
        assert (begun["index"] not in kept) == is_same, (begun, row)


@pytest.mark.parametrize("seed", range(10))
def test_laws_see_the_same_rows(seed: int) -> None:
    """Also of rows that came from another task."""
    table = history(seed)
    ends = without_beginnings(table)[0]
    whole = Shard(table)
    for rows in (Shard(ends), Shard(unpack(pack(ends)))):
        assert len(rows) == len(whole)
        for name in INTEGERS:
            ours, theirs = rows.column(name), whole.column(name)
            assert ours.tolist() == theirs.tolist(), name
        for name in WORDS:
            assert [rows.text(name, at) for at in range(len(rows))] == [whole.text(name, at) for at in range(len(rows))]
        assert [rows.value(at) for at in range(len(rows))] == [whole.value(at) for at in range(len(rows))]


@pytest.mark.parametrize("seed", range(10))
def test_beginnings_are_left_out_though_their_ends_come_pieces_later(seed: int) -> None:
    table, rng = history(seed), Random(seed)
    at = [0, *sorted(rng.sample(range(1, table.num_rows), 12)), table.num_rows]
    pieces = [table.slice(begin, end - begin) for begin, end in pairwise(at)]
    ((_, found),) = parted(pieces, (Part("run", "run", own=(Chosen("op"), Chosen("trace"))),), 1 << 20)
    assert found.sort_by("index").to_pylist() == without_beginnings(table)[0].to_pylist()


def test_columns_are_enough_that_an_end_needs() -> None:
    ends = without_beginnings(history(3))[0]
    few = ends.select(["index", "op", "began_ns", "began_offset", "began_value", "type"])
    again = with_beginnings(few)[0].sort_by("index")
    assert again.to_pydict() == history(3).select(again.column_names).to_pydict()
    assert with_beginnings(ends.select(["index", "type"]))[0].num_rows == ends.num_rows


def test_without_leaves_out_what_it_is_asked_to() -> None:
    table = history(1)
    assert table.column_names == list(COLUMNS)
    begun = [row["index"] for row in table.to_pylist() if row["type"] == "invoke"]
    left = without(table, table["index"].to_numpy()[begun])
    assert not [row for row in left.to_pylist() if row["type"] == "invoke"]
    assert without(left, table["index"].to_numpy()[begun]) is left


def test_what_names_no_earlier_row_is_no_end() -> None:
    """A stranger may have written 0 where there is nothing to repeat."""
    rows = history(2).to_pylist()
    zeros = [{**row, "began_value": 0 if row["op"] < 0 else row["began_value"]} for row in rows]
    later = {**rows[5], "kind": "op", "op": rows[5]["index"], "began_value": 0}
    for strange in (pa.Table.from_pylist(zeros, SCHEMA), pa.Table.from_pylist([later], SCHEMA)):
        sound = with_beginnings(strange)[0]
        assert sound["index"].to_pylist() == strange["index"].to_pylist()
        assert not len(without_beginnings(strange)[1])


def test_of_an_operation_whose_beginning_is_kept_its_end_is_kept() -> None:
    ends = without_beginnings(history(6))[0]
    kept = _Keep(lambda rows: rows.where(kind="op", type="invoke"))(ends)
    of_ends = [row["index"] for row in ends.to_pylist() if row["began_value"] >= 0]
    assert of_ends and set(of_ends) <= set(kept.tolist()) <= set(ends["index"].to_pylist())
