"""The workloads against a perfect queue in virtual time, and against one that misbehaves in known ways."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.ops import Answer, Delivered, Failed, QueueRef, Unknown, message_id
from chaos.tasks import gather
from chaos.workload import Use, Workload, body_hash, uses_of
from workloads import lock, register, tier_read
from workloads import queue as queue_module

QUEUES = tuple(QueueRef(index=index, topic="t", queue_id=index) for index in range(3))
BROKERS = ("broker-0", "broker-1")


@dataclass
class System:
    """Logs and offsets in memory. ``trouble`` may raise for a call, before or after it took effect."""

    logs: dict[int, list[Delivered]] = field(default_factory=lambda: {queue.index: [] for queue in QUEUES})
    offsets: dict[tuple[int, str], int] = field(default_factory=dict)
    first: int = 0
    local_start: int = 0
    hidden_tail: int = 0
    tier_end: int | None = None  # how much of each queue the tier holds; everything, where this is None
    trouble: Callable[[str], Exception | None] = lambda call: None
    calls: Counter[str] = field(default_factory=Counter)

    async def called(self, call: str) -> None:
        await asyncio.sleep(0.002)
        self.calls[call] += 1
        error = self.trouble(call)
        if error is not None:
            raise error


@dataclass
class FakeClient:
    system: System

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        log = self.system.logs[queue.index]
        await self.system.called("send")
        log.append(Delivered(offset=len(log), message=int(key, 16), hash=body_hash(body)))
        await self.system.called("sent")
        return Answer(offset=len(log) - 1)

    async def pull(
        self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
    ) -> Answer:
        await self.system.called(f"pull {node} {source}".strip())
        log, first = self.system.logs[queue.index], self.system.first
        end = len(log) - self.system.hidden_tail
        begin = self.system.local_start if source == "local" else first
        if offset < begin:
            raise Failed("moved", Answer(minimum=first, maximum=end, following=begin))
        last = end if source != "tier" or self.system.tier_end is None else min(end, self.system.tier_end)
        found = tuple(log[offset : min(last, offset + limit)])
        return Answer(minimum=begin, maximum=end, following=offset + len(found), messages=found, source=source)

    async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
        await self.system.called("commit")
        self.system.offsets[queue.index, group] = offset
        return Answer(offset=offset)

    async def committed(self, queue: QueueRef, group: str) -> Answer:
        await self.system.called("committed")
        return Answer(offset=self.system.offsets.get((queue.index, group), -1))

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        await self.system.called("bounds")
        return Answer(minimum=self.system.first, maximum=len(self.system.logs[queue.index]) - self.system.hidden_tail)

    def close(self) -> None: ...


class FakeLoad:
    def __init__(self, loop: VirtualLoop, system: System) -> None:
        self.loop = loop
        self.system = system
        self.queues = QUEUES
        self.brokers = BROKERS
        self.stopping = False
        self.shared: dict[str, dict[int, int]] = {"acked": {}, "seen": {}, "sequence": {}}
        self.rows: list[dict[str, Any]] = []

    def client(self, name: str) -> FakeClient:
        return FakeClient(self.system)

    def rng(self, name: str) -> Random:
        return Random(name)

    async def sleep(self, seconds: float) -> bool:
        await asyncio.sleep(seconds)
        return False

    async def gather(self, *coroutines: Coroutine[Any, Any, None]) -> None:
        await gather(*coroutines)

    def now_ns(self) -> int:
        return self.loop.now_ns

    def record(self, kind: str, **columns: Any) -> int:
        self.rows.append({"kind": kind, "time_ns": self.loop.now_ns, **columns})
        return len(self.rows) - 1

    def where(self, **columns: object) -> list[dict[str, Any]]:
        return [row for row in self.rows if all(row.get(name) == value for name, value in columns.items())]


def play(workload: Workload, system: System, *, seconds: float = 5.0, drain: bool = True) -> FakeLoad:
    loop = VirtualLoop()
    load = FakeLoad(loop, system)

    async def main() -> int:
        async def stop() -> None:
            await asyncio.sleep(seconds)
            load.stopping = True

        await gather(stop(), workload.run(load))
        if drain:
            await workload.drain(load)
        return 0

    loop.run_until_complete(main())
    loop.close()
    return load


def queue(**options: Any) -> Workload:
    return queue_module.create(queue_module.Options(**options))


def test_messages_are_unique_dense_and_sent_at_the_rate_to_every_queue() -> None:
    load = play(queue(rate_per_s=100.0), System())
    sent = [row["message"] for row in load.where(f="send", type="invoke")]
    assert 450 < len(sent) <= 510 and len(set(sent)) == len(sent)
    for one in QUEUES:
        count = load.shared["sequence"][one.index]
        assert count > 100
        assert sorted(m for m in sent if m >> 40 == one.index) == [message_id(one.index, s) for s in range(count)]


def test_the_drain_reads_everything_and_reaches_the_end() -> None:
    system = System()
    load = play(queue(), system)
    for one in QUEUES:
        (drained,) = load.where(f="drain", type="ok", queue=one.index)
        reader = f"drain-{one.index}-reader.0"
        assert drained["offset"] == len(system.logs[one.index])
        assert [row["offset"] for row in load.where(f="delivered", process=reader)] == list(range(drained["offset"]))


def test_consumers_of_a_group_read_all_in_order_and_never_own_a_queue_together() -> None:
    load = play(queue(consumers=2, groups=2, rotate_s=1.0), System(), seconds=6.0)
    for group in ("group-0", "group-1"):
        for one in QUEUES:
            pulls = [
                row for row in load.where(f="pull", queue=one.index, type="ok") if row["value"].get("group") == group
            ]
            begins = [row["value"]["asked"] for row in pulls]
            assert begins == sorted(begins) and begins[-1] > 50
            assert len({row["process"].rpartition(".")[0] for row in pulls}) == 2
            owners = [row["value"]["owner"] for row in load.where(f="committed", queue=one.index, type="ok")]
            assert len(owners) > 2


def test_an_unclear_send_retires_its_process_and_is_retried_as_the_same_message() -> None:
    rng = Random(4)
    system = System(trouble=lambda call: Unknown("timeout") if call == "sent" and rng.random() < 0.2 else None)
    load = play(queue(retry=0.5), system)
    unclear = load.where(f="send", type="info")
    assert len(unclear) > 20 and len({row["process"] for row in unclear}) == len(unclear)
    attempts = Counter(row["message"] for row in load.where(f="send", type="invoke"))
    appended = Counter(one.message for log in system.logs.values() for one in log)
    assert max(attempts.values()) > 1 and all(appended[message] <= attempts[message] for message in appended)
    assert len(load.where(f="drain", type="ok")) == len(QUEUES)


def test_a_system_that_insists_on_an_earlier_end_proves_the_absence() -> None:
    system = System()
    workload = queue()

    def trouble(call: str) -> None:
        system.hidden_tail = 2 if system.calls["bounds"] else 0  # from the drain's first call on

    system.trouble = trouble
    load = play(workload, system)
    drained = {row["queue"]: row for row in load.where(f="drain", type="ok")}
    for one in QUEUES:
        assert drained[one.index]["offset"] == load.shared["acked"][one.index] + 1
        assert drained[one.index]["value"]["maximum"] == len(system.logs[one.index]) - 2


def test_a_drain_without_answers_is_unclear() -> None:
    system = System()
    system.trouble = lambda call: Failed("down") if call.startswith("pull") and system.calls["bounds"] else None
    load = play(queue(drain_s=3.0), system)
    assert len(load.where(f="drain", type="info")) == len(QUEUES) and not load.where(f="drain", type="ok")


def test_readers_go_on_where_retention_has_moved_the_beginning() -> None:
    system = System(first=0)
    system.trouble = lambda call: setattr(system, "first", 40) if system.calls["send"] > 300 else None
    load = play(queue(), system)
    (moved,) = {row["value"]["minimum"] for row in load.where(f="bounds", type="ok")}
    assert moved == 40 and all(row["offset"] >= 40 for row in load.where(f="drain", type="invoke"))
    assert len(load.where(f="drain", type="ok")) == len(QUEUES)


def test_tier_readers_ask_every_replica_from_both_sources_and_at_the_boundary() -> None:
    system = System(local_start=30)
    for one in QUEUES:
        system.logs[one.index] = [Delivered(offset=o, message=o, hash=o) for o in range(100)]
    load = play(tier_read.create(tier_read.Options(rate_per_s=40.0)), system)
    asked = Counter((row["value"].get("from"), row["value"].get("demand")) for row in load.where(f="pull", type="ok"))
    assert all(asked[broker, demand] > 5 for broker in BROKERS for demand in ("local", "tier"))
    told = {(row["value"]["limit"], row["value"]["max_bytes"]) for row in load.where(f="pull", type="invoke")}
    assert told == {(16, 4096)}
    across = [
        row["offset"]
        for row in load.where(f="pull", type="invoke")
        if "from" in row["value"] and "demand" not in row["value"]
    ]
    assert any(offset == 30 for offset in across) and any(14 <= offset < 30 for offset in across)
    for one in QUEUES:
        process = f"tier-drain-{one.index}.0"
        assert [r["offset"] for r in load.where(f="delivered", process=process)] == list(range(100))


def test_a_tier_that_is_down_does_not_hold_up_the_end() -> None:
    system = System(trouble=lambda call: Failed("retry") if call.endswith("tier") else None)
    load = play(tier_read.create(tier_read.Options()), system)
    assert load.loop.now_ns < 20e9 and not load.where(f="drain")


@pytest.mark.parametrize("held", [60, 0])
def test_a_tier_that_is_behind_is_waited_for_even_if_it_holds_nothing(held: int) -> None:
    system = System(tier_end=held)
    for one in QUEUES:
        system.logs[one.index] = [Delivered(offset=o, message=o, hash=o) for o in range(100)]

    def uploaded(call: str) -> None:
        if system.calls["pull  tier"] > 60:  # by the final reading, which asks no certain replica
            system.tier_end = 100

    system.trouble = uploaded
    load = play(tier_read.create(tier_read.Options()), system)
    seen = {row["offset"] for row in load.where(f="delivered", process="tier-drain-0.0")}
    assert seen == set(range(100))
    assert load.loop.now_ns > 6e9


def test_a_tier_that_stays_behind_does_not_hold_up_the_end_for_ever() -> None:
    system = System(tier_end=60)
    for one in QUEUES:
        system.logs[one.index] = [Delivered(offset=o, message=o, hash=o) for o in range(100)]
    load = play(tier_read.create(tier_read.Options(drain_s=20.0)), system)
    assert 24e9 < load.loop.now_ns < 27e9
    empty = [row for row in load.where(f="pull", type="ok", process="tier-drain-0.0") if row["value"]["asked"] == 60]
    assert len(empty) > 50


def test_workloads_declare_what_they_use() -> None:
    assert uses_of(queue_module.create(queue_module.Options())) == (Use.QUEUES,)
    assert uses_of(tier_read.create(tier_read.Options())) == (Use.QUEUES, Use.TIER_READS)
    for module in (lock, register):
        assert uses_of(module.create(module.Options())) == (Use.OBJECTS,)
