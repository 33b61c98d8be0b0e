"""Many seeds of one experiment in the simulator, on all cores: each worker process runs one seed after another."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.errors import ChaosError, MachineError
from chaos.shell.node_process import die_with
from stormproof.judge import Prepared, examine, prepare, violation
from stormproof.launch import Launch, start

#: Seeds handed out beyond those under way, so that no worker waits for its next one.
AHEAD = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """One seed's run, ready to be judged; or why the harness could not run it, and in which directory it tried. A run
    that failed and shows a violation all the same has both."""

    seed: int
    prepared: Prepared | None
    error: str = ""
    directory: Path | None = None


def workers() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def sweep(
    launch: Launch, seeds: Sequence[int], *, budget_s: float = 0.0, examined: bool = False
) -> Generator[Swept, None, None]:
    """Run the launch with each of the seeds; yields them as they end, and closes the workers when it is closed.
    ``examined``: the workers have the laws look at their runs too, on all cores instead of one afterwards.

    With ``budget_s`` no seed starts after that time; those under way come to their end. Workers leave Ctrl-C to the
    caller, and end their seed when this iterator is closed.
    """
    deadline = time.monotonic() + budget_s if budget_s else float("inf")
    context = multiprocessing.get_context("spawn")
    count = min(workers(), len(seeds))
    waiting = iter(seeds)
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin_worker, initargs=(os.getpid(),))
    try:
        under_way: set[Future[Swept]] = set()
        while True:
            while len(under_way) < count + AHEAD and time.monotonic() < deadline:
                seed = next(waiting, None)
                if seed is None:
                    break
                under_way.add(pool.submit(_run_one, replace(launch, seed=seed), examined))
            if not under_way:
                return
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            yield from sorted((future.result() for future in done), key=lambda swept: swept.seed)
    except BrokenProcessPool as error:
        raise MachineError("a worker process died; most likely the machine ran out of memory") from error
    finally:
        _close(pool)


def _close(pool: ProcessPoolExecutor) -> None:
    """Wait for the workers' end. Who is told again to stop meanwhile waits no more: nobody would tell the workers to
    end, and the process would wait for them at its own end, for ever."""
    try:
        pool.shutdown(wait=True, cancel_futures=True)
    except BaseException:
        for worker in multiprocessing.active_children():
            worker.kill()
        raise


def _begin_worker(parent: int) -> None:
    """The parent alone decides when to stop, and a worker ends its seed first; but it never outlives its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)


def _run_one(launch: Launch, examined: bool) -> Swept:
    begun: list[Path] = []
    try:
        prepared = prepare(start(launch, on_directory=begun.append))
        return Swept(seed=launch.seed, prepared=examine(prepared) if examined else prepared)
    except ChaosError as error:
        text = str(error)
    except Exception as error:  # a bug that one seed meets must not take the other seeds' results with it
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"
    directory = begun[0] if begun else None
    broken = violation(directory) if directory is not None else None
    return Swept(seed=launch.seed, prepared=broken, error=text, directory=directory)
