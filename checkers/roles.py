"""One master per epoch, epochs only grow, a master comes from the SyncStateSet, and routes follow within a bound."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import Any

import numpy as np

from chaos.driver import Evidence
from chaos.fault import Effect
from chaos.judging.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import lives, reads
from checkers._views.committed import set_rows
from checkers._views.faults import Fault
from checkers._views.lives import EPOCH_REGRESSION, LIFE_FORGOTTEN
from checkers._views.reads import everywhere, own

ROUTE_BOUND_S = 5.0


TWO_MASTERS = "two-masters"
ELECTION_OUTSIDE_SET = "election-outside-set"
METADATA_CONFLICT = "metadata-conflict"
STALE_ROUTE = "stale-route"
ROUTE_REGRESSION = "route-regression"
DUPLICATE_ID = "duplicate-id"
PROMISE = Promise(
    name="roles",
    place=80,
    meaning="One master per epoch, epochs only grow, a master comes from the SyncStateSet, and routes follow.",
    anomalies=(
        AnomalyKind(
            name=TWO_MASTERS,
            meaning="two masters of one epoch, a master that was not elected, or two leaders of one term",
        ),
        AnomalyKind(name=EPOCH_REGRESSION, meaning="an epoch does not grow, or a node went back to an older one"),
        AnomalyKind(
            name=ELECTION_OUTSIDE_SET, meaning="a master that was not in the SyncStateSet, or had lost its disk"
        ),
        AnomalyKind(
            name=METADATA_CONFLICT, meaning="controllers disagree on an entry, or a master on the SyncStateSet"
        ),
        AnomalyKind(name=LIFE_FORGOTTEN, meaning="a replica forgot a life, though its disk was not harmed"),
        AnomalyKind(name=DUPLICATE_ID, meaning="the controllers gave one broker id to two brokers"),
        AnomalyKind(name=STALE_ROUTE, meaning="a name server named an older master for longer than the bound"),
        AnomalyKind(name=ROUTE_REGRESSION, meaning="the epoch that a name server gives for a group fell"),
    ),
)


ELECTIONS = Needs(
    part="elections as committed",
    key=Key.RUN,
    rows=(own("trace", "applied", "role", "start", "set", "confirm", "raft", "recovered"), reads.RUN, reads.FAULTS),
    columns=(*reads.BASIC, *reads.LIVES, "process", "type", "epoch", "position"),
    evidence=(Evidence.ELECTIONS,),
    on_prefix=True,
)
ROUTES = Needs(
    part="routes",
    key=Key.RUN,
    rows=(own("trace", "route", "role"), reads.RUN, reads.FAULTS),
    columns=(*reads.BASIC, *reads.LIVES, "process", "type", "epoch"),
    evidence=(Evidence.ROUTES, Evidence.ROLES),
    on_prefix=True,
)
ANSWERS = Needs(
    part="who takes writes",
    key=Key.QUEUE,
    rows=(own("op", "send", "commit"), everywhere("trace", "role"), reads.RUN),
    columns=(*reads.BASIC, *reads.OPERATIONS, "epoch"),
    evidence=(Evidence.OPERATIONS, Evidence.ROLES),
    uses=(Use.QUEUES,),
)
POLLED = Needs(
    part="roles as polled",
    key=Key.RUN,
    rows=(own("poll", "state"), reads.RUN, reads.FAULTS),
    columns=(*reads.BASIC, "op", "process", "type", "epoch"),
    evidence=(Evidence.POLLS,),
    on_prefix=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Elections:
    """The controllers' committed entries, and what brokers make of them."""

    promise: Promise = PROMISE
    needs: Needs = ELECTIONS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        entries = _committed(rows, found)
        if context.unfinished:
            entries = _settled(rows, context, entries)
        groups: dict[str, _Group] = {}
        for index in sorted(entries):
            at = entries[index]
            entry = rows.value(at).get("entry") or {}
            name = entry.get("group")
            if isinstance(name, str) and not entry.get("unattended"):  # there nobody can believe to be master
                group = groups.setdefault(name, _Group(rows=rows, found=found, unclean=context.profile.unclean))
                group.apply(at, entry, whole=index - 1 in entries or index <= 1)
        found.count("entries", len(entries))
        found.count("elections", sum(len(group.elected) for group in groups.values()))
        whole = len(entries) == max(entries, default=0)
        if not whole:
            found.gap("some of the controllers' committed entries are missing")
        _believers(rows, found, {} if context.unfinished else groups, whole)  # who was elected may be told later
        if not context.unfinished:
            _sets(rows, found, groups, whole)
            lives.forgotten(rows, found)  # that a fault took a node's disk may be proven later
        _raft_leaders(rows, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("elections", "cannot judge: no committed election was found")]
        if Evidence.ROLES in context.tells:
            needs.append(("roles_told", "no broker told its role"))
        return decide(PROMISE, partial, needs=needs)


