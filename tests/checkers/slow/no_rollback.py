"""What was confirmed stays, row by row: the oracle of ``checkers/no_rollback/own_log.py`` and ``others.py``. It tells
no story: explanations are the kernels' own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from chaos.findings import Findings, decide
from chaos.history.columns import COLUMNS
from chaos.kernel import Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers.no_rollback.cuts import CONFIRM_ROLLBACK
from checkers.no_rollback.others import OTHERS
from checkers.no_rollback.own_log import OWN_LOG
from checkers.no_rollback.promise import CONFIRM_BEYOND_SET, PROMISE
from tests.checkers.slow.plain import Row, row, some

#: What both kernels need that this is the oracle of.
BOTH = replace(OWN_LOG, rows=(*OWN_LOG.rows, *OTHERS.rows), columns=COLUMNS)


@dataclass(frozen=True, slots=True)
class Confirms:
    promise: Promise = PROMISE
    needs: Needs = BOTH

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        assert context.strict  # what a weaker profile permits is compared in test_losses.py
        confirms, acked = some(rows, "trace", "confirm"), some(rows, "trace", "acked")
        told = Partial(counts={"confirming_nodes": len({one.node for one in confirms})})
        for node in sorted({one.node for one in (*confirms, *acked)}):
            found = Findings(PROMISE)
            _never_goes_back(rows, found, node)
            for one in acked:
                known = one.value.get("confirm")
                if one.node == node and isinstance(known, int) and (-1 if known is True else known) < one.position:
                    found.add(CONFIRM_BEYOND_SET, "", one.index)
            told = told.merge(found.partial())
        found = Findings(PROMISE)
        _masters_have_all(rows, found, confirms)
        _members_have_all(rows, context, found, confirms)
        return told.merge(found.partial())

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial)


@dataclass(slots=True)
class _Replica:
    """What a replica is bound by: the ``highest`` row of those by which it confirmed something. ``dropped``: it has
    dropped its whole log by this row, and may begin again from the tier."""

    highest: Row | None = None
    dropped: Row | None = None
    last: Row | None = None
    first: int = 0
    lives: int = -1
    disk: str = ""
    broken: list[tuple[Row, Row]] = field(default_factory=list)

    @property
    def bound(self) -> int:
        return -1 if self.highest is None else self.highest.position

    def breaks(self, at: Row) -> None:
        assert self.highest is not None
        self.broken.append((self.highest, at))

    def free(self, first: int | None = None) -> None:
        """Nothing binds it any more, but what comes; its log begins at ``first`` now."""
        self.highest = self.dropped = None
        self.first = self.first if first is None else first

    def live(self, one: Row) -> None:
        match one.f:
            case "start":
                lives, disk = int(one.value.get("generation", self.lives + 1)), str(one.value.get("disk", ""))
                if lives <= self.lives or disk != self.disk:  # another disk, or one that went back in time
                    self.free(0)
                self.lives, self.disk = lives, disk
            case "bootstrap":
                self.free(one.position)
            case "retention":
                self.first = one.position
            case "confirm":
                self._confirm(one)
            case _:
                self._shrink(one)

    def _confirm(self, one: Row) -> None:
        if self.dropped is not None:
            self.breaks(self.dropped)
            self.free()
        if one.position < self.bound and self.last is not None and _as_one_master(self.last, one):
            self.breaks(one)
        self.last = one
        if one.position > self.bound:
            self.highest = one

    def _shrink(self, one: Row) -> None:
        """It cuts its log, or comes back with what is left of it."""
        if one.position < self.bound and self.dropped is None:
            if one.f == "truncate" and one.position <= self.first:
                self.dropped = one
            else:
                self.breaks(one)
                self.highest = None
        if one.f == "recovered":
            self.first = int(one.value.get("first", self.first))


def _as_one_master(before: Row, after: Row) -> bool:
    life, epoch = before.incarnation == after.incarnation, before.epoch == after.epoch
    return life and epoch and "set" in before.value and "set" in after.value


def _never_goes_back(rows: Rows, found: Findings, node: str) -> None:
    """What a replica called confirmed stays in its log, and as one and the same master it never calls less confirmed.
    It may lose all with its disk, and may drop all to begin again from the tier, before it confirms anything else."""
    names = ("confirm", "truncate", "recovered", "start", "bootstrap", "retention")
    mine = [one for one in some(rows, "trace", *names) if one.node == node]
    phases = [row(rows, at) for at in rows.where(kind="harness", f="phase").tolist()]
    asked = [one.index for one in phases if one.value.get("phase") == "collect"]
    replica, then = _Replica(), _Replica()  # ``then``: as it was when the nodes were asked for their logs
    for one in sorted(mine, key=lambda one: (one.incarnation, one.step, one.index)):
        replica.live(one)
        if not (asked and one.f == "confirm" and one.index > asked[0]):
            then.live(one)
    then.broken.clear()
    for one in some(rows, "final", "node"):
        end = one.value.get("end")
        if one.node == node and then.dropped is None and isinstance(end, int) and end < then.bound:
            then.breaks(one)
    for confirm, at in [*replica.broken, *then.broken]:
        found.add(CONFIRM_ROLLBACK, "", confirm.index, at.index)


def _masters_have_all(rows: Rows, found: Findings, confirms: Sequence[Row]) -> None:
    """The log of a new master goes as far as anything that was confirmed in an older epoch."""
    for one in some(rows, "trace", "role"):
        start = one.value.get("start", -1)
        older = [confirm for confirm in confirms if confirm.epoch < one.epoch]
        if one.value.get("role") != "master" or not isinstance(start, int) or start < 0 or not older:
            continue
        furthest = min(older, key=lambda confirm: (-confirm.position, confirm.epoch, confirm.at))
        if furthest.position > start:
            found.add(CONFIRM_ROLLBACK, "", furthest.index, one.index)


def _members_have_all(rows: Rows, context: RunContext, found: Findings, confirms: Sequence[Row]) -> None:
    """On whom a master counts has told it to have what it confirms, and has it on its disk: by then, where one clock
    orders all rows; else at any time."""
    disks: dict[str, list[tuple[int, int]]] = {}
    for one in some(rows, "trace", "synced", "recovered", "bootstrap", "truncate"):
        words = disks.setdefault(one.node, [(-1, -1)])
        end = words[-1][1]
        words.append((one.index, min(end, one.position) if one.f == "truncate" else max(end, one.position)))
    for one in confirms:
        acks = one.value.get("acks")
        for member in sorted({*(one.value.get("set") or ()), *(one.value.get("proposed") or ())}):
            said = int(acks.get(member, -1)) if isinstance(acks, dict) else one.position
            words = disks.get(member)
            if said < one.position:
                found.add(CONFIRM_BEYOND_SET, member, one.index)
            elif words is None:
                found.gap(f"{member} reported nothing of what is durable on its disk")
            else:
                ends = [end for index, end in words if not context.one_clock or index <= one.index]
                if (ends[-1] if context.one_clock else max(ends)) < one.position:
                    found.add(CONFIRM_BEYOND_SET, member, one.index)
