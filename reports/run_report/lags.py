"""How far each replica, the confirm offset and the tier were behind the end of the master's log, in bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.events import StoreCas
from chaos.history.history import History
from reports.run_report.master_terms import MasterTerm

#: So many queues of the tier have a lane each; of more, the one that is farthest behind is shown.
QUEUES = 3
#: Points of a lane.
POINTS = 600

Points = Sequence[tuple[float, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """``behind[i]`` bytes at ``at_s[i]`` seconds; negative where a log reaches further than the master's (an old master
    that goes on, for one)."""

    label: str
    at_s: Sequence[float]
    behind: Sequence[float]


def lags(history: History, masters: Sequence[MasterTerm]) -> list[Lag]:
    """Return a lane for each replica, one for what is confirmed, one for each queue of the tier; in groups of replicas
    with masters of their own, each is compared with its own. Nothing where no master is known."""
    ends, confirmed = _polled(history, "end"), _polled(history, "confirm")
    group = {term.node: term.group for term in masters}
    groups = sorted(set(group.values()))
    found = [
        _lag(node, points, _master_end(masters, ends, [group.get(node, groups[0])], points))
        for node, points in sorted(ends.items())
        if groups
    ]
    for name in groups:
        mine = [m for m in masters if m.group == name]
        points = sorted(point for m in mine for point in confirmed.get(m.node, ()) if m.start_s <= point[0] <= m.end_s)
        found.append(_lag(f"confirmed {name}".strip(), points, _master_end(masters, ends, [name], points)))
    tier = _tier(history) if len(groups) == 1 else {}
    of_tier = [
        _lag(f"tier, queue {queue}", points, _master_end(masters, ends, groups, points))
        for queue, points in tier.items()
    ]
    found += of_tier if len(of_tier) <= QUEUES else [_worst(of_tier)]
    return [lag for lag in found if len(lag.at_s)]


def _polled(history: History, name: str) -> dict[str, list[tuple[float, int]]]:
    points_of: dict[str, list[tuple[float, int]]] = {}
    for row in history.polls:
        position = row.value.get(name)
        if isinstance(position, int) and position >= 0:
            points_of.setdefault(row.node, []).append((row.at_s, position))
    return {node: sorted(points) for node, points in points_of.items()}


def _tier(history: History) -> Mapping[int, Points]:
    points_of: dict[int, list[tuple[float, int]]] = {}
    for row in history.each(StoreCas):
        if row.position >= 0 and row.value.get("outcome") == "applied":
            points_of.setdefault(row.queue, []).append((row.at_s, row.position))
    return {queue: sorted(points) for queue, points in sorted(points_of.items())}


def _master_end(
    masters: Sequence[MasterTerm], ends: Mapping[str, Points], groups: Sequence[str], points: Points
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the end of the log of the newest master at each of the points, between its polls by a straight line."""
    at_s = np.array([second for second, _ in points])
    found = np.full(len(at_s), np.nan)
    for master in sorted((m for m in masters if m.group in groups), key=lambda m: m.epoch):
        if polls := ends.get(master.node):
            held = (at_s >= master.start_s) & (at_s <= master.end_s)
            found[held] = np.interp(at_s[held], *np.array(polls, dtype=float).T)
    return found


def _lag(label: str, points: Points, master: np.ndarray[Any, np.dtype[np.float64]]) -> Lag:
    at_s, position = np.array([second for second, _ in points]), np.array([position for _, position in points], float)
    known = np.flatnonzero(~np.isnan(master))
    step = max(1, len(known) // POINTS)
    known = known[::step]
    return Lag(label=label, at_s=at_s[known].tolist(), behind=(master - position)[known].tolist())


def _worst(queues: Sequence[Lag]) -> Lag:
    """Return, of many queues, the one that is farthest behind, at each moment of one of them."""
    at_s = sorted({second for lag in queues for second in lag.at_s})
    behind = [
        [lag.behind[max(place, 0)] for place in np.searchsorted(lag.at_s, at_s, side="right") - 1]
        for lag in queues
        if len(lag.at_s)
    ]
    return Lag(label="tier, slowest queue", at_s=at_s, behind=np.max(behind, axis=0).tolist() if behind else [])
