"""Violations grouped by their cause: the change of masters, the log that lost its end, the fault that was in force.

A violation and a cause are linked by rows, or else the cause is only something that happened meanwhile:

* a copy of a message that a violation is about was the last one, and a node lost it: the loss, and the change of
  masters in which the node cut its log, are its cause;
* its rows name both epochs of a change of masters, or the election itself: it stands with this change;
* its message was acknowledged before a power cut that is seen to have taken unsynced bytes from the node that
  acknowledged it, and nobody was given the message since: it stands with the power cut;
* else it stands with the faults that were in force, and with nothing where its kind also happened without any.

Violations of one offset belong together. All of it is a function of the rows and of what the laws found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chaos.fault import Effect
from chaos.history.run_meta import RunMeta
from chaos.verdict import Anomaly
from reports.rows import RunRows, value_of
from reports.run_report.lost_tails import Copy, LostTail, LostTails, lost_tails
from reports.run_report.master_terms import EpochChange, MasterTerm, change_after, change_to, master_terms
from reports.summary import FaultLine

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
    it is about. ``violations`` is empty when the verdict lists none of them one by one. ``always``: some of it showed
    while no fault was in force."""

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


#: (group, epoch): the change that began this epoch.
_Change = tuple[str, int]


class _History:
    """What the rows show of masters, lost ends of logs and faults."""

    def __init__(
        self,
        rows: RunRows,
        faults: Sequence[FaultLine],
        groups: Mapping[int, str],
        wanted: list[int],
        logs: RunRows | None,
    ) -> None:
        self.rows = rows
        self.faults = [fault for fault in faults if fault.proven]
        self.terms = master_terms(rows, faults)
        self.lost: LostTails = lost_tails(rows, logs)
        self.groups = groups
        names = sorted({term.group for term in self.terms})
        self.only_group = names[0] if len(names) == 1 else None
        self.change_of_tail = [self._of_tail(tail) for tail in self.lost.tails]
        table = rows.table.filter(pc.is_in(rows.table["index"], pa.array(wanted, pa.int64())))
        self.row_of = {row["index"]: row for row in table.to_pylist()}
        self.healed_s = rows.phase_s("heal")

    def _of_tail(self, tail: LostTail) -> _Change | None:
        group = self.only_group
        if group is None or tail.epoch < 0:
            return None
        if tail.cut:
            return _named(change_to(self.terms, group, tail.epoch))
        return _named(change_after(self.terms, group, tail.epoch))

    def rows_of(self, anomaly: Anomaly) -> list[dict[str, Any]]:
        return [self.row_of[index] for index in anomaly.rows[:ROWS] if index in self.row_of]

    def group(self, anomaly: Anomaly, rows: Iterable[Mapping[str, Any]]) -> str | None:
        if self.only_group is not None:
            return self.only_group
        queues = [anomaly.queue, *(row["queue"] for row in rows)]
        return next((self.groups[queue] for queue in queues if queue in self.groups), None)

    def tail_of(self, violation: Violation) -> int | None:
        """Return the loss that took the last copy of what this violation is about, if that came before it showed."""
        rows = self.rows_of(violation.anomaly)
        last_s = max((self.rows.second(row["time_ns"]) for row in rows), default=-1.0)
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

    def answered(self, master: MasterTerm, since_s: float, until_s: float) -> bool:
        """Return whether this node answered a client in this epoch between the two."""
        operations = self.rows.select("op")
        mine = pc.and_(pc.equal(operations["node"], master.node), pc.equal(operations["epoch"], master.epoch))
        seconds = self.rows.seconds(operations.filter(pc.and_(mine, pc.equal(operations["type"], "ok"))))
        return bool(((seconds > since_s) & (seconds < until_s)).any())

    def power_of(self, violation: Violation) -> FaultLine | None:
        """Return the first power cut after its message was acknowledged, since which nobody was given the message."""
        if not any(fault.unsynced for fault in self.faults) or self.tail_of(violation) is not None:
            return None
        sent = [row for row in self.rows_of(violation.anomaly) if (row["f"], row["type"]) == ("send", "ok")]
        if not sent:
            return None
        acked_s, node = self.rows.second(sent[0]["time_ns"]), sent[0]["node"]
        read_s = self.last_read.get(sent[0]["message"], -1.0)
        for fault in self.faults:
            if fault.unsynced and max(acked_s, read_s) <= (fault.start_s if node else fault.asked_s):
                return fault if not node or node in fault.unsynced else None
        return None

    @cached_property
    def last_read(self) -> Mapping[int, float]:
        """When each message was given to a reader for the last time."""
        given = self.rows.select("op", "delivered")
        return dict(zip(given["message"].to_pylist(), self.rows.seconds(given).tolist(), strict=True))

    def faults_during(self, violation: Violation) -> list[FaultLine]:
        """Return those in force between the violation's rows; those that hit one of its nodes first."""
        return self._faults_between(self.rows_of(violation.anomaly))

    def faults_at_the_end(self, violation: Violation) -> list[FaultLine]:
        """Return those in force during the last operation among the violation's rows: the one that no order can
        place."""
        rows = self.rows_of(violation.anomaly)
        last = max(rows, key=lambda row: row["time_ns"], default=None)
        return self._faults_between([row for row in rows if last and row["process"] == last["process"]])

    def _faults_between(self, rows: Sequence[Mapping[str, Any]]) -> list[FaultLine]:
        times = [second for row in rows if (second := self.rows.second(row["time_ns"])) < self.healed_s]
        if not times:
            return []
        found = [fault for fault in self.faults if fault.asked_s <= max(times) and fault.end_s >= min(times)]
        nodes = {row["node"] for row in rows}
        return sorted(found, key=lambda fault: not nodes & {n for hit in fault.proven.values() for n in hit})


