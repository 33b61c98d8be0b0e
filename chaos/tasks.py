"""One task group whose order is fixed: the only way in which simulated code starts tasks.

``asyncio.TaskGroup`` and ``asyncio.wait`` keep their tasks in sets, so the order of cancellation differs from process
to process, and with it the history of a run. Here children are started, cancelled and awaited in the order in which
they were created. The group works on every asyncio loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
#: Between two tries to cancel what swallows it.
RETRY_S = 0.1


class Group:
    """Children that end together: ``async with Group() as group: group.start(…)``.

    Leaving the block awaits all children. The first error, of a child or of the block, cancels everything that still
    runs, in order of creation, and is raised once all have ended; later errors are dropped. Cancelling the task that
    holds the group cancels its children likewise.
    """

    def __init__(self) -> None:
        self._children: dict[asyncio.Task[Any], None] = {}
        self._parent: asyncio.Task[Any] | None = None
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._leaving = False
        self._interrupted = False

    async def __aenter__(self) -> Group:
        self._parent = asyncio.current_task()
        return self

    def start(self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Start a child. A child that is cancelled alone just ends. Raises ``RuntimeError`` when the group is over."""
        if self._leaving and not self._children:
            coroutine.close()
            raise RuntimeError("this task group has ended; start children before the last one ends")
        child = asyncio.create_task(coroutine, name=name)
        self._children[child] = None
        child.add_done_callback(self._ended)
        if self._error is not None:
            child.cancel()
        return child

    def cancel(self) -> None:
        """Cancel all children that still run, in order of creation."""
        for child in list(self._children):
            child.cancel()

    def _ended(self, child: asyncio.Task[Any]) -> None:
        del self._children[child]
        if not child.cancelled() and (error := child.exception()) is not None and self._error is None:
            self._error = error
            self.cancel()
            if not self._leaving and self._parent is not None:
                self._interrupted = True
                self._parent.cancel()
        if not self._children and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._leaving = True
        cancelled = self._was_cancelled(error)
        if error is not None:
            if self._error is None and not isinstance(error, asyncio.CancelledError):
                self._error = error
            self.cancel()
        while self._children:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            except asyncio.CancelledError:
                cancelled = True
                self.cancel()
        if cancelled:
            if isinstance(error, asyncio.CancelledError):
                return False
            raise asyncio.CancelledError
        if self._error is None or self._error is error:
            return False
        raise self._error

    def _was_cancelled(self, error: BaseException | None) -> bool:
        """Say whether someone else cancelled the block, and take back our own cancellation of it."""
        outside = isinstance(error, asyncio.CancelledError)
        if self._interrupted and self._parent is not None:
            outside = self._parent.uncancel() > 0
        return outside


async def gather(*coroutines: Coroutine[Any, Any, T]) -> list[T]:
    """Run all to their end, started in this order; return their results in this order.

    The first error cancels the rest, in order, and is raised.
    """
    async with Group() as group:
        children = [group.start(coroutine) for coroutine in coroutines]
    return [child.result() for child in children]


async def interruptible(
    work: Coroutine[Any, Any, None], within_s: float, stopping: Callable[[], None]
) -> frozenset[asyncio.Task[Any]]:
    """Do the work. Once this is cancelled, ``stopping`` is called, and the work has that long to end: a client library
    may swallow its cancellation. Returns all tasks that go on nevertheless, which are then left alone; none where the
    work ended. Raises what the work raised, and ``CancelledError`` if that was asked for. Not for what the simulator
    reaches."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        stopping()
        deadline_s = asyncio.get_running_loop().time() + within_s
        while not task.done() and asyncio.get_running_loop().time() < deadline_s:
            task.cancel()
            await asyncio.wait({task}, timeout=RETRY_S)
        if not task.done():
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # nobody else asks for it
            return frozenset(one for one in asyncio.all_tasks() if one is not asyncio.current_task())
        await task
        raise
    await task
    return frozenset()
