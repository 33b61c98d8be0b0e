"""Draws anew when the faults fire that are still to come."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

from chaos.experiment.model import Experiment, FaultSpec, Schedule

#: What fires at the very moment has fired, however its time is rounded.
TICK_S = 1e-6


def redrawn(experiment: Experiment, since_s: float, seed: str) -> Experiment:
    """The same experiment up to ``since_s`` (seconds of the load). What would have fired at a fixed time or period
    after that fires at a random time of the rest of the load; what waits for an event or for another fault still does.
    Random times are drawn anew by the run itself."""
    faults = [
        _redrawn(
            fault, since_s + TICK_S, experiment.duration_s - experiment.quiet_s, Random(f"{seed}/schedule/{number}")
        )
        for number, fault in enumerate(experiment.faults)
    ]
    return replace(experiment, faults=tuple(faults))


def _redrawn(fault: FaultSpec, since_s: float, end_s: float, rng: Random) -> FaultSpec:
    schedule = fault.schedule
    at_s = tuple(moment for moment in schedule.at_s if moment < end_s)  # later ones never fire
    if schedule.every_s and fault.swarm < 0:  # of a swarm, each seed draws the period too
        at_s = tuple(schedule.every_s * turn for turn in range(1, math.ceil(end_s / schedule.every_s)))
    if not at_s:
        return fault
    kept = tuple(moment for moment in at_s if moment <= since_s)
    fresh = tuple(rng.uniform(since_s, end_s) for _ in at_s[len(kept) :])
    return replace(fault, schedule=Schedule(at_s=tuple(sorted((*kept, *fresh)))))
