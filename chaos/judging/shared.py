"""Shards where all executors can read them: under a URI, for as long as a job lasts.

Executors open the shards of a run by their paths, so they need a folder that all machines share. Where there is none,
an object store does: the shards are put there, the tasks open them by their URIs, and after the job they are removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from chaos import guarded
from chaos.errors import BadInput, MachineError
from chaos.history import uris


@contextmanager
def shared(runs: Sequence[Sequence[Path]], uri: str) -> Iterator[list[list[str]]]:
    """Yield the URIs of copies of these shards, run by run, which stand below ``uri`` in a folder of their own. It is
    removed at the end.

    Raises :class:`BadInput` for a URI that nobody can read, :class:`MachineError` when the shards can't be put there.
    """
    from pyarrow import ArrowException

    shown = uris.without_secrets(uri)
    if not uris.is_uri(uri):
        raise BadInput(f"--shards takes a URI (s3://BUCKET/PATH, file:///PATH), and {shown!r} is none")
    folder = f"stormproof-{uuid4().hex}"
    try:
        files, root = uris.resolve(uri)
    except (ArrowException, ValueError, OSError) as error:
        raise BadInput(f"{shown} can't be used for shards: {uris.sentence(error, uri)}") from error
    try:
        try:
            for number, shards in enumerate(runs):
                _put(files, f"{root}/{folder}/{number}", shards)
        except (ArrowException, OSError) as error:
            raise MachineError(f"cannot put the shards under {shown}: {uris.sentence(error, uri)}") from error
        yield [
            [uris.below(uri, folder, str(number), shard.name) for shard in shards] for number, shards in enumerate(runs)
        ]
    finally:
        _remove(files, f"{root}/{folder}")


def _put(files: Any, folder: str, shards: Sequence[Path]) -> None:
    from pyarrow.fs import LocalFileSystem, copy_files

    files.create_dir(folder, recursive=True)
    for shard in shards:
        copy_files(str(guarded.vetted(shard)), f"{folder}/{shard.name}", LocalFileSystem(), files)


def _remove(files: Any, folder: str) -> None:
    """Remove a folder. What is left behind by a store that is gone meanwhile can't be helped; its name says whose it
    was."""
    from pyarrow import ArrowException

    try:
        files.delete_dir(folder)
    except (ArrowException, OSError):
        return
