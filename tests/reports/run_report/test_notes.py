"""What is noted of pieces names every piece that has what is looked up, and not all of the others."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from chaos.history.history import History
from chaos.history.stream import SCHEMA
from reports.run_report.notes import Notes, noted

PIECES, ROWS = 12, 40


def rows_of_all(rng: Random) -> list[dict[str, object]]:
    """Operations and traces that go on from piece to piece, as a run's do."""
    empty = {field.name: -1 if pa.types.is_integer(field.type) else "" for field in SCHEMA}
    made = []
    for index in range(PIECES * ROWS):
        node = rng.choice(("broker-0", "broker-1"))
        queue = rng.randrange(3)
        row = {**empty, "index": index, "queue": queue, "message": queue << 40 | index, "offset": index // 2}
        if rng.random() < 0.5:
            row |= {"kind": "op", "type": "ok", "f": "send", "op": max(0, index - rng.randrange(60)), "node": node}
            row |= {"epoch": 1 + index // 100}
        else:
            row |= {"kind": "trace", "f": rng.choice(("append", "synced", "confirm")), "node": node, "step": index}
            row |= {"incarnation": 1 + index // 200, "position": index * 10, "epoch": 1 + index // 100}
        made.append(row)
    return made


@pytest.mark.parametrize("seed", range(6))
def test_who_looks_something_up_finds_all_rows_of_it(seed: int) -> None:
    rows = rows_of_all(Random(f"notes {seed}"))
    table = pa.Table.from_pylist(rows, SCHEMA)
    notes = Notes(pa.concat_tables([noted(table.slice(at, ROWS)) for at in range(0, len(rows), ROWS)]))
    few = 0
    for row in History.of(table).of_table(table):
        found = [
            notes.of_numbers([row.index]),
            notes.about([row.message], ()),
            notes.about((), [(row.queue, row.offset)]),
        ]
        if row.kind == "op":
            found += [notes.of_calls([row.op]), notes.answered(row.node, row.epoch)]
        elif row.f == "append":
            found.append(notes.beyond(row.node, row.position, (row.incarnation, row.step + 1)))
        assert all(any(row.index in numbers for numbers in one) for one in found)
        few += sum(len(one) <= 3 for one in found[:3])
    assert few > 2 * len(rows)


def test_what_no_piece_has_is_looked_up_nowhere() -> None:
    rows = rows_of_all(Random("notes"))
    notes = Notes(noted(pa.Table.from_pylist(rows, SCHEMA)))
    assert not notes.about([1 << 50], [(9, 1), (0, 1 << 40)]) and not notes.of_calls([1 << 40])
    assert not notes.answered("broker-9", 1) and not notes.answered("broker-0", 99)
    assert not notes.of_numbers(())
