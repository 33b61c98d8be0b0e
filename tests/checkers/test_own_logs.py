"""Of what nodes tell of their logs little stands in the shards of a large run, and no more is found with all of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from chaos.history.parted import lived
from chaos.history.parted.choosing import Chooser, Chosen, Part
from chaos.history.parted.lived import Lived
from chaos.history.run_meta import RunMeta
from chaos.judging.divided import parted
from chaos.judging.plan import plan
from chaos.judging.shard import Shard
from chaos.kernel import Kernel, Key, Needs
from chaos.law import RunContext
from checkers._facts.arrays import Ints
from checkers._facts.nodes import own_logs
from checkers._facts.reads import own
from checkers.in_sync.own_log import OwnLog as InSync
from checkers.in_sync.promise import CONFIRM_BEYOND_LOG, FALSE_SYNC, TOO_FEW_IN_SYNC
from checkers.no_rollback.cuts import CONFIRM_ROLLBACK
from checkers.no_rollback.own_log import OwnLog as NoRollback
from checkers.no_rollback.promise import CONFIRM_BEYOND_SET
from checkers.roles import lives
from checkers.roles.remembered import Remembered
from tests.checkers.harms import EMPTIED, HARMS
from tests.checkers.histories import REPORTED, History, cut
from tests.checkers.recorded import recording
from tests.checkers.test_sieves import chosen, partial_of, whole

LAWS: dict[tuple[str, int], Kernel] = {
    ("in_sync", 0): InSync(),
    ("no_rollback", 0): NoRollback(),
    ("roles", 0): Remembered(),
}
NODES = ("a", "b", "c", "")
PLAN = plan(LAWS, RunMeta.of({}))
(SIEVE,) = {one for part in PLAN for one in part.sifted}
EVENTS = {"append": 30, "acked": 12, "synced": 8, "confirm": 14, "set": 3, "role": 3, "truncate": 1, "recovered": 1}
EVENTS |= {"bootstrap": 1, "tier_commit": 1, "start": 3, "retention": 2}


class Nodes:
    """Nodes that append, and tell of it: mostly what is so. Each lives its rows in the order in which they stand."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.wild = rng.choice((0.0, 0.02, 0.3))
        self.f = [*EVENTS]
        if rng.random() < 0.3:
            self.f.remove(rng.choice(self.f))
        self.life = dict.fromkeys(NODES, 1)
        self.step, self.generation = dict.fromkeys(NODES, 0), dict.fromkeys(NODES, 0)
        self.end = dict.fromkeys(NODES, 0)
        self.appended: dict[str, list[tuple[int, int]]] = {node: [] for node in NODES}
        self.epoch = 1
        self.rows: list[dict[str, Any]] = []

    def event(self) -> None:
        rng, node = self.rng, self.rng.choice(NODES)
        f = rng.choices(self.f, [EVENTS[f] for f in self.f])[0]
        for _ in range(rng.choice((1, 1, 2, 5)) if f in ("append", "acked") else 1):
            getattr(self, f, partial(self.tell, f))(node)

    def tell(self, f: str, node: str, **told: Any) -> None:
        self.step[node] += self.rng.choice((0, 0, 1))
        near = self.end[node] + (self.rng.randrange(-30, 30) if self.rng.random() < self.wild else 0)
        row = {"kind": "trace", "f": f, "node": node, "incarnation": self.life[node], "step": self.step[node]}
        row |= {"time_ns": len(self.rows), "epoch": self.epoch, "position": max(0, near)} | told
        if f in ("synced", "truncate", "confirm", "retention"):
            row["position"] = max(0, row["position"] - self.rng.choice((0, 0, 5)))
        if f in ("truncate", "recovered", "bootstrap"):
            self.end[node] = row["position"]
        self.rows.append(row)

    def append(self, node: str) -> None:
        rng, begin = self.rng, self.end[node] - (self.rng.randrange(9) if self.rng.random() < self.wild else 0)
        size = rng.choice((0, 3, 10))
        self.end[node] = begin + max(1, size)
        value = rng.choice((f'{{"size":{size}}}', f'{{"size": {size}}}')) if size else ""
        message = {"message": rng.choice((-1, len(self.rows), len(self.rows))), "offset": len(self.rows), "queue": 0}
        self.tell("append", node, position=begin, value=value, **message)
        self.appended[node] = [*self.appended[node][-9:], (self.end[node], self.epoch)]
        if rng.random() < 0.1:
            self.tell("append", node, position=begin, value=value, epoch=self.epoch + 1, **message)

    def acked(self, node: str) -> None:
        if self.appended[node] and self.rng.random() < 0.9:
            position, epoch = self.rng.choice(self.appended[node])
            confirm = position - (self.rng.random() < self.wild)
            self.tell("acked", node, position=position, epoch=epoch, value=f'{{"confirm":{confirm}}}')

    def confirm(self, node: str) -> None:
        told = {"set": ["a"], "acks": {"a": self.end[node]}} if self.rng.random() < 0.6 else {}
        self.tell("confirm", node, value=json.dumps(told) if told else "")

    def synced(self, node: str) -> None:
        size = self.rng.randrange(90)
        disk = size - (self.rng.random() < self.wild)
        told = {"file": "0", "size": size, **({"disk": disk} if self.rng.random() < 0.5 else {})}
        self.tell("synced", node, value=json.dumps(told))

    def start(self, node: str) -> None:
        self.generation[node] += self.rng.choice((0, 1, 1, 1))
        disk = self.rng.choice(("x", "x", "x", "y", ""))
        known = {"generation": self.generation[node], "disk": disk} if self.rng.random() < 0.9 else {}
        self.tell("start", node, value=json.dumps(known), epoch=max(0, self.epoch - self.rng.choice((0, 1, 3))))

    def recovered(self, node: str) -> None:
        self.life[node], self.step[node] = self.life[node] + 1, 0
        self.tell("recovered", node, value=f'{{"confirm":{self.end[node]}}}')

    def set(self, node: str) -> None:
        self.tell("set", node, value=json.dumps({"set": self.rng.sample(NODES, self.rng.choice((1, 1, 2, 3)))}))

    def role(self, node: str) -> None:
        self.epoch += self.rng.choice((0, 1))
        told = {"role": self.rng.choice(("master", "slave")), "set": [node], "start": self.end[node] - 5}
        self.tell("role", node, value=json.dumps(told))


