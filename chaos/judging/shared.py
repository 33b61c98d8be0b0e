"""What a large run is judged from where all executors can read it: under a URI, for as long as its jobs last.

Executors open the files of a run by their paths, so they need a folder that all machines share. Where there is none, an
object store does: copies are put there, the tasks open them by their URIs, and at the end they are removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from chaos import guarded
from chaos.errors import BadInput, MachineError
from chaos.history import uris
from chaos.history.pieces import Piece


@contextmanager
def copied(pieces: Sequence[Piece], uri: str) -> Iterator[Sequence[Piece]]:
    """Yield the same pieces of copies of their files, which stand below ``uri`` in a folder of their own; as they are,
    where there is no URI. The folder is removed at the end.

    Raises :class:`BadInput` for a URI that can't be read, :class:`MachineError` when the files can't be put there.
    """
    if not uri:
        yield pieces
        return
    from pyarrow import ArrowException

    shown = uris.without_secrets(uri)
    if not uris.is_uri(uri):
        raise BadInput(f"--copies takes a URI (s3://BUCKET/PATH, file:///PATH), and {shown!r} is none")
    folder = f"stormproof-{uuid4().hex}"
    try:
        files, root = uris.resolve(uri)
    except (ArrowException, ValueError, OSError) as error:
        raise BadInput(f"{shown} can't be used for copies: {uris.sentence(error, uri)}") from error
    here = dict.fromkeys(piece.place for piece in pieces if not uris.is_uri(piece.place))
    names = {place: str(number) for number, place in enumerate(here)}
    try:
        try:
            _put(files, f"{root}/{folder}", names)
        except (ArrowException, OSError) as error:
            raise MachineError(f"cannot put copies under {shown}: {uris.sentence(error, uri)}") from error
        yield [
            replace(piece, place=uris.below(uri, folder, names[piece.place])) if piece.place in names else piece
            for piece in pieces
        ]
    finally:
        _remove(files, f"{root}/{folder}")


def _put(files: Any, folder: str, names: dict[str, str]) -> None:
    from pyarrow.fs import LocalFileSystem, copy_files

    files.create_dir(folder, recursive=True)
    for place, name in names.items():
        copy_files(str(guarded.vetted(Path(place))), f"{folder}/{name}", LocalFileSystem(), files)


def _remove(files: Any, folder: str) -> None:
    """Remove a folder. What is left behind by a store that is gone meanwhile can't be helped; its name says whose it
    was."""
    from pyarrow import ArrowException

    try:
        files.delete_dir(folder)
    except (ArrowException, OSError):
        return