def _settled(rows: Rows, context: RunContext, entries: Mapping[int, int]) -> dict[int, int]:
    """The entries from the first of the log on, up to the first that is missing, or of which a controller may tell
    something else yet that would count: where controllers disagree, the word of the first of them does."""
    first = min(map(str, context.meta.get("controllers") or ("",)))

    def is_known(number: int) -> bool:
        return number in entries and (views.one_clock(context) or rows.text("node", entries[number]) == first)

    return {number: entries[number] for number in takewhile(is_known, count(1))}


def _committed(rows: Rows, found: Findings) -> dict[int, int]:
    """Log index → a row of its entry; the same entry stands at an index on every controller."""
    position, index, epoch = rows.column("position"), rows.column("index"), rows.column("epoch")
    known: dict[int, tuple[int, str]] = {}
    for at in rows.where(kind="trace", f="applied").tolist():
        text = json.dumps([int(epoch[at]), rows.value(at).get("entry")], sort_keys=True)
        first, same = known.setdefault(int(position[at]), (at, text))
        if text != same:
            found.add(
                METADATA_CONFLICT,
                f"The controllers {rows.text('node', first)} and {rows.text('node', at)} have applied different "
                f"entries at index {int(position[at])} of their log.",
                int(index[first]),
                int(index[at]),
            )
    return {number: first for number, (first, _) in known.items()}


