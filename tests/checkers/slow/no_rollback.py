"""What replicas confirmed, row by row: the oracle of the kernel in ``checkers/no_rollback.py``."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chaos.findings import Findings, decide
from chaos.kernel import Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.arrays import Ints
from checkers.no_rollback.cuts import CONFIRM_ROLLBACK
from checkers.no_rollback.others import OTHERS
from checkers.no_rollback.own_log import OWN_LOG
from checkers.no_rollback.promise import CONFIRM_BEYOND_SET, PROMISE

#: What both kernels need that this is the oracle of.
BOTH = replace(OWN_LOG, rows=(*OWN_LOG.rows, *OTHERS.rows))


@dataclass(frozen=True, slots=True)
class Confirms:
    """Replicas: what one has called confirmed stays in its log, and every later master has it."""

    promise: Promise = PROMISE
    needs: Needs = BOTH

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        confirms, acked = (rows.where(kind="trace", f=f) for f in ("confirm", "acked"))
        told = Partial(counts={"confirming_nodes": len(_one_each(rows, confirms))})
        assert context.strict  # what a weaker profile permits is compared in test_losses.py
        for node in sorted({rows.text("node", at) for f in (confirms, acked) for at in _one_each(rows, f)}):
            found = Findings(PROMISE)
            _never_cut_below(rows, found, node)
            _what_is_acked_is_confirmed(rows, found, node)
            told = told.merge(found.partial())
        found = Findings(PROMISE)
        _masters_have_all(rows, found, confirms)
        _whole_set_has(rows, context, found, confirms)
        return told.merge(found.partial())

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial)


def _one_each(rows: Rows, at: Ints) -> Ints:
    _, first = np.unique(rows.column("node")[at], return_index=True)
    return at[first]


def _never_cut_below(rows: Rows, found: Findings, node: str) -> None:
    """A node never truncates, nor comes back from a crash, nor ends, below what it has confirmed; and as one and the
    same master it never takes back what it called confirmed.

    Two things are lawful: a disk that is another one or went back in time (its word is new, or its own count of lives
    doesn't go on), and dropping the whole log to begin anew from the tier, if the ``bootstrap`` follows before anything
    else is confirmed.
    """
    position = rows.column("position")
    kinds = ("confirm", "truncate", "recovered", "start", "bootstrap", "retention")
    highest, witness, generation, disk, first, dropped, last = -1, -1, -1, "", 0, -1, -1

    def tell(at: int) -> None:
        _tell_cut(rows, found, witness, at, int(position[at]))

    for at in facts.node_traces(rows, node, *kinds).tolist():
        f, where = rows.text("f", at), int(position[at])
        if f == "start":
            told = rows.value(at)
            now, word = int(told.get("generation", generation + 1)), str(told.get("disk", ""))
            if now <= generation or word != disk:
                highest, dropped, first = -1, -1, 0
            generation, disk = now, word
        elif f == "bootstrap":
            highest, dropped, first = -1, -1, where
        elif f == "retention":
            first = where
        elif f == "confirm":
            if dropped >= 0:
                tell(dropped)
                highest, dropped = -1, -1
            if where < highest and _one_term(rows, last, at):
                tell(at)
            last = at
            if where > highest:
                highest, witness = where, at
        elif where < highest and dropped < 0:
            if f == "truncate" and where <= first:
                dropped = at
            else:
                tell(at)
                highest = -1
        if f == "recovered":
            first = int(rows.value(at).get("first", first))
    for at in rows.where(kind="final", f="node", node=node).tolist():
        end = rows.value(at).get("end")
        if dropped < 0 and isinstance(end, int) and end < highest:
            _tell_cut(rows, found, witness, at, end)


def _one_term(rows: Rows, before: int, after: int) -> bool:
    """Are these two confirm offsets told by one and the same master, in one life?"""
    if before < 0 or any(rows.column(name)[before] != rows.column(name)[after] for name in ("incarnation", "epoch")):
        return False
    return "set" in rows.value(before) and "set" in rows.value(after)


def _tell_cut(rows: Rows, found: Findings, witness: int, at: int, end: int) -> None:
    """``witness`` is the row of the confirm offset that was lost, ``at`` the one that shows the loss."""
    verb = {
        "truncate": "cut its log back to position",
        "confirm": "called, as the same master, no more confirmed than position",
        "node": "has a log after the run that ends at position",
    }.get(rows.text("f", at), "came back with a log that ends at position")
    index = rows.column("index")
    found.add(
        CONFIRM_ROLLBACK,
        f"{rows.text('node', at)} had confirmed position {int(rows.column('position')[witness])} at "
        f"{facts.at_s(rows, witness)}, but {verb} {end} at {facts.at_s(rows, at)}.",
        int(index[witness]),
        int(index[at]),
    )


def _whole_set_has(rows: Rows, context: RunContext, found: Findings, confirms: Ints) -> None:
    """What a master calls confirmed, each member that it counts on has told it to have and has on its disk (in a
    simulated run: by then; elsewhere: at some time)."""
    position, index = rows.column("position"), rows.column("index")
    ends = rows.memo(durable_ends)
    for at in confirms.tolist():
        told, end = rows.value(at), int(position[at])
        acks = told.get("acks")
        for member in sorted({*(told.get("set") or ()), *(told.get("proposed") or ())}):
            said = int(acks.get(member, -1)) if isinstance(acks, dict) else end
            if said < end:
                had = f"had reported only {max(0, said)} to it"
            elif member not in ends:
                found.gap(f"{member} reported nothing of what is durable on its disk")
                continue
            elif (durable := _durable(context, *ends[member], int(index[at]))) < end:
                had = f"had only {max(0, durable)} on its disk"
            else:
                continue
            what = f"called position {end} confirmed, though {member}, a member of its SyncStateSet, {had}"
            _tell_beyond(rows, found, at, what)


def _what_is_acked_is_confirmed(rows: Rows, found: Findings, node: str) -> None:
    """What a master gives an ok for is confirmed."""
    position = rows.column("position")
    acked = rows.where(kind="trace", f="acked", node=node)
    for at in acked[rows.numbers("confirm", acked) < position[acked]].tolist():
        known = rows.value(at).get("confirm")
        if isinstance(known, int):
            what = f"gave an ok for a record that ends at {int(position[at])}, when it had confirmed {known}"
            _tell_beyond(rows, found, at, what)


def _tell_beyond(rows: Rows, found: Findings, at: int, what: str) -> None:
    found.add(
        CONFIRM_BEYOND_SET,
        f"{rows.text('node', at)}, master of epoch {int(rows.column('epoch')[at])}, {what} ({facts.at_s(rows, at)}).",
        int(rows.column("index")[at]),
    )


def _durable(context: RunContext, indexes: Ints, ends: Ints, at_index: int) -> int:
    """How far a replica's log was on its disk when the row ``at_index`` was written, -1 if it had not told."""
    if not context.one_clock:
        return int(ends.max())
    place = int(np.searchsorted(indexes, at_index, side="right")) - 1
    return int(ends[place]) if place >= 0 else -1


def _masters_have_all(rows: Rows, found: Findings, confirms: Ints) -> None:
    """The log of a new master reaches every position that was confirmed under an older epoch."""
    position, epoch, index = (rows.column(name) for name in ("position", "epoch", "index"))
    by_epoch = confirms[np.argsort(epoch[confirms], kind="stable")]
    highest = np.maximum.accumulate(position[by_epoch])
    for at in rows.where(kind="trace", f="role"):
        told = rows.value(at)
        start = told.get("start", -1)
        if told.get("role") != "master" or not isinstance(start, int) or start < 0:
            continue
        older = int(np.searchsorted(epoch[by_epoch], epoch[at]))
        if older and int(highest[older - 1]) > start:
            witness = int(by_epoch[np.argmax(position[by_epoch[:older]])])
            found.add(
                CONFIRM_ROLLBACK,
                f"{rows.text('node', witness)} had confirmed position {int(position[witness])} in epoch "
                f"{int(epoch[witness])} at {facts.at_s(rows, witness)}, but the log of {rows.text('node', at)} ended "
                f"at {start} when it became master of epoch {int(epoch[at])}.",
                int(index[witness]),
                int(index[at]),
            )


def durable_ends(rows: Rows) -> dict[str, tuple[Ints, Ints]]:
    """Node → (indexes, durable end of its log from there on). What is cut off is gone; for a disk that the run
    itself destroys its former word still counts."""
    kinds = ("synced", "recovered", "bootstrap", "truncate")
    at = np.sort(np.concatenate([rows.where(kind="trace", f=f) for f in kinds]))
    node, position, f = rows.column("node")[at], rows.column("position"), rows.column("f")
    cut, ends = rows.code("f", "truncate"), {}
    for code in np.unique(node):
        mine = at[node == code]
        now, steps = -1, []
        for end, is_cut in zip(position[mine].tolist(), (f[mine] == cut).tolist(), strict=True):
            now = min(now, end) if is_cut else max(now, end)
            steps.append(now)
        ends[rows.text("node", mine[0])] = (rows.column("index")[mine], np.array(steps, dtype=np.int64))
    return ends
