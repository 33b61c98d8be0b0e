"""What replicas say of their own logs, row by row: the oracle of parts of ``checkers/in_sync/own_log.py``."""

from __future__ import annotations

from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import Ints
from checkers.in_sync.own_log import _may_lose, _report
from checkers.in_sync.promise import FALSE_SYNC


def known_to_disk(rows: Rows, found: Findings, synced: Ints) -> None:
    """What the simulator has told of the file, so much that no crash could take away, is all that the node says."""
    said, known = rows.numbers("size", synced), rows.numbers("disk", synced)
    for at, size, disk in zip(synced.tolist(), said.tolist(), known.tolist(), strict=True):
        if 0 <= disk < size:
            did = f"called {size} bytes of its file {rows.value(at)['file']} durable"
            _report(rows, found, FALSE_SYNC, at, did, f"had {disk} of them on the disk")


def disk_keeps(rows: Rows, found: Findings, node: str) -> None:
    """What a node called durable is there when it comes back, unless it was cut, or its disk was taken from it: its
    word is new, its count of lives doesn't go on, or a fault is proven to have harmed it."""
    at = facts.node_traces(rows, node, "synced", "truncate", "recovered", "bootstrap", "start")
    position, times = rows.column("position"), rows.column("time_ns")
    harmed = [fault.from_ns for fault in rows.memo(facts.faults) if _may_lose(fault, node)]
    sure, witness, generation, disk = -1, -1, -1, ""
    for row in at.tolist():
        f, where = rows.text("f", row), int(position[row])
        if f == "start":
            told = rows.value(row)
            now, word = int(told.get("generation", generation + 1)), str(told.get("disk", ""))
            sure = -1 if now <= generation or word != disk else sure
            generation, disk = now, word
        elif f == "synced":
            sure, witness = where, row
        elif f == "truncate":
            sure = min(sure, where)
        else:
            lawful = any(times[witness] <= moment <= times[row] for moment in harmed)
            if f == "recovered" and where < sure and not lawful:
                did = f"had called position {sure} durable at {facts.at_s(rows, witness)}, and came back"
                _report(rows, found, FALSE_SYNC, row, did, f"ended at {where}", witness)
            sure, witness = where, row
