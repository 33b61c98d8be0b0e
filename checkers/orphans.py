"""The tier holds what groups refer to, and nothing else for long; and so do the disks of stores.

An object is put before the group's log names it, and deleted after a TRIM let its segment go. In between it may stay
for a while, and is in nobody's way. An object that is named and gone is the worse of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.events import (
    Applied,
    EntriesCut,
    RaftMembers,
    RaftRole,
    Sealed,
    StoreDelete,
    StorePut,
    TermRaised,
    Trimmed,
    Uploaded,
    Vote,
)
from chaos.findings import Findings, decide
from chaos.law import AnomalyKind, Harm, Key, Law, Partial, Promise, RunContext
from chaos.law import Rows as LawRows
from chaos.operations import FaultRow, FinalGroup, FinalObject, HarnessRow, ReadToItsEnd
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.arrays import NEVER
from checkers._facts.faults import disturbs
from checkers._facts.storage.memberships import memberships
from checkers._facts.storage.segments import TIER, Report, may_be_harmed, replicas, sealed, uploads
from checkers._facts.storage.trims import let_go

#: An object that nothing needs may stay so many times as long as one look at the tier may take: a PUT that comes late
#: is found by a later look. And so many times as long a store may keep files that are not its own any more.
COLLECT_S, OBJECT_LOOKS, FILE_LOOKS = 5.0, 12, 6

OBJECT_ORPHANED, OBJECT_MISSING = "object-orphaned", "object-missing"
DELETED_EARLY, FILE_ORPHANED = "object-deleted-early", "file-orphaned"

PROMISE = Promise(
    name="orphans",
    place=94,
    meaning="The tier has all that groups refer to, and neither it nor a store keeps for long what nothing refers to.",
    anomalies=(
        AnomalyKind(
            name=OBJECT_MISSING,
            meaning="a group refers to an object that is gone",
            headline=("An object is gone that a group needs", "{n} objects are gone that groups need"),
            harm=Harm.DATA,
            decision=(StoreDelete,),
        ),
        AnomalyKind(
            name=DELETED_EARLY,
            meaning="an object was deleted before a trim had let its messages go",
            headline=("An object was deleted before its messages were",),
            harm=Harm.DATA,
            decision=(StoreDelete,),
        ),
        AnomalyKind(
            name=OBJECT_ORPHANED,
            meaning="the tier kept for too long an object that no group refers to",
            headline=("The tier keeps what nothing refers to", "The tier keeps {n} objects that nothing refers to"),
        ),
        AnomalyKind(
            name=FILE_ORPHANED,
            meaning="a store kept files for too long that no group of its own refers to",
            headline=("A store keeps files that nothing refers to",),
        ),
    ),
    counts={
        "stored_objects": "objects that were put into the tier",
        "left_objects": "objects that are there in the end",
        "deleted_objects": "objects that were deleted",
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


class Orphans(Law):
    promise = PROMISE
    key = Key.RUN
    reads = (
        *(StorePut, StoreDelete, Sealed, Uploaded, Trimmed, Applied, FinalGroup, FinalObject, ReadToItsEnd),
        *(RaftMembers, RaftRole, Vote, TermRaised, EntriesCut, HarnessRow, FaultRow),
    )
    evidence = (Evidence.GROUPS,)

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        puts = _puts(rows)
        found.count("stored_objects", len(puts))
        _deletions(rows, context, found)
        if not facts.has_recovered(rows):
            found.gap("the system did not recover, so it is unknown what is left in the end")
            return found.partial()
        objects = {str(rows.value(at).get("key", "")): at for at in rows.where(kind="final", f="object").tolist()}
        found.count("left_objects", len(objects))
        named = dict(_named(rows))
        _all_there(rows, context, found, named, objects)
        if context.one_clock:
            _left_over(rows, context, found, named, objects, puts)
            _files(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        why = "nothing was put into the tier"
        return decide(PROMISE, partial, needs=[("stored_objects", why)], unless=why)


def _puts(rows: Rows) -> Mapping[str, int]:
    """Return the last row by which each object was put, by its key."""
    at = rows.where(kind="trace", f="store_put")
    done = [outcome in ("created", "exists") for outcome in rows.words("outcome", at)]
    at = at[np.array(done, dtype=np.bool_)]
    return dict(zip(rows.words("key", at), at.tolist(), strict=True))


def _named(rows: Rows) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield the objects that groups refer to in the end: the key, and who says so in which row."""
    keys: dict[tuple[object, str], str] = {(one.segment, one.digest): one.key for one in uploads(rows)}
    for replica in replicas(rows):
        for held in replica.segments:
            key = keys.get((held.segment, held.digest))
            if key is not None:
                yield key, (replica.name if held.where == TIER else "", replica.at)


