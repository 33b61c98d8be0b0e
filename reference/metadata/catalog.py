"""The metadata that the controllers agree on: entries with versions, in a state that counts its changes.

Each change raises the catalog's *revision* by one and the entry's *version* by one. A deleted entry stays as one
without a value, so that its versions never begin again and a compare-and-set never takes two lives of it for one.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.node import Malformed
from reference.broker.records import body_hash
from reference.controller.replicas import Outcome
from reference.wire.codes import Response
from reference.wire.fields import MAX_NAME_BYTES, as_object, item, listed, read_json, read_object

TOPIC, ROUTE, GROUP, OWNER = "topic", "route", "group", "owner"
#: By kind of entry what each member of its value is; ``list``: of names. Nothing else stands in a value.
Kinds = Mapping[str, Mapping[str, type]]
#: Those of RIP-18.
KINDS: Kinds = {
    TOPIC: {"queues": int},  # of each broker group
    ROUTE: {"master": str, "epoch": int},  # the name is a broker group; "" while nobody is master
    GROUP: {"retries": int},  # a subscription group
    OWNER: {"broker": str},  # the name is a consumer group, the value the broker group that holds its offsets
}
#: The ``op`` of the catalog's entries in the log.
OP = "metadata"
#: ``expected`` of a change that is made whatever the version is.
ANY = -1
#: Deleted entries count too.
MAX_ENTRIES = 4096
#: So many names stand in one member of a value.
MAX_NAMES = 256
#: So many entries are written into a snapshot in one step.
PIECE_ENTRIES = 128

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """``revision``: the catalog's, by the change that made this version. ``value``: None in a deleted entry."""

    kind: str
    name: str
    version: int
    revision: int
    value: Mapping[str, Any] | None

    @property
    def key(self) -> Key:
        return self.kind, self.name

    def row(self) -> list[Any]:
        return [self.kind, self.name, self.version, self.revision, self.value]

    @staticmethod
    def read(found: object, kinds: Kinds = KINDS) -> Entry:
        """Read an entry of one of these kinds. Raises :class:`chaos.node.Malformed`."""
        row = found if isinstance(found, list) else []
        if [type(part) for part in row[:4]] != [str, str, int, int] or len(row) != 5:
            raise Malformed("an entry of the metadata is a list of kind, name, version, revision and value")
        kind, name, version, revision, value = row
        if version < 1 or revision < version:
            raise Malformed(f"an entry has version {version} of revision {revision}")
        return Entry(kind, name, version, revision, check_value(kind, name, value, kinds))


class Catalog:
    """The state machine. The last ``kept`` changes are remembered, for those who know all before them."""

    kinds: Kinds = KINDS

    def __init__(self, kept: int = 1024) -> None:
        self.revision = 0
        self.entries: dict[Key, Entry] = {}
        self._changes: deque[Entry] = deque(maxlen=kept)

    def version(self, key: Key) -> int:
        entry = self.entries.get(key)
        return entry.version if entry is not None else 0

    def apply(self, entry: Mapping[str, Any]) -> Outcome:
        """Apply a client's change; ``changed`` is the outcome's row of the trace."""
        key, expected, value = (entry["kind"], entry["name"]), entry["expected"], entry["value"]
        known = self.version(key)
        code, remark = self._refusal(key, expected, known)
        if code:
            row = {"type": "none", "op": OP, "kind": key[0], "name": key[1], "code": code}
            return Outcome(code, remark, row)
        made = self.put(key, value)
        row = {"type": OP, "kind": key[0], "name": key[1], "version": made.version, "revision": made.revision}
        return Outcome(changed=row | {"content": value})

    def _refusal(self, key: Key, expected: int, known: int) -> tuple[int, str]:
        if expected not in (ANY, known):
            return Response.METADATA_CONFLICT, f"{key[0]} {key[1]} has version {known}, not {expected}"
        if not known and len(self.entries) >= MAX_ENTRIES:
            return Response.NO_PERMISSION, f"there are {MAX_ENTRIES} entries already"
        return 0, ""

    def put(self, key: Key, value: Mapping[str, Any] | None) -> Entry:
        self.revision += 1
        made = self.entries[key] = Entry(*key, self.version(key) + 1, self.revision, value)
        self._changes.append(made)
        return made

    def since(self, revision: int) -> list[Entry] | None:
        """Return the changes after this revision, in order; None where some of them are forgotten."""
        if revision >= self.revision:
            return []
        if not self._changes or self._changes[0].revision > revision + 1:
            return None
        return list(self._changes)[revision - self.revision :]

    # Snapshots

    def pieces(self) -> Iterator[bytes]:
        """Return what follows the groups in a snapshot: this moment's state, some entries at a time, whatever is
        applied meanwhile. Nothing where nothing was ever put."""
        return self._pieces(self.revision, list(self.entries.values()))

    @staticmethod
    def _pieces(revision: int, entries: list[Entry]) -> Iterator[bytes]:
        if revision:
            yield f"\n{revision}".encode()
        for start in range(0, len(entries), PIECE_ENTRIES):
            some = entries[start : start + PIECE_ENTRIES]
            yield "".join(f"\n{json.dumps(entry.row())}" for entry in some).encode()

    def restore(self, snapshot: bytes) -> None:
        self.revision, self.entries = read_entries(split(snapshot)[1], self.kinds)
        self._changes.clear()


