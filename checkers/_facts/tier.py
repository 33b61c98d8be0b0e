"""What the laws of the tier share: manifest versions as the store applied them, and a node's state at a step."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from chaos.driver import Evidence
from chaos.findings import decide
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Validity, Verdict
from checkers import _facts as facts
from checkers._facts import retention
from checkers._facts.arrays import Flags, Ints
from checkers._facts.manifests.restored import Manifests
from checkers._facts.manifests.segments import Named, Segments, Spans, name_of, places, without

#: So long what waits to be uploaded may lie outside the tier after recovery, and so long an uploader may not know what
#: it has committed.
UPLOAD_S = 15.0


def upload_bound_s(context: RunContext) -> float:
    """``bounds.upload_s`` of the run."""
    return facts.bound(context, "upload_s", UPLOAD_S)


def has_tier(context: RunContext) -> bool:
    """Return whether the system has an object store, or a tier that is no node. Where ``run.json`` lists no nodes, that
    is unknown: then it should."""
    return not context.meta.nodes or has_store(context) or has_own_tiers(context)


def has_store(context: RunContext) -> bool:
    """Is one of the nodes an object store?"""
    return bool(context.meta.named("objectstore"))


def has_own_tiers(context: RunContext) -> bool:
    """Return whether each replica has a tier of its own, or all share one that is no node, of which the driver reports
    what it holds in the end."""
    return not has_store(context) and Evidence.TIER_CONTENT in (context.meta.evidence or ())


def of_node(node: str) -> str:
    """Return what a tier is called: that of a node, or under no name that of all."""
    return f"the tier of {node}" if node else "the tier"


#: What a law of the tier finds in a system without one.
NO_TIER = Partial(not_owed="the system has no tiered storage")


def judge(promise: Promise, partial: Partial, context: RunContext, needs: Sequence[tuple[str, str]]) -> Verdict:
    """Return the common judgement of the tier's laws, which say nothing of a system without a tier."""
    if not has_tier(context):
        return Verdict(law=promise.name, validity=Validity.NOT_APPLICABLE, why=str(NO_TIER.not_owed))
    return decide(promise, partial, needs=needs, unless=context.no_queues)


@dataclass(frozen=True, slots=True)
class Version:
    """One manifest version that the store has applied; ``at`` is its row, ``end`` is T, ``position`` is P."""

    at: int
    queue: int
    version: int
    epoch: int
    start: int
    end: int
    position: int
    confirm: int
    writer: str
    hash: int
    segments: Named


#: So many versions of a queue are kept as they were made: laws pass over all of them a dozen times.
MOST_MADE = 1 << 15


