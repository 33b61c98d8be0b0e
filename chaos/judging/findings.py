"""How kernels report what they find, and how the findings of all shards become a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from chaos.law import Partial
from chaos.verdict import LAWFUL, Anomaly, AnomalyName, LawName, Validity, Verdict

#: So many findings of one name are told one by one; one more anomaly stands for the rest.
TOLD = 20


class Findings:
    """Collects what one kernel finds; at most :data:`TOLD` anomalies of a name are spelt out for each queue, so that
    what is told does not depend on which queues share a shard."""

    def __init__(self, law: LawName) -> None:
        self._law = law
        self._told: dict[tuple[AnomalyName, int], list[Anomaly]] = {}
        self._rest: dict[AnomalyName, int] = {}
        self._counts: dict[str, int] = {}
        self._facts: list[dict[str, object]] = []
        self._gaps: dict[str, None] = {}

    def add(
        self,
        name: AnomalyName,
        explanation: str,
        *rows: int,
        queue: int = -1,
        offset: int = -1,
        message: int = -1,
    ) -> None:
        """Report one finding; ``rows`` are ``index`` values in the order of the story."""
        told = self._told.setdefault((name, int(queue)), [])
        if len(told) >= TOLD:
            self._rest[name] = self._rest.get(name, 0) + 1
            return
        told.append(
            Anomaly(
                law=self._law,
                name=name,
                explanation=explanation,
                rows=tuple(int(row) for row in rows if row >= 0),
                queue=int(queue),
                offset=int(offset),
                message=int(message),
            )
        )

    def add_each(
        self,
        name: AnomalyName,
        found: npt.NDArray[np.int64],
        tell: Callable[[int], None],
        *,
        queues: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Report many findings: ``tell`` is called for those that will be spelt out, the rest is counted. ``queues``
        gives the queue of each finding, if they aren't all of one."""
        parts = [found] if queues is None else [found[queues == queue] for queue in np.unique(queues)]
        for part in parts:
            for item in part[:TOLD]:
                tell(int(item))
            if len(part) > TOLD:
                self._rest[name] = self._rest.get(name, 0) + len(part) - TOLD

    def count(self, name: str, number: int) -> None:
        self._counts[name] = self._counts.get(name, 0) + int(number)

    def fact(self, **fact: object) -> None:
        self._facts.append(fact)

    def gap(self, text: str) -> None:
        self._gaps[text] = None

    def partial(self) -> Partial:
        anomalies = [anomaly for told in self._told.values() for anomaly in told]
        for name, rest in self._rest.items():
            anomalies.append(_remainder(self._law, name, rest))
        return Partial(counts=self._counts, anomalies=anomalies, facts=self._facts, gaps=tuple(self._gaps))


def _remainder(law: LawName, name: AnomalyName, count: int) -> Anomaly:
    text = f"{count} more of the same kind, {name}; the ones before are told in full."
    return Anomaly(law=law, name=name, explanation=text, count=count)


def cap(law: LawName, anomalies: Iterable[Anomaly]) -> tuple[Anomaly, ...]:
    """Join the findings of several shards: drop what two shards told alike, in the order of first witness rows, at
    most :data:`TOLD` of each name in full and one anomaly for the rest of that name."""
    by_name: dict[AnomalyName, list[Anomaly]] = {}
    rest: dict[AnomalyName, int] = {}
    for anomaly in dict.fromkeys(anomalies):
        if not anomaly.rows:
            rest[anomaly.name] = rest.get(anomaly.name, 0) + anomaly.count
            by_name.setdefault(anomaly.name, [])
        else:
            by_name.setdefault(anomaly.name, []).append(anomaly)
    joined: list[Anomaly] = []
    for name in sorted(by_name):
        told = sorted(by_name[name], key=lambda a: (a.rows, a.queue, a.offset, a.message, a.explanation))
        joined += told[:TOLD]
        more = sum(a.count for a in told[TOLD:]) + rest.get(name, 0)
        if more:
            joined.append(_remainder(law, name, more))
    return tuple(joined)


def decide(law: LawName, partials: Sequence[Partial], *, needs: Sequence[tuple[str, str]] = ()) -> Verdict:
    """The common judgement: a violation is INVALID; a gap in the observations, or a count of ``needs`` that stayed
    zero (with the sentence that says so), is UNKNOWN; all else is VALID."""
    counts: dict[str, int] = {}
    gaps: dict[str, None] = {}
    for partial in partials:
        for name, number in partial.counts.items():
            counts[name] = counts.get(name, 0) + number
        gaps.update(dict.fromkeys(partial.gaps))
    for name, sentence in needs:
        if not counts.get(name, 0):
            gaps[sentence] = None
    anomalies = cap(law, (anomaly for partial in partials for anomaly in partial.anomalies))
    if any(anomaly.name not in LAWFUL for anomaly in anomalies):
        validity = Validity.INVALID
    elif gaps or not partials:
        validity = Validity.UNKNOWN
    else:
        validity = Validity.VALID
    why = "; ".join(sorted(gaps)) if partials else "no rows to judge"
    return Verdict(law=law, validity=validity, anomalies=anomalies, counts=dict(sorted(counts.items())), why=why)
