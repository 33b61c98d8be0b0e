"""The task group keeps its order: on the ordinary asyncio loop and in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.tasks import Group, gather


def on_asyncio(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(main)


def on_virtual_loop(main: Coroutine[Any, Any, Any]) -> Any:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


Run = Callable[[Coroutine[Any, Any, Any]], Any]
both_loops = pytest.mark.parametrize("run", [on_asyncio, on_virtual_loop])


async def forever(name: str, log: list[str]) -> None:
    log.append(f"start {name}")
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        log.append(f"end {name}")


async def fail(error: Exception) -> None:
    await asyncio.sleep(0)
    raise error


@both_loops
def test_gather_returns_results_in_order(run: Run) -> None:
    async def number(value: int) -> int:
        await asyncio.sleep((5 - value) / 1000)
        return value

    async def main() -> list[int]:
        return await gather(*(number(i) for i in range(5)))

    assert run(main()) == [0, 1, 2, 3, 4]


@both_loops
def test_first_error_cancels_the_rest_in_order_and_is_raised(run: Run) -> None:
    log: list[str] = []

    async def main() -> None:
        names = "abcdefghij"
        await gather(*(forever(n, log) for n in names), fail(KeyError("first")), fail(ValueError("second")))

    with pytest.raises(KeyError, match="first"):
        run(main())
    assert log == [f"start {n}" for n in "abcdefghij"] + [f"end {n}" for n in "abcdefghij"]


@both_loops
def test_error_of_a_child_interrupts_the_block(run: Run) -> None:
    log: list[str] = []

    async def main() -> str:
        with pytest.raises(OSError, match="child"):
            async with Group() as group:
                group.start(fail(OSError("child")))
                await forever("block", log)
        task = asyncio.current_task()
        assert task is not None and not task.cancelling()
        await asyncio.sleep(0)  # the cancellation was taken back: this isn't interrupted
        return "went on"

    assert run(main()) == "went on"
    assert log == ["start block", "end block"]


@both_loops
def test_error_of_the_block_cancels_children(run: Run) -> None:
    log: list[str] = []

    async def main() -> None:
        async with Group() as group:
            group.start(forever("a", log))
            group.start(forever("b", log))
            await asyncio.sleep(0)
            raise LookupError("block")

    with pytest.raises(LookupError, match="block"):
        run(main())
    assert log == ["start a", "start b", "end a", "end b"]


@both_loops
@pytest.mark.parametrize("in_block", [True, False])
def test_cancelling_the_holder_cancels_children_and_stays_cancelled(run: Run, in_block: bool) -> None:
    log: list[str] = []

    async def holder() -> None:
        async with Group() as group:
            group.start(forever("a", log))
            group.start(forever("b", log))
            if in_block:
                await forever("block", log)
        log.append("not reached")

    async def main() -> bool:
        async with Group() as outer:
            task = outer.start(holder())
            for _ in range(3):
                await asyncio.sleep(0)
            task.cancel()
        return task.cancelled()

    assert run(main()) is True
    assert log[-2:] == ["end a", "end b"] and "not reached" not in log


@both_loops
def test_a_child_that_is_cancelled_alone_disturbs_nobody(run: Run) -> None:
    async def main() -> int:
        async with Group() as group:
            idle = group.start(forever("idle", []))
            child = group.start(asyncio.sleep(0.001, 42))
            await asyncio.sleep(0)
            idle.cancel()
        return child.result()

    assert run(main()) == 42


@both_loops
def test_children_may_start_children(run: Run) -> None:
    done: list[int] = []

    async def child(group: Group, depth: int) -> None:
        if depth:
            group.start(child(group, depth - 1))
        await asyncio.sleep(0)
        done.append(depth)

    async def main() -> None:
        async with Group() as group:
            group.start(child(group, 4))

    run(main())
    assert sorted(done) == [0, 1, 2, 3, 4]


def test_an_ended_group_refuses_children() -> None:
    async def main() -> None:
        async with Group() as group:
            pass
        group.start(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="has ended"):
        on_virtual_loop(main())
