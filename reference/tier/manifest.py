"""The manifest of one tiered queue: the only thing that makes data objects part of the queue.

A manifest is a value. Every change makes the next version, stamped with who makes it; the object store replaces version
``v`` by ``v + 1`` only if ``v`` still stands there. It is never deleted, and when retention has emptied it, it keeps
its end, so that an uploader resumes at the right offset for ever.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any

from chaos.node import Malformed
from reference.tier.interface import TopicQueue, View
from reference.tier.objects import content_hash
from reference.wire.fields import read_json, to_json

#: So many manifests are not read again when the same bytes come again: a master meets each of its own versions twice.
_REMEMBERED = 64


class ManifestError(ValueError):
    """The bytes are no manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A data object that a manifest names: ``bytes`` and ``hash`` are of the whole object, ``epoch`` its uploader's.
    ``count``: how many of its records, from the first on, belong to the queue; all, unless the rest was cut off."""

    key: str
    base: int
    count: int
    bytes: int
    hash: int
    epoch: int

    @property
    def end(self) -> int:
        return self.base + self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Who makes a version: ``attempt`` is unique in a life, ``confirm`` is the confirm offset at the step it leaves."""

    writer: str
    epoch: int
    generation: int
    attempt: int
    confirm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version. ``start`` is the first offset held, ``end`` the next to upload (T), ``position`` the end in the log
    of the last record ever uploaded (P; 0 before the first)."""

    version: int
    queue: int
    topic: str
    queue_id: int
    epoch: int
    generation: int
    attempt: int
    writer: str
    start: int
    end: int
    position: int
    confirm: int
    segments: tuple[Segment, ...] = ()

    @classmethod
    def first(cls, queue: TopicQueue, start: int, stamp: Stamp) -> Manifest:
        """Version 1 of a queue that has nothing tiered yet; ``start`` is the first offset to upload."""
        return cls(
            version=1,
            queue=queue.index,
            topic=queue.topic,
            queue_id=queue.queue_id,
            start=start,
            end=start,
            position=0,
            **asdict(stamp),
        )

    def take_over(self, stamp: Stamp) -> Manifest:
        """Return the same content under another epoch: from here on no other uploader's version can follow."""
        return replace(self, version=self.version + 1, **asdict(stamp))

    def of_queue(self, queue: TopicQueue) -> Manifest:
        """Return the same content under the name of the queue that has this index now. An unclean election may lose a
        topic, and the next one gets its indexes."""
        if (self.topic, self.queue_id) == (queue.topic, queue.queue_id):
            return self
        return replace(self, topic=queue.topic, queue_id=queue.queue_id)

    def append(self, segment: Segment, position: int, stamp: Stamp) -> Manifest:
        """Add a segment whose last record ends at ``position`` in the log."""
        return replace(self.take_over(stamp), segments=(*self.segments, segment), end=segment.end, position=position)

    def cut_back(self, end: int, position: int, stamp: Stamp) -> Manifest:
        """Drop all from ``end`` on: what an unclean election has lost. An object that goes on beyond it stays as it is;
        its beginning counts."""
        kept = tuple(
            segment if segment.end <= end else replace(segment, count=end - segment.base)
            for segment in self.segments
            if segment.base < end
        )
        start = min(self.start, end)
        return replace(self.take_over(stamp), segments=kept, start=start, end=end, position=position)

    def trim(self, start: int, stamp: Stamp) -> Manifest:
        """Drop the segments before ``start``, which must be a segment's base or the end."""
        kept = tuple(segment for segment in self.segments if segment.base >= start)
        return replace(self.take_over(stamp), segments=kept, start=start)

    def retained_from(self, retain_bytes: int) -> int:
        """Where to trim so that the newest segments of at most ``retain_bytes`` remain, and always the very newest."""
        total = 0
        start = self.end
        for segment in reversed(self.segments):
            total += segment.bytes
            if total > retain_bytes and start < self.end:
                break
            start = segment.base
        return start if self.segments else self.start

    def is_by(self, writer: str, epoch: int, generation: int) -> bool:
        return (self.writer, self.epoch, self.generation) == (writer, epoch, generation)

    def names(self, key: str) -> bool:
        # Newest first: who asks is the uploader that looks for what it has just added.
        return any(segment.key == key for segment in reversed(self.segments))

    def find(self, offset: int) -> Segment | None:
        """Return the segment that holds ``offset``."""
        at = bisect_right(self.segments, offset, key=lambda segment: segment.base) - 1
        if at < 0 or offset >= self.segments[at].end:
            return None
        return self.segments[at]

    def problems(self) -> list[str]:
        """Say what is wrong with it: gaps, overlaps, ends that don't fit. Empty for every valid manifest."""
        found = []
        at = self.start
        for segment in self.segments:
            if segment.base != at:
                found.append(f"{segment.key} begins at {segment.base} where {at} is due")
            if segment.count < 1:
                found.append(f"{segment.key} holds {segment.count} records")
            at = segment.end
        if at != self.end:
            found.append(f"the segments end at {at}, the manifest at {self.end}")
        if self.segments and self.position <= 0:
            found.append(f"{len(self.segments)} segments end at log position {self.position}")
        return found

    def encode(self) -> bytes:
        """Return the bytes that the object store holds; one value has one encoding."""
        value: dict[str, object] = {name: getattr(self, name) for name in _MANIFEST_TYPES}
        value["segments"] = [{name: getattr(segment, name) for name in _SEGMENT_TYPES} for segment in self.segments]
        return to_json(value)

    @classmethod
    @lru_cache(maxsize=_REMEMBERED)
    def decode(cls, content: bytes) -> Manifest:
        """Read a manifest. Raises :class:`ManifestError`."""
        try:
            value = read_json(content)
        except Malformed as error:
            raise ManifestError(f"expected a JSON object, got {content[:40]!r}: {error}") from error
        listed = value.pop("segments", None) if isinstance(value, dict) else None
        if not isinstance(listed, list):
            raise ManifestError(f"expected an object with a list of segments, got {content[:40]!r}")
        segments = tuple(Segment(**_checked(item, _SEGMENT_TYPES)) for item in listed)
        return cls(segments=segments, **_checked(value, _MANIFEST_TYPES))

    def view(self) -> View:
        """Return what a replica keeps of this version."""
        return view_of(self, self.encode())


def view_of(manifest: Manifest, content: bytes) -> View:
    """Return the view of a manifest that came, or will go, as exactly these bytes."""
    return View(
        queue=manifest.queue,
        version=manifest.version,
        epoch=manifest.epoch,
        start=manifest.start,
        end=manifest.end,
        position=manifest.position,
        hash=content_hash(content),
        content=content,
    )


def _types(kind: type, *without: str) -> dict[str, type]:
    return {f.name: str if f.type == "str" else int for f in fields(kind) if f.name not in without}


_SEGMENT_TYPES = _types(Segment)
_MANIFEST_TYPES = _types(Manifest, "segments")


def _checked(value: Any, types: Mapping[str, type]) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != types.keys():
        raise ManifestError(f"expected the fields {', '.join(types)}, got {str(value)[:80]}")
    for name, kind in types.items():
        if value[name].__class__ is not kind:
            raise ManifestError(f"expected {name} to be {kind.__name__}, got {value[name]!r}")
    return value
