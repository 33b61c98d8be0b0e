"""What is the same about two failures: the law that is broken, the anomalies by which it is, and the kind of cause.

"INVALID" is not enough: a smaller run may break another promise for another reason, and a search that takes it goes
astray. And all rows would be too much: no smaller run has the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from chaos.history.history import History
from chaos.verdict import RunVerdict
from reports.faults import fault_lines
from reports.run_report.causes import Cause, group


class Origin(StrEnum):
    """What the report links a violation with (:mod:`reports.run_report.causes`), without names and times."""

    CUT = "a log was cut after a change of masters"
    FORGOTTEN = "records did not survive a crash"
    CHANGE = "a change of masters"
    ELSE = "neither a change of masters nor a lost end of a log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One law that is broken by these anomalies (their names, sorted), all of them of one cause."""

    law: str
    anomalies: tuple[str, ...]
    origin: Origin

    def kept_by(self, others: Iterable[Signature]) -> bool:
        """Return whether one of these is the same failure: the same law and cause, and at least the same anomalies."""
        return any(
            other.law == self.law and other.origin == self.origin and set(other.anomalies) >= set(self.anomalies)
            for other in others
        )

    def __str__(self) -> str:
        return f"{', '.join(self.anomalies)} ({self.law}); cause: {self.origin}"


def signatures(history: History, verdict: RunVerdict) -> tuple[Signature, ...]:
    """Return all failures of a run: for each cause, in the order of the report, each law that is broken by it. None for
    a run that isn't INVALID."""
    if not verdict.violations:
        return ()
    causes = group(history, fault_lines(history), verdict.violations)
    return tuple(dict.fromkeys(signature for cause in causes for signature in of_cause(cause)))


def of_cause(cause: Cause) -> Sequence[Signature]:
    """Return one for each law that is broken in this cause."""
    names: dict[str, set[str]] = {}
    for violation in cause.violations:
        names.setdefault(violation.law, set()).add(violation.anomaly.name)
    origin = _origin(cause)
    return [Signature(law=law, anomalies=tuple(sorted(found)), origin=origin) for law, found in names.items()]


def _origin(cause: Cause) -> Origin:
    if any(tail.cut for tail in cause.tails):
        return Origin.CUT
    if cause.tails:
        return Origin.FORGOTTEN
    return Origin.CHANGE if cause.change is not None else Origin.ELSE
