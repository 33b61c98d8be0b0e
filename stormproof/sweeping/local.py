"""Tasks of a sweep on the cores of this machine: each worker process does one after another.

A worker that is killed takes the pool with it, but no row. What it may have been at is then done again, each task in a
process of its own, so that the task that kills its process is known and no other one suffers from it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from chaos.shell.node_process import die_with
from stormproof.sweeping.task import Done, Task, do

#: Tasks handed out beyond those under way, so that no worker waits for its next one.
AHEAD = 1


def workers() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    tasks: Sequence[Task], *, budget_s: float = 0.0, processes: int | None = None
) -> Generator[Done, bool | None, None]:
    """Do the tasks; yields as they end, and closes the workers when it is closed. After ``send(True)`` no further task
    begins, and those under way still come to their end.

    With ``budget_s`` no task begins after that time. Workers leave Ctrl-C to the caller, and end their task when this
    iterator is closed.
    """
    deadline = time.monotonic() + budget_s if budget_s else float("inf")
    count = min(workers() if processes is None else processes, max(1, len(tasks)))
    waiting = iter(tasks)
    pool = _pool(count)
    under_way: dict[Future[Done], Task] = {}
    enough = broken = False
    try:
        while True:
            if broken:
                pool.shutdown()
                pool, broken = _pool(count), False
            while not enough and len(under_way) < count + AHEAD and time.monotonic() < deadline:
                task = next(waiting, None)
                if task is None:
                    break
                try:
                    under_way[pool.submit(do, task)] = task
                except BrokenProcessPool:  # a worker was killed a moment ago
                    waiting, broken = _before(task, waiting), True
                    break
            if not under_way and broken:
                continue
            if not under_way:
                return
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            if broken := broken or any(future.exception() is not None for future in done):  # and so are all others
                wait(under_way)
                done = set(under_way)
            suspects = sorted((under_way[one] for one in done if one.exception() is not None), key=lambda one: one.key)
            ended = [future.result() for future in done if future.exception() is None]
            for future in done:
                del under_way[future]
            for one in sorted(ended, key=lambda one: one.key):
                enough = bool((yield one)) or enough
            for task in suspects:
                enough = bool((yield _alone(task))) or enough
    finally:
        _close(pool)


def _before(task: Task, waiting: Iterator[Task]) -> Iterator[Task]:
    yield task
    yield from waiting


def _pool(count: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(os.getpid(),))


def _alone(task: Task) -> Done:
    """Do a task in a process of its own."""
    pool = _pool(1)
    try:
        return pool.submit(do, task).result()
    except BrokenProcessPool:
        why = "its worker process died, twice; most likely the machine ran out of memory"
        return Done(key=task.key, error=why)
    finally:
        _close(pool)


def _close(pool: ProcessPoolExecutor) -> None:
    """Wait for the workers' end. A second request to stop ends the wait: without it nothing would end the workers, and
    the process would wait for them at its own end, for ever."""
    try:
        pool.shutdown(wait=True, cancel_futures=True)
    except BaseException:
        for worker in multiprocessing.active_children():
            worker.kill()
        raise


def _begin(parent: int) -> None:
    """Begin as a worker: the parent alone decides when to stop, and a worker ends its task first; but it never outlives
    its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)