def _all_there(
    rows: Rows,
    context: RunContext,
    found: Findings,
    named: Mapping[str, tuple[str, int]],
    objects: Mapping[str, int],
) -> None:
    """Check that each object is there that a store counts on, which has no file of its own."""
    stores = context.meta.named("objectstore")
    missing = {key: said for key, said in named.items() if said[0] and key not in objects}
    if not missing:
        return
    if not any(store in facts.complete_nodes(rows) for store in stores):
        found.gap("the tier was not listed to its end")
        return
    if any(may_be_harmed(rows, store) for store in stores):
        found.gap("objects are gone that groups refer to, and a fault has, or may have, taken something from the tier")
        return
    deleted = dict(_deleted(rows))
    for key, (replica, at) in sorted(missing.items()):
        found.add(
            OBJECT_MISSING,
            f"{replica} counts on the object {key}, which is not in the tier in the end"
            + (f": it was deleted at {facts.at_s(rows, deleted[key])}." if key in deleted else "."),
            *_indices(rows, *([deleted[key]] if key in deleted else []), at),
        )


def _deleted(rows: Rows) -> Iterator[tuple[str, int]]:
    """Yield the deletions that took effect: key and row."""
    at = rows.where(kind="trace", f="store_delete")
    for key, outcome, row in zip(rows.words("key", at), rows.words("outcome", at), at.tolist(), strict=True):
        if outcome == "deleted":
            yield key, row


def _deletions(rows: Rows, context: RunContext, found: Findings) -> None:
    """Check that an object on which a group counted was deleted only after the trim that let its segment go: in the
    simulator after the first store had applied that, elsewhere if there is one at all."""
    if facts.may_lack_ends(rows):
        found.gap("a host was lost, and with it perhaps what its stores had trimmed")
        return
    known = {one.key: one for one in uploads(rows)}
    for key, at in _deleted(rows):
        found.count("deleted_objects", 1)
        upload = known.get(key)
        if upload is None or upload.segment not in sealed(rows):
            continue
        trimmed = let_go(rows).get(upload.segment, NEVER)
        if trimmed == NEVER or (context.one_clock and trimmed > at):
            found.add(
                DELETED_EARLY,
                f"The object {key} was deleted at {facts.at_s(rows, at)}, and no trim of topic {upload.segment.topic} "
                f"in group {upload.segment.group} had let it go by then.",
                *_indices(rows, upload.at, at),
            )


def _left_over(
    rows: Rows,
    context: RunContext,
    found: Findings,
    named: Mapping[str, tuple[str, int]],
    objects: Mapping[str, int],
    puts: Mapping[str, int],
) -> None:
    """Report objects that nobody has referred to for longer than the bound: since they were put, since a trim let their
    segments go, and since the last fault."""
    bound_s = OBJECT_LOOKS * facts.bound(context, "collect_s", COLLECT_S)
    times = rows.column("time_ns")
    uploaded: dict[str, Report] = {one.key: one for one in uploads(rows)}
    calm_ns, end_ns = _last_fault_ns(rows), facts.phase_time(rows, "collect")
    for key, at in sorted(objects.items()):
        if key in named or key not in puts:
            continue
        since = [puts[key]]
        if key in uploaded:
            trimmed = let_go(rows).get(uploaded[key].segment)
            since += [uploaded[key].at, *([trimmed] if trimmed is not None else [])]
        last = max(since, key=lambda one: int(times[one]))
        if end_ns - max(int(times[last]), calm_ns) > bound_s * 1e9:
            found.add(
                OBJECT_ORPHANED,
                f"The tier holds the object {key} in the end, which no group refers to, at the latest since "
                f"{facts.at_s(rows, last)}; {bound_s:g} s are permitted.",
                *_indices(rows, *dict.fromkeys((*since, at))),
            )


def _last_fault_ns(rows: Rows) -> int:
    """Return when the last fault was over that did, or may have done, anything; -1 without one."""
    known = (one for one in rows.memo(facts.faults) if one.effects is None or disturbs(one))
    return max((one.until_ns for one in known), default=-1)


def _files(rows: Rows, context: RunContext, found: Findings) -> None:
    """Report files that a store kept although no group names them, and replicas of groups that it had to give up."""
    bound_s = FILE_LOOKS * facts.bound(context, "collect_s", COLLECT_S)
    times, due_ns = rows.column("time_ns"), facts.phase_time(rows, "collect") - int(bound_s * 1e9)
    if _last_fault_ns(rows) > due_ns:
        return
    for replica in replicas(rows):
        if replica.strays and facts.phase_time(rows, "heal") <= due_ns:
            found.add(
                FILE_ORPHANED,
                f"{replica.node} keeps {len(replica.strays)} files that group {replica.group} does not name, such as "
                f"{sorted(replica.strays)[0]}, {bound_s:g} s after the load and the last fault.",
                *_indices(rows, replica.at),
            )
        known = memberships(rows).get(replica.group, ())
        if not known or known[-1].at < 0 or replica.name in known[-1].members.all:
            continue
        if int(times[known[-1].at]) <= due_ns:
            found.add(
                FILE_ORPHANED,
                f"{replica.node} keeps a replica of group {replica.group} as {replica.name}, although the group's "
                f"members are {known[-1].members} since {facts.at_s(rows, known[-1].at)}.",
                *_indices(rows, known[-1].at, replica.at),
            )


def _indices(rows: Rows, *at: int) -> list[int]:
    return sorted(int(rows.column("index")[one]) for one in at)


def create(options: Options) -> Orphans:
    return Orphans()
