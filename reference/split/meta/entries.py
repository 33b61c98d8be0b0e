"""The entries of meta's log: JSON objects, of which ``op`` says what the others are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.node import Malformed
from reference.broker.records import MAX_TOPIC_BYTES
from reference.metadata.catalog import check_member
from reference.split.names import check_members, check_replicas
from reference.wire.fields import item

#: An entry, as it is logged.
Entry = Mapping[str, Any]
MAX_QUEUES = 1 << 20
#: Of a topic's change: what stays as it is.
KEEP = -1

#: What an entry of the log holds besides ``op``, by that.
_ENTRIES: Mapping[str, Mapping[str, type]] = {
    "register_broker": {"node": str, "nonce": str},
    "register_store": {"node": str, "word": str, "zone": str},
    "ended": {"node": str, "life": int},
    "lost": {"node": str, "disk": int},
    "seen": {"node": str, "disk": int},
    "own": {"slice": int, "broker": str, "life": int, "after": int},
    "orphaned": {"slice": int, "after": int},
    "birth": {"group": int, "replicas": list},
    "want": {"group": int, "index": int, "wanted": list},
    "report": {"group": int, "index": int, "voters": list, "learners": list},
    "topic": {"name": str, "queues": int, "retain_ms": int, "retain_bytes": int, "expected": int},
    "delete_topic": {"name": str, "expected": int},
    "drain": {"node": str, "undo": bool},
}


def check_entry(entry: Entry) -> None:
    """Raise :class:`chaos.node.Malformed` for an entry of the log that can't be applied."""
    members = _ENTRIES.get(item(entry, "op", str))
    if members is None or entry.keys() != {"op", *members}:
        raise Malformed(f"no entry of meta's log is called {entry['op'][:80]!r} and holds {', '.join(entry)[:80]}")
    for key, kind in members.items():
        _check_member(entry, key, kind)
    if entry["op"] == "topic" and len(entry["name"].encode()) > MAX_TOPIC_BYTES:
        raise Malformed(f"a topic's name has at most {MAX_TOPIC_BYTES} bytes: more have no room in its records")
    for key in ("replicas", "wanted"):
        if key in members:
            check_replicas(entry[key])
    if "voters" in members:
        check_members(entry["voters"], entry["learners"])


def _check_member(entry: Entry, key: str, kind: type) -> None:
    check_member(entry, key, kind)
    if kind is int and entry[key] < (KEEP if key in ("retain_ms", "retain_bytes", "expected") else 0):
        raise Malformed(f"{key} is {entry[key]}")
    if key in ("node", "nonce", "word", "name") and not entry[key]:
        raise Malformed(f"{key} is empty")
    if key == "queues" and entry[key] > MAX_QUEUES:
        raise Malformed(f"a topic has at most {MAX_QUEUES} queues")
