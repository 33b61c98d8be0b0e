"""Faults that wait until other faults of their file have taken effect (``after``): for whom, and how often they fire.

A fault is named by what it does, so that it may stand for several entries; an entry never waits for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from chaos.experiment.forms import Mistake
from chaos.experiment.source import Place


def awaited(specs: Sequence[Any], number: int) -> list[int]:
    """Return the numbers of the entries whose faults this one waits for; none for one with a schedule of its own.
    ``specs``, here and below: each is a :class:`chaos.experiment.model.FaultSpec`."""
    after = specs[number].schedule.after
    if after is None:
        return []
    return [other for other, spec in enumerate(specs) if other != number and _does(spec, after.fault)]


def problems(specs: Sequence[Any], places: Sequence[Place], deployment: str) -> Iterator[Mistake]:
    """Yield what would never fire on this deployment: it waits for a fault that no other entry does for certain, or in
    a circle."""
    here = [(spec.on_this(deployment), place) for spec, place in zip(specs, places, strict=True)]
    left = [spec for spec, _ in here if spec is not None]
    order = _in_order(left)
    for number, (spec, place) in enumerate((spec, place) for spec, place in here if spec is not None):
        if spec.schedule.after is None:
            continue
        fault, others = spec.schedule.after.fault, awaited(left, number)
        if not others:
            yield (*place, "after", "fault"), f"no other entry does {fault!r} on {deployment}"
        elif all(left[other].swarm >= 0 for other in others):
            why = f"{fault!r} stands in a swarm, and a seed may leave it out; put it outside"
            yield (*place, "after", "fault"), why
        elif number not in order:
            names = " and ".join(dict.fromkeys(spec.name for number, spec in enumerate(left) if number not in order))
            yield (*place, "after"), f"it never fires: {names} wait for one another; one of them must fire by itself"


def most_firings(specs: Sequence[Any], duration_s: float, densest: int) -> list[int]:
    """How often each fires in a load of this length, at most; of random times, the number to be expected. Those of a
    swarm may come ``densest`` times as often as the file says."""
    found = [0] * len(specs)
    for number in _in_order(specs):
        spec = specs[number]
        if spec.schedule.after is None:
            found[number] = spec.schedule.most_moments(duration_s) * (densest if spec.swarm >= 0 else 1)
        for other in awaited(specs, number):
            effects = [step for step in specs[other].steps() if step.name == spec.schedule.after.fault]
            found[number] += found[other] * len(effects)
    return found


def _does(spec: Any, fault: str) -> bool:
    return any(step.name == fault for step in spec.steps())


def _in_order(specs: Sequence[Any]) -> list[int]:
    """Those that fire by themselves, then whatever waits for those that stand here already. What is in a circle, or
    waits for one, is left out."""
    order: list[int] = []
    waiting = list(range(len(specs)))
    while ready := [number for number in waiting if all(other in order for other in awaited(specs, number))]:
        order += ready
        waiting = [number for number in waiting if number not in ready]
    return order
