"""Violations grouped by their cause: the change of masters, the log that lost its end, the fault that was in force.

A violation and a cause are linked by rows, or else the cause is only something that happened meanwhile:

* a copy of a message that a violation is about was the last one, and a node lost it: the loss, and the change of
  masters in which the node cut its log, are its cause;
* its rows name both epochs of a change of masters, or the election itself: it stands with this change;
* its message was acknowledged before a power cut that is seen to have taken unsynced bytes from the node that
  acknowledged it, and nobody was given the message since: it stands with the power cut;
* nodes traced nothing, its message was acknowledged by a master that a fault is proven to have deposed, and no reader
  was given the message since: it stands with the change of masters;
* else it stands with the faults that were in force, and with nothing where its kind also happened without any.

Violations of one offset belong together. All of it is a function of the rows and of what the laws found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow.compute as pc

from chaos.fault import Effect
from chaos.history.history import History
from chaos.history.row import Row
from chaos.verdict import Anomaly
from reports.faults import FaultLine
from reports.run_report.lost_tails import Copy, LostTail, LostTails, lost_tails
from reports.run_report.master_terms import EpochChange, MasterTerm, change_after, change_to, master_terms

#: So many rows of one anomaly are looked at.
ROWS = 12
#: A kind of violation that happened with more different faults than this is not listed fault by fault.
SCATTERED = 2
#: Effects that take the role away from a master.
DEPOSING = (Effect.TAKES_DOWN, Effect.ISOLATES, Effect.MAY_CRASH)
#: Effects by which a log loses its end.
FORGETTING = (Effect.MAY_CRASH, Effect.LOSES_DISK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One violation, its place among all violations of the run, and the copies of messages that its rows are about."""

    place: int
    anomaly: Anomaly
    copies: tuple[Copy, ...] = ()

    @property
    def law(self) -> str:
        return self.anomaly.law


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How many violations of one name belong to a cause. ``listed``: those that the verdict lists one by one;
    ``whole``: those of the run, of which the verdict only counts the others."""

    law: str
    name: str
    here: int
    listed: int
    whole: int

    @property
    def partly(self) -> bool:
        """Whether some of this name are only counted, so that ``here`` is the least number."""
        return self.listed < self.whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Violations that belong together.

    ``faults``: in force when it happened. ``proven``: rows link the first one with the change of masters, or with the
    lost end of a log; otherwise they were only there meanwhile. ``tails`` are the losses that violations are linked
    with; ``acknowledged`` and ``read`` the copies that are gone with them. ``power``: the power cut that took all that
    it is about. ``deposed``: the master before ``change`` had acknowledged it, and no reader was given it since.
    ``violations`` is empty when the verdict lists none of them one by one. ``always``: some of it showed while no fault
    was in force."""

    violations: Sequence[Violation]
    kinds: Sequence[Kind]
    change: EpochChange | None = None
    faults: Sequence[FaultLine] = ()
    proven: bool = False
    always: bool = False
    tails: Sequence[LostTail] = ()
    acknowledged: Sequence[Copy] = ()
    read: Sequence[Copy] = ()
    example: Copy | None = None
    power: FaultLine | None = None
    deposed: bool = False


#: (group, epoch): the change that began this epoch.
_Change = tuple[str, int]


