"""Sealed segments: the records of one topic in a stretch of a group's log, immutable, known by the hash of its bytes.

A segment is one file of a store and one object of the object store, under the same name. Topics have segments of their
own, so that one that is kept for an hour and one that is kept for a year never stand in one file (R5); the name holds
the topic's id and the hash, so that nothing that comes late ever meets other bytes under its name (R13).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from chaos.node import Malformed
from reference.wire.fields import as_object, item, listed, text, whole

_DIGEST = re.compile(r"[0-9a-f]{32}")
_KEY = re.compile(r"seg/(\d{1,18})/(\d{1,4})/(\d{20})-(\d{20})-([0-9a-f]{32})")
#: Objects and files of segments begin so.
OBJECTS, FILES = "seg/", "segments/"
_NUMBERS = ("size", "sealed_ms", "oldest_ms", "newest_ms")


def digest_of(data: bytes) -> str:
    """Return the identity of a segment's bytes: BLAKE2b of 128 bits, in hex."""
    return blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Segment:
    """The records of topic ``topic_id`` that lie in [start, end) of ``group``; ``digest`` is that of their bytes."""

    group: int
    topic_id: int
    start: int
    end: int
    digest: str

    @property
    def key(self) -> str:
        """Its name in the object store."""
        return f"{OBJECTS}{self.topic_id}/{self.group}/{self.start:020d}-{self.end:020d}-{self.digest}"

    @property
    def path(self) -> str:
        """Its name on a store's disk."""
        return FILES + self.key.removeprefix(OBJECTS)

    def traced(self) -> dict[str, Any]:
        """Return it as events name it."""
        places = {"position": self.start, "end": self.end, "group": self.group}
        return {**places, "topic": self.topic_id, "digest": self.digest}

    def fields(self) -> dict[str, str]:
        """Return it as header fields."""
        return {key: str(value) for key, value in self.row().items()}

    def row(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        whole_numbers = {"group": self.group, "topic_id": self.topic_id, "start": self.start, "end": self.end}
        return {**whole_numbers, "digest": self.digest}

    @staticmethod
    def read(fields: Mapping[str, str]) -> Segment:
        """Read one from header fields. Raises :class:`chaos.node.Malformed`."""
        names = ("group", "topic_id", "start", "end")
        return Segment.of_row({key: whole(fields, key) for key in names} | {"digest": text(fields, "digest")})

    @staticmethod
    def of_row(value: object) -> Segment:
        """Read one from a JSON object. Raises :class:`chaos.node.Malformed`."""
        row = as_object(value)
        numbers = {key: item(row, key, int) for key in ("group", "topic_id", "start", "end")}
        found = Segment(**numbers, digest=item(row, "digest", str))
        if min(numbers.values()) < 0 or found.end <= found.start or not _DIGEST.fullmatch(found.digest):
            raise Malformed(f"there is no segment {found.key:.200}")
        return found

    @staticmethod
    def of_key(key: str) -> Segment | None:
        """Read the name of an object; None for any other object."""
        match = _KEY.fullmatch(key)
        if match is None:
            return None
        topic_id, group, start, end = (int(part) for part in match.groups()[:4])
        return Segment(group=group, topic_id=topic_id, start=start, end=end, digest=match[5])


@dataclass(slots=True, kw_only=True)
class SealedSegment:
    """A segment that the group has: how many bytes, when it was sealed by logged time, the store times of its oldest
    and newest record, and for each queue (by number) its first offset and the one after its last."""

    segment: Segment
    size: int
    sealed_ms: int
    oldest_ms: int
    newest_ms: int
    ranges: dict[int, tuple[int, int]]
    is_uploaded: bool = False

    @property
    def aged_ms(self) -> int:
        """Since when all its records are there: neither a broker's clock nor the stores' can make it older alone."""
        return max(self.sealed_ms, self.newest_ms)

    def row(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        ranges = [[number, first, after] for number, (first, after) in self.ranges.items()]
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return {**self.segment.row(), **numbers, "ranges": ranges, "is_uploaded": self.is_uploaded}

    @staticmethod
    def of_row(value: object) -> SealedSegment:
        """Read one from a JSON object. Raises :class:`chaos.node.Malformed`."""
        row = as_object(value)
        ranges = {number: (first, after) for number, first, after in listed(row, "ranges", int, int, int)}
        if not ranges or any(not 0 <= first < after for first, after in ranges.values()):
            raise Malformed(f"a segment holds no records of {ranges!r:.200}")
        return SealedSegment(
            segment=Segment.of_row(row),
            **{name: item(row, name, int) for name in _NUMBERS},
            ranges=ranges,
            is_uploaded=item(row, "is_uploaded", bool),
        )
