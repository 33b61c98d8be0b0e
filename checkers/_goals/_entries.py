"""What the controllers agreed on, entry by entry, as several goals need it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.driver import Evidence
from chaos.events import Applied
from chaos.shard_rows import Rows

#: What a goal declares that looks at these.
READS = (Applied,)
EVIDENCE = (Evidence.OPERATIONS, Evidence.ELECTIONS)


@dataclass(frozen=True, slots=True)
class Entry:
    """One committed entry, when the first controller applied it."""

    place: int
    time_ns: int
    value: Mapping[str, Any]

    @property
    def type(self) -> str:
        return str(self.value.get("type", ""))

    @property
    def members(self) -> frozenset[str] | None:
        """The SyncStateSet that it leaves; None for an entry that doesn't touch it."""
        return frozenset(map(str, self.value["set"])) if "set" in self.value else None


def entries(rows: Rows) -> Sequence[Entry]:
    """All entries about groups with brokers, in the order of the log."""
    found: dict[int, Entry] = {}
    times, places = rows.column("time_ns"), rows.column("position")
    for at in rows.where(kind="trace", f="applied").tolist():
        place, time_ns = int(places[at]), int(times[at])
        if place not in found or time_ns < found[place].time_ns:
            value = found[place].value if place in found else rows.value(at).get("entry") or {}
            found[place] = Entry(place, time_ns, value)
    return [found[place] for place in sorted(found) if not found[place].value.get("unattended")]


def sets(rows: Rows) -> Iterator[tuple[Entry, frozenset[str], frozenset[str]]]:
    """Each entry that changes the SyncStateSet, with the set before and after it."""
    known: frozenset[str] = frozenset()
    for entry in rows.memo(entries):
        members = entry.members
        if members is not None:
            yield entry, known, members
            known = members


def elections(rows: Rows) -> Sequence[Entry]:
    """Return the elections after the first one of each group."""
    return [entry for entry in rows.memo(entries) if entry.type == "elect" and not entry.value.get("bootstrap")]
