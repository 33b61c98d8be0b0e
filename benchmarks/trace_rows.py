"""What a trace row costs: written by a node and read by ``check``, as typed lines and as JSON, in turns.

``python -m benchmarks.trace_rows RUN [--json] [--repeat N]``: RUN is a run on processes. Its rows are written again in
both forms; processor time only.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._common import Figure, parser, show
from chaos.history.directory import TRACES, trace_files
from chaos.history.manifest import Sealed
from chaos.history.trace_lines import Decoder, Encoder
from chaos.history.traces import trace_blocks
from chaos.shell.trace_file import TraceFile

_JSON = json.JSONEncoder(separators=(",", ":"))
#: Rows that a node writes together, about.
TOGETHER = 8


class _JsonEncoder(Encoder):
    """As nodes wrote before there were typed lines."""

    def encode(self, row: Any) -> str:
        return _JSON.encode(row) + "\n"


def rows_of(run: Path) -> dict[str, list[dict[str, Any]]]:
    """All trace rows of each file, as nodes hand them out."""
    found = {}
    for name in trace_files(run):
        decoder = Decoder()
        lines = (run / name).read_bytes().split(b"\n")[:-1]
        found[name] = [{"kind": "trace", **row} for row in map(decoder.decode, lines) if row is not None]
    return found


def write(run: Path, rows: dict[str, list[dict[str, Any]]], encoder: Callable[[], Encoder]) -> float:
    """Seconds."""
    took = 0.0
    for name, mine in rows.items():
        (run / name).unlink(missing_ok=True)
        file = TraceFile(run / name)
        file._encoder = encoder()
        began = time.process_time()
        for number, row in enumerate(mine):
            file.add(row)
            if number % TOGETHER == 0:
                file.write()
        file.write()
        took += time.process_time() - began
    return took


def read(run: Path) -> float:
    """Seconds."""
    damage: list[str] = []
    began = time.process_time()
    for block in trace_blocks(run, 0, Sealed(), damage):
        del block
    took = time.process_time() - began
    if damage:
        raise SystemExit(f"{damage[0]} (and {len(damage) - 1} more)")
    return took


def main() -> None:
    arguments = parser("trace_rows", __doc__)
    arguments.add_argument("run", type=Path)
    arguments.add_argument("--repeat", type=int, default=9)
    given = arguments.parse_args()
    rows = rows_of(given.run)
    count = sum(map(len, rows.values()))
    took: dict[str, list[float]] = {}
    sizes = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(given.repeat):
            for form, encoder in (("typed", Encoder), ("json", _JsonEncoder)):
                place = Path(folder) / form
                took.setdefault(f"{form} write", []).append(write(place, rows, encoder))
                took.setdefault(f"{form} read", []).append(read(place))
                sizes[form] = sum(path.stat().st_size for path in (place / TRACES).iterdir())
    figures = [
        Figure(name=name, value=round(statistics.median(s) / count * 1e6, 2), unit="us") for name, s in took.items()
    ]
    figures += [Figure(name=f"{form} size", value=round(size / count, 1), unit="bytes") for form, size in sizes.items()]
    show("trace_rows", [Figure(name="rows", value=count, unit=""), *figures], as_json=given.json)


if __name__ == "__main__":
    main()
