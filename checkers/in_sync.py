"""Every replica in sync has what is confirmed, at every step: errors show before an election exposes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.fault import Effect
from chaos.judging.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from checkers import _views as views
from checkers._views import committed, losses, reads
from checkers._views.arrays import Flags, Ints, distinct
from checkers._views.committed import Course, Told
from checkers._views.nodes import acks, own_logs
from checkers._views.nodes.joins import late_joins
from checkers._views.nodes.own_logs import size_of_set
from checkers._views.reads import own

CONFIRM_BEYOND_LOG = "confirm-beyond-log"
FALSE_SYNC = "false-sync"
MEMBER_BEHIND = "member-behind"
SET_NOT_COUNTED = "set-not-counted"
TOO_FEW_IN_SYNC = "too-few-in-sync"
CONFIRM_BEHIND = "confirm-behind"
LATE_JOIN = "late-join"
#: So long a master's word of its confirm offset may take to its slaves, when nothing hinders it.
WORD_NS = 2_000_000_000
PROMISE = Promise(
    name="in-sync",
    place=35,
    meaning="Every replica in sync has what is confirmed, and the master counts on all of them, at every step.",
    anomalies=(
        AnomalyKind(name=CONFIRM_BEYOND_LOG, meaning="a node confirmed what its own durable log did not hold then"),
        AnomalyKind(
            name=FALSE_SYNC, meaning="a node reported as durable what its log, or after a crash its disk, did not hold"
        ),
        AnomalyKind(
            name=MEMBER_BEHIND, meaning="a running member of the committed SyncStateSet lacked what was confirmed"
        ),
        AnomalyKind(
            name=acks.FALSE_ACK, meaning="a master counted as acknowledged what the member's own disk did not hold"
        ),
        AnomalyKind(
            name=SET_NOT_COUNTED, meaning="a master counted on fewer replicas than the controllers had committed"
        ),
        AnomalyKind(
            name=TOO_FEW_IN_SYNC,
            meaning="a master acknowledged a message while its SyncStateSet was smaller than `min_in_sync`",
        ),
        AnomalyKind(
            name=CONFIRM_BEHIND,
            meaning="a member of the SyncStateSet did not learn in the end what its master had confirmed",
        ),
        AnomalyKind(
            name=LATE_JOIN,
            meaning="a replica that lived, and that nothing hindered, did not come into the SyncStateSet",
        ),
    ),
)


OWN_LOG = Needs(
    part="what each replica has",
    on_prefix=True,
    key=Key.NODE,
    rows=(
        own("trace", *own_logs.SELDOM),
        own_logs.own_log("append", "synced", "confirm", "acked", "tier_commit"),
        own("final", "node"),
        reads.RUN,
        reads.FAULTS,
    ),
    columns=(*reads.BASIC, *reads.LIVES, "type", "process", "queue", "offset", "position", "message", "epoch"),
    evidence=(Evidence.CONFIRM,),
)
MEMBERS = Needs(
    part="what members of the SyncStateSet have",
    key=Key.RUN,
    rows=(
        own("trace", "applied", "start", "crash"),
        *reads.SETS,
        *reads.CONFIRMED_BY_OTHERS,
        reads.LOG_ENDS,
        own("final", "node"),
        *losses.TERMS_OF_RUN,
    ),
    columns=(*reads.BASIC, *reads.LIVES, "type", "process", "position", "epoch"),
    evidence=(Evidence.CONFIRM, Evidence.ELECTIONS, Evidence.ROLES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def _held(at: Ints, values: Ints, sets: Flags) -> Ints:
    """Return at each of these rows the value that the last row up to it has set; -1 before the first."""
    last = np.maximum.accumulate(np.where(sets, np.arange(len(at)), -1))
    return np.where(last >= 0, values[np.maximum(last, 0)], -1)


@dataclass(frozen=True, slots=True)
class OwnLog:
    """Each replica's words, held against its own log. In its own order, so that no clock is needed."""

    promise: Promise = PROMISE
    needs: Needs = OWN_LOG

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        found.count("confirming_nodes", len(_one_each(rows, "confirm")))
        names = {rows.text("node", at) for f in ("confirm", "synced") for at in _one_each(rows, f)}
        for node in sorted(names):
            _within_log(rows, context, found, node)
            if not context.unfinished:  # that a fault took what the disk had may be proven later
                _disk_keeps(rows, found, node)
        if context.profile.acks == "all":
            for node in sorted({rows.text("node", at) for at in _one_each(rows, "acked")}):
                _enough_in_sync(rows, found, node, context.profile.min_in_sync)
        for at in rows.where(kind="final", f="node").tolist():
            value = rows.value(at)
            end, confirm = value.get("end"), value.get("confirm")
            if isinstance(end, int) and isinstance(confirm, int) and confirm > end:
                _report(rows, found, CONFIRM_BEYOND_LOG, at, f"calls position {confirm} confirmed", f"ends at {end}")
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("confirming_nodes", "no replica reported its confirm offset")]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


