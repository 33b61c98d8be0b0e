"""Turns what nodes have traced, as lines, into segments: piece by piece while they go on writing, and the rest once no
node does any more.

A piece is whole lines, from where the last segment ends. First its segment is written, then the manifest vouches for
that, which is the one moment from which on the segment counts and its lines don't; the segment says itself where they
end. So it can be cut short anywhere. Of lines that have become a segment, all but the newest piece's are given back to
the disk: who follows the file (:class:`chaos.machines.real_time.Tail`) may be a little behind, and a node that
starts looks for the end of its last line.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from chaos import guarded
from chaos.errors import ChaosError, DamagedHistory
from chaos.history import manifest, segments
from chaos.history.directory import TRACES, line_files, node_and_number, sealed_segments
from chaos.history.manifest import Manifest, Sealed, Sum, sum_of_file
from chaos.history.stream import SCHEMA
from chaos.history.trace_lines import PIECE_BYTES
from chaos.history.trace_segments import Place, segment_name, write_segment
from chaos.history.traces import line_blocks, lines_begin
from chaos.holes import punch

#: A segment ends when its rows take so many bytes, however few they are.
SEGMENT_BYTES = 1 << 26
#: What keeps lines as they are: a full disk, one that is too long, rows that Arrow doesn't take.
NOT_TURNED = (OSError, ChaosError, pa.ArrowException)
_EMPTY = SCHEMA.empty_table()


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that was written and is not vouched for yet. ``end``: where the lines end of which it was made."""

    name: str
    sum: Sum
    end: Place


class Lines:
    """The lines of one trace, and how far they have become segments."""

    def __init__(self, run: Path, name: str, sealed: Sealed, piece_bytes: int = PIECE_BYTES) -> None:
        """Raises :class:`DamagedHistory` where it is unknown how far they have."""
        begin, found = lines_begin(run, name, sealed), sealed_segments(sealed, name)
        if begin is None:
            raise DamagedHistory(f"{found[-1]} doesn't say where its lines end")
        self._run, self._name, self._begin, self._piece_bytes = run, name, begin, piece_bytes
        self._node, self._next = Path(name).stem, node_and_number(found[-1])[1] + 1 if found else 0

    def write_segment(self, *, ended: bool) -> Segment | None:
        """Make the next segment; None where there are not enough lines for one. ``ended``: no node writes any more, so
        that whatever is left becomes one. Raises one of :data:`NOT_TURNED`."""
        size = (self._run / self._name).lstat().st_size
        if size < self._begin.offset:
            raise DamagedHistory(f"{self._name} has become shorter than it was")
        if not ended and size - self._begin.offset < self._piece_bytes * 9 / 8:  # the last line may be a torn one
            return None
        blocks, damage = list[pa.Table](), list[str]()
        end, is_full = self._begin, False
        for block, end in line_blocks(self._run, self._name, self._begin, size, damage, ended=ended):
            blocks.append(block)
            if is_full := self._is_full(blocks, end):
                break
        if not is_full and (not ended or (self._next and not blocks)):
            return None
        name = f"{TRACES}/{segment_name(self._node, self._next)}"
        fresh = self._fresh(name)
        fresh.unlink(missing_ok=True)
        write_segment(fresh, pa.concat_tables([_EMPTY, *blocks]), damage, end)
        return Segment(name, sum_of_file(fresh), end)

    def _is_full(self, blocks: Sequence[pa.Table], end: Place) -> bool:
        return (
            sum(block.num_rows for block in blocks) >= segments.SEGMENT_ROWS
            or sum(block.nbytes for block in blocks) >= SEGMENT_BYTES
            or end.offset - self._begin.offset >= self._piece_bytes
        )

    def seal(self, made: Segment, sealing: Manifest) -> None:
        """Put the segment that was made last in its place, and have the manifest vouch for it. Raises ``OSError`` where
        something else stands there."""
        path = guarded.below(self._run, made.name)
        if guarded.is_there(path):
            raise FileExistsError(path)
        self._fresh(made.name).rename(path)
        sealing.seal(made.name, made.sum)
        with suppress(OSError):  # a file system that makes no holes keeps them until the end
            punch(self._run / self._name, 0, self._begin.offset)
        self._begin, self._next = made.end, self._next + 1

    def _fresh(self, name: str) -> Path:
        """Return where a segment is written: of one that is cut short nothing has its name."""
        return guarded.below(self._run, f"{name}.new")


def seal_traces(run: Path) -> None:
    """Turn all that is left of the lines of a run into segments for which its manifest vouches, and remove the lines.
    Lines that can't be turned stay, and are vouched for. Raises :class:`chaos.errors.MachineError` when the manifest
    can't be written."""
    with Manifest(run) as sealing:
        sealed = manifest.read(run)
        for name in line_files(run):
            try:
                lines = Lines(run, name, sealed)
                while made := lines.write_segment(ended=True):
                    lines.seal(made, sealing)
            except NOT_TURNED:
                sealing.seal_files([name])
                continue
            sealing.gone(name)
            (run / name).unlink()
