"""``stormproof rows``: print rows of a recorded history, as a report names them."""

from __future__ import annotations

import re
from pathlib import Path

import click

from chaos.errors import BadInput
from stormproof.commands import _console
from stormproof.commands._options import json_option, out_option
from stormproof.commands._rows import row_lines, row_object

#: One row, or from one to another, both included.
RANGE = re.compile(r"([0-9]{1,18})(?:\.\.([0-9]{1,18}))?", re.ASCII)


@click.command()
@click.argument("run")
@click.argument("which", nargs=-1, required=True, metavar="N|A..B...")
@out_option
@json_option
def rows(run: str, which: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Print rows of a RUN's history: those with these numbers (A..B: from A to B), in their order.

    A report names the rows behind each violation. Times are seconds since the load began, as in the report.
    """
    import numpy as np
    import pyarrow as pa

    from chaos.history.history import History

    ranges = [_range(word) for word in which]
    history = History.open(run, out)
    for problem in history.damage:
        _console.err().print(f"note: {problem}", markup=False)
    index = history.table["index"].to_numpy()
    chosen = np.any([(first <= index) & (index <= last) for first, last in ranges], axis=0)
    found = history.of_table(history.table.filter(pa.array(chosen)))
    if not found:
        raise BadInput(f"{run} has no such row; it has {history.num_rows}, numbered from 0 on")
    if as_json:
        _console.print_json([row_object(row) for row in found])
        return
    for line in row_lines(found):
        _console.say(line)


def _range(word: str) -> tuple[int, int]:
    match = RANGE.fullmatch(word)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if first > last:
        raise BadInput(f"{word!r} is no row, and no range of rows from A to B such as 10..20")
    return first, last
