"""Tiered storage inside a broker: uploads by the master, knowledge of the manifests and reads on every replica.

One *lane* per queue carries all writes of that queue, one request at a time. A lane holds no program counter: what it
does next follows from what it knows (:meth:`Tier._advance`), in this order: learn the manifest that stands in the
store; verify that it fits the local log; raise its epoch, so that no earlier uploader can commit any more; commit what
was put; trim; put what is due; delete what no manifest names. Whenever an answer is lost or a compare-and-set fails,
the lane forgets that it knows the manifest, and so begins at the top: an ambiguous commit is re-read, and recognised as
its own by writer, epoch and generation.

The methods under "policy" are the decisions that the promises of the tier rest on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from chaos.node import Env, Message
from reference.tier.interface import BrokerInterface, TierAnswer, TopicQueue, View
from reference.tier.manifest import Manifest, ManifestError, Segment, Stamp, view_of
from reference.tier.objects import DataName, ObjectError, content_hash, data_prefix, encode, manifest_key, parse_key
from reference.tier.reads import Reader, differing_offset, open_object
from reference.tier.store_client import TIMER as TIMEOUT_TIMER
from reference.tier.store_client import Answer, StoreClient
from reference.tier.views import TIMER as SYNC_TIMER
from reference.tier.views import Views

LANES_TIMER = "tier-lanes"
MAX_RECORDS_PER_SEGMENT = 4096
_MS = 1_000_000
_SWEEP_NS = 100 * _MS  # how long confirmations gather before the lanes look at them
_FIRST_BACKOFF_NS = 100 * _MS
_LAST_BACKOFF_NS = 4000 * _MS
_PATIENCE_NS = 5000 * _MS


@dataclass(frozen=True, slots=True, kw_only=True)
class TierOptions:
    """Those of the broker's options that are the tier's. ``objectstore`` is the store's node name."""

    objectstore: str
    tier_segment_bytes: int = 65536
    tier_max_age_ms: int = 1000
    tier_timeout_ms: int = 1000
    tier_parallel: int = 4
    tier_cache_bytes: int = 4 << 20
    tier_retain_bytes: int = 0
    tier_collect_ms: int = 3000
    tier_cut_back: bool = False  # only where losses are allowed: cut a manifest that the log contradicts

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
class Lane:
    """What the master knows and does about one queue, in one mastership."""

    queue: TopicQueue
    epoch: int
    manifest: Manifest | None = None
    known: bool = False  # ``manifest`` is what stands in the store, as far as we can know
    opened_ns: int = 0
    verified: bool = False  # it fits the local log, but for what is to be cut
    dropped: int = 0  # the newest segments that don't fit
    cut: tuple[int, int] | None = None  # T and P to cut back to
    next: int = -1  # the next offset to upload; -1 before the lane has resumed
    draft: Draft | None = None
    garbage: list[str] = field(default_factory=list)  # objects that no manifest names any more
    collect_at_ns: int = -1  # when to look for what others left behind; -1 when that is done
    collected: str = ""  # the last key looked at
    trim_to: int = -1  # where retention wants the manifest to start
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
        self.lanes: dict[int, Lane] = {}
        self.broker: BrokerInterface
        self._active = False
        self._attempt = 0
        self._timer_at_ns = -1
        self._turn = 0

    # --- policy ---

    def upload_bound(self, lane: Lane) -> int:
        """Records that end at or before this log position may be put."""
        return self.broker.confirm

    def commit_confirm(self, lane: Lane) -> int:
        """The bound on P for a version that leaves in this very step: the put took time, and roles change."""
        return self.broker.confirm

    def may_write(self, lane: Lane) -> bool:
        """Whether a request that changes the store may leave in this step."""
        newest = lane.manifest.epoch if lane.manifest is not None else -1
        return self._active and self.broker.is_master and self.broker.epoch == lane.epoch and newest <= lane.epoch

    def may_delete(self, lane: Lane, key: str) -> bool:
        """Objects go only after a version that doesn't name them, and by the only one who could still commit them."""
        return self.may_write(lane) and lane.manifest is not None and not lane.manifest.names(key)

    def fence(self, lane: Lane, manifest: Manifest | None) -> bool:
        """Whether the manifest's epoch must be raised before anything is put."""
        return manifest is None or not manifest.is_by(self.broker.name, lane.epoch, self.broker.generation)

    def taken_over(self, manifest: Manifest, stamp: Stamp) -> Manifest:
        """The version by which a new master takes over: the same content under its own epoch."""
        return manifest.take_over(stamp)

    def resume_offset(self, lane: Lane, manifest: Manifest) -> int:
        """Where uploads go on after a switch: exactly at T."""
        return manifest.end

    def adopt_view(self, held: View | None, new: View) -> View | None:
        """The view to hold from now on; None to keep what is held. Versions never go back."""
        return new if held is None or new.version > held.version else None

    # --- the broker's calls ---

    def recover(self, env: Env, broker: BrokerInterface) -> None:
        self.broker = broker
        self._views.recover(env)

    def promoted(self, env: Env) -> None:
        self._active = True
        self._halt(env)
        self._open_lanes(env)
        self._run(env)

    def demoted(self, env: Env) -> None:
        self._active = False
        self._halt(env)

    def confirmed(self, env: Env) -> None:
        # Many of these come in a row; the lanes look at them together.
        if self._active:
            self._wake_in(env, _SWEEP_NS)

    def message(self, env: Env, source: str, message: Message) -> bool:
        return self.client.message(env, source, message)

    def timer(self, env: Env, name: str) -> bool:
        if name == LANES_TIMER:
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
        return all(lane.next >= 0 or lane.stopped for lane in self.lanes.values())

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

    # --- lanes ---

    def _halt(self, env: Env) -> None:
        """End every lane that may not write any more; answers still under way find it halted."""
        for lane in self.lanes.values():
            lane.halted = not self.may_write(lane)
        self.lanes = {index: lane for index, lane in self.lanes.items() if not lane.halted}
        if not self.lanes:
            self._timer_at_ns = -1
            env.cancel_timer(LANES_TIMER)

    def _open_lanes(self, env: Env) -> None:
        """Give every queue of the broker a lane, also those that came later and those without a record."""
        for queue in self.broker.queues():
            if queue.index not in self.lanes:
                now = env.mono_ns()
                collect_at = now + self.options.tier_collect_ms * _MS
                lane = Lane(queue=queue, epoch=self.broker.epoch, opened_ns=now, collect_at_ns=collect_at)
                self.lanes[queue.index] = lane

    def _run(self, env: Env) -> None:
        """Let idle lanes go on, in turns, as many at a time as may have requests under way."""
        if self._active:
            self._open_lanes(env)
        now = env.mono_ns()
        lanes = list(self.lanes.values())
        busy = sum(lane.busy for lane in lanes)
        for step in range(len(lanes)):
            if busy >= self.options.tier_parallel:
                self._turn += step
                return  # whoever ends next calls again
            lane = lanes[(self._turn + step) % len(lanes)]
            if not lane.busy and not lane.stopped and lane.wake_ns <= now and self.may_write(lane):
                self._advance(env, lane)
                busy += lane.busy
        wakes = [lane.wake_ns for lane in lanes if not lane.busy and not lane.stopped and lane.wake_ns > now]
        if wakes:
            self._wake_in(env, min(wakes) - now)

    def _wake_in(self, env: Env, delay_ns: int) -> None:
        at = env.mono_ns() + delay_ns
        if self._timer_at_ns < 0 or at < self._timer_at_ns:
            self._timer_at_ns = at
            env.set_timer(LANES_TIMER, delay_ns)

    def _advance(self, env: Env, lane: Lane) -> None:
        """Take the one next action that the lane's knowledge calls for, if any."""
        manifest = lane.manifest
        if not lane.known:
            self._ask(env, lane, "get", manifest_key(lane.queue.index), self._got_manifest)
        elif not lane.verified:
            self._verify(env, lane, manifest)
        elif lane.cut is not None and manifest is not None:
            self._cut_back(env, lane, manifest, *lane.cut)
        elif self.fence(lane, manifest):
            stamp = self._stamp(lane)
            start = self.broker.local_start(lane.queue.index)
            first = Manifest.first(lane.queue, start, stamp)
            self._commit(env, lane, self.taken_over(manifest, stamp) if manifest else first)
        elif manifest is not None:
            self._advance_upload(env, lane, manifest)

    def _advance_upload(self, env: Env, lane: Lane, manifest: Manifest) -> None:
        """As before, once the manifest is ours."""
        if lane.next < 0:
            lane.next = self.resume_offset(lane, manifest)
        if lane.draft is not None and lane.draft.stored:
            self._commit(env, lane, manifest.append(lane.draft.segment, lane.draft.position, self._stamp(lane)))
        elif lane.draft is not None or self._draft(env, lane):
            self._put(env, lane)
        elif lane.stopped:
            return
        elif lane.trim_to > manifest.start:
            self._commit(env, lane, manifest.trim(lane.trim_to, self._stamp(lane)))
        elif lane.garbage:
            self._delete(env, lane)
        elif 0 <= lane.collect_at_ns <= env.mono_ns():
            self._ask(env, lane, "list", data_prefix(lane.queue.index), self._got_list, after=lane.collected)
        else:
            self._sleep(env, lane)

    def _sleep(self, env: Env, lane: Lane) -> None:
        """Nothing is to be done until the oldest waiting record is old enough to be uploaded."""
        times = [lane.collect_at_ns] if lane.collect_at_ns >= 0 else []
        if lane.pending_since_ns >= 0:
            times.append(lane.pending_since_ns + self.options.tier_max_age_ms * _MS)
        if times:
            self._wake_in(env, max(_SWEEP_NS, min(times) - env.mono_ns()))

    def _ask(
        self,
        env: Env,
        lane: Lane,
        verb: str,
        key: str,
        then: Callable[[Env, Lane, Answer], None],
        *,
        offset: int = -1,
        expected: int | None = None,
        after: str = "",
        body: bytes = b"",
    ) -> None:
        """Send a lane's next request; its answer counts only while the lane lives."""
        lane.busy = True

        def ended(env: Env, answer: Answer) -> None:
            lane.busy = False
            if lane.halted:
                return
            if answer.lost:
                self._back_off(env, lane)
            else:
                lane.failures = 0
                then(env, lane, answer)
            self._run(env)

        index = lane.queue.index
        about = {"queue": index, "epoch": lane.epoch, "offset": offset}
        self.client.ask(env, verb, key, ended, expected=expected, after=after, body=body, **about)

    def _back_off(self, env: Env, lane: Lane) -> None:
        """Wait, longer each time but never for good, and then trust nothing that was known of the manifest."""
        delay = min(_LAST_BACKOFF_NS, _FIRST_BACKOFF_NS << min(lane.failures, 10))
        lane.failures += 1
        lane.known = False
        lane.wake_ns = env.mono_ns() + delay // 2 + env.rng.randrange(delay // 2)

    def _stop(self, env: Env, lane: Lane, reason: str) -> None:
        lane.stopped = True
        env.trace("tier_stop", queue=lane.queue.index, epoch=lane.epoch, reason=reason)

    def _stamp(self, lane: Lane) -> Stamp:
        self._attempt += 1
        return Stamp(
            writer=self.broker.name,
            epoch=lane.epoch,
            generation=self.broker.generation,
            attempt=self._attempt,
            confirm=self.broker.confirm,
        )

    # --- the manifest ---

    def _got_manifest(self, env: Env, lane: Lane, answer: Answer) -> None:
        self._learn(env, lane, answer.body if answer.ok else b"")

    def _learn(self, env: Env, lane: Lane, content: bytes) -> None:
        """Take what stands in the store (empty: nothing) as the truth, and recognise what is our own."""
        seen = self._views.get(lane.queue.index)
        if not content:
            if seen is not None:
                self._stop(env, lane, f"the manifest is gone, version {seen.view.version} was seen")
            lane.known = lane.verified = True
            return
        try:
            manifest = Manifest.decode(content)
        except ManifestError as error:
            self._stop(env, lane, f"the manifest is damaged: {error}")
            return
        if lane.manifest is not None and manifest.version < lane.manifest.version:
            self._stop(env, lane, f"the manifest went back from version {lane.manifest.version} to {manifest.version}")
            return
        ours = not self.fence(lane, manifest)
        if not ours and manifest != lane.manifest:
            lane.verified, lane.dropped, lane.cut = False, 0, None
        self._stands(env, lane, manifest, view_of(manifest, content), publish=ours)

    def _stands(self, env: Env, lane: Lane, manifest: Manifest, view: View, *, publish: bool) -> None:
        """``manifest`` stands in the store: remember it, tell the slaves if it is ours, settle the draft."""
        before = lane.manifest
        if before is not None and (before.start < manifest.start or before.end > manifest.end):
            named = {segment.key for segment in manifest.segments}
            lane.garbage += [segment.key for segment in before.segments if segment.key not in named]
        if lane.cut is not None and manifest.end == lane.cut[0]:
            lane.cut = None
        retain = self.options.tier_retain_bytes
        lane.trim_to = manifest.retained_from(retain) if retain else manifest.start
        lane.manifest = manifest
        lane.known = True
        self._views.take(env, view)
        if publish:
            self.broker.publish(env, view)
        draft = lane.draft
        if draft is not None and manifest.names(draft.segment.key):
            lane.record_bytes = draft.segment.bytes / draft.segment.count
            lane.next = draft.segment.end
            lane.pending_since_ns = -1
            lane.draft = None

    def _commit(self, env: Env, lane: Lane, manifest: Manifest) -> None:
        """Replace the manifest by its next version, if the bound holds in this very step."""
        if not self.may_write(lane) or manifest.position > self.commit_confirm(lane):
            return  # a later confirm offset, or role, brings the lane back here
        content = manifest.encode()
        expected = manifest.version - 1
        env.trace(
            "tier_commit",
            queue=manifest.queue,
            offset=manifest.end,
            position=manifest.position,
            epoch=manifest.epoch,
            request=self.client.next_request(env),
            version=manifest.version,
            attempt=manifest.attempt,
            confirm=manifest.confirm,
            retain_bytes=self.options.tier_retain_bytes,
        )

        def then(env: Env, lane: Lane, answer: Answer) -> None:
            if answer.ok:
                self._stands(env, lane, manifest, view_of(manifest, content), publish=True)
            else:
                self._learn(env, lane, answer.body)

        key = manifest_key(manifest.queue)
        expected = expected if expected > 0 else -1
        self._ask(env, lane, "cas", key, then, offset=manifest.end, expected=expected, body=content)

    # --- verification after a switch ---

    def _verify(self, env: Env, lane: Lane, manifest: Manifest | None) -> None:
        """Compare the manifest, as far as it is believed, with the log, which must continue it without a gap."""
        if manifest is None:
            lane.verified = True
            self._wake_in(env, 0)
        elif manifest.problems():
            self._stop(env, lane, f"the manifest is inconsistent: {manifest.problems()[0]}")
        elif manifest.position > self.broker.confirm and not self._log_is_short(env, lane):
            return  # not to be judged before confirm has reached the log's end at the switch; `confirmed` comes then
        else:
            kept = _believed(lane, manifest)
            end = kept[-1].end if kept else manifest.start if lane.dropped else manifest.end
            start, log_end = self.broker.local_start(lane.queue.index), self.broker.local_end(lane.queue.index)
            if end < start:
                self._stop(env, lane, f"the log begins at {start}, after T = {end}")
            elif end > log_end and not (self.options.tier_cut_back and kept and kept[-1].base < log_end):
                self._differs(env, lane, manifest, f"T = {end} is past the log, which ends at {log_end}")
            elif kept and (lane.dropped or start < end):
                self._ask(env, lane, "get", kept[-1].key, self._got_last)
            else:
                self._fits(env, lane, manifest, end, 0)

    def _log_is_short(self, env: Env, lane: Lane) -> bool:
        """Where losses are allowed: has the confirm offset stayed below P for so long that the log can't hold it?"""
        if not self.options.tier_cut_back:
            return False
        left = lane.opened_ns + _PATIENCE_NS - env.mono_ns()
        if left > 0:
            self._wake_in(env, left)
        return left <= 0

    def _got_last(self, env: Env, lane: Lane, answer: Answer) -> None:
        """The newest object: if its last records equal the log's, so does, by log matching, all that precedes them."""
        manifest = lane.manifest
        assert manifest is not None, "only a manifest's segments are fetched"
        if not answer.ok:
            self._back_off(env, lane)  # its deletion may be under way: look at the manifest again
            return
        segment = _believed(lane, manifest)[-1]
        try:
            tiered = open_object(segment, answer.body)
        except ObjectError as error:
            self._differs(env, lane, manifest, f"bytes differ: {error}")
            return
        differing = differing_offset(self.broker, segment, tiered)
        if differing < 0:
            self._fits(env, lane, manifest, segment.end, tiered[-1].end)
        elif self.options.tier_cut_back and differing > segment.base:
            self._fits(env, lane, manifest, differing, tiered[differing - segment.base - 1].end)
        else:
            self._differs(env, lane, manifest, f"bytes differ at offset {differing}")

    def _fits(self, env: Env, lane: Lane, manifest: Manifest, end: int, position: int) -> None:
        lane.verified = True
        lane.cut = (end, position) if end < manifest.end else None
        self._wake_in(env, 0)

    def _differs(self, env: Env, lane: Lane, manifest: Manifest, problem: str) -> None:
        """Stop, unless losses are allowed: then compare again without the newest segment."""
        if not self.options.tier_cut_back:
            self._stop(env, lane, problem)
        elif lane.dropped < len(manifest.segments):
            lane.dropped += 1
            self._wake_in(env, 0)
        else:
            self._fits(env, lane, manifest, min(manifest.start, self.broker.local_end(lane.queue.index)), 0)

    def _cut_back(self, env: Env, lane: Lane, manifest: Manifest, end: int, position: int) -> None:
        """Record what an unclean election has cost the tier, in a version that takes over at once."""
        if position > self.commit_confirm(lane):
            return
        lost = [end, manifest.end]
        env.trace("tier_cut", queue=manifest.queue, offset=end, position=position, epoch=lane.epoch, lost=lost)
        self._commit(env, lane, manifest.cut_back(end, position, self._stamp(lane)))

    # --- uploads ---

    def _draft(self, env: Env, lane: Lane) -> bool:
        """Cut the next segment from the log, if one is due by size or by age; False if none is."""
        index = lane.queue.index
        waiting = self.broker.local_end(index) - lane.next
        now = env.mono_ns()
        if waiting <= 0:
            lane.pending_since_ns = -1
            return False
        if lane.pending_since_ns < 0:
            lane.pending_since_ns = now
        full = waiting * lane.record_bytes >= self.options.tier_segment_bytes or waiting >= MAX_RECORDS_PER_SEGMENT
        if not full and now - lane.pending_since_ns < self.options.tier_max_age_ms * _MS:
            return False
        if lane.next < self.broker.local_start(index):
            self._stop(env, lane, f"the log begins at {self.broker.local_start(index)}, {lane.next} was never uploaded")
            return False
        limits = {"max_bytes": self.options.tier_segment_bytes, "max_count": MAX_RECORDS_PER_SEGMENT}
        bound = self.upload_bound(lane)
        records = [r for r in self.broker.local_records(index, lane.next, **limits) if r.end <= bound]
        if not records:
            return False
        body = encode(index, records)
        self._attempt += 1
        base = records[0].offset
        name = DataName(
            queue=index, base=base, epoch=lane.epoch, generation=self.broker.generation, attempt=self._attempt
        )
        segment = Segment(
            key=name.key,
            base=base,
            count=len(records),
            bytes=len(body),
            hash=content_hash(body),
            epoch=lane.epoch,
        )
        lane.draft = Draft(segment=segment, body=body, position=records[-1].end)
        return True

    def _put(self, env: Env, lane: Lane) -> None:
        """Put the draft's object. Put again after a lost answer, under the same name, it is the same object."""
        draft = lane.draft
        if draft is None or not self.may_write(lane):
            return
        segment = draft.segment

        def then(env: Env, lane: Lane, answer: Answer) -> None:
            if answer.hash == segment.hash:
                draft.stored = True
            else:
                lane.draft = None  # the name is taken by other bytes; the next attempt has another name

        self._ask(env, lane, "put", segment.key, then, offset=segment.base, body=draft.body)

    # --- deletions ---

    def _delete(self, env: Env, lane: Lane) -> None:
        """Delete one object that no manifest names; what may not be deleted is left for a later master."""
        key = lane.garbage[0]
        if not self.may_delete(lane, key):
            lane.garbage.pop(0)
            return

        def then(env: Env, lane: Lane, answer: Answer) -> None:
            lane.garbage.remove(key)

        self._ask(env, lane, "delete", key, then)

    def _got_list(self, env: Env, lane: Lane, answer: Answer) -> None:
        """Find what earlier uploaders, or lives, put but never committed: after the fence, none of it ever can be."""
        assert lane.manifest is not None, "objects are listed only once the manifest is ours"
        named = {segment.key for segment in lane.manifest.segments}
        keys = answer.listed()
        for key in keys:
            name = parse_key(key)
            if name is not None and name.epoch < lane.epoch and key not in named:
                lane.garbage.append(key)
        if answer.more:
            lane.collected = keys[-1]
        else:
            lane.collect_at_ns = -1


def _believed(lane: Lane, manifest: Manifest) -> tuple[Segment, ...]:
    return manifest.segments[: len(manifest.segments) - lane.dropped]
