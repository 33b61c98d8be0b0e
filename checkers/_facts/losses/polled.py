"""Losses where replicas only report their roles when they are polled: who led when a message was acknowledged, who led
later, and what faults had done to that one by then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER, Ints, places_in
from checkers._facts.faults import Fault
from checkers._facts.losses import by_faults, weakness
from checkers._facts.losses.explained import Explained, Lost
from checkers._facts.losses.terms import terms


@dataclass(frozen=True, slots=True)
class Reign:
    """A replica said that it is the master (at ``since_ns`` first, at ``until_ns`` last, before another one said so).
    ``in_sync``: whom it counted on in its last answer; None where it doesn't say."""

    node: str
    epoch: int
    since_ns: int
    until_ns: int
    in_sync: frozenset[str] | None


def reigns(rows: Rows) -> Mapping[str, Sequence[Reign]]:
    """Return those of each group, in the order of their beginnings. A replica that believes to be master after another
    one of its group has said so of a later epoch is behind, and begins none."""
    states = np.sort(rows.where(kind="poll", f="state", type="ok"))
    times, epochs = rows.column("time_ns"), rows.column("epoch")
    said = [(int(times[at]), rows.text("node", at), int(epochs[at]), rows.value(at)) for at in states.tolist()]
    groups = {str(value.get("group", "")) for *_, value in said}
    only = next(iter(groups)) if len(groups) == 1 else ""
    for term in rows.memo(terms):
        group = term.group if term.group in groups else only
        said.append((int(times[term.at]), term.node, term.epoch, {"role": "master", "group": group}))
    found: dict[str, list[Reign]] = {}
    for now_ns, node, epoch, value in sorted(said, key=lambda one: one[0]):
        mine = found.setdefault(str(value.get("group", "")), [])
        if value.get("role") != "master" or (mine and 0 <= epoch < mine[-1].epoch):
            continue
        names = value.get("set")
        in_sync = frozenset(map(str, names)) if isinstance(names, Sequence) and not isinstance(names, str) else None
        if mine and (mine[-1].node, mine[-1].epoch) == (node, epoch):
            mine[-1] = Reign(node, epoch, mine[-1].since_ns, now_ns, in_sync or mine[-1].in_sync)
        else:
            mine.append(Reign(node, epoch, now_ns, now_ns, in_sync))
    return {group: mine for group, mine in found.items() if mine}


def queues_of(rows: Rows, context: RunContext) -> Mapping[str, frozenset[int] | None]:
    """Return the queues of each group that was polled; None for all, where there is one group."""
    groups = rows.memo(reigns)
    if len(groups) == 1:
        return dict.fromkeys(groups)
    return {group: frozenset(one.index for one in context.meta.queues if one.group == group) for group in groups}


def explain(rows: Rows, context: RunContext, at: Ints, found: Explained, *, acked: bool) -> None:
    """Explain losses by who led when. ``at``: the rows that reported the records to clients."""
    times, queue, known = rows.column("time_ns"), rows.column("queue"), queues_of(rows, context)
    for number, row in enumerate(at.tolist()):
        mine, now_ns = np.array([number]), int(times[row])
        of = [group for group, queues in known.items() if queues is None or int(queue[row]) in queues]
        every = rows.memo(reigns)[of[0]] if of else []
        old = _reign_of(rows, row, every) if of else None
        if old is None:
            found.say(mine, Lost.UNDECIDED, "and it is unknown which replica had reported it, or led then")
            continue
        later = [reign for reign in every if reign.until_ns > now_ns and reign.epoch >= old.epoch]
        sent_ns = _sent_ns(rows, row) if acked else 0
        _Loss(rows, context, found, mine, sent_ns, now_ns, old).explain(later, acked=acked)


def _reign_of(rows: Rows, row: int, every: Sequence[Reign]) -> Reign | None:
    """Return the reign under which this row was reported to a client: of the node that answered, or of the one that led
    last by then."""
    now_ns, node, epoch = int(rows.column("time_ns")[row]), rows.text("node", row), int(rows.column("epoch")[row])
    if node:
        own = [reign for reign in every if reign.node == node and (epoch < 0 or reign.epoch in (-1, epoch))]
        before = [reign for reign in own if reign.since_ns <= now_ns]
        return (before or own or [Reign(node, epoch, now_ns, now_ns, None)])[-1 if before else 0]
    before = [reign for reign in every if reign.since_ns <= now_ns]
    return before[-1] if before else None