class Versions(Sequence[Version]):
    """The manifest versions of one queue, in order, in columns. Each is made when it is asked for: a long run has
    many. ``writer``: which of the ``writers`` made it."""

    def __init__(self, rows: Rows, queue: int, found: Sequence[int]) -> None:
        """Raise ``ValueError`` when one names changes of a manifest that is not in the history."""
        self.queue, self.at = queue, np.array(found, dtype=np.int64)
        manifests, known = rows.memo(Manifests), rows.memo(retention.headers)
        for at in filter(manifests.lacking.__contains__, found):
            retention.named(rows, at)
        headers, writers = [known[at] for at in found], dict[str, int]()
        self.number, self.start, self.confirm = (
            _whole([int(getattr(one, name)) for one in headers]) for name in ("version", "start", "confirm")
        )
        self.writer = np.array([writers.setdefault(one.writer, len(writers)) for one in headers], dtype=np.int64)
        self.epoch, self.end, self.position, self.hash = (
            rows.column(name)[self.at] for name in ("epoch", "offset", "position", "hash")
        )
        self.writers, self._manifests = [*writers], manifests
        self._order = np.argsort(self.number, kind="stable")
        self._made: dict[int, Version] = {}

    @property
    def segments(self) -> Segments:
        """What all versions name."""
        return self._manifests.segments[self.queue]

    @property
    def spans(self) -> list[Spans]:
        """Where among the segments those stand that each version names."""
        return self._manifests.spans(self.at)

    def __len__(self) -> int:
        return len(self.at)

    @overload
    def __getitem__(self, place: int) -> Version: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Version]: ...
    def __getitem__(self, place: int | slice) -> Version | Sequence[Version]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if (made := self._made.get(place)) is None:
            made = self._version(place)
            if len(self) <= MOST_MADE:
                self._made[place] = made
        return made

    def _version(self, place: int) -> Version:
        at = int(self.at[place])
        segments = self._manifests.named(self.queue, at)
        assert segments is not None, "such a version is not made"
        return Version(
            at=at,
            queue=self.queue,
            version=int(self.number[place]),
            epoch=int(self.epoch[place]),
            start=int(self.start[place]),
            end=int(self.end[place]),
            position=int(self.position[place]),
            confirm=int(self.confirm[place]),
            writer=self.writers[self.writer[place]],
            hash=int(self.hash[place]),
            segments=segments,
        )

    def __iter__(self) -> Iterator[Version]:
        return map(self.__getitem__, range(len(self)))

    def find(self, number: int) -> Version | None:
        """Return the first one of this number."""
        place = bisect_left(self._order, number, key=lambda one: self.number[one])
        found = place < len(self) and self.number[self._order[place]] == number
        return self[self._order[place]] if found else None

    def have(self, numbers: Ints, hashes: Ints, ends: Ints) -> Flags:
        """Which of these versions there are, with this content and this end: as :meth:`find` would find each."""
        in_order = self.number[self._order]
        slot = np.minimum(np.searchsorted(in_order, numbers), len(self) - 1)
        place = self._order[slot]
        found: Flags = (in_order[slot] == numbers) & (self.hash[place] == hashes) & (self.end[place] == ends)
        return found

    def out_of_order(self) -> Iterator[Version]:
        """Versions whose segments may not follow one another from where the version begins to where it ends."""
        spans = self.spans
        names_none = np.array([not one for one in spans], dtype=np.bool_)
        wrong = ~self.segments.follow(spans, self.start, self.end) & ~(names_none & (self.start < 0))
        return map(self.__getitem__, np.flatnonzero(wrong).tolist())

    def added(self) -> Iterator[tuple[int, Sequence[Mapping[str, Any]]]]:
        """The place of each version, with those of its segments whose objects the version before it did not name."""
        names, before = Counter[str](), Spans()
        for place, spans in enumerate(self.spans):
            fresh = [*map(self.segments.one, without(spans, before))]
            yield place, [one for one in fresh if not names[name_of(one)]]
            for one in fresh:
                names[name_of(one)] += 1
            for at in without(before, spans):
                names[name_of(self.segments.one(at))] -= 1
            before = spans

    def last_named(self) -> dict[str, int]:
        """Object → the place of the last version that names it."""
        found, before = dict[str, int](), Spans()
        for place, spans in enumerate(self.spans):
            for at in without(before, spans):
                found[str(self.segments.key(at))] = place - 1
            before = spans
        return found | dict.fromkeys((str(self.segments.key(at)) for at in places(before)), len(self) - 1)


def _whole(numbers: Sequence[int]) -> npt.NDArray[Any]:
    """Whole numbers of any size."""
    try:
        return np.array(numbers, dtype=np.int64)
    except OverflowError:
        return np.array(numbers, dtype=np.object_)


def manifests(rows: Rows) -> Mapping[int, Versions]:
    """Queue → its manifest versions in order."""
    return {queue: Versions(rows, queue, found) for queue, found in rows.memo(retention.versions).items()}


def falls(rows: Rows, name: str) -> Iterator[tuple[Version, Version]]:
    """Yield each manifest version that has less in this column than the one before it, behind that one."""
    for found in rows.memo(manifests).values():
        column = getattr(found, name)
        for place in np.flatnonzero(column[1:] < column[:-1]).tolist():
            yield found[place], found[place + 1]
