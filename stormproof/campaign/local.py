"""Tasks of a campaign on this machine: each worker process does one after another, or this process does them all.

A worker that is killed costs no row. Its task is done once more, in a process of its own, so that one that kills its
process is known from one that met a moment without memory.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress

from stormproof.campaign.campaign import Done, OnDone, Task, do
from stormproof.campaign.workers import Workers, cores


def run(tasks: Sequence[Task], on_done: OnDone, *, budget_s: float = 0.0, processes: int | None = None) -> None:
    """Do the tasks in so many processes (None: one for each core, 0: in this one).

    No task begins once ``on_done`` has returned True, or after ``budget_s`` (0: no limit); those under way still come
    to their end. Workers leave Ctrl-C to the caller, and end their task before it comes through.
    """
    count = min(cores() if processes is None else processes, max(1, len(tasks)))
    if not count:
        one_by_one(tasks, on_done, budget_s=budget_s)
        return
    deadline, enough, waiting = _deadline(budget_s), False, deque(tasks)
    started: list[Workers] = []

    def fresh() -> Workers:
        started.append(Workers(1))
        return started[-1]

    idle = [fresh() for _ in range(count)]
    under_way: dict[Future[Done], tuple[Task, Workers]] = {}
    try:
        while True:
            while waiting and idle and not enough and time.monotonic() < deadline:
                worker = idle.pop()
                with suppress(BrokenProcessPool):  # it was killed a moment ago, when it had nothing to do
                    under_way[worker.submit(do, waiting[0])] = waiting[0], worker
                    waiting.popleft()
                    continue
                idle.append(fresh())
            if not under_way:
                return
            ended, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in sorted(ended, key=lambda one: under_way[one][0].key):
                task, worker = under_way.pop(future)
                was_killed = isinstance(future.exception(), BrokenProcessPool)
                idle.append(fresh() if was_killed else worker)
                enough = on_done(_alone(task) if was_killed else future.result()) or enough
    finally:
        _close(started)


def one_by_one(
    tasks: Sequence[Task],
    on_done: OnDone,
    *,
    budget_s: float = 0.0,
    on_begin: Callable[[Task], None] = lambda task: None,
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
    worker = Workers(1)
    try:
        return worker.submit(do, task).result()
    except BrokenProcessPool:
        why = "its worker process died, twice; most likely the machine ran out of memory"
        return Done(key=task.key, error=why)
    finally:
        _close([worker])


def _close(workers: Sequence[Workers]) -> None:
    """Wait for the workers' end. A second request to stop ends the wait: without it nothing would end the workers, and
    the process would wait for them at its own end, for ever."""
    try:
        for worker in workers:
            worker.shutdown(cancel_futures=True)
    except BaseException:
        for child in multiprocessing.active_children():
            child.kill()
        raise
