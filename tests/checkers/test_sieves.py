"""What sieves leave out of a large run's shards changes nothing that is found in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from chaos.driver import Evidence
from chaos.history.columns import INTEGERS, VALUE, WORDS
from chaos.history.pieces import Held
from chaos.history.run_meta import RunMeta
from chaos.judging.divided import Divided, parted
from chaos.judging.in_process import Filed, InProcess
from chaos.judging.layout import FIRST_QUEUE, Layout
from chaos.judging.packing import unpack
from chaos.judging.plan import plan
from chaos.judging.registry import registry
from chaos.judging.shard import Shard
from chaos.kernel import Kernel, Key, Needs, Reads
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts import reads
from checkers._facts.arrays import Flags
from checkers._facts.nodes.logs import first_confirms
from checkers._facts.reads import own
from checkers.in_sync.members import Members
from checkers.no_rollback.others import Others
from checkers.roles.elections import Elections
from checkers.upload_bound.bound import Bound
from tests.checkers.harms import EMPTIED, HARMS
from tests.checkers.histories import as_given, ends_of, places_kept
from tests.checkers.recorded import recording

NODES = ("a", "b", "")
EVENTS = ("append", "append", "confirm", "confirm", "confirm", "truncate", "recovered", "bootstrap", "tier_commit")


def random_table(rng: Random, count: int) -> pa.Table:
    """Traces of nodes whose confirm offsets mostly grow; rows of a node may stand in another order than it lived."""
    lives = dict.fromkeys(NODES, 1)
    steps, tops, epochs = dict.fromkeys(NODES, 0), dict.fromkeys(NODES, 0), dict.fromkeys(NODES, 1)
    wild = rng.choice((0.0, 0.1, 1.0))
    rows: list[dict[str, Any]] = []
    for _ in range(count):
        node, f = rng.choice(NODES), rng.choice(EVENTS[: rng.choice((5, 9))])
        if f == "recovered":
            lives[node], steps[node] = lives[node] + 1, 0
        steps[node] += rng.choice((0, 1, 1))
        epochs[node] += rng.random() < 0.1
        tops[node] = max(0, tops[node] + (rng.randrange(-30, 30) if rng.random() < wild else rng.choice((0, 3, 10))))
        row = {"kind": "trace", "f": f, "node": node, "incarnation": lives[node], "step": steps[node], "time_ns": 0}
        row["epoch"] = epochs[node]
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
    return ends_of([{**empty, **row, "index": index} for index, row in enumerate(rows)])


def confirmed(rows: Rows) -> list[tuple[int, int]]:
    """The appends that were confirmed, and in which epoch first."""
    at = facts.confirmed_appends(rows).at
    first = first_confirms(rows, at)
    epoch = np.where(first >= 0, rows.column("epoch")[first], -1)
    return [*zip(rows.column("index")[at].tolist(), epoch.tolist(), strict=True)]


def known_at_commits(rows: Rows) -> list[tuple[int, int]]:
    """(commit, the confirm offset before it), by their rows."""
    commits, index = rows.where(kind="trace", f="tier_commit"), rows.column("index")
    confirms = np.concatenate([rows.where(kind="trace", f=f) for f in ("confirm", "recovered", "bootstrap")])
    told = facts.last_before(rows, confirms, commits, by_step=True)
    return [*zip(index[commits].tolist(), np.where(told >= 0, index[told], -1).tolist(), strict=True)]


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
        kept = seen["index"].to_numpy()[places_kept(seen, sieve.keep)]
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
    number, left_out = check(needed, find, range(100))
    assert number > 100 and left_out > 300


@pytest.mark.full
@pytest.mark.parametrize(("needed", "find"), CHECKS)
def test_nothing_is_missed_in_many(needed: tuple[Reads, ...], find: Callable[[Rows], list[Any]]) -> None:
    number, left_out = check(needed, find, range(100, 550))
    assert number > 500 and left_out > 2_500


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
        parts = dict(parted([table], plan(registry().kernels), messages // 2))
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
        parts = dict(parted([operations(messages)], plan(registry().kernels), messages // 2))
        assert sum(part.num_rows - 1 for name, part in parts.items() if name.startswith("queue-")) == 3 * messages
        held.append([part.num_rows for name, part in parts.items() if name.startswith("run")])
    assert held[0] == held[1] and set(held[0]) == {1}


#: Laws that are given few of the confirm offsets, and of what is durable, for the run as a whole.
ACROSS_NODES: dict[str, Kernel] = {
    "what others had of it": Others(),
    "what members have": Members(),
    "elections": Elections(),
    "what uploaders had confirmed": Bound(),
}
GROUP = ("a", "b", "c", "d")
ACROSS = ("confirm",) * 6 + ("synced",) * 6 + ("role", "set", "truncate", "recovered", "bootstrap", "applied", "start")


def replicated(rng: Random, count: int) -> pa.Table:
    """Nodes that tell of their disks, of confirm offsets and sets: most of it lawful in some seeds, hardly any in
    others; offsets go back, lives end, some nodes never tell of their disks, and rows may stand in disorder."""
    wild = rng.choice((0.0, 0.05, 1.0))
    silent = rng.choice(((), ("d",), ("b", "d")))
    now = entries = 0
    members, set_epoch, epoch = ["a", "b"], 1, 1
    rows: list[dict[str, Any]] = []
    for step in range(count):
        node, f = rng.choice(GROUP), rng.choice(ACROSS if rng.random() < 0.3 else ACROSS[:12])
        if f in ("confirm", "role", "set", "applied") and rng.random() < 0.9:
            node = GROUP[epoch % 2]
        if rng.random() < rng.choice((0.02, 0.2)):
            members, set_epoch = sorted(rng.sample(GROUP, rng.randrange(1, 4))), set_epoch + rng.choice((0, 1, 1))
        now = max(0, now + (rng.randrange(-20, 20) if rng.random() < wild else rng.choice((0, 1, 5))))
        row = {"kind": "trace", "f": f, "node": node, "incarnation": 1, "step": step, "time_ns": step}
        row |= {"epoch": epoch, "position": now}
        value: dict[str, Any] = {}
        if f in ("synced", "recovered", "bootstrap", "truncate"):
            if node in silent and f != "truncate":
                continue
            row["position"] = now + rng.choice((0, 10, rng.randrange(-20, 20) if rng.random() < wild else 5))
        elif f in ("confirm", "role", "set"):
            if rng.random() < 0.8:
                value = {"set": members, "proposed": rng.choice(([], [], ["c"])), "set_epoch": set_epoch}
            if f == "role":
                epoch += rng.choice((0, 1))
                row["epoch"] = epoch
                value |= {"role": rng.choice(("master", "master", "slave")), "start": now - rng.choice((0, 0, 30))}
            elif f == "confirm" and value and rng.random() < 0.7:
                late = rng.randrange(0, 3) if rng.random() < wild else 0
                value["acks"] = dict.fromkeys([*members, *value["proposed"]], now - late)
        elif f == "applied":
            entries += 1
            entry = {"type": rng.choice(("elect", "alter")), "group": "g", "set": members, "set_epoch": set_epoch}
            value = {"entry": entry | {"master_epoch": epoch, "master": node}}
            row |= {"node": "controller-0", "position": entries}
        rows.append(row | {"value": json.dumps(value)})
        if rng.random() < 0.1:
            uploaded = {"f": "tier_commit", "node": rng.choice(GROUP[:2]), "queue": 0, "offset": step}
            rows.append(row | uploaded | {"position": now - rng.choice((0, 0, 5, 30)), "value": "{}"})
    if rng.random() < 0.2:
        rng.shuffle(rows)
    return whole([{"kind": "harness", "f": "phase", "time_ns": 0, "value": '{"phase":"load"}'}, *rows])


def chosen(table: pa.Table, reads: Iterable[Reads]) -> Flags:
    rows, found = as_given(table), np.zeros(table.num_rows, np.bool_)
    for one in reads:
        for f in one.f:
            found[rows.where(kind=one.kind, f=f)] = True
    return found


def partial_of(law: Kernel, table: pa.Table, context: RunContext) -> dict[str, Any]:
    found = law.examine(Shard(table), context)
    return {name: [*getattr(found, name)] for name in ("anomalies", "facts", "gaps")} | {"counts": dict(found.counts)}


def check_sifted(law: Kernel, table: pa.Table, context: RunContext, rng: Random) -> tuple[bool, int]:
    """Returns whether anything is shown, and how many rows were left out."""
    sifted = [one for one in law.needs.rows if one.sieve is not None]
    share = rng.choice((0.0, 0.25, 0.5))
    kept = np.array([rng.random() < share for _ in range(table.num_rows)]) | ~chosen(table, sifted)
    for one in sifted:
        assert one.sieve is not None and one.sieve.streamed is not one.everywhere
        seen = table.filter(pa.array(chosen(table, one.sieve.rows)))
        at_once = sorted(seen["index"].to_numpy()[places_kept(seen, one.sieve.keep)].tolist())
        kept |= np.isin(table["index"].to_numpy(), at_once)
    found = partial_of(law, table, context)
    assert partial_of(law, table.filter(pa.array(kept)), context) == found
    return bool(found["anomalies"] or found["gaps"]), int((~kept).sum())


def check_across(name: str, seeds: range) -> tuple[int, int]:
    """Returns how many histories show something, and how many rows were left out."""
    shown = left_out = 0
    for seed in seeds:
        rng = Random(f"across {seed}")
        table = replicated(rng, rng.choice((3, 60, 200)))
        context = RunContext(run="random", seed=seed, meta=RunMeta.of({"deployment": "process", "tells": [*Evidence]}))
        context = replace(context, unfinished=rng.random() < 0.2)
        shows, without = check_sifted(ACROSS_NODES[name], table, context, rng)
        shown, left_out = shown + shows, left_out + without
    return shown, left_out


@pytest.mark.parametrize("name", ACROSS_NODES)
def test_laws_across_nodes_find_the_same_in_few_rows(name: str) -> None:
    shown, left_out = check_across(name, range(30))
    assert shown > 3 and left_out > 150


@pytest.mark.full
@pytest.mark.parametrize("name", ACROSS_NODES)
def test_laws_across_nodes_find_the_same_in_many(name: str) -> None:
    shown, left_out = check_across(name, range(30, 500))
    assert shown > 15 and left_out > 1_000


def check_harmed(name: str, every: int) -> None:
    left_out = 0
    for number, harm in enumerate([*HARMS, *EMPTIED][::every]):
        run, rng = recording().copy(), Random(f"sieve {harm.__name__} {number}")
        harm(run, rng)
        context = RunContext(run=harm.__name__, seed=0, meta=RunMeta.of({**run.meta, "deployment": "process"}))
        left_out += check_sifted(ACROSS_NODES[name], run.table(), context, rng)[1]
    assert left_out > 100


@pytest.mark.parametrize("name", ACROSS_NODES)
def test_laws_across_nodes_find_the_same_in_few_rows_of_harmed_runs(name: str) -> None:
    check_harmed(name, every=60)


@pytest.mark.full
@pytest.mark.parametrize("name", ACROSS_NODES)
def test_laws_across_nodes_find_the_same_in_few_rows_of_every_second_harmed_run(name: str) -> None:
    check_harmed(name, every=2)


class Weighed(InProcess):
    """Notes how many rows each piece brings for shards."""

    def shuffled(self, work: Callable[..., Any], given: Any, tasks: Sequence[Any], buckets: int) -> Filed:
        brought = [[*work(given, task)] for task in tasks]
        wanted = [[block for bucket, (_, block) in one if bucket >= FIRST_QUEUE] for one in brought]
        self.rows = [sum(unpack(block).num_rows for block in blocks) for blocks in wanted]
        return super().shuffled(lambda _, blocks: iter(blocks), given, brought, buckets)


def test_pieces_bring_little_where_the_disks_of_others_are_told_long_before() -> None:
    """The traces of processes come one after the other, and with the last one all confirm offsets of the master."""
    told: list[dict[str, Any]] = []
    for node, f in (("a", "synced"), ("b", "synced"), ("c", "confirm")):
        value = json.dumps({"set": ["a", "b"], "proposed": []}) if f == "confirm" else ""
        row = {"kind": "trace", "f": f, "node": node, "incarnation": 1, "epoch": 1, "time_ns": 0, "value": value}
        told += [row | {"step": step, "position": min(step, 990) if node == "b" else step} for step in range(1_000)]
    table = whole(told)
    (sieve,) = (one.sieve for one in reads.CONFIRMED_BY_OTHERS if one.sieve is not None)
    needs = Needs(key=Key.RUN, rows=reads.CONFIRMED_BY_OTHERS, columns=sieve.columns)
    meta = RunMeta.of({"deployment": "process"})
    parts = plan({("law", 0): cast(Kernel, SimpleNamespace(needs=needs))}, meta)
    with Weighed() as tasks:
        run = Divided(tasks, [Held(table[begin : begin + 50]) for begin in range(0, 3_000, 50)], Layout(meta, parts))
        ((_, rows, _),) = run.shards()
    confirms = [at for at in sorted(rows["index"].to_pylist()) if told[at]["f"] == "confirm"]
    assert [told[at]["position"] for at in confirms] == [*range(991, 1_000)], "which b never had on its disk"
    assert 0 < max(tasks.rows) < 20


def test_a_value_that_makes_no_sense_leaves_nothing_out() -> None:
    rows = [{"kind": "trace", "f": "confirm", "node": "a", "epoch": 1, "position": 5, "time_ns": 0} for _ in range(9)]
    table = whole([row | {"value": '{"set":5}'} for row in rows])
    parts = plan({("no_rollback", 0): Others()}, RunMeta.of({"deployment": "process"}))
    (held,) = [part for name, part in parted([table], parts, 100) if name.startswith("run")]
    assert held.num_rows == 9


def test_one_clock_leaves_nothing_out() -> None:
    table = replicated(Random(5), 150)
    number = int(chosen(table, [own("trace", "confirm", "synced")]).sum())
    for one_clock, deployment in ((False, "process"), (True, "sim")):
        parts = plan({("no_rollback", 0): Others()}, RunMeta.of({"deployment": deployment}))
        (held,) = [part for name, part in parted([table], parts, 1_000) if name.startswith("run")]
        assert (int(chosen(held, [own("trace", "confirm", "synced")]).sum()) == number) is one_clock
