"""Rows of nodes in the order in which each lived them, against what sorts and searches row by row."""

from __future__ import annotations

from random import Random

import numpy as np

from chaos.judging.shard import Shard
from checkers import _facts as facts
from tests.checkers.histories import History


def lived(rng: Random) -> Shard:
    """Rows of a few nodes; most are recorded in the order in which they were lived."""
    history, steps = History(), {"a": 0, "b": 0, "": 0}
    mixed = rng.random() < 0.5
    for _ in range(rng.randrange(60)):
        node = rng.choice("aabb ").strip()
        steps[node] += rng.choice((0, 1))
        step = rng.randrange(9) if mixed else steps[node]
        life = rng.choice((1, 2)) if mixed else 1 + steps[node] // 7
        history.trace(node, rng.choice(("confirm", "tier_commit", "role")), incarnation=life, step=step)
    return Shard(history.table())


def place(rows: Shard, at: int) -> tuple[int, int, int]:
    life, step, index = (int(rows.column(name)[at]) for name in ("incarnation", "step", "index"))
    return life, step, index


def last(rows: Shard, known: list[int], at: int, *, by_step: bool) -> int:
    life, step, index = place(rows, at)
    until = (life, step, facts.NEVER if by_step else index)
    node = rows.column("node")
    before = [one for one in known if node[one] == node[at] and place(rows, one) <= until]
    before = [one for one in before if place(rows, one)[0] == life]
    return max(before, key=lambda one: place(rows, one), default=-1)


def test_rows_are_sorted_and_found_as_one_by_one() -> None:
    several = 0
    for seed in range(150):
        rng = Random(seed)
        rows = lived(rng)
        every = np.array(rng.sample(range(len(rows)), len(rows)), dtype=np.int64)
        assert facts.in_node_order(rows, every).tolist() == sorted(every.tolist(), key=lambda at: place(rows, at))
        names = [(rows.text("node", at), place(rows, at)) for at in every.tolist()]
        assert [(rows.text("node", at), place(rows, at)) for at in facts.by_node(rows, every)] == sorted(names)
        known, asked = (rows.where(kind="trace", f=f) for f in ("confirm", "tier_commit"))
        for by_step in (False, True):
            found = facts.last_before(rows, known, asked, by_step=by_step).tolist()
            assert found == [last(rows, known.tolist(), at, by_step=by_step) for at in asked.tolist()]
            several += len({*found})
    assert several > 500