class _Facts:
    """What the rows show of masters, lost ends of logs and faults."""

    def __init__(self, history: History, faults: Sequence[FaultLine], wanted: Iterable[int]) -> None:
        self.history = history
        self.faults = [fault for fault in faults if fault.proven]
        self.terms = master_terms(history, faults)
        self.lost: LostTails = lost_tails(history)
        self.groups = {queue.index: queue.group for queue in history.meta.queues}
        names = sorted({term.group for term in self.terms})
        self.only_group = names[0] if len(names) == 1 else None
        self.change_of_tail = [self._of_tail(tail) for tail in self.lost.tails]
        self.row_of = {row.index: row for row in history.numbered(wanted)}
        self.healed_s = history.phase_s("heal")

    def _of_tail(self, tail: LostTail) -> _Change | None:
        group = self.only_group
        if group is None or tail.epoch < 0:
            return None
        if tail.cut:
            return _named(change_to(self.terms, group, tail.epoch))
        return _named(change_after(self.terms, group, tail.epoch))

    def rows_of(self, anomaly: Anomaly) -> list[Row]:
        return [self.row_of[index] for index in anomaly.rows[:ROWS] if index in self.row_of]

    def group(self, anomaly: Anomaly, rows: Iterable[Row]) -> str | None:
        if self.only_group is not None:
            return self.only_group
        queues = [anomaly.queue, *(row.queue for row in rows)]
        return next((self.groups[queue] for queue in queues if queue in self.groups), None)

    def tail_of(self, violation: Violation) -> int | None:
        """Return the loss that took the last copy of what this violation is about, if that came before it showed."""
        rows = self.rows_of(violation.anomaly)
        last_s = max((row.at_s for row in rows), default=-1.0)
        for copy in violation.copies:
            tail = self.lost.last_copy.get(copy)
            if tail is not None and self.lost.tails[tail].at_s <= last_s:
                return tail
        return None

    def change_of(self, violation: Violation) -> _Change | None:
        """Return the change of masters that this violation is about, by its copies, or by the epochs of its rows."""
        tail = self.tail_of(violation)
        if tail is not None and self.change_of_tail[tail] is not None:
            return self.change_of_tail[tail]
        rows = self.rows_of(violation.anomaly)
        group = self.group(violation.anomaly, rows)
        epochs = {epoch for row in rows if (epoch := _epoch(row)) >= 0}
        if group is None or not epochs:
            return None
        if len(epochs) > 1:
            change = _named(change_after(self.terms, group, min(epochs)))
            return change if change is not None and change[1] in epochs else None
        if any(_began(row) for row in rows):
            change_here = change_to(self.terms, group, min(epochs))
            return None if change_here is None or change_here.before is None else _named(change_here)
        return None

    def deposition_of(self, violation: Violation) -> _Change | None:
        """Return the change by which the master that acknowledged its message lost its role through a proven fault, if
        no reader was given the message since. Nodes that trace their logs show what became of it: then that counts."""
        if self.history.has_traces:
            return None
        rows = self.rows_of(violation.anomaly)
        sent = next((row for row in rows if (row.f, row.type) == ("send", "ok")), None)
        group = self.group(violation.anomaly, rows)
        if sent is None or group is None:
            return None
        for term in self.terms:
            if (term.group, term.node) != (group, sent.node) or not term.start_s <= sent.at_s <= term.end_s:
                continue
            change = change_after(self.terms, group, term.epoch)
            if change is None or change.before != term or not _faults_of(change, (), self)[1]:
                return None
            return _named(change) if self.last_read.get(sent.message, -1.0) <= max(term.end_s, change.at_s) else None
        return None

    def answered(self, master: MasterTerm, since_s: float, until_s: float) -> bool:
        """Return whether this node answered a client in this epoch between the two."""
        operations = self.history.rows("op")
        mine = pc.and_(pc.equal(operations["node"], master.node), pc.equal(operations["epoch"], master.epoch))
        seconds = self.history.seconds(operations.filter(pc.and_(mine, pc.equal(operations["type"], "ok"))))
        return bool(((seconds > since_s) & (seconds < until_s)).any())

    def power_of(self, violation: Violation) -> FaultLine | None:
        """Return the first power cut after its message was acknowledged, since which nobody was given the message."""
        if not any(fault.unsynced for fault in self.faults) or self.tail_of(violation) is not None:
            return None
        sent = [row for row in self.rows_of(violation.anomaly) if (row.f, row.type) == ("send", "ok")]
        if not sent:
            return None
        acked_s, node = sent[0].at_s, sent[0].node
        read_s = self.last_read.get(sent[0].message, -1.0)
        for fault in self.faults:
            if fault.unsynced and max(acked_s, read_s) <= (fault.start_s if node else fault.asked_s):
                return fault if not node or node in fault.unsynced else None
        return None

    @cached_property
    def last_read(self) -> Mapping[int, float]:
        """When each message was given to a reader for the last time."""
        given = self.history.rows("op", "delivered")
        return dict(zip(given["message"].to_pylist(), self.history.seconds(given).tolist(), strict=True))

    def faults_during(self, violation: Violation) -> list[FaultLine]:
        """Return those in force between the violation's rows; those that hit one of its nodes first."""
        return self._faults_between(self.rows_of(violation.anomaly))

    def faults_at_the_end(self, violation: Violation) -> list[FaultLine]:
        """Return those in force during the last operation among the violation's rows: the one that no order can
        place."""
        rows = self.rows_of(violation.anomaly)
        last = max(rows, key=lambda row: row.time_ns, default=None)
        return self._faults_between([row for row in rows if last and row.process == last.process])

    def _faults_between(self, rows: Sequence[Row]) -> list[FaultLine]:
        times = [min(row.at_s, self.healed_s) for row in rows]
        if not times or min(times) == self.healed_s:
            return []
        found = [fault for fault in self.faults if fault.asked_s <= max(times) and fault.end_s >= min(times)]
        nodes = {row.node for row in rows}
        return sorted(found, key=lambda fault: not nodes & {n for hit in fault.proven.values() for n in hit})