def nodes(rng: Random) -> list[dict[str, Any]]:
    told = Nodes(rng)
    for _ in range(rng.choice((3, 40, 150, 300))):
        told.event()
    disorder = rng.random()
    if disorder < 0.1:
        rng.shuffle(told.rows)
    elif disorder < 0.3:
        for _ in range(rng.choice((1, 3))):
            one, other = (rng.randrange(len(told.rows)) for _ in range(2)) if told.rows else (0, 0)
            told.rows[one : one + 1], told.rows[other : other + 1] = (
                told.rows[other : other + 1],
                told.rows[one : one + 1],
            )
    return [{"kind": "harness", "f": "phase", "time_ns": 0, "value": '{"phase":"load"}'}, *told.rows]


def kept(parts: tuple[Part, ...], tables: Sequence[pa.Table]) -> Ints:
    """The rows that stand in any shard of a run of these pieces."""
    return np.unique(np.concatenate([rows["index"].to_numpy() for _, rows in parted(tables, parts, 1_000)]))


def check(table: pa.Table, context: RunContext, rng: Random) -> tuple[int, int]:
    """Returns how much is found, and how many rows were left out."""
    parts = plan(LAWS, context.meta)
    held = kept(parts, [table])
    assert kept(parts, cut(table, rng, range(1, table.num_rows))).tolist() == held.tolist()
    often = chosen(table, [own("trace", *own_logs.OFTEN)])
    left = ~often | np.isin(table["index"].to_numpy(), held)
    found = 0
    for law in LAWS.values():
        every = partial_of(law, table, context)
        assert partial_of(law, table.filter(pa.array(left)), context) == every
        found += len(every["anomalies"]) + len(every["gaps"])
    return found, int((~left).sum())


def check_random(seeds: range) -> None:
    found = left_out = 0
    names: set[str] = set()
    for seed in seeds:
        rng = Random(f"own logs {seed}")
        table = whole(nodes(rng))
        profile = {"flush": rng.choice(("sync", "sync", "async")), "acks": rng.choice(("all", "all", "master"))}
        meta = {"deployment": rng.choice(("sim", "process")), "tells": [*REPORTED]}
        meta |= {"profile": profile | {"min_in_sync": rng.choice((1, 2, 3))}}
        context = RunContext(run="random", seed=seed, meta=RunMeta.of(meta), unfinished=rng.random() < 0.2)
        assert own_logs.SIEVE.fitted is not None
        own_logs.SIEVE.fitted(context.profile).keep(Shard(table))  # does not fail, after which all rows would be kept
        some, without = check(table, context, rng)
        found, left_out = found + some, left_out + without
        names |= {anomaly.name for law in LAWS.values() for anomaly in law.examine(Shard(table), context).anomalies}
    assert found > len(seeds) and left_out > 15 * len(seeds)
    assert names == {
        *(FALSE_SYNC, CONFIRM_BEYOND_LOG, TOO_FEW_IN_SYNC),
        *(CONFIRM_ROLLBACK, CONFIRM_BEYOND_SET, lives.LIFE_FORGOTTEN, lives.EPOCH_REGRESSION),
    }


