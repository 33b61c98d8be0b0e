"""Which losses of acknowledged messages a profile permits that promises less."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chaos.fault import Effect
from chaos.law import Rows, RunContext
from checkers import _views as views
from checkers._views.arrays import Flags, parts
from checkers._views.claims import Claims

#: Effects that make another replica the master, or restart one.
CHANGES_MASTER = tuple(
    effect for effect in Effect if effect not in (Effect.HARMS_TIER, Effect.ADDS_REPLICA, Effect.CUTS_CLIENTS)
)
#: So long after its undo a fault may still do that, unless the run has another bound for recovery.
RECOVER_S = 30.0


def loss_permitted(rows: Rows, context: RunContext, missing: Claims) -> tuple[Flags, Flags]:
    """Which losses the profile permits: those of messages that only a master knew who was then replaced, or restarted.
    Both begin a newer master term of its group; where no node tells of its role, any fault will do that can bring this
    about in the group, and that was not long over when the message was acknowledged. And of which losses nobody knows,
    because only faults of unknown effect could have."""
    permitted, unknown = (np.zeros(len(missing.at), dtype=np.bool_) for _ in range(2))
    known, masters = rows.memo(views.faults), rows.memo(views.masters)
    if context.strict or not known:
        return permitted, unknown
    acked_ns, epoch, node = (rows.column(name)[missing.at] for name in ("time_ns", "epoch", "node"))
    late_ns = int(views.bound(context, "recover_s", RECOVER_S) * 1e9)
    for mine in parts(node).values():
        others = _of_other_groups(rows, rows.text("node", int(missing.at[mine[0]])))
        if masters:
            permitted[mine] = epoch[mine] < max((one for name, one in masters if name not in others), default=-1)
            continue
        sure_ns, perhaps_ns = _last_change(known, others, late_ns)
        permitted[mine] = acked_ns[mine] <= sure_ns
        unknown[mine] = ~permitted[mine] & (acked_ns[mine] <= perhaps_ns)
    return permitted, unknown


def _of_other_groups(rows: Rows, node: str) -> frozenset[str]:
    """The replicas that tell another group than this one does; none of one that tells none."""
    groups = rows.memo(views.replica_groups)
    return frozenset(name for name, group in groups.items() if node in groups and group != groups[node])


def _last_change(known: Sequence[views.Fault], others: frozenset[str], late_ns: int) -> tuple[int, int]:
    """Until when faults that have hit anybody but these ``others`` surely may have changed the master, and until when
    those may have of which nobody knows what they did; -1 where there are none."""
    sure = perhaps = -1
    for fault in known:
        until = min(fault.until_ns, views.NEVER - late_ns) + late_ns
        if fault.hits(*CHANGES_MASTER) - others:
            sure = max(sure, until)
        elif fault.effects is None and (not fault.targets or fault.targets - others):
            perhaps = max(perhaps, until)
    return sure, perhaps
