"""Readers go on from where they stand: they leave nothing out, and are given nothing again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts import later, losses
from checkers._facts.arrays import Flags, Ints, groups
from checkers.log.positions import UNKNOWN, Moves, Readers
from checkers.log.promise import (
    INT_NONMONOTONIC_POLL,
    INT_POLL_SKIP,
    MEMBER_NONMONOTONIC_POLL,
    MEMBER_POLL_SKIP,
    NONMONOTONIC_POLL,
    POLL_SKIP,
)
from checkers.log.rows import Given
from checkers.log.visible import Visible, held


@dataclass(frozen=True, slots=True)
class Steps:
    """Messages that followed others, or a move: ``at``, at this ``offset`` of a ``queue``, where the one from
    ``expected`` on was due since the row ``before``. ``inside``: of one read or transaction."""

    at: Ints
    queue: Ints
    offset: Ints
    before: Ints
    expected: Ints
    inside: Flags
    member: Flags

    @classmethod
    def of(cls, rows: Rows) -> Steps:
        given, moves, readers = rows.memo(Given.of), Moves.of(rows), rows.memo(Readers.of)
        reader = readers.at(rows, given.at)
        reader[~given.is_poll] = -2 - given.op[~given.is_poll]  # such a read has no position but its own
        moved = np.append(np.zeros(len(given.at), np.bool_), np.ones(len(moves.at), np.bool_))
        at, reader, queue = (np.append(*both) for both in zip(_own(given, reader), _moved(moves), strict=True))
        order = np.argsort(at, kind="stable")
        order = order[groups(reader[order], queue[order])[0]]
        at, reader, queue, moved = at[order], reader[order], queue[order], moved[order]
        unit = np.append(given.unit, np.full(len(moves.at), -1))[order]
        holds = np.append(given.holds, np.ones(len(moves.at), np.bool_))[order]
        offset = np.append(given.offset, moves.following)[order]
        following = np.where(moved, offset, offset + 1)
        number = np.arange(len(order))
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (reader[1:] != reader[:-1]) | (queue[1:] != queue[:-1])
        first = np.maximum.accumulate(np.where(begins, number, 0))
        inside = ~begins & ~moved & ~np.append(True, moved[:-1])[: len(order)]
        inside[1:] &= unit[1:] == unit[:-1]
        standing = np.append(-1, np.maximum.accumulate(np.where(holds, number, -1)))[: len(order)]
        before = np.where(inside, number - 1, standing)
        judged = ~moved & (before >= first) & (following[before] != UNKNOWN)
        before = before[judged]
        columns = at[judged], queue[judged], offset[judged], at[before], following[before], inside[judged]
        return cls(*columns, readers.are_members(reader[judged]))

    def only(self, keep: Flags | Ints) -> Steps:
        """Return some of them."""
        return Steps(*(getattr(self, name)[keep] for name in self.__slots__))

    def names(self, inside: str, member: str, other: str) -> list[tuple[str, Flags]]:
        """Return which of them are to be called what."""
        return [(inside, self.inside), (member, ~self.inside & self.member), (other, ~self.inside & ~self.member)]


def _own(given: Given, reader: Ints) -> tuple[Ints, Ints, Ints]:
    return given.at, reader, given.queue


def _moved(moves: Moves) -> tuple[Ints, Ints, Ints]:
    return moves.at, moves.reader, moves.queue


def check(rows: Rows, context: RunContext, found: Findings) -> None:
    """Hold what each reader was given against what stands in the queues."""
    steps = Steps.of(rows)
    found.count("log_steps", len(steps.at))
    _went_back(rows, context, found, steps.only(steps.offset < steps.expected))
    ahead = steps.only(steps.offset > steps.expected)
    for mine, visible in held(rows, context, ahead.at):
        some = ahead.only(mine)
        many, first = visible.between(some.queue, some.expected, some.offset)
        skips = np.flatnonzero(many > 0)
        _skipped(rows, found, some.only(skips), visible, many[skips], first[skips])


def _went_back(rows: Rows, context: RunContext, found: Findings, steps: Steps) -> None:
    permits = losses.cuts(rows, context, confirmed=False)
    apart = permits.separate(rows, steps.before, steps.at)
    losses.note(found, rows, permits, steps.before[apart], steps.at[apart])
    steps = steps.only(~apart)

    def report_all(name: str, mine: Ints) -> None:
        def report(place: int) -> None:
            _report(
                rows, found, name, steps, place, f"where offset {int(steps.expected[place])} was due or a later one"
            )

        acted_ns = facts.since_load_ns(rows, steps.at[mine])
        found.add_each(name, mine, report, queues=steps.queue[mine], acted_ns=acted_ns)

    for name, flags in steps.names(INT_NONMONOTONIC_POLL, MEMBER_NONMONOTONIC_POLL, NONMONOTONIC_POLL):
        report_all(name, np.flatnonzero(flags))


def _skipped(rows: Rows, found: Findings, steps: Steps, visible: Visible, many: Ints, first: Ints) -> None:
    def report_all(name: str, mine: Ints) -> None:
        def report(place: int) -> None:
            at = int(visible.at[first[place]])
            others = f" and {int(many[place]) - 1} more" if many[place] > 1 else ""
            why = f"past offset {int(visible.offset[first[place]])}, where {later.name(rows, at)} stands{others}"
            _report(rows, found, name, steps, place, why, at)

        acted_ns = facts.since_load_ns(rows, steps.at[mine])
        found.add_each(name, mine, report, queues=steps.queue[mine], acted_ns=acted_ns)

    for name, flags in steps.names(INT_POLL_SKIP, MEMBER_POLL_SKIP, POLL_SKIP):
        report_all(name, np.flatnonzero(flags))


def _report(rows: Rows, found: Findings, name: str, steps: Steps, place: int, why: str, witness: int = -1) -> None:
    index, at, before = rows.column("index"), int(steps.at[place]), int(steps.before[place])
    shown = [before, at] if witness < 0 else [before, at, witness]
    found.add(
        name,
        f"{rows.text('process', at)}, which had been sent to offset {int(steps.expected[place])} of queue "
        f"{int(steps.queue[place])} at {facts.at_s(rows, before)}, was given offset {int(steps.offset[place])} at "
        f"{facts.at_s(rows, at)}, {why}.",
        *(int(index[row]) for row in sorted(shown)),
        queue=int(steps.queue[place]),
        offset=int(steps.offset[place]),
        message=int(rows.column("message")[at]),
    )
