"""Draws again when the faults fire that are still to come."""

from __future__ import annotations

from dataclasses import replace

from chaos.experiment.model import Anew, Experiment

#: What fires at the very moment has fired, however its time is rounded.
TICK_S = 1e-6


def redrawn(experiment: Experiment, since_s: float, seed: str) -> Experiment:
    """Return the same experiment up to ``since_s`` (seconds of the load). What would have fired at a fixed time or
    period after that fires at a random time of the rest of the load, and random times are drawn again; what waits for
    an event or for another fault still does."""
    faults = [
        replace(fault, anew=Anew(since_s=since_s + TICK_S, seed=f"{seed}/schedule/{number}"))
        for number, fault in enumerate(experiment.faults)
    ]
    return replace(experiment, faults=tuple(faults))
