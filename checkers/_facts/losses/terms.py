"""The terms of masters, as they and the controllers trace them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.shard_rows import Rows


@dataclass(frozen=True, slots=True)
class Term:
    """A replica took the role of master in row ``at``. ``start``: where its log ended then, -1 where it doesn't say so.
    ``clean``: it was elected from the committed set; None where no controller reports the election. ``group``: of which
    replicas it is the master; "" where no controller says so."""

    node: str
    epoch: int
    at: int
    start: int
    clean: bool | None
    group: str = ""


def terms(rows: Rows) -> Sequence[Term]:
    """All that were traced, by epoch."""
    epoch, known = rows.column("epoch"), rows.memo(elections)
    found = []
    for at in rows.where(kind="trace", f="role").tolist():
        value = rows.value(at)
        if value.get("role") == "master":
            node, start = rows.text("node", at), value.get("start", -1)
            begin = start if isinstance(start, int) else -1
            of = int(epoch[at]), node
            found.append(Term(node, int(epoch[at]), at, begin, known.clean(*of), known.group(node)))
    return sorted(found, key=lambda term: (term.epoch, term.at))


@dataclass(frozen=True, slots=True)
class Elections:
    """(master epoch, master) → the entry that elected it."""

    entries: Mapping[tuple[int, str], Mapping[str, Any]]

    def clean(self, epoch: int, master: str) -> bool | None:
        """Return whether it was elected from the committed set; None where no controller reports the election."""
        entry = self.entries.get((epoch, master))
        if entry is None:
            return None
        previous = entry.get("previous_set")
        inside = bool(entry.get("bootstrap")) or not isinstance(previous, Sequence) or master in previous
        return entry.get("unclean") is not True and inside

    def group(self, master: str) -> str:
        """Return the group of which this is the master; the only one where there is one, "" where that is unknown."""
        of = {name: str(entry.get("group", "")) for (_, name), entry in self.entries.items()}
        return next(iter(of.values())) if len({*of.values()}) == 1 else of.get(master, "")

    def alone(self, term: Term, before: str) -> bool:
        """Return whether the master before may have been the only member of the SyncStateSet when this term began."""
        previous = self.entries.get((term.epoch, term.node), {}).get("previous_set")
        return not isinstance(previous, Sequence) or {*previous} <= {before}


def elections(rows: Rows) -> Elections:
    found: dict[tuple[int, str], Mapping[str, Any]] = {}
    for at in rows.where(kind="trace", f="applied").tolist():
        entry = rows.value(at).get("entry") or {}
        if entry.get("type") == "elect" and isinstance(entry.get("master_epoch"), int):
            found.setdefault((entry["master_epoch"], str(entry.get("master"))), entry)
    return Elections(found)