def queue_groups(meta: RunMeta) -> dict[int, str]:
    """Return the group of each queue, where ``run.json`` names it."""
    return {queue.index: queue.group for queue in meta.queues}


def group(
    rows: RunRows,
    faults: Sequence[FaultLine],
    broken: Sequence[Anomaly],
    *,
    groups: Mapping[int, str],
    alone: Iterable[int] = (),
    logs: RunRows | None = None,
) -> list[Cause]:
    """Return the causes of these violations: those by which logs lost their ends, then the others, each in the order of
    the laws that they break.

    ``groups``: the group of each queue, where there are several. ``alone``: places of violations that are drawn by
    themselves. An anomaly without rows that follows others of its kind stands for the rest of them, and only counts.
    ``logs``: see :func:`reports.run_report.lost_tails.lost_tails`."""
    if not broken:
        return []
    wanted = sorted({index for anomaly in broken for index in anomaly.rows[:ROWS]})
    history = _History(rows, faults, groups, wanted, logs)
    listed, seen = [], set()
    for place, anomaly in enumerate(broken):
        if anomaly.rows or (anomaly.law, anomaly.name) not in seen:
            copies = _copies(anomaly, history.rows_of(anomaly))
            listed.append(Violation(place=place, anomaly=anomaly, copies=copies))
        seen.add((anomaly.law, anomaly.name))
    apart = set(alone)
    joined, loose = _join([violation for violation in listed if violation.place not in apart], history)
    kinds = _Kinds(broken, listed)
    lossy, unlisted = _lossy(history, joined, kinds)
    causes = [_of_change(change, members, history, kinds, change in lossy) for change, members in joined.items()]
    by_power = _by_power(loose, history)
    causes += [_of_power(members, kinds, power) for power, members in by_power]
    cut = {violation.place for _, members in by_power for violation in members}
    others = [violation for violation in loose if violation.place not in cut]
    causes += [_loose(members, history, kinds) for members in _by_fault(others, history)]
    causes += [
        Cause(violations=[v], kinds=kinds.of([v]), faults=history.faults_at_the_end(v))
        for v in listed
        if v.place in apart
    ]
    causes.sort(key=lambda cause: cause.violations[0].place)
    lossy_ones = [cause for cause in causes if cause.tails]
    lossy_ones += [_of_change(change, [], history, kinds, True) for change in unlisted]
    return lossy_ones + [cause for cause in causes if not cause.tails]


def _join(violations: Sequence[Violation], history: _History) -> tuple[dict[_Change, list[Violation]], list[Violation]]:
    """Return violations by the change that they belong to, and those that belong to none. What is about one offset
    belongs together; of several changes the first one counts."""
    if not violations:
        return {}, []
    import networkx  # it takes longer to load than the rest of the page, and most runs have no violation

    graph: networkx.Graph[Any] = networkx.Graph()
    for violation in violations:
        graph.add_node(violation.place)
        change = history.change_of(violation)
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
        if changes:
            joined.setdefault(changes[0], []).extend(members)
        else:
            loose += members
    return joined, sorted(loose, key=lambda violation: violation.place)


def _lossy(
    history: _History, joined: Mapping[_Change, Sequence[Violation]], kinds: _Kinds
) -> tuple[set[_Change], list[_Change]]:
    """Return the changes whose lost ends of logs count, and those of them without a violation that is listed one by
    one.

    One counts if a violation is linked with it; and, where the verdict lists only the first violations of a kind that
    is linked with such a loss, if something acknowledged or read is gone by it."""
    linked = {
        change: violations
        for change, members in joined.items()
        if (violations := [v for v in members if history.tail_of(v) is not None])
    }
    lossy = set(linked)
    if any(kinds.counted_only(violation) for violations in linked.values() for violation in violations):
        gone = {history.lost.last_copy[copy] for copy in (*history.lost.acknowledged, *history.lost.read)}
        lossy |= {change for tail in gone if (change := history.change_of_tail[tail]) is not None}
    return lossy, sorted(lossy - joined.keys())


