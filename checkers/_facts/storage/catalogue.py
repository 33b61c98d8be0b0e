"""Meta's catalogue, entry by entry, as the members of meta report what they have applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.shard_rows import Rows

OWNER, GROUP, TOPIC, STORE, BROKER = "owner", "group", "topic", "store", "broker"
#: States of a store: it may hold groups, or is being emptied.
UP, DRAINING = "up", "draining"


@dataclass(frozen=True, slots=True)
class Entry:
    """A version of an entry: the first row that reports it, and its value; {} for one that was deleted."""

    at: int
    kind: str
    name: str
    version: int
    revision: int
    value: Mapping[str, Any]

    def number(self, field: str) -> int:
        """Return a whole number of the value, -1 where there is none."""
        found = self.value.get(field)
        return found if isinstance(found, int) and not isinstance(found, bool) else -1

    def word(self, field: str) -> str:
        """Return a text of the value, "" where there is none."""
        found = self.value.get(field)
        return found if isinstance(found, str) else ""

    def names(self, field: str) -> frozenset[str]:
        """Return a list of names of the value."""
        found = self.value.get(field)
        return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All entries by revision. ``is_whole``: no revision is missing, so that what is not here was never logged."""

    entries: tuple[Entry, ...]
    is_whole: bool

    def of(self, kind: str) -> Iterator[Entry]:
        """Yield the versions of all entries of a kind, in the order of meta's log."""
        return (entry for entry in self.entries if entry.kind == kind)

    def last(self, kind: str) -> Mapping[str, Entry]:
        """Return the last version of each entry of a kind, by name."""
        return {entry.name: entry for entry in self.of(kind)}

    def births(self) -> Mapping[int, frozenset[str]]:
        """Return the first members of each group, by number."""
        found: dict[int, frozenset[str]] = {}
        for entry in self.of(GROUP):
            if entry.name.isdecimal() and (birth := entry.names("birth")):
                found.setdefault(int(entry.name), birth)
        return found


def catalogue(rows: Rows) -> Catalogue:
    """Return the catalogue; computed once for all laws that look at these rows."""
    return rows.memo(_catalogue)


def _catalogue(rows: Rows) -> Catalogue:
    found: dict[int, Entry] = {}
    for at in rows.where(kind="trace", f="applied").tolist():
        entry = rows.value(at).get("entry")
        if not isinstance(entry, dict) or "kind" not in entry:
            continue
        revision, version = entry.get("revision"), entry.get("version")
        if not isinstance(revision, int) or not isinstance(version, int) or revision in found:
            continue
        value = entry.get("value", entry.get("content"))
        about = str(entry["kind"]), str(entry.get("name", ""))
        found[revision] = Entry(at, *about, version, revision, value if isinstance(value, dict) else {})
    entries = tuple(found[revision] for revision in sorted(found))
    return Catalogue(entries, bool(entries) and entries[-1].revision == len(entries))
