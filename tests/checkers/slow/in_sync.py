"""What replicas say of their own disks, row by row: the oracle of parts of ``checkers/in_sync/own_log.py``. It tells
no story: explanations are the kernel's own."""

from __future__ import annotations

from chaos.fault import Effect
from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers.in_sync.promise import FALSE_SYNC
from tests.checkers.slow.plain import Row, some


def _lived(rows: Rows, node: str, *names: str) -> list[Row]:
    mine = [one for one in some(rows, "trace", *names) if one.node == node]
    return sorted(mine, key=lambda one: (one.incarnation, one.step, one.index))


def _meets(fault: facts.Fault, since: Row | None, until: Row) -> bool:
    return since is not None and fault.began_ns <= until.time_ns and since.time_ns <= fault.until_ns


def known_to_disk(rows: Rows, found: Findings, node: str) -> None:
    """A node calls no more of a file durable than the simulated disk would keep."""
    for one in _lived(rows, node, "synced"):
        if 0 <= one.number("disk") < one.number("size"):
            found.add(FALSE_SYNC, "", one.index)


def disk_keeps(rows: Rows, found: Findings, node: str) -> None:
    """What a node called durable last is there when it comes back, unless it cut it off, its disk is another one or
    went back in time, or a fault since then may have taken it."""
    faults = [one for one in rows.memo(facts.faults) if node in one.hits(Effect.LOSES_DISK) or one.may_hit(node)]
    promised: Row | None = None
    bound, lives, disk = -1, -1, ""
    for one in _lived(rows, node, "synced", "truncate", "recovered", "bootstrap", "start"):
        match one.f:
            case "start":
                now, word = int(one.value.get("generation", lives + 1)), str(one.value.get("disk", ""))
                if now <= lives or word != disk:
                    bound = -1
                lives, disk = now, word
            case "truncate":
                bound = min(bound, one.position)
            case f:
                is_less = f == "recovered" and promised is not None and one.position < bound
                if is_less and not any(_meets(fault, promised, one) for fault in faults):
                    found.add(FALSE_SYNC, "", promised.index, one.index)
                promised, bound = one, one.position