def _of_change(wanted: _Change, members: Sequence[Violation], history: _History, kinds: _Kinds, lossy: bool) -> Cause:
    change = change_to(history.terms, *wanted)
    assert change is not None
    members = sorted(members, key=lambda violation: violation.place)
    tails = [
        (place, tail)
        for place, tail in enumerate(history.lost.tails)
        if lossy and history.change_of_tail[place] == wanted
    ]
    places = {place for place, _ in tails}
    acknowledged = [copy for copy in history.lost.acknowledged if history.lost.last_copy[copy] in places]
    read = [copy for copy in history.lost.read if history.lost.last_copy[copy] in places]
    faults, proven = _faults_of(change, [tail for _, tail in tails], history)
    examples = [copy for violation in members for copy in violation.copies if copy in history.lost.last_copy]
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


def _faults_of(change: EpochChange, tails: Sequence[LostTail], history: _History) -> tuple[Sequence[FaultLine], bool]:
    """Return the fault that took the role from the old master, gave it to the new one, or cost a log its end, and True;
    else those that were in force when the master changed, and False."""
    for tail in tails:
        crashed = [fault for fault in history.faults if not tail.cut and tail.since_s <= fault.end_s]
        crashed = [fault for fault in crashed if fault.asked_s <= tail.at_s]
        crashed = [fault for fault in crashed if _hits(fault, tail.node, FORGETTING)]
        if crashed:
            return crashed[-1:], True
    meanwhile = [fault for fault in history.faults if fault.asked_s <= change.at_s <= fault.end_s]
    for fault in reversed(history.faults):
        if _deposed(fault, change, fault in meanwhile, history):
            return [fault], True
        if change.after and fault in meanwhile and _hits(fault, change.after.node, (Effect.SWITCHES_MASTER,)):
            return [fault], True
    return meanwhile, False


def _deposed(fault: FaultLine, change: EpochChange, meanwhile: bool, history: _History) -> bool:
    """Return whether it kept the old master from its work when the next one took over, or ended its life, after which
    it answered nobody in its epoch."""
    master = change.before
    if master is None:
        return False
    if meanwhile:
        return _hits(fault, master.node, DEPOSING)
    ended = master.node in fault.ended and abs(fault.start_s - master.end_s) < 1e-6
    return ended and not history.answered(master, fault.end_s, change.at_s)


def _hits(fault: FaultLine, node: str, effects: Sequence[Effect]) -> bool:
    return any(node in fault.proven.get(effect, ()) for effect in effects)


def _by_power(loose: Sequence[Violation], history: _History) -> list[tuple[FaultLine, list[Violation]]]:
    """Return those that a power cut explains, by power cut."""
    found: dict[str, tuple[FaultLine, list[Violation]]] = {}
    for violation in loose:
        power = history.power_of(violation)
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


def _by_fault(loose: Sequence[Violation], history: _History) -> list[list[Violation]]:
    """Return one group for each fault; but all of a kind of which some showed while no fault was in force, or which
    happened with many faults, are a group of their own."""
    fault_of: dict[int, str] = {}
    faults_of: dict[tuple[str, str], set[str]] = {}
    for violation in loose:
        faults = history.faults_during(violation)
        fault_of[violation.place] = faults[0].id if faults else ""
        faults_of.setdefault(_kind(violation), set()).add(fault_of[violation.place])
    found: dict[tuple[str, ...], list[Violation]] = {}
    for violation in loose:
        kind = _kind(violation)
        scattered = "" in faults_of[kind] or len(faults_of[kind]) > SCATTERED
        found.setdefault(kind if scattered else (fault_of[violation.place],), []).append(violation)
    return list(found.values())


def _loose(members: Sequence[Violation], history: _History, kinds: _Kinds) -> Cause:
    during = [history.faults_during(violation) for violation in members]
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


def _copies(anomaly: Anomaly, rows: Iterable[Mapping[str, Any]]) -> tuple[Copy, ...]:
    """Return the copies that an anomaly and its rows name, in that order; the anomaly's own offset before others."""
    named = [(anomaly.message, anomaly.offset)]
    named += [(row["message"], row["offset"]) for row in rows]
    return tuple(dict.fromkeys(copy for copy in named if min(copy) >= 0))


def _epoch(row: Mapping[str, Any]) -> int:
    """Return the master epoch that a row names; -1 if it names none. A controller's own ``epoch`` is a term."""
    if row["kind"] == "trace" and row["f"] in ("applied", "raft"):
        entry = value_of(row["value"]).get("entry")
        epoch = entry.get("master_epoch", -1) if isinstance(entry, dict) else -1
        return epoch if isinstance(epoch, int) else -1
    return int(row["epoch"])


def _began(row: Mapping[str, Any]) -> bool:
    """Return whether a master term began with this row: the controllers elected somebody, or a node took the role."""
    value = value_of(row["value"])
    entry = value.get("entry")
    elected = row["f"] == "applied" and isinstance(entry, dict) and entry.get("type") == "elect"
    return row["kind"] == "trace" and (elected or (row["f"] == "role" and value.get("role") == "master"))
