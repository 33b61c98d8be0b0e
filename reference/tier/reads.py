"""Reads through the tier, on a master or a slave: view → segment → object → records."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chaos.node import Env
from reference.tier.interface import BrokerInterface, Stored, TierAnswer
from reference.tier.manifest import Manifest, ManifestError, Segment, view_of
from reference.tier.objects import ObjectError, content_hash, decode, manifest_key
from reference.tier.store_client import Answer, StoreClient
from reference.tier.views import Views

MAX_READS = 512

Records = Sequence[Stored]


class ObjectCache:
    """The objects read last, decoded, up to a bound in bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._objects: OrderedDict[str, tuple[Segment, Records]] = OrderedDict()

    def get(self, segment: Segment) -> Records | None:
        found = self._objects.get(segment.key)
        if found is None or found[0] != segment:
            return None
        self._objects.move_to_end(segment.key)
        return found[1]

    def put(self, segment: Segment, records: Records) -> None:
        replaced = self._objects.pop(segment.key, None)
        self._bytes += segment.bytes - (replaced[0].bytes if replaced else 0)
        self._objects[segment.key] = (segment, records)
        while self._bytes > self._max_bytes and len(self._objects) > 1:
            _, (oldest, _) = self._objects.popitem(last=False)
            self._bytes -= oldest.bytes


def open_object(segment: Segment, data: bytes) -> Records:
    """Those records of the object that ``segment`` names which belong to the queue. Raises :class:`ObjectError` if it
    isn't the one that was committed."""
    if len(data) != segment.bytes or content_hash(data) != segment.hash:
        raise ObjectError(
            f"{segment.key}: expected {segment.bytes} bytes of hash {segment.hash}, got {len(data)} others"
        )
    records = decode(data)
    if records[0].offset != segment.base or len(records) < segment.count:
        raise ObjectError(f"{segment.key}: expected {segment.count} records from {segment.base}")
    return records[: segment.count]


def differing_offset(broker: BrokerInterface, segment: Segment, tiered: Records) -> int:
    """Compare a segment's records with those of the local log: the first that differs, or -1. Of records that the log
    no longer holds, the epochs are compared: one epoch has one record at a position."""
    queue = tiered[0].queue
    offset = max(segment.base, broker.local_start(queue))
    for record in tiered[: offset - segment.base]:
        if broker.epoch_at(record.position) != record.epoch:
            return record.offset
    size = sum(len(record.data) for record in tiered)
    while offset < segment.end:
        local = broker.local_records(queue, offset, max_bytes=size, max_count=segment.end - offset)
        theirs = tiered[offset - segment.base :][: len(local)]
        for mine, their in zip(local, theirs, strict=True):
            if mine != their:
                return their.offset
        if not local:
            return offset
        # Fewer than asked for: the local ones are longer, or the broker gives less at a time than we want.
        offset += len(local)
    return -1


@dataclass(slots=True, kw_only=True)
class _Read:
    queue: int
    offset: int
    max_bytes: int
    max_count: int
    then: Callable[[Env, TierAnswer], None]
    fetched: bool = False  # the manifest was fetched in this read


