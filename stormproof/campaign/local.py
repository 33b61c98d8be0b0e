"""Tasks of a campaign on this machine: each worker process does one after another, or this process does them all.

A worker that is killed takes the others with it, but no row. What it may have been at is then done again, each task in
a process of its own, so that the task that kills its process is known and no other one suffers from it.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from stormproof.campaign.task import Done, OnDone, Task, do
from stormproof.campaign.workers import Workers, cores

T = TypeVar("T", bound=Task)
#: Tasks handed out beyond those under way, so that no worker waits for its next one.
AHEAD = 1


def run(tasks: Sequence[T], on_done: OnDone, *, budget_s: float = 0.0, processes: int | None = None) -> None:
    """Do the tasks in so many processes (None: one for each core, 0: in this one).

    No task begins once ``on_done`` has returned True, or after ``budget_s`` (0: no limit); those under way still come
    to their end. Workers leave Ctrl-C to the caller, and end their task before it comes through.
    """
    count = min(cores() if processes is None else processes, max(1, len(tasks)))
    if not count:
        one_by_one(tasks, on_done, budget_s=budget_s)
        return
    deadline = _deadline(budget_s)
    waiting = deque(tasks)
    under_way: dict[Future[Done], T] = {}
    pool = Workers(count)
    enough = False
    try:
        while under_way or (waiting and not enough and time.monotonic() < deadline):
            broken = False
            while waiting and not enough and len(under_way) < count + AHEAD and time.monotonic() < deadline:
                try:
                    under_way[pool.submit(do, waiting[0])] = waiting[0]
                except BrokenProcessPool:  # a worker was killed a moment ago
                    broken = True
                    break
                waiting.popleft()
            ended, _ = wait(under_way, return_when=FIRST_COMPLETED)
            if broken := broken or any(future.exception() is not None for future in ended):  # and so are all others
                wait(under_way)
                ended = set(under_way)
            lost = {future: future.exception() is not None for future in ended}
            for future in sorted(ended, key=lambda one: (lost[one], under_way[one].key)):
                task = under_way.pop(future)
                enough = on_done(_alone(task) if lost[future] else future.result()) or enough
            if broken:
                pool.shutdown()
                pool = Workers(count)
    finally:
        _close(pool)


def one_by_one(
    tasks: Sequence[T], on_done: OnDone, *, budget_s: float = 0.0, on_begin: Callable[[T], None] = lambda task: None
) -> None:
    """Do the tasks in this process; ``on_begin`` is called before each. They end as those of :func:`run`, but for the
    one under way, which Ctrl-C interrupts."""
    deadline = _deadline(budget_s)
    for task in tasks:
        if time.monotonic() >= deadline:
            return
        on_begin(task)
        if on_done(task.do()):
            return


def _deadline(budget_s: float) -> float:
    return time.monotonic() + budget_s if budget_s else float("inf")


def _alone(task: Task) -> Done:
    """Do a task in a process of its own."""
    pool = Workers(1)
    try:
        return pool.submit(do, task).result()
    except BrokenProcessPool:
        why = "its worker process died, twice; most likely the machine ran out of memory"
        return Done(key=task.key, error=why)
    finally:
        _close(pool)


def _close(pool: Workers) -> None:
    """Wait for the workers' end. A second request to stop ends the wait: without it nothing would end the workers, and
    the process would wait for them at its own end, for ever."""
    try:
        pool.shutdown(wait=True, cancel_futures=True)
    except BaseException:
        for worker in multiprocessing.active_children():
            worker.kill()
        raise
