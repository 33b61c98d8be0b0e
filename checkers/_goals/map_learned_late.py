"""A node that knew the map of groups learned of a change of it more than a second after another node did."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.events import MapView
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals._slices import EVIDENCE

LATE_NS = 1_000_000_000


def _reached(history: Rows) -> int:
    rows = history.columns
    times, life = rows.column("time_ns"), rows.column("incarnation")
    first: dict[tuple[str, int], int] = {}
    knowing: set[tuple[str, int]] = set()
    found = 0
    for at in rows.where(kind="trace", f="map_view").tolist():
        now, node = int(times[at]), (rows.text("node", at), int(life[at]))
        changes = [(str(group), int(index)) for group, index in (rows.value(at).get("groups") or {}).items()]
        late = [change for change in changes if now - first.setdefault(change, now) > LATE_NS]
        found += bool(late) and node in knowing
        knowing.add(node)
    return found


def create(options: NoOptions) -> Goal:
    return Goal(reads=(MapView,), evidence=EVIDENCE, reached=_reached)
