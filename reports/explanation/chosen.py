"""Any rows of any run as a sequence: how a protocol went, where nothing is broken."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.history.history import History
from chaos.history.row import Row
from reports.explanation.happens_before import happens_before
from reports.explanation.selection import injections
from reports.explanation.sequence import ARROWS, Explanation, arrow_of, fold
from reports.explanation.subject import Subject


def of_rows(rows: Sequence[Row], history: History, title: str = "") -> Explanation:
    """Return these rows, in their order, as arrows between those who take part. What leads from one to another is
    sought among them alone."""
    whole = {row.index: row for row in injections(history)}
    chosen = [whole.get(row.index, row) for row in rows if row.kind != "fault" or row.index in whole]
    nothing: frozenset[str] = frozenset()
    about = Subject(witnesses=chosen, messages=frozenset(), places=frozenset(), objects=nothing, groups=frozenset())
    graph = happens_before(chosen, about, history)
    arrows, left_out = [arrow_of(row, chosen[:place], graph) for place, row in enumerate(chosen)], 0
    if len(arrows) > ARROWS:
        arrows, left_out = fold(arrows)
    text = title or f"Rows of {history.run.name}"
    notes = [f"{left_out} of these rows are not drawn."] if left_out else []
    return Explanation(run=history.run, law="", name="", text=text, number=0, of=0, arrows=arrows, notes=notes)
