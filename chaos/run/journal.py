"""The undo journal: what a run has done to its cluster, on disk before it is done, so that it can always be undone.

One JSON object per line in ``undo.jsonl``: ``{"injection": "fault-3", "undo": [["start", "broker-1"]]}`` before the
injection, and ``{"injection": "fault-3", "done": true}`` after its undo.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from chaos import guarded
from chaos.errors import MachineError
from chaos.fault import Undo, Verb

JOURNAL = "undo.jsonl"


class Journal:
    """Appends to the journal of one run. ``durable`` has every line fsynced; a simulated cluster needs no such care,
    for it ends with its process."""

    def __init__(self, directory: Path, *, durable: bool) -> None:
        self._path = directory / JOURNAL
        self._durable = durable
        self._file = self._path.open("a", encoding="utf-8")

    def planned(self, injection: str, undo: Sequence[Undo]) -> None:
        """Promise to undo these steps; on disk when this returns. Raises :class:`MachineError` if that failed: then
        the fault must not be injected."""
        self._append({"injection": injection, "undo": [[str(step.verb), step.subject] for step in undo]})

    def done(self, injection: str) -> None:
        self._append({"injection": injection, "done": True})

    def close(self) -> None:
        self._file.close()

    def _append(self, line: dict[str, object]) -> None:
        try:
            self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
            self._file.flush()
            if self._durable:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise MachineError(f"the undo journal {self._path} can't be written: {error}") from error


def pending(directory: Path) -> list[Undo]:
    """What the run in ``directory`` has still to undo, newest first. A torn last line promised nothing yet: its fault
    was not injected. Other lines that are no journal lines are skipped: what can be undone, is."""
    try:
        text = guarded.read(directory / JOURNAL, guarded.LARGEST_ROWS).decode(errors="replace")
    except FileNotFoundError:
        return []
    promised: dict[str, list[Undo]] = {}
    for line in text.splitlines():
        try:
            entry = json.loads(line)
            injection = entry["injection"]
            if entry.get("done"):
                promised.pop(injection, None)
            else:
                promised[injection] = [Undo(verb=Verb(verb), subject=subject) for verb, subject in entry["undo"]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return [step for injection in reversed(promised) for step in reversed(promised[injection])]
