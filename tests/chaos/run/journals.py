"""Reading the undo journal of a run."""

from __future__ import annotations

import json
from pathlib import Path

from chaos.fault import Undo, Verb
from chaos.run.journal import JOURNAL


def pending(directory: Path) -> list[Undo]:
    """What the run in ``directory`` has still to undo, newest first. A torn last line promised nothing yet: its fault
    was not injected."""
    promised: dict[str, list[Undo]] = {}
    for line in (directory / JOURNAL).read_text("utf-8").splitlines(keepends=True):
        if not line.endswith("\n"):
            continue
        entry = json.loads(line)
        if entry.get("done"):
            del promised[entry["injection"]]
        else:
            promised[entry["injection"]] = [Undo(verb=Verb(verb), subject=subject) for verb, subject in entry["undo"]]
    return [step for injection in reversed(promised) for step in reversed(promised[injection])]
