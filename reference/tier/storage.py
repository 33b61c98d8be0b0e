"""Tiered storage inside a broker: uploads by the master, knowledge of the manifests and reads on every replica.

One :class:`QueueUpload` per queue carries all its writes, one request at a time. It holds no program counter: what it
does next follows from what it knows (:meth:`Tier._advance`), in this order: learn the manifest that stands in the
store; verify that it fits the local log; raise its epoch, so that no earlier uploader can commit any more; commit what
was put; trim; put what is due; delete what no manifest names. Whenever an answer is lost or a compare-and-set fails, it
forgets the manifest and begins at the top: an ambiguous commit is re-read, and known as its own by its stamp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from chaos import events
from chaos.node import Env
from reference.tier.interface import BrokerInterface, Level, TierAnswer, TopicQueue, View
from reference.tier.manifest import Manifest, ManifestError, Segment, Stamp, view_of
from reference.tier.objects import DataName, ObjectError, content_hash, data_prefix, encode, manifest_key, parse_key
from reference.tier.reads import Reader, differing_offset, open_object
from reference.tier.store_client import TIMER as TIMEOUT_TIMER
from reference.tier.store_client import Answer, StoreClient
from reference.tier.views import TIMER as SYNC_TIMER
from reference.tier.views import Views
from reference.wire.command import Command

UPLOADS_TIMER = "tier-uploads"
MAX_RECORDS_PER_SEGMENT = 4096
_MS = 1_000_000
_SWEEP_NS = 100 * _MS  # how long confirmations gather before the uploads look at them
_FIRST_BACKOFF_NS = 100 * _MS
_LAST_BACKOFF_NS = 4000 * _MS
_PATIENCE_NS = 5000 * _MS


@dataclass(frozen=True, slots=True, kw_only=True)
class TierOptions:
    """Those of the broker's options that are the tier's. ``objectstore`` is the store's node name. Raises
    ``ValueError`` for a level that there is not."""

    objectstore: str
    tier_level: str = Level.NOT_IN_DISK
    tier_segment_bytes: int = 65536
    tier_max_age_ms: int = 1000
    tier_timeout_ms: int = 1000
    tier_parallel: int = 4
    tier_cache_bytes: int = 4 << 20
    tier_retain_bytes: int = 0
    tier_retain_ms: int = 0
    tier_collect_ms: int = 3000
    tier_cut_back: bool = False  # only where losses are allowed: cut a manifest that the log contradicts

    def __post_init__(self) -> None:
        if self.tier_level not in {*Level}:
            raise ValueError(f"tier_level: expected {', '.join(Level)}, got {self.tier_level!r}")

    @classmethod
    def of(cls, options: Mapping[str, object]) -> TierOptions:
        return cls(**{f.name: options[f.name] for f in fields(cls) if f.name in options})  # type: ignore[arg-type]


@dataclass(slots=True, kw_only=True)
class Draft:
    """A segment on its way: its object first, then the manifest version that names it."""

    segment: Segment
    body: bytes
    position: int
    stored: bool = False


@dataclass(slots=True, kw_only=True)
class QueueUpload:
    """What the master knows and does about one queue, in one mastership."""

    queue: TopicQueue
    epoch: int
    manifest: Manifest | None = None
    known: bool = False  # ``manifest`` is what stands in the store, as far as we can know
    opened_ns: int = 0
    verified: bool = False  # it fits the local log, but for what is to be cut
    dropped: int = 0  # the newest segments that don't fit
    cut: tuple[int, int] | None = None  # T and P to cut back to
    next: int = -1  # the next offset to upload; -1 before the upload has resumed
    draft: Draft | None = None
    garbage: list[str] = field(default_factory=list)  # objects that no manifest names any more
    collect_at_ns: int = -1  # when to look for what others left behind; -1 when that is done
    collected: str = ""  # the last key looked at
    trim_to: int = -1  # where retention by size wants the manifest to start
    named_ns: dict[str, int] = field(default_factory=dict)  # since when the manifest names each object, as far as known
    busy: bool = False  # a request is under way
    halted: bool = False
    stopped: bool = False
    failures: int = 0
    wake_ns: int = 0  # nothing to do before
    pending_since_ns: int = -1
    record_bytes: float = 0.0  # mean size of the records uploaded last


class Tier:
    """The tier's part of a broker; see :class:`reference.tier.interface.TierInterface` for when methods are called."""

    def __init__(self, options: Mapping[str, object]) -> None:
        self.options = TierOptions.of(options)
        self.client = StoreClient(self.options.objectstore, self.options.tier_timeout_ms * _MS)
        self._views = Views(self.adopt_view)
        self.reader = Reader(self.client, self._views, self.options.tier_cache_bytes)
        self.uploads: dict[int, QueueUpload] = {}
        self.broker: BrokerInterface
        self._active = False
        self._attempt = 0
        self._timer_at_ns = -1
        self._turn = 0

    @property
    def level(self) -> Level:
        return Level(self.options.tier_level)

    # --- policy: the decisions that the promises of the tier rest on ---

    def retain_ns(self) -> int:
        """Return for how long the tier keeps an object, where it does so by time."""
        return self.options.tier_retain_ms * _MS

    def upload_bound(self, upload: QueueUpload) -> int:
        """Return the log position up to which records may be put: those that end at or before it."""
        return self.broker.confirm

    def commit_confirm(self, upload: QueueUpload) -> int:
        """Return the bound on P for a version that leaves in this very step: the put took time, and roles change."""
        return self.broker.confirm

    def may_write(self, upload: QueueUpload) -> bool:
        """Return whether a request that changes the store may leave in this step."""
        newest = upload.manifest.epoch if upload.manifest is not None else -1
        return self._active and self.broker.is_master and self.broker.epoch == upload.epoch and newest <= upload.epoch

    def may_delete(self, upload: QueueUpload, key: str) -> bool:
        """Objects go only after a version that doesn't name them, and by the only one who could still commit them."""
        return self.may_write(upload) and upload.manifest is not None and not upload.manifest.names(key)

    def fence(self, upload: QueueUpload, manifest: Manifest | None) -> bool:
        """Return whether the manifest's epoch must be raised before anything is put."""
        return manifest is None or not manifest.is_by(self.broker.name, upload.epoch, self.broker.generation)

    def taken_over(self, manifest: Manifest, stamp: Stamp) -> Manifest:
        """Return the version by which a new master takes over: the same content under its own epoch."""
        return manifest.take_over(stamp)

    def named(self, upload: QueueUpload, manifest: Manifest) -> Manifest:
        """Return the manifest with its queue's name: its topic may have been lost, and its number given to another
        queue."""
        return manifest.of_queue(upload.queue)

    def resume_offset(self, upload: QueueUpload, manifest: Manifest) -> int:
        """Where uploads go on after a switch: exactly at T."""
        return manifest.end

    def adopt_view(self, held: View | None, new: View) -> View | None:
        """Return the view to hold from now on; None to keep what is held. Versions never go back."""
        return new if held is None or new.version > held.version else None

    # --- the broker's calls ---

    def recover(self, env: Env, broker: BrokerInterface) -> None:
        self.broker = broker
        self._views.recover(env)

    def promoted(self, env: Env) -> None:
        self._active = True
        self._halt(env)
        self._open_uploads(env)
        self._run(env)

    def demoted(self, env: Env) -> None:
        self._active = False
        self._halt(env)

    def confirmed(self, env: Env) -> None:
        # Many of these come in a row; the uploads look at them together.
        if self._active:
            self._wake_in(env, _SWEEP_NS)

    def message(self, env: Env, source: str, message: Command) -> bool:
        return self.client.message(env, source, message)

    def timer(self, env: Env, name: str) -> bool:
        if name == UPLOADS_TIMER:
            self._timer_at_ns = -1
            self._run(env)
        elif name == TIMEOUT_TIMER:
            self.client.timer(env)
        elif name == SYNC_TIMER:
            self._views.timer(env)
        return name.startswith("tier")

    def closed(self, env: Env, peer: str) -> None:
        if peer == self.client.store:
            self.client.closed(env)

    def received(self, env: Env, view: View) -> None:
        self._views.take(env, view)

    @property
    def settled(self) -> bool:
        return all(upload.next >= 0 or upload.stopped for upload in self.uploads.values())

    def view(self, queue: int) -> View | None:
        return self._views.views.get(queue)

    def views(self) -> Mapping[int, View]:
        return self._views.views

    def read(
        self,
        env: Env,
        queue: int,
        offset: int,
        *,
        max_bytes: int,
        max_count: int,
        then: Callable[[Env, TierAnswer], None],
    ) -> None:
        self.reader.read(env, queue, offset, max_bytes=max_bytes, max_count=max_count, then=then)

    # --- uploads of all queues ---

    def _halt(self, env: Env) -> None:
        """End every upload that may not write any more; answers still under way find it halted."""
        for upload in self.uploads.values():
            upload.halted = not self.may_write(upload)
        self.uploads = {index: upload for index, upload in self.uploads.items() if not upload.halted}
        if not self.uploads:
            self._timer_at_ns = -1
            env.cancel_timer(UPLOADS_TIMER)

    def _open_uploads(self, env: Env) -> None:
        """Give every queue of the broker an upload, also those that came later and those without a record."""
        for queue in self.broker.queues():
            known = self.uploads.get(queue.index)
            if known is not None and queue.gone and not known.queue.gone:
                self._empty(env, known, queue)
            elif known is None:
                now = env.mono_ns()
                collect_at = now + self.options.tier_collect_ms * _MS
                upload = QueueUpload(queue=queue, epoch=self.broker.epoch, opened_ns=now, collect_at_ns=collect_at)
                self.uploads[queue.index] = upload

    def _empty(self, env: Env, upload: QueueUpload, queue: TopicQueue) -> None:
        """Let a queue's upload remove all that the tier holds of it: its topic is gone. The manifest stays, without
        segments: who was master before could otherwise make another one."""
        upload.queue, upload.draft, upload.cut = queue, None, None
        upload.pending_since_ns, upload.collect_at_ns, upload.collected = -1, env.mono_ns(), ""
        if upload.manifest is not None:
            upload.trim_to = upload.manifest.end

    def _run(self, env: Env) -> None:
        """Let idle uploads go on, in turns, as many at a time as may have requests under way."""
        if self._active:
            self._open_uploads(env)
        now = env.mono_ns()
        uploads = list(self.uploads.values())
        busy = sum(upload.busy for upload in uploads)
        for step in range(len(uploads)):
            if busy >= self.options.tier_parallel:
                self._turn += step
                return  # the upload that ends next calls again
            upload = uploads[(self._turn + step) % len(uploads)]
            if not upload.busy and not upload.stopped and upload.wake_ns <= now and self.may_write(upload):
                self._advance(env, upload)
                busy += upload.busy
        idle = [upload for upload in uploads if not upload.busy and not upload.stopped]
        wakes = [at for upload in idle for at in (upload.wake_ns, self._trim_due_ns(upload)) if at > now]
        if wakes:
            self._wake_in(env, min(wakes) - now)

    def _trims_to(self, env: Env, upload: QueueUpload, manifest: Manifest) -> int:
        """Return where retention wants the manifest to start. By time an object goes once this master has known for so
        long that it is named, so that it goes later after a switch, whatever the clocks say; the newest one stays."""
        if not self.options.tier_retain_ms or not manifest.segments:
            return upload.trim_to
        due_ns = env.mono_ns() - self.retain_ns()
        *older, newest = manifest.segments
        kept = next((segment for segment in older if upload.named_ns[segment.key] > due_ns), newest)
        return max(upload.trim_to, kept.base)

    def _trim_due_ns(self, upload: QueueUpload) -> int:
        """Return when the oldest object goes by time; 0 where none does."""
        segments = upload.manifest.segments if upload.manifest is not None else ()
        if not self.options.tier_retain_ms or len(segments) < 2:
            return 0
        return upload.named_ns[segments[0].key] + self.retain_ns()

    def _wake_in(self, env: Env, delay_ns: int) -> None:
        at = env.mono_ns() + delay_ns
        if self._timer_at_ns < 0 or at < self._timer_at_ns:
            self._timer_at_ns = at
            env.set_timer(UPLOADS_TIMER, delay_ns)

    def _advance(self, env: Env, upload: QueueUpload) -> None:
        """Take the one next action that the upload's knowledge calls for, if any."""
        manifest = upload.manifest
        if not upload.known:
            self._ask(env, upload, "get", manifest_key(upload.queue.index), self._got_manifest)
        elif upload.queue.gone and manifest is None:
            upload.stopped = True  # nothing was ever tiered
        elif not upload.verified and not upload.queue.gone:
            self._verify(env, upload, manifest)
        elif upload.cut is not None and manifest is not None:
            self._cut_back(env, upload, manifest, *upload.cut)
        elif self.fence(upload, manifest):
            stamp = self._stamp(upload)
            start = self.broker.local_start(upload.queue.index)
            first = Manifest.first(upload.queue, start, stamp)
            self._commit(env, upload, self.taken_over(manifest, stamp) if manifest else first)
        elif manifest is not None:
            self._advance_upload(env, upload, manifest)

    def _advance_upload(self, env: Env, upload: QueueUpload, manifest: Manifest) -> None:
        """As before, once the manifest is ours."""
        if upload.next < 0:
            upload.next = self.resume_offset(upload, manifest)
        if upload.draft is not None and upload.draft.stored:
            self._commit(env, upload, manifest.append(upload.draft.segment, upload.draft.position, self._stamp(upload)))
        elif upload.draft is not None or self._draft(env, upload):
            self._put(env, upload)
        elif upload.stopped:
            return
        elif (start := self._trims_to(env, upload, manifest)) > manifest.start:
            self._commit(env, upload, manifest.trim(start, self._stamp(upload)))
        elif upload.garbage:
            self._delete(env, upload)
        elif 0 <= upload.collect_at_ns <= env.mono_ns():
            self._ask(env, upload, "list", data_prefix(upload.queue.index), self._got_list, after=upload.collected)
        else:
            self._sleep(env, upload)

    def _sleep(self, env: Env, upload: QueueUpload) -> None:
        """Nothing is to be done until the oldest waiting record is old enough to be uploaded."""
        times = [upload.collect_at_ns] if upload.collect_at_ns >= 0 else []
        if upload.pending_since_ns >= 0:
            times.append(upload.pending_since_ns + self.options.tier_max_age_ms * _MS)
        if times:
            self._wake_in(env, max(_SWEEP_NS, min(times) - env.mono_ns()))

    def _ask(
        self,
        env: Env,
        upload: QueueUpload,
        verb: str,
        key: str,
        then: Callable[[Env, QueueUpload, Answer], None],
        *,
        offset: int = -1,
        expected: int | None = None,
        after: str = "",
        body: bytes = b"",
    ) -> None:
        """Send an upload's next request; its answer counts only while the upload lives."""
        upload.busy = True

        def ended(env: Env, answer: Answer) -> None:
            upload.busy = False
            if upload.halted:
                return
            if answer.lost:
                self._back_off(env, upload)
            else:
                upload.failures = 0
                then(env, upload, answer)
            self._run(env)

        index = upload.queue.index
        about = {"queue": index, "epoch": upload.epoch, "offset": offset}
        self.client.ask(env, verb, key, ended, expected=expected, after=after, body=body, **about)

    def _back_off(self, env: Env, upload: QueueUpload) -> None:
        """Wait, longer each time but never for good, and then trust nothing that was known of the manifest."""
        delay = min(_LAST_BACKOFF_NS, _FIRST_BACKOFF_NS << min(upload.failures, 10))
        upload.failures += 1
        upload.known = False
        upload.wake_ns = env.mono_ns() + delay // 2 + env.rng.randrange(delay // 2)

    def _stop(self, env: Env, upload: QueueUpload, reason: str) -> None:
        upload.stopped = True
        version = upload.manifest.version if upload.manifest is not None else 0
        env.trace(events.TierStop(queue=upload.queue.index, epoch=upload.epoch, reason=reason, version=version))

    def _stamp(self, upload: QueueUpload) -> Stamp:
        self._attempt += 1
        return Stamp(
            writer=self.broker.name,
            epoch=upload.epoch,
            generation=self.broker.generation,
            attempt=self._attempt,
            confirm=self.broker.confirm,
        )

    # --- the manifest ---

    def _got_manifest(self, env: Env, upload: QueueUpload, answer: Answer) -> None:
        self._learn(env, upload, answer.body if answer.ok else b"")

    def _learn(self, env: Env, upload: QueueUpload, content: bytes) -> None:
        """Take what stands in the store (empty: nothing) as the truth, and recognise what is our own."""
        seen = self._views.get(upload.queue.index)
        if not content:
            if seen is not None:
                self._stop(env, upload, f"the manifest is gone, version {seen.view.version} was seen")
            upload.known = upload.verified = True
            return
        try:
            manifest = Manifest.decode(content)
        except ManifestError as error:
            self._stop(env, upload, f"the manifest is damaged: {error}")
            return
        if upload.manifest is not None and manifest.version < upload.manifest.version:
            self._stop(
                env, upload, f"the manifest went back from version {upload.manifest.version} to {manifest.version}"
            )
            return
        ours = not self.fence(upload, manifest)
        if not ours and manifest != upload.manifest:
            upload.verified, upload.dropped, upload.cut = False, 0, None
        self._stands(env, upload, manifest, view_of(manifest, content), publish=ours)

    def _stands(self, env: Env, upload: QueueUpload, manifest: Manifest, view: View, *, publish: bool) -> None:
        """``manifest`` stands in the store: remember it, send it to the slaves if it is ours, settle the draft."""
        before = upload.manifest
        if before is not None and (before.start < manifest.start or before.end > manifest.end):
            named = {segment.key for segment in manifest.segments}
            upload.garbage += [segment.key for segment in before.segments if segment.key not in named]
        if upload.cut is not None and manifest.end == upload.cut[0]:
            upload.cut = None
        retain = self.options.tier_retain_bytes
        upload.trim_to = manifest.retained_from(retain) if retain else manifest.start
        if self.options.tier_retain_ms:
            now = env.mono_ns()
            upload.named_ns = {one.key: upload.named_ns.get(one.key, now) for one in manifest.segments}
        if upload.queue.gone:
            upload.trim_to = manifest.end
        upload.manifest = manifest
        upload.known = True
        self._views.take(env, view)
        if publish:
            self.broker.publish(env, view)
        draft = upload.draft
        if draft is not None and manifest.names(draft.segment.key):
            upload.record_bytes = draft.segment.bytes / draft.segment.count
            upload.next = draft.segment.end
            upload.pending_since_ns = -1
            upload.draft = None

    def _commit(self, env: Env, upload: QueueUpload, manifest: Manifest) -> None:
        """Replace the manifest by its next version, if the bound holds in this very step."""
        if not self.may_write(upload) or manifest.position > self.commit_confirm(upload):
            return  # a later confirm offset, or role, brings the upload back here
        manifest = self.named(upload, manifest)
        content = manifest.encode()
        expected = manifest.version - 1
        env.trace(
            events.TierCommit(
                queue=manifest.queue,
                offset=manifest.end,
                position=manifest.position,
                epoch=manifest.epoch,
                request=self.client.next_request(env),
                version=manifest.version,
                attempt=manifest.attempt,
                confirm=manifest.confirm,
                retain_bytes=self.options.tier_retain_bytes,
                segment_bytes=self.options.tier_segment_bytes,
                segment_records=MAX_RECORDS_PER_SEGMENT,
                max_age_ms=self.options.tier_max_age_ms,
                parallel=self.options.tier_parallel,
                timeout_ms=self.options.tier_timeout_ms,
                retain_ms=self.options.tier_retain_ms or None,
            )
        )

        def then(env: Env, upload: QueueUpload, answer: Answer) -> None:
            if answer.ok:
                self._stands(env, upload, manifest, view_of(manifest, content), publish=True)
            else:
                self._learn(env, upload, answer.body)

        key = manifest_key(manifest.queue)
        expected = expected if expected > 0 else -1
        self._ask(env, upload, "cas", key, then, offset=manifest.end, expected=expected, body=content)

    # --- verification after a switch ---

    def _verify(self, env: Env, upload: QueueUpload, manifest: Manifest | None) -> None:
        """Compare the manifest, as far as it is believed, with the log, which must continue it without a gap."""
        if manifest is None:
            upload.verified = True
            self._wake_in(env, 0)
        elif manifest.problems():
            self._stop(env, upload, f"the manifest is inconsistent: {manifest.problems()[0]}")
        elif manifest.position > self.broker.confirm and not self._log_is_short(env, upload):
            return  # not to be judged before confirm has reached the log's end at the switch; `confirmed` comes then
        else:
            kept = _believed(upload, manifest)
            end = kept[-1].end if kept else manifest.start if upload.dropped else manifest.end
            start, log_end = self.broker.local_start(upload.queue.index), self.broker.local_end(upload.queue.index)
            if end < start:
                self._stop(env, upload, f"the log begins at {start}, after T = {end}")
            elif end > log_end and not (self.options.tier_cut_back and kept and kept[-1].base < log_end):
                self._differs(env, upload, manifest, f"T = {end} is past the log, which ends at {log_end}")
            elif kept and (upload.dropped or start < end):
                self._ask(env, upload, "get", kept[-1].key, self._got_last)
            else:
                self._fits(env, upload, manifest, end, 0)

    def _log_is_short(self, env: Env, upload: QueueUpload) -> bool:
        """Where losses are allowed: has the confirm offset stayed below P for so long that the log can't hold it?"""
        if not self.options.tier_cut_back:
            return False
        left = upload.opened_ns + _PATIENCE_NS - env.mono_ns()
        if left > 0:
            self._wake_in(env, left)
        return left <= 0

    def _got_last(self, env: Env, upload: QueueUpload, answer: Answer) -> None:
        """Compare the newest object with the log: if its last records equal the log's, so does, by log matching, all
        that precedes them."""
        manifest = upload.manifest
        assert manifest is not None, "only a manifest's segments are fetched"
        if not answer.ok:
            self._back_off(env, upload)  # its deletion may be under way: look at the manifest again
            return
        segment = _believed(upload, manifest)[-1]
        try:
            tiered = open_object(segment, answer.body)
        except ObjectError as error:
            self._differs(env, upload, manifest, f"bytes differ: {error}")
            return
        differing = differing_offset(self.broker, segment, tiered)
        if differing < 0:
            self._fits(env, upload, manifest, segment.end, tiered[-1].end)
        elif self.options.tier_cut_back and differing > segment.base:
            self._fits(env, upload, manifest, differing, tiered[differing - segment.base - 1].end)
        else:
            self._differs(env, upload, manifest, f"bytes differ at offset {differing}")

    def _fits(self, env: Env, upload: QueueUpload, manifest: Manifest, end: int, position: int) -> None:
        upload.verified = True
        upload.cut = (end, position) if end < manifest.end else None
        self._wake_in(env, 0)

    def _differs(self, env: Env, upload: QueueUpload, manifest: Manifest, problem: str) -> None:
        """Stop, unless losses are allowed: then compare again without the newest segment."""
        if not self.options.tier_cut_back:
            self._stop(env, upload, problem)
        elif upload.dropped < len(manifest.segments):
            upload.dropped += 1
            self._wake_in(env, 0)
        else:
            self._fits(env, upload, manifest, min(manifest.start, self.broker.local_end(upload.queue.index)), 0)

    def _cut_back(self, env: Env, upload: QueueUpload, manifest: Manifest, end: int, position: int) -> None:
        """Record what an unclean election has cost the tier, in a version that takes over at once."""
        if position > self.commit_confirm(upload):
            return
        about = {"queue": manifest.queue, "offset": end, "position": position, "epoch": upload.epoch}
        env.trace(events.TierCut(**about, lost=[end, manifest.end], version=manifest.version))
        self._commit(env, upload, manifest.cut_back(end, position, self._stamp(upload)))

    # --- uploads ---

    def _draft(self, env: Env, upload: QueueUpload) -> bool:
        """Cut the next segment from the log, if one is due by size or by age; False if none is."""
        if upload.queue.gone:
            return False
        index = upload.queue.index
        waiting = self.broker.local_end(index) - upload.next
        now = env.mono_ns()
        if waiting <= 0:
            upload.pending_since_ns = -1
            return False
        if upload.pending_since_ns < 0:
            upload.pending_since_ns = now
        full = waiting * upload.record_bytes >= self.options.tier_segment_bytes or waiting >= MAX_RECORDS_PER_SEGMENT
        if not full and now - upload.pending_since_ns < self.options.tier_max_age_ms * _MS:
            return False
        if upload.next < self.broker.local_start(index):
            self._stop(
                env, upload, f"the log begins at {self.broker.local_start(index)}, {upload.next} was never uploaded"
            )
            return False
        limits = {"max_bytes": self.options.tier_segment_bytes, "max_count": MAX_RECORDS_PER_SEGMENT}
        bound = self.upload_bound(upload)
        records = [r for r in self.broker.local_records(index, upload.next, **limits) if r.end <= bound]
        if not records:
            return False
        body = encode(index, records)
        self._attempt += 1
        base = records[0].offset
        name = DataName(
            queue=index, base=base, epoch=upload.epoch, generation=self.broker.generation, attempt=self._attempt
        )
        segment = Segment(
            key=name.key,
            base=base,
            count=len(records),
            bytes=len(body),
            hash=content_hash(body),
            epoch=upload.epoch,
        )
        upload.draft = Draft(segment=segment, body=body, position=records[-1].end)
        return True

    def _put(self, env: Env, upload: QueueUpload) -> None:
        """Put the draft's object. Put again after a lost answer, under the same name, it is the same object."""
        draft = upload.draft
        if draft is None or not self.may_write(upload):
            return
        segment = draft.segment

        def then(env: Env, upload: QueueUpload, answer: Answer) -> None:
            if answer.hash == segment.hash:
                draft.stored = True
            else:
                upload.draft = None  # the name is taken by other bytes; the next attempt has another name

        self._ask(env, upload, "put", segment.key, then, offset=segment.base, body=draft.body)

    # --- deletions ---

    def _delete(self, env: Env, upload: QueueUpload) -> None:
        """Delete one object that no manifest names; what may not be deleted is left for a later master."""
        key = upload.garbage[0]
        if not self.may_delete(upload, key):
            upload.garbage.pop(0)
            return

        def then(env: Env, upload: QueueUpload, answer: Answer) -> None:
            upload.garbage.remove(key)

        self._ask(env, upload, "delete", key, then)

    def _got_list(self, env: Env, upload: QueueUpload, answer: Answer) -> None:
        """Find what earlier uploaders, or lives, put but never committed: after the fence, none of it ever can be. Of a
        queue that is gone, our own may be among it."""
        assert upload.manifest is not None, "objects are listed only once the manifest is ours"
        named = {segment.key for segment in upload.manifest.segments}
        keys = answer.listed()
        for key in keys:
            name = parse_key(key)
            old = name is not None and (name.epoch < upload.epoch or upload.queue.gone)
            if old and key not in named and key not in upload.garbage:
                upload.garbage.append(key)
        if answer.more:
            upload.collected = keys[-1]
        else:
            upload.collect_at_ns = -1


def _believed(upload: QueueUpload, manifest: Manifest) -> tuple[Segment, ...]:
    return manifest.segments[: len(manifest.segments) - upload.dropped]
