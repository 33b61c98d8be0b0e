"""Planted bugs of the tiered storage: upload bound, single uploader, continuity, metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from chaos.node import Env
from reference.broker.node import Broker
from reference.broker.queues import Queue
from reference.broker.retention import Retention
from reference.mutants._planted import NODE, Planted
from reference.objectstore.node import ObjectStore, _Object
from reference.objectstore.serving import Ask
from reference.tier.interface import TierAnswer, View
from reference.tier.manifest import Manifest, Stamp
from reference.tier.reads import Reader
from reference.tier.storage import QueueUpload, Tier
from reference.tier.store_client import TIMER, Answer, StoreClient

_DAY_NS = 86_400_000_000_000


class OfferBeyondConfirm(Broker):
    """The tier is offered everything that the master's disk holds."""

    def offered_end(self, queue: Queue) -> int:
        return queue.next_at(self.log.synced)


class BoundIgnored(Tier):
    """… and takes it: the confirm offset bounds nothing."""

    def upload_bound(self, upload: QueueUpload) -> int:
        return 1 << 62

    def commit_confirm(self, upload: QueueUpload) -> int:
        return 1 << 62


class PositionLowered(Tier):
    """Records above the confirm offset go up, and the manifest gives the confirm offset as their end."""

    def upload_bound(self, upload: QueueUpload) -> int:
        return 1 << 62

    def _draft(self, env: Env, upload: QueueUpload) -> bool:
        due = super()._draft(env, upload)
        if due and upload.draft is not None:
            upload.draft.position = min(upload.draft.position, self.broker.confirm)
        return due


class CutBackOnTakeover(Tier):
    """A new master drops the newest segment "to be sure" and uploads it again, so that T falls."""

    def taken_over(self, manifest: Manifest, stamp: Stamp) -> Manifest:
        if not manifest.segments:
            return super().taken_over(manifest, stamp)
        last = manifest.segments[-1]
        return manifest.cut_back(last.base, manifest.position - last.bytes, stamp)


class NoFencing(Tier):
    """Nobody raises the manifest's epoch, and nobody looks at it."""

    def fence(self, upload: QueueUpload, manifest: Manifest | None) -> bool:
        return manifest is None

    def may_write(self, upload: QueueUpload) -> bool:
        return self._active and self.broker.is_master


class LatePutAfterDemotion(Tier):
    """The uploader finishes its work although the broker is master no more."""

    def demoted(self, env: Env) -> None:
        return

    def may_write(self, upload: QueueUpload) -> bool:
        return self._active


class SlaveUploads(Tier):
    """Every replica with records uploads them on its own."""

    def may_write(self, upload: QueueUpload) -> bool:
        return True

    def received(self, env: Env, view: View) -> None:
        super().received(env, view)
        if not self._active:
            self.promoted(env)


class SuccessorJudged(Tier):
    """A replaced uploader goes on comparing: it holds against its own log what its successor has written."""

    def may_write(self, upload: QueueUpload) -> bool:
        compares = not upload.verified and self._active and self.broker.epoch == upload.epoch
        return compares or super().may_write(upload)

    def _fits(self, env: Env, upload: QueueUpload, manifest: Manifest, end: int, position: int) -> None:
        super()._fits(env, upload, manifest, end, position)
        if upload.cut is not None and not self.may_write(upload):
            self._cut_back(env, upload, manifest, *upload.cut)


class ResumeFromLocalMax(Tier):
    """A new master uploads from its own end on: what the old one had not uploaded yet is skipped."""

    def resume_offset(self, upload: QueueUpload, manifest: Manifest) -> int:
        return max(manifest.end, self.broker.local_end(upload.queue.index))


class ResumeFromZero(Tier):
    """A new master uploads everything that it holds, once more."""

    def resume_offset(self, upload: QueueUpload, manifest: Manifest) -> int:
        return min(manifest.end, self.broker.local_start(upload.queue.index))


class BootstrapFromLastFile(Retention):
    """An empty slave begins with the newest file, wherever the tier ends."""

    def bootstrap_position(self) -> int:
        ends = [end for end in self._broker.log.segment_ends() if end <= self._broker.log.confirm]
        return max([self._broker.log.first, *ends])


class RetentionAheadOfManifest(Retention):
    """Local segments go by size alone, uploaded or not."""

    def covered_position(self) -> int:
        return self._broker.queues.dispatched