def _one_each(rows: Rows, f: str) -> Ints:
    at = rows.where(kind="trace", f=f)
    _, first = np.unique(rows.column("node")[at], return_index=True)
    return at[first]


def _report(rows: Rows, found: Findings, name: str, at: int, did: str, has: str, *witness: int) -> None:
    index = rows.column("index")
    found.add(
        name,
        f"{rows.text('node', at)} {did} ({views.at_s(rows, at)}), but its own log {has}.",
        *(int(index[row]) for row in (*witness, at)),
    )


def _within_log(rows: Rows, context: RunContext, found: Findings, node: str) -> None:
    """Check that what a node calls durable is in its log; that what it calls confirmed is durable (in its log, under
    asynchronous flush); and that what it says of its confirm offset beside that is no more than it. A cut counts when
    it begins."""
    kinds = ("append", "synced", "truncate", "recovered", "bootstrap", "confirm", "acked", "tier_commit")
    at = views.node_traces(rows, node, *kinds)
    f, position = rows.column("f")[at], rows.column("position")[at]
    is_ = {kind: f == rows.code("f", kind) for kind in kinds}
    resets = is_["recovered"] | is_["truncate"] | is_["bootstrap"]
    sizes = np.zeros(len(at), dtype=np.int64)
    sizes[is_["append"]] = np.maximum(rows.numbers("size", at[is_["append"]]), 1)
    end = _held(at, position + sizes, resets | is_["append"])
    durable = _held(at, position, resets | is_["synced"])
    bound, has = (end, "ended at") if context.profile.flush == "async" else (durable, "was on the disk up to")
    if (bound[is_["confirm"]] < 0).any():
        found.gap(f"{node} reported a confirm offset before it reported what its log holds")
    beyond = is_["confirm"] & (bound >= 0) & (position > bound)
    if is_["append"].any():  # a driver may report how far logs go without their records
        false = is_["synced"] & (end >= 0) & (position > end)
        for n in np.flatnonzero(false).tolist():
            _report(rows, found, FALSE_SYNC, int(at[n]), f"called position {position[n]} durable", f"ended at {end[n]}")
    _known_to_disk(rows, found, at[is_["synced"]])
    for n in np.flatnonzero(beyond).tolist():
        did = f"called position {position[n]} confirmed"
        _report(rows, found, CONFIRM_BEYOND_LOG, int(at[n]), did, f"{has} {bound[n]}")
    _one_story(rows, found, at, is_["confirm"] | is_["bootstrap"], is_["recovered"], is_["acked"] | is_["tier_commit"])


def _known_to_disk(rows: Rows, found: Findings, synced: Ints) -> None:
    """Check that a node calls no more of its file durable than the simulator reports: what no crash could take away."""
    said, known = rows.numbers("size", synced), rows.numbers("disk", synced)
    for n in np.flatnonzero((known >= 0) & (known < said)).tolist():
        at = int(synced[n])
        did = f"called {said[n]} bytes of its file {rows.value(at)['file']} durable"
        _report(rows, found, FALSE_SYNC, at, did, f"had {known[n]} of them on the disk")


def _one_story(rows: Rows, found: Findings, at: Ints, names: Flags, recovered: Flags, repeats: Flags) -> None:
    """Check that a confirm offset that a node names beside another event is at most the one that it reported last."""
    known = rows.column("position")[at].copy()
    for n in np.flatnonzero(recovered).tolist():
        known[n] = int(rows.value(at[n]).get("confirm", -1))
    last = _held(at, known, names | recovered)[repeats]
    said = rows.numbers("confirm", at[repeats])
    for n in np.flatnonzero((last >= 0) & (said > last)).tolist():
        row = int(at[repeats][n])
        did = f"gave {said[n]} as its confirm offset ({rows.text('f', row)})"
        _report(rows, found, CONFIRM_BEYOND_LOG, row, did, f"was confirmed up to {last[n]} by its own last word")