def _sent_ns(rows: Rows, row: int) -> int:
    """Return when the send that this row ended began."""
    place, known = places_in(rows.column("index"), rows.column("op")[[row]])
    return int(rows.column("time_ns")[place[0]]) if known[0] else 0


@dataclass(frozen=True, slots=True)
class _Loss:
    """One record that there was since ``sent_ns`` at the earliest, that was reported to a client at ``now_ns`` under
    the reign ``old``, and is gone."""

    rows: Rows
    context: RunContext
    found: Explained
    number: Ints
    sent_ns: int
    now_ns: int
    old: Reign

    def explain(self, later: Sequence[Reign], *, acked: bool) -> None:
        profile = self.context.profile
        others = [reign for reign in later if reign.node != self.old.node]
        if acked and profile.acks != "all" and others:
            self._by_few_copies(others[0])
        if profile.unclean and others:
            self._by_unclean(others[0])
        if profile.flush == "async":
            self._by_power_cut(later)
        if profile.min_in_sync < 2:
            self._by_one_in_sync(others)

    def _say(self, state: Lost, why: str) -> None:
        self.found.say(self.number, state, why)

    def _by_few_copies(self, new: Reign) -> None:
        if self.context.profile.acks == "master":
            when = weakness.at_time(self.rows, new.since_ns)
            self._say(Lost.PERMITTED, f"`acks: master` allows at the switch to {new.node} by {when}")
        else:
            self._say(Lost.UNDECIDED, f"and it is unknown whether {new.node} was one of the copies that were awaited")

    def _by_unclean(self, new: Reign) -> None:
        if self.old.in_sync is None:
            self._say(Lost.UNDECIDED, f"and it is unknown whether {new.node} was in sync when it became the master")
        elif new.node not in self.old.in_sync:
            when = weakness.at_time(self.rows, new.since_ns)
            self._say(Lost.PERMITTED, f"{weakness.UNCLEAN} allows at the switch to {new.node} by {when}")

    def _by_power_cut(self, later: Sequence[Reign]) -> None:
        """Explain the loss by a power cut in which a replica that led afterwards had lost data: one that did not come
        before the record, and on the node that answered not so late that the record must have been on its disk."""
        for reign in later:
            own = reign.node == self.old.node
            window = by_faults.window_ns(self.context) if own else NEVER
            until_ns, lost = reign.until_ns if own else reign.since_ns, weakness.lost_unsynced(reign.node)

            def took(fault: Fault, window: int = window, lost: Callable[[Fault], bool] = lost) -> bool:
                return lost(fault) and self.sent_ns <= fault.from_ns and fault.began_ns - self.now_ns <= window

            sure, perhaps = weakness.struck(self.rows, reign.node, self.now_ns, until_ns, took)
            if sure is not None:
                self._say(
                    Lost.PERMITTED, f"{weakness.ASYNC} allows at {weakness.described(self.rows, sure, reign.node)}"
                )
            elif perhaps is not None:
                self._say(Lost.UNDECIDED, f"and it is unknown whether {perhaps.process} cut the power of {reign.node}")

    def _by_one_in_sync(self, others: Sequence[Reign]) -> None:
        """Explain the loss by the master: it was alone in sync, and lost its disk."""
        only, until_ns = self.old.node, others[0].since_ns if others else self.old.until_ns
        sure, perhaps = weakness.struck(self.rows, only, self.now_ns, until_ns, weakness.lost_disk(only))
        fault = sure or perhaps
        if fault is None:
            return
        if sure is None or self.old.in_sync is None:
            self._say(Lost.UNDECIDED, f"and it is unknown whether {only} was alone in sync before {fault.process}")
        elif self.old.in_sync <= {only}:
            self._say(Lost.PERMITTED, f"{weakness.ONE_IN_SYNC} allows at {weakness.described(self.rows, sure, only)}")
