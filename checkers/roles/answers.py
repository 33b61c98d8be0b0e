"""Who gives an ok to writes: the master of the epoch that the answer names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import reads
from checkers._facts.arrays import Flags, Ints
from checkers._facts.reads import everywhere, own
from checkers.roles.promise import PROMISE, TWO_MASTERS

ANSWERS = Needs(
    part="who takes writes",
    key=Key.OFFSET,
    rows=(own("op", "send", "commit"), everywhere("trace", "role"), reads.RUN),
    columns=(*reads.BASIC, *reads.OPERATIONS, "epoch"),
    evidence=(Evidence.OPERATIONS, Evidence.ROLES),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True)
class Answers:
    """Who takes writes."""

    promise: Promise = PROMISE
    needs: Needs = ANSWERS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        """Check that an ok to a send or a commit comes from the master of the epoch that it names. Not judged where no
        broker reports its roles."""
        found = Findings(PROMISE)
        known = rows.memo(facts.masters)
        speakers = {rows.text("node", at) for at in rows.where(kind="trace", f="role")}
        for f in ("send", "commit") if known else ():
            calls = facts.calls(rows, f)
            done = calls.done[calls.ok]
            wrong = done[~facts.from_masters(rows, done)]
            wrong = wrong[~_unnamed(rows, wrong)]
            silent = np.array([rows.text("node", at) not in speakers for at in wrong], dtype=np.bool_)
            for node in sorted({rows.text("node", at) or "the node that answered" for at in wrong[silent]}):
                found.gap(f"{node} gave an ok to a {f}, but reported nothing of its roles")
            for at in wrong[~silent].tolist():
                _report_usurper(rows, found, at, f)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial)


def _unnamed(rows: Rows, done: Ints) -> Flags:
    """Return which of these answers a library of the system's own has heard (``via``), which does not say from whom."""
    ways = zip(done.tolist(), rows.words("via", done), strict=True)
    return np.array([bool(via) and not rows.text("node", at) for at, via in ways], dtype=np.bool_)


def _report_usurper(rows: Rows, found: Findings, at: int, f: str) -> None:
    index, epoch, op = rows.column("index"), int(rows.column("epoch")[at]), int(rows.column("op")[at])
    node = rows.text("node", at)
    rightful = sorted(name for name, term in rows.memo(facts.masters) if term == epoch)
    if not rightful and facts.may_lack_ends(rows):
        found.gap(facts.ROLE_LACKING.format(node, epoch))
        return
    found.add(
        TWO_MASTERS,
        f"{node or 'Somebody'} gave an ok to a {f} at {facts.at_s(rows, at)} for epoch {epoch}, of which "
        f"{' and '.join(rightful) or 'nobody'} was the master.",
        op,
        int(index[at]),
        queue=int(rows.column("queue")[at]),
        offset=int(rows.column("offset")[at]),
    )
