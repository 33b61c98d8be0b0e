"""Which part of a run pictures show."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.history.history import History

#: After the load and the recovery the axis goes on for this share of it.
AFTER = 0.02


def drawn_s(phases: Iterable[float], drain_s: float, end_s: float) -> tuple[float, float]:
    """Return when the drawn part begins and ends: from the first phase to the end of the recovery. What is read and
    collected after it is shown elsewhere. ``drain_s``: infinity where there was no final reading."""
    left = min([0.0, *phases])
    drain = end_s if drain_s == float("inf") else drain_s
    return left, max(drain + AFTER * (drain - left), left + 1.0)


def drawn_of(history: History) -> tuple[float, float]:
    """Return the seconds of a run that pictures show."""
    phases = [history.second(time_ns) for time_ns in history.phases.values()]
    return drawn_s(phases, history.phase_s("drain"), history.end_s)
