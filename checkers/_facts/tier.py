"""What the laws of the tier share: manifest versions as the store applied them, and a node's state at a step."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
from checkers._facts.manifests.segments import Named, name_of

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
    """Return whether each replica has a tier of its own, of which the driver reports what it holds in the end. No node
    is one."""
    return not has_store(context) and Evidence.TIER_CONTENT in (context.meta.evidence or ())


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
    many."""

    def __init__(self, rows: Rows, queue: int, found: Sequence[int]) -> None:
        """Raise ``ValueError`` when one names changes of a manifest that is not in the history."""
        writers: dict[str, int] = {}
        fields = [_fields(rows, at, writers) for at in found]
        self.queue, self.at = queue, np.array(found, dtype=np.int64)
        self.numbers, self._start, self._confirm, self._writer = map(_whole, zip(*fields, strict=True))
        self.epoch, self.end, self._position, self._hash = (
            rows.column(name)[self.at] for name in ("epoch", "offset", "position", "hash")
        )
        self.writers, self._manifests = [*writers], rows.memo(Manifests)
        self._order = np.argsort(self.numbers, kind="stable")
        self._made: dict[int, Version] = {}

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
            version=int(self.numbers[place]),
            epoch=int(self.epoch[place]),
            start=int(self._start[place]),
            end=int(self.end[place]),
            position=int(self._position[place]),
            confirm=int(self._confirm[place]),
            writer=self.writers[self._writer[place]],
            hash=int(self._hash[place]),
            segments=segments,
        )

    def __iter__(self) -> Iterator[Version]:
        return map(self.__getitem__, range(len(self)))

    def find(self, number: int) -> Version | None:
        """Return the first one of this number."""
        place = bisect_left(self._order, number, key=lambda one: self.numbers[one])
        found = place < len(self) and self.numbers[self._order[place]] == number
        return self[self._order[place]] if found else None

    def have(self, numbers: Ints, hashes: Ints, ends: Ints) -> Flags:
        """Which of these versions there are, with this content and this end: as :meth:`find` would find each."""
        in_order = self.numbers[self._order]
        slot = np.minimum(np.searchsorted(in_order, numbers), len(self) - 1)
        place = self._order[slot]
        found: Flags = (in_order[slot] == numbers) & (self._hash[place] == hashes) & (self.end[place] == ends)
        return found

    def out_of_order(self) -> Iterator[Version]:
        """Versions whose segments may not follow one another from where the version begins to where it ends."""
        for version in self:
            named = version.segments
            if (len(named) or version.start >= 0) and not named.follow(version.start, version.end):
                yield version

    def added(self) -> Iterator[tuple[Version, Sequence[Mapping[str, Any]]]]:
        """Each version, with those of its segments whose objects the version before it did not name."""
        names, before = Counter[str](), Named.none()
        for version in self:
            fresh = [*version.segments.without(before)]
            yield version, [one for one in fresh if not names[name_of(one)]]
            names.update(map(name_of, fresh))
            names.subtract(name_of(one) for one in before.without(version.segments))
            before = version.segments

    def last_named(self) -> dict[str, int]:
        """Object → the place of the last version that names it."""
        found, before = dict[str, int](), Named.none()
        for place, version in enumerate(self):
            for one in before.without(version.segments):
                found[str(one.get("key"))] = place - 1
            before = version.segments
        return found | dict.fromkeys(map(str, before.names()), len(self) - 1)


def _fields(rows: Rows, at: int, writers: dict[str, int]) -> tuple[int, int, int, int]:
    """Return number, start and confirm offset of the version at a row, and which of the ``writers`` made it."""
    known = rows.memo(retention.headers)[at]
    retention.named(rows, at)
    return (
        int(known.version),
        int(known.start),
        int(known.confirm),
        writers.setdefault(known.writer, len(writers)),
    )


def _whole(numbers: Sequence[int]) -> npt.NDArray[Any]:
    """Whole numbers of any size."""
    try:
        return np.array(numbers, dtype=np.int64)
    except OverflowError:
        return np.array(numbers, dtype=np.object_)


def manifests(rows: Rows) -> Mapping[int, Versions]:
    """Queue → its manifest versions in order."""
    return {queue: Versions(rows, queue, found) for queue, found in rows.memo(retention.versions).items()}


def pairs(rows: Rows) -> Iterator[tuple[Version, Version]]:
    """Each manifest version with the one that follows it."""
    for found in rows.memo(manifests).values():
        yield from pairwise(found)


#: A row's place in its node's own order: life, step, index.
Moment = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Timeline:
    """A node's rows of some kinds, in the order in which it lived them."""

    moments: Sequence[Moment]
    at: Sequence[int]

    @classmethod
    def of(cls, rows: Rows, node: str, *kinds: str) -> Timeline:
        found = facts.node_traces(rows, node, *kinds)
        return cls(facts.moment(rows, found), found.tolist())

    def last(self, moment: Moment) -> int:
        """Return the last row up to this moment in the same life, -1 if there is none."""
        place = bisect_right(self.moments, moment) - 1
        return self.at[place] if place >= 0 and self.moments[place][0] == moment[0] else -1

    def last_of_any_life(self, moment: Moment) -> int:
        """Return the last row up to this moment, -1 if there is none."""
        place = bisect_right(self.moments, moment) - 1
        return self.at[place] if place >= 0 else -1
