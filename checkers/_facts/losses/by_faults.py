"""Losses where no replica reports its role at all: only what faults hit can explain them, and only near them.

A message may be gone if the node that acknowledged it was hit, by something that a weakness of the profile knows, no
later than the driver's loss window after that. For so long may what a node has acknowledged be in danger: until its
next flush, or until the slowest replica that still counts has it.
"""

from __future__ import annotations

from collections.abc import Iterator

from chaos.fault import Effect
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER, Ints, parts
from checkers._facts.faults import Fault, faults
from checkers._facts.losses import weakness
from checkers._facts.losses.explained import Explained, Lost

#: Effects on a master that may bring another replica into its place.
REPLACES = (
    *(Effect.TAKES_DOWN, Effect.ISOLATES, Effect.CUTS, Effect.MAY_CRASH, Effect.LOSES_DISK, Effect.SLOWS),
    *(Effect.SWITCHES_MASTER, Effect.REMOVES_REPLICA),
)
BY_FAULTS = ", judged by faults alone"


def window_ns(context: RunContext) -> int:
    """Return the driver's loss window, NEVER where it declares none."""
    window_s = context.meta.loss_window_s
    return NEVER if window_s is None else int(window_s * 1e9)


def explain(rows: Rows, context: RunContext, at: Ints, found: Explained) -> None:
    """Explain losses by the faults near them. ``at``: the rows that reported the records to clients."""
    window = window_ns(context)
    times = rows.column("time_ns")[at]
    for code, mine in parts(rows.column("node")[at]).items():
        node = rows.text("node", int(at[mine[0]])) if code >= 0 else ""
        for fault in rows.memo(faults):
            begin_ns = fault.began_ns - min(window, fault.began_ns)
            near = mine[(times[mine] >= begin_ns) & (times[mine] <= fault.until_ns)]
            if not len(near):
                continue
            for words in _weaknesses(rows, context, fault, node):
                if window == NEVER:
                    why = f"and {fault.process} may explain it: the driver declares no loss window"
                    found.say(near, Lost.UNDECIDED, why)
                elif not node:
                    why = f"and {fault.process} may explain it: the node that had acknowledged it is unknown"
                    found.say(near, Lost.UNDECIDED, why)
                else:
                    why = f"{words} allows at {weakness.described(rows, fault, node)}{BY_FAULTS}"
                    found.say(near, Lost.PERMITTED, why)
            if fault.effects is None and (not node or fault.may_hit(node)):
                found.say(near, Lost.UNDECIDED, f"and {fault.process} may explain it: it declares no effects")


def _weaknesses(rows: Rows, context: RunContext, fault: Fault, node: str) -> Iterator[str]:
    """Yield the weaknesses of the profile that this fault, on this node, may have turned into a loss."""
    profile, hit = context.profile, fault.hits(*REPLACES)
    replaced = bool(hit) if not node else node in hit
    if profile.acks != "all" and replaced:
        yield weakness.acks(profile)
    if profile.unclean and replaced:
        yield weakness.UNCLEAN
    if profile.flush == "async" and (fault.lost_data if not node else node in fault.lost_data):
        yield weakness.ASYNC
    lost = fault.hits(Effect.LOSES_DISK)
    if profile.min_in_sync < 2 and (lost if not node else node in lost):
        yield weakness.ONE_IN_SYNC
