"""What is sealed stays as it is: the same bytes at all replicas and in the tier, without a gap or an overlap.

A sealed segment may be copied from any replica and from the tier, and be deleted where another one has it. So each copy
stands for all others, and only their hashes show whether it may.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaos.driver import Evidence
from chaos.events import Sealed as SealedEvent
from chaos.events import SegmentHeld, Uploaded
from chaos.findings import Findings, decide
from chaos.law import AnomalyKind, Harm, Key, Law, Partial, Promise
from chaos.law import Rows as LawRows
from chaos.operations import FaultRow, FinalGroup, FinalObject, HarnessRow
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.storage.segments import (
    LOCAL,
    Replica,
    Report,
    may_be_harmed,
    replicas,
    reports,
    sealed,
    uploads,
)

SEGMENTS_DIFFER, SEGMENT_GAP = "segments-differ", "segment-gap"
UPLOAD_DIFFERS, COPY_DIFFERS, TAILS_DIFFER = "upload-differs", "copy-differs", "tails-differ"

PROMISE = Promise(
    name="sealed",
    place=89,
    meaning="A sealed segment has the same bytes at all replicas and in the tier, and segments join.",
    anomalies=(
        AnomalyKind(
            name=SEGMENTS_DIFFER,
            meaning="two replicas sealed one segment with different bytes",
            headline=("Two replicas sealed different bytes",),
            harm=Harm.DATA,
            decision=(SealedEvent,),
        ),
        AnomalyKind(
            name=SEGMENT_GAP,
            meaning="a seal does not begin where the one before it ended",
            headline=("Sealed segments do not join",),
            harm=Harm.DATA,
            decision=(SealedEvent,),
        ),
        AnomalyKind(
            name=UPLOAD_DIFFERS,
            meaning="the tier has other bytes of a segment than those that were sealed, or a segment that never was",
            headline=("The tier has other bytes than the stores sealed",),
            harm=Harm.DATA,
            decision=(Uploaded,),
        ),
        AnomalyKind(
            name=COPY_DIFFERS,
            meaning="a store holds other bytes of a segment than those that were sealed, or a segment that never was",
            headline=("A store holds other bytes than were sealed",),
            harm=Harm.DATA,
            decision=(SegmentHeld,),
        ),
        AnomalyKind(
            name=TAILS_DIFFER,
            meaning="two replicas have different bytes behind the last seal, up to one end",
            headline=("Two replicas have different bytes",),
            harm=Harm.DATA,
        ),
    ),
    counts={
        "sealed_segments": "segments that were sealed",
        "uploaded_segments": "segments that went to the tier",
        "segment_copies": "copies of segments that were compared",
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


class Sealed(Law):
    promise = PROMISE
    key = Key.RUN
    reads = (SealedEvent, SegmentHeld, Uploaded, FinalGroup, FinalObject, HarnessRow, FaultRow)
    evidence = (Evidence.GROUPS,)

    def examine(self, given: LawRows) -> Partial:
        rows = given.columns
        found = Findings(PROMISE)
        found.count("sealed_segments", len(sealed(rows)))
        if replicas(rows) and all(replica.sealed == 0 for replica in replicas(rows)):
            found.not_owed("no store had sealed anything by the end of the run")
        _same_everywhere(rows, found)
        _joined(rows, found)
        _uploaded(rows, found)
        _copies(rows, found)
        _tails(rows, found)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("sealed_segments", "no store reported that it sealed anything")])


def _same_everywhere(rows: Rows, found: Findings) -> None:
    """Check that all replicas computed one hash of each segment. Whose disk a fault has harmed may find out."""
    for segment, known in sealed(rows).items():
        sound = [one for one in known if not may_be_harmed(rows, rows.text("node", one.at))]
        for one in sound[1:]:
            if (one.digest, one.size) != (sound[0].digest, sound[0].size):
                first, other = (rows.text("node", report.at) for report in (sound[0], one))
                found.add(
                    SEGMENTS_DIFFER,
                    f"{str(segment).capitalize()} has the hash {one.digest} ({one.size} bytes) at {other}, and "
                    f"{sound[0].digest} ({sound[0].size} bytes) at {first}.",
                    *_indices(rows, sound[0].at, one.at),
                )


def _joined(rows: Rows, found: Findings) -> None:
    """Check that in each group a SEAL begins where the one before it ended."""
    spans: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
    for known in sealed(rows).values():
        for one in known:
            place = one.segment.group, one.index
            spans.setdefault(place, {}).setdefault((one.segment.begin, one.segment.end), one.at)
    ends: dict[int, tuple[int, int]] = {}
    for (group, index), of_entry in sorted(spans.items()):
        for (begin, end), at in sorted(of_entry.items()):
            before = ends.get(group)
            if before is not None and begin != before[0]:
                found.add(
                    SEGMENT_GAP,
                    f"Entry {index} of group {group}'s log seals {begin} to {end} as {rows.text('node', at)} applied "
                    f"it at {facts.at_s(rows, at)}, although the seal before it ended at {before[0]}.",
                    *_indices(rows, before[1], at),
                )
            ends[group] = end, at


def _uploaded(rows: Rows, found: Findings) -> None:
    """Check each upload that a group counts on, and what the tier has of it after the run."""
    objects = {str(rows.value(at).get("key", "")): at for at in rows.where(kind="final", f="object").tolist()}
    found.count("uploaded_segments", len({one.segment for one in uploads(rows)}))
    for one in uploads(rows):
        _is_sealed(rows, found, UPLOAD_DIFFERS, one, "counts on an object for")
        at = objects.get(one.key)
        stored = str(rows.value(at).get("digest", "")) if at is not None else ""
        if at is not None and stored and stored != one.digest:
            found.add(
                UPLOAD_DIFFERS,
                f"The object {one.key} has the hash {stored}, although {one.segment} was uploaded with {one.digest}.",
                *_indices(rows, one.at, at),
            )


def _copies(rows: Rows, found: Findings) -> None:
    """Check each file of a segment that stores report during the run and after it."""
    number = 0
    for one in reports(rows, "held"):
        number += 1
        if not may_be_harmed(rows, rows.text("node", one.at)):
            _is_sealed(rows, found, COPY_DIFFERS, one, "holds a file of")
    for replica in replicas(rows):
        for held in replica.segments:
            if held.where != LOCAL or may_be_harmed(rows, replica.node):
                continue
            number += 1
            one = Report(replica.at, held.segment, -1, held.digest, -1, "")
            _is_sealed(rows, found, COPY_DIFFERS, one, "holds a file of")
    found.count("segment_copies", number)


def _is_sealed(rows: Rows, found: Findings, name: str, one: Report, what: str) -> None:
    """Check that a copy is one of a segment that was sealed, by its hash."""
    known = sealed(rows).get(one.segment)
    if known is not None and any(other.digest == one.digest for other in known):
        return
    if known is None and facts.may_lack_ends(rows):
        found.gap("a host was lost, and with it perhaps what its stores had sealed")
        return
    other = f"it was sealed with {known[0].digest}" if known else "no store ever sealed that"
    found.add(
        name,
        f"{rows.text('node', one.at)} {what} {one.segment} with the hash {one.digest}, and {other}.",
        *_indices(rows, *([known[0].at] if known else []), one.at),
    )


def _tails(rows: Rows, found: Findings) -> None:
    """Check that replicas that end alike hold the same bytes behind the last seal."""
    first: dict[tuple[int, int, int], Replica] = {}
    for replica in replicas(rows):
        if not replica.tail or may_be_harmed(rows, replica.node):
            continue
        other = first.setdefault((replica.group, replica.sealed, replica.end), replica)
        if other.tail != replica.tail:
            found.add(
                TAILS_DIFFER,
                f"{other.node} and {replica.node} both hold group {replica.group} from {replica.sealed} to "
                f"{replica.end}, with different bytes.",
                *_indices(rows, other.at, replica.at),
            )


def _indices(rows: Rows, *at: int) -> list[int]:
    return sorted(int(rows.column("index")[one]) for one in at)


def create(options: Options) -> Sealed:
    return Sealed()
