"""Where the probability of a failure jumps: first some moments that lie evenly, then the halves of the largest jump.

Moments are rows: between two of them nothing happened that anybody has recorded. So the halving ends at two rows that
follow each other, or when as many moments have been tried as were asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chaos.errors import BadInput
from chaos.history import directory as store
from chaos.history.history import History
from chaos.history.row import Row
from chaos.verdict import Anomaly
from reports.explanation.sequence import number_of, violations
from reports.explanation.words import words
from reports.faults import FaultLine, fault_lines
from reports.moments.curve import Curve, Moment, largest_jump, overlap
from reports.run_report.causes import group
from reports.sweeps.chances import Share
from stormproof.campaign.workers import died, executor
from stormproof.launch import Renewal
from stormproof.moments.again import Try, Wanted, about, try_again
from stormproof.shrinking.again import Again, done_again
from stormproof.shrinking.signature import Signature, of_cause

#: Fewer moments show no curve.
FEWEST = 3
#: This part of the moments lies evenly over the run; the others halve the largest jump.
EVENLY = 0.4
#: So often both sides of a jump that may be chance are tried once more.
AGAIN = 3
#: So many rows of the largest jump are shown.
HAPPENED = 5
#: Tries at each moment, unless somebody says otherwise.
TRIES = 10

#: Takes how many moments have been measured, and how many there will be at most.
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A violation of a run that can be replayed. ``times``: those of its rows from the beginning of the load to the
    last row that the law names, each once, with the last row of each in ``indices``. ``faults``: as in
    :class:`Curve`."""

    again: Again
    number: int
    anomaly: Anomaly
    wanted: Wanted
    history: History
    times: Sequence[int]
    indices: Sequence[int]
    faults: Sequence[tuple[str, float, float]]


def case_of(run: Path, which: str, scratch: Path) -> Case:
    """Read the violation ``which`` (its number or kind) of a run, and replay the run in ``scratch``. Raises
    :class:`BadInput` in a sentence when there is none, or when the run does not come again."""
    again = done_again(run, scratch, "replayed to a moment")
    history, found = History.open(run), violations(run)
    number = number_of(run, which, found)
    anomaly = found[number - 1]
    times, indices = _moments(history, max(anomaly.rows, default=history.num_rows))
    if len(times) < FEWEST:
        raise BadInput(f"{run}: violation {number} ({anomaly.name}) was there before the load began")
    return Case(
        again=again,
        number=number,
        anomaly=anomaly,
        wanted=Wanted(
            law=anomaly.law,
            name=anomaly.name,
            about=about(anomaly, history),
            signature=_signature(history, found, number),
        ),
        history=history,
        times=times,
        indices=indices,
        faults=[(_fault(one), one.asked_s, min(one.end_s, history.end_s)) for one in fault_lines(history)],
    )


def _moments(history: History, last: int) -> tuple[list[int], list[int]]:
    table = history.table
    times, indices = table["time_ns"].to_numpy(), table["index"].to_numpy()
    wanted = (times >= history.zero_ns) & (indices <= last)
    times, indices = times[wanted], indices[wanted]
    ends = np.flatnonzero(np.diff(times, append=-1))  # the last row of each time
    return times[ends].tolist(), indices[ends].tolist()


def _signature(history: History, found: Sequence[Anomaly], number: int) -> Signature:
    anomaly = found[number - 1]
    for cause in group(history, fault_lines(history), found):
        if any((one.law, one.anomaly.name) == (anomaly.law, anomaly.name) for one in cause.violations):
            places = [one.place for one in cause.violations]
            alike = next(one for one in of_cause(cause) if one.law == anomaly.law)
            if number - 1 in places or not anomaly.rows:
                return alike
    raise BadInput(f"{history.run}: violation {number} ({anomaly.name}) belongs to no cause of the report")


def measure(
    case: Case,
    scratch: Path,
    *,
    moments: int,
    tries: int,
    processes: int | None = None,
    on_progress: OnProgress = lambda done, of: None,
) -> Curve:
    """Measure the probability at so many moments (at least :data:`FEWEST`), with so many tries at each, and more on
    both sides of a jump that may be chance. Ctrl-C ends it with what is known by then. ``processes``: as many as there
    are cores; 0 for none but this one. Raises :class:`chaos.errors.MachineError`."""
    notes = []
    with executor(processes) as pool:
        measured = _Measured(case, tries, pool, scratch)
        try:
            for place in _places(case, measured, moments):
                on_progress(len(measured.moments), moments)
                measured.go_on(place)
        except KeyboardInterrupt:
            notes.append("interrupted: fewer moments were measured than were asked for")
    if errors := measured.errors:
        notes.append(f"{len(errors)} tries could not be brought to an end and don't count; the first: {errors[0]}")
    found = [measured.moments[place] for place in sorted(measured.moments)]
    return Curve(
        run=case.again.run,
        law=case.wanted.law,
        name=case.wanted.name,
        number=case.number,
        text=case.anomaly.explanation,
        about=case.wanted.about,
        moments=found,
        happened=_happened(case, found),
        faults=case.faults,
        notes=notes,
    )


