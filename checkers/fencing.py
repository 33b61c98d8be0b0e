"""The writer of a group has fenced it, with an epoch of its own from meta's log, and earlier writers write no more.

A broker without a disk owns a slice for as long as no later epoch is in its groups' logs. So what is decided when a
store applies an entry is all that counts, and it is ordered by the index in the group's log. No clock is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.events import Applied, GroupAcked, GroupAppended, GroupFenced, SliceOpened
from chaos.findings import Findings, decide
from chaos.law import AnomalyKind, Harm, Key, Law, Partial, Promise
from chaos.law import Rows as LawRows
from chaos.operations import FinalGroup, HarnessRow
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.arrays import Ints
from checkers._facts.storage.catalogue import OWNER, Entry, catalogue
from checkers._facts.storage.entries import Appends, Fence, accepted_fences, appends, fences
from checkers._facts.storage.segments import replicas

APPEND_PAST_FENCE, FENCE_WENT_BACK = "append-past-fence", "fence-went-back"
TWO_OWNERS, LIFE_REUSED, EPOCH_REUSED = "two-owners", "life-reused", "epoch-reused"
UNLOGGED_OWNER, OPENED_UNFENCED = "unlogged-owner", "opened-unfenced"
ACKED_PAST_FENCE, ACKED_UNWRITTEN = "acked-past-fence", "acked-unwritten"
FENCE_FORGOTTEN = "fence-forgotten"

PROMISE = Promise(
    name="fencing",
    place=86,
    meaning="Only the owner that meta's log names writes a group, and none of an epoch that a fence has ended.",
    anomalies=(
        AnomalyKind(
            name=APPEND_PAST_FENCE,
            meaning="a store took records of another epoch than that of the last fence",
            headline=("A store took records of an owner that was fenced off",),
            harm=Harm.DATA,
            decision=(GroupAppended,),
        ),
        AnomalyKind(
            name=FENCE_WENT_BACK,
            meaning="a store accepted a fence of an epoch that was over, or another owner's",
            headline=("A fence of an epoch that was over was accepted",),
            harm=Harm.DATA,
            decision=(GroupFenced,),
        ),
        AnomalyKind(
            name=TWO_OWNERS,
            meaning="two brokers, or two incarnations of one, own a slice in one epoch",
            headline=("A slice had two owners in one epoch",),
            harm=Harm.DATA,
            decision=(GroupFenced, SliceOpened),
        ),
        AnomalyKind(
            name=LIFE_REUSED,
            meaning="two incarnations of brokers have one number",
            headline=("Two incarnations of brokers had one number",),
            decision=(Applied, SliceOpened),
        ),
        AnomalyKind(
            name=EPOCH_REUSED,
            meaning="meta gave a slice to another owner, and not with a higher epoch",
            headline=("A slice got another owner without a higher epoch",),
            decision=(Applied,),
        ),
        AnomalyKind(
            name=UNLOGGED_OWNER,
            meaning="a fence was accepted of an owner that meta's log does not name",
            headline=("A fence was accepted of an owner that meta had never named",),
            decision=(GroupFenced,),
        ),
        AnomalyKind(
            name=OPENED_UNFENCED,
            meaning="a broker opened a slice of which a group had not taken its fence, or had ended elsewhere",
            headline=("A slice was opened that its owner had not fenced",),
            harm=Harm.DATA,
            decision=(SliceOpened,),
        ),
        AnomalyKind(
            name=ACKED_PAST_FENCE,
            meaning="a broker acknowledged records behind the end at which a later owner began",
            headline=("Records were acknowledged behind a later owner's beginning",),
            harm=Harm.DATA,
            decision=(GroupAcked,),
        ),
        AnomalyKind(
            name=ACKED_UNWRITTEN,
            meaning="a broker acknowledged records that no store had taken",
            headline=("Records were acknowledged that no store had taken",),
            harm=Harm.DATA,
            decision=(GroupAcked,),
        ),
        AnomalyKind(
            name=FENCE_FORGOTTEN,
            meaning="a store has an older fence in the end than one that its replica had applied",
            headline=("A store forgot a fence", "{n} replicas forgot a fence"),
        ),
    ),
    counts={
        "fences": "fences that took effect",
        "group_appends": "appends that stores took",
        "group_acks": "acknowledgements of brokers",
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


class Fencing(Law):
    promise = PROMISE
    key = Key.RUN
    reads = (GroupFenced, GroupAppended, GroupAcked, SliceOpened, Applied, FinalGroup, HarnessRow)
    evidence = (Evidence.GROUPS,)

    def examine(self, given: LawRows) -> Partial:
        rows = given.columns
        found = Findings(PROMISE)
        taken = appends(rows).only(appends(rows).accepted)
        by_group = accepted_fences(rows)
        found.count("fences", sum(map(len, by_group.values())))
        found.count("group_appends", len(taken.at))
        _appended(rows, found, taken)
        for known in by_group.values():
            _fences_grow(rows, found, known)
        _one_owner(rows, found, [fence for known in by_group.values() for fence in known])
        _epochs_grow(rows, found)
        _owners_logged(rows, found)
        _opened_fenced(rows, found)
        _acknowledged(rows, found, taken, by_group)
        _remembered(rows, found, by_group)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        needs = [
            ("fences", "no store reported a fence that took effect"),
            ("group_appends", "no store reported records that it took"),
        ]
        return decide(PROMISE, partial, needs=needs)


def _appended(rows: Rows, found: Findings, taken: Appends) -> None:
    """Check that each append is of the epoch that the last fence before it began."""
    known = [fence for fence in fences(rows) if fence.accepted]
    group, index, epoch = (np.array([getattr(one, name) for one in known], np.int64) for name in _PLACE)
    last = _last_before(group, index, taken)
    has = last >= 0
    if not has.all():
        found.gap("a store took records of a group of which no fence is on record")
    wrong = np.flatnonzero(has & (taken.epoch != np.append(epoch, -1)[last]))

    def report(one: int) -> None:
        fence, at = known[int(last[one])], int(taken.at[one])
        found.add(
            APPEND_PAST_FENCE,
            f"{rows.text('node', at)} took records of epoch {int(taken.epoch[one])} into group "
            f"{int(taken.group[one])} at {facts.at_s(rows, at)}, as entry {int(taken.index[one])}, although entry "
            f"{fence.index} had fenced the group for epoch {fence.epoch} of {fence.broker}.",
            *_indices(rows, fence.at, at),
        )

    found.add_each(APPEND_PAST_FENCE, wrong, report, acted_ns=facts.since_load_ns(rows, taken.at[wrong]))


_PLACE = ("group", "index", "epoch")


def _last_before(group: Ints, index: Ints, taken: Appends) -> Ints:
    """For each append the place of the last of these entries of its group before it, -1 for none."""
    groups, indices = np.append(group, taken.group), np.append(index, taken.index)
    is_append = np.arange(len(groups)) >= len(group)
    order = np.lexsort((is_append, indices, groups))
    place = np.maximum.accumulate(np.where(is_append[order], -1, np.arange(len(order))))
    before = np.where(place >= 0, order[place], -1)
    before[(before >= 0) & (groups[before] != groups[order])] = -1
    found = np.empty(len(order), dtype=np.int64)
    found[order] = before
    return found[len(group) :]


def _fences_grow(rows: Rows, found: Findings, known: Iterable[Fence]) -> None:
    """Check that each fence of a group has a higher epoch than all before it, or is the same owner's again."""
    highest: Fence | None = None
    for fence in known:
        if highest is None or fence.epoch > highest.epoch:
            highest = fence
        elif (fence.epoch, fence.owner) != (highest.epoch, highest.owner):
            found.add(
                FENCE_WENT_BACK,
                f"{rows.text('node', fence.at)} accepted the fence of epoch {fence.epoch} of {fence.broker} (life "
                f"{fence.life}) in group {fence.group} as entry {fence.index}, although entry {highest.index} had "
                f"fenced it for epoch {highest.epoch} of {highest.broker} (life {highest.life}).",
                *_indices(rows, highest.at, fence.at),
            )


