"""Beside a shard's own rows stands what it needs to know of the others, whatever blocks a run is read in."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chaos.history import shards
from chaos.history.columns import BESIDE, INTEGERS, VALUE, WORDS
from chaos.history.parted import beside
from chaos.history.parted.beside import Beside, Callers
from chaos.history.parted.choosing import Chooser, Chosen, Ints, Part, Sieve
from chaos.history.parted.places import HASHES, MESSAGES, Places
from chaos.judging.shard import Shard


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    empty = {**dict.fromkeys(INTEGERS, -1), **dict.fromkeys((*WORDS, VALUE), "")}
    table = pa.Table.from_pylist([{**empty, "index": index, **row} for index, row in enumerate(rows)])
    for name in WORDS:
        table = table.set_column(table.column_names.index(name), name, table[name].combine_chunks().dictionary_encode())
    return table


def op(f: str, type: str, op: int = -1, offset: int = -1, **columns: Any) -> dict[str, Any]:
    return {"kind": "op", "f": f, "type": type, "op": op, "offset": offset, "queue": 0, **columns}


def lowest(rows: pa.Table) -> Ints:
    """The row with the lowest offset."""
    return rows["index"].to_numpy()[np.argsort(rows["offset"].to_numpy(), kind="stable")[:1]]


PART = Part(
    "range",
    "offset",
    own=(Chosen("op", ("send", "delivered")),),
    beside=(Chosen("op", ("drain",)),),
    callers=(Chosen("op", ("pull",)),),
    of_queues=(Chosen("trace", ("store_cas",)),),
    summaries=(Sieve((Chosen("op", ("send",)),), ("offset",), lowest),),
)
PULL = [op("pull", "invoke", offset=0), op("pull", "ok", 0)]


def parted(rows: list[dict[str, Any]], most: int = 1) -> dict[str, tuple[list[int], list[int]]]:
    """Own rows of each shard, and those that stand beside them, by their numbers."""
    whole = Part("queue", "queue", own=(Chosen("op"),), split=(PART,))
    found = {}
    for name, table in shards.parts(table_of(rows), (whole,), most, 1):
        flags = table[BESIDE].to_numpy() if BESIDE in table.column_names else np.zeros(table.num_rows, np.bool_)
        index = table["index"].to_numpy()
        found[name] = index[~flags].tolist(), index[flags].tolist()
    return found


def test_a_pull_stands_beside_each_of_its_messages() -> None:
    rows = [*PULL, op("delivered", "ok", 0, 3), op("delivered", "ok", 0, 4), op("delivered", "ok", 9, 5)]
    found = parted(rows)
    assert [*found.values()] == [([2], [0, 1]), ([3], [0, 1]), ([4], []), ([0, 1], [])]
    assert [*found][-1] == shards.REST, "whatever was delivered, no row is lost"


def test_what_is_rare_stands_beside_everywhere() -> None:
    found = parted([op("delivered", "ok", 0, 3), op("drain", "invoke"), op("delivered", "ok", 0, 4)])
    assert [*found.values()] == [([0], [1]), ([2], [1])]


def test_what_is_kept_of_each_shard_stands_beside_in_the_others() -> None:
    rows = [op("send", "ok", offset=offset) for offset in (0, 0, 1, 1, 2)]
    assert [*parted(rows).values()] == [([0, 1], [2, 4]), ([2, 3], [0, 4]), ([4], [0, 2])]
    assert [*parted(rows, 4).values()] == [([0, 1, 2, 3], [4]), ([4], [0])]


def test_what_is_of_a_queue_stands_beside_where_the_queue_does() -> None:
    part = Part(
        "range",
        "offset",
        own=(Chosen("op"),),
        everywhere=(Chosen("fault"),),
        of_queues=(Chosen("trace"),),
    )
    told = [{"kind": "trace", "f": "store_cas", "queue": queue} for queue in (-1, 0, 1, 2)]
    rows = [op("send", "ok", offset=offset) for offset in (0, 1)] + [{**op("send", "ok", offset=0), "queue": 1}]
    whole = Part("queue", "queue", own=(Chosen("op"),), split=(part,))
    for more, named in (([], []), ([{"kind": "fault", "queue": 2}], [6])):
        found = {
            name: set(table["index"].to_numpy()[table[BESIDE].to_numpy()].tolist())
            for name, table in shards.parts(table_of([*told, *rows[:2], *more, *rows[2:]]), (whole,), 1, 1)
        }
        last = [3] if named else []
        assert [*found.values()] == [{0, 1, *last}, {0, 1, *last}, {0, 2, *last}]


def random_rows(rng: Random, sound: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number in range(60):
        f = rng.choice(("pull", "pull", "delivered", "delivered", "send", "drain"))
        of = rng.choice([at for at, row in enumerate(rows) if row["f"] == "pull" and row["type"] == "invoke"] or [0])
        if not sound:
            of = max(0, of + rng.choice((0, 0, 1, 30) if f == "delivered" else (0, 0, -1)))
        type = rng.choice(("invoke", "ok")) if f in ("pull", "send") and (number < 40 or not sound) else "ok"
        if sound and f == "pull" and type == "ok":
            type = "invoke"  # whoever delivers has ended before
        rows.append(op(f, type, of if type == "ok" else -1, rng.randrange(-1, 9)))
        if rng.random() < 0.1:
            rows[-1] = {"kind": "trace", "f": "store_cas", "type": "", "op": -1, "queue": rng.randrange(-1, 2)}
    return rows


@pytest.mark.parametrize("seeds", [20, pytest.param(60, marks=pytest.mark.full)])
@pytest.mark.parametrize("sound", [True, False])
def test_blocks_of_any_size_give_the_same(sound: bool, seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "HELD_ROWS", 5)
    stand = 0
    for seed in range(seeds):
        rng = Random(seed)
        table = table_of(random_rows(rng, sound))
        number = np.where(Chooser(table).any_of(PART.own), table["offset"].to_numpy() // 3, -1)
        found = []
        for size in (rng.randrange(1, 30), 100):
            blocks = [slice(begin, begin + size) for begin in range(0, table.num_rows, size)][::-1]
            one = Beside(PART)
            for at in blocks:
                block = table.slice(at.start, size)
                one.learn(block, Chooser(block), number[at])
            for _ in range(2):  # shards may be written in several rounds
                flags = np.zeros((3, table.num_rows), np.bool_)
                for at in blocks:
                    block = table.slice(at.start, size)
                    places = one.places(block, Chooser(block), number[at])
                    assert places is not None
                    flags[:, at] = [places.of(shard) for shard in range(3)]
                found.append(flags)
        assert all(np.array_equal(found[0], flags) for flags in found), seed
        stand += int(found[0].sum())
    assert stand > 16 * seeds


def test_what_is_remembered_of_operations_does_not_grow_with_the_run() -> None:
    known, rows = Callers(), [*PULL, *(op("delivered", "ok", 0, offset) for offset in range(8))]
    for begin in range(5_000, 0, -len(rows)):
        moved = [{**row, "index": begin + at, "op": begin if row["op"] == 0 else -1} for at, row in enumerate(rows)]
        block = table_of(moved)
        chooser = Chooser(block)
        number = np.where(chooser.any_of(PART.own), block["offset"].to_numpy(), -1)
        seen = beside.Operations.of(PART, block, chooser, number)
        known.learn(seen)
        assert known.of(seen).shape == (2, 8)
        assert not len(known._ended) and not known._open.size and not known._late.size


def test_messages_are_spread_and_those_of_one_stand_together() -> None:
    ids = [queue << 40 | sequence * MESSAGES for queue in range(4) for sequence in range(5_000)]
    found = Places().messages(table_of([{"message": message} for message in [-1, *ids, *ids]]))
    assert found[0] == -1 and np.array_equal(found[1 : len(ids) + 1], found[len(ids) + 1 :])
    counts = np.bincount(found[1:], minlength=HASHES)
    assert len(counts) == HASHES and counts.max() < 5 * counts.mean()
    close = Places().messages(table_of([{"message": message + MESSAGES - 1} for message in ids]))
    assert np.array_equal(close, found[1 : len(ids) + 1]), "a pull gives messages with numbers that follow one another"


def test_only_who_asks_finds_what_stands_beside() -> None:
    table = table_of([op("send", "ok", offset=offset) for offset in range(4)])
    rows = Shard(table.append_column(BESIDE, pa.array([False, True, False, True])))
    assert rows.where(kind="op", f="send").tolist() == rows.where().tolist() == [0, 2]
    assert rows.beside.where(kind="op", f="send").tolist() == rows.beside.where().tolist() == [0, 1, 2, 3]
    assert rows.own.tolist() == rows.beside.own.tolist() == [True, False, True, False]
    assert rows.memo(len_of_sends) == 2 and rows.beside.memo(len_of_sends) == 4
    assert rows.beside.beside is rows.beside and rows.column("offset") is rows.beside.column("offset")
    plain = Shard(table)
    assert plain.beside is plain and plain.own.all()


def len_of_sends(rows: Any) -> int:
    return len(rows.where(kind="op", f="send"))
