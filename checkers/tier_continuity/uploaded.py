"""What uploaders put into the tier, and when: what shards of a parted queue must know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from chaos.kernel import Lookup
from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER, Ints
from checkers._facts.reads import own
from checkers._facts.retention import number
from checkers._facts.tier import Versions, manifests

#: So many segments in a row show a habit: one alone may be small because its size was guessed wrong.
IN_A_ROW = 5
#: A segment below this part of its size is not full, and a record below this part of its age not old.
PART = 0.5


@dataclass(frozen=True, slots=True)
class Small:
    """Versions that added a segment which was not full, one for each element: their ``place`` among the versions of
    their queue that added any, the ``index`` and the time of the store's row, which of the :attr:`Uploaded.writers`
    made them, and in which epoch; where the segment begins (-1: it does not say), its ``bytes``, when it was sent, and
    when its uploader counts a segment as full, and a record as old. ``since_ns``: the time of the version
    :data:`IN_A_ROW` - 1 places earlier."""

    place: Ints
    index: Ints
    time_ns: Ints
    since_ns: Ints
    writer: Ints
    epoch: Ints
    base: Ints
    bytes: Ints
    sent_ns: Ints
    full_bytes: Ints
    old_ms: Ints


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The versions of one queue's manifest. ``since_ns``, ``end``, ``index``: those that reached as far as all before
    them, by time: from when on, to which offset, and their rows. ``oldest_ms``: the longest time that any uploader lets
    a record wait."""

    since_ns: Ints
    end: Ints
    index: Ints
    oldest_ms: int
    writers: tuple[str, ...]
    small: Small


_NONE = np.empty(0, dtype=np.int64)
#: A queue without a manifest, of which none was sent.
NOTHING = Uploaded(_NONE, _NONE, _NONE, 0, (), Small(*(_NONE for _ in fields(Small))))


def uploaded(rows: Rows) -> Mapping[int, Uploaded]:
    """Return what is known of each queue that has a manifest, or of which an uploader sent one."""
    settings, versions = _settings(rows), rows.memo(manifests)
    queues = sorted({*settings, *versions})
    return {queue: _of_queue(rows, versions.get(queue), settings.get(queue, {})) for queue in queues}


#: What :func:`uploaded` knows.
UPLOADED = Lookup(rows=(own("trace", "store_cas", "tier_commit"),), make=uploaded)


@dataclass(frozen=True, slots=True)
class _Settings:
    """When a version was sent, and when its uploader counts a segment as full, in bytes and in records, and a record as
    old; 0 for never."""

    sent_ns: int = 0
    full_bytes: int = 0
    full_records: int = 0
    old_ms: int = 0


#: Uploader and version → its settings.
_Known = Mapping[tuple[str, int], _Settings]


def _settings(rows: Rows) -> dict[int, dict[tuple[str, int], _Settings]]:
    """Queue → uploader and version → its settings."""
    times, queues = rows.column("time_ns"), rows.column("queue")
    found: dict[int, dict[tuple[str, int], _Settings]] = {}
    commits = rows.where(kind="trace", f="tier_commit")
    for at, value in zip(commits.tolist(), rows.values(commits), strict=True):
        full_bytes, full_records, old_ms = (
            int(value.get(name) or 0) for name in ("segment_bytes", "segment_records", "max_age_ms")
        )
        key = (rows.text("node", at), int(value.get("version", -1)))
        found.setdefault(int(queues[at]), {})[key] = _Settings(int(times[at]), full_bytes, full_records, old_ms)
    return found


def _of_queue(rows: Rows, versions: Versions | None, settings: _Known) -> Uploaded:
    oldest_ms = max((one.old_ms for one in settings.values()), default=0)
    if versions is None:
        return replace(NOTHING, oldest_ms=oldest_ms)
    times = rows.column("time_ns")[versions.at]
    order = np.argsort(times, kind="stable")
    order = order[versions.end[order] == np.maximum.accumulate(versions.end[order])]
    return Uploaded(
        since_ns=times[order],
        end=versions.end[order],
        index=rows.column("index")[versions.at[order]],
        oldest_ms=oldest_ms,
        writers=tuple(versions.writers),
        small=_small(rows, versions, settings),
    )


def _small(rows: Rows, versions: Versions, settings: _Known) -> Small:
    times, spans = rows.column("time_ns")[versions.at], versions.spans
    longer = (np.flatnonzero(np.diff(versions.end) > 0) + 1).tolist()
    adding = [number for number in longer if spans[number]]
    found = []
    for place, which in enumerate(adding):
        segment, writer = versions.segments.one(spans[which][-1] - 1), versions.writers[versions.writer[which]]
        known = settings.get((writer, int(versions.number[which])), _Settings())
        base, named_bytes, count = (number(segment, name) for name in ("base", "bytes", "count"))
        size = known.full_bytes if named_bytes is None else named_bytes
        if size >= PART * known.full_bytes or (count or 0) >= PART * known.full_records > 0:
            continue
        first = adding[max(0, place - IN_A_ROW + 1)]
        begins = -1 if base is None else min(base, NEVER)
        found.append((place, which, first, begins, size, known.sent_ns, known.full_bytes, known.old_ms))
    columns = np.array(found, dtype=np.int64).reshape(-1, 8).T
    at, since = columns[1], columns[2]
    return Small(
        place=columns[0],
        index=rows.column("index")[versions.at[at]],
        time_ns=times[at],
        since_ns=times[since],
        writer=versions.writer[at],
        epoch=versions.epoch[at],
        **dict(zip(("base", "bytes", "sent_ns", "full_bytes", "old_ms"), columns[3:], strict=True)),
    )
