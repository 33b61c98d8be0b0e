"""How fast the laws about what clients saw are judged, against DuckDB, Polars and plain numpy from the same segments.

``python -m benchmarks.laws --messages N --repeat K [--history plain] [--engine spark] [--rivals …] [--json]``

Each contender has a process of its own, and as many threads or workers as the others. One after the other they start
and count the planted anomalies, which must come out equal; then they are timed in turns. The rival ``one-worker`` is
the laws on Spark with a single worker, and ``in-process`` is the laws without Spark, in a single process. ``--rivals
none`` is for histories that are too large for the others.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._common import Figure, machine, parser, show
from benchmarks.laws import by_duckdb, by_numpy, by_polars, histories, ours
from benchmarks.laws.race import Contender, measure
from chaos.history.stream import STREAM

OURS: Mapping[str, Contender] = {"spark": ours.on_spark, "in-process": ours.in_process}
RIVALS: Mapping[str, Contender] = {
    "duckdb": by_duckdb.create,
    "polars": by_polars.create,
    "numpy": by_numpy.create,
    "one-worker": ours.on_one_worker,
    "in-process": ours.in_process,
}
USUAL = "duckdb,polars,numpy"
#: What the ratios shall be on Spark, from ten million messages on.
AIMS = {"duckdb": 6.0, "polars": 5.0, "one-worker": 1.8}


def main() -> int:
    arguments = parser("laws", __doc__)
    arguments.add_argument("--messages", type=int, default=10_000_000)
    arguments.add_argument("--repeat", type=int, default=5, help="timed repetitions, in turns")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--history", choices=histories.RATES, default="plain")
    arguments.add_argument("--engine", choices=OURS, default="spark", help="of the laws themselves")
    arguments.add_argument(
        "--rivals",
        default=USUAL,
        help=f"some of {','.join(RIVALS)} with commas between, or none; usually {USUAL}",
    )
    arguments.add_argument("--folder", type=Path, help="where the history is written, and removed again at the end")
    given = arguments.parse_args()
    rivals = [] if given.rivals == "none" else given.rivals.split(",")
    if wrong := _refusal(given, rivals):
        print(f"error: {wrong}", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="stormproof-laws-", dir=given.folder) as folder:
        made = histories.make(Path(folder), given.messages, given.history, given.threads)
        contenders = {"ours": OURS[given.engine], **{name: RIVALS[name] for name in rivals}}
        size = (made.run / STREAM).stat().st_size
        measured = measure(made, contenders, given.threads, given.repeat)
    report(made, size, measured, as_json=given.json)
    return 0


def _refusal(given: argparse.Namespace, rivals: Sequence[str]) -> str:
    """Return what is wrong with the command line; "" if nothing is."""
    if unknown := [name for name in rivals if name not in RIVALS]:
        return f"--rivals takes {', '.join(RIVALS)} or none, not {', '.join(unknown)}"
    missing = [name for name in ("duckdb", "polars") if name in rivals and importlib.util.find_spec(name) is None]
    if missing:
        return (
            f"{' and '.join(missing)} can't be imported: install the group `bench` of pyproject.toml"
            " (`pip install --group bench`), in an environment of its own at best"
        )
    if given.messages < 1 or given.repeat < 1 or given.threads < 1:
        return "--messages, --repeat and --threads must be at least 1"
    if given.folder is not None and not given.folder.is_dir():
        return f"--folder: {given.folder} is no folder"
    return ""


def report(made: histories.Made, size: int, measured: Mapping[str, Mapping[str, Any]], *, as_json: bool) -> None:
    """Print the figures of a history that has ``size`` bytes."""
    seconds = {name: found["seconds"] for name, found in measured.items()}
    ratios = {
        name: round(statistics.median(map(lambda his, own: his / own, seconds[name], seconds["ours"])), 2)
        for name in RIVALS
        if name in seconds
    }
    if as_json:
        summary = {"messages": made.messages, "rows": made.rows, "bytes": size, "planted": dict(made.planted)}
        summary |= {f"ratio_{name.replace('-', '_')}": ratio for name, ratio in ratios.items()}
        print(json.dumps({"benchmark": "laws", "machine": machine(), **summary, "contenders": measured}))
        return
    figures = [
        Figure(name="messages", value=made.messages, unit=""),
        Figure(name="rows", value=made.rows, unit=""),
        Figure(name="segments", value=size >> 20, unit="MiB"),
    ]
    for name, found in measured.items():
        median = statistics.median(found["seconds"])
        figures.append(Figure(name=f"{name}, cold", value=round(found["cold"], 3), unit="s"))
        figures.append(Figure(name=name, value=round(median, 3), unit="s"))
        figures.append(Figure(name=f"{name} per message", value=round(median * 1e6 / made.messages, 3), unit="µs"))
        figures.append(Figure(name=f"{name} peak", value=found["mib"], unit="MiB"))
    for name, ratio in ratios.items():
        aim = AIMS.get(name)
        figures.append(Figure(name=f"ratio_{name}", value=ratio, unit="", aim=aim, more_is_better=True))
    show("laws", figures, as_json=False)


if __name__ == "__main__":
    sys.exit(main())
