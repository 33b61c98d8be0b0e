"""Manifests of the tier as the store reported them: whole, or by how they differ from one before."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from operator import index
from typing import Any

import numpy as np

from chaos.shard_rows import Rows
from checkers._facts.arrays import Ints
from checkers._facts.manifests.segments import Named, Segments, Spans, extended, part, size


class Manifests:
    """The segments of all manifests in some rows. A manifest of a long run has as many as there were uploads, and names
    one more than the version before it; here it takes some bytes."""

    def __init__(self, rows: Rows) -> None:
        self._at = rows.where(kind="trace", f="store_cas")
        #: Those that the manifests of each queue name.
        self.segments: dict[int, Segments] = {}
        self._low, self._high = array("q"), array("q")
        self._several: dict[int, Spans] = {}
        #: The rows of manifests of which the history lacks the one that was changed.
        self.lacking: set[int] = set()
        self._restore(rows)

    def named(self, queue: int, at: int) -> Named | None:
        """Return what the manifest of this row names, if the store has applied it; of another one that names changes,
        what it keeps. None where the history lacks the manifest that was changed."""
        return None if at in self.lacking else Named(self.segments[queue], self._spans(at))

    def spans(self, at: Ints) -> list[Spans]:
        """Return where the segments stand that the manifests of these rows name."""
        place = np.searchsorted(self._at, at)
        low, high = (np.array(column, dtype=np.int64)[place].tolist() for column in (self._low, self._high))
        each = zip(at.tolist(), low, high, strict=True)
        return [self._several.get(row) or ((begin, end) if begin < end else ()) for row, begin, end in each]

    def _spans(self, at: int) -> Spans:
        if at in self._several:
            return self._several[at]
        place = int(np.searchsorted(self._at, at))
        return (self._low[place], self._high[place]) if self._low[place] < self._high[place] else ()

    def _restore(self, rows: Rows) -> None:
        queues, hashes = (rows.column(name)[self._at].tolist() for name in ("queue", "hash"))
        known: dict[int, _Applied] = {}
        for at, queue, content, value in zip(self._at.tolist(), queues, hashes, rows.values(self._at), strict=True):
            before = known.setdefault(queue, _Applied())
            segments = self.segments.setdefault(queue, Segments())
            is_applied = value.get("outcome") == "applied"
            spans: Spans | None = ()
            if "changes" in value:
                spans = self._changed(segments, before, value["changes"], is_applied)
            elif is_applied:
                spans = _whole(segments, before, value.get("content"))
            self._keep(at, spans)
            if is_applied and spans is not None and _may_be_changed(value):
                before.add(content, at, spans)

    def _changed(self, segments: Segments, before: _Applied, changes: Any, is_applied: bool) -> Spans | None:
        """Return a manifest by its changes; None where what it is based on is not known."""
        first, many = map(index, changes["kept"])
        base = before.find(changes["since"])
        if base < 0:
            return None
        spans = before.newest if base == before.last else self._spans(base)
        if not 0 <= first <= first + many <= size(spans):
            return None
        added = changes["content"]["segments"]
        kept = part(spans, first, many)
        return _with(segments, kept, [*added]) if is_applied else kept

    def _keep(self, at: int, spans: Spans | None) -> None:
        if spans is None:
            self.lacking.add(at)
        elif len(spans) > 2:
            self._several[at] = spans
        low, high = spans if spans is not None and len(spans) == 2 else (0, 0)
        self._low.append(low)
        self._high.append(high)


class _Applied:
    """The manifests of one queue that the store has applied so far."""

    def __init__(self) -> None:
        self._hashes, self._at = array("q"), array("q")
        #: The row of the newest, and where its segments stand.
        self.last, self.newest = -1, Spans()

    def add(self, content: int, at: int, spans: Spans) -> None:
        self._hashes.append(content)
        self._at.append(at)
        self.last, self.newest = at, spans

    def find(self, content: Any) -> int:
        """Return the row of the last manifest whose content has this hash, -1 if there is none."""
        if not self._at or not isinstance(content, int):
            return -1
        if self._hashes[-1] == content:
            return self._at[-1]
        found = np.flatnonzero(np.array(self._hashes, dtype=object) == content)
        return self._at[int(found[-1])] if len(found) else -1


def _whole(segments: Segments, before: _Applied, content: Any) -> Spans:
    """Add a manifest that is reported whole: of what the newest one names too, nothing stands twice."""
    named = content.get("segments") if isinstance(content, Mapping) else None
    listed = named if isinstance(named, list) else [*named] if isinstance(named, str) else [None] if named else []
    first = segments.place(listed[0], before.newest) if listed else -1
    many = 0
    if first >= 0:
        known = Named(segments, part(before.newest, first, len(listed)))
        many = next((n for n, one in enumerate(known.raw()) if one != listed[n]), len(known))
    return _with(segments, part(before.newest, first, many) if many else (), listed[many:])


def _may_be_changed(value: Mapping[str, Any]) -> bool:
    """Return whether later rows may name changes of the manifest of this one."""
    content = value.get("content")
    return "changes" in value or (isinstance(content, dict) and isinstance(content.get("segments") or [], list | str))


def _with(segments: Segments, kept: Spans, added: list[Any]) -> Spans:
    begin = len(segments)
    for one in added:
        segments.add(one)
    return extended(kept, begin, len(segments))
