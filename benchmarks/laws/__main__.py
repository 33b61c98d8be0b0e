"""How fast the laws about what clients saw are judged, against DuckDB, Polars and plain numpy on the same files.

``python -m benchmarks.laws --messages N --repeat K [--history plain] [--engine spark] [--json]``

Each contender has a process of its own, and as many threads or workers as the others. First all of them count the
planted anomalies, which must come out equal; then they are timed in turns.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks._common import Figure, machine, parser, show
from benchmarks.laws import by_duckdb, by_numpy, by_polars, histories, ours

Contender = Callable[[list[Path], int, ExitStack], Callable[[], Counter[str]]]
OURS: Mapping[str, Contender] = {"spark": ours.on_spark, "processes": ours.in_processes}
RIVALS: Mapping[str, Contender] = {
    "duckdb": by_duckdb.create,
    "polars": by_polars.create,
    "numpy": by_numpy.create,
}
#: What the ratios shall be on Spark, from ten million messages on.
AIMS = {"duckdb": 6.0, "polars": 5.0}


def main() -> int:
    arguments = parser("laws", __doc__)
    arguments.add_argument("--messages", type=int, default=10_000_000)
    arguments.add_argument("--repeat", type=int, default=5, help="timed repetitions, in turns")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--history", choices=histories.RATES, default="plain")
    arguments.add_argument("--engine", choices=OURS, default="spark", help="of the laws themselves")
    given = arguments.parse_args()
    missing = [name for name in ("duckdb", "polars") if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"error: {' and '.join(missing)} can't be imported: install the group `bench` of pyproject.toml"
            " (`pip install --group bench`), in an environment of its own at best",
            file=sys.stderr,
        )
        return 3
    if given.messages < 1 or given.repeat < 1 or given.threads < 1:
        print("error: --messages, --repeat and --threads must be at least 1", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="stormproof-laws-") as folder:
        made = histories.make(Path(folder), given.messages, given.history)
        measured = measure(made, {"ours": OURS[given.engine], **RIVALS}, given.threads, given.repeat)
    report(made, measured, as_json=given.json)
    return 0


def measure(
    made: histories.Made, contenders: Mapping[str, Contender], threads: int, repeat: int
) -> dict[str, dict[str, Any]]:
    """For each contender its ``seconds``, one for each repetition, and its ``mib``, the peak of all its processes.
    Raises ``ValueError`` when one of them counts other anomalies than were planted."""
    with ExitStack() as stack:
        running = {name: stack.enter_context(_process(make, made, threads)) for name, make in contenders.items()}
        for name, ask in running.items():
            counted = +ask()[1]
            if counted != made.planted:
                raise ValueError(f"{name} counts {dict(counted)}, but planted were {dict(made.planted)}")
        seconds: dict[str, list[float]] = {name: [] for name in running}
        for _ in range(repeat):
            for name, ask in running.items():
                seconds[name].append(ask()[0])
        return {name: {"seconds": seconds[name], "mib": ask()[2]} for name, ask in running.items()}


@contextmanager
def _process(make: Contender, made: histories.Made, threads: int) -> Iterator[Callable[[], tuple[Any, ...]]]:
    """A process that counts whenever it is asked: (seconds, counts, peak in MiB)."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, make, list(made.paths), threads))
    process.start()
    there.close()

    def ask() -> tuple[Any, ...]:
        here.send(True)
        found: tuple[Any, ...] = here.recv()
        return found

    try:
        yield ask
    finally:
        here.close()
        process.join()


def _serve(asked: Connection, make: Contender, paths: list[Path], threads: int) -> None:
    with ExitStack() as stack:
        count = make(paths, threads, stack)
        while True:
            try:
                asked.recv()
            except EOFError:
                return
            began = time.perf_counter()
            counted = count()
            asked.send((time.perf_counter() - began, counted, _peak_mib(os.getpid())))


def _peak_mib(process: int) -> int:
    """The peaks of a process and of all its descendants that are alive, added up."""
    peak = 0
    try:
        lines = Path(f"/proc/{process}/status").read_text("ascii").splitlines()
        peak = sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
        children = [path.read_text("ascii").split() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:  # it has just ended
        children = []
    return peak // 1024 + sum(_peak_mib(int(child)) for some in children for child in some)


def report(made: histories.Made, measured: Mapping[str, Mapping[str, Any]], *, as_json: bool) -> None:
    seconds = {name: found["seconds"] for name, found in measured.items()}
    ratios = {
        f"ratio_{name}": round(statistics.median(map(lambda his, own: his / own, seconds[name], seconds["ours"])), 2)
        for name in RIVALS
    }
    if as_json:
        told = {"messages": made.messages, "rows": made.rows, "planted": dict(made.planted), **ratios}
        each = {name: {"seconds": found["seconds"], "mib": found["mib"]} for name, found in measured.items()}
        print(json.dumps({"benchmark": "laws", "machine": machine(), **told, "contenders": each}))
        return
    figures = [Figure(name="messages", value=made.messages, unit=""), Figure(name="rows", value=made.rows, unit="")]
    for name, found in measured.items():
        median = statistics.median(found["seconds"])
        figures.append(Figure(name=name, value=round(median, 3), unit="s"))
        figures.append(Figure(name=f"{name} per message", value=round(median * 1e6 / made.messages, 3), unit="µs"))
        figures.append(Figure(name=f"{name} peak", value=found["mib"], unit="MiB"))
    for name in RIVALS:
        ratio, aim = ratios[f"ratio_{name}"], AIMS.get(name)
        figures.append(Figure(name=f"ratio_{name}", value=ratio, unit="", aim=aim, more_is_better=True))
    show("laws", figures, as_json=False)


if __name__ == "__main__":
    sys.exit(main())
