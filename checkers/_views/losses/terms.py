"""The terms of masters, as they and the controllers trace them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.law import Rows


@dataclass(frozen=True, slots=True)
class Term:
    """A replica took the role of master in row ``at``. ``start``: where its log ended then, -1 where it doesn't tell.
    ``clean``: it was elected from the committed set; None where no controller tells of the election."""

    node: str
    epoch: int
    at: int
    start: int
    clean: bool | None


def terms(rows: Rows) -> Sequence[Term]:
    """All that were traced, by epoch."""
    epoch, elections = rows.column("epoch"), _elections(rows)
    found = []
    for at in rows.where(kind="trace", f="role").tolist():
        told = rows.value(at)
        if told.get("role") == "master":
            node, start = rows.text("node", at), told.get("start", -1)
            entry = elections.get((int(epoch[at]), node))
            found.append(Term(node, int(epoch[at]), at, start if isinstance(start, int) else -1, _clean(entry)))
    return sorted(found, key=lambda term: (term.epoch, term.at))


def _elections(rows: Rows) -> Mapping[tuple[int, str], Mapping[str, Any]]:
    """(master epoch, master) → the entry that elected it."""
    found: dict[tuple[int, str], Mapping[str, Any]] = {}
    for at in rows.where(kind="trace", f="applied").tolist():
        entry = rows.value(at).get("entry") or {}
        if entry.get("type") == "elect" and isinstance(entry.get("master_epoch"), int):
            found.setdefault((entry["master_epoch"], str(entry.get("master"))), entry)
    return found


def _clean(entry: Mapping[str, Any] | None) -> bool | None:
    if entry is None:
        return None
    previous = entry.get("previous_set")
    inside = bool(entry.get("bootstrap")) or not isinstance(previous, Sequence) or entry.get("master") in previous
    return entry.get("unclean") is not True and inside
