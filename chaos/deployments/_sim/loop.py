"""An asyncio event loop in virtual time: nothing ever waits, the clock jumps to the next event.

Coroutines (the runner, workloads, faults) use it like any loop. Nodes and links post plain calls into the same queue,
without handles, because a simulated cluster is mostly such calls. Events at one instant run in the order in which they
were posted, so one program has one history.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable
from contextvars import Context
from heapq import heappop, heappush
from itertools import count
from typing import Any

from chaos.errors import DeploymentError

SECOND_NS = 1_000_000_000
#: A run that lasts longer in virtual time is stuck: something waits in a loop for what never comes.
MAX_VIRTUAL_NS = 24 * 3600 * SECOND_NS
#: So many events without the clock moving mean a loop that never sleeps.
MAX_EVENTS_AT_ONE_INSTANT = 5_000_000

Event = tuple[int, int, Callable[..., object], tuple[Any, ...]]


class VirtualLoop(asyncio.BaseEventLoop):
    """``now_ns`` is the clock, in integer nanoseconds from 0. ``queue`` and ``ticket`` are open to hot paths that push
    ``(time_ns, next(ticket), call, args)`` themselves; times before ``now_ns`` must not be pushed."""

    def __init__(self, *, max_virtual_ns: int = MAX_VIRTUAL_NS, max_at_once: int = MAX_EVENTS_AT_ONE_INSTANT) -> None:
        super().__init__()
        self.now_ns = 0
        self.queue: list[Event] = []
        self.ticket = count(1)
        self.max_virtual_ns = max_virtual_ns
        self._max_at_once = max_at_once

    def time(self) -> float:
        return self.now_ns / SECOND_NS

    def post(self, delay_ns: int, call: Callable[..., object], *args: Any) -> None:
        """Call ``call(*args)`` after ``delay_ns``. An exception from it ends the whole run."""
        heappush(self.queue, (self.now_ns + delay_ns, next(self.ticket), call, args))

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        timer = events.TimerHandle(when, callback, args, self, context)
        when_ns = max(self.now_ns, round(when * SECOND_NS))
        heappush(self.queue, (when_ns, next(self.ticket), _fire, (timer,)))
        return timer

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        raise DeploymentError(f"{func!r} asked for a thread; simulated code must stay on the one virtual-time loop")

    def _write_to_self(self) -> None:
        """Do nothing: this loop never sleeps, so there is nothing to wake."""

    def _run_once(self) -> None:
        """Run events until somebody stops the loop; replaces the select-and-run round of the base class."""
        ready: Any = self._ready  # type: ignore[attr-defined]
        queue = self.queue
        left = self._max_at_once
        while not self._stopping:  # type: ignore[attr-defined]
            if ready:
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
            elif queue:
                when_ns, _, call, args = heappop(queue)
                if when_ns != self.now_ns:
                    if when_ns > self.max_virtual_ns:
                        raise self._too_late()
                    self.now_ns = when_ns
                    left = self._max_at_once
                call(*args)
            else:
                raise DeploymentError(
                    f"the simulation is stuck at {self.time():.6f} s: nothing is scheduled, but the run has not ended"
                )
            left -= 1
            if left < 0:
                raise DeploymentError(
                    f"{self._max_at_once} events at {self.time():.6f} s without the clock moving: something loops"
                )

    def _too_late(self) -> DeploymentError:
        return DeploymentError(
            f"the run passed its bound of {self.max_virtual_ns / SECOND_NS:.0f} s of virtual time; "
            "something waits for what never comes"
        )


def _fire(timer: events.TimerHandle) -> None:
    if not timer.cancelled():
        timer._run()
