"""A row in words, with what can be known of it only beside others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chaos.history.row import Row
from reports.explanation.happens_before import hit_by
from reports.explanation.storage_words import entry_words, storage_words
from reports.explanation.subject import is_about_group
from reports.run_report.story import NAMED, message_name


def words(row: Row, before: Sequence[Row], against: str) -> str:
    """Say what this row shows; ``before``: the rows of the explanation that come before it, ``against``: what it
    contradicts."""
    if row.kind == "op":
        return _operation(row, before, against)
    if row.kind == "fault":
        return f"{row.f} of {targets(row)}"
    if row.kind == "final":
        return f"in the end holds {_record(row)}" if row.offset >= 0 else f"in the end: {storage_words(row) or row.f}"
    if row.kind == "poll":
        shown = [f"{name} {row.value[name]}" for name in ("role", "master", "leader") if row.value.get(name)]
        return " ".join(["shows", *shown, *([f"epoch {row.epoch}"] if row.epoch >= 0 else [])])
    return _trace(row) + (f", {against}" if against else "")


def targets(fault: Row) -> str:
    """Say whom a fault was aimed at; of many the first ones."""
    named = fault.value.get("targets")
    nodes = [str(node) for node in named] if isinstance(named, list) and named else hit_by(fault)
    more = [f"{len(nodes) - NAMED} more"] if len(nodes) > NAMED else []
    return ", ".join([*nodes[:NAMED], *more]) or "nobody"


def _operation(row: Row, before: Sequence[Row], against: str) -> str:
    name = row.f
    if row.message >= 0:
        name += f" {message_name(row.message)}"
    elif "object" in row.value:
        details = [str(row.value[one]) for one in ("address", "expected", "members", "epoch") if row.value.get(one)]
        name += " ".join(["", str(row.value["object"]), *details])
    elif row.queue >= 0:
        name += f" of queue {row.queue}" + (f" for {row.value['group']}" if is_about_group(row) else "")
    if row.f == "delivered":
        return f"is given {message_name(row.message)} at offset {row.offset}" + (f", {against}" if against else "")
    if row.type == "invoke":
        return name
    ends = {"ok": "ok", "fail": "refused", "info": "result unknown"}
    at = f" at offset {row.offset}" if row.offset >= 0 and row.type == "ok" else ""
    outcome = f"{name}: {ends.get(row.type, row.type)}{at}"
    if is_about_group(row):
        return outcome + (f", {against}" if against else "")
    return f"{outcome}{_believed(row, before, against)}"


def _believed(row: Row, before: Sequence[Row], against: str) -> str:
    """Say of a controller's answer which term it believed to lead, and who led a newer one by then."""
    mine = [one for one in before if one.f == "raft" and one.node == row.node]
    if not mine or mine[-1].value.get("role") != "leader":
        return f", {against}" if against else ""
    return f" (by the leader of term {mine[-1].epoch}{f', {against}' if against else ''})"


def _trace(row: Row) -> str:
    value = row.value
    match row.f:
        case "append":
            return f"stores {_record(row)} (epoch {row.epoch}, ends at {row.end})"
        case "acked":
            return f"acknowledges up to {row.position}"
        case "confirm":
            return f"confirms up to {row.position}" + (f", {_set(value)}" if value.get("set") else "")
        case "commit":
            return f"lets group {value.get('group')} go on at offset {row.offset} of queue {row.queue}"
        case "synced":
            return f"durable up to {row.position}"
        case "tier_commit":
            return f"commits version {value.get('version')} of the manifest of queue {row.queue}, up to {row.position}"
        case "truncate":
            return f"cuts its log from {value.get('old_end', '?')} to {row.position}"
        case "recovered":
            return f"comes back with its log up to {row.position}"
        case "role":
            follows = f" of {value.get('master')}" if value.get("role") == "slave" and value.get("master") else ""
            start = f", log ends at {value['start']}" if "start" in value else ""
            return f"{value.get('role')}{follows} in epoch {row.epoch}{start}"
        case "set":
            return _set(value)
        case "raft":
            of = f" in group {value['group']}" if isinstance(value.get("group"), int) else ""
            return f"{value.get('role')} of term {row.epoch}{of}"
        case "applied":
            return _entry(row.entry, row.position)
    return storage_words(row) or " ".join(filter(None, [row.f, *_named(row)]))


def _named(row: Row) -> Iterator[str]:
    numbers = row.numbers("epoch", "queue", "offset", "position")
    yield from (f"{name} {number}" for name, number in numbers.items())
    yield from (f"{name} {row.value[name]}" for name in ("version", "outcome", "key", "reason") if name in row.value)


def _record(row: Row) -> str:
    name = message_name(row.message) if row.message >= 0 else "another record"
    return f"{name} at queue {row.queue}, offset {row.offset}"


def _set(value: Mapping[str, Any]) -> str:
    members, more = (
        [*map(str, one)] if isinstance(one, list) else [] for one in (value.get("set"), value.get("proposed"))
    )
    return f"set {', '.join(members)}" + (f", proposed {', '.join(more)}" if more else "")


def _entry(entry: Mapping[str, Any], position: int) -> str:
    kind, epoch = entry.get("type"), entry.get("master_epoch")
    if kind == "elect":
        return f"elects {entry.get('master')} (epoch {epoch}); {_set(entry)}"
    if entry.get("masterless") or kind == "masterless":
        return f"ends the master term (epoch {epoch})"
    if kind == "alter":
        return f"agrees on the {_set(entry)} of {entry.get('group')} (set epoch {entry.get('set_epoch')})"
    return (
        entry_words(entry) or f"applies entry {position}: {kind} {entry.get('broker', '')} of {entry.get('group', '')}"
    )
