"""Puts what nodes have traced, as lines, into segments once no node writes any more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from chaos import guarded
from chaos.errors import ChaosError
from chaos.history import manifest, segments
from chaos.history.directory import LINES, TRACES, trace_files
from chaos.history.manifest import Manifest, Sealed
from chaos.history.stream import SCHEMA
from chaos.history.trace_segments import segment_name, write_segment
from chaos.history.traces import line_blocks

#: A segment ends when its rows take so many bytes, however few they are.
SEGMENT_BYTES = 1 << 26
_EMPTY = SCHEMA.empty_table()


def seal_traces(run: Path) -> None:
    """Have the run's manifest vouch for its traces, turn the lines of each into segments, and remove the lines for
    whose segments the manifest vouches. Lines that can't be turned stay: where the disk is full, or one is too long.
    Raises :class:`chaos.errors.MachineError` when the manifest can't be written."""
    with Manifest(run) as sealing:
        names = [name for name in trace_files(run) if name.endswith(LINES)]
        sealing.seal_files(names)
        sealed = manifest.read(run)
        for name in names:
            try:
                made = _turn(run, name, sealed)
            except (OSError, ChaosError, pa.ArrowException):
                continue
            sealing.seal_files(made)
            sealing.gone(name)
            (run / name).unlink()


def _turn(run: Path, name: str, sealed: Sealed) -> list[str]:
    """Write the segments of one trace; return their names. No segment is left where anything is raised."""
    node, damage, made = Path(name).stem, list[str](), list[str]()
    try:
        for rows in _joined(line_blocks(run, name, sealed, damage)):
            segment = f"{TRACES}/{segment_name(node, len(made))}"
            write_segment(guarded.below(run, segment), rows, damage)
            made.append(segment)
            damage.clear()
    except BaseException:
        for one in made:
            (run / one).unlink(missing_ok=True)
        raise
    return made


def _joined(blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of a segment each; at least one segment, which says what was wrong with its lines."""
    held: list[pa.Table] = []
    rows = size = count = 0
    for block in blocks:
        held.append(block)
        rows, size = rows + block.num_rows, size + block.nbytes
        if rows >= segments.SEGMENT_ROWS or size >= SEGMENT_BYTES:
            yield pa.concat_tables(held)
            held, rows, size, count = [], 0, 0, count + 1
    if held or not count:
        yield pa.concat_tables(held) if held else _EMPTY