def group(
    history: History,
    faults: Sequence[FaultLine],
    broken: Sequence[Anomaly],
    *,
    alone: Iterable[int] = (),
) -> list[Cause]:
    """Return the causes of these violations: those by which logs lost their ends, then the others, each in the order of
    the laws that they break.

    ``alone``: places of violations that are drawn by themselves. An anomaly without rows that follows others of its
    kind stands for the rest of them, and only counts."""
    if not broken:
        return []
    facts = _Facts(history, faults, {index for anomaly in broken for index in anomaly.rows[:ROWS]})
    listed, seen = [], set()
    for place, anomaly in enumerate(broken):
        if anomaly.rows or (anomaly.law, anomaly.name) not in seen:
            copies = _copies(anomaly, facts.rows_of(anomaly))
            listed.append(Violation(place=place, anomaly=anomaly, copies=copies))
        seen.add((anomaly.law, anomaly.name))
    apart = set(alone)
    joined, loose = _join([violation for violation in listed if violation.place not in apart], facts)
    kinds = _Kinds(broken, listed)
    lossy, unlisted = _lossy(facts, joined, kinds)
    by_power = _by_power(loose, facts)
    cut = {violation.place for _, members in by_power for violation in members}
    deposed, others = _by_deposition([violation for violation in loose if violation.place not in cut], facts)
    for change, members in deposed.items():
        joined.setdefault(change, []).extend(members)
    causes = [
        replace(_of_change(change, members, facts, kinds, change in lossy), deposed=change in deposed)
        for change, members in joined.items()
    ]
    causes += [_of_power(members, kinds, power) for power, members in by_power]
    causes += [_loose(members, facts, kinds) for members in _by_fault(others, facts)]
    causes += [
        Cause(violations=[v], kinds=kinds.of([v]), faults=facts.faults_at_the_end(v))
        for v in listed
        if v.place in apart
    ]
    causes.sort(key=lambda cause: cause.violations[0].place)
    lossy_ones = [cause for cause in causes if cause.tails]
    lossy_ones += [_of_change(change, [], facts, kinds, True) for change in unlisted]
    return lossy_ones + [cause for cause in causes if not cause.tails]


def _join(violations: Sequence[Violation], facts: _Facts) -> tuple[dict[_Change, list[Violation]], list[Violation]]:
    """Return violations by the change that they belong to, and those that belong to none or to a power cut. What is
    about one offset belongs together; of several changes the first one counts."""
    if not violations:
        return {}, []
    import networkx  # it takes longer to load than the rest of the page, and most runs have no violation

    graph: networkx.Graph[Any] = networkx.Graph()
    for violation in violations:
        graph.add_node(violation.place)
        change = facts.change_of(violation)
        if change is not None:
            graph.add_edge(violation.place, change)
        queue, offset = violation.anomaly.queue, violation.anomaly.offset
        if queue >= 0 and offset >= 0:
            graph.add_edge(violation.place, ("offset", queue, offset))
    by_place = {violation.place: violation for violation in violations}
    joined: dict[_Change, list[Violation]] = {}
    loose = []
    for component in networkx.connected_components(graph):
        members = [by_place[place] for place in sorted(node for node in component if isinstance(node, int))]
        changes = sorted(node for node in component if isinstance(node, tuple) and len(node) == 2)
        if changes and not any(facts.power_of(violation) for violation in members):
            joined.setdefault(changes[0], []).extend(members)
        else:
            loose += members
    return joined, sorted(loose, key=lambda violation: violation.place)


