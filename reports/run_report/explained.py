"""Why the violations of a report came about: for the first causes, what caused one violation, with its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from chaos.history.history import History
from chaos.verdict import Anomaly
from reports.explanation import diagram
from reports.explanation.sequence import Arrow, Explanation, of_violation
from reports.explanation.subject import Subject, subject
from reports.run_report.causes import Cause, Violation

#: So many causes are explained in the page; `stormproof explain` shows the others.
EXPLAINED = 3
#: So many violations of a cause are tried until one has an explanation.
TRIED = 3
#: So many rows of one arrow are quoted, and of each so many letters.
ROWS, WORDS = 2, 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """``explanation`` is about the first violation of a cause whose rows are known; ``cause`` is the number of that
    cause."""

    cause: int
    explanation: Explanation

    @property
    def rows(self) -> list[int]:
        """The rows that the page quotes."""
        return sorted({row for arrow in self.explanation.arrows for row in quoted(arrow)})

    @property
    def picture(self) -> Markup:
        return diagram.draw(self.explanation, {row: f"#{self.anchor(row)}" for row in self.rows}, self.cause)

    def anchor(self, row: int) -> str:
        """Return the id of a quoted row in the page."""
        return f"row-{self.cause}-{row}"


def quoted(arrow: Arrow) -> Sequence[int]:
    """Return the first rows of an arrow."""
    return arrow.rows[:ROWS]


def explained(causes: Sequence[Cause], broken: Sequence[Anomaly], history: History) -> Mapping[int, Explained]:
    """Return the explanations by number of the cause. ``broken`` are all violations of the run, as the verdict orders
    them."""
    found = {}
    for cause in range(1, min(EXPLAINED, len(causes)) + 1):
        for violation in _violations(causes[cause - 1]):
            explanation = of_violation(broken, violation.place + 1, history)
            if explanation.arrows:
                found[cause] = Explained(cause=cause, explanation=explanation)
                break
    return found


def subjects(causes: Sequence[Cause], history: History) -> list[Subject]:
    """Return what the violations that may be explained are about."""
    return [subject(violation.anomaly, history) for cause in causes[:EXPLAINED] for violation in _violations(cause)]


def _violations(cause: Cause) -> list[Violation]:
    """Return those of a cause that name rows; the ones about its example first."""
    named = [violation for violation in cause.violations if violation.anomaly.rows]
    return sorted(named, key=lambda violation: cause.example not in violation.copies)[:TRIED]
