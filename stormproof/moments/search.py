"""Where the probability of a failure jumps: first some moments that lie evenly, then the halves of the largest jump.

Moments are rows: between two of them nothing happened that anybody has recorded. So the halving ends at two rows that
follow each other, or when as many moments have been tried as were asked for.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from chaos.errors import BadInput
from chaos.history import directory as store
from chaos.history.recorder import read_rows
from reports.explanation.history import Row, Rows
from reports.explanation.sequence import number_of, rows_of, violations
from reports.moments.curve import Curve, Moment
from reports.rows import RunRows
from reports.run_report.causes import group, queue_groups
from reports.run_report.story import message_name
from reports.summary import fault_lines
from reports.sweeps.chances import Share
from stormproof.launch import Renewal
from stormproof.moments.again import Outcome, Try, Wanted, about, try_again
from stormproof.shrinking.again import Again, done_again
from stormproof.shrinking.signature import Signature, of_cause
from stormproof.shrinking.workers import Here, begin, died
from stormproof.sweeping.local import workers

#: Fewer moments show no curve.
FEWEST = 3
#: This part of the moments lies evenly over the run; the others halve the largest jump.
EVENLY = 0.4
#: Tries at each moment, unless somebody says otherwise.
TRIES = 10

#: Takes how many moments have been measured, and how many there will be at most.
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A violation of a run that can be replayed. ``times``: those of its rows from the beginning of the load to the
    last row that the law names, each once, with the last row of each in ``indices``."""

    again: Again
    number: int
    anomaly: Mapping[str, Any]
    wanted: Wanted
    rows: Rows
    times: Sequence[int]
    indices: Sequence[int]
    zero_ns: int


def case_of(run: Path, which: str, scratch: Path) -> Case:
    """Read the violation ``which`` (its number or kind) of a run, and replay the run in ``scratch``. Raises
    :class:`BadInput` in a sentence when there is none, or when the run does not come again."""
    again = done_again(run, scratch, "replayed to a moment")
    meta, found = store.read_meta(run), violations(run)
    number = number_of(run, which, found)
    law, anomaly = found[number - 1]
    table, _ = read_rows(run)
    rows = RunRows(table)
    history = rows_of(rows, meta)
    times, indices = _moments(rows, max(anomaly["rows"], default=table.num_rows))
    if len(times) < FEWEST:
        raise BadInput(f"{run}: violation {number} ({anomaly['name']}) was there before the load began")
    return Case(
        again=again,
        number=number,
        anomaly=anomaly,
        wanted=Wanted(
            law=law,
            name=anomaly["name"],
            about=about(anomaly, history),
            signature=_signature(run, rows, found, number, meta),
        ),
        rows=history,
        times=times,
        indices=indices,
        zero_ns=rows.zero_ns,
    )


def _moments(rows: RunRows, last: int) -> tuple[list[int], list[int]]:
    table = rows.table.sort_by("index")
    times, indices = RunRows.numbers(table, "time_ns"), RunRows.numbers(table, "index")
    wanted = (times >= rows.zero_ns) & (indices <= last)
    times, indices = times[wanted], indices[wanted]
    ends = np.flatnonzero(np.diff(times, append=-1))  # the last row of each time
    return times[ends].tolist(), indices[ends].tolist()


def _signature(
    run: Path, rows: RunRows, found: Sequence[tuple[str, Mapping[str, Any]]], number: int, meta: Mapping[str, Any]
) -> Signature:
    law, anomaly = found[number - 1]
    for cause in group(rows, fault_lines(rows), found, groups=queue_groups(meta)):
        if any((one.law, one.anomaly["name"]) == (law, anomaly["name"]) for one in cause.violations):
            places = [one.place for one in cause.violations]
            alike = next(one for one in of_cause(cause) if one.law == law)
            if number - 1 in places or not anomaly["rows"]:
                return alike
    raise BadInput(f"{run}: violation {number} ({anomaly['name']}) belongs to no cause of the report")


