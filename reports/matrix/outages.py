"""How long clients were without service after each fault of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chaos.experiment.model import Experiment, FaultSpec
from chaos.history.history import History
from reports.comparison.measures import PROBE, WRITES
from reports.faults import FaultLine, fault_lines

#: From when on a client waited for service, and until when, in seconds since the load began.
Gap = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """``without_s``: the longest time without service between the beginning of this fault and that of the next one, or
    the end of the load."""

    fault: str
    without_s: float


def outages(history: History, experiment: Experiment | None = None) -> list[Outage]:
    """Return one for each fault that had an effect, in the order in which they began. A time without service that lasts
    on when the next fault begins counts whole for the first, and for the next from its beginning on. ``experiment``:
    says what a fault aimed at."""
    found = sorted((one for one in fault_lines(history) if one.effective == "yes"), key=lambda one: one.start_s)
    times = gaps(history)
    starts = [one.start_s for one in found] + [_load_end_s(history)]
    return [
        Outage(fault=_kind(fault, experiment), without_s=_longest(times, begin, end))
        for fault, (begin, end) in zip(found, pairwise(starts), strict=True)
        if begin < _load_end_s(history)
    ]


def longest_s(history: History) -> float:
    """Return the longest time without service of the whole load."""
    return _longest(gaps(history), 0.0, float("inf"))


def gaps(history: History) -> list[Gap]:
    """Return all times in which some client waited for a write to some queue (or object) to be acknowledged, and none
    was: from the last acknowledgement, or from the first attempt after it if nobody was waiting, to the next one, or to
    the end of the load."""
    end_s = _load_end_s(history)
    table = history.rows("op", *WRITES)
    table = table.filter(pc.invert(pc.starts_with(table["process"].cast(pa.string()), PROBE)))
    found: list[Gap] = []
    for queue in np.unique(table["queue"].to_numpy()).tolist():
        mine = table.filter(pc.equal(table["queue"], queue))
        kind = mine["type"].cast(pa.string()).to_numpy(zero_copy_only=False)
        seconds = history.seconds(mine)
        begun, ended = np.sort(seconds[kind == "invoke"]), np.sort(seconds[kind != "invoke"])
        answered = np.sort(seconds[kind == "ok"])
        found += _of_queue(begun[begun <= end_s], ended, answered[answered <= end_s], end_s)
    return found


def _of_queue(begun: Any, ended: Any, answered: Any, end_s: float) -> Iterator[Gap]:
    since = np.concatenate([[-np.inf], answered])
    until = np.concatenate([answered, [end_s]])
    later = np.searchsorted(begun, since, "right")
    waiting = later > np.searchsorted(ended, since, "right")
    first = np.append(begun, np.inf)[later]
    start = np.where(waiting & np.isfinite(since), since, first)
    chosen = np.flatnonzero(start < until)
    yield from zip(start[chosen].tolist(), until[chosen].tolist(), strict=True)


def _longest(times: Sequence[Gap], begin_s: float, end_s: float) -> float:
    """Return the length of the longest that reaches into this time, each from ``begin_s`` on at the earliest, to its
    own end."""
    inside = (until - max(since, begin_s) for since, until in times if since < end_s and until > begin_s)
    return round(max(inside, default=0.0), 3)


def _load_end_s(history: History) -> float:
    return min(history.phase_s("heal"), history.end_s)


def _kind(fault: FaultLine, experiment: Experiment | None) -> str:
    """Return the fault with its options, as the experiment has it; its name alone where that is unknown."""
    specs = [step for spec in (experiment.faults if experiment else ()) for step in spec.steps()
             if step.name == fault.name]  # fmt: skip
    named = {words(spec) for spec in specs}
    timed = [(abs(at_s - fault.asked_s), words(spec)) for spec in specs for at_s in spec.schedule.at_s]
    if len(named) == 1:
        return named.pop()
    return min(timed)[1] if timed and all(spec.schedule.at_s for spec in specs) else fault.name


def words(spec: FaultSpec) -> str:
    """``kill master``, ``partition master (shape apart, away_from brokers)``: what isn't as it is by itself."""
    given = {one.name: getattr(spec.use.options, one.name) for one in fields(spec.use.options) if not _by_itself(
        one, getattr(spec.use.options, one.name))}  # fmt: skip
    target = given.pop("target", getattr(spec.use.options, "target", ""))
    others = ", ".join(f"{name} {_plain(value)}" for name, value in given.items())
    return " ".join(filter(None, (spec.name, _plain(target), f"({others})" if others else "")))


def _by_itself(one: Any, value: object) -> bool:
    default = one.default_factory() if one.default_factory is not MISSING else one.default
    return bool(value == default)


def _plain(value: object) -> str:
    if isinstance(value, list | tuple | set | frozenset):
        return " and ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
