"""Who was master under which epoch, and from when to when, as the nodes reported it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.events import Role
from chaos.history.history import History
from chaos.history.row import Row
from reports.faults import FaultLine


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterTerm:
    """One node as the master of one epoch, in seconds since the load began. ``group`` is "" where there is one."""

    group: str
    node: str
    epoch: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochChange:
    """The step of a group from one master to the next. Either is None if nobody reported it."""

    group: str
    before: MasterTerm | None
    after: MasterTerm | None

    @property
    def at_s(self) -> float:
        return self.after.start_s if self.after is not None else self.before.end_s if self.before is not None else 0.0

    @property
    def two_masters_s(self) -> float:
        """How long the old master kept its role after the new one had taken it."""
        if self.before is None or self.after is None or self.before.node == self.after.node:
            return 0.0
        return max(0.0, self.before.end_s - self.after.start_s)


def master_terms(history: History, faults: Sequence[FaultLine]) -> list[MasterTerm]:
    """Return all master terms, by group and epoch. One ends with the next role that its node takes in the group, with a
    fault that was proven to end the node's life, or with the run.

    Where nodes trace no roles, a term is what a node answered when it was asked: then it begins and ends with the first
    answer that shows it."""
    roles = sorted(history.each(Role), key=lambda row: (row.node, row.in_node_order)) or _as_polled(history)
    found = []
    for place, row in enumerate(roles):
        if row.value.get("role") != "master":
            continue
        group, start_s = str(row.value.get("group", "")), row.at_s
        later = (
            other.at_s
            for other in roles[place + 1 :]
            if other.node == row.node and str(other.value.get("group", "")) == group
        )
        ended = [fault.start_s for fault in faults if row.node in fault.ended and fault.start_s > start_s]
        end_s = min([next(later, history.end_s), *ended])
        found.append(MasterTerm(group=group, node=row.node, epoch=row.epoch, start_s=start_s, end_s=end_s))
    return sorted(found, key=lambda term: (term.group, term.epoch, term.start_s))


def _as_polled(history: History) -> list[Row]:
    """Return the answers to polls by which a node's role in a group changed, by node and time."""
    found: list[Row] = []
    last: dict[tuple[str, str], tuple[object, int]] = {}
    for row in sorted(history.each("poll", "state"), key=lambda row: (row.node, row.time_ns)):
        if row.type != "ok" or "role" not in row.value:
            continue
        mine, role = (row.node, str(row.value.get("group", ""))), (row.value["role"], row.epoch)
        if last.get(mine) != role:
            found.append(row)
        last[mine] = role
    return found


def two_masters(terms: Sequence[MasterTerm]) -> list[tuple[float, float]]:
    """Return from when to when the old master of a group kept its role after a new one had taken it."""
    changes = (change_to(terms, term.group, term.epoch) for term in terms)
    return [
        (change.at_s, change.at_s + change.two_masters_s) for change in changes if change and change.two_masters_s > 0
    ]


def change_after(terms: Sequence[MasterTerm], group: str, epoch: int) -> EpochChange | None:
    """Return the change that ended this epoch; None if there was no later one."""
    later = [term for term in terms if term.group == group and term.epoch > epoch]
    return change_to(terms, group, later[0].epoch) if later else None


def change_to(terms: Sequence[MasterTerm], group: str, epoch: int) -> EpochChange | None:
    """Return the change that began this epoch; None if nobody was its master."""
    mine = [term for term in terms if term.group == group]
    after = next((term for term in mine if term.epoch == epoch), None)
    if after is None:
        return None
    earlier = [term for term in mine if term.epoch < epoch and term.start_s < after.start_s]
    before = max(earlier, key=lambda term: term.start_s, default=None)
    return EpochChange(group=group, before=before, after=after)
