"""How kernels report what they find, and how the findings of all shards become a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chaos.law import Deferred, Partial, Promise
from chaos.merged_moments import moments_of
from chaos.moments import Moments
from chaos.verdict import Anomaly, Order, Validity, Verdict

#: So many findings of one name are reported one by one; one more anomaly stands for the rest.
MAX_REPORTED = 20
_NONE = np.empty(0, dtype=np.int64)
#: What all shards together report to a judgement.
Facts = Sequence[Mapping[str, Any]]


class _Sort(NamedTuple):
    """What is counted together. ``policy``: which policy permits it, in words; "" for none."""

    name: str
    queue: int
    policy: str


class Findings:
    """Collects what one kernel finds; at most :data:`MAX_REPORTED` anomalies of a name and policy are spelt out for
    each queue, so that what is reported does not depend on which queues share a shard. What is not spelt out is counted
    for each name and policy."""

    def __init__(self, promise: Promise) -> None:
        self._promise = promise
        self._reported: dict[_Sort, list[Anomaly]] = {}
        self._rest: dict[_Sort, int] = {}
        self._counts: dict[str, int] = {}
        self._acted_ns: dict[str, list[npt.NDArray[np.int64]]] = {}
        self._unplaced: set[str] = set()
        self._in_each = False
        self._facts: list[dict[str, object]] = []
        self._gaps: dict[str, None] = {}
        self._not_owed: str | None = None
        self._deferred: list[Deferred] = []

    def add(
        self,
        name: str,
        explanation: str,
        *rows: int,
        queue: int = -1,
        offset: int = -1,
        message: int = -1,
        policy: str = "",
        acted_ns: int | None = None,
        cycle: Sequence[Order] = (),
    ) -> None:
        """Report one finding under a name that the promise declares; ``rows`` are ``index`` values in the order of the
        story. ``policy``, ``cycle``: see :class:`chaos.verdict.Anomaly`. ``acted_ns``: how long after the load began
        it was done, so that it is drawn although it is not spelt out. Raises ``ValueError`` when a policy is given for
        something that no profile permits."""
        if not self._in_each:
            self._place(name, None if acted_ns is None else np.array([acted_ns], dtype=np.int64))
        sort = _Sort(name, int(queue), policy)
        reported = self._reported.setdefault(sort, [])
        if len(reported) >= MAX_REPORTED:
            self._add_rest(sort, 1)
            return
        reported.append(
            Anomaly(
                law=self._promise.name,
                name=name,
                **_permission(self._promise, name, policy),
                explanation=explanation,
                rows=tuple(int(row) for row in rows if row >= 0),
                queue=int(queue),
                offset=int(offset),
                message=int(message),
                cycle=tuple(cycle),
            )
        )

    def add_each(
        self,
        name: str,
        found: npt.NDArray[np.int64],
        report: Callable[[int], None],
        *,
        queues: npt.NDArray[np.int64] | None = None,
        policy: str = "",
        acted_ns: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Report many findings of one ``policy``: ``report``, which names it too, is called for those that will be
        spelt out, the rest is counted. ``queues`` gives the queue of each finding, if they aren't all of one, and
        ``acted_ns`` when each was done, as in :meth:`add`."""
        if len(found):
            self._place(name, acted_ns)
        self._in_each = True
        parts = {-1: found}
        if queues is not None:
            parts = {int(queue): found[queues == queue] for queue in np.unique(queues)}
        for queue, part in parts.items():
            for item in part[:MAX_REPORTED]:
                report(int(item))
            if len(part) > MAX_REPORTED:
                self._add_rest(_Sort(name, queue, policy), len(part) - MAX_REPORTED)
        self._in_each = False

    def _place(self, name: str, acted_ns: npt.NDArray[np.int64] | None) -> None:
        if acted_ns is None:
            self._unplaced.add(name)
        else:
            self._acted_ns.setdefault(name, []).append(acted_ns)

    def _add_rest(self, sort: _Sort, number: int) -> None:
        self._rest[sort] = self._rest.get(sort, 0) + number

    def count(self, name: str, number: int) -> None:
        self._counts[name] = self._counts.get(name, 0) + int(number)

    def fact(self, **fact: object) -> None:
        self._facts.append(fact)

    def gap(self, text: str) -> None:
        self._gaps[text] = None

    def defer(self, about: str, given: Mapping[str, Any]) -> None:
        """Leave something to :meth:`chaos.law.Law.settle`."""
        self._deferred.append(Deferred(about=about, given=given))

    def not_owed(self, why: str) -> None:
        """Say why nothing has to be seen in this run; "" where something has, whatever its workloads declare."""
        self._not_owed = why

    def _moments(self, name: str) -> Moments:
        return moments_of(np.concatenate([*self._acted_ns.get(name, ()), _NONE]), whole=name not in self._unplaced)

    def _reported_of(self, sort: _Sort) -> Iterator[Anomaly]:
        alike = (found for one, found in self._reported.items() if (one.name, one.policy) == (sort.name, sort.policy))
        return (one for found in alike for one in found)

    def partial(self) -> Partial:
        anomalies = [anomaly for found in self._reported.values() for anomaly in found]
        for sort, rest in self._rest.items():
            # Else what another shard left unreported, of another queue or another part of it, would seem the same.
            of = sort.queue if sort.queue >= 0 else min((one.queue for one in self._reported_of(sort)), default=-1)
            found = [one for one in self._reported_of(sort) if one.queue == of]
            offset, rows = min(((one.offset, one.rows) for one in found), default=(-1, ()))
            anomalies.append(_remainder(self._promise, sort._replace(queue=of), rest, offset, sum(rows)))
        return Partial(
            counts=self._counts,
            anomalies=anomalies,
            facts=self._facts,
            gaps=tuple(self._gaps),
            not_owed=self._not_owed,
            deferred=tuple(self._deferred),
            moments={name: self._moments(name) for name in sorted({*self._acted_ns, *self._unplaced})},
        )


