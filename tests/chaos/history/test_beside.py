"""Rows are parted as a plan says: all of a key together, and beside them what they need to know of the others, whatever
pieces a run is read in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chaos.history.beginnings import Beginnings
from chaos.history.columns import BESIDE, INTEGERS, VALUE, WORDS
from chaos.history.ends import without_beginnings
from chaos.history.history import History
from chaos.history.parted.choosing import Chooser, Chosen, Flags, Ints, Part, Sieve
from chaos.history.parted.places import HASHES, MESSAGES, Places
from chaos.history.stream import SCHEMA
from chaos.judging.divided import parted
from chaos.judging.shard import Shard
from tests.chaos.history.runs import record


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    empty = {**dict.fromkeys(INTEGERS, -1), **dict.fromkeys((*WORDS, VALUE), "")}
    return pa.Table.from_pylist([{**empty, "index": index, **row} for index, row in enumerate(rows)], SCHEMA)


def op(f: str, type: str, op: int = -1, offset: int = -1, **columns: Any) -> dict[str, Any]:
    return {"kind": "op", "f": f, "type": type, "op": op, "offset": offset, "queue": 0, **columns}


def highest(rows: pa.Table) -> Ints:
    """The rows with the highest offset of each queue."""
    queue, offset, index = (rows[name].to_numpy() for name in ("queue", "offset", "index"))
    return np.concatenate([index[:0], *(_highest(queue == one, offset, index) for one in np.unique(queue))])


def _highest(chosen: Flags, offset: Ints, index: Ints) -> Ints:
    return index[chosen & (offset == offset[chosen].max())]


def lowest(rows: pa.Table) -> Ints:
    """The row with the lowest offset."""
    return rows["index"].to_numpy()[np.argsort(rows["offset"].to_numpy(), kind="stable")[:1]]


def rising(rows: pa.Table) -> Ints:
    """The rows whose message is above all that came before in their queue."""
    highest: dict[int, int] = {}
    found = []
    for index, queue, message in zip(*(rows[name].to_pylist() for name in ("index", "queue", "message")), strict=True):
        if message > highest.get(queue, message - 1):
            highest[queue] = message
            found.append(index)
    return np.array(found, np.int64)


def unlike_last(rows: pa.Table) -> Ints:
    """The rows that follow no row of the same name, of their node; not those that stand beside."""
    node, f, index = rows["node"].to_pylist(), rows["f"].to_pylist(), rows["index"].to_pylist()
    known = rows[BESIDE].to_pylist() if BESIDE in rows.column_names else [False] * rows.num_rows
    before: dict[str, str] = {}
    found = []
    for at in range(rows.num_rows):
        found += [index[at]] if before.get(node[at]) != f[at] and not known[at] else []
        before[node[at]] = f[at]
    return np.array(found, np.int64)


def last_of_nodes(rows: pa.Table) -> Ints:
    last = dict(zip(rows["node"].to_pylist(), rows["index"].to_pylist(), strict=True))
    return np.array([*last.values()], np.int64)


APART = Sieve((Chosen("op", ("delivered",)),), ("message",), rising, streamed=True)
PART = Part(
    "range",
    "offset",
    own=(Chosen("op", ("send", "delivered")),),
    beside=(Chosen("op", ("drain",)),),
    callers=(Chosen("op", ("pull",)),),
    summaries=(Sieve((Chosen("op", ("send",)),), ("offset",), lowest),),
)
WHOLE_QUEUES = Part("queue", "queue", own=(Chosen("op"),), split=(PART,))
PULL = [op("pull", "invoke", offset=0), op("pull", "ok", 0)]

#: Something of everything.
PLAN = (
    Part("queue", "queue", own=(Chosen("op"), Chosen("final", ("log",))), everywhere=(Chosen("harness"),)),
    Part(
        "other",
        "queue",
        own=(Chosen("op"), Chosen("final", ("log",))),
        split=(
            Part(
                "other.whole",
                "queue",
                own=(Chosen("final", ("log",)),),
                sifted=(
                    Sieve((Chosen("op", ("send",)),), ("offset",), highest, streamed=True),
                    Sieve((Chosen("op", ("delivered",)),), ("message",), rising, streamed=True, apart=APART),
                ),
            ),
            Part("other.range", "offset", own=(Chosen("op"),), everywhere=(Chosen("harness"),)),
            Part(
                "other.beside",
                "offset",
                own=(Chosen("op", ("send", "delivered")),),
                everywhere=(Chosen("harness"),),
                beside=(Chosen("op", ("commit",)),),
                callers=(Chosen("op", ("pull",)),),
                summaries=(Sieve((Chosen("op", ("send",)),), ("offset",), highest),),
            ),
            Part("other.message", "message", own=(Chosen("op"),), callers=(Chosen("op", ("pull",)),)),
            Part("other.call", "call", own=(Chosen("op"),)),
        ),
    ),
    Part("group", "group", own=(Chosen("op", ("commit",)),), everywhere=(Chosen("trace", ("role",)),)),
    Part("node", "node", own=(Chosen("trace"),), everywhere=(Chosen("harness"), Chosen("fault"))),
    Part("run", "run", own=(Chosen("op", queueless=True),), sieves=(Sieve((Chosen("poll"),), ("offset",), lowest),)),
    Part(
        "sifted",
        "run",
        own=(Chosen("op", ("commit",)),),
        sifted=(Sieve((Chosen("op", ("send",)),), ("offset",), highest),),
    ),
    Part("lived", "node", sifted=(Sieve((Chosen("trace"),), (), unlike_last, last_of_nodes, unlike_last),)),
)

#: Own rows of each shard, and those that stand beside them, by their numbers.
Shards = dict[str, tuple[list[int], list[int]]]


def shards(pieces: Sequence[pa.Table], plan: Sequence[Part], most: int = 1, offsets: int = 1) -> Shards:
    found = {}
    for name, table in parted(pieces, plan, most, offsets=offsets):
        flags = table[BESIDE].to_numpy() if BESIDE in table.column_names else np.zeros(table.num_rows, np.bool_)
        index = table["index"].to_numpy()
        found[name] = sorted(index[~flags].tolist()), sorted(index[flags].tolist())
    return found


def cut(table: pa.Table, rng: Random, pieces: int) -> list[pa.Table]:
    """At any rows, also within operations."""
    at = [0, *sorted(rng.sample(range(1, table.num_rows), min(pieces, table.num_rows) - 1)), table.num_rows]
    return [table.slice(begin, end - begin) for begin, end in pairwise(at)]


def told(rows: list[dict[str, Any]], most: int = 1, plan: Sequence[Part] = (WHOLE_QUEUES,)) -> Shards:
    """In one piece, and the same in several."""
    table = table_of(rows)
    found = shards([table], plan, most)
    for pieces in (2, 3, len(rows)):
        assert shards(cut(table, Random(pieces), pieces), plan, most) == found
    return found


def test_a_pull_stands_beside_each_of_its_messages() -> None:
    rows = [*PULL, op("delivered", "ok", 0, 3), op("delivered", "ok", 0, 4), op("delivered", "ok", 9, 5)]
    assert [*told(rows).values()] == [([2], [0, 1]), ([3], [0, 1]), ([4], [])]


def test_what_is_rare_stands_beside_everywhere() -> None:
    found = told([op("delivered", "ok", 0, 3), op("drain", "invoke"), op("delivered", "ok", 0, 4)])
    assert [*found.values()] == [([0], [1]), ([2], [1])]


def test_what_is_kept_of_each_shard_stands_beside_in_the_others() -> None:
    rows = [op("send", "ok", offset=offset) for offset in (0, 0, 1, 1, 2)]
    assert [*told(rows).values()] == [([0, 1], [2, 4]), ([2, 3], [0, 4]), ([4], [0, 2])]
    rows = [op("send", "ok", offset=number // 2) for number in range(17)]  # too many for one shard of sixteen
    firsts = [0, 4, 8, 12, 16]
    assert [*told(rows, 16).values()] == [
        ([*range(first, min(first + 4, 17))], [one for one in firsts if one != first]) for first in firsts
    ]


def random_rows(rng: Random, sound: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number in range(60):
        f = rng.choice(("pull", "pull", "delivered", "delivered", "send", "drain"))
        of = rng.choice([at for at, row in enumerate(rows) if row["f"] == "pull" and row["type"] == "invoke"] or [0])
        if not sound:
            of = max(0, of + rng.choice((0, 0, 1, 30) if f == "delivered" else (0, 0, -1)))
        type = rng.choice(("invoke", "ok")) if f in ("pull", "send") and (number < 40 or not sound) else "ok"
        rows.append(op(f, type, of if type == "ok" else -1, rng.randrange(-1, 9)))
        if rng.random() < 0.1:
            rows[-1] = {"kind": "trace", "f": "store_cas", "type": "", "op": -1, "queue": rng.randrange(-1, 2)}
    return rows


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 20), marks=pytest.mark.full)], ids=str)
@pytest.mark.parametrize("sound", [True, False])
@pytest.mark.parametrize("repeats", [True, False])
def test_pieces_of_any_size_give_the_same(sound: bool, repeats: bool, seeds: range) -> None:
    """``repeats``: ends repeat what began them."""
    stand = 0
    for seed in seeds:
        rng = Random(seed)
        table = table_of(random_rows(rng, sound))
        if repeats:
            table = Beginnings().repeat(table).cast(SCHEMA)
        most, offsets = rng.choice((1, 5)), rng.choice((1, 3))
        found = shards([table], (WHOLE_QUEUES,), most, offsets)
        for pieces in (rng.randrange(2, 9), 60 if seed % 3 else 2):
            assert shards(cut(table, rng, pieces), (WHOLE_QUEUES,), most, offsets) == found, (seed, pieces)
        stand += sum(len(beside) for _, beside in found.values())
    assert stand > 16 * len(seeds)


def are(row: dict[str, Any], wanted: Sequence[Chosen]) -> bool:
    return any(
        row["kind"] == one.kind and (not one.f or row["f"] in one.f) and not (one.queueless and row["queue"] >= 0)
        for one in wanted
    )


def check(part: Part, found: Shards, table: pa.Table, offsets: int) -> int:
    """Each own row stands in one shard, with all of its key; what all need, in all. Returns how many shards there
    are."""
    ends = without_beginnings(table)[0]
    rows, keys = ends.to_pylist(), Chooser(ends, places=Places(offsets)).keys(part.key).tolist()
    mine = [{*own} for name, (own, _) in found.items() if name.rpartition("-")[0] == part.name]
    everywhere = {row["index"] for row in rows if are(row, part.everywhere)}
    everywhere |= {index for sieve in part.sieves for index in kept(sieve, ends)}
    own = {row["index"] for row in rows if are(row, part.own)}
    own |= {index for sieve in part.sifted for index in kept(sieve, ends)}
    assert mine and all(everywhere <= shard for shard in mine), part.name
    where: dict[int, list[int]] = {}
    for row, key in zip(rows, keys, strict=True):
        if row["index"] in own - everywhere:
            stands = [at for at, shard in enumerate(mine) if row["index"] in shard]
            assert len(stands) == 1 and where.setdefault(key, stands) == stands, part.name
    return len(mine)


def kept(sieve: Sieve, rows: pa.Table) -> list[int]:
    """Of all rows: of those of a shard that may be more."""
    chosen = rows.filter(pa.array([are(row, sieve.rows) for row in rows.to_pylist()]))
    index: list[int] = sieve.keep(chosen).tolist()
    return index


def mixed(directory: Path, seed: int) -> pa.Table:
    """Random rows."""
    record(directory, seed)
    return History.open(directory).recorded()[0]


@pytest.mark.parametrize("most", [8, 3])
def test_rows_of_a_key_stand_together_and_none_is_lost(most: int, tmp_path: Path) -> None:
    table = mixed(tmp_path, most)
    found = shards([table], PLAN, most, 2)
    many = {part.name: check(part, found, table, 2) for one in PLAN for part in (one.split or [one])}
    assert sum(many.values()) == len(found) and many["other.range"] > 5 and many["node"] > 1
    for seed in range(3):
        assert shards(cut(table, Random(seed), 7), PLAN, most, 2) == found


def test_a_queue_of_few_rows_is_not_split(tmp_path: Path) -> None:
    found = shards([table := mixed(tmp_path, 1)], PLAN, 1 << 20)
    assert {name.rpartition("-")[0] for name in found} == {part.name for part in PLAN}
    assert all(check(part, found, table, 1) for part in PLAN)


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
