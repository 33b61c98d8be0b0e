"""Virtual time: it jumps, keeps order, and never hangs silently."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.errors import DeploymentError


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop(max_virtual_ns=10**15, max_at_once=10_000)
    yield loop
    loop.close()


def test_a_day_of_sleep_takes_no_time(loop: VirtualLoop) -> None:
    loop.run_until_complete(asyncio.sleep(24 * 3600))
    assert loop.now_ns == 24 * 3600 * 10**9


def test_events_at_one_instant_run_in_the_order_of_posting(loop: VirtualLoop) -> None:
    seen: list[int] = []
    for number in range(50):
        if number % 2:
            loop.call_later(0.001, seen.append, number)
        else:
            loop.post(1_000_000, seen.append, number)
    loop.run_until_complete(asyncio.sleep(0.002))
    assert seen == list(range(50))


def test_timeouts_are_virtual(loop: VirtualLoop) -> None:
    async def main() -> None:
        async with asyncio.timeout(3):
            await asyncio.sleep(1000)

    with pytest.raises(TimeoutError):
        loop.run_until_complete(main())
    assert loop.now_ns == 3 * 10**9


def test_a_cancelled_timer_does_not_fire(loop: VirtualLoop) -> None:
    seen: list[str] = []
    loop.call_later(1, seen.append, "cancelled").cancel()
    loop.run_until_complete(asyncio.sleep(2))
    assert seen == []


def test_deadlock_is_an_error(loop: VirtualLoop) -> None:
    with pytest.raises(DeploymentError, match=r"stuck at 0\.0"):
        loop.run_until_complete(loop.create_future())


def test_spinning_without_sleep_is_an_error(loop: VirtualLoop) -> None:
    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(DeploymentError, match="without the clock moving"):
        loop.run_until_complete(spin())


def test_virtual_time_is_bounded(loop: VirtualLoop) -> None:
    with pytest.raises(DeploymentError, match="bound of 1000000 s"):
        loop.run_until_complete(asyncio.sleep(10**7))


def test_threads_are_refused(loop: VirtualLoop) -> None:
    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(DeploymentError, match="thread"):
        loop.run_until_complete(main())


def test_an_error_in_an_event_ends_the_run(loop: VirtualLoop) -> None:
    loop.post(5, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        loop.run_until_complete(asyncio.sleep(1))