def measure(
    case: Case,
    scratch: Path,
    *,
    moments: int,
    tries: int,
    processes: int | None = None,
    on_progress: OnProgress = lambda done, of: None,
) -> Curve:
    """Measure the probability at so many moments (at least :data:`FEWEST`), with so many tries at each. Ctrl-C ends it
    with what is known by then. ``processes``: as many as there are cores; 0 for none but this one. Raises
    :class:`chaos.errors.MachineError`."""
    found: dict[int, Moment] = {}
    errors: list[str] = []
    notes = []
    with _pool(processes) as pool:
        try:
            for place in _places(case, found, moments):
                on_progress(len(found), moments)
                found[place] = _measured(case, place, tries, pool, scratch, errors)
        except KeyboardInterrupt:
            notes.append("interrupted: fewer moments were measured than were asked for")
    if errors:
        notes.append(f"{len(errors)} tries could not be brought to an end and don't count; the first: {errors[0]}")
    return Curve(
        run=case.again.run,
        law=case.wanted.law,
        name=case.wanted.name,
        number=case.number,
        text=str(case.anomaly["explanation"]),
        about=case.wanted.about,
        moments=[found[place] for place in sorted(found)],
        notes=notes,
    )


def _places(case: Case, found: Mapping[int, Moment], moments: int) -> Iterator[int]:
    """Which of the case's times is to be measured next, as long as that tells anything new."""
    evenly = np.linspace(case.times[0], case.times[-1], max(FEWEST, round(EVENLY * moments)))
    places = dict.fromkeys(int(place) for place in np.searchsorted(case.times, evenly))
    yield from (place for place in places if place < len(case.times))
    while len(found) < moments:
        gaps = [
            (found[right].same.value - found[left].same.value, right, left)
            for left, right in pairwise(sorted(found))
            if right - left > 1 and found[right].same.value > found[left].same.value
        ]
        if not gaps:
            return
        _, right, left = max(gaps)
        yield (left + right) // 2


def _measured(case: Case, place: int, tries: int, pool: Executor, scratch: Path, errors: list[str]) -> Moment:
    time_ns, again = case.times[place], case.again
    asked = [
        Try(
            file=again.run / store.EXPERIMENT, name=again.experiment.name, seed=again.seed, mutant=again.mutant,
            wanted=case.wanted, renewal=Renewal(moment_ns=time_ns, seed=f"{again.seed}/from/{time_ns}/{number}"),
            scratch=scratch / f"{place}-{number}",
        )
        for number in range(tries)
    ]  # fmt: skip
    try:
        outcomes: list[Outcome] = [future.result() for future in [pool.submit(try_again, one) for one in asked]]
    except BrokenProcessPool as error:
        raise died() from error
    known = [one for one in outcomes if not one.error]
    errors += [one.error for one in outcomes if one.error]
    (row,) = case.rows.numbered([case.indices[place]])
    return Moment(
        row=row.index,
        at_s=(time_ns - case.zero_ns) / 1e9,
        told=_told(row),
        same=Share(hits=sum(one.same for one in known), tries=len(known)),
        alike=Share(hits=sum(one.alike for one in known), tries=len(known)),
    )


def _told(row: Row) -> str:
    """A row in a few words; :mod:`reports.explanation` tells more of those that matter."""
    what = str(row.value.get("phase") or row.value.get("role") or row.type)
    message = [f"of {message_name(row.message)}"] if row.message >= 0 else []
    return f"{row.lane}: {' '.join([row.f, *filter(None, [what]), *message])}"


@contextmanager
def _pool(processes: int | None) -> Iterator[Executor]:
    """Processes that end at once with the block; nobody needs what they are trying then."""
    count = workers() if processes is None else processes
    if not count:
        yield Here()
        return
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=begin, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        children = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.kill()
        for child in children:
            child.join()
