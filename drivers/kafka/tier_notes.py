"""What brokers note of their tier: records of the topic ``__remote_log_metadata`` (KIP-405).

Each is the version of the frame, the number of its kind, and its version, as variable numbers, and then fields as
Kafka's schemas ``RemoteLogSegmentMetadataRecord`` and ``RemoteLogSegmentMetadataUpdateRecord`` list them.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass

TOPIC = "__remote_log_metadata"
_FRAME = 1
#: Kinds of records; others are about partitions that are deleted.
_SEGMENT, _UPDATE = 0, 1
#: The state of a segment that is in the tier as a whole.
_FINISHED = 1


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that is in the tier: its offsets from ``start`` to ``end``, both in it, its size in bytes, and from
    which offset on its records are of which leader's epoch."""

    id: str
    topic: str
    partition: int
    start: int
    end: int
    epochs: tuple[tuple[int, int], ...]
    size: int

    def epoch_of(self, offset: int) -> int:
        """Return the epoch that the notes give for an offset, -1 for none."""
        return max((epoch for epoch, first in self.epochs if first <= offset), default=-1)


def finished(records: Iterable[bytes]) -> list[Segment]:
    """Return the segments that these notes, in their order, leave in the tier: their copy has ended, and their deletion
    has not begun. Raises ``ValueError`` for notes that can't be read."""
    known: dict[str, tuple[Segment, int]] = {}
    for data in records:
        fields = _Fields(data)
        frame, kind, version = fields.number(), fields.number(), fields.number()
        if frame == _FRAME and kind not in (_SEGMENT, _UPDATE):
            continue
        if (frame, version) != (_FRAME, 0):
            raise ValueError(f"a note of the tier in version {frame}.{version}, which this driver does not read")
        if kind == _SEGMENT:
            segment, state = _segment(fields)
            known[segment.id] = segment, state
            continue
        *_, id = _place(fields)
        fields.skip(4 + 8)  # who said it, and when
        fields.compact()
        if id in known:
            known[id] = known[id][0], fields.whole(1)
    return [segment for segment, state in known.values() if state == _FINISHED]


def _segment(fields: _Fields) -> tuple[Segment, int]:
    """Return a segment and its state."""
    topic, partition, id = _place(fields)
    start, end = fields.whole(8), fields.whole(8)
    fields.skip(4 + 8 + 8)  # who said it, and two times
    epochs = []
    for _ in range(fields.number() - 1):
        epochs.append((fields.whole(4), fields.whole(8)))
        fields.tagged()
    size = fields.whole(4)
    fields.compact()
    return Segment(id, topic, partition, start, end, tuple(epochs), size), fields.whole(1)


def _place(fields: _Fields) -> tuple[str, int, str]:
    """Return the topic, the partition, and the segment's id as it stands in names of files."""
    topic = fields.compact().decode("utf-8", "replace")
    fields.skip(16)  # the topic's id
    partition = fields.whole(4)
    fields.tagged()
    id = urlsafe_b64encode(fields.skip(16)).decode().rstrip("=")
    fields.tagged()
    return topic, partition, id


class _Fields:
    """Fields of a record, one after another. All raise ``ValueError`` behind its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def skip(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) < size or size < 0:
            raise ValueError("a note of the tier that is cut off")
        self._at += size
        return found

    def whole(self, size: int) -> int:
        return int.from_bytes(self.skip(size), "big", signed=True)

    def number(self) -> int:
        """Return a whole number of seven bits a byte, the lowest first."""
        found = shift = 0
        while True:
            (byte,) = self.skip(1)
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found

    def compact(self) -> bytes:
        """Return a text, or bytes; nothing for one that is not there."""
        return self.skip(max(self.number() - 1, 0))

    def tagged(self) -> None:
        """Leave out fields that later versions have added."""
        for _ in range(self.number()):
            self.number()
            self.skip(self.number())