class RetentionByOldManifest(Retention):
    """What any manifest names counts as uploaded, also where its master had other records than this replica has."""

    def covered_position(self) -> int:
        position = self._broker.queues.dispatched
        for queue in self._broker.queues.by_index:
            view = self._broker.tier.view(queue.index)
            covered = max(queue.first, view.end if view is not None else 0)
            if covered < queue.next:
                position = min(position, queue.positions[covered - queue.first])
        return position


class NeverDeletes(Retention):
    """What a replica may delete of its log, it keeps all the same."""

    def _delete(self, env: Env) -> None:
        return


class GarbageLeft(Tier):
    """What an earlier uploader put and never committed is seen, and left where it is."""

    def _got_list(self, env: Env, upload: QueueUpload, answer: Answer) -> None:
        upload.collect_at_ns = -1


class DeletionsOvertaken(ObjectStore):
    """A deletion and a write of the same file leave in the wrong order: the file is there, and a restart finds it."""

    def _delete(self, env: Env, ask: Ask, found: _Object | None) -> None:
        kept = env.disk.read(found.path) if found is not None else b""
        super()._delete(env, ask, found)
        if found is not None:
            env.disk.write(found.path, 0, kept)
            env.disk.sync([found.path])


class NeverFull(Tier):
    """How large records are is forgotten after each upload: only their age makes a segment due."""

    def _stands(self, env: Env, upload: QueueUpload, manifest: Manifest, view: View, *, publish: bool) -> None:
        super()._stands(env, upload, manifest, view, publish=publish)
        upload.record_bytes = 0.0


class AlwaysDue(Tier):
    """Whatever waits is taken for old: it goes up at each look."""

    def _draft(self, env: Env, upload: QueueUpload) -> bool:
        upload.pending_since_ns = env.mono_ns() - self.options.tier_max_age_ms * 1_000_000
        return super()._draft(env, upload)


class ViewKeepsOldContent(Tier):
    """A slave notes the new version number but keeps the metadata that it had."""

    def adopt_view(self, held: View | None, new: View) -> View | None:
        if held is None or new.version <= held.version:
            return super().adopt_view(held, new)
        return replace(held, version=new.version)


class PiecesAsTheyArrive(Tier):
    """What one read of the tier brought is put together newest piece first."""

    def read(
        self, env: Env, queue: int, offset: int, *, then: Callable[[Env, TierAnswer], None], **limits: Any
    ) -> None:
        def arrived(env: Env, answer: TierAnswer) -> None:
            half = len(answer.records) // 2
            then(env, replace(answer, records=(*answer.records[half:], *answer.records[:half])))

        super().read(env, queue, offset, then=arrived, **limits)


class PublishBeforeCommit(Tier):
    """Slaves get a version before the store has taken it; when it is refused, they hold one that never was."""

    def _commit(self, env: Env, upload: QueueUpload, manifest: Manifest) -> None:
        if self.may_write(upload) and manifest.position <= self.commit_confirm(upload):
            self.broker.publish(env, manifest.view())
        super()._commit(env, upload, manifest)


class RefusalIgnored(Tier):
    """An uploader whose compare-and-set was refused soon asks for the same again, whatever stands in the store."""

    def _learn(self, env: Env, upload: QueueUpload, content: bytes) -> None:
        if upload.known:
            upload.wake_ns = env.mono_ns() + 100_000_000
        else:  # what it asks for, after an answer was lost, it does look at
            super()._learn(env, upload, content)


class TimerBelieved(StoreClient):
    """Whether the timer runs is noted before what is late is given up: when that was all, it runs in belief only."""

    def timer(self, env: Env) -> None:
        now = env.mono_ns()
        self._timer_set = bool(self._pending)
        self._lose(env, [opaque for opaque, pending in self._pending.items() if pending.deadline_ns <= now])
        if self._pending:
            oldest = next(iter(self._pending.values()))
            env.set_timer(TIMER, max(0, oldest.deadline_ns - now))


class WithTimerBelieved(Tier):
    def __init__(self, options: Mapping[str, object]) -> None:
        super().__init__(options)
        self.client = TimerBelieved(self.options.objectstore, self.options.tier_timeout_ms * 1_000_000)
        self.reader = Reader(self.client, self._views, self.options.tier_cache_bytes)


