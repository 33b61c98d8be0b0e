"""Histories of OpenChaos, of its models queue and kv: fields between tabs, a line for each request and response."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path

from chaos.errors import BadInput
from stormproof.importing import How, Imported
from stormproof.importing.openchaos.lines import Fault, lines
from stormproof.importing.openchaos.results import results_of
from stormproof.importing.openchaos.rows import Rows


def read(file: Path, how: How) -> Imported:
    """Read a history once to its end, and refuse it whole if anything in it makes no sense: no row is recorded yet.
    Raises :class:`chaos.errors.BadInput` with the file, the line, and what was expected."""
    numbers = count()
    rows = Rows(how, lambda kind, **columns: next(numbers))
    first_ms = -1
    for line in lines(file):
        first_ms = line.time_ms if first_ms < 0 and not isinstance(line, Fault) else first_ms
        rows.add(line)
    if not rows.model:
        raise BadInput(f"{file}: expected a history of OpenChaos, but no line of it is about an operation")
    return Imported(
        record=partial(_record, file, how, first_ms),
        workload=rows.model,
        began_ns=first_ms * 1_000_000,
        results=results_of(lines(file), rows.model),
    )


def _record(file: Path, how: How, first_ms: int, record: object) -> None:
    rows = Rows(how, record)  # type: ignore[arg-type]
    rows.begin(first_ms)
    for line in lines(file):
        rows.add(line)
    rows.end()