def _permission(promise: Promise, name: str, policy: str) -> dict[str, Any]:
    """Return what the promise declares of findings of this name, and which policy permits this one. Raises
    ``ValueError`` when no profile permits them."""
    kind = promise.find(name)
    if policy and not kind.by_policy:
        raise ValueError(f"the law {promise.name} says that {policy}, but declares {name!r} as nothing by policy")
    return {"lawful": kind.lawful, "by_policy": kind.by_policy, "policy": policy}


def _remainder(promise: Promise, sort: _Sort, count: int, offset: int = -1, message: int = -1) -> Anomaly:
    return Anomaly(
        law=promise.name,
        name=sort.name,
        explanation=f"{count} more `{sort.name}` (at most {MAX_REPORTED} shown).",
        count=count,
        queue=sort.queue,
        offset=offset,
        message=message,
        **_permission(promise, sort.name, sort.policy),
    )


def joined(facts: Iterable[Mapping[str, Any]], *names: str) -> list[npt.NDArray[np.int64]]:
    """Return these columns of all facts that have the first of them, one behind the other."""
    some = [fact for fact in facts if names[0] in fact]
    none = np.empty(0, dtype=np.int64)
    return [np.concatenate([none, *(np.array(fact[name], dtype=np.int64) for fact in some)]) for name in names]


def cap(promise: Promise, anomalies: Iterable[Anomaly]) -> tuple[Anomaly, ...]:
    """Join the findings of several shards: drop what two shards reported alike, in the order of first witness rows, at
    most :data:`MAX_REPORTED` of each name in full, and one anomaly for the rest of that name and each policy. So the
    number of each name and policy is whole, however the rows were parted."""
    by_name: dict[str, list[Anomaly]] = {}
    rest: dict[str, dict[str, int]] = {}
    for anomaly in dict.fromkeys(anomalies):
        alike = by_name.setdefault(anomaly.name, [])
        if anomaly.rows:
            alike.append(anomaly)
        else:
            _more(rest, anomaly)
    joined: list[Anomaly] = []
    for name in sorted(by_name):
        in_order = sorted(by_name[name], key=lambda a: (a.rows, a.queue, a.offset, a.message, a.explanation))
        joined += in_order[:MAX_REPORTED]
        for anomaly in in_order[MAX_REPORTED:]:
            _more(rest, anomaly)
        left = sorted(rest.get(name, {}).items())
        joined += [_remainder(promise, _Sort(name, -1, policy), more) for policy, more in left]
    return tuple(joined)


def _more(rest: dict[str, dict[str, int]], anomaly: Anomaly) -> None:
    of_name = rest.setdefault(anomaly.name, {})
    of_name[anomaly.policy] = of_name.get(anomaly.policy, 0) + anomaly.count


def decide(promise: Promise, partial: Partial, *, needs: Sequence[tuple[str, str]] = (), unless: str = "") -> Verdict:
    """Judge as most laws do: a violation is INVALID; a gap in the observations, or a count of ``needs`` that stayed
    zero (with the sentence that says so), is UNKNOWN; all else is VALID.

    ``unless`` says why nothing is owed of ``needs``, else the partial does: then a count that stayed zero is NOT
    APPLICABLE. So is a run of which the partial says that, and counts nothing at all."""
    unless = unless or partial.not_owed or ""
    missing = [sentence for name, sentence in needs if not partial.counts.get(name, 0)]
    undecided = [f"{one.about} was not decided" for one in partial.deferred]
    gaps = dict.fromkeys((*partial.gaps, *undecided, *(missing if not unless else ())))
    anomalies = cap(promise, partial.anomalies)
    why = "; ".join(sorted(gaps))
    if any(not anomaly.lawful for anomaly in anomalies):
        validity = Validity.INVALID
    elif gaps:
        validity = Validity.UNKNOWN
    elif missing or (partial.not_owed and not partial.counts):
        validity, why = Validity.NOT_APPLICABLE, unless
    else:
        validity = Validity.VALID
    counts = dict(sorted(partial.counts.items()))
    return Verdict(
        law=promise.name, validity=validity, anomalies=anomalies, counts=counts, why=why, moments=partial.moments
    )
