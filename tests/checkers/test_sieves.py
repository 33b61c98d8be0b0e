"""What sieves leave out of a large run's shards changes nothing that is found in them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from histories import table_of

from chaos.history import shards
from chaos.history.columns import INTEGERS, VALUE, WORDS
from chaos.judging.plan import plan
from chaos.judging.registry import registry
from chaos.judging.shard import Shard
from chaos.law import Reads, Rows
from checkers import _views as views
from checkers._views import reads
from checkers._views.arrays import NEVER
from checkers._views.tier import Timeline

NODES = ("a", "b", "")
EVENTS = ("append", "append", "confirm", "confirm", "confirm", "truncate", "recovered", "bootstrap", "tier_commit")


def random_table(rng: Random, count: int) -> pa.Table:
    """Traces of nodes whose confirm offsets mostly grow; rows of a node may stand in another order than it lived."""
    lives = dict.fromkeys(NODES, 1)
    steps, tops = dict.fromkeys(NODES, 0), dict.fromkeys(NODES, 0)
    wild = rng.choice((0.0, 0.1, 1.0))
    rows: list[dict[str, Any]] = []
    for _ in range(count):
        node, f = rng.choice(NODES), rng.choice(EVENTS[: rng.choice((5, 9))])
        if f == "recovered":
            lives[node], steps[node] = lives[node] + 1, 0
        steps[node] += rng.choice((0, 1, 1))
        tops[node] = max(0, tops[node] + (rng.randrange(-30, 30) if rng.random() < wild else rng.choice((0, 3, 10))))
        row = {"kind": "trace", "f": f, "node": node, "incarnation": lives[node], "step": steps[node], "time_ns": 0}
        rows.append(row | {"position": tops[node] - rng.choice((0, 0, 10)), "queue": rng.choice((-1, 0, 1))})
        if f == "append":
            size = rng.choice((0, 3, 10))
            rows[-1] |= {"value": f'{{"size":{size}}}', "offset": len(rows), "message": len(rows), "hash": len(rows)}
    if rng.random() < 0.3:
        rng.shuffle(rows)
    return whole(rows)


def whole(rows: list[dict[str, Any]]) -> pa.Table:
    """These rows, numbered."""
    empty = {**dict.fromkeys(INTEGERS, -1), **dict.fromkeys((*WORDS, VALUE), "")}
    return table_of([{**empty, **row, "index": index} for index, row in enumerate(rows)])


def confirmed(rows: Rows) -> list[int]:
    found: list[int] = rows.column("index")[views.confirmed_appends(rows).at].tolist()
    return found


def known_at_commits(rows: Rows) -> list[tuple[int, int]]:
    """(commit, the confirm offset before it), by their rows."""
    index, found = rows.column("index"), []
    for at in rows.where(kind="trace", f="tier_commit").tolist():
        line = Timeline.of(rows, rows.text("node", at), "confirm", "recovered", "bootstrap")
        life, step, _ = views.moment(rows, np.array([at]))[0]
        told = line.last((life, step, NEVER))
        found.append((int(index[at]), int(index[told]) if told >= 0 else -1))
    return found


CHECKS = [(reads.CONFIRMED_APPENDS, confirmed), (reads.CONFIRMED_BY_COMMIT, known_at_commits)]


def check(needed: tuple[Reads, ...], find: Callable[[Rows], list[Any]], seeds: range) -> tuple[int, int]:
    """Returns how much was found, and how many rows were left out."""
    (sieve,) = (one.sieve for one in needed if one.sieve is not None)
    number = left_out = 0
    for seed in seeds:
        rng = Random(f"sieve {seed}")
        table = random_table(rng, rng.choice((3, 30, 120)))
        rows = Shard(table)
        given = np.zeros(len(rows), np.bool_)
        for one in sieve.rows:
            for f in one.f:
                given[rows.where(kind=one.kind, f=f)] = True
        seen = table.filter(pa.array(given))
        kept = Shard(seen).column("index")[sieve.keep(Shard(seen))]
        confirm = np.isin(np.arange(len(rows)), rows.where(kind="trace", f="confirm"))
        besides = np.array([rng.random() < seed % 3 / 4 for _ in range(len(rows))])
        left = ~confirm | np.isin(rows.column("index"), kept) | besides
        assert confirm[np.isin(rows.column("index"), kept)].all()
        found = find(rows)
        assert find(Shard(table.filter(pa.array(left)))) == found
        number, left_out = number + len(found), left_out + int((~left).sum())
    return number, left_out


@pytest.mark.parametrize(("needed", "find"), CHECKS)
def test_what_is_left_out_is_not_missed(needed: tuple[Reads, ...], find: Callable[[Rows], list[Any]]) -> None:
    number, left_out = check(needed, find, range(300))
    assert number > 300 and left_out > 1_000


@pytest.mark.full
@pytest.mark.parametrize(("needed", "find"), CHECKS)
def test_nothing_is_missed_in_thousands(needed: tuple[Reads, ...], find: Callable[[Rows], list[Any]]) -> None:
    number, left_out = check(needed, find, range(300, 10_000))
    assert number > 10_000 and left_out > 50_000


def growing(messages: int) -> pa.Table:
    """Replicas that append and confirm message after message, of eight queues."""
    rows: list[dict[str, Any]] = []
    for message in range(messages):
        for node in ("a", "b", "c"):
            told = {"kind": "trace", "node": node, "incarnation": 1, "step": message, "time_ns": 0}
            rows.append(told | {"f": "append", "queue": message % 8, "offset": message // 8, "position": message})
            rows.append(told | {"f": "confirm", "position": message + 1})
    return whole(rows)


def test_what_shards_repeat_does_not_grow_with_the_run() -> None:
    repeated = []
    for messages in (400, 4_000):
        table = growing(messages)
        parts = dict(shards.parts(table, plan(registry().kernels), messages // 2))
        queues = [part for name, part in parts.items() if name.startswith("queue-")]
        assert len(queues) == 8
        repeated.append(sum(part.num_rows for part in queues) - 3 * messages)
        assert len(set().union(*(part["index"].to_pylist() for part in parts.values()))) == table.num_rows
    assert repeated == [8 * 3, 8 * 3]


def operations(messages: int) -> pa.Table:
    """Sends that are acknowledged, and their messages, which are read: of eight queues."""
    rows: list[dict[str, Any]] = [{"kind": "harness", "f": "phase", "time_ns": 0, "value": '{"phase":"load"}'}]
    for message in range(messages):
        told = {"kind": "op", "queue": message % 8, "message": message, "time_ns": message, "process": "a.0"}
        op = {"op": len(rows), "offset": message // 8}
        rows.append(told | {"f": "send", "type": "invoke", "op": len(rows)})
        rows.append(told | {"f": "send", "type": "ok", **op})
        rows.append(told | {"f": "delivered", "type": "ok", **op})
    return whole(rows)


def test_no_shard_of_the_whole_run_holds_what_was_done_to_queues() -> None:
    held = []
    for messages in (400, 4_000):
        parts = dict(shards.parts(operations(messages), plan(registry().kernels), messages // 2))
        assert sum(part.num_rows - 1 for name, part in parts.items() if name.startswith("queue-")) == 3 * messages
        held.append([part.num_rows for name, part in parts.items() if name.startswith("run")])
    assert held[0] == held[1] and set(held[0]) == {1}