def _lossy(
    facts: _Facts, joined: Mapping[_Change, Sequence[Violation]], kinds: _Kinds
) -> tuple[set[_Change], list[_Change]]:
    """Return the changes whose lost ends of logs count, and those of them without a violation that is listed one by
    one.

    One counts if a violation is linked with it; and, where the verdict lists only the first violations of a kind that
    is linked with such a loss, if something acknowledged or read is gone by it."""
    linked = {
        change: violations
        for change, members in joined.items()
        if (violations := [v for v in members if facts.tail_of(v) is not None])
    }
    lossy = set(linked)
    if any(kinds.counted_only(violation) for violations in linked.values() for violation in violations):
        gone = {facts.lost.last_copy[copy] for copy in (*facts.lost.acknowledged, *facts.lost.read)}
        lossy |= {change for tail in gone if (change := facts.change_of_tail[tail]) is not None}
    return lossy, sorted(lossy - joined.keys())


def _of_change(wanted: _Change, members: Sequence[Violation], facts: _Facts, kinds: _Kinds, lossy: bool) -> Cause:
    change = change_to(facts.terms, *wanted)
    assert change is not None
    members = sorted(members, key=lambda violation: violation.place)
    tails = [
        (place, tail) for place, tail in enumerate(facts.lost.tails) if lossy and facts.change_of_tail[place] == wanted
    ]
    places = {place for place, _ in tails}
    acknowledged = [copy for copy in facts.lost.acknowledged if facts.lost.last_copy[copy] in places]
    read = [copy for copy in facts.lost.read if facts.lost.last_copy[copy] in places]
    faults, proven = _faults_of(change, [tail for _, tail in tails], facts)
    examples = [copy for violation in members for copy in violation.copies if copy in facts.lost.last_copy]
    others = [copy for violation in members for copy in violation.copies]
    return Cause(
        violations=members,
        kinds=kinds.of(members),
        change=change,
        faults=faults,
        proven=proven,
        tails=[tail for _, tail in tails],
        acknowledged=acknowledged,
        read=read,
        example=next(iter([*examples, *others, *acknowledged, *read]), None),
    )


def _faults_of(change: EpochChange, tails: Sequence[LostTail], facts: _Facts) -> tuple[Sequence[FaultLine], bool]:
    """Return the fault that took the role from the old master, gave it to the new one, or cost a log its end, and True;
    else those that were in force when the master changed, and False."""
    for tail in tails:
        crashed = [fault for fault in facts.faults if not tail.cut and tail.since_s <= fault.end_s]
        crashed = [fault for fault in crashed if fault.asked_s <= tail.at_s]
        crashed = [fault for fault in crashed if _hits(fault, tail.node, FORGETTING)]
        if crashed:
            return crashed[-1:], True
    meanwhile = [fault for fault in facts.faults if fault.asked_s <= change.at_s <= fault.end_s]
    for fault in reversed(facts.faults):
        if _deposed(fault, change, fault in meanwhile, facts):
            return [fault], True
        if change.after and fault in meanwhile and _hits(fault, change.after.node, (Effect.SWITCHES_MASTER,)):
            return [fault], True
    return meanwhile, False


def _deposed(fault: FaultLine, change: EpochChange, meanwhile: bool, facts: _Facts) -> bool:
    """Return whether it kept the old master from its work when the next one took over, or ended its life, after which
    it answered nobody in its epoch."""
    master = change.before
    if master is None:
        return False
    if meanwhile:
        cut = not facts.history.has_traces and _between(fault, master, change.after)
        return cut or _hits(fault, master.node, DEPOSING)
    ended = master.node in fault.ended and abs(fault.start_s - master.end_s) < 1e-6
    return ended and not facts.answered(master, fault.end_s, change.at_s)


def _between(fault: FaultLine, master: MasterTerm, successor: MasterTerm | None) -> bool:
    """Return whether it is proven that the fault cut a master off from its successor, in both directions."""
    if successor is None or not _hits(fault, master.node, (Effect.CUTS,)):
        return False
    ways = [(master.node, successor.node), (successor.node, master.node)]
    return all(any(one in side and other in far for side, far in fault.cuts) for one, other in ways)


def _hits(fault: FaultLine, node: str, effects: Sequence[Effect]) -> bool:
    return any(node in fault.proven.get(effect, ()) for effect in effects)


def _by_power(loose: Sequence[Violation], facts: _Facts) -> list[tuple[FaultLine, list[Violation]]]:
    """Return those that a power cut explains, by power cut."""
    found: dict[str, tuple[FaultLine, list[Violation]]] = {}
    for violation in loose:
        power = facts.power_of(violation)
        if power is not None:
            found.setdefault(power.id, (power, []))[1].append(violation)
    return list(found.values())


