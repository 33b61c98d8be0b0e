"""What groups have trimmed, and by which entries of meta's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import Flags, Ints
from checkers._facts.run import may_lack_ends
from checkers._facts.storage.catalogue import TOPIC, Catalogue, Entry, catalogue
from checkers._facts.storage.entries import whole_of
from checkers._facts.storage.segments import Segment, sealed

BY_TIME, BY_SIZE, DELETED = "time", "size", "deleted"
_NUMBERS = (
    *("group", "log_index", "topic", "version", "now_ms"),
    *("newest_ms", "oldest_ms", "size_bytes", "left_bytes"),
)


@dataclass(frozen=True, slots=True)
class Trim:
    """A TRIM as the first store that reports it has applied it, in the row ``at``."""

    at: int
    rule: str
    group: int
    index: int
    topic: int
    version: int
    now_ms: int
    newest_ms: int
    oldest_ms: int
    size_bytes: int
    left_bytes: int

    @property
    def gone_bytes(self) -> int:
        """How much went."""
        return self.size_bytes - self.left_bytes


def trims(rows: Rows) -> Sequence[Trim]:
    """Return them by group and index, each once."""
    return rows.memo(_trims)


def _trims(rows: Rows) -> Sequence[Trim]:
    found: dict[tuple[int, int], Trim] = {}
    for at in rows.where(kind="trace", f="trim").tolist():
        value = rows.value(at)
        numbers = [whole_of(value, name) for name in _NUMBERS]
        trim = Trim(at, str(value.get("rule", "")), *numbers)
        found.setdefault((trim.group, trim.index), trim)
    return [found[place] for place in sorted(found)]


def topics(log: Catalogue) -> Mapping[int, str]:
    """Return the name of each topic by its id."""
    return {entry.number("id"): entry.name for entry in log.of(TOPIC) if entry.value}


def entry_of(log: Catalogue, topic: int, version: int) -> Entry | None:
    """Return the entry by which a topic was trimmed, by its name and version; None where it is not on record."""
    name = topics(log).get(topic)
    return next((entry for entry in log.of(TOPIC) if entry.name == name and entry.version == version), None)


def is_over(entry: Entry, topic: int) -> bool:
    """Return whether the topic with this id was deleted by this version of the entry of its name."""
    return entry.value.get("deleted") is True or not entry.value or entry.number("id") != topic


def let_go(rows: Rows) -> Mapping[Segment, int]:
    """Return the row of the TRIM that let each sealed segment go; those that are kept have none. Whole segments go, the
    oldest first, so it is the first one by which all bytes up to a segment's end are gone."""
    return rows.memo(_let_go)


def _let_go(rows: Rows) -> Mapping[Segment, int]:
    segments: dict[tuple[int, int], list[Segment]] = {}
    for segment in sorted(sealed(rows), key=lambda one: one.begin):
        segments.setdefault(segment[:2], []).append(segment)
    found: dict[Segment, int] = {}
    gone: dict[tuple[int, int], int] = {}
    for trim in trims(rows):
        place = trim.group, trim.topic
        gone[place] = gone.get(place, 0) + trim.gone_bytes
        size = 0
        for segment in segments.get(place, ()):
            size += sealed(rows)[segment][0].size
            if size > gone[place]:
                break
            found.setdefault(segment, trim.at)
    return found


def floors(rows: Rows, context: RunContext, queues: Ints) -> tuple[Ints, Flags]:
    """Return for each of these queues, which ascend, the offset below which trims let messages go, and whether that is
    all that went. Whether a trim was allowed, the law *retention* says. A queue whose topic was made again under its
    name has offsets of several topics, and nothing is known of it."""
    number_of = {(queue.topic, queue.queue_id): queue.index for queue in context.meta.queues}
    names, found = topics(catalogue(rows)), dict[int, dict[int, int]]()
    for at in rows.where(kind="trace", f="trim").tolist():
        value = rows.value(at)
        topic = whole_of(value, "topic")
        for name, start in (value.get("starts") or {}).items():
            queue = number_of.get((names.get(topic, ""), int(name) if name.isdecimal() else -1), -1)
            of_topics = found.setdefault(queue, {})
            of_topics[topic] = max(of_topics.get(topic, 0), int(start))
    tops = [found.get(queue, {}) for queue in queues.tolist()]
    floor = np.array([max(one.values(), default=0) if len(one) < 2 else 0 for one in tops], dtype=np.int64)
    known = np.array([len(one) < 2 for one in tops], dtype=np.bool_)
    return floor, known & (not may_lack_ends(rows))


def topic_entries(rows: Rows) -> Ints:
    """Keep the rows by which meta's log makes, changes or deletes topics: what :func:`floors` needs. A sieve."""
    at = rows.where(kind="trace", f="applied")
    kept = [(value.get("entry") or {}).get("kind") == TOPIC for value in rows.values(at)]
    return at[np.array(kept, dtype=np.bool_)]
