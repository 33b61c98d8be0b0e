"""How fast the laws about logs and transactions are judged, cycles included, on Spark and in one process.

``python -m benchmarks.log_laws --operations N --repeat K [--engines spark,in-process] [--folder F]``

The history is written once for each size, and kept in the folder: usually in that for temporary files. Each engine has
a process of its own, and must find what was planted and nothing else.
"""

from __future__ import annotations

import pickle
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks._common import Figure, parser, show
from benchmarks.laws import ours, transactions
from benchmarks.laws.histories import Made
from benchmarks.laws.race import measure

ENGINES = {"spark": ours.on_spark, "in-process": ours.in_process}
#: What ten million operations shall take with two workers: seconds from the start of the process, and MiB of it all.
COLD_S, PEAK_MIB = 60.0, 2048.0


def main() -> int:
    arguments = parser("log_laws", __doc__)
    arguments.add_argument("--operations", type=int, default=10_000_000)
    arguments.add_argument("--repeat", type=int, default=0, help="timed repetitions in a process that has started")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--engines", default="spark", help=f"some of {','.join(ENGINES)} with commas between")
    arguments.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where histories are kept")
    given = arguments.parse_args()
    if unknown := set(given.engines.split(",")) - ENGINES.keys():
        print(f"error: --engines takes {', '.join(ENGINES)}, not {', '.join(sorted(unknown))}", file=sys.stderr)
        return 3
    made = kept(given.folder, given.operations)
    engines = {name: ENGINES[name] for name in given.engines.split(",")}
    figures = [Figure(name="messages", value=made.messages, unit=""), Figure(name="rows", value=made.rows, unit="")]
    is_whole = given.operations >= 10_000_000
    for name, found in measure(made, engines, given.threads, given.repeat).items():
        figures += [
            Figure(name=f"{name}, cold", value=round(found["cold"], 1), unit="s", aim=COLD_S if is_whole else None),
            Figure(name=f"{name} peak", value=found["mib"], unit="MiB", aim=PEAK_MIB if is_whole else None),
        ]
        if found["seconds"]:
            figures.append(Figure(name=name, value=round(statistics.median(found["seconds"]), 1), unit="s"))
    show("log_laws", figures, as_json=given.json)
    return 0


def kept(folder: Path, operations: int) -> Made:
    """Return the history of this size, written unless it is there already."""
    mine = folder / f"stormproof-log-laws-{operations}"
    if not (mine / "made").exists():
        mine.mkdir(parents=True, exist_ok=True)
        (mine / "made").write_bytes(pickle.dumps(transactions.make(mine, operations)))
    made: Made = pickle.loads((mine / "made").read_bytes())
    return made


if __name__ == "__main__":
    sys.exit(main())