def _of_power(members: Sequence[Violation], kinds: _Kinds, power: FaultLine) -> Cause:
    copies = [copy for violation in members for copy in violation.copies]
    return Cause(
        violations=members,
        kinds=kinds.of(members),
        faults=[power],
        proven=True,
        example=copies[0] if copies else None,
        power=power,
    )


def _by_deposition(
    loose: Sequence[Violation], facts: _Facts
) -> tuple[Mapping[_Change, Sequence[Violation]], Sequence[Violation]]:
    """Return those that the end of a master explains, by its change of masters, and the others."""
    found: dict[_Change, list[Violation]] = {}
    others: list[Violation] = []
    for violation in loose:
        change = facts.deposition_of(violation)
        (found.setdefault(change, []) if change is not None else others).append(violation)
    return found, others


def _by_fault(loose: Sequence[Violation], facts: _Facts) -> list[list[Violation]]:
    """Return one group for each fault; but all of a kind of which some showed while no fault was in force, or which
    happened with many faults, are a group of their own."""
    fault_of: dict[int, str] = {}
    faults_of: dict[tuple[str, str], set[str]] = {}
    for violation in loose:
        faults = facts.faults_during(violation)
        fault_of[violation.place] = faults[0].id if faults else ""
        faults_of.setdefault(_kind(violation), set()).add(fault_of[violation.place])
    found: dict[tuple[str, ...], list[Violation]] = {}
    for violation in loose:
        kind = _kind(violation)
        scattered = "" in faults_of[kind] or len(faults_of[kind]) > SCATTERED
        found.setdefault(kind if scattered else (fault_of[violation.place],), []).append(violation)
    return list(found.values())


def _loose(members: Sequence[Violation], facts: _Facts, kinds: _Kinds) -> Cause:
    during = [facts.faults_during(violation) for violation in members]
    always = not all(during)
    first_of_each = list({faults[0].id: faults[0] for faults in during if faults}.values())
    copies = [copy for violation in members for copy in violation.copies]
    return Cause(
        violations=members,
        kinds=kinds.of(members),
        faults=() if always else during[0] if len(first_of_each) == 1 else first_of_each,
        always=always,
        example=copies[0] if copies else None,
    )


class _Kinds:
    """Counts violations by law and name."""

    def __init__(self, broken: Sequence[Anomaly], listed: Sequence[Violation]) -> None:
        self._whole: dict[tuple[str, str], int] = {}
        self._listed: dict[tuple[str, str], int] = {}
        for anomaly in broken:
            kind = anomaly.law, anomaly.name
            self._whole[kind] = self._whole.get(kind, 0) + anomaly.count
        for violation in listed:
            self._listed[_kind(violation)] = self._listed.get(_kind(violation), 0) + violation.anomaly.count

    def counted_only(self, violation: Violation) -> bool:
        """Return whether the verdict only counts some of this kind."""
        return self._whole[_kind(violation)] > self._listed[_kind(violation)]

    def of(self, members: Iterable[Violation]) -> list[Kind]:
        here: dict[tuple[str, str], int] = {}
        for violation in members:
            here[_kind(violation)] = here.get(_kind(violation), 0) + violation.anomaly.count
        return [
            Kind(law=law, name=name, here=number, listed=self._listed[law, name], whole=self._whole[law, name])
            for (law, name), number in here.items()
        ]


def _kind(violation: Violation) -> tuple[str, str]:
    return violation.law, violation.anomaly.name


def _named(change: EpochChange | None) -> _Change | None:
    return None if change is None or change.after is None else (change.group, change.after.epoch)


def _copies(anomaly: Anomaly, rows: Iterable[Row]) -> tuple[Copy, ...]:
    """Return the copies that an anomaly and its rows name, in that order; the anomaly's own offset before others."""
    named = [(anomaly.message, anomaly.offset)]
    named += [(row.message, row.offset) for row in rows]
    return tuple(dict.fromkeys(copy for copy in named if min(copy) >= 0))


def _epoch(row: Row) -> int:
    """Return the master epoch that a row names; -1 if it names none. A controller's own ``epoch`` is a term."""
    if row.kind == "trace" and row.f in ("applied", "raft"):
        epoch = row.entry.get("master_epoch", -1)
        return epoch if isinstance(epoch, int) else -1
    return row.epoch


def _began(row: Row) -> bool:
    """Return whether a master term began with this row: the controllers elected somebody, or a node took the role."""
    elected = row.f == "applied" and row.entry.get("type") == "elect"
    return row.kind == "trace" and (elected or (row.f == "role" and row.value.get("role") == "master"))
