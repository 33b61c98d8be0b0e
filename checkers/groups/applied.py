"""What the members of each group applied: one log for all, of which nothing is dropped again, and which a majority's
disks held before anything of it was acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from chaos.driver import Evidence
from chaos.events import (
    Applied,
    EntriesCut,
    GroupAcked,
    GroupAppended,
    GroupFenced,
    GroupSynced,
    RaftMembers,
    RaftRole,
    TermRaised,
    Vote,
)
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial, RunContext
from chaos.law import Rows as LawRows
from chaos.operations import HarnessRow
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.arrays import NEVER, Flags, Ints
from checkers._facts.raft.group import RaftGroup, node_of
from checkers._facts.storage.entries import Appends, appends, fences
from checkers._facts.storage.memberships import Membership, memberships, raft_groups
from checkers.groups.promise import ACKED_UNSYNCED, APPEND_MISPLACED, ENTRIES_DIFFER, ENTRY_LOST, PROMISE


class Applications(Law):
    """What stores applied, what they dropped, and what their disks held."""

    promise = PROMISE
    key = Key.RUN
    reads = (
        *(GroupFenced, GroupAppended, GroupSynced, GroupAcked, EntriesCut, Applied),
        *(RaftMembers, RaftRole, Vote, TermRaised, HarnessRow),
    )
    evidence = (Evidence.GROUPS,)
    part = "entries"

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        every = appends(rows)
        found.count("group_entries", len(every.at) + len(fences(rows)))
        _same_appends(rows, found, every)
        _same_fences(rows, found, every)
        _joined(rows, found, every)
        _nothing_dropped(rows, context, found, every)
        _acknowledged(rows, context, found, every.only(every.accepted))
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("group_entries", "no store reported what it applied")])


def _same_appends(rows: Rows, found: Findings, every: Appends) -> None:
    """Check that all stores that apply an APPEND apply the same one, with the same outcome."""
    content = np.stack([every.epoch, every.begin, every.end, every.crc, every.accepted], axis=1)
    same = (every.group[1:] == every.group[:-1]) & (every.index[1:] == every.index[:-1])
    differs = np.flatnonzero(same & (content[1:] != content[:-1]).any(axis=1)) + 1

    def report(one: int) -> None:
        _differ(rows, found, int(every.group[one]), int(every.index[one]), int(every.at[one - 1]), int(every.at[one]))

    found.add_each(ENTRIES_DIFFER, differs, report, acted_ns=facts.since_load_ns(rows, every.at[differs]))


def _same_fences(rows: Rows, found: Findings, every: Appends) -> None:
    """Likewise of a FENCE; and nobody applies an APPEND in its place."""
    appended = {(group, index): at for group, index, at in _places(every)}
    first: dict[tuple[int, int], tuple[tuple[object, ...], int]] = {}
    for fence in fences(rows):
        place = fence.group, fence.index
        content, witness = first.setdefault(place, (fence.content, fence.at))
        if content != fence.content:
            _differ(rows, found, *place, witness, fence.at)
        elif witness == fence.at and place in appended:
            _differ(rows, found, *place, *sorted((appended[place], fence.at)))


def _places(every: Appends) -> Iterator[tuple[int, int, int]]:
    return zip(every.group.tolist(), every.index.tolist(), every.at.tolist(), strict=True)


def _differ(rows: Rows, found: Findings, group: int, index: int, one: int, other: int) -> None:
    found.add(
        ENTRIES_DIFFER,
        f"Entry {index} of group {group}'s log is {_said(rows, one)} as {rows.text('node', one)} applied it at "
        f"{facts.at_s(rows, one)}, but {_said(rows, other)} as {rows.text('node', other)} applied it at "
        f"{facts.at_s(rows, other)}.",
        *sorted(int(rows.column("index")[at]) for at in (one, other)),
    )


def _said(rows: Rows, at: int) -> str:
    value, epoch = rows.value(at), int(rows.column("epoch")[at])
    taken = "accepted" if value.get("accepted") is True else "refused"
    if rows.text("f", at) == "fence":
        return f"the fence of {value.get('broker')} for epoch {epoch}, {taken},"
    begin = int(rows.column("position")[at])
    return f"an append of epoch {epoch} at {begin} to {value.get('end')} (CRC {value.get('crc')}), {taken},"


def _joined(rows: Rows, found: Findings, every: Appends) -> None:
    """Check that what is added begins where a group's bytes ended, and that a fence finds that end."""
    if facts.may_lack_ends(rows):
        found.gap("a host was lost, and with it perhaps what its stores had added")
        return
    new = np.ones(len(every.at), dtype=np.bool_)
    new[1:] = (every.group[1:] != every.group[:-1]) | (every.index[1:] != every.index[:-1])
    added = every.only(every.accepted & ~every.again & new)
    taken = {(one.group, one.index): one for one in reversed(fences(rows)) if one.accepted}.values()
    group, index, end, at = (
        np.append(getattr(added, name), np.array([getattr(one, name) for one in taken], np.int64))
        for name in ("group", "index", "end", "at")
    )
    begin = np.append(added.begin, end[len(added.at) :])
    order = np.lexsort((index, group))
    before, after = order[:-1], order[1:]
    follows = (group[before] == group[after]) & (index[before] < index[after])
    wrong = np.flatnonzero(follows & (end[before] != begin[after]))

    def report(one: int) -> None:
        last, place = int(before[one]), int(after[one])
        row = int(at[place])
        found.add(
            APPEND_MISPLACED,
            f"Entry {int(index[place])} of group {int(group[place])}'s log begins at {int(begin[place])} as "
            f"{rows.text('node', row)} applied it at {facts.at_s(rows, row)}, although the group's bytes ended at "
            f"{int(end[last])} by entry {int(index[last])}.",
            *sorted(int(rows.column("index")[one]) for one in (int(at[last]), row)),
        )

    found.add_each(APPEND_MISPLACED, wrong, report, acted_ns=facts.since_load_ns(rows, at[after[wrong]]))


