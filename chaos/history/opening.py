"""What a user means by a run: a directory, a name, the latest one, an archive of a CI server, a URI."""

from __future__ import annotations

from pathlib import Path

from chaos.history import archives, directory, uris

#: An archive may hold many.
MOST_RUNS = archives.MOST_FILES


def resolve_one(word: str, parent: Path) -> Path:
    """Return the one run that a user means, as :func:`resolve` says."""
    (found,) = resolve(word, parent, most=1)
    return found


def resolve(word: str, parent: Path, *, most: int = MOST_RUNS) -> list[Path]:
    """Return the directories of the runs that a user means: as :func:`chaos.history.directory.resolve` says; or all
    that are in a ZIP archive, or the one under a URI, which are put into ``parent`` under their own names.

    Raises :class:`chaos.errors.BadInput` for what is no run, and where a run of that name is there already;
    :class:`chaos.errors.MachineError` when it can't be copied.
    """
    if uris.is_uri(word):
        from chaos.history.remote_runs import fetch  # late: it loads pyarrow

        return [fetch(word, parent)]
    if word != directory.LATEST and archives.is_archive(Path(word)):
        return archives.unpack(Path(word), parent, most=most)
    return [directory.resolve(word, parent)]
