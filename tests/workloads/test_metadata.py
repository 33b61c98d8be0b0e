"""The workload on metadata: entries of every kind are made, changed and deleted, and every node is asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chaos.deployments._sim.loop import VirtualLoop
from chaos.ops import Answer, Failed, Unknown
from chaos.tasks import gather
from chaos.workload import Use, uses_of
from tests.workloads.test_workloads import FakeLoad, System
from workloads import metadata


@dataclass
class Store:
    """Metadata in memory, whose viewers are ``behind`` by so many changes. ``trouble`` may raise before a call."""

    trouble: Callable[[str], Exception | None] = lambda call: None
    behind: int = 0
    log: list[tuple[str, int, int | None]] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    nodes: tuple[str, ...] = ("controller-0", "controller-1")
    viewers: tuple[str, ...] = ("nameserver-0", "broker-0")
    kinds: tuple[str, ...] = ("topic", "route")

    async def called(self, call: str) -> None:
        await asyncio.sleep(0.002)
        self.asked[call] += 1
        error = self.trouble(call)
        if error is not None:
            raise error

    def told(self, key: str, revision: int) -> dict[str, Any]:
        known = [(version, value) for name, version, value in self.log[:revision] if name == key]
        version, value = known[-1] if known else (0, None)
        return {"version": version, "value": value, "revision": revision}

    async def read(self, key: str, node: str) -> Answer:
        await self.called("read")
        return Answer(node=node, value=self.told(key, len(self.log)))

    async def view(self, key: str, node: str) -> Answer:
        await self.called("view")
        return Answer(node=node, value=self.told(key, max(0, len(self.log) - self.behind)) | {"content": 7})

    async def write(self, key: str, node: str, value: int | None) -> Answer:
        await self.called("write")
        version = self.told(key, len(self.log))["version"] + 1
        self.log.append((key, version, value))
        return Answer(node=node, value={"version": version, "revision": len(self.log)})

    async def compare_and_set(self, key: str, node: str, *, expected: int, value: int | None) -> Answer:
        await self.called("compare_and_set")
        if self.told(key, len(self.log))["version"] != expected:
            raise Failed("another version", Answer(node=node, value={"refused": True}))
        return await self.write(key, node, value)


def play(store: Store, *, seconds: float = 5.0, **options: Any) -> FakeLoad:
    loop = VirtualLoop()
    load = FakeLoad(loop, System())
    load.metadata = lambda name: store  # type: ignore[attr-defined]
    made = metadata.create(metadata.Options(**options))
    assert uses_of(made) == (Use.OBJECTS, Use.METADATA)

    async def main() -> int:
        async def stop() -> None:
            await asyncio.sleep(seconds)
            load.stopping = True

        await gather(stop(), made.run(load))
        await made.drain(load)
        return 0

    loop.run_until_complete(main())
    loop.close()
    return load


def test_each_kind_is_changed_in_both_ways_and_read_through_every_node() -> None:
    load = play(Store())
    models = {row["value"]["object"]: row["value"]["model"] for row in load.where(f="read", type="ok")}
    kinds = ("topic", "route")
    assert models == {f"{kind}/metadata-0": "replica-info" for kind in kinds} | {
        f"{kind}/metadata-1": "register" for kind in kinds
    }
    begun = {row["value"]["object"]: row["value"]["init"] for row in load.where(f="create", type="invoke")}
    assert begun["topic/metadata-0"] == {"replica-info": [0]} and begun["topic/metadata-1"] == {"register": [None]}
    changes = [row["value"] for f in ("cas", "write") for row in load.where(f=f, type="ok")]
    assert {one["object"] for one in changes} == set(models)
    values = [one["members"][0] for one in changes if one.get("members")]
    values += [one["address"] for one in changes if one.get("address") is not None]
    assert len(values) == len(set(values)) > 40, "each value is written once"
    assert any(one.get("members") == [] for one in changes) and any(
        "address" in one and one["address"] is None for one in changes
    )
    assert {row["node"] for row in load.where(f="view", type="ok")} == {"nameserver-0", "broker-0"}
    assert all("revision" in row["value"] for f in ("read", "write", "cas") for row in load.where(f=f, type="ok"))


def test_entries_that_there_are_already_begin_as_they_are() -> None:
    store = Store(log=[("topic/metadata-0", 1, 5), ("topic/metadata-0", 2, 6), ("route/metadata-1", 1, 9)])
    load = play(store, seconds=1.0)
    begun = {row["value"]["object"]: row["value"]["init"] for row in load.where(f="create", type="invoke")}
    assert begun["topic/metadata-0"] == {"replica-info": [2, 6]} and begun["route/metadata-1"] == {"register": [9]}


def test_nothing_is_done_to_an_entry_whose_beginning_nobody_knows() -> None:
    load = play(Store(trouble=lambda call: Failed("no") if call == "read" else None), seconds=2.0)
    assert load.where(kind="op") == []


def test_who_does_not_know_the_end_goes_on_as_somebody_else() -> None:
    load = play(Store(trouble=lambda call: Unknown("who knows") if call == "write" else None), seconds=2.0)
    lost = [row["process"] for row in load.where(f="write", type="info")]
    assert lost and len(set(lost)) == len(lost)


def test_in_the_end_a_view_that_lags_is_waited_for_within_the_bound() -> None:
    ahead = play(Store(), seconds=1.0)
    assert ahead.where(f="view")[-1]["time_ns"] < 1.5e9
    behind = play(Store(behind=1), seconds=1.0, drain_s=3.0)
    late = behind.where(f="view", type="ok")[-1]
    assert 3.5e9 < late["time_ns"] < 5e9 and late["value"]["revision"] > 0
