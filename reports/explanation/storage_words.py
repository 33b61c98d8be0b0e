"""Rows of a storage cluster in words: slices and their owners, groups and their bytes, segments, members."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chaos.history.row import Row


def storage_words(row: Row) -> str:
    """Return what a row says of a storage cluster; "" for a row of anything else."""
    find = _WORDS.get(row.f)
    return find(row, row.value) if find is not None else ""


def entry_words(entry: Mapping[str, Any]) -> str:
    """Return what an entry of meta's log says of a slice, a group, a node or a topic; "" for any other entry."""
    value, name = entry.get("value"), entry.get("name")
    if entry.get("type") != "entry" or not isinstance(value, dict):
        return ""
    kind = entry.get("kind")
    if kind == "owner":
        return f"gives {name} to {value.get('broker') or 'nobody'} in epoch {value.get('epoch')}"
    if kind == "group":
        wanted = value.get("wanted")
        more = f", wants {_names(wanted)}" if wanted and wanted != value.get("voters") else ""
        return f"group {name}: voters {_names(value.get('voters'))}{_learners(value)}{more}"
    return f"{kind} {name}: {value.get('state') or 'changed'}"


def _names(replicas: object) -> str:
    return ", ".join(map(str, replicas)) if isinstance(replicas, list) and replicas else "none"


def _learners(value: Mapping[str, Any]) -> str:
    return f", learner {_names(value['learners'])}" if value.get("learners") else ""


def _piece(row: Row) -> str:
    return f"bytes {row.position} to {row.value.get('end')} of group {row.value.get('group')}"


def _fence(row: Row, value: Mapping[str, Any]) -> str:
    verb = "fences" if value.get("accepted") else "refuses to fence"
    owner = f"{value.get('broker')} in epoch {row.epoch}"
    return f"{verb} group {value.get('group')} for {owner}; it ends at {value.get('end')}"


def _append(row: Row, value: Mapping[str, Any]) -> str:
    why = "" if value.get("accepted") else f": {value.get('reason')}"
    return f"{'adds' if value.get('accepted') else 'refuses'} {_piece(row)} (epoch {row.epoch}){why}"


def _synced(row: Row, value: Mapping[str, Any]) -> str:
    ends = value.get("groups")
    ended = ends.items() if isinstance(ends, dict) else ()
    return "has synced " + (", ".join(f"group {group} up to entry {end}" for group, end in ended) or "its file")


def _members(row: Row, value: Mapping[str, Any]) -> str:
    of = f"group {value['group']}" if isinstance(value.get("group"), int) else "the members"
    return f"{of}: voters {_names(value.get('voters'))}{_learners(value)}"


def _trim(row: Row, value: Mapping[str, Any]) -> str:
    return f"trims topic {value.get('topic')} of group {value.get('group')} by {value.get('rule')}"


#: Rows by name, and what says them.
_WORDS: Mapping[str, Callable[[Row, Mapping[str, Any]], str]] = {
    "fence": _fence,
    "group_append": _append,
    "group_acked": lambda row, value: (
        f"acknowledges group {value.get('group')} up to {row.position} (epoch {row.epoch})"
    ),
    "group_synced": _synced,
    "map_view": lambda row, value: f"knows meta's entries up to revision {value.get('revision')}",
    "opened": lambda row, value: f"opens {value.get('slice')} in epoch {row.epoch}",
    "closed_slice": lambda row, value: f"closes {value.get('slice')} of epoch {row.epoch}",
    "sealed": lambda row, value: f"seals {_piece(row)}",
    "uploaded": lambda row, value: f"counts on the object of {_piece(row)}",
    "held": lambda row, value: f"holds the segment of {_piece(row)} ({value.get('source')})",
    "dropped": lambda row, value: f"deletes the segment of {_piece(row)} ({value.get('why')})",
    "trim": _trim,
    "object": lambda row, value: f"the object {value.get('key')}",
    "group": lambda row, value: f"group {value.get('group')} up to {row.position}, sealed up to {value.get('sealed')}",
    "members": _members,
}