class CountAlone(Tier):
    """A read of the tier heeds how many messages it was asked for, and not how many bytes."""

    def read(self, env: Env, queue: int, offset: int, *, max_bytes: int, **others: Any) -> None:
        super().read(env, queue, offset, max_bytes=1 << 62, **others)


class NameKept(Tier):
    """A manifest keeps the name of the queue that it was made for, whichever queue has that number now."""

    def named(self, upload: QueueUpload, manifest: Manifest) -> Manifest:
        return manifest


class StorePressed(Tier):
    """An uploader that gets no answer asks again as soon as after its first failure, however often that was."""

    def _back_off(self, env: Env, upload: QueueUpload) -> None:
        upload.failures = 0
        super()._back_off(env, upload)


class RetriedWithTheNext(Tier):
    """An upload that failed is tried again when its queue gets another message, and not before."""

    def __init__(self, options: Mapping[str, object]) -> None:
        super().__init__(options)
        self._ends: dict[int, int] = {}  # by queue: where it ended when its upload failed

    def _back_off(self, env: Env, upload: QueueUpload) -> None:
        super()._back_off(env, upload)
        self._ends[upload.queue.index] = self.broker.local_end(upload.queue.index)
        upload.wake_ns += _DAY_NS

    def confirmed(self, env: Env) -> None:
        for index, end in list(self._ends.items()):
            if self.broker.local_end(index) > end:
                del self._ends[index]
                if index in self.uploads:
                    self.uploads[index].wake_ns = env.mono_ns()
        super().confirmed(env)


class HalfTheTime(Tier):
    """An object goes from the tier after half of the time that it is to be kept."""

    def retain_ns(self) -> int:
        return super().retain_ns() // 2


