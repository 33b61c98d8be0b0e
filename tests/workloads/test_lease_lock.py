"""The workload on locks that are lent for a time, against a lender in memory: a holder that notices that its time is
over is safe, and one that stands still is not."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.ops import Answer, Failed, Unknown
from chaos.tasks import gather
from chaos.verdict import Validity
from tests.workloads.test_objects import ObjectLoad, Store
from workloads import lease_lock

NODES = ("etcd-0", "etcd-1", "etcd-2")


@dataclass
class Lender:
    """Each lock with its holder, token and the time until which it is lent. ``trouble`` may raise for a call,
    ``before`` or ``after`` it took effect."""

    now: Callable[[], float]
    held: dict[str, tuple[str, float]] = field(default_factory=dict)
    tokens: int = 0
    trouble: Callable[[str, str], Exception | None] = lambda when, call: None

    async def called(self, when: str, call: str) -> None:
        await asyncio.sleep(0.002)
        error = self.trouble(when, call)
        if error is not None:
            raise error

    def holder(self, name: str) -> str:
        who, until = self.held.get(name, ("", -math.inf))
        return who if self.now() < until else ""


@dataclass
class FakeLocks:
    lender: Lender
    me: str
    nodes: tuple[str, ...] = NODES
    lease_s: float = 0.0

    async def acquire(self, name: str, node: str, *, lease_s: float) -> Answer:
        self.lease_s = lease_s
        await self.lender.called("before", "acquire")
        if self.lender.holder(name):
            raise Failed("held", Answer(node=node))
        self.lender.held[name] = (self.me, self.lender.now() + lease_s)
        self.lender.tokens += 1
        token = self.lender.tokens
        await self.lender.called("after", "acquire")
        return Answer(node=node, value={"token": token})

    async def renew(self, name: str, node: str) -> Answer:
        await self.lender.called("before", "renew")
        if self.lender.holder(name) != self.me:
            raise Failed("not ours", Answer(node=node))
        self.lender.held[name] = (self.me, self.lender.now() + self.lease_s)
        await self.lender.called("after", "renew")
        return Answer(node=node)

    async def release(self, name: str, node: str) -> Answer:
        await self.lender.called("before", "release")
        if self.lender.holder(name) == self.me:
            del self.lender.held[name]
        await self.lender.called("after", "release")
        return Answer(node=node)


class LockLoad(ObjectLoad):
    def __init__(self, loop: VirtualLoop, trouble: Callable[[str, str], Exception | None]) -> None:
        super().__init__(loop, Store())
        self.lender = Lender(now=lambda: self.now_ns() / 1e9, trouble=trouble)

    def locks(self, name: str) -> FakeLocks:
        return FakeLocks(self.lender, name)


def play(trouble: Callable[[str, str], Exception | None] = lambda when, call: None, **options: Any) -> LockLoad:
    loop = VirtualLoop()
    load = LockLoad(loop, trouble)
    workload = lease_lock.create(lease_lock.Options(**options))

    async def main() -> int:
        async def stop() -> None:
            await asyncio.sleep(30.0)
            load.stopping = True

        await gather(stop(), workload.run(load))
        await workload.drain(load)
        return 0

    loop.run_until_complete(main())
    loop.close()
    return load


def losing(share: float, *calls: str) -> Callable[[str, str], Exception | None]:
    rng = Random(11)
    return lambda when, call: Unknown("timeout") if call in calls and rng.random() < share else None


def test_locks_go_from_hand_to_hand_with_growing_tokens() -> None:
    load = play()
    tokens = [value["token"] for value in load.told("acquire")]
    assert len(tokens) > 50 and len(set(tokens)) == len(tokens)
    assert load.told("acquire", "fail") and not load.told("release", "info")
    assert any(row["process"].startswith("lease-lock-drain") for row in load.where(f="acquire", type="ok"))
    assert load.verdict("lease_lock").validity is Validity.VALID


@pytest.mark.parametrize("calls", [("acquire",), ("renew",), ("release",), ("acquire", "renew", "release")])
def test_holders_who_notice_are_safe_although_messages_get_lost(calls: tuple[str, ...]) -> None:
    load = play(losing(0.4, *calls), hold_s=4.0)
    verdict = load.verdict("lease_lock")
    assert verdict.validity is Validity.VALID, verdict
    assert load.told("acquire")


def test_a_holder_gives_its_lock_up_when_no_renewal_is_answered() -> None:
    load = play(losing(1.0, "renew"), hold_s=60.0, clients=1)
    held = list(zip(load.where(f="acquire", type="ok"), load.where(f="release", type="invoke"), strict=False))
    assert len(held) > 10 and all(back["time_ns"] - took["time_ns"] < 2e9 for took, back in held)


def test_a_release_that_never_left_is_no_proof_that_the_lock_is_still_held() -> None:
    load = play(lambda when, call: Failed("refused") if call == "release" else None)
    assert load.told("release", "info") and not load.told("release", "fail")
    assert load.verdict("lease_lock").validity is Validity.VALID


def test_a_lock_that_came_too_late_is_not_used() -> None:
    async def slow(self: FakeLocks, name: str, node: str, *, lease_s: float) -> Answer:
        await asyncio.sleep(1.5)
        return Answer(node=node, value={"token": 1})

    acquire, FakeLocks.acquire = FakeLocks.acquire, slow  # type: ignore[method-assign]
    try:
        load = play()
    finally:
        FakeLocks.acquire = acquire  # type: ignore[method-assign]
    assert load.told("acquire", "info") and not load.told("acquire")


def test_a_holder_that_stands_still_shares_its_lock_with_the_next() -> None:
    load = play(pauses=0.2)
    verdict = load.verdict("lease_lock")
    assert verdict.validity is Validity.INVALID
    assert "took the lock with token" in verdict.anomalies[0].explanation
    assert any("stood_still_s" in value for value in load.told("release"))
