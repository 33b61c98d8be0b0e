"""Processes that work for this one: they leave Ctrl-C to it, and never outlive it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any, TypeVar

from chaos.errors import MachineError
from chaos.shell.node_process import die_with

T = TypeVar("T")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers(ProcessPoolExecutor):
    """So many processes. At the end of a ``with`` block they end at once: nobody needs what they are doing then."""

    def __init__(self, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        super().__init__(processes, mp_context=context, initializer=_begin, initargs=(os.getpid(),))

    def __exit__(self, *_: object) -> None:
        children = list((self._processes or {}).values())
        self.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.kill()
        for child in children:
            child.join()


class Here(Executor):
    """Does at once, in this process, what is handed to it."""

    def submit(self, do: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(do(*arguments, **named))
        except Exception as error:  # whatever it was: who asks for the result gets it
            future.set_exception(error)
        return future


def executor(processes: int | None) -> Executor:
    """Return so many processes; None: as many as there are cores, 0: this one alone."""
    count = cores() if processes is None else processes
    return Workers(count) if count else Here()


def died() -> MachineError:
    """Return the error of a task whose process has ended under it."""
    return MachineError("a worker process died; most likely the machine ran out of memory")


def _begin(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)