def _nothing_dropped(rows: Rows, context: RunContext, found: Findings, every: Appends) -> None:
    """Check that no store drops an entry that it has applied: what is applied is committed."""
    for number, group in raft_groups(rows).items():
        for node, cuts in group.by_node(rows, "entries_cut"):
            found.count("group_cuts", len(cuts))
            applied, index = _applied_by(rows, every, number, node)
            places = dict(zip(applied.tolist(), index.tolist(), strict=True))
            life, highest, witness = rows.column("incarnation"), -1, -1
            for at in facts.in_node_order(rows, np.append(applied, cuts)).tolist():
                is_new = group.begins_anew(node, witness, at, one_clock=context.one_clock)
                if witness >= 0 and (is_new or life[at] != life[witness]):
                    highest, witness = -1, -1  # it may have begun again on an empty disk
                if at in places:
                    highest, witness = (places[at], at) if places[at] > highest else (highest, witness)
                elif rows.column("position")[at] <= highest:
                    _report_dropped(rows, found, group, at, highest, witness)


def _report_dropped(rows: Rows, found: Findings, group: RaftGroup, at: int, highest: int, witness: int) -> None:
    first, last = int(rows.column("position")[at]), rows.value(at).get("last")
    found.add(
        ENTRY_LOST,
        f"{rows.text('node', at)} dropped the entries {first} to {last} of {group.possessive} log at "
        f"{facts.at_s(rows, at)}, although it had applied entry {highest} at {facts.at_s(rows, witness)}.",
        int(rows.column("index")[witness]),
        int(rows.column("index")[at]),
    )


def _applied_by(rows: Rows, every: Appends, group: int, node: str) -> tuple[Ints, Ints]:
    mine = (every.group == group) & (rows.column("node")[every.at] == rows.code("node", node))
    fenced = [one for one in fences(rows) if one.group == group and rows.text("node", one.at) == node]
    at = np.append(every.at[mine], np.array([one.at for one in fenced], np.int64))
    return at, np.append(every.index[mine], np.array([one.index for one in fenced], np.int64))


