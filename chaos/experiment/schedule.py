"""When faults fire: fixed, periodic and random moments, and events in the nodes' traces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from random import Random

from chaos.driver import ClusterView
from chaos.experiment.checks import LEAST_GAP_S, MOST_MOMENTS
from chaos.experiment.model import Anew, Schedule, Trigger


def moments(schedule: Schedule, duration_s: float, rng: Random, redraw: Anew | None = None) -> Iterator[float]:
    """Yield the moments of a timed schedule, in seconds since the load began, ascending, all before ``duration_s``;
    none for a schedule that waits for an event or for another fault. A period that is longer than that fires once all
    the same. Each is drawn when it is asked for. With ``redraw`` there are as many moments of a fixed schedule, and
    those of a random one have the same mean gap."""
    known = (moment for moment in _moments(schedule, duration_s, rng) if moment < duration_s)
    yield from known if redraw is None else _redrawn(schedule, duration_s, known, redraw)


def _redrawn(schedule: Schedule, duration_s: float, known: Iterator[float], redraw: Anew) -> Iterator[float]:
    rng, later = Random(redraw.seed), 0
    for moment in known:
        if moment <= redraw.since_s:
            yield moment
        elif schedule.mean_s:
            break
        else:
            later += 1
    yield from sorted(rng.uniform(redraw.since_s, duration_s) for _ in range(later))
    if schedule.mean_s:
        moment = redraw.since_s
        while (moment := moment + _gap(schedule.mean_s, rng)) < duration_s:
            yield moment


def _moments(schedule: Schedule, duration_s: float, rng: Random) -> Iterator[float]:
    if schedule.at_s:
        yield from sorted(schedule.at_s)
    elif schedule.every_s:
        count = math.ceil(duration_s / schedule.every_s)
        found = [schedule.every_s * number for number in range(1, count)]
        yield from found or [duration_s * rng.random()]  # so rare only in a swarm, which may stretch it
    elif schedule.mean_s:
        moment, drawn = _gap(schedule.mean_s, rng), 0
        while moment < duration_s and drawn < MOST_MOMENTS:
            yield moment
            drawn += 1
            moment += _gap(schedule.mean_s, rng)
        if not drawn:  # an experiment that asks for a fault shall have it on every seed
            yield duration_s * rng.random()


def _gap(mean_s: float, rng: Random) -> float:
    return max(LEAST_GAP_S, rng.expovariate(1 / mean_s))


class Watch:
    """Counts the events that a trigger waits for; ``due`` says for each trace row whether to fire now (``now_s``, on a
    clock of the caller's)."""

    def __init__(self, trigger: Trigger) -> None:
        self._trigger = trigger
        self._seen = 0
        self._not_before_s = -math.inf

    @property
    def spent(self) -> bool:
        return self._seen >= self._trigger.skip + self._trigger.times

    def due(self, row: Mapping[str, object], view: ClusterView, now_s: float) -> bool:
        trigger = self._trigger
        if self.spent or row.get("f") != trigger.event or not _is(str(row.get("node", "")), trigger.node, view):
            return False
        if now_s < self._not_before_s:
            return False
        self._seen += 1
        if self._seen <= trigger.skip:
            return False
        self._not_before_s = now_s + trigger.gap_s
        return True


def _is(node: str, word: str, view: ClusterView) -> bool:
    match word:
        case "any":
            return True
        case "master":
            return node in view.leaders
        case "slave":
            return any(node != group.leader for group in view.groups_of(node))
        case name:
            return node == name