def _disk_keeps(rows: Rows, found: Findings, node: str) -> None:
    """Check that what a node called durable is there when it comes back, unless it was cut, or its disk was taken from
    it: its word is new, its count of lives doesn't go on, or a fault is proven to have harmed it."""
    at = views.node_traces(rows, node, "synced", "truncate", "recovered", "bootstrap", "start")
    position, times = rows.column("position"), rows.column("time_ns")
    harmed = [(fault.began_ns, fault.until_ns) for fault in rows.memo(views.faults) if _may_lose(fault, node)]
    is_synced = rows.column("f")[at] == rows.code("f", "synced")
    synced = np.maximum.accumulate(np.where(is_synced, np.arange(len(at)), -1))
    sure, witness, generation, disk, before = -1, -1, -1, "", -1
    for place in np.flatnonzero(~is_synced).tolist():
        if synced[place] > before:
            witness = int(at[synced[place]])
            sure = int(position[witness])
        row, before = int(at[place]), place
        f, where = rows.text("f", row), int(position[row])
        if f == "start":
            value = rows.value(row)
            now, word = int(value.get("generation", generation + 1)), str(value.get("disk", ""))
            sure = -1 if now <= generation or word != disk else sure
            generation, disk = now, word
        elif f == "truncate":
            sure = min(sure, where)
        else:
            allowed = any(times[witness] <= until and began <= times[row] for began, until in harmed)
            if f == "recovered" and where < sure and not allowed:
                did = f"had called position {sure} durable at {views.at_s(rows, witness)}, and came back"
                _report(rows, found, FALSE_SYNC, row, did, f"ended at {where}", witness)
            sure, witness = where, row


def _may_lose(fault: views.Fault, node: str) -> bool:
    return node in fault.hits(Effect.LOSES_DISK) or fault.may_hit(node)


def _enough_in_sync(rows: Rows, found: Findings, node: str, least: int) -> None:
    """Check that a master counts on a SyncStateSet of at least so many when it appends a message, or when it
    acknowledges it, or in between: a system may look at either moment, and the set may shrink or grow meanwhile. Of an
    acknowledgement only the last record is judged: those before it may have been answered otherwise."""
    at = views.node_traces(rows, node, "append", "acked", "role", "set")
    f, epoch, position = (rows.column(name)[at] for name in ("f", "epoch", "position"))
    of_set = (f == rows.code("f", "role")) | (f == rows.code("f", "set"))
    sizes = np.full(len(at), -1, dtype=np.int64)
    sizes[of_set] = [size_of_set(rows, row) for row in at[of_set].tolist()]
    known = _held(at, sizes, of_set)
    enough = (known < 0) | (known >= least)
    so_far = np.cumsum(enough)
    sent = np.flatnonzero((f == rows.code("f", "append")) & (rows.column("message")[at] >= 0) & ~enough)
    end = position[sent] + np.maximum(rows.numbers("size", at[sent]), 1)
    for n in np.flatnonzero((f == rows.code("f", "acked")) & ~enough).tolist():
        of_ack = sent[(end == position[n]) & (epoch[sent] == epoch[n]) & (sent < n)]
        if len(of_ack) and so_far[n] == so_far[of_ack[-1]]:
            _report_too_few(rows, found, at[[np.flatnonzero(of_set[:n])[-1], of_ack[-1], n]], least)


def _report_too_few(rows: Rows, found: Findings, story: Ints, least: int) -> None:
    """Report an acknowledgement by too few. ``story``: the rows of the set, the append and the acknowledgement."""
    of_set, append, acked = story.tolist()
    members = sorted(map(str, rows.value(of_set)["set"]))
    found.add(
        TOO_FEW_IN_SYNC,
        f"{rows.text('node', acked)}, master of epoch {int(rows.column('epoch')[acked])}, acknowledged the message at "
        f"offset {int(rows.column('offset')[append])} of queue {int(rows.column('queue')[append])} at "
        f"{views.at_s(rows, acked)}, when from its append on no more than {', '.join(members) or 'nobody'} had been in "
        f"its SyncStateSet, where {least} replicas must be in sync.",
        *(int(rows.column("index")[row]) for row in story),
        queue=int(rows.column("queue")[append]),
        offset=int(rows.column("offset")[append]),
        message=int(rows.column("message")[append]),
    )


@dataclass(frozen=True, slots=True)
class Members:
    """The committed sets, held against what their members have and against whom their master counts on."""

    promise: Promise = PROMISE
    needs: Needs = MEMBERS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        courses = rows.memo(committed.courses)
        acks.false_acks(rows, context, found)
        _none_proposed_behind(rows, found)
        found.count("committed_sets", sum(len(course.stages) for course in courses.values()))
        for course in courses.values():
            _all_were_counted(rows, found, course)
            if context.one_clock:
                _counted_in_time(rows, found, course)
                if context.profile.flush == "sync" and losses.keeps(rows, context, confirmed=True):
                    _members_have_all(rows, found, course)
                    _members_know_all(rows, found, course)
        _all_join(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("committed_sets", "cannot judge: no whole record of the committed sets was found")]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


