"""The workloads on objects against a store in memory: perfect, losing requests and answers, or telling stale states."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.history.columns import INTEGERS, WORDS
from chaos.history.run_meta import RunMeta
from chaos.judging.engine import judge_rows
from chaos.law import RunContext
from chaos.ops import Answer, Failed, Unknown
from chaos.tasks import gather
from chaos.verdict import Validity, Verdict
from chaos.workload import Workload
from tests.checkers.histories import table_of
from tests.checkers.names import L
from tests.workloads.test_workloads import FakeLoad, System
from workloads import lock as lock_module
from workloads import register as register_module

NODES = ("controller-0", "controller-1", "controller-2")
LEADER = "controller-1"


@dataclass
class Store:
    """Objects in memory; all nodes tell the same, ``LEADER`` alone takes changes. ``trouble`` may raise for a call,
    ``before`` or ``after`` it took effect."""

    sets: dict[str, tuple[int, list[int]]] = field(default_factory=dict)
    past: dict[str, list[tuple[int, list[int]]]] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    trouble: Callable[[str, str], Exception | None] = lambda when, call: None
    stale: Callable[[], bool] = lambda: False
    created: list[str] = field(default_factory=list)

    async def called(self, when: str, call: str) -> None:
        await asyncio.sleep(0.002)
        error = self.trouble(when, call)
        if error is not None:
            raise error


@dataclass
class FakeObjects:
    store: Store
    nodes: tuple[str, ...] = NODES

    async def create(self, name: str, node: str, *, numbers: int) -> Answer:
        await self._changing("create", node)
        self.store.created.append(name)
        self.store.sets.setdefault(name, (1, [1]))
        self.store.addresses.setdefault(name, "nowhere")
        await self.store.called("after", "create")
        return Answer(node=node)

    async def read(self, key: str, node: str) -> Answer:
        name, _, part = key.rpartition("/")
        return await (self._read_set(name, node) if part == "set" else self._read_text(name, node))

    async def _read_set(self, name: str, node: str) -> Answer:
        await self.store.called("before", "read_set")
        epoch, members = self.store.sets[name]
        if self.store.stale() and self.store.past.get(name):
            epoch, members = self.store.past[name][-1]
        await self.store.called("after", "read_set")
        return Answer(node=node, value={"value": members, "version": epoch})

    async def compare_and_set(self, key: str, node: str, *, expected: int, value: Sequence[int]) -> Answer:
        name = key.removesuffix("/set")
        await self._changing("compare_and_set", node)
        epoch = self.store.sets[name][0]
        if epoch != expected:
            raise Failed("another epoch", Answer(node=node, value={"refused": True}))
        self.store.past.setdefault(name, []).append(self.store.sets[name])
        self.store.sets[name] = (epoch + 1, sorted(value))
        await self.store.called("after", "compare_and_set")
        return Answer(node=node, value={"version": epoch + 1})

    async def _read_text(self, name: str, node: str) -> Answer:
        await self.store.called("before", "read_text")
        return Answer(node=node, value={"value": self.store.addresses[name]})

    async def write(self, key: str, node: str, value: str) -> Answer:
        await self._changing("write", node)
        self.store.addresses[key.removesuffix("/text")] = value
        await self.store.called("after", "write")
        return Answer(node=node)

    async def _changing(self, call: str, node: str) -> None:
        await self.store.called("before", call)
        if node != LEADER:
            raise Failed("not leader", Answer(node=node))


class ObjectLoad(FakeLoad):
    def __init__(self, loop: VirtualLoop, store: Store) -> None:
        super().__init__(loop, System())
        self.store = store

    def objects(self, name: str) -> FakeObjects:
        return FakeObjects(self.store)

    def told(self, f: str, type: str = "ok") -> list[dict[str, Any]]:
        return [row["value"] for row in self.where(kind="op", f=f, type=type)]

    def verdict(self, workload: str) -> Verdict:
        rows = []
        for index, row in enumerate(self.rows):
            blank: dict[str, Any] = dict.fromkeys(INTEGERS, -1) | dict.fromkeys(WORDS, "")
            rows.append({**blank, "index": index, **row, "value": json.dumps(row["value"])})
        context = RunContext(run="test", seed=1, meta=RunMeta.of({"uses": ["objects"]}))
        verdicts = judge_rows([("all-0", table_of(rows))], context)
        return next(verdict for verdict in verdicts if verdict.law == L.LINEARIZABLE)


def play(workload: Workload, store: Store, *, seconds: float = 5.0) -> ObjectLoad:
    loop = VirtualLoop()
    load = ObjectLoad(loop, store)

    async def main() -> int:
        async def stop() -> None:
            await asyncio.sleep(seconds)
            load.stopping = True

        await gather(stop(), workload.run(load))
        await workload.drain(load)
        return 0

    loop.run_until_complete(main())
    loop.close()
    return load


def register(**options: Any) -> Workload:
    return register_module.create(register_module.Options(**options))


def lock(**options: Any) -> Workload:
    return lock_module.create(lock_module.Options(**options))


def losing(share: float) -> Callable[[str, str], Exception | None]:
    """Requests that never arrive and answers that get lost, nobody can tell which."""
    rng = Random(7)

    def trouble(when: str, call: str) -> Exception | None:
        if rng.random() >= share:
            return None
        return Failed("lost") if call.startswith("read") else Unknown("timeout")

    return trouble


def test_the_rate_is_kept_and_every_kind_of_operation_happens() -> None:
    load = play(register(rate_per_s=100.0, clients=5), Store())
    done = [row for row in load.rows if row["kind"] == "op" and row["type"] == "invoke" and row["f"] != "create"]
    assert 420 < len(done) < 560
    assert {(row["f"], row["value"]["model"]) for row in done} == {
        ("read", "replica-info"),
        ("read", "register"),
        ("cas", "replica-info"),
        ("write", "register"),
    }
    assert {row["value"]["to"] for row in done if row["f"] == "read"} == set(NODES)
    assert {row["queue"] for row in done} == {-1}


def test_no_address_is_written_twice() -> None:
    load = play(register(), Store())
    written = [value["address"] for value in load.told("write", "invoke")]
    assert len(set(written)) == len(written) > 10


def test_clients_find_the_node_that_takes_changes_but_ask_others_too() -> None:
    load = play(register(clients=2), Store())
    asked = [value["to"] for value in load.told("cas", "invoke")]
    assert asked.count(LEADER) > len(asked) / 2 and set(asked) == set(NODES)


def test_an_object_is_made_however_often_that_must_be_asked() -> None:
    rng = Random(3)
    store = Store(trouble=lambda when, call: Unknown("timeout") if call == "create" and rng.random() < 0.4 else None)
    load = play(register(objects=3), store)
    assert sorted(set(store.created)) == ["register-0", "register-1", "register-2"]
    assert len(load.told("create")) == 3 and load.told("create", "info") == []
    assert load.told("create", "invoke")[0]["init"] == {"replica-info": [1, 1], "register": ["nowhere"]}


def test_objects_that_are_never_made_are_not_used() -> None:
    load = play(register(), Store(trouble=lambda when, call: Failed("down") if call == "create" else None), seconds=2)
    assert {row["f"] for row in load.rows} == {"create"}
    assert load.verdict("register").validity is Validity.UNKNOWN


def test_the_drain_reads_every_object_from_every_controller() -> None:
    load = play(register(objects=2), Store())
    last = [row["value"] for row in load.rows if row["process"].startswith("register-") and "reader" in row["process"]]
    read = {(value["object"], value["model"], value["to"]) for value in last}
    models = ("replica-info", "register")
    assert read == {(f"register-{n}", model, node) for n in (0, 1) for model in models for node in NODES}


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_a_perfect_store_is_valid_and_one_that_loses_messages_too(share: float) -> None:
    load = play(register(), Store(trouble=losing(share)))
    verdict = load.verdict("register")
    assert verdict.validity is Validity.VALID, verdict
    assert (verdict.counts["unclear"] > 0) == (share > 0)
    assert load.told("cas", "fail") and any(value.get("refused") for value in load.told("cas", "fail"))


def test_a_store_that_sometimes_tells_the_state_before_the_last_is_found() -> None:
    rng = Random(5)
    load = play(register(), Store(stale=lambda: rng.random() < 0.05))
    assert load.verdict("register").validity is Validity.INVALID


# Locks


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_locks_are_taken_and_given_back_also_when_messages_get_lost(share: float) -> None:
    store = Store(trouble=losing(share))
    load = play(lock(clients=4, locks=2), store, seconds=10)
    verdict = load.verdict("lock")
    assert verdict.validity is Validity.VALID, verdict
    assert len(load.told("acquire")) > 50
    assert (len(load.told("acquire", "info")) + len(load.told("release", "info")) > 0) == (share > 0)
    assert {members[1:] == [] for _, members in store.sets.values()} == {True}  # nobody holds one at the end
    assert any(row["process"].startswith("lock-drain") for row in load.where(f="acquire", type="ok"))


def test_tokens_grow_with_every_holder() -> None:
    load = play(lock(clients=3, locks=1), Store())
    tokens = [value["token"] for value in load.told("acquire")]
    assert tokens == sorted(set(tokens)) and len(tokens) > 20


def test_a_lock_that_an_unclear_call_took_is_given_back_by_its_client() -> None:
    first = iter([True])

    def trouble(when: str, call: str) -> Exception | None:
        return Unknown("timeout") if (when, call) == ("after", "compare_and_set") and next(first, False) else None

    load = play(lock(clients=1, locks=1), Store(trouble=trouble))
    asked = {"object": "lock-0", "model": "fenced-lock", "holder": 2}
    assert load.told("acquire", "info") == [{**asked, "token": 2, "reason": "timeout"}]
    assert load.told("release")[0]["token"] == 2
    assert load.verdict("lock").validity is Validity.VALID


def test_a_store_that_forgets_who_holds_a_lock_is_found() -> None:
    class Forgetful(dict[str, Any]):
        """Now and then a lock looks free, at the same epoch."""

        rng = Random(9)

        def __getitem__(self, name: str) -> Any:
            epoch, members = super().__getitem__(name)
            return (epoch, [1]) if self.rng.random() < 0.1 else (epoch, members)

    load = play(lock(clients=4, locks=1, hold_s=0.5), Store(sets=Forgetful()))
    verdict = load.verdict("lock")
    assert verdict.validity is Validity.INVALID and "took the lock with token" in verdict.anomalies[0].explanation
