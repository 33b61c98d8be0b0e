"""One cause, one entry: where one decision broke promises again and again, these are occurrences of one cause.

What decided is the first event behind a violation that contradicts a promise by itself. Where no row shows that, causes
are one that came about in the same way: by the same kind of chain, with the same kind of fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from reports.explanation.sequence import Explanation
from reports.run_report.causes import Cause, Kind
from reports.run_report.chain import Step, chain, wrong_of
from reports.run_report.headlines import of_violations, worst
from reports.run_report.story import title

#: How a cause came about, as far as rows link it: two that are alike here are explained once.
_Way = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class CauseGroup:
    """``occurrences`` of one cause, at least one, by time; ``signs``: what the same decision broke besides without such
    a loss. ``explanation`` is of a violation of the first occurrence, or of one in the same way."""

    occurrences: Sequence[Cause]
    signs: Sequence[Cause] = ()
    explanation: Explanation | None = None

    @property
    def first(self) -> Cause:
        return self.occurrences[0]

    @cached_property
    def chain(self) -> list[Step]:
        """The steps of the first occurrence."""
        return chain(self.first, self.explanation)

    @property
    def decided(self) -> tuple[str, ...]:
        """The methods behind the event that contradicts a promise, where that is known."""
        wrong = wrong_of(self.explanation)
        return wrong.decided if wrong else ()

    @cached_property
    def kinds(self) -> list[Kind]:
        """All kinds of violations, with how many belong to this cause."""
        here: dict[tuple[str, str], Kind] = {}
        for kind in (kind for cause in (*self.occurrences, *self.signs) for kind in cause.kinds):
            known = here.get((kind.law, kind.name))
            here[kind.law, kind.name] = replace(kind, here=kind.here + known.here) if known else kind
        return list(here.values())

    @property
    def title(self) -> str:
        """What this cause did, with the numbers of the run."""
        return of_violations(_names(self.kinds)) if self.kinds else title(self.first)

    @property
    def also(self) -> list[str]:
        """Names of the kinds that only the signs show."""
        own = {kind.name for cause in self.occurrences for kind in cause.kinds}
        return list(dict.fromkeys(kind.name for cause in self.signs for kind in cause.kinds if kind.name not in own))


def began_s(cause: Cause) -> float | None:
    """Return when an occurrence of a cause began; None where that is not known."""
    if cause.faults:
        return cause.faults[0].asked_s
    return cause.change.at_s if cause.change is not None else None


def way_of(cause: Cause) -> _Way:
    """Return how a cause came about."""
    faults = cause.faults[0].name if cause.faults else ""
    if cause.tails:
        return "loss", faults, cause.proven, any(tail.cut for tail in cause.tails)
    shape = "power" if cause.power else "change" if cause.change else "loose"
    return shape, faults, cause.proven, tuple(sorted({kind.name for kind in cause.kinds}))


def representatives(causes: Sequence[Cause], most: int) -> list[int]:
    """Return the places of causes, one of each way in which any came about, of those that name rows."""
    found: dict[_Way, int] = {}
    for place, cause in enumerate(causes):
        if any(violation.anomaly.rows for violation in cause.violations):
            found.setdefault(way_of(cause), place)
    return sorted(found.values())[:most]


def grouped(causes: Sequence[Cause], explanations: Mapping[int, Explanation]) -> list[CauseGroup]:
    """Return one group for each cause, the one with the worst violations first. ``explanations``: by place, of the
    :func:`representatives`."""
    by_way = {way_of(causes[place]): found for place, found in explanations.items()}
    joined: dict[object, list[tuple[Cause, Explanation | None]]] = {}
    for cause in causes:
        explanation = by_way.get(way_of(cause))
        wrong = wrong_of(explanation)
        key = wrong.decided if wrong and wrong.decided else way_of(cause)
        joined.setdefault(key, []).append((cause, explanation))
    found = [_group(members) for members in joined.values()]
    ranked = {kind: place for place, kind in enumerate(_worst_first(found))}
    return sorted(found, key=lambda one: ranked[_worst(one)])


def _worst(one: CauseGroup) -> str:
    return worst(_names(one.kinds))


def _worst_first(groups: Iterable[CauseGroup]) -> list[str]:
    left, ordered = {_worst(one) for one in groups}, []
    while left:
        ordered.append(worst(dict.fromkeys(left, 1)))
        left.discard(ordered[-1])
    return ordered


def _names(kinds: Iterable[Kind]) -> dict[str, int]:
    return {kind.name: kind.whole for kind in kinds}


def _order(cause: Cause) -> tuple[float, int]:
    """Order by time; what begins at one time by the verdict's order."""
    began = began_s(cause)
    place = min((violation.place for violation in cause.violations), default=0)
    return float("inf") if began is None else began, place


def _group(members: Sequence[tuple[Cause, Explanation | None]]) -> CauseGroup:
    """Return causes with one decision: where logs lost their ends, or clients saw the worst, it is those that count."""
    lossy = [cause for cause, _ in members if cause.tails or cause.power]
    if not lossy:
        name = worst(_names(kind for cause, _ in members for kind in cause.kinds))
        lossy = [cause for cause, _ in members if name in {kind.name for kind in cause.kinds}] or [members[0][0]]
    signs = [cause for cause, _ in members if not any(cause is one for one in lossy)]
    explanation = next((found for cause, found in members if found and any(cause is one for one in lossy)), None)
    return CauseGroup(occurrences=sorted(lossy, key=_order), signs=signs, explanation=explanation)