@dataclass(slots=True)
class _Group:
    """The state of one broker group, followed along the committed entries. ``members`` is None while some entry is
    missing from the record, so that nobody knows the set; then an election is judged by what it says of itself."""

    rows: Rows
    found: Findings
    unclean: bool
    epoch: int = -1
    epoch_at: int = -1
    members: frozenset[str] | None = frozenset()
    generations: dict[str, int] = field(default_factory=dict)
    brokers: set[str] = field(default_factory=set)
    ids: dict[int, dict[str, int]] = field(default_factory=dict)
    elected: dict[int, tuple[str, int]] = field(default_factory=dict)
    sets: dict[int, tuple[frozenset[str], int]] = field(default_factory=dict)
    _forgot: bool = False

    def apply(self, at: int, entry: Mapping[str, Any], *, whole: bool) -> None:
        if not whole:
            self.members = None
        kind, broker = entry.get("type"), str(entry.get("broker", ""))
        if kind == "elect":
            self._elect(at, entry)
        elif "master_epoch" in entry and kind != "alter":
            self._epoch_grows(at, int(entry["master_epoch"]))
        if kind in ("register", "apply_id"):
            self._own_id(at, broker, int(entry.get("id", -1)))
            self._lost_disk(kind, broker, entry)
        if "set" in entry:
            self.members = frozenset(entry["set"])
            self.sets.setdefault(int(entry.get("set_epoch", -1)), (self.members, at))
        elif entry.get("removed") and self.members is not None:
            self.members -= frozenset(entry["removed"])
        if kind in ("register", "apply_id"):
            self._forget(kind, broker, entry)

    def _own_id(self, at: int, broker: str, number: int) -> None:
        """An id belongs to one broker for ever; one that lost its disk gets a new id."""
        owners = self.ids.setdefault(number, {})
        if number >= 0 and owners and broker not in owners:
            owner, since = next(iter(owners.items()))
            self.found.add(
                DUPLICATE_ID,
                f"{owner} and {broker} are both broker {number} of their group: the controllers gave them one id, so "
                "that each takes the other's place.",
                *(int(self.rows.column("index")[row]) for row in (since, at)),
            )
        owners.setdefault(broker, at)

    def _lost_disk(self, kind: str, broker: str, entry: Mapping[str, Any]) -> None:
        generation = int(entry.get("generation", -1))
        again = kind == "apply_id" and broker in self.brokers
        self._forgot = again or 0 <= generation <= self.generations.get(broker, -1)
        self.brokers.add(broker)
        if kind == "register" and generation >= 0:  # a disk that went back in time goes on counting from there
            self.generations[broker] = generation

    def _forget(self, kind: str, broker: str, entry: Mapping[str, Any]) -> None:
        """A replica whose disk has lost its lives is no candidate, whatever the entry made of the set."""
        if self._forgot and self.members is not None:
            self.members -= {broker}
        if kind == "apply_id":  # the new id has no lives yet
            self.generations.pop(broker, None)

    def _epoch_grows(self, at: int, epoch: int) -> None:
        if epoch <= self.epoch:
            self.found.add(
                EPOCH_REGRESSION,
                f"The controllers' committed entries give master epoch {epoch} after epoch {self.epoch}.",
                *(int(self.rows.column("index")[n]) for n in (self.epoch_at, at) if n >= 0),
            )
        self.epoch, self.epoch_at = max(self.epoch, epoch), at

    def _elect(self, at: int, entry: Mapping[str, Any]) -> None:
        epoch, master = int(entry.get("master_epoch", -1)), str(entry.get("master", ""))
        index = self.rows.column("index")
        other = self.elected.get(epoch)
        if other is not None and other[0] != master:
            self.found.add(
                TWO_MASTERS,
                f"{other[0]} and {master} were both elected master of epoch {epoch}.",
                int(index[other[1]]),
                int(index[at]),
            )
        else:
            self._epoch_grows(at, epoch)
        is_first = not self.elected
        self.elected.setdefault(epoch, (master, at))
        if entry.get("bootstrap") and is_first:
            return
        previous = frozenset(entry.get("previous_set") or ())
        members = previous if self.members is None else self.members & previous
        if master not in members and not (self.unclean and entry.get("unclean")):
            self.found.add(
                ELECTION_OUTSIDE_SET,
                f"{master} was elected master of epoch {epoch}, but only {', '.join(sorted(members)) or 'nobody'} "
                "could be: the others were out of the SyncStateSet or had lost their disk.",
                int(index[at]),
            )


def _believers(rows: Rows, found: Findings, groups: Mapping[str, _Group], whole: bool) -> None:
    """No two brokers believe to be master of one epoch, none believes what was not elected, none goes back. ``whole``:
    no entry is missing, so that nobody was elected of whom none tells."""
    index, epoch = rows.column("index"), rows.column("epoch")
    first: dict[tuple[str, int], int] = {}
    roles = rows.where(kind="trace", f="role")
    found.count("roles_told", len(roles))
    for node in sorted({rows.text("node", at) for at in roles}):
        known: dict[str, tuple[int, int]] = {}  # of each group that the node is of: the highest epoch, and its row
        generation, disk = -1, ""
        for at in views.node_traces(rows, node, "role", "start").tolist():
            told = rows.value(at)
            if rows.text("f", at) == "start":
                now, word = int(told.get("generation", generation + 1)), str(told.get("disk", ""))
                known = {} if now <= generation or word != disk else known
                generation, disk = now, word
                continue
            mine, role, group = int(epoch[at]), told.get("role"), str(told.get("group", ""))
            highest, witness = known.get(group, (-1, -1))
            if 0 <= mine < highest and role != "fenced":  # who is fenced plays no part in the epoch that its disk knows
                found.add(
                    EPOCH_REGRESSION,
                    f"{node} took the role {role} of epoch {mine} at {views.at_s(rows, at)}, although it had known "
                    f"epoch {highest}.",
                    int(index[witness]),
                    int(index[at]),
                )
            if mine > highest:
                known[group] = mine, at
            if role != "master":
                continue
            other = first.setdefault((group, mine), at)
            elected = _elected(groups, group)
            wrong = node not in elected.get(mine, {node} if not whole or not elected else set())
            if rows.text("node", other) != node or wrong:
                whom = rows.text("node", other) if not wrong else " and ".join(sorted(elected.get(mine, ["nobody"])))
                found.add(
                    TWO_MASTERS,
                    f"{node} believes to be master of epoch {mine} ({views.at_s(rows, at)}), and so was {whom}.",
                    int(index[other]),
                    int(index[at]),
                )


