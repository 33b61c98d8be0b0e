"""How fast the laws about what clients saw are judged, against DuckDB, Polars and plain numpy on the same files.

``python -m benchmarks.laws --messages N --repeat K [--history plain] [--engine spark] [--json]``

Each contender has a process of its own, and as many threads or workers as the others. First all of them count the
planted anomalies, which must come out equal; then they are timed in turns.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks._common import Figure, machine, parser, show
from benchmarks.laws import by_duckdb, by_numpy, by_polars, histories, ours
from benchmarks.laws.race import Contender, measure

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
