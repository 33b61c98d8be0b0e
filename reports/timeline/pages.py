"""Where the timelines of many histories go: one page, or a page each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from chaos.errors import MachineError
from checkers.linearizable import History, Result
from reports.timeline import page
from reports.timeline.from_history import timelines

#: From what a person wants to see first to last.
_RANK: dict[bool | None, int] = {False: 0, None: 1, True: 2}


class TimelinePages:
    """Writes the timelines of many histories. ``target`` is one page if its name ends in ``.html``: of the first
    history with the worst verdict. Else it is a directory, which gets a page for each that is not VALID."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._single = target.suffix == ".html"
        self._worst = len(_RANK)
        self._names: set[str] = set()

    def add(self, file: Path, history: History, result: Result) -> Path | None:
        """Draw a history if it belongs here; return the page's path. Raises :class:`chaos.errors.MachineError` when
        the page can't be written."""
        rank = _RANK[result.valid]
        if rank >= self._worst if self._single else result.valid is True:
            return None
        self._worst = rank
        path = self._target if self._single else self._target / self._name(file, history)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            page.write(path, f"{history.id} ({history.model})", timelines(history, result))
        except OSError as error:
            raise MachineError(f"cannot write the timeline {path}: {error.strerror or error}") from error
        return path

    def _name(self, file: Path, history: History) -> str:
        text = str(history.id) if history.id == file.name else f"{file.name}-{history.id}"
        stem = "".join(c if c.isalnum() or c in "-_." else "_" for c in text).strip(".")[:100] or "history"
        name = next(name for name in _numbered(stem) if name not in self._names)
        self._names.add(name)
        return name


def _numbered(stem: str) -> Iterator[str]:
    yield f"{stem}.html"
    yield from (f"{stem}-{number}.html" for number in count(2))