def _all_join(rows: Rows, context: RunContext, found: Findings) -> None:
    if views.may_lack_ends(rows):
        return
    for one in late_joins(rows, context):
        if not one.certain:
            found.gap(f"{one.node} did not join for long, and a fault was in force that declares no effects")
            continue
        began_ns = views.phase_time(rows, "load")
        found.add(
            LATE_JOIN,
            f"{one.node} lived and was in no SyncStateSet of {one.group} from {views.in_s(one.since_ns - began_ns)} to "
            f"{views.in_s(one.until_ns - began_ns)}, although nothing hindered it any more.",
            int(rows.column("index")[one.out]),
        )


def _all_were_counted(rows: Rows, found: Findings, course: Course) -> None:
    """Check that a set that was committed under a master term is one that its master has reported to count on, at some
    time; and that it counts at least on itself each time that it raises its confirm offset."""
    masters, index = course.masters, rows.column("index")
    reported = rows.memo(committed.told_sets)
    for stage in course.stages:
        counted = reported.get((masters.get(stage.epoch, ""), stage.epoch), ())
        if stage.altered and counted and not any(stage.members <= row.members for row in counted):
            _report_uncounted(rows, found, masters[stage.epoch], stage.members, counted[-1], int(index[stage.at]))
    for (node, epoch), counted in reported.items():
        if masters.get(epoch) == node:
            alone = [row for row in counted if node not in row.members]
            for row in alone[:1]:
                _report_uncounted(rows, found, node, frozenset({node}), row, -1)


def _none_proposed_behind(rows: Rows, found: Findings) -> None:
    """Check that whom a master takes into the set has acknowledged all that it has confirmed: its own words suffice."""
    for at, member, acked, confirmed in acks.proposed_behind(rows):
        found.add(
            MEMBER_BEHIND,
            f"{rows.text('node', at)}, master of epoch {int(rows.column('epoch')[at])}, proposed {member} for the "
            f"SyncStateSet ({views.at_s(rows, at)}), which had acknowledged {acked} to it, when it had confirmed "
            f"position {confirmed}.",
            int(rows.column("index")[at]),
        )


def _counted_in_time(rows: Rows, found: Findings, course: Course) -> None:
    """Check that the nodes that a master counts on contain the committed set, as long as its term is the newest one."""
    for (node, epoch), counted in rows.memo(committed.told_sets).items():
        if course.masters.get(epoch) != node or not counted:
            continue
        stages = [stage for stage in course.stages if stage.epoch == epoch]
        until = next((stage.index for stage in course.stages if stage.epoch > epoch), views.NEVER)
        moments = sorted({row.index for row in counted} | {stage.index for stage in stages})
        indexes = [row.index for row in counted]
        for moment in moments:
            place = int(np.searchsorted(indexes, moment, side="right")) - 1
            stage = course.at(moment)
            if place < 0 or moment >= until or stage is None or stage.epoch != epoch:
                continue
            if not stage.members <= counted[place].members:
                _report_uncounted(rows, found, node, stage.members, counted[place], int(rows.column("index")[stage.at]))
                break


def _report_uncounted(
    rows: Rows, found: Findings, node: str, members: frozenset[str], counted: Told, committed_at: int
) -> None:
    found.add(
        SET_NOT_COUNTED,
        f"{node}, master of epoch {int(rows.column('epoch')[counted.at])}, counted on "
        f"{', '.join(sorted(counted.members)) or 'nobody'} ({views.at_s(rows, counted.at)}), where the SyncStateSet "
        f"was {', '.join(sorted(members))}.",
        committed_at,
        counted.index,
    )


