"""What the members of a SyncStateSet have, and on whom masters count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import committed, losses, reads
from checkers._facts.arrays import Flags, Ints, distinct
from checkers._facts.committed import Course, Told
from checkers._facts.nodes import acks
from checkers._facts.reads import own
from checkers.in_sync.joins import late_joins
from checkers.in_sync.own_log import held
from checkers.in_sync.promise import CONFIRM_BEHIND, LATE_JOIN, MEMBER_BEHIND, PROMISE, SET_NOT_COUNTED

#: So long a master's word of its confirm offset may take to its slaves, when nothing hinders it.
WORD_NS = 2_000_000_000

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
    if facts.may_lack_ends(rows):
        return
    for one in late_joins(rows, context):
        if not one.certain:
            found.gap(f"{one.node} did not join for long, and a fault was in force that declares no effects")
            continue
        began_ns = facts.phase_time(rows, "load")
        found.add(
            LATE_JOIN,
            f"{one.node} lived and was in no SyncStateSet of {one.group} from {facts.in_s(one.since_ns - began_ns)} to "
            f"{facts.in_s(one.until_ns - began_ns)}, although nothing hindered it any more.",
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
            f"SyncStateSet ({facts.at_s(rows, at)}), which had acknowledged {acked} to it, when it had confirmed "
            f"position {confirmed}.",
            int(rows.column("index")[at]),
        )


def _counted_in_time(rows: Rows, found: Findings, course: Course) -> None:
    """Check that the nodes that a master counts on contain the committed set, as long as its term is the newest one."""
    for (node, epoch), counted in rows.memo(committed.told_sets).items():
        if course.masters.get(epoch) != node or not counted:
            continue
        stages = [stage for stage in course.stages if stage.epoch == epoch]
        until = next((stage.index for stage in course.stages if stage.epoch > epoch), facts.NEVER)
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
        f"{', '.join(sorted(counted.members)) or 'nobody'} ({facts.at_s(rows, counted.at)}), where the SyncStateSet "
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
        if behind.any() and facts.may_lack_ends(rows):
            found.gap(facts.ENDS_LACKING.format(node))
            continue
        for n in np.flatnonzero(behind & ~np.append(False, behind[:-1])).tolist():
            confirm = int(confirms[np.searchsorted(highest, due[n])])
            found.add(
                MEMBER_BEHIND,
                f"{node}, a member of the committed SyncStateSet, had {max(0, int(has[n]))} on its disk, when "
                f"{rows.text('node', confirm)} had called position {int(due[n])} confirmed in epoch "
                f"{int(epoch[confirm])} ({facts.at_s(rows, confirm)}).",
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
    begin, index = facts.phase_index(rows, "drain"), rows.column("index")
    if begin < 0 or not facts.has_recovered(rows) or facts.may_lack_ends(rows):
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
                f"{facts.at_s(rows, highest)}.",
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
    at = facts.node_traces(rows, node, "synced", "truncate", "recovered", "bootstrap", "start", "role")
    f = rows.column("f")[at]
    role = np.flatnonzero(f == rows.code("f", "role"))
    plays = np.zeros(len(at), dtype=np.bool_)
    plays[role] = [rows.value(row).get("role") in ("slave", "master") for row in at[role].tolist()]
    begins = f == rows.code("f", "start")
    of_disk = np.ones(len(at), dtype=np.bool_)
    of_disk[role] = False
    durable = held(at, rows.column("position")[at], of_disk & ~begins)
    runs = held(at, plays.astype(np.int64), plays | begins) == 1
    return at, durable, runs
