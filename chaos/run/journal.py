"""The undo journal: what a run has done to its cluster, on disk before it is done, so that it can always be undone.

One JSON object per line in ``undo.jsonl``: ``{"injection": "fault-3", "undo": [["start", "broker-1"]]}`` before the
injection, and ``{"injection": "fault-3", "done": true}`` after its undo. It is for people to read: healing, after a
kill of the harness, ends what carries the run's mark, and lets go what the run holds of a cluster that it did not
start, by what the user's state folder says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from chaos.errors import MachineError
from chaos.fault import Undo

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