def _one_owner(rows: Rows, found: Findings, known: Iterable[Fence]) -> None:
    """Check that in each epoch of a slice one incarnation of one broker owns it, by the fences and by what brokers say
    of themselves; and that no two incarnations have one number."""
    owners: dict[tuple[str, int], tuple[tuple[str, int], int]] = {}
    for fence in sorted(known, key=lambda one: one.at):
        _is_owner(rows, found, owners, (fence.slice, fence.epoch), fence.owner, fence.at)
    lives: dict[int, tuple[str, int, int]] = {}
    epoch, incarnation = rows.column("epoch"), rows.column("incarnation")
    for at in rows.where(kind="trace", f="opened").tolist():
        value, node = rows.value(at), rows.text("node", at)
        life = value.get("life", -1)
        _is_owner(rows, found, owners, (str(value.get("slice", "")), int(epoch[at])), (node, life), at)
        first = lives.setdefault(life, (node, int(incarnation[at]), at))
        if first[:2] != (node, int(incarnation[at])):
            found.add(
                LIFE_REUSED,
                f"{node} opened {value.get('slice')} at {facts.at_s(rows, at)} as life {life}, in its incarnation "
                f"{int(incarnation[at])}, although {first[0]} had done so in its incarnation {first[1]}.",
                *_indices(rows, first[2], at),
            )


