"""What the laws of the tier share: manifest versions as the store applied them, and a node's state at a step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from chaos.driver import Evidence
from chaos.judging.findings import decide
from chaos.law import Partial, Promise, Rows, RunContext
from chaos.verdict import Validity, Verdict
from checkers import _views as views
from checkers._views import retention

#: So long what waits to be uploaded may lie outside the tier after recovery, and so long an uploader may not know what
#: it has committed.
UPLOAD_S = 15.0


def upload_bound_s(context: RunContext) -> float:
    """``bounds.upload_s`` of the run."""
    return views.bound(context, "upload_s", UPLOAD_S)


def has_tier(context: RunContext) -> bool:
    """Does the system have an object store, or a tier that is no node? Where ``run.json`` lists no nodes, nobody knows:
    then it should."""
    return not context.meta.get("nodes") or has_store(context) or has_own_tiers(context)


def has_store(context: RunContext) -> bool:
    """Is one of the nodes an object store?"""
    return any(node.get("role") == "objectstore" for node in context.meta.get("nodes") or ())


def has_own_tiers(context: RunContext) -> bool:
    """Does each replica have a tier of its own, of which the driver tells what it holds in the end? No node is one."""
    return not has_store(context) and Evidence.TIER_CONTENT in (context.meta.get("tells") or ())


def judge(promise: Promise, partial: Partial, context: RunContext, needs: Sequence[tuple[str, str]]) -> Verdict:
    """The common judgement of the tier's laws, which say nothing of a system without a tier."""
    if not has_tier(context):
        return Verdict(law=promise.name, validity=Validity.NOT_APPLICABLE, why="the system has no tiered storage")
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
    segments: Sequence[Mapping[str, Any]]


def manifests(rows: Rows) -> Mapping[int, Sequence[Version]]:
    """Queue → its manifest versions in order."""
    return {queue: [_version(rows, at) for at in found] for queue, found in rows.memo(retention.versions).items()}


def _version(rows: Rows, at: int) -> Version:
    told, content = rows.value(at), retention.content(rows, at)
    return Version(
        at=at,
        queue=int(rows.column("queue")[at]),
        version=int(told.get("version", content.get("version", -1))),
        epoch=int(rows.column("epoch")[at]),
        start=int(content.get("start", -1)),
        end=int(rows.column("offset")[at]),
        position=int(rows.column("position")[at]),
        confirm=int(content.get("confirm", -1)),
        writer=str(content.get("writer") or told.get("caller", "")),
        hash=int(rows.column("hash")[at]),
        segments=retention.segments(content),
    )


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
        found = views.node_traces(rows, node, *kinds)
        return cls(views.moment(rows, found), found.tolist())

    def last(self, moment: Moment) -> int:
        """The last row up to this moment in the same life, -1 if there is none."""
        place = bisect_right(self.moments, moment) - 1
        return self.at[place] if place >= 0 and self.moments[place][0] == moment[0] else -1

    def last_of_any_life(self, moment: Moment) -> int:
        """The last row up to this moment, -1 if there is none."""
        place = bisect_right(self.moments, moment) - 1
        return self.at[place] if place >= 0 else -1