MUTANTS = (
    Planted(
        name="upload-beyond-confirm",
        law="upload-bound",
        stands_for="RocketMQ 5.5.0's tier has no confirm check: records that a failover truncates stay in the tier",
        parts={"broker": {NODE: OfferBeyondConfirm, "tier": BoundIgnored}},
    ),
    Planted(
        name="position-lowered",
        law="upload-bound",
        stands_for="metadata that is made to fit a check: what is above the bound goes up under a position below it",
        parts={"broker": {NODE: OfferBeyondConfirm, "tier": PositionLowered}},
    ),
    Planted(
        name="cut-back-on-takeover",
        law="upload-bound",
        stands_for="apache/rocketmq #7018 and #6933: after a mismatch the tier's end goes back and data goes up again",
        parts={"broker": {"tier": CutBackOnTakeover}},
    ),
    Planted(
        name="no-fencing",
        law="single-uploader",
        stands_for="COMDEV-513: nothing in the tier's metadata shows an old master that it was replaced",
        parts={"broker": {"tier": NoFencing}},
        seed=2,
    ),
    Planted(
        name="late-put-after-demotion",
        law="single-uploader",
        stands_for="a dispatch thread that outlives the role: uploads go on after the switch",
        parts={"broker": {"tier": LatePutAfterDemotion}},
        scenario="replaced_uploader",
    ),
    Planted(
        name="slave-uploads",
        law="single-uploader",
        stands_for="apache/rocketmq #8066: every replica uploads, and their metadata conflict",
        parts={"broker": {"tier": SlaveUploads}},
        scenario="replaced_uploader",
    ),
    Planted(
        name="successor-judged",
        law="single-uploader",
        stands_for="a master that was replaced takes its own log for the truth, and its successor's tier for damaged",
        parts={"broker": {"tier": SuccessorJudged}},
        scenario="partitioned_lone_member",
    ),
    Planted(
        name="resume-from-local-max",
        law="tier-continuity",
        stands_for="a dispatcher that begins at the consume queue's end after a restart, leaving a hole",
        parts={"broker": {"tier": ResumeFromLocalMax}},
    ),
    Planted(
        name="resume-from-zero",
        law="tier-continuity",
        stands_for="a dispatcher that begins at the consume queue's first entry, so that segments overlap",
        parts={"broker": {"tier": ResumeFromZero}},
    ),
    Planted(
        name="bootstrap-from-last-file",
        law="tier-continuity",
        stands_for="isSyncFromLastFile=true: an empty slave has neither the tier's tail nor what follows it",
        parts={"broker": {"retention": BootstrapFromLastFile}},
        scenario="empty_slave",
    ),
    Planted(
        name="retention-ahead-of-manifest",
        law="tier-continuity",
        stands_for="commit log files that expire while the upload lags (a blocked queue, apache/rocketmq #10998)",
        parts={"broker": {"retention": RetentionAheadOfManifest}},
        scenario="tier_storm",
    ),
    Planted(
        name="retention-by-old-manifest",
        law="durability",
        stands_for="a replica that comes back after an unclean election, and deletes by what the tier held or holds of "
        "another log",
        parts={"broker": {"retention": RetentionByOldManifest}},
        scenario="unclean_election_and_return",
    ),
    Planted(
        name="log-never-shrinks",
        law="durability",
        stands_for="apache/rocketmq #8334 and redpanda #4224: local files that nobody deletes, until the disk is full",
        parts={"broker": {"retention": NeverDeletes}},
        scenario="tier_retention",
    ),
    Planted(
        name="retention-before-its-time",
        law="durability",
        stands_for="a retention whose hours are those of another unit or clock: what is still owed is deleted",
        parts={"broker": {"tier": HalfTheTime}},
        scenario="tier_retention_by_time",
    ),
    Planted(
        name="garbage-left",
        law="tier-continuity",
        stands_for="uploads that were given up and are never deleted: S3's unfinished multipart uploads, paid for ever",
        parts={"broker": {"tier": GarbageLeft}},
    ),
    Planted(
        name="deletions-overtaken",
        law="tier-continuity",
        stands_for="S3 before 2020: a list that shows a key for a while, though its deletion was answered",
        parts={"objectstore": {NODE: DeletionsOvertaken}},
        scenario="tier_retention",
    ),
    Planted(
        name="segment-never-full",
        law="tier-continuity",
        stands_for="one upload per period, whatever waits: the tier falls behind as soon as more than that is sent",
        parts={"broker": {"tier": NeverFull}},
        scenario="full_segments",
    ),
    Planted(
        name="segments-in-crumbs",
        law="tier-continuity",
        stands_for="a batch that each look ends: thousands of tiny objects, each of which is paid for and indexed",
        parts={"broker": {"tier": AlwaysDue}},
        scenario="full_segments",
    ),
    Planted(
        name="view-keeps-old-content",
        law="tier-metadata",
        stands_for="COMDEV-513: replicas whose tier metadata differ although their versions agree",
        parts={"broker": {"tier": ViewKeepsOldContent}},
    ),
    Planted(
        name="publish-before-commit",
        law="tier-metadata",
        stands_for="metadata that is replicated before it is committed: apache/rocketmq #8532's lost update",
        parts={"broker": {"tier": PublishBeforeCommit}},
        scenario="tier_storm",
    ),
    Planted(
        name="lost-topics-name-kept",
        law="tier-metadata",
        stands_for="a topic that comes after one was lost or deleted, and is given what was stored for that one",
        parts={"broker": {"tier": NameKept}},
        scenario="lost_topics",
    ),
    Planted(
        name="pieces-as-they-arrive",
        law="order",
        stands_for="a prefetch cache that joins the pieces of a tier read in the order of their arrival",
        parts={"broker": {"tier": PiecesAsTheyArrive}},
    ),
    Planted(
        name="byte-limit-ignored",
        law="order",
        stands_for="apache/rocketmq #9080: a read from the tier's cache gives more bytes than were asked for",
        parts={"broker": {"tier": CountAlone}},
    ),
    Planted(
        name="refusal-ignored",
        law="progress",
        stands_for="an uploader that repeats what was refused for ever (a blocked queue, apache/rocketmq #10998)",
        parts={"broker": {"tier": RefusalIgnored}},
        scenario="stuck_uploads",
    ),
    Planted(
        name="store-timer-believed",
        law="progress",
        stands_for="a client that never gives up a second lost request: one queue's uploads hang in it for ever",
        parts={"broker": {"tier": WithTimerBelieved}},
        scenario="stuck_uploads",
    ),
    Planted(
        name="store-pressed",
        law="tier-continuity",
        stands_for="retries without a back-off: a store in trouble gets forty times the requests",
        parts={"broker": {"tier": StorePressed}},
        scenario="long_outage",
    ),
    Planted(
        name="upload-retried-with-the-next",
        law="tier-continuity",
        stands_for="apache/rocketmq #8409: what could not be uploaded waits for the next message of its queue",
        parts={"broker": {"tier": RetriedWithTheNext}},
        scenario="upload_after_outage",
    ),
)