def _is_owner(
    rows: Rows,
    found: Findings,
    owners: dict[tuple[str, int], tuple[tuple[str, int], int]],
    term: tuple[str, int],
    owner: tuple[str, int],
    at: int,
) -> None:
    first, witness = owners.setdefault(term, (owner, at))
    if first != owner:
        found.add(
            TWO_OWNERS,
            f"In epoch {term[1]} {term[0]} was {first[0]}'s (life {first[1]}) as {rows.text('node', witness)} reports, "
            f"but {owner[0]}'s (life {owner[1]}) as {rows.text('node', at)} reports at {facts.at_s(rows, at)}.",
            *_indices(rows, witness, at),
        )


def _epochs_grow(rows: Rows, found: Findings) -> None:
    """Check that each change of an owner in meta's log has a higher epoch than all before it."""
    before: dict[str, Entry] = {}
    for entry in catalogue(rows).of(OWNER):
        last = before.get(entry.name)
        if last is not None and _owner(entry) != _owner(last) and entry.number("epoch") <= last.number("epoch"):
            found.add(
                EPOCH_REUSED,
                f"Revision {entry.revision} of meta's log gives {entry.name} to {entry.word('broker') or 'nobody'} "
                f"(life {entry.number('life')}) with epoch {entry.number('epoch')}, although revision {last.revision} "
                f"had given it to {last.word('broker') or 'nobody'} (life {last.number('life')}) with epoch "
                f"{last.number('epoch')}.",
                *_indices(rows, last.at, entry.at),
            )
            continue
        before[entry.name] = entry


def _owner(entry: Entry) -> tuple[str, int]:
    return entry.word("broker"), entry.number("life")


def _owners_logged(rows: Rows, found: Findings) -> None:
    """Check that meta's log names the owner, its life and its epoch of each fence that took effect."""
    log = catalogue(rows)
    named = {(entry.name, entry.number("epoch"), *_owner(entry)) for entry in log.of(OWNER)}
    for known in accepted_fences(rows).values():
        for fence in known:
            if (fence.slice, fence.epoch, *fence.owner) in named:
                continue
            if not log.is_whole or facts.may_lack_ends(rows):
                found.gap("a fence took effect of an owner that is not in what is on record of meta's log")
                continue
            found.add(
                UNLOGGED_OWNER,
                f"{rows.text('node', fence.at)} accepted the fence of {fence.broker} (life {fence.life}) with epoch "
                f"{fence.epoch} of {fence.slice} in group {fence.group} at {facts.at_s(rows, fence.at)}, and no entry "
                "of meta's log names that owner.",
                *_indices(rows, fence.at),
            )


