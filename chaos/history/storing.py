"""Puts sealed segments of a run under a URI while it goes on, so that its directory holds little but what is new.

First a segment is put there, and read again; then the manifest says where it is; then its bytes go back to the disk. So
it can be cut short anywhere, and a store that is gone costs nothing but the space.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa

from chaos import guarded
from chaos.errors import DamagedHistory, MachineError
from chaos.history import stored, uris
from chaos.history.directory import SEGMENTS, TRACES
from chaos.history.manifest import Manifest, Sealed, Sum, sum_of
from chaos.history.stream import STREAM
from chaos.holes import punch


class Whole(NamedTuple):
    """A sealed segment: the bytes from ``offset`` on of a file of the run."""

    name: str
    offset: int
    sum: Sum


def waiting(sealed: Sealed) -> Iterator[Whole]:
    """Yield the sealed segments that stand in the run's directory."""
    for one in sealed.segments:
        yield from _unless_stored(sealed, Whole(STREAM, one.offset, one.sum))
    for name, sums in sealed.files.items():
        if name.startswith(f"{TRACES}/") and name.endswith(SEGMENTS):
            yield from _unless_stored(sealed, Whole(name, 0, sums[-1]))


def _unless_stored(sealed: Sealed, one: Whole) -> Iterator[Whole]:
    if (one.name, one.offset) not in sealed.stored:
        yield one


def put(run: Path, one: Whole, folder: str) -> int:
    """Put a segment into the run's folder of a store, and read it again; return how many of its bytes the run must
    keep: what a trace's segment says of itself is asked for often. Raises :class:`MachineError` where the store refuses
    it, :class:`DamagedHistory` where it isn't what was written."""
    with guarded.opened(guarded.below(run, one.name), guarded.LARGEST_STREAM) as file:
        file.seek(one.offset)
        data = file.read(one.sum.length)
    if sum_of(data) != one.sum:
        raise DamagedHistory(f"{one.name} is not what was written")
    _write(stored.uri_of(folder, one.name, one.offset), data)
    if one.name == STREAM:
        return 0
    beginning = pa.BufferReader(data)
    pa.ipc.read_message(beginning)
    return int(beginning.tell())


def _write(uri: str, data: bytes) -> None:
    """Write what stands under a URI, and read it again."""
    try:
        files, path = uris.resolve(uri)
        files.create_dir(os.path.dirname(path), recursive=True)
        with files.open_output_stream(path) as target:
            target.write(data)
        stored.read(uri, sum_of(data))
    except (pa.ArrowException, ValueError, OSError, DamagedHistory) as error:
        raise MachineError(f"cannot put {uris.without_secrets(uri)}: {uris.sentence(error, uri)}") from error


def try_out(store: str) -> None:
    """Put something into a store, and remove it again. Raises :class:`MachineError` where that can't be done."""
    uri = uris.below(store, f"stormproof-{uuid4().hex}")
    _write(uri, b"stormproof")
    files, path = uris.resolve(uri)
    with suppress(pa.ArrowException, OSError):  # who may write need not be allowed to remove
        files.delete_file(path)


def note(run: Path, one: Whole, kept: int, folder: str, sealing: Manifest) -> None:
    """Have the manifest say where a segment was put, and give its bytes back to the disk, but for the first ones that
    are ``kept``. Raises :class:`MachineError` when the manifest can't be written."""
    sealing.stored(one.name, one.offset, folder)
    try:
        punch(guarded.below(run, one.name), one.offset + kept, one.offset + one.sum.length)
    except OSError:  # a file system that makes no holes
        return
