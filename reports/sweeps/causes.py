"""The causes of the failures of many runs, and what came before them.

One cause is behind those in which one decision broke promises, or else behind those with one signature. Signatures
that just the same runs have are one cause, for one bug often breaks several laws. An event counts as having preceded a
failure if it came first; in a run without this failure it counts if it came at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chaos.verdict import Validity
from reports.sweeps.chances import Share
from reports.sweeps.row import Failure, Row

#: So many events are listed of a cause.
CANDIDATES = 8
#: An event before fewer of the failures than this says little of them.
USUAL = 0.5

Key = tuple[int, int]
Signature = tuple[str, tuple[str, ...], str]
#: What failures have in common: the methods that decided them, or else their signature.
_Alike = str | Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An event that preceded failures more often than it would by chance. ``event_given_failure``: in how many of the
    failures; ``failure_given_event``: how many of the runs with the event failed so. ``passing``: the first VALID run
    with the event, which shows that it alone is not enough; None if there is none."""

    event: str
    event_given_failure: Share
    failure_given_event: Share
    passing: Key | None

    @property
    def always(self) -> bool:
        return self.event_given_failure.hits == self.event_given_failure.tries


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCause:
    """``signatures``: (law, anomalies, origin); for runs that were not INVALID the law is the verdict, and the origin
    the reason. ``runs``: by file and seed. ``faultless``: how many failed before any fault had an effect.
    ``example``: the run with the fewest faults before it failed, the earliest of these; ``first``: how that failed,
    which says what decided it, None for a run without a violation. ``overall``: the failures of this cause among all
    runs of its experiments, with which the candidates are to be compared."""

    signatures: Sequence[Signature]
    runs: Sequence[Key]
    faultless: int
    example: Key
    overall: Share
    candidates: Sequence[Candidate]
    first: Failure | None = None

    @property
    def title(self) -> str:
        """What it did in the example; "" where that is not known."""
        return self.first.title if self.first else ""


def causes(rows: Sequence[Row]) -> list[SharedCause]:
    """Return the causes: those with failures without any fault first, then the largest."""
    held: dict[_Alike, dict[Key, list[tuple[Signature, Failure | None]]]] = {}
    for row in rows:
        for signature, failure in _failures(row):
            alike = failure.decided_by if failure and failure.decided_by else signature
            held.setdefault(alike, {}).setdefault(row.key, []).append((signature, failure))
    same: dict[object, list[_Alike]] = {}
    for alike, runs in held.items():
        same.setdefault(alike if isinstance(alike, str) else tuple(sorted(runs)), []).append(alike)
    by_key = {row.key: row for row in rows}
    found = [_cause([held[one] for one in names], by_key) for names in same.values()]
    return sorted(found, key=lambda one: (not one.faultless, -len(one.runs), one.signatures))


def _failures(row: Row) -> Iterable[tuple[Signature, Failure | None]]:
    """Return the failures of a run. One that failed without a violation, or with one that the report links with
    nothing, fails for its reason."""
    if not row.failed:
        return []
    if row.failures:
        return [(failure.signature, failure) for failure in row.failures]
    return [((row.verdict, (), row.why[0] if row.why else "no reason is recorded"), None)]


def _cause(
    held: Sequence[Mapping[Key, Sequence[tuple[Signature, Failure | None]]]], by_key: Mapping[Key, Row]
) -> SharedCause:
    runs = sorted({key for one in held for key in one})
    failures = {key: [pair for one in held for pair in one.get(key, ())] for key in runs}
    known = {key: first for key in runs if (first := _first(failure for _, failure in failures[key])) is not None}
    example = min(runs, key=lambda key: (known[key].faults, known[key].at_s, key) if key in known else (0, 0.0, key))
    files = {file for file, _ in runs}
    among = [row for row in by_key.values() if row.file in files]
    shown = next((failure for _, failure in failures[example] if failure is not None), None)
    return SharedCause(
        signatures=sorted({signature for pairs in failures.values() for signature, _ in pairs}),
        runs=tuple(runs),
        faultless=sum(not failure.faults for failure in known.values()),
        example=example,
        overall=Share(hits=len(runs), tries=len(among)),
        candidates=_candidates(known, among),
        first=shown,
    )


def _first(failures: Iterable[Failure | None]) -> Failure | None:
    return min((one for one in failures if one is not None), key=lambda one: (one.at_s, one.signature), default=None)


def _candidates(failed: Mapping[Key, Failure], among: Sequence[Row]) -> list[Candidate]:
    """Return what preceded at least half of the failures, and raises their probability."""
    before: dict[str, int] = {}
    runs: dict[str, int] = {}
    passing: dict[str, Key] = {}
    for row in sorted(among, key=lambda row: row.key):
        failure = failed.get(row.key)
        for event, at_s in row.seen.events.items():
            if failure is not None and at_s > failure.at_s:
                continue  # it came afterwards, and says nothing
            runs[event] = runs.get(event, 0) + 1
            before[event] = before.get(event, 0) + (failure is not None)
            if row.verdict == Validity.VALID:
                passing.setdefault(event, row.key)
    whole = len(failed) / len(among)
    found = [
        Candidate(
            event=event,
            event_given_failure=Share(hits=count, tries=len(failed)),
            failure_given_event=Share(hits=count, tries=runs[event]),
            passing=passing.get(event),
        )
        for event, count in before.items()
        if count >= USUAL * len(failed) and count / runs[event] > whole
    ]
    best = sorted(found, key=lambda one: (-one.event_given_failure.value, -one.failure_given_event.value, one.event))
    return best[:CANDIDATES]