def _elected(groups: Mapping[str, _Group], name: str) -> Mapping[int, Set[str]]:
    """Epoch → whom the controllers elected, in this group; in any, where a broker names none that they know."""
    elected: dict[int, set[str]] = {}
    for group in [groups[name]] if name in groups else groups.values():
        for number, (master, _) in group.elected.items():
            elected.setdefault(number, set()).add(master)
    return elected


def _sets(rows: Rows, found: Findings, groups: Mapping[str, _Group], whole: bool) -> None:
    """Who a master counts on under a set epoch is who the controllers committed under that number."""
    index = rows.column("index")
    told_once: set[tuple[str, int]] = set()
    told = rows.memo(set_rows)
    order, firsts = views.groups(rows.column("node")[told.at], told.code, told.number)
    for place in np.sort(order[firsts]).tolist():  # what a node repeats is judged once
        at, number, (members, _) = int(told.at[place]), int(told.number[place]), told.sets[told.code[place]]
        committed = [group.sets[number] for group in groups.values() if number in group.sets]
        node = rows.text("node", at)
        if not members or number == views.NEVER:
            continue
        if any(members == there for there, _ in committed) or (not committed and not whole) or not groups:
            continue
        if (node, number) in told_once:
            continue
        told_once.add((node, number))
        there, witness = committed[0] if committed else (frozenset(), -1)
        found.add(
            METADATA_CONFLICT,
            f"{node} counts on {', '.join(sorted(members))} as the SyncStateSet of set epoch {number} "
            f"({views.at_s(rows, at)}), where the controllers have committed {', '.join(sorted(there)) or 'none'}.",
            *([int(index[witness])] if witness >= 0 else []),
            int(index[at]),
        )


def _raft_leaders(rows: Rows, found: Findings) -> None:
    """No two controllers lead one term."""
    index, term = rows.column("index"), rows.column("epoch")
    first: dict[int, int] = {}
    for at in rows.where(kind="trace", f="raft").tolist():
        if rows.value(at).get("role") != "leader":
            continue
        other = first.setdefault(int(term[at]), at)
        if rows.text("node", other) != rows.text("node", at):
            found.add(
                TWO_MASTERS,
                f"The controllers {rows.text('node', other)} and {rows.text('node', at)} both led term "
                f"{int(term[at])}.",
                int(index[other]),
                int(index[at]),
            )


@dataclass(frozen=True, slots=True)
class Routes:
    """Whom name servers name."""

    promise: Promise = PROMISE
    needs: Needs = ROUTES

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        """No name server goes on naming the master of an older epoch for longer than the bound after a newer one has
        taken over. Only time without any fault counts: who is cut off can't tell anybody."""
        found = Findings(PROMISE)
        bound_s = views.bound(context, "route_s", ROUTE_BOUND_S)
        times, epoch = rows.column("time_ns"), rows.column("epoch")
        routes = rows.where(kind="trace", f="route")
        found.count("routes", len(routes))
        nodes = sorted({rows.text("node", at) for at in routes})
        for node in nodes:
            _epoch_stays(rows, found, node, views.node_traces(rows, node, "route").tolist())
        if context.unfinished:  # which faults disturbed a name server may be known only when they are undone
            return found.partial()
        took_over = sorted(
            (int(times[at]), int(epoch[at]), int(at), str(rows.value(at).get("group", "")))
            for at in rows.where(kind="trace", f="role")
            if rows.value(at).get("role") == "master"
        )
        over = views.phase_time(rows, "stop")
        last = over if over >= 0 else int(times[-1]) if len(rows) else 0
        known = rows.memo(views.faults)
        surely = _without([fault for fault in known if fault.effects is None or _disturbs(fault)], last)
        perhaps = _without([fault for fault in known if fault.effects is not None and _disturbs(fault)], last)
        for node in nodes:
            mine = views.node_traces(rows, node, "route").tolist()
            for number, at in enumerate(mine):
                told = rows.value(at)
                of = ("", told.get("group", ""))
                newer = next((one for one in took_over if one[1] > epoch[at] >= 0 and one[3] in of), None)
                if not told.get("master") or newer is None:
                    continue
                later = (int(times[n]) for n in mine[number + 1 :] if rows.value(n).get("group") == told.get("group"))
                stale = (max(int(times[at]), newer[0]), next(later, last))
                if _overlap(stale, surely) > bound_s * 1e9:
                    _tell_stale(rows, found, at, newer[2], _overlap(stale, surely), bound_s)
                elif _overlap(stale, perhaps) > bound_s * 1e9:
                    found.gap(
                        f"{node} named {told['master']}, master of epoch {int(epoch[at])}, for too long, but a fault "
                        "was in force that declares no effects"
                    )
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial, needs=[("routes", "no name server told its routes")])


