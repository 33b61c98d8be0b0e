"""Contenders in processes of their own, which import this module, are asked to count in turns."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.laws.histories import Made

Contender = Callable[[Made, int, ExitStack], Callable[[], Counter[str]]]


def measure(made: Made, contenders: Mapping[str, Contender], threads: int, repeat: int) -> dict[str, dict[str, Any]]:
    """For each contender its ``seconds``, one for each repetition; its ``cold`` seconds, from the start of its process
    to its first answer; and its ``mib``, the peak of all its processes.
    Raises ``ValueError`` when one of them counts other anomalies than were planted."""
    with ExitStack() as stack:
        running: dict[str, Callable[[], tuple[Any, ...]]] = {}
        found: dict[str, dict[str, Any]] = {}
        for name, make in contenders.items():
            began = time.perf_counter()
            running[name] = stack.enter_context(_process(name, make, made, threads))
            _, counted, mib = running[name]()
            found[name] = {"seconds": [], "cold": time.perf_counter() - began, "mib": mib}
            if +counted != made.planted:
                raise ValueError(f"{name} counts {dict(counted)}, but planted were {dict(made.planted)}")
        for _ in range(repeat):
            for name, ask in running.items():
                seconds, _, mib = ask()
                found[name]["seconds"].append(seconds)
                found[name]["mib"] = mib
        return found


@contextmanager
def _process(name: str, make: Contender, made: Made, threads: int) -> Iterator[Callable[[], tuple[Any, ...]]]:
    """Start a process that counts whenever it is asked: (seconds, counts, peak in MiB)."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, make, made, threads))
    process.start()
    there.close()

    def ask() -> tuple[Any, ...]:
        try:
            here.send(True)
            found: tuple[Any, ...] = here.recv()
        except (EOFError, OSError) as error:
            raise ChildProcessError(f"{name} has ended; its own error stands above") from error
        return found

    try:
        yield ask
    finally:
        here.close()
        process.join()


def _serve(asked: Connection, make: Contender, made: Made, threads: int) -> None:
    with ExitStack() as stack:
        count = make(made, threads, stack)
        while True:
            try:
                asked.recv()
            except EOFError:
                return
            began = time.perf_counter()
            counted = count()
            asked.send((time.perf_counter() - began, counted, _peak_mib(os.getpid())))


def _peak_mib(process: int) -> int:
    """Return the peaks of a process and of all its descendants that are alive, added up."""
    peak = 0
    try:
        lines = Path(f"/proc/{process}/status").read_text("ascii").splitlines()
        peak = sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
        children = [path.read_text("ascii").split() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:  # it has just ended
        children = []
    return peak // 1024 + sum(_peak_mib(int(child)) for some in children for child in some)
