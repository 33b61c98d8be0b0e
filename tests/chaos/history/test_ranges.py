"""Rows of a queue that is parted stand with those of their offset, and all rows of a send stand together."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chaos.history.columns import INTEGERS, VALUE, WORDS
from chaos.history.parted import places as ranges


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    empty = {**dict.fromkeys(INTEGERS, -1), **dict.fromkeys((*WORDS, VALUE), "")}
    return pa.Table.from_pylist([{**empty, "index": index, **row} for index, row in enumerate(rows)])


def op(f: str, type: str, op: int = -1, offset: int = -1, queue: int = 0) -> dict[str, Any]:
    return {"kind": "op", "f": f, "type": type, "op": op, "offset": offset, "queue": queue}


def places(rows: list[dict[str, Any]], block: int, offsets: int = 1) -> list[int]:
    """By blocks of so many rows."""
    table, known = table_of(rows), ranges.Places(offsets)
    found = [known.of(table.slice(begin, block)) for begin in range(0, len(rows), block)[::-1]]
    return np.concatenate(found[::-1]).tolist()


@pytest.mark.parametrize("block", [1, 2, 100])
def test_a_send_stands_at_the_offset_that_its_last_end_gives(block: int) -> None:
    rows = [op("send", "invoke"), op("send", "invoke"), op("send", "ok", 0, 7), op("send", "ok", 0, 9)]
    rows += [op("send", "info", 1), op("delivered", "ok", 0, 9), op("delivered", "ok", 0, 7)]
    first, unknown, early, last, unclear, there, elsewhere = places(rows, block)
    assert first == early == last == there != elsewhere
    assert unknown == unclear not in (there, elsewhere)


def test_numbers_ascend_with_queue_and_offset() -> None:
    asked = [(-1, -1), (-1, 5), (0, -1), (0, 0), (0, 4), (0, 1 << 62), (1, -1), (1, 3), (4_000, 0)]
    found = places([{"kind": "final", "f": "log", "queue": queue, "offset": offset} for queue, offset in asked], 100)
    assert found == sorted(found) and len(set(found)) == len(found)


def test_a_range_holds_so_many_offsets() -> None:
    found = places([{"kind": "final", "f": "log", "queue": 3, "offset": offset} for offset in range(-1, 40)], 7, 10)
    assert [found.count(place) for place in dict.fromkeys(found)] == [1, 10, 10, 10, 10]


def test_blocks_of_any_size_give_the_same() -> None:
    for seed in range(40):
        rng = Random(seed)
        rows = [
            op(
                rng.choice(("send", "send", "delivered")),
                rng.choice(("invoke", "ok", "info")),
                rng.choice((-1, max(0, number - rng.randrange(9)), number + 1)),
                rng.randrange(-1, 5),
                rng.randrange(2),
            )
            for number in range(60)
        ]
        assert places(rows, rng.randrange(1, 20)) == places(rows, 100), seed


def test_what_is_remembered_does_not_grow_with_the_run() -> None:
    known, count = ranges.Places(), 50
    for begin in range(5_000, 0, -count):
        rows = [op("send", "invoke" if number % 2 else "ok", number - 1, number) for number in range(1, count + 1)]
        block = table_of([{**row, "index": begin + at, "op": begin + row["op"]} for at, row in enumerate(rows)])
        known.of(block)
        assert len(known._op) <= 1
