"""A broker of a storage cluster keeps nothing: whatever ends it changes no acknowledged byte, and others go on at once.

What it has acknowledged stands in the groups, so the broker that opens its slices next begins behind all of it. And
since there is nothing to recover, that takes no longer than it takes to notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.events import Applied, GroupAcked, SliceClosed, SliceOpened, Start
from chaos.fault import Effect
from chaos.findings import Findings, decide
from chaos.law import AnomalyKind, Harm, Key, Law, Partial, Promise, RunContext
from chaos.law import Rows as LawRows
from chaos.operations import FaultRow, HarnessRow
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.arrays import NEVER
from checkers._facts.faults import Fault
from checkers._facts.nodes.due import Span, disturbances, due_ns, spans
from checkers._facts.run import last_reported_ns, load_began_ns
from checkers._facts.storage.catalogue import BROKER, catalogue

#: So long after its owner's end a slice may have no other one.
OPEN_S = 10.0
#: What ends a broker, or has it look as if it had ended.
ENDS = (Effect.TAKES_DOWN, Effect.LOSES_DISK)
#: What of a fault may put off nothing.
HARMLESS = (Effect.HARMS_TIER, Effect.ADDS_REPLICA)

OPENED_BELOW, OPENED_LATE, STATE_KEPT = "opened-below-acknowledged", "opened-late", "broker-kept-state"

PROMISE = Promise(
    name="stateless",
    place=93,
    meaning="The end of a broker changes no acknowledged byte, and its slices are open again at once.",
    anomalies=(
        AnomalyKind(
            name=OPENED_BELOW,
            meaning="a broker opened a slice below what had been acknowledged before",
            headline=("A broker went on below what had been acknowledged",),
            harm=Harm.DATA,
            decision=(SliceOpened,),
        ),
        AnomalyKind(
            name=OPENED_LATE,
            meaning="a slice had no owner for too long after its broker's end, and nothing was in the way",
            headline=("A dead broker's slice was opened too late",),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=STATE_KEPT,
            meaning="a broker began an incarnation on a disk of its own",
            headline=("A broker kept something on a disk",),
            decision=(Start,),
        ),
    ),
    counts={"broker_ends": "times that a fault ended an owner of slices", "slices_opened": "times that one was opened"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


class Stateless(Law):
    promise = PROMISE
    key = Key.RUN
    reads = (SliceOpened, SliceClosed, GroupAcked, Start, Applied, HarnessRow, FaultRow)
    evidence = (Evidence.GROUPS,)

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        opened = rows.where(kind="trace", f="opened")
        found.count("slices_opened", len(opened))
        if not len(opened):
            found.gap("no broker reported that it opened a slice")
        _begins_behind_all(rows, found)
        _nothing_kept(rows, found)
        ends = [*_ends(rows)]
        found.count("broker_ends", len(ends))
        if context.one_clock and not context.unfinished:
            for end in ends:
                _opened_in_time(rows, context, found, end)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        why = "no fault ended a broker that owned slices"
        return decide(PROMISE, partial, needs=[("broker_ends", why)], unless=why)


def _begins_behind_all(rows: Rows, found: Findings) -> None:
    """Check that each owner begins at or behind all that was acknowledged in earlier epochs."""
    at = rows.where(kind="trace", f="group_acked")
    group, epoch, end = rows.numbers("group", at), rows.column("epoch")[at], rows.column("position")[at]
    order = np.lexsort((end, epoch, group))
    at, group, epoch, end = at[order], group[order], epoch[order], end[order]
    for row in rows.where(kind="trace", f="opened").tolist():
        value, now = rows.value(row), int(rows.column("epoch")[row])
        for name, begins in sorted((value.get("ends") or {}).items()):
            number = int(name) if str(name).isdecimal() else -1
            mine = slice(*np.searchsorted(group, [number, number + 1]))
            before = end[mine][: np.searchsorted(epoch[mine], now)]
            if len(before) and before.max() > begins:
                acked = int(at[mine][int(before.argmax())])
                found.add(
                    OPENED_BELOW,
                    f"{rows.text('node', row)} opened {value.get('slice')} in epoch {now} at {facts.at_s(rows, row)}, "
                    f"with group {name} at {begins}, although {rows.text('node', acked)} (epoch "
                    f"{int(rows.column('epoch')[acked])}) had acknowledged records there up to {int(before.max())}.",
                    *sorted(int(rows.column("index")[one]) for one in (acked, row)),
                )


def _nothing_kept(rows: Rows, found: Findings) -> None:
    """Check that no broker begins on a disk that it knows."""
    brokers = _brokers(rows)
    for at in rows.where(kind="trace", f="start").tolist():
        value = rows.value(at)
        if rows.text("node", at) in brokers and (value.get("disk") or value.get("generation") is not None):
            found.add(
                STATE_KEPT,
                f"{rows.text('node', at)} began its incarnation {int(rows.column('incarnation')[at])} at "
                f"{facts.at_s(rows, at)} on a disk of its own: brokers are to have none.",
                int(rows.column("index")[at]),
            )


def _brokers(rows: Rows) -> frozenset[str]:
    """Return the brokers that meta's log names, or that opened slices."""
    return frozenset(facts.nodes_of(rows, rows.where(kind="trace", f="opened"))) | catalogue(rows).last(BROKER).keys()


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a broker by a fault, and the slices that it owned then: the row that opened each, and its epoch."""

    fault: Fault
    broker: str
    owned: dict[str, int]


def _ends(rows: Rows) -> Iterator[_End]:
    """Yield the ends of brokers that owned slices, each fault by itself."""
    brokers, times = _brokers(rows), rows.column("time_ns")
    changes = np.sort(np.concatenate([rows.where(kind="trace", f=f) for f in ("opened", "closed_slice")]))
    for fault in rows.memo(facts.faults):
        for broker in sorted(fault.hits(*ENDS) & brokers):
            owned: dict[str, int] = {}
            for at in changes[times[changes] <= fault.began_ns].tolist():
                name, is_opened = str(rows.value(at).get("slice", "")), rows.text("f", at) == "opened"
                if rows.text("node", at) == broker and is_opened:
                    owned[name] = at
                elif is_opened or rows.text("node", at) == broker:
                    owned.pop(name, None)
            if owned:
                yield _End(fault, broker, owned)


def _opened_in_time(rows: Rows, context: RunContext, found: Findings, end: _End) -> None:
    """Check that each slice of a dead broker is open again within the bound. What another fault hinders is due again
    once that is long over; and so is it by this very fault where it touches others, or leaves no other broker."""
    times, epoch = rows.column("time_ns"), rows.column("epoch")
    bound_s = facts.bound(context, "available_s", OPEN_S)
    due = due_ns(end.fault.from_ns, _hindrances(rows, end), int(bound_s * 1e9))
    stop_ns = facts.phase_time(rows, "stop")
    if due > (stop_ns if stop_ns >= 0 else last_reported_ns(rows)):
        return
    opened = rows.where(kind="trace", f="opened")
    for name, at in sorted(end.owned.items()):
        later = [one for one in opened[epoch[opened] > epoch[at]].tolist() if rows.value(one).get("slice") == name]
        if min((int(times[one]) for one in later), default=NEVER) > due:
            found.add(
                OPENED_LATE,
                f"{end.broker}, which owned {name} in epoch {int(epoch[at])}, ended at "
                f"{facts.in_s(end.fault.from_ns - rows.memo(load_began_ns))}, and {bound_s:g} s later, or after the "
                "last fault that hindered it, no broker had opened it again.",
                int(rows.column("index")[at]),
                end.fault.index,
            )


def _hindrances(rows: Rows, end: _End) -> list[Span]:
    brokers = _brokers(rows)
    harms = [effect for effect in Effect if effect not in HARMLESS]
    is_one = bool(end.fault.hits(*harms) - brokers) or brokers <= end.fault.hits(*ENDS)
    return [*disturbances(rows, but=end.fault), *(spans([end.fault]) if is_one else [])]


def create(options: Options) -> Stateless:
    return Stateless()