def _places(case: Case, measured: _Measured, most: int) -> Iterator[int]:
    """Yield at which of the case's times to try next, as long as that shows anything new: some lie evenly, then the
    largest jump is halved; once its sides follow each other, both are tried again as long as it may be chance."""
    found = measured.moments
    evenly = np.linspace(case.times[0], case.times[-1], max(FEWEST, round(EVENLY * most)))
    places = dict.fromkeys(int(place) for place in np.searchsorted(case.times, evenly))
    yield from (place for place in places if place < len(case.times))
    again = AGAIN
    while jump := largest_jump([found[place] for place in sorted(found)]):
        left, right = (case.indices.index(moment.row) for moment in jump)
        if right - left > 1 and len(found) < most:
            yield (left + right) // 2
        elif overlap(*jump) and again:
            again -= 1
            yield from (left, right)
        else:
            return


_UNTRIED = Share(hits=0, tries=0)
_UNKNOWN = Moment(row=-1, at_s=0.0, event="", same=_UNTRIED, alike=_UNTRIED)


class _Measured:
    """What is known of a case by now: ``moments`` by their places among its times, and why tries came to no end."""

    def __init__(self, case: Case, tries: int, pool: Executor, scratch: Path) -> None:
        self.moments: dict[int, Moment] = {}
        self.errors: list[str] = []
        self._case = case
        self._tries = tries
        self._pool = pool
        self._scratch = scratch
        self._begun: Counter[int] = Counter()

    def go_on(self, place: int) -> None:
        """Try at this place: for the first time, or once more with other draws."""
        case, first = self._case, self._begun[place]
        self._begun[place] += self._tries
        asked = [self._try(place, number) for number in range(first, first + self._tries)]
        try:
            futures = [self._pool.submit(try_again, one) for one in asked]
            outcomes = [future.result() for future in futures]
        except BrokenProcessPool as error:
            raise died() from error
        known = [one for one in outcomes if not one.error]
        self.errors += [one.error for one in outcomes if one.error]
        (row,) = case.history.numbered([case.indices[place]])
        before = self.moments.get(place, _UNKNOWN)
        self.moments[place] = Moment(
            row=row.index,
            at_s=(case.times[place] - case.history.zero_ns) / 1e9,
            event=_sentence(row),
            same=_counted(before.same, [one.same for one in known]),
            alike=_counted(before.alike, [one.alike for one in known]),
        )

    def _try(self, place: int, number: int) -> Try:
        again, time_ns = self._case.again, self._case.times[place]
        return Try(
            file=again.run / store.EXPERIMENT, name=again.experiment.name, seed=again.seed, mutant=again.mutant,
            wanted=self._case.wanted, since_s=(time_ns - self._case.history.zero_ns) / 1e9,
            renewal=Renewal(moment_ns=time_ns, seed=f"{again.seed}/from/{time_ns}/{number}"),
            scratch=self._scratch / f"{place}-{number}",
        )  # fmt: skip


def _counted(before: Share, outcomes: Sequence[bool]) -> Share:
    return Share(hits=before.hits + sum(outcomes), tries=before.tries + len(outcomes))


def _happened(case: Case, moments: Sequence[Moment]) -> list[str]:
    """Return the first rows of the largest jump: those after the moment before it, up to the one after it."""
    jump = largest_jump(moments)
    if jump is None:
        return []
    before, after = (moment.row for moment in jump)
    rows = case.history.numbered(range(before + 1, min(after, before + HAPPENED) + 1))
    lines = [f"{row.at_s:.6f} s  {_sentence(row)}  [{row.index}]" for row in rows]
    return [*lines, f"and {after - before - HAPPENED} more rows"] if after - before > HAPPENED else lines


def _fault(line: FaultLine) -> str:
    return f"{line.name} of {line.targets}" if line.targets else line.name


def _sentence(row: Row) -> str:
    """Return a row in words."""
    if row.kind != "fault":
        return f"{row.lane}: {words(row, (), '')}"
    named = row.value.get("targets")
    nodes = f" of {', '.join(map(str, named))}" if isinstance(named, list) and named else ""
    ends = {"invoke": "begins", "fail": "has no effect"}
    return f"{row.lane}: {row.f}{nodes} {ends.get(row.type, 'ends' if row.value.get('phase') == 'undo' else 'works')}"
