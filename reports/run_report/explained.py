"""Why the violations of a report came about: for each way in which some did, what caused one, with its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from chaos.history.history import History
from chaos.verdict import Anomaly
from reports.explanation import diagram
from reports.explanation.decisions import decisions, is_decision
from reports.explanation.sequence import Arrow, Explanation, of_violation
from reports.explanation.subject import Subject, subject
from reports.run_report.cause_groups import representatives
from reports.run_report.causes import Cause, Violation

#: So many ways are explained, and so many causes with their sequence in the page; `stormproof explain` shows others.
WAYS, DRAWN = 8, 3
#: So many violations of a cause are tried until one shows what contradicted a promise, or else has an explanation.
TRIED = 3
#: So many rows of one arrow are quoted, and of each so many letters.
ROWS, WORDS = 2, 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """``explanation`` as the page shows it for the cause of this number."""

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


def explanations(causes: Sequence[Cause], broken: Sequence[Anomaly], history: History) -> Mapping[int, Explanation]:
    """Return explanations by place of the cause, one for each way. ``broken`` are all violations of the run, as the
    verdict orders them."""
    found, decided = {}, decisions(broken, history)
    for place in representatives(causes, WAYS):
        tried = [of_violation(broken, one.place + 1, history, decided) for one in _violations(causes[place])]
        tried = [one for one in tried if one.arrows]
        telling = [one for one in tried if any(arrow.why for arrow in one.arrows)]
        if tried:
            found[place] = (telling or tried)[0]
    return found


def subjects(causes: Sequence[Cause], history: History) -> list[Subject]:
    """Return what the violations that may be explained are about."""
    chosen = [causes[place] for place in representatives(causes, WAYS)]
    return [subject(violation.anomaly, history) for cause in chosen for violation in _violations(cause)]


def _violations(cause: Cause) -> list[Violation]:
    """Return those of a cause that name rows: the one about its example, then those that are about a decision."""
    named = [violation for violation in cause.violations if violation.anomaly.rows]
    own = sorted(named, key=lambda violation: cause.example not in violation.copies)[:1]
    decisions: dict[str, Violation] = {}
    for violation in named:
        if is_decision(violation.anomaly.name):
            decisions.setdefault(violation.anomaly.name, violation)
    others = [one for one in (*decisions.values(), *named) if not any(one is known for known in own)]
    return [*own, *others][:TRIED]