def _epoch_stays(rows: Rows, found: Findings, node: str, routes: Sequence[int]) -> None:
    """In one life of a name server the epoch of a group does not fall. Another life begins with nothing: it may hear
    of an older master first, for as long as a route may be stale."""
    index, epoch, life = rows.column("index"), rows.column("epoch"), rows.column("incarnation")
    highest: dict[tuple[int, str], int] = {}
    for at in routes:
        key = (int(life[at]), str(rows.value(at).get("group", "")))
        before = highest.setdefault(key, at)
        if epoch[at] >= epoch[before]:
            highest[key] = at
        elif epoch[at] >= 0:
            found.add(
                ROUTE_REGRESSION,
                f"{node} gave epoch {int(epoch[at])} for the group {key[1]} at {views.at_s(rows, at)}, although it had "
                f"given epoch {int(epoch[before])} at {views.at_s(rows, before)}.",
                int(index[before]),
                int(index[at]),
            )


def _disturbs(fault: Fault) -> bool:
    """Is it proven to have done anything at all to a node?"""
    return bool(fault.hits(*Effect))


def _without(faults: Sequence[Fault], last_ns: int) -> list[tuple[int, int]]:
    """The stretches of time in which none of these faults was in force."""
    quiet, free_from = [], 0
    for fault in sorted(faults, key=lambda fault: fault.began_ns):
        if fault.began_ns > free_from:
            quiet.append((free_from, fault.began_ns))
        free_from = max(free_from, min(fault.until_ns, last_ns))
    return [*quiet, (free_from, last_ns)]


def _overlap(time: tuple[int, int], quiet: Sequence[tuple[int, int]]) -> int:
    """How long at most, in ns, this time overlaps with one of the quiet ones."""
    return max((min(time[1], end) - max(time[0], begin) for begin, end in quiet), default=0)


def _tell_stale(rows: Rows, found: Findings, at: int, newer: int, stale_ns: int, bound_s: float) -> None:
    index, epoch = rows.column("index"), rows.column("epoch")
    found.add(
        STALE_ROUTE,
        f"{rows.text('node', at)} named {rows.value(at)['master']}, master of epoch {int(epoch[at])}, for "
        f"{stale_ns / 1e9:.1f} s without any fault, although {rows.text('node', newer)} had taken over in epoch "
        f"{int(epoch[newer])} at {views.at_s(rows, newer)}; {bound_s:g} s are permitted.",
        int(index[newer]),
        int(index[at]),
    )


@dataclass(frozen=True, slots=True)
class Answers:
    """Who takes writes."""

    promise: Promise = PROMISE
    needs: Needs = ANSWERS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        """An ok to a send or a commit comes from the master of the epoch that it tells. Not judged where no broker
        tells of its roles."""
        found = Findings(PROMISE)
        known = rows.memo(views.masters)
        speakers = {rows.text("node", at) for at in rows.where(kind="trace", f="role")}
        for f in ("send", "commit") if known else ():
            calls = views.calls(rows, f)
            done = calls.done[calls.ok]
            wrong = done[~views.from_masters(rows, done)]
            silent = np.array([rows.text("node", at) not in speakers for at in wrong], dtype=np.bool_)
            if silent.any():
                nodes = sorted({rows.text("node", at) or "whoever answered" for at in wrong[silent]})
                found.gap(f"{', '.join(nodes)} gave an ok to a {f}, but told nothing of its roles")
            for at in wrong[~silent].tolist():
                _tell_usurper(rows, found, at, f)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial)


