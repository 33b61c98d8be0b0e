"""What a replica has confirmed stays in its own log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.arrays import Ints
from checkers._facts.nodes import own_logs
from checkers._facts.reads import own
from checkers.no_rollback import cuts
from checkers.no_rollback.promise import CONFIRM_BEYOND_SET, PROMISE

OWN_LOG = Needs(
    part="what replicas confirmed",
    key=Key.NODE,
    rows=(
        own("trace", *own_logs.TAKES),
        own_logs.own_log("confirm", "acked", "retention"),
        own("final", "node"),
        reads.RUN,
    ),
    columns=(*reads.BASIC, *reads.LIVES, "epoch", "position"),
    evidence=(Evidence.CONFIRM,),
    on_prefix=True,
)

#: Under a weaker profile a node's own log is judged beside the terms of all.
UNDER_CUTS = Needs(
    part="what replicas confirmed, under weaker profiles",
    key=Key.RUN,
    rows=(own("trace", *own_logs.TAKES), *losses.CONFIRMS, own("final", "node"), *losses.TERMS_OF_RUN),
    columns=(*reads.BASIC, *losses.COLUMNS, "position"),
    evidence=(Evidence.CONFIRM,),
)


@dataclass(frozen=True, slots=True)
class OwnLog:
    """What a replica has called confirmed stays in its own log, and what a master gives an ok for is confirmed."""

    promise: Promise = PROMISE
    needs: Needs = OWN_LOG

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        confirms = rows.where(kind="trace", f="confirm")
        summary = Partial(counts={"confirming_nodes": len(_one_each(rows, confirms))})
        return summary.merge(_own_logs(rows, context)) if context.strict else summary

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial, needs=[("confirming_nodes", "no replica reported its confirm offset")])


@dataclass(frozen=True, slots=True)
class UnderCuts:
    """The same under a weaker profile: what it permits to be cut, a replica need not keep."""

    promise: Promise = PROMISE
    needs: Needs = UNDER_CUTS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        return Partial() if context.strict or context.unfinished else _own_logs(rows, context)

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial)  # whether anything was confirmed at all, the other kernel says


def _own_logs(rows: Rows, context: RunContext) -> Partial:
    """Judge each replica's log by itself, so that what is reported does not depend on who shares a shard."""
    confirms, acked = (rows.where(kind="trace", f=f) for f in ("confirm", "acked"))
    permits = losses.cuts(rows, context, confirmed=True)
    masters, summary = np.zeros(len(rows), dtype=np.bool_), Partial()
    for form in rows.memo(facts.confirm_forms):
        masters[confirms[form.at]] = "set" in form.value
    for node in sorted({rows.text("node", at) for f in (confirms, acked) for at in _one_each(rows, f)}):
        found = Findings(PROMISE)
        if len(rows.where(kind="trace", f="confirm", node=node)):
            log = cuts.never_cut_below(rows, found, node, masters, permits)
            if not context.unfinished:  # else the node may have reported since then why its log is shorter
                cuts.ends_with_all(rows, found, node, log)
        if context.profile.acks == "all":
            _what_is_acked_is_confirmed(rows, found, node)
        summary = summary.merge(found.partial())
    return summary


def _one_each(rows: Rows, at: Ints) -> Ints:
    _, first = np.unique(rows.column("node")[at], return_index=True)
    return at[first]


def _what_is_acked_is_confirmed(rows: Rows, found: Findings, node: str) -> None:
    """Check that what a master gives an ok for is confirmed."""
    position = rows.column("position")
    acked = rows.where(kind="trace", f="acked", node=node)
    early = acked[rows.numbers("confirm", acked) < position[acked]]
    known = [form.at for form in rows.forms(early) if isinstance(form.value.get("confirm"), int | np.ndarray)]

    def report(at: int) -> None:
        what = f"that ends at {int(position[at])}, when it had confirmed {rows.value(at).get('confirm')}"
        report_beyond(rows, found, at, f"gave an ok for a record {what}")

    wrong = early[np.sort(np.concatenate([*known, early[:0]]))]
    found.add_each(CONFIRM_BEYOND_SET, wrong, report, acted_ns=facts.since_load_ns(rows, wrong))


def report_beyond(rows: Rows, found: Findings, at: int, what: str) -> None:
    found.add(
        CONFIRM_BEYOND_SET,
        f"{rows.text('node', at)}, master of epoch {int(rows.column('epoch')[at])}, {what} ({facts.at_s(rows, at)}).",
        int(rows.column("index")[at]),
    )