def _acknowledged(rows: Rows, context: RunContext, found: Findings, taken: Appends) -> None:
    """Check that a majority of the voters had on their disks what was acknowledged: when it was, where one clock orders
    the rows of all nodes; elsewhere at any time, since none of them forgets."""
    at = rows.where(kind="trace", f="group_acked")
    if not len(at) or facts.may_lack_ends(rows):
        return
    group, epoch, end = rows.numbers("group", at), rows.column("epoch")[at], rows.column("position")[at]
    synced = rows.memo(_synced)
    for number in np.unique(group).tolist():
        known = memberships(rows).get(number, ())
        if not known:
            found.gap(f"nothing shows who the members of group {number} were")
            continue
        mine = np.flatnonzero(group == number)
        entry = _entries_of(taken.only(taken.group == number), epoch[mine], end[mine])
        mine, entry = mine[entry >= 0], entry[entry >= 0]
        when = at[mine] if context.one_clock else np.full(len(mine), NEVER)
        held = _by_majority(known, synced.get(number, {}), entry, when)
        found.count("group_synced_acks", int(held.sum()))
        wrong = np.flatnonzero(~held)

        def report(one: int, rowed: Ints = at[mine], entry: Ints = entry, number: int = number) -> None:
            row = int(rowed[one])
            found.add(
                ACKED_UNSYNCED,
                f"{rows.text('node', row)} acknowledged records up to {int(rows.column('position')[row])} in group "
                f"{number} at {facts.at_s(rows, row)}, and the disks of no majority of its voters held entry "
                f"{int(entry[one])} " + ("by then." if context.one_clock else "at any time."),
                int(rows.column("index")[row]),
            )

        found.add_each(ACKED_UNSYNCED, wrong, report, acted_ns=facts.since_load_ns(rows, at[mine[wrong]]))


def _entries_of(taken: Appends, epoch: Ints, end: Ints) -> Ints:
    """Return by which entry of the log each end was reached in its epoch; -1 where none is on record."""
    found = np.full(len(end), -1, dtype=np.int64)
    for one in np.unique(epoch).tolist():
        of_epoch, asked = taken.only(taken.epoch == one), epoch == one
        if len(of_epoch.at):
            ends = np.maximum.accumulate(of_epoch.end)
            place = np.searchsorted(ends, end[asked])
            found[asked] = np.append(of_epoch.index, -1)[place]
    return found


def _synced(rows: Rows) -> dict[int, dict[str, tuple[Ints, Ints]]]:
    """Return by group and store: rows, ascending, and up to which entry its disk was durable from there on."""
    found: dict[int, dict[str, list[tuple[int, int]]]] = {}
    at = rows.where(kind="trace", f="group_synced")
    for row, value in zip(at.tolist(), rows.values(at), strict=True):
        node = rows.text("node", row)
        for group, index in (value.get("groups") or {}).items():
            if str(group).isdecimal() and isinstance(index, int):
                found.setdefault(int(group), {}).setdefault(node, []).append((row, index))
    return {group: {node: _columns(pairs) for node, pairs in nodes.items()} for group, nodes in found.items()}


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[Ints, Ints]:
    table = np.array(pairs, dtype=np.int64)
    return table[:, 0], np.maximum.accumulate(table[:, 1])


def _by_majority(known: Sequence[Membership], synced: dict[str, tuple[Ints, Ints]], entry: Ints, when: Ints) -> Flags:
    """Return which entries the disks of a majority held before these rows. While members change, those before and those
    after the change count, too: the leader's log has the change before it is committed."""
    held = np.zeros(len(entry), dtype=np.bool_)
    has = {node: np.append(-1, ends)[np.searchsorted(rows, when)] >= entry for node, (rows, ends) in synced.items()}
    nobody = np.zeros(len(entry), dtype=np.bool_)
    for place, one in enumerate(known):
        since = known[place - 1].index if place else -1
        until = known[place + 2].index if place + 2 < len(known) else NEVER
        number = np.sum([has.get(node_of(name), nobody) for name in sorted(one.members.voters)], axis=0)
        held |= (2 * number > len(one.members.voters)) & (entry >= since) & (entry < until)
    return held
