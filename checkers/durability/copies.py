"""An acknowledgement stood on the copies that the profile demands: as many as ``acks`` says, on disk under synchronous
flush, taken under asynchronous flush. Of a strict profile, whose acknowledgements stand on the whole SyncStateSet,
``no-rollback`` asks the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence, Profile
from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Form, Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.arrays import Flags, Ints
from checkers._facts.nodes import logs
from checkers.durability.evidence import decided
from checkers.durability.promise import FALSE_ACKNOWLEDGEMENT, PROMISE

NEEDS = Needs(
    part="what acknowledgements stood on",
    key=Key.RUN,
    rows=(*reads.CONFIRMED_BY_OTHERS, losses.TAKEN, *losses.CONFIRMS, reads.RUN),
    columns=(*reads.BASIC, "epoch", "position"),
    evidence=(Evidence.CONFIRM,),
    uses=(Use.QUEUES,),
)
UNREPORTED = "acknowledgements do not report the copies that they stand on"


@dataclass(frozen=True, slots=True)
class Copies:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if not context.strict and not context.unfinished:
            acked = rows.where(kind="trace", f="acked")
            ends = rows.memo(facts.durable_ends if context.profile.flush == "sync" else logs.taken_ends)
            for form in rows.forms(acked):
                _stood(rows, context, found, acked[form.at], form, ends)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided(partial, context)  # whether anything was acknowledged at all, another kernel says


def _stood(
    rows: Rows, context: RunContext, found: Findings, acked: Ints, form: Form, ends: dict[str, tuple[Ints, Ints]]
) -> None:
    """Judge acknowledgements of one form: each stood on enough copies that really went so far by then; where each node
    has a clock of its own, at any time."""
    copies, position = form.value.get("copies"), rows.column("position")[acked]
    if not isinstance(copies, dict):
        if len(acked) and context.profile.acks not in ("all", "master"):
            found.gap(UNREPORTED)
        return
    had = {name: _end(context, *ends[name], rows.column("index")[acked]) for name in copies if name in ends}
    for name in sorted(copies.keys() - ends.keys()):
        found.gap(f"{name}, on which acknowledgements stood, reported nothing of its log")
    number = sum((had[name] >= position for name in had), start=np.zeros(len(acked), dtype=np.int64))
    needed = _needed(context.profile, copies)
    few: Flags = number + len(copies) - len(had) < needed
    on = "on its disk" if context.profile.flush == "sync" else "in its log"

    def report_one(place: int) -> None:
        at = int(acked[place])
        reported_ends = ", ".join(f"{name} had {max(0, int(had[name][place]))} {on}" for name in sorted(had))
        found.add(
            FALSE_ACKNOWLEDGEMENT,
            f"{rows.text('node', at)}, master of epoch {int(rows.column('epoch')[at])}, gave an ok at "
            f"{facts.at_s(rows, at)} for a record that ends at {int(position[place])}, which demands "
            f"{needed} {'copies' if needed > 1 else 'copy'}; {reported_ends or 'nobody had it'}.",
            int(rows.column("index")[at]),
        )

    found.count("acknowledgements_compared", len(acked))
    found.add_each(FALSE_ACKNOWLEDGEMENT, np.flatnonzero(few), report_one)


def _needed(profile: Profile, copies: dict[str, object]) -> int:
    """Return how many copies an acknowledgement needs; all that the master counts on, where ``acks`` is ``all``."""
    if profile.acks == "all":
        return max(1, len(copies))
    return 1 if profile.acks == "master" else int(profile.acks)


def _end(context: RunContext, indexes: Ints, ends: Ints, at_index: Ints) -> Ints:
    """Return how far a replica went when these rows were written, -1 where it had not said anything."""
    if not context.one_clock:
        return np.full(len(at_index), ends.max())
    return np.append(-1, ends)[np.searchsorted(indexes, at_index, side="right")]