class Reader:
    """Answers reads from the replica's views and the object store. A read fetches the manifest and an object at most
    twice each, so that it ends within five time limits of the client."""

    def __init__(self, client: StoreClient, views: Views, cache_bytes: int) -> None:
        self._client = client
        self._views = views
        self._cache = ObjectCache(cache_bytes)
        self._objects: dict[str, list[_Read]] = {}  # by key under way → who waits for it
        self._waiting: dict[int, list[_Read]] = {}  # queues with a fetch under way → reads for the next one
        self._count = 0

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
        if self._count >= MAX_READS:
            then(env, TierAnswer(retry=True))
            return
        self._count += 1
        read = _Read(queue=queue, offset=offset, max_bytes=max_bytes, max_count=max_count, then=then)
        self._go_on(env, read)

    def _go_on(self, env: Env, read: _Read) -> None:
        known = self._views.get(read.queue)
        if known is None or not known.view.start <= read.offset < known.view.end:
            if not read.fetched:
                self._fetch_manifest(env, read)
            else:
                self._outside(env, read, known.manifest if known else None)
            return
        segment = known.manifest.find(read.offset)
        if segment is None:  # a gap: no valid manifest has one
            self._end(env, read, TierAnswer(retry=True))
            return
        records = self._cache.get(segment)
        if records is not None:
            self._answer(env, read, records)
        else:
            self._fetch_object(env, read, segment)

    def _outside(self, env: Env, read: _Read, manifest: Manifest | None) -> None:
        """End a read whose offset the manifest, just fetched, doesn't hold: too old, or not tiered yet."""
        if manifest is None:
            self._end(env, read, TierAnswer())
        else:
            too_small = read.offset < manifest.start
            self._end(env, read, TierAnswer(start=manifest.start, end=manifest.end, too_small=too_small))

    def _fetch_manifest(self, env: Env, read: _Read) -> None:
        waiting = self._waiting.get(read.queue)
        if waiting is None:
            self._start_fetch(env, read.queue, [read])
        else:
            # The store may have answered the fetch under way before this read began: it would prove nothing for it.
            waiting.append(read)

    def _start_fetch(self, env: Env, queue: int, group: list[_Read]) -> None:
        """Fetch a queue's manifest once for all reads of ``group``."""
        self._waiting[queue] = []

        def then(env: Env, answer: Answer) -> None:
            waiting = self._waiting.pop(queue)
            if waiting:
                self._start_fetch(env, queue, waiting)
            learned = self._learn(env, queue, answer)
            for read in group:
                read.fetched = True
                if learned:
                    self._go_on(env, read)
                else:
                    self._end(env, read, TierAnswer(retry=True))

        self._client.ask(env, "get", manifest_key(queue), then, queue=queue, epoch=-1, offset=group[0].offset)

    def _learn(self, env: Env, queue: int, answer: Answer) -> bool:
        """Adopt a fetched manifest; False when the answer says nothing to rely on."""
        if answer.ok:
            try:
                self._views.take(env, view_of(Manifest.decode(answer.body), answer.body))
            except ManifestError:
                return False
            return True
        return answer.absent and self._views.get(queue) is None

    def _fetch_object(self, env: Env, read: _Read, segment: Segment) -> None:
        waiting = self._objects.get(segment.key)
        if waiting is not None:
            waiting.append(read)
            return
        self._objects[segment.key] = [read]

        def then(env: Env, answer: Answer) -> None:
            readers = self._objects.pop(segment.key)
            records = self._opened(segment, answer)
            for reader in readers:
                if records is not None:
                    self._answer(env, reader, records)
                elif answer.absent and not reader.fetched:
                    self._fetch_manifest(env, reader)  # trimmed meanwhile
                else:
                    self._end(env, reader, TierAnswer(retry=True))

        self._client.ask(env, "get", segment.key, then, queue=read.queue, epoch=-1, offset=read.offset)

    def _opened(self, segment: Segment, answer: Answer) -> Records | None:
        if not answer.ok:
            return None
        try:
            records = open_object(segment, answer.body)
        except ObjectError:
            return None
        self._cache.put(segment, records)
        return records

    def _answer(self, env: Env, read: _Read, records: Records) -> None:
        """Give as many records as the limits allow, but at least one."""
        taken: list[Stored] = []
        size = 0
        for record in records[read.offset - records[0].offset :]:
            size += len(record.data)
            if taken and (size > read.max_bytes or len(taken) >= read.max_count):
                break
            taken.append(record)
        known = self._views.get(read.queue)
        assert known is not None, "a read that found a segment has a view"
        self._end(env, read, TierAnswer(records=tuple(taken), start=known.view.start, end=known.view.end))

    def _end(self, env: Env, read: _Read, answer: TierAnswer) -> None:
        self._count -= 1
        read.then(env, answer)