def test_logs_are_judged_alike_by_few_rows() -> None:
    check_random(range(20))


@pytest.mark.full
def test_logs_are_judged_alike_by_few_rows_of_many_histories() -> None:
    check_random(range(20, 130))


def check_harmed(every: int) -> None:
    left_out = 0
    for number, harm in enumerate([*HARMS, *EMPTIED][::every]):
        run, rng = recording().copy(), Random(f"own logs {harm.__name__} {number}")
        harm(run, rng)
        context = RunContext(run=harm.__name__, seed=0, meta=RunMeta.of(run.meta))
        left_out += check(run.table(), context, rng)[1]
    assert left_out > 100


def test_logs_are_judged_alike_by_few_rows_of_harmed_runs() -> None:
    check_harmed(every=80)


@pytest.mark.full
def test_logs_are_judged_alike_by_few_rows_of_every_second_harmed_run() -> None:
    check_harmed(every=2)


def steady(messages: int) -> list[dict[str, Any]]:
    """Nodes that append ten records and then call them durable, again and again."""
    history = History()
    for number in range(messages):
        for node in ("a", "b"):
            history.append(node, number)
            if number % 10 == 9:
                history.trace(node, "synced", position=10 * number)
    return history.table().to_pylist()


def held_of(rows: list[dict[str, Any]]) -> dict[str, int]:
    """How many appends of each node stand in the shards of nodes."""
    found = dict.fromkeys(("a", "b"), 0)
    for name, part in parted([whole(rows)], PLAN, len(rows)):
        for node in found if name.startswith("node") else ():
            found[node] += len(Shard(part).where(kind="trace", f="append", node=node))
    return found


def test_a_node_in_disorder_keeps_all_its_rows_and_others_do_not() -> None:
    rows = steady(200)
    assert held_of(rows) == {"a": 2, "b": 2}
    late = next(row for row in reversed(rows) if row["node"] == "a")
    assert held_of([late, *(row for row in rows if row is not late)])["b"] == 2
    assert held_of([late, *(row for row in rows if row is not late)])["a"] == 200


def test_disorder_between_blocks_is_seen() -> None:
    rows = steady(200)
    first = next(row for row in rows if row["node"] == "a")
    table = whole([*(row for row in rows if row is not first), first])
    for end in (1, 100, table.num_rows - 1):
        asked = Lived(SIEVE)
        for block in (table[:end], table[end:]):
            asked.add(block, Chooser(block).any_of(SIEVE.rows))
        assert asked.disordered == {"a"}


def test_a_size_that_no_number_holds_leaves_nothing_out_before_it() -> None:
    rows = steady(100)
    rows[-3] = {**next(row for row in rows if row["f"] == "append"), "value": f'{{"size":{1 << 70}}}'}
    rows[-3] |= {name: rows[-4][name] for name in ("incarnation", "step", "node")}
    assert sum(held_of(rows).values()) >= 199


def test_a_law_that_wants_the_rows_otherwise_has_shards_of_its_own() -> None:
    """In ours nothing would be left out for its sake."""
    other = SimpleNamespace(needs=Needs(key=Key.NODE, rows=(own("trace", "confirm"),), columns=()))
    ours, its = plan({**LAWS, ("other", 0): cast(Kernel, other)}, RunMeta.of({}))
    assert (ours,) == PLAN and ours.sifted
    assert its.own == (Chosen("trace", ("confirm",)),) and not its.sifted


def test_an_unknown_profile_leaves_nothing_out() -> None:
    (part,) = plan(LAWS)
    assert not part.sifted


def test_where_too_much_must_be_known_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = steady(200)
    monkeypatch.setattr(lived, "MOST_KNOWN", 3)
    assert held_of(rows) == {"a": 200, "b": 200}


def test_what_is_kept_does_not_grow_with_messages() -> None:
    assert held_of(steady(200)) == held_of(steady(2_000))
