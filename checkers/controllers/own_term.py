"""Whether a leader commits what an earlier term has left by an entry of its own term.

What an earlier term has left is committed by an entry of the leader's own term, never by itself (Ongaro's thesis,
3.6.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers._facts.arrays import Ints
from checkers._facts.nodes.logs import in_node_order
from checkers._facts.run import at_s

EARLIER_TERM_COMMITTED = "earlier-term-committed"


def committed_by_own_term(rows: Rows, found: Findings, applied: Sequence[int]) -> None:
    """Check up to where a leader has committed when it applies what an earlier term has left. That is where it began,
    or an entry of its own term: one of an earlier term may be on a majority and still be replaced."""
    at = np.array(applied, dtype=np.int64)
    position, term, index = (rows.column(name) for name in ("position", "epoch", "index"))
    committed, claimed = _numbers(rows, at, "committed"), _numbers(rows, at, "committed_term")
    terms = {int(position[row]): int(term[row]) for row in reversed(applied)}
    reported: set[tuple[str, int]] = set()
    for n in np.flatnonzero(committed >= 0).tolist():
        row, end = int(at[n]), int(committed[n])
        election = _last_leading(rows, row)
        began = rows.value(election).get("commit") if election >= 0 else None
        of = terms.get(end, int(claimed[n]))
        if not isinstance(began, int) or end <= began or of >= term[election]:
            continue
        node = rows.text("node", row)
        if (node, end) not in reported:  # it applies many entries after one decision
            reported.add((node, end))
            found.add(
                EARLIER_TERM_COMMITTED,
                f"{node}, the leader of term {int(term[election])}, had committed entry {end} by {at_s(rows, row)}, "
                f"which is of term {of}, and nothing of its own term: it began with {began} as the last one.",
                int(index[election]),
                int(index[row]),
            )


def _numbers(rows: Rows, at: Ints, key: str) -> Ints:
    """Return what each row says under ``key``, -1 where it says nothing."""
    found = np.full(len(at), -1, dtype=np.int64)
    for form in rows.forms(at):
        value = form.value.get(key)
        if isinstance(value, int | np.ndarray):
            found[form.at] = form.whole(value)
    return found


def _last_leading(rows: Rows, at: int) -> int:
    """Return the row by which the node of row ``at`` began to lead, if it still leads then; else -1."""
    mine = rows.where(kind="trace", f="raft", node=rows.text("node", at))
    lived = in_node_order(rows, np.append(mine, at))
    place = int(np.flatnonzero(lived == at)[0])
    life = rows.column("incarnation")
    before = int(lived[place - 1]) if place else -1
    leads = before >= 0 and life[before] == life[at] and rows.value(before).get("role") == "leader"
    return before if leads else -1
