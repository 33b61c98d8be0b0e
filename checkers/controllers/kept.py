"""How much of its log a controller keeps: entries that a snapshot should have replaced, and files that a newer one has
replaced.

A snapshot is due after a number of entries, and is written while entries go on. Where a follower far behind puts it
off, or it is unknown whether one does, the log may grow to that many times sixteen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.fault import Effect
from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers._facts.faults import faults
from checkers._facts.run import at_s

#: A controller keeps entries for so many snapshots at most, and those of one step; but where a snapshot is large.
KEPT_SNAPSHOTS, STEP_ENTRIES, LARGE_BYTES = 16, 256, 65_536
#: So many files of a log there may be for a while.
KEPT_FILES = 16
#: So long it may take to write a snapshot, piece by piece, while entries come as fast as they can; and to remove files.
SNAPSHOT_S = 5.0
#: A controller reports how much of its log it keeps with each entry whose index is a multiple of this.
REPORT_EVERY = 64

LOG_KEPT = "log-kept"


@dataclass(slots=True)
class _Overdue:
    """Since when a node has had too much of something, reported each time since then."""

    since_ns: int = -1
    first: int = -1

    def lasts_ns(self, rows: Rows, node: str, now_ns: int, *, too_much: bool, first: int = 0) -> int:
        """Return for how long no fault has hindered the node while it had; 0 if it has not. ``first`` distinguishes one
        log from the next."""
        if not too_much:
            self.since_ns = -1
            return 0
        if self.since_ns < 0 or first != self.first:
            self.since_ns, self.first = now_ns, first
        return _unhindered_ns(rows, node, self.since_ns, now_ns)


@dataclass(slots=True)
class _Node:
    """What a controller has had too much of so far: entries, needed or not; entries that nobody needs; and files."""

    entries: _Overdue
    needless: _Overdue
    files: _Overdue
    is_reported: bool = False


def logs_kept(rows: Rows, found: Findings, applied: Sequence[int]) -> None:
    """Each controller replaces its log by a snapshot in time, and removes the files that it has replaced."""
    position, times, index = (rows.column(name) for name in ("position", "time_ns", "index"))
    nodes: dict[str, _Node] = {}
    for at in applied:
        log = None if position[at] % REPORT_EVERY else rows.value(at).get("log")
        if not isinstance(log, Mapping):
            continue
        found.count("logs", 1)
        name = rows.text("node", at)
        node = nodes.setdefault(name, _Node(_Overdue(), _Overdue(), _Overdue()))
        why = _why_too_much(rows, node, name, log, int(position[at]), int(times[at]))
        if why and not node.is_reported:
            node.is_reported = True
            found.add(LOG_KEPT, f"{name} kept {why} at {at_s(rows, at)}.", int(index[at]))


def _why_too_much(rows: Rows, node: _Node, name: str, log: Mapping[str, Any], last: int, now_ns: int) -> str:
    first, every, bound_ns = int(log["first"]), int(log["every"]), SNAPSHOT_S * 1e9
    kept = last - first + 1
    large = int(log["bytes"]) > LARGE_BYTES
    entries_ns = node.entries.lasts_ns(
        rows, name, now_ns, too_much=not large and kept > KEPT_SNAPSHOTS * every, first=first
    )
    needless = not large and log.get("behind") is False and kept > every + STEP_ENTRIES
    needless_ns = node.needless.lasts_ns(rows, name, now_ns, too_much=needless, first=first)
    files = log.get("files", 0)
    files_ns = node.files.lasts_ns(rows, name, now_ns, too_much=files > KEPT_FILES)
    if kept > KEPT_SNAPSHOTS * every + STEP_ENTRIES and entries_ns > bound_ns:
        return f"{kept} entries of its log, although a snapshot was due after {every},"
    if needless_ns > bound_ns:
        return f"{kept} entries of its log, although a snapshot was due after {every} and no follower was far behind,"
    if files_ns > bound_ns:
        return f"{files} files of its log, although a newer one had replaced all but one or two of them,"
    return ""


def _unhindered_ns(rows: Rows, node: str, since_ns: int, now_ns: int) -> int:
    """Return how long, within this time, no fault has hindered a node, up to now."""
    hindered = [
        min(fault.until_ns, now_ns)
        for fault in rows.memo(faults)
        if fault.began_ns <= now_ns and (node in fault.hits(*Effect) or fault.may_hit(node))
    ]
    return now_ns - max([since_ns, *hindered])
