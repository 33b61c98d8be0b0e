"""When the profile permits that something is gone.

A cut is a new master term, or a time around a fault, at which a weakness of the profile may have taken something away.
What was reported before it need not hold after it. A run without a cut is judged as a strict one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from chaos.driver import Evidence
from chaos.fault import Effect
from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER, Flags, Ints
from checkers._facts.faults import Fault, faults
from checkers._facts.losses import by_faults, polled, weakness
from checkers._facts.losses.explained import Lost
from checkers._facts.losses.terms import Term, elections, terms
from checkers._facts.nodes.logs import node_traces

#: Epochs, times and queues of rows.
When = tuple[Ints, Ints, Ints]
#: A gap.
UNDECIDED = "it is unknown whether the profile permits some of what was taken back"


@dataclass(frozen=True, slots=True)
class Cut:
    """A new master term ``epoch``: what was reported in older ones may be gone in it and in later ones. Where no terms
    are known (-1), or something carries no epoch: what was reported from ``since_ns`` until ``until_ns`` may be gone
    from ``from_ns`` on. ``certain``: a weakness explains it, else one may. ``confirmed``: also what the whole
    SyncStateSet had may be gone, not only what was reported to producers. ``queues``: of which queues; None for all.
    ``weakness``: the words of the profile that explain it; ``where``: of which election or fault, in words that follow
    "allows"."""

    epoch: int
    since_ns: int
    from_ns: int
    until_ns: int
    certain: bool
    confirmed: bool
    weakness: str = ""
    where: str = ""
    queues: frozenset[int] | None = None

    @property
    def why(self) -> str:
        """In words that follow "as"."""
        return f"{self.weakness} allows {self.where}"

    def loosens(self, epoch: Ints, time_ns: Ints, queue: Ints) -> Flags:
        """Return which of what was reported, in these epochs and at these times of these queues, may be gone."""
        by_time: Flags = (time_ns >= self.since_ns) & (time_ns < self.until_ns)
        when = by_time if self.epoch < 0 else np.where(epoch >= 0, epoch < self.epoch, by_time)
        return when & self.concerns(queue)

    def applies(self, epoch: Ints, time_ns: Ints, queue: Ints) -> Flags:
        """Who need not know of that any more."""
        by_time: Flags = time_ns >= self.from_ns
        when = by_time if self.epoch < 0 else np.where(epoch >= 0, epoch >= self.epoch, by_time)
        return when & self.concerns(queue)

    def concerns(self, queue: Ints) -> Flags:
        """Return which of these queues (-1: of none) may lack something since."""
        if self.queues is None:
            return np.ones(len(queue), dtype=np.bool_)
        return np.isin(queue, [-1, *self.queues])


@dataclass(frozen=True, slots=True)
class Cuts:
    """All cuts of one kind. ``crashes_lose``: under asynchronous flush a replica may come back from a crash without
    what it had taken."""

    every: Sequence[Cut]
    crashes_lose: bool = False

    def __bool__(self) -> bool:
        return bool(self.every)

    def separate(self, rows: Rows, earlier: Ints, later: Ints) -> Flags:
        """For each pair of rows: may what the one says be gone when the other says something else?"""
        if not self.every:
            return np.zeros(len(earlier), dtype=np.bool_)  # a kernel of strict runs need not declare all columns
        return self.part(_when(rows, earlier), _when(rows, later))

    def part(self, earlier: When, later: When) -> Flags:
        """Return the same of pairs of (epoch, time, queue)."""
        apart = np.zeros(len(earlier[0]), dtype=np.bool_)
        for cut in self.every:
            apart |= cut.loosens(*earlier) & cut.applies(*later)
        return apart

    def loosened(self, rows: Rows, at: Ints) -> Flags:
        """Return which of these rows report what may be gone at the end of the run."""
        gone = np.zeros(len(at), dtype=np.bool_)
        for cut in self.every:
            gone |= cut.loosens(*_when(rows, at))
        return gone

    def why(self, rows: Rows, at: int) -> tuple[Lost, str]:
        """Return what permits, or may permit, that what this row reported is gone at the end of the run."""
        mine = [cut for cut in self.every if cut.loosens(*_when(rows, np.array([at])))[0]]
        sure = [cut.why for cut in mine if cut.certain]
        if sure:
            return Lost.PERMITTED, sure[0]
        return (Lost.UNDECIDED, UNDECIDED) if mine else (Lost.UNEXPLAINED, "")

    def stretches(self, rows: Rows, later: Ints, earlier: Ints, only_producers: Flags) -> Iterator[tuple[Flags, Flags]]:
        """Yield which of the rows ``later``, and which of the rows ``earlier`` bind them; all of ``later``, in parts.
        Of what was reported to producers alone (``only_producers``) more may be gone."""
        apply = [cut.applies(*_when(rows, later)) for cut in self.every]
        loosen = [cut.loosens(*_when(rows, earlier)) & (cut.confirmed | only_producers) for cut in self.every]
        signature = np.zeros(len(later), dtype=np.int64)
        for one in apply:
            _, signature = np.unique(signature * 2 + one, return_inverse=True)
        for value in np.unique(signature).tolist():
            mine: Flags = signature == value
            first = int(np.argmax(mine))
            binding = np.ones(len(earlier), dtype=np.bool_)
            for one, loose in zip(apply, loosen, strict=True):
                if one[first]:
                    binding &= ~loose
            yield mine, binding

    def between(self, epoch: Ints, queue: Ints) -> Ints:
        """Return for each of these epochs, of these queues, the number of its stretch between cuts: no cut separates
        what has one number in a queue. -1 where it is unknown, since a cut, or what was asked about, has no epoch."""
        number = np.zeros(len(epoch), dtype=np.int64)
        for one in sorted({cut.queues for cut in self.every}, key=lambda queues: queues is not None):
            begins = np.array(sorted({cut.epoch for cut in self.every if cut.queues is None or cut.queues == one}))
            mine = np.ones(len(queue), dtype=np.bool_) if one is None else np.isin(queue, [*one])
            stretch = np.searchsorted(begins, epoch[mine], side="right")
            number[mine] = np.where((epoch[mine] >= 0) & (begins[0] >= 0), stretch, -1)
        return number

    def lost_in_crash(self, rows: Rows, node: str, witness: int, back: int) -> bool:
        """Return whether a replica may have come back (row ``back``) from a crash without what it had at row
        ``witness``."""
        since_ns, until_ns = (int(rows.column("time_ns")[at]) for at in (witness, back))
        struck = weakness.struck(rows, node, since_ns, until_ns, weakness.crashed(node))
        return self.crashes_lose and any(fault is not None for fault in struck)

    @property
    def certain(self) -> Cuts:
        """Those alone that a weakness explains for certain."""
        return replace(self, every=[cut for cut in self.every if cut.certain])

    @property
    def unclean(self) -> Cuts:
        """Those alone by which what was never confirmed before may come to stand where something else was."""
        return replace(self, every=[cut for cut in self.every if cut.weakness == weakness.UNCLEAN])


def _when(rows: Rows, at: Ints) -> When:
    return rows.column("epoch")[at], rows.column("time_ns")[at], rows.column("queue")[at]


def cuts(rows: Rows, context: RunContext, *, confirmed: bool) -> Cuts:
    """Return what may have taken away what was ``confirmed``, or else anything that was reported to anybody. Nothing in
    a strict run."""
    if context.strict:
        return Cuts([])
    every = [cut for cut in _cuts(rows, context) if cut.confirmed or not confirmed]
    return Cuts(every, crashes_lose=context.profile.flush == "async")


def cuts_of_read(rows: Rows, context: RunContext) -> Cuts:
    """Return what may have taken away what readers saw. Where the driver does not declare that they see confirmed data
    only, they may have seen what was reported to producers alone."""
    return cuts(rows, context, confirmed=context.meta.readers_see_confirmed)


def keeps(rows: Rows, context: RunContext, *, confirmed: bool) -> bool:
    """Return whether everything of this kind is owed that a strict profile promises: it is one, or nothing was cut. A
    run that goes on may be cut later."""
    return context.strict or not (context.unfinished or cuts(rows, context, confirmed=confirmed))


def keeps_read(rows: Rows, context: RunContext) -> bool:
    """Return the same of what readers saw."""
    return context.strict or not (context.unfinished or cuts_of_read(rows, context))


def note(found: Findings, rows: Rows, permits: Cuts, earlier: Ints, later: Ints | None = None) -> None:
    """Count what the profile permits: that what the rows ``earlier`` reported is gone when ``later`` ones, or the end
    of the run, show something else. What it may permit, if more were known, is a gap."""
    if len(earlier):
        found.count("permitted_by_policy", len(earlier))
        sure = permits.certain
        if not (sure.loosened(rows, earlier) if later is None else sure.separate(rows, earlier, later)).all():
            found.gap(UNDECIDED)


def _cuts(rows: Rows, context: RunContext) -> Sequence[Cut]:
    if {Evidence.CONFIRM, Evidence.ROLES} <= context.evidence and rows.memo(terms):
        found = [cut for before, term in _successions(rows) for cut in _of_term(rows, context, before, term)]
    elif rows.memo(polled.reigns):
        found = [*_of_reigns(rows, context)]
    else:
        found = [*_of_faults(rows, context)]
    return sorted(set(found), key=lambda cut: (cut.from_ns, cut.until_ns, cut.epoch))


def _successions(rows: Rows) -> Iterator[tuple[Term, Term]]:
    """Each term with the one before it of the same group."""
    groups: dict[str, list[Term]] = {}
    for term in rows.memo(terms):
        groups.setdefault(term.group, []).append(term)
    for mine in groups.values():
        yield from pairwise(mine)


def _of_term(rows: Rows, context: RunContext, before: Term, term: Term) -> Iterator[Cut]:
    profile, now_ns = context.profile, int(rows.column("time_ns")[term.at])
    since_ns = int(rows.column("time_ns")[before.at])
    who = f"{term.node} (epoch {term.epoch}) at {weakness.at_time(rows, now_ns)}"

    def cut(words: str, at: str, *, certain: bool = True, confirmed: bool = True) -> Cut:
        return Cut(term.epoch, -1, now_ns, now_ns, certain, confirmed, words, f"at {at}")

    def by_fault(words: str, node: str, until_ns: int, did: Callable[[Fault], bool]) -> Iterator[Cut]:
        sure, perhaps = weakness.struck(rows, node, since_ns, until_ns, did)
        if (fault := sure or perhaps) is not None:
            yield cut(words, weakness.described(rows, fault, node), certain=sure is not None)

    if profile.unclean and term.clean is not True:
        yield cut(weakness.UNCLEAN, f"the election of {who}", certain=term.clean is False)
    if profile.flush == "async":
        for back_ns in _came_back(rows, term):
            yield from by_fault(weakness.ASYNC, term.node, back_ns, weakness.crashed(term.node))
    if profile.acks != "all" and term.clean is not False:
        known = term.clean is True or Evidence.ELECTIONS not in context.evidence
        yield cut(weakness.acks(profile), f"the switch to {who}", certain=known, confirmed=False)
    if profile.min_in_sync < 2 and rows.memo(elections).alone(term, before.node):
        yield from by_fault(weakness.ONE_IN_SYNC, before.node, now_ns, weakness.lost_disk(before.node))
        if profile.flush == "async":
            yield from by_fault(weakness.ONE_IN_SYNC, before.node, now_ns, weakness.crashed(before.node))


def _came_back(rows: Rows, term: Term) -> list[int]:
    """Return when the master of a term had come back from crashes, before it took the role."""
    lived = node_traces(rows, term.node, "recovered", "role").tolist()
    before = lived[: lived.index(term.at)]
    return [int(rows.column("time_ns")[at]) for at in before if rows.text("f", at) == "recovered"]


def _of_reigns(rows: Rows, context: RunContext) -> Iterator[Cut]:
    """Yield the cuts of each group that was polled; of queues whose group was not, what faults explain."""
    of = polled.queues_of(rows, context)
    for group, queues in of.items():
        for cut in _of_group(rows, context, rows.memo(polled.reigns)[group]):
            yield replace(cut, queues=queues)
    known = [queues for queues in of.values() if queues is not None]
    others = frozenset(queue.index for queue in context.meta.queues).difference(*known)
    if len(known) == len(of) and others:
        for cut in _of_faults(rows, context):
            yield replace(cut, queues=others, certain=False)


def _of_group(rows: Rows, context: RunContext, every: Sequence[polled.Reign]) -> Iterator[Cut]:
    profile = context.profile
    for old, new in pairwise(every):
        if new.node == old.node:
            continue
        at = f"at the switch to {new.node} by {weakness.at_time(rows, new.since_ns)}"
        known, alone = old.in_sync is not None, old.in_sync is None or old.in_sync <= {old.node}
        when = (new.epoch, -1, old.until_ns, new.since_ns)
        if profile.acks != "all":
            yield Cut(*when, True, False, weakness.acks(profile), at)
        if profile.unclean and (old.in_sync is None or new.node not in old.in_sync):
            yield Cut(*when, known, True, weakness.UNCLEAN, at)
        if profile.min_in_sync < 2 and alone and _lost_disk(rows, old.node, old.since_ns, new.since_ns):
            yield Cut(*when, known, True, weakness.ONE_IN_SYNC, at)
    if profile.flush == "async":
        leaders = {reign.node for reign in every}
        for fault in rows.memo(faults):
            sure = bool(fault.lost_data & leaders)
            if sure or (fault.effects is None and (not fault.targets or fault.targets & leaders)):
                yield _around(rows, context, fault, weakness.ASYNC, certain=sure, confirmed=True)


def _around(rows: Rows, context: RunContext, fault: Fault, words: str, *, certain: bool, confirmed: bool) -> Cut:
    since_ns = fault.began_ns - min(by_faults.window_ns(context), fault.began_ns)
    where = f"at {fault.process} of {weakness.at_time(rows, fault.from_ns)}"
    return Cut(-1, since_ns, fault.began_ns, fault.until_ns, certain, confirmed, words, where)


def _lost_disk(rows: Rows, node: str, since_ns: int, until_ns: int) -> bool:
    return any(one is not None for one in weakness.struck(rows, node, since_ns, until_ns, weakness.lost_disk(node)))


def _of_faults(rows: Rows, context: RunContext) -> Iterator[Cut]:
    known = by_faults.window_ns(context) < NEVER
    for fault in rows.memo(faults):
        for words, confirmed in _may_cut(fault, context):
            certain = known and fault.effects is not None
            yield _around(rows, context, fault, words, certain=certain, confirmed=confirmed)


def _may_cut(fault: Fault, context: RunContext) -> Iterator[tuple[str, bool]]:
    """Yield which weaknesses this fault may have turned into a cut, each with whether it reaches what is confirmed."""
    profile, unknown = context.profile, fault.effects is None
    replaced = unknown or bool(fault.hits(*by_faults.REPLACES))
    if profile.acks != "all" and replaced:
        yield weakness.acks(profile), False
    if profile.unclean and replaced:
        yield weakness.UNCLEAN, True
    if profile.flush == "async" and (unknown or fault.lost_data):
        yield weakness.ASYNC, True
    if profile.min_in_sync < 2 and (unknown or fault.hits(Effect.LOSES_DISK)):
        yield weakness.ONE_IN_SYNC, True
