"""What a master confirmed is in the logs of its SyncStateSet, and of later masters."""

from __future__ import annotations

from collections.abc import Sequence
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
from checkers._facts.nodes import logs
from checkers._facts.reads import own
from checkers.no_rollback.cuts import CONFIRM_ROLLBACK
from checkers.no_rollback.own_log import report_beyond
from checkers.no_rollback.promise import CONFIRM_BEYOND_SET, PROMISE

OTHERS = Needs(
    part="what others had of it",
    key=Key.RUN,
    rows=(*reads.CONFIRMED_BY_OTHERS, losses.TAKEN, own("trace", "role"), *losses.TERMS_OF_RUN),
    columns=(*reads.BASIC, *losses.COLUMNS, "position"),
    evidence=(Evidence.CONFIRM,),
    on_prefix=True,
)

#: What a member of the set had, by whose word.
REPORTED, ON_DISK, TAKEN = "reported only {} to it", "only {} on its disk", "taken only {}"


@dataclass(frozen=True, slots=True)
class Others:
    """What a master has called confirmed each member that it counts on has, and every later master."""

    promise: Promise = PROMISE
    needs: Needs = OTHERS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if context.strict or not context.unfinished:
            confirms = rows.where(kind="trace", f="confirm")
            _masters_have_all(rows, context, found, confirms)
            _whole_set_has(rows, context, found, confirms)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial)  # whether anything was confirmed at all, the other kernel says


@dataclass(frozen=True, slots=True)
class _Lack:
    """Confirms, by their places, that ``member`` of the set did not have: it had only ``had``, on its disk or
    acknowledged."""

    member: str
    where: str
    place: Ints
    had: Ints


def _whole_set_has(rows: Rows, context: RunContext, found: Findings, confirms: Ints) -> None:
    """Check that each member that a master counts on has reported to it what it calls confirmed, and has that on its
    disk, or under asynchronous flush has taken it (in a simulated run: by then; elsewhere: at some time, which may come
    as long as the run goes on)."""
    index, end = rows.column("index")[confirms], rows.column("position")[confirms]
    durably = context.profile.flush == "sync"
    ends = rows.memo(facts.durable_ends if durably else logs.taken_ends)
    had = ON_DISK if durably else TAKEN
    lacks: list[_Lack] = []
    silent: dict[str, int] = {}
    for form in rows.memo(facts.confirm_forms):
        acks = form.value.get("acks")
        for member in {*(form.value.get("set") or ()), *(form.value.get("proposed") or ())}:
            said = form.whole(acks.get(member, -1)) if isinstance(acks, dict) else end[form.at]
            less = said < end[form.at]
            lacks.append(_Lack(member, REPORTED, form.at[less], said[less]))
            asked = form.at[~less]
            if context.unfinished and not context.one_clock:
                continue
            if member in ends:
                durable = _durable(context, *ends[member], index[asked])
                less = durable < end[asked]
                if facts.may_lack_ends(rows) and less.any():
                    found.gap(facts.ENDS_LACKING.format(member))
                else:
                    lacks.append(_Lack(member, had, asked[less], durable[less]))
            elif len(asked):
                silent[member] = min(int(asked[0]), silent.get(member, facts.NEVER))
    for _, member in sorted((place, member) for member, place in silent.items()):
        found.gap(f"{member} reported nothing of what is durable on its disk")
    _report_lacks(rows, found, confirms, lacks)


def _durable(context: RunContext, indexes: Ints, ends: Ints, at_index: Ints) -> Ints:
    """Return how far a replica's log was on its disk when these rows were written, -1 where it had reported nothing."""
    if not context.one_clock:
        return np.full(len(at_index), ends.max())
    return np.append(-1, ends)[np.searchsorted(indexes, at_index, side="right")]


def _report_lacks(rows: Rows, found: Findings, confirms: Ints, lacks: Sequence[_Lack]) -> None:
    """Report them in the order of the confirms, and of the members' names."""
    lacks = sorted((lack for lack in lacks if len(lack.place)), key=lambda lack: lack.member)
    which = np.repeat(np.arange(len(lacks)), [len(lack.place) for lack in lacks])
    place, had = (
        np.concatenate([*columns, confirms[:0]]) for columns in ([x.place for x in lacks], [x.had for x in lacks])
    )

    def report(number: int) -> None:
        lack, at = lacks[which[number]], int(confirms[place[number]])
        report_beyond(
            rows,
            found,
            at,
            f"called position {int(rows.column('position')[at])} confirmed, though {lack.member}, a member of its "
            f"SyncStateSet, had {lack.where.format(max(0, int(had[number])))}",
        )

    order = np.lexsort((which, place))
    found.add_each(CONFIRM_BEYOND_SET, order, report, acted_ns=facts.since_load_ns(rows, confirms[place[order]]))


def _masters_have_all(rows: Rows, context: RunContext, found: Findings, confirms: Ints) -> None:
    """Check that the log of a new master reaches every position that was confirmed under an older epoch, but what the
    profile permits to be gone by then."""
    permits = losses.cuts(rows, context, confirmed=True)
    position, epoch, index = (rows.column(name) for name in ("position", "epoch", "index"))
    by_epoch = confirms[np.argsort(epoch[confirms], kind="stable")]
    highest = np.maximum.accumulate(position[by_epoch])
    for at in rows.where(kind="trace", f="role"):
        value = rows.value(at)
        start = value.get("start", -1)
        if value.get("role") != "master" or not isinstance(start, int) or start < 0:
            continue
        older = by_epoch[: int(np.searchsorted(epoch[by_epoch], epoch[at]))]
        if len(older) and int(highest[len(older) - 1]) > start:
            older = older[position[older] > start]
            permitted = permits.separate(rows, older, np.full(len(older), at))
            losses.note(found, rows, permits, older[permitted], np.full(int(permitted.sum()), at))
            if permitted.all():
                continue
            older = older[~permitted]
            witness = int(older[np.argmax(position[older])])
            found.add(
                CONFIRM_ROLLBACK,
                f"{rows.text('node', witness)} had confirmed position {int(position[witness])} in epoch "
                f"{int(epoch[witness])} at {facts.at_s(rows, witness)}, but the log of {rows.text('node', at)} ended "
                f"at {start} when it became master of epoch {int(epoch[at])}.",
                int(index[witness]),
                int(index[at]),
            )