def split(snapshot: bytes) -> tuple[bytes, bytes]:
    """Split a controller's snapshot into its groups and its metadata."""
    groups, _, entries = snapshot.partition(b"\n")
    return groups, entries


def read_entries(text: bytes, kinds: Kinds = KINDS) -> tuple[int, dict[Key, Entry]]:
    """Return the metadata of a snapshot. Raises :class:`chaos.node.Malformed`."""
    if not text:
        return 0, {}
    first, *lines = text.split(b"\n")
    revision = item({"a revision": read_json(first)}, "a revision", int)
    entries = [Entry.read(read_json(line), kinds) for line in lines]
    if len({entry.key for entry in entries}) < len(entries) or any(one.revision > revision for one in entries):
        raise Malformed(f"these are no entries of revision {revision}")
    return revision, {entry.key: entry for entry in entries}


def content(value: Mapping[str, Any] | None) -> int:
    """Return the identity of an entry's value in histories, the same for all who write it; -1 for none."""
    if value is None:
        return -1
    return body_hash(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


# What may be put


def read_change(kind: str, name: str, expected: int, body: bytes) -> dict[str, Any]:
    """Return the log's entry for what a client asks; no body deletes. Raises :class:`chaos.node.Malformed`."""
    value = check_value(kind, name, read_object(body) if body else None)
    if expected < ANY:
        raise Malformed(f"expectedVersion must be {ANY} or more, not {expected}")
    return {"op": OP, "kind": kind, "name": name, "expected": expected, "value": value}


def check_change(entry: Mapping[str, Any]) -> None:
    """Raise :class:`chaos.node.Malformed` for an entry of the log that can't be applied."""
    kind, name = item(entry, "kind", str), item(entry, "name", str)
    item(entry, "expected", int)
    check_value(kind, name, entry.get("value"))


def check_value(kind: str, name: str, value: object, kinds: Kinds = KINDS) -> dict[str, Any] | None:
    """Return the value if entries of this kind may hold it. Raises :class:`chaos.node.Malformed`."""
    members = kinds.get(kind)
    if members is None:
        raise Malformed(f"metadata is of the kinds {', '.join(kinds)}, not {kind!r:.80}")
    if not name or len(name.encode()) > MAX_NAME_BYTES:
        raise Malformed(f"the name of an entry has 1 to {MAX_NAME_BYTES} bytes")
    if value is None:
        return None
    given = as_object(value)
    if given.keys() != members.keys():
        raise Malformed(f"an entry of the kind {kind} has {', '.join(members)} and nothing else")
    for key, type_ in members.items():
        check_member(given, key, type_)
    return given


def check_member(given: Mapping[str, Any], key: str, type_: type) -> None:
    """Raise :class:`chaos.node.Malformed` unless a member is of this type and no longer than the catalog holds."""
    found: object = listed(given, key, str) if type_ is list else item(given, key, type_)
    names = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    if len(names) > MAX_NAMES:
        raise Malformed(f"{key} has {len(names)} names; {MAX_NAMES} are possible")
    if any(len(name.encode()) > MAX_NAME_BYTES for name in names):
        raise Malformed(f"{key} is longer than {MAX_NAME_BYTES} bytes")
