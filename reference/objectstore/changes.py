"""What the trace says of a manifest: how it differs from the one before, which a long run would repeat ever again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SEGMENTS = "segments"


@dataclass(frozen=True, slots=True)
class Traced:
    """A manifest that the trace holds, whole or by its changes: the hash of its bytes, and its segments."""

    hash: int
    segments: Sequence[Any]

    @classmethod
    def of(cls, hash: int, content: Mapping[str, Any]) -> Traced:
        return cls(hash, _segments(content))

    def changes(self, content: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the same manifest, with ``segments`` only as far as they are new: ``kept`` = [first, how many] of
        those with the hash ``since`` stand before them. None where nothing is kept."""
        segments = _segments(content)
        if not segments or segments[0] not in self.segments:
            return None
        first = self.segments.index(segments[0])
        most = min(len(segments), len(self.segments) - first)
        many = next((n for n in range(most) if segments[n] != self.segments[first + n]), most)
        return {"since": self.hash, "kept": [first, many], "content": {**content, _SEGMENTS: segments[many:]}}


def _segments(content: Mapping[str, Any]) -> Sequence[Any]:
    found = content.get(_SEGMENTS)
    return found if isinstance(found, list) else ()