def _opened_fenced(rows: Rows, found: Findings) -> None:
    """Check that a broker that opens a slice has fenced each group of it, and begins where that fence found the end."""
    taken: dict[tuple[int, int, int], set[int]] = {}
    for known in accepted_fences(rows).values():
        for fence in known:
            taken.setdefault((fence.group, fence.epoch, fence.life), set()).add(fence.end)
    epoch = rows.column("epoch")
    for at in rows.where(kind="trace", f="opened").tolist():
        value = rows.value(at)
        for name, end in sorted((value.get("ends") or {}).items()):
            ends = taken.get((int(name) if str(name).isdecimal() else -1, int(epoch[at]), value.get("life", -1)), set())
            if end in ends:
                continue
            if not ends and facts.may_lack_ends(rows):
                found.gap("a host was lost, and with it perhaps fences that its stores had taken")
                continue
            was = f"where its fence had found {max(ends)}" if ends else "which had not taken its fence"
            found.add(
                OPENED_UNFENCED,
                f"{rows.text('node', at)} opened {value.get('slice')} in epoch {int(epoch[at])} at "
                f"{facts.at_s(rows, at)} with group {name} at {end}, {was}.",
                *_indices(rows, at),
            )


def _acknowledged(rows: Rows, found: Findings, taken: Appends, by_group: Mapping[int, Sequence[Fence]]) -> None:
    """Check what brokers acknowledged: it was taken in their epoch, before the end at which any later one began."""
    at = rows.where(kind="trace", f="group_acked")
    group, epoch, end = rows.numbers("group", at), rows.column("epoch")[at], rows.column("position")[at]
    found.count("group_acks", len(at))
    for number in np.unique(group).tolist():
        mine = np.flatnonzero(group == number)
        of_group = taken.only(taken.group == number)
        for one in np.unique(epoch[mine]).tolist():
            acked = mine[epoch[mine] == one]
            most = int(of_group.end[of_group.epoch == one].max(initial=-1))
            _unwritten(rows, found, at[acked[end[acked] > most]], number, most)
            later = [fence for fence in by_group.get(number, ()) if fence.epoch > one]
            if later:
                _past(rows, found, at, acked[end[acked] > min(fence.end for fence in later)], later)


def _unwritten(rows: Rows, found: Findings, wrong: Ints, group: int, most: int) -> None:
    if len(wrong) and facts.may_lack_ends(rows):
        found.gap("a host was lost, and with it perhaps what its stores had taken")
        return

    def report(at: int) -> None:
        found.add(
            ACKED_UNWRITTEN,
            f"{rows.text('node', at)} (epoch {int(rows.column('epoch')[at])}) acknowledged records up to "
            f"{int(rows.column('position')[at])} in group {group} at {facts.at_s(rows, at)}, and "
            + (f"no store took any of that epoch beyond {most}." if most >= 0 else "no store took any of that epoch."),
            *_indices(rows, at),
        )

    found.add_each(ACKED_UNWRITTEN, wrong, report, acted_ns=facts.since_load_ns(rows, wrong))


def _past(rows: Rows, found: Findings, at: Ints, wrong: Ints, later: list[Fence]) -> None:
    fence = min(later, key=lambda one: one.end)

    def report(one: int) -> None:
        row = int(at[one])
        found.add(
            ACKED_PAST_FENCE,
            f"{rows.text('node', row)} (epoch {int(rows.column('epoch')[row])}) acknowledged records up to "
            f"{int(rows.column('position')[row])} in group {fence.group} at {facts.at_s(rows, row)}, although "
            f"{fence.broker} began epoch {fence.epoch} there at {fence.end}.",
            *_indices(rows, fence.at, row),
        )

    found.add_each(ACKED_PAST_FENCE, wrong, report, acted_ns=facts.since_load_ns(rows, at[wrong]))


def _remembered(rows: Rows, found: Findings, by_group: Mapping[int, Sequence[Fence]]) -> None:
    """Check that each replica shows after the run the newest fence that stands in what it has applied: it decides by
    that what it takes next."""
    for replica in replicas(rows):
        applied = [fence for fence in by_group.get(replica.group, ()) if fence.index <= replica.applied]
        newest = max(applied, key=lambda fence: fence.epoch, default=None)
        if newest is not None and replica.epoch < newest.epoch:
            found.add(
                FENCE_FORGOTTEN,
                f"{replica.node} has applied group {replica.group}'s log up to entry {replica.applied} and is fenced "
                f"for epoch {replica.epoch} there, although entry {newest.index} had fenced the group for epoch "
                f"{newest.epoch} of {newest.broker}.",
                *_indices(rows, newest.at, replica.at),
            )


def _indices(rows: Rows, *at: int) -> list[int]:
    return sorted(int(rows.column("index")[one]) for one in at)


def create(options: Options) -> Fencing:
    return Fencing()