def _members_have_all(rows: Rows, found: Findings, course: Course) -> None:
    """Check that at every step each member of the committed set that runs, and has its role in this life, has on its
    disk what masters have called confirmed. A node that was given no role yet may still learn that it is no member any
    more."""
    confirms = _by_masters(rows, course)
    epoch, position, index = (rows.column(name) for name in ("epoch", "position", "index"))
    if not len(confirms):
        return
    highest = np.maximum.accumulate(position[confirms])
    stage_at = np.array([stage.index for stage in course.stages], dtype=np.int64)
    for node in sorted(frozenset().union(*(stage.members for stage in course.stages))):
        is_member = np.array([node in stage.members for stage in course.stages], dtype=np.bool_)
        own_at, durable, runs = _own_course(rows, node)
        if not len(own_at):
            found.gap(f"{node} reported nothing of what is durable on its disk")
            continue
        moments = distinct(np.concatenate([index[confirms], index[own_at], stage_at]))
        due, _ = _last(index[confirms], highest, moments)
        has, last = _last(index[own_at], durable, moments)
        running, _ = _last(index[own_at], runs.astype(np.int64), moments)
        member, _ = _last(stage_at, is_member.astype(np.int64), moments)
        behind = (member == 1) & (running == 1) & (has < due)
        if behind.any() and views.may_lack_ends(rows):
            found.gap(views.ENDS_LACKING.format(node))
            continue
        for n in np.flatnonzero(behind & ~np.append(False, behind[:-1])).tolist():
            confirm = int(confirms[np.searchsorted(highest, due[n])])
            found.add(
                MEMBER_BEHIND,
                f"{node}, a member of the committed SyncStateSet, had {max(0, int(has[n]))} on its disk, when "
                f"{rows.text('node', confirm)} had called position {int(due[n])} confirmed in epoch "
                f"{int(epoch[confirm])} ({views.at_s(rows, confirm)}).",
                int(index[confirm]),
                int(index[own_at[last[n]]]),
                int(moments[n]),
            )


def _by_masters(rows: Rows, course: Course) -> Ints:
    """Return the confirm offsets that masters of the group reported, each in its own epoch, in order of recording."""
    confirms = rows.where(kind="trace", f="confirm")
    epoch, node = rows.column("epoch")[confirms], rows.column("node")[confirms]
    by_master = np.zeros(len(confirms), dtype=np.bool_)
    for number, name in sorted(course.masters.items()):
        by_master |= (node == rows.code("node", name)) & (epoch == number)
    return confirms[by_master]


def _members_know_all(rows: Rows, found: Findings, course: Course) -> None:
    """Check that who was in the SyncStateSet from recovery to the end knows in the end what was confirmed by then:
    readers are given no more by a replica than it knows to be confirmed."""
    begin, index = views.phase_index(rows, "drain"), rows.column("index")
    if begin < 0 or not views.has_recovered(rows) or views.may_lack_ends(rows):
        return
    since, times = course.at(begin), rows.column("time_ns")
    confirms = _by_masters(rows, course)
    confirms = confirms[index[confirms] < begin]
    if since is None:
        return
    members = since.members.intersection(*(stage.members for stage in course.stages if stage.index > begin))
    for at in rows.where(kind="final", f="node").tolist():
        knows, node = rows.value(at).get("confirm"), rows.text("node", at)
        known = confirms[times[confirms] < times[at] - WORD_NS]
        if node not in members or not isinstance(knows, int) or not len(known):
            continue
        highest = int(known[np.argmax(rows.column("position")[known])])
        due = int(rows.column("position")[highest])
        if knows < due:
            found.add(
                CONFIRM_BEHIND,
                f"{node}, in the SyncStateSet from recovery on, knew in the end that its log is confirmed up to "
                f"position {knows}, when {rows.text('node', highest)} had called position {due} confirmed at "
                f"{views.at_s(rows, highest)}.",
                int(index[highest]),
                int(index[at]),
            )


def _last(at: Ints, values: Ints, moments: Ints) -> tuple[Ints, Ints]:
    """Return at each moment the value that the last row up to it gave (-1 before the first), and that row's number."""
    place = np.searchsorted(at, moments, side="right") - 1
    return np.where(place >= 0, values[np.maximum(place, 0)], -1), place


def _own_course(rows: Rows, node: str) -> tuple[Ints, Ints, Flags]:
    """Return a node's rows about its disk and its lives, in order; after each, how far its log was durable, and whether
    it has a role in this life. A cut counts when it begins, and leaves all before it durable."""
    at = views.node_traces(rows, node, "synced", "truncate", "recovered", "bootstrap", "start", "role")
    f = rows.column("f")[at]
    role = np.flatnonzero(f == rows.code("f", "role"))
    plays = np.zeros(len(at), dtype=np.bool_)
    plays[role] = [rows.value(row).get("role") in ("slave", "master") for row in at[role].tolist()]
    begins = f == rows.code("f", "start")
    of_disk = np.ones(len(at), dtype=np.bool_)
    of_disk[role] = False
    durable = _held(at, rows.column("position")[at], of_disk & ~begins)
    runs = _held(at, plays.astype(np.int64), plays | begins) == 1
    return at, durable, runs


def create(options: Options) -> Sequence[OwnLog | Members]:
    return (OwnLog(), Members())
