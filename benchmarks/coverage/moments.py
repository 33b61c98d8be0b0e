"""Which faults met whom, and what was going on: read from the history of a run alone."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from chaos.history.run_meta import RunMeta

Span = tuple[int, int]
NEVER = 2**63 - 1


class Phase(StrEnum):
    """What a group may be at: records are on their way to slaves; a replica begins again and is not in sync yet; an
    object is stored and no manifest names it yet; there is no master that has confirmed anything."""

    REPLICATION = "replication"
    BOOTSTRAP = "bootstrap"
    UPLOAD = "upload"
    ELECTION = "election"


#: Rows by which brokers and controllers report their roles; all other nodes are known by the role they were started in.
ROLE_ROWS = ("role", "raft")


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Meeting:
    """A fault, the role of a node that it hit, when it began, and a phase that it overlapped."""

    fault: str
    role: str
    phase: Phase


def meetings(table: pa.Table, meta: RunMeta) -> set[Meeting]:
    """All that a run shows. ``meta`` is its ``run.json``."""
    rows = [row for row in table.to_pylist() if row["kind"] in ("fault", "trace")]
    for row in rows:
        row["v"] = json.loads(row["value"]) if row["value"] else {}
    spans = {phase: list(found) for phase, found in _phases(rows).items()}
    roles = _roles(rows, meta)
    return {
        Meeting(fault=name, role=roles(node, began), phase=phase)
        for name, nodes, began, ended in _faults(rows)
        for node in nodes
        for phase, known in spans.items()
        if any(start < ended and end > began for start, end in known)
    }


def _faults(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[str], int, int]]:
    """Each injection that had an effect: its name, the nodes that it is proven to have hit, from when until when."""
    by_process: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["kind"] == "fault":
            by_process.setdefault(row["process"], []).append(row)
    for found in by_process.values():
        nodes = {node for row in found for hit in (row["v"].get("proven") or {}).values() for node in hit}
        undone = [row["time_ns"] for row in found if row["v"].get("phase") == "undo"]
        if nodes:
            yield found[0]["f"], sorted(nodes), found[0]["time_ns"], max(undone, default=NEVER) + 1


def _roles(rows: Sequence[Mapping[str, Any]], meta: RunMeta) -> Callable[[str, int], str]:
    """Return what a node was at a time, in ns."""
    known: dict[str, list[tuple[int, str]]] = {}
    for row in rows:
        if row["f"] in ROLE_ROWS and (word := row["v"].get("role")):
            known.setdefault(row["node"], []).append((row["time_ns"], str(word)))
    started = {node.name: node.role for node in meta.nodes}

    def role(node: str, time_ns: int) -> str:
        changes = known.get(node, [])
        at = bisect_right(changes, (time_ns, chr(0x10FFFF))) - 1
        return changes[at][1] if at >= 0 else started.get(node, node)

    return role


def _phases(rows: Sequence[Mapping[str, Any]]) -> Mapping[Phase, Iterator[Span]]:
    return {
        Phase.REPLICATION: _replication(rows),
        Phase.BOOTSTRAP: _bootstraps(rows),
        Phase.UPLOAD: _uploads(rows),
        Phase.ELECTION: _elections(rows),
    }


def _replication(rows: Sequence[Mapping[str, Any]]) -> Iterator[Span]:
    """From a master's append until its confirm offset has passed it."""
    open_ns: dict[str, tuple[int, int]] = {}
    for row in rows:
        node = row["node"]
        if row["f"] == "append" and node not in open_ns:
            open_ns[node] = (row["time_ns"], row["position"])
        elif row["f"] == "confirm" and node in open_ns and row["position"] > open_ns[node][1]:
            yield open_ns.pop(node)[0], row["time_ns"]


def _bootstraps(rows: Sequence[Mapping[str, Any]]) -> Iterator[Span]:
    begun: dict[str, int] = {}
    for row in rows:
        if row["f"] == "bootstrap":
            begun[row["node"]] = row["time_ns"]
        elif row["f"] == "applied":
            for node in (row["v"].get("entry") or {}).get("set") or ():
                if node in begun:
                    yield begun.pop(node), row["time_ns"]
    yield from ((start, NEVER) for start in begun.values())


def _uploads(rows: Sequence[Mapping[str, Any]]) -> Iterator[Span]:
    stored: dict[int, int] = {}
    for row in rows:
        outcome = row["v"].get("outcome")
        if row["f"] == "store_put" and outcome == "created":
            stored.setdefault(row["queue"], row["time_ns"])
        elif row["f"] == "store_cas" and outcome == "applied" and row["queue"] in stored:
            yield stored.pop(row["queue"]), row["time_ns"]


def _elections(rows: Sequence[Mapping[str, Any]]) -> Iterator[Span]:
    """From the entry by which a master term begins, or ends, until the new master has confirmed something."""
    since: int | None = None
    epoch = -1
    for row in rows:
        entry = row["v"].get("entry") or {} if row["f"] == "applied" else {}
        if entry.get("type") in ("elect", "masterless") or entry.get("masterless"):
            if int(entry.get("master_epoch", -1)) > epoch:
                epoch, since = int(entry["master_epoch"]), row["time_ns"] if since is None else since
        elif row["f"] == "confirm" and since is not None and row["epoch"] == epoch and row["v"].get("set"):
            yield since, row["time_ns"]
            since = None
    if since is not None:
        yield since, NEVER
