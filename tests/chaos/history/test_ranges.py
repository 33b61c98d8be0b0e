"""Rows of a queue that is parted stand with those of their offset, and all rows of a send stand together."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from chaos.history.columns import INTEGERS, VALUE, WORDS
from chaos.history.parted import places as ranges


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    empty = {**dict.fromkeys(INTEGERS, -1), **dict.fromkeys((*WORDS, VALUE), "")}
    return pa.Table.from_pylist([{**empty, "index": index, **row} for index, row in enumerate(rows)])


def op(f: str, type: str, op: int = -1, offset: int = -1, queue: int = 0) -> dict[str, Any]:
    return {"kind": "op", "f": f, "type": type, "op": op, "offset": offset, "queue": queue}


def places(rows: list[dict[str, Any]], offsets: int = 1) -> list[int]:
    found: list[int] = ranges.Places(offsets).of(table_of(rows)).tolist()
    return found


def test_a_send_stands_at_the_offset_that_its_last_end_gives() -> None:
    rows = [op("send", "invoke"), op("send", "invoke"), op("send", "ok", 0, 7), op("send", "ok", 0, 9)]
    rows += [op("send", "info", 1), op("delivered", "ok", 0, 9), op("delivered", "ok", 0, 7)]
    first, unknown, early, last, unclear, there, elsewhere = places(rows)
    assert first == early == last == there != elsewhere
    assert unknown == unclear not in (there, elsewhere)


def test_numbers_ascend_with_queue_and_offset() -> None:
    asked = [(-1, -1), (-1, 5), (0, -1), (0, 0), (0, 4), (0, 1 << 62), (1, -1), (1, 3), (4_000, 0)]
    found = places([{"kind": "final", "f": "log", "queue": queue, "offset": offset} for queue, offset in asked])
    assert found == sorted(found) and len(set(found)) == len(found)


def test_a_range_holds_so_many_offsets() -> None:
    found = places([{"kind": "final", "f": "log", "queue": 3, "offset": offset} for offset in range(-1, 40)], 10)
    assert [found.count(place) for place in dict.fromkeys(found)] == [1, 10, 10, 10, 10]
