"""What replicas still know when they begin another life."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers._facts import reads
from checkers._facts.nodes import own_logs
from checkers._facts.reads import own
from checkers.roles import lives
from checkers.roles.promise import PROMISE

REMEMBERED = Needs(
    part="what replicas remember",
    key=Key.NODE,
    rows=(own("trace", "start", "recovered", "role"), own_logs.own_log("confirm"), reads.RUN, reads.FAULTS),
    columns=(*reads.BASIC, *reads.LIVES, "process", "type", "epoch", "position"),
    evidence=(Evidence.ELECTIONS,),
    on_prefix=True,
)


@dataclass(frozen=True, slots=True)
class Remembered:
    """No life of a replica forgets what an earlier one on the same disk had made durable."""

    promise: Promise = PROMISE
    needs: Needs = REMEMBERED

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        merged = Partial()
        if context.unfinished:  # that a fault took a node's disk may be proven later
            return merged
        for node in sorted({rows.text("node", at) for at in rows.where(kind="trace", f="start").tolist()}):
            found = Findings(PROMISE)  # for each, so that what is reported does not depend on who shares a shard
            lives.forgotten(rows, found, node)
            merged = merged.merge(found.partial())
        return merged

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial)  # whether there was an election at all, another kernel says
