"""Planted bugs of stores about what lies in the object store: what they delete there, or don't, or can't read."""

from __future__ import annotations

from chaos.node import Env
from reference.mutants._planted import Planted
from reference.split.requests import ReadRequest, Refusal
from reference.split.segments import SealedSegment, Segment
from reference.split.store.copying import Copying
from reference.split.store.entries import record_heads
from reference.split.store.led import Led
from reference.split.store.machine import GroupMachine
from reference.split.store.reads import Reads, behind, below_start
from reference.split.store.segment_files import SegmentFiles
from reference.split.store.sweeping import Sweeper
from reference.split.store.tier import SegmentTier
from reference.split.store.uploads import Uploads


class OrphanIsDeleted(Sweeper):
    """Whatever a member's own state doesn't name is an orphan to it, also where it was cut off and its state is old."""

    def may_look(self, led: Led) -> bool:
        return True

    def may_delete(self, machine: GroupMachine, segment: Segment) -> bool:
        return segment not in machine.group.segments


class SegmentsLeak(Sweeper):
    """A leader deletes what it has seen trimmed. What was trimmed under those before it is not looked for."""

    def __init__(self, tier: SegmentTier, delete_ms: int) -> None:
        super().__init__(tier, delete_ms)
        self._begun: dict[int, dict[int, int]] = {}  # group → topic → trimmed up to where when it was led first

    def consider(self, env: Env, led: Led, machine: GroupMachine) -> None:
        if led.leads:
            trimmed = machine.group.trimmed.items()
            self._begun.setdefault(machine.number, {topic_id: one.position for topic_id, one in trimmed})
        super().consider(env, led, machine)

    def may_delete(self, machine: GroupMachine, segment: Segment) -> bool:
        is_older = segment.end <= self._begun[machine.number].get(segment.topic_id, 0)
        return not is_older and super().may_delete(machine, segment)


class FailureReadsAsAbsent(Reads):
    """What can't be read is said to be gone: the queue begins behind it."""

    def unreadable(self, machine: GroupMachine, request: ReadRequest, why: str) -> Refusal:
        sealed = machine.group.find((request.topic_id, request.number), request.offset)
        return below_start(sealed.ranges[request.number][1]) if sealed is not None else behind(why)


class DamageIsUploaded(SegmentFiles):
    """A file that is there is whole."""

    def is_whole(self, segment: Segment, data: bytes) -> bool:
        return True


class UploadCutShort(Uploads):
    """How long a segment is was found out before its last record was in it."""

    def content(self, segment: Segment, data: bytes) -> bytes:
        *_, last = record_heads(segment.group, None, data)
        return data[: -last.size] or data


class CopiesFreedTooEarly(Copying):
    """Of what no object holds yet one copy is enough: all members but one free theirs where there is little room."""

    def must_stay(self, env: Env, sealed: SealedSegment) -> bool:
        keeper = min(self._places.nodes_of(sealed.segment.group))
        return super().must_stay(env, sealed) and keeper == env.name


MUTANTS = (
    Planted(
        name="orphan-is-deleted",
        law="orphans",
        stands_for="nats-server #6888, #7556: whose snapshot is old takes what lives for orphans, and deletes it",
        parts={"store": {"sweeper": OrphanIsDeleted}},
        scenario="member_behind",
    ),
    Planted(
        name="segments-leak",
        law="orphans",
        stands_for="KAFKA-16511: segments of an older lineage of epochs are never deleted",
        parts={"store": {"sweeper": SegmentsLeak}},
        scenario="member_behind",
    ),
    Planted(
        name="failure-reads-as-absent",
        law="progress",
        stands_for="bookkeeper #2908: what can't be read is answered as what was never there",
        parts={"store": {"reads": FailureReadsAsAbsent}},
        scenario="seal_and_lose",
    ),
    Planted(
        name="damage-is-uploaded",
        law="sealed",
        stands_for="a replica that hands a damaged copy on, since its hash is not checked",
        parts={"store": {"files": DamageIsUploaded}},
        scenario="damaged_segments",
    ),
    Planted(
        name="upload-cut-short",
        law="sealed",
        stands_for="redpanda #3293: a segment that is uploaded because of its age is cut short in the object store",
        parts={"store": {"uploads": UploadCutShort}},
    ),
    Planted(
        name="copies-freed-too-early",
        law="replication",
        stands_for="rabbitmq-stream-s3 #206: local copies of a segment are freed that was never durable in the tier",
        parts={"store": {"copying": CopiesFreedTooEarly}},
        scenario="little_room",
    ),
)