def _tell_usurper(rows: Rows, found: Findings, at: int, f: str) -> None:
    index, epoch, op = rows.column("index"), int(rows.column("epoch")[at]), int(rows.column("op")[at])
    node = rows.text("node", at)
    rightful = sorted(name for name, term in rows.memo(views.masters) if term == epoch)
    if not rightful and views.may_lack_ends(rows):
        found.gap(views.ROLE_LACKING.format(node, epoch))
        return
    found.add(
        TWO_MASTERS,
        f"{node or 'Somebody'} gave an ok to a {f} at {views.at_s(rows, at)} for epoch {epoch}, of which "
        f"{' and '.join(rightful) or 'nobody'} was the master.",
        op,
        int(index[at]),
        queue=int(rows.column("queue")[at]),
        offset=int(rows.column("offset")[at]),
    )


@dataclass(frozen=True, slots=True)
class Polled:
    """What brokers said of themselves when the harness asked."""

    promise: Promise = PROMISE
    needs: Needs = POLLED

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        states = rows.where(kind="poll", f="state", type="ok")
        found.count("polls", len(states))
        index, epoch = rows.column("index"), rows.column("epoch")
        masters: dict[tuple[str, int], int] = {}
        outside: set[tuple[str, int]] = set()
        for at in states.tolist():
            told, node, number = rows.value(at), rows.text("node", at), int(epoch[at])
            if told.get("role") != "master" or number < 0:
                continue
            other = masters.setdefault((str(told.get("group", "")), number), at)
            if rows.text("node", other) != node:
                found.add(
                    TWO_MASTERS,
                    f"{node} said at {views.at_s(rows, at)} that it is the master of epoch {number}, and so had "
                    f"{rows.text('node', other)} at {views.at_s(rows, other)}.",
                    int(index[other]),
                    int(index[at]),
                )
            if told.get("set") and node not in told["set"] and (node, number) not in outside:
                outside.add((node, number))
                found.add(
                    ELECTION_OUTSIDE_SET,
                    f"{node} said at {views.at_s(rows, at)} that it is the master of epoch {number}, with the "
                    f"SyncStateSet {', '.join(sorted(told['set']))}.",
                    int(index[at]),
                )
        if not context.unfinished:  # that a fault took a node's disk may be proven later
            for node in sorted({rows.text("node", at) for at in states}):
                _epochs_as_polled(rows, found, node)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial, needs=[("polls", "no broker was polled")])


def _epochs_as_polled(rows: Rows, found: Findings, node: str) -> None:
    """A node never goes back to an older epoch, unless its disk was taken from it meanwhile. Who is fenced plays no
    part in the epoch that its disk knows."""
    index, epoch, asked = rows.column("index"), rows.column("epoch"), rows.column("op")
    times = rows.column("time_ns")
    highest = -1
    for at in rows.where(kind="poll", f="state", type="ok", node=node).tolist():
        if epoch[at] < 0 or rows.value(at).get("role") == "fenced":
            continue
        if highest < 0 or epoch[at] >= epoch[highest]:
            highest = at
            continue
        if asked[at] < index[highest]:  # it may have been asked before it gave the other answer
            continue
        between = [
            fault
            for fault in rows.memo(views.faults)
            if fault.began_ns <= times[at] and fault.until_ns >= times[highest]
        ]
        if any(node in fault.hits(Effect.LOSES_DISK) for fault in between):
            highest = at
        elif any(fault.may_hit(node) for fault in between):
            found.gap(f"{node} went back to an older epoch, but a fault hit it that declares no effects")
            highest = at
        else:
            found.add(
                EPOCH_REGRESSION,
                f"{node} said at {views.at_s(rows, at)} that it is {rows.value(at).get('role', 'there')} in epoch "
                f"{int(epoch[at])}, although it had known epoch {int(epoch[highest])} at {views.at_s(rows, highest)}.",
                int(index[highest]),
                int(index[at]),
            )


def create(options: Options) -> Sequence[Elections | Routes | Answers | Polled]:
    return (Elections(), Routes(), Answers(), Polled())
