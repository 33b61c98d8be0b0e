"""A master's change of the SyncStateSet was committed, and it was master no more before it knew."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.goal import Goal
from chaos.law import Reads, Rows, RunContext
from checkers._goals import _entries


def _reached(rows: Rows, context: RunContext) -> int:
    """No `set` row of the mastership tells the epoch of the set that an entry of the mastership has committed."""
    epoch = rows.column("epoch")
    told: set[tuple[str, int, int]] = set()
    for at, set_epoch in zip(
        rows.where(kind="trace", f="set").tolist(),
        rows.numbers("set_epoch", rows.where(kind="trace", f="set")).tolist(),
        strict=True,
    ):
        told.add((rows.text("node", at), int(epoch[at]), set_epoch))
    masters = {int(entry.value["master_epoch"]): str(entry.value["master"]) for entry in rows.memo(_entries.entries)
               if entry.type == "elect"}  # fmt: skip
    later = max(masters, default=-1)
    found = 0
    for entry in rows.memo(_entries.entries):
        if entry.type == "alter" and (mastership := int(entry.value.get("master_epoch", -1))) < later:
            newest = max((s for n, e, s in told if (n, e) == (masters.get(mastership), mastership)), default=-1)
            found += newest < int(entry.value["set_epoch"])
    return found


def create(options: NoOptions) -> Goal:
    return Goal(
        rows=(*_entries.ROWS, Reads(kind="trace", f=("set",))),
        columns=("node", "epoch", *_entries.COLUMNS),
        evidence=(*_entries.EVIDENCE, Evidence.ROLES),
        reached=_reached,
    )
