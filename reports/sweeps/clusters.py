"""Failures that are alike, and what came before them.

A cluster is a set of failing runs: those with one signature. Signatures that just the same runs have are one cluster,
for one bug often breaks several laws. An event counts as having preceded a failure if it came first; in a run without
this failure it counts if it came at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chaos.verdict import Validity
from reports.sweeps.chances import Share
from reports.sweeps.row import Failure, Row

#: So many events are listed of a cluster.
CANDIDATES = 8
#: An event before fewer of the failures than this says little of them.
USUAL = 0.5

Key = tuple[int, int]
Signature = tuple[str, tuple[str, ...], str]


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
class Cluster:
    """``signatures``: (law, anomalies, origin); for runs that were not INVALID the law is the verdict, and the origin
    the reason. ``runs``: by file and seed. ``faultless``: how many failed before any fault had an effect.
    ``example``: the run with the fewest faults before it failed, the earliest of these. ``overall``: the failures of
    this cluster among all runs of its experiments, with which the candidates are to be compared."""

    signatures: Sequence[Signature]
    runs: Sequence[Key]
    faultless: int
    example: Key
    overall: Share
    candidates: Sequence[Candidate]


def clusters(rows: Sequence[Row]) -> list[Cluster]:
    """Return the clusters: those with failures without any fault first, then the largest."""
    held: dict[Signature, dict[Key, Failure | None]] = {}
    for row in rows:
        for signature, failure in _failures(row):
            held.setdefault(signature, {}).setdefault(row.key, failure)
    same: dict[tuple[Key, ...], list[Signature]] = {}
    for signature, runs in held.items():
        same.setdefault(tuple(sorted(runs)), []).append(signature)
    by_key = {row.key: row for row in rows}
    found = [_cluster(sorted(names), runs, held, by_key) for runs, names in same.items()]
    return sorted(found, key=lambda one: (not one.faultless, -len(one.runs), one.signatures))


def _failures(row: Row) -> Iterable[tuple[Signature, Failure | None]]:
    """Return the failures of a run. One that failed without a violation, or with one that the report links with
    nothing, fails for its reason."""
    if not row.failed:
        return []
    if row.failures:
        return [(failure.signature, failure) for failure in row.failures]
    return [((row.verdict, (), row.why[0] if row.why else "no reason is recorded"), None)]


def _cluster(
    signatures: Sequence[Signature],
    runs: Sequence[Key],
    held: Mapping[Signature, Mapping[Key, Failure | None]],
    by_key: Mapping[Key, Row],
) -> Cluster:
    first = {key: _first([held[one].get(key) for one in signatures]) for key in runs}
    known = {key: failure for key, failure in first.items() if failure is not None}
    example = min(runs, key=lambda key: (known[key].faults, known[key].at_s, key) if key in known else (0, 0.0, key))
    files = {file for file, _ in runs}
    among = [row for row in by_key.values() if row.file in files]
    return Cluster(
        signatures=signatures,
        runs=runs,
        faultless=sum(not failure.faults for failure in known.values()),
        example=example,
        overall=Share(hits=len(runs), tries=len(among)),
        candidates=_candidates(known, among),
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
