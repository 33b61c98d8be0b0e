"""Runs that stand elsewhere, under a URI that pyarrow can read: ``s3://BUCKET/PATH?endpoint_override=…``, ``file://…``.

What was recorded is copied into the folder of the runs and judged there; what was derived from it is made again.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chaos.errors import BadInput, MachineError
from chaos.history import directory, manifest, uris
from chaos.history.archives import PIECE_BYTES, RUN_NAME
from chaos.history.stream import STREAM

#: What is copied of a run; its shards only where they are all that is left.
FILES = (directory.META, manifest.FILE, directory.EXPERIMENT, STREAM, "undo.jsonl")
TRACE = re.compile(rf"{directory.TRACES}/[A-Za-z0-9_][^/\\]*\.(jsonl|arrows)")
SHARD = re.compile(rf"{directory.SHARDS}/[A-Za-z0-9_][^/\\]*\.parquet")


def fetch(word: str, parent: Path) -> Path:
    """Copy the run under this URI into ``parent``, under its own name; returns where it is.

    Raises :class:`BadInput` for a URI that nobody can read, or under which no run stands, and where a run of that name
    is there already; :class:`MachineError` when it can't be copied.
    """
    from pyarrow import ArrowException

    shown = uris.without_secrets(word)
    try:
        files, root = uris.resolve(word)
    except (ArrowException, ValueError, OSError) as error:
        raise BadInput(f"{shown} can't be read: {uris.sentence(error, word)}") from error
    name = root.rpartition("/")[2]
    if not RUN_NAME.fullmatch(name):
        raise BadInput(f"{shown}: {name!r} is not a name for a run")
    place = parent / name
    if place.exists() or place.is_symlink():
        raise BadInput(f"{place} is there already: name it in the place of {shown}, or remove it first")
    try:
        _copy(files, root, place, shown)
    except (ArrowException, OSError) as error:
        raise MachineError(f"cannot copy {shown} to {place}: {uris.sentence(error, word)}") from error
    return place


def _copy(files: Any, root: str, place: Path, shown: str) -> None:
    found = _recorded(files, root)
    if directory.META not in found:
        raise BadInput(f"{shown}: is not a run directory (it has no {directory.META})")
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".fetching-", dir=place.parent))
    try:
        for name in found:
            target = fresh / place.name / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with files.open_input_stream(f"{root}/{name}") as source, target.open("xb") as file:
                while piece := source.read(PIECE_BYTES):
                    file.write(piece)
        (fresh / place.name).rename(place)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _recorded(files: Any, root: str) -> list[str]:
    """Return the files of a run that are to be copied, by their paths in its directory."""
    names = sorted(_names(files, root))
    wanted = [name for name in names if name in FILES or TRACE.fullmatch(name)]
    return wanted if STREAM in names else [*wanted, *(name for name in names if SHARD.fullmatch(name))]


def _names(files: Any, root: str) -> Iterator[str]:
    from pyarrow.fs import FileSelector, FileType

    for info in files.get_file_info(FileSelector(root, recursive=True, allow_not_found=True)):
        if info.type == FileType.File:
            yield info.path.removeprefix(f"{root}/")
