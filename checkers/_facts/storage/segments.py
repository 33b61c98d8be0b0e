"""Sealed segments: what stores say of their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chaos.fault import Effect
from chaos.shard_rows import Rows
from checkers._facts.faults import faults
from checkers._facts.storage.entries import whole_of

#: Where the bytes of a segment are, as a store says after the run.
LOCAL, TIER, MISSING = "local", "tier", "missing"


class Segment(NamedTuple):
    """The records of a topic that lie in these bytes of a group."""

    group: int
    topic: int
    begin: int
    end: int

    def __str__(self) -> str:
        return f"the segment of topic {self.topic} in group {self.group} from {self.begin} to {self.end}"


@dataclass(frozen=True, slots=True)
class Report:
    """What the row ``at`` says of a segment. ``index``: of the entry, -1 where it is none."""

    at: int
    segment: Segment
    index: int
    digest: str
    size: int
    key: str


def reports(rows: Rows, f: str) -> Iterator[Report]:
    """Yield what the trace rows of this name say of segments, in the order of the history."""
    position = rows.column("position")
    for at in rows.where(kind="trace", f=f).tolist():
        value = rows.value(at)
        group, topic, end, index, size = (whole_of(value, name) for name in _NUMBERS)
        segment = Segment(group, topic, int(position[at]), end)
        yield Report(at, segment, index, str(value.get("digest", "")), size, str(value.get("key", "")))


_NUMBERS = ("group", "topic", "end", "log_index", "size")


def sealed(rows: Rows) -> Mapping[Segment, Sequence[Report]]:
    """Return what stores reported of each segment when they sealed it; the first report is what others are held to."""
    return rows.memo(_sealed)


def _sealed(rows: Rows) -> Mapping[Segment, Sequence[Report]]:
    found: dict[Segment, list[Report]] = {}
    for report in reports(rows, "sealed"):
        found.setdefault(report.segment, []).append(report)
    return found


def uploads(rows: Rows) -> Sequence[Report]:
    """Return what stores applied of uploads, each of them once."""
    return rows.memo(_uploads)


def _uploads(rows: Rows) -> Sequence[Report]:
    once: dict[tuple[Segment, str, str], Report] = {}
    for report in reports(rows, "uploaded"):
        once.setdefault((report.segment, report.digest, report.key), report)
    return tuple(once.values())


@dataclass(frozen=True, slots=True)
class Held:
    """A segment as a store shows it after the run: ``where`` its bytes are, and their hash."""

    segment: Segment
    digest: str
    where: str


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica as its store shows it after the run, in the row ``at``. ``applied``: the index up to which it has
    applied its group's log; ``epoch``: that of its fence."""

    at: int
    node: str
    name: str
    group: int
    applied: int
    epoch: int
    end: int
    sealed: int
    tail: str
    segments: Sequence[Held]
    strays: Sequence[str]


def replicas(rows: Rows) -> Sequence[Replica]:
    """Return what stores held of groups after the run."""
    return rows.memo(_replicas)


def _replicas(rows: Rows) -> Sequence[Replica]:
    found, position, epoch = [], rows.column("position"), rows.column("epoch")
    for at in rows.where(kind="final", f="group").tolist():
        value = rows.value(at)
        group = whole_of(value, "group")
        listed = value.get("segments")
        segments = [_held(group, one) for one in listed] if isinstance(listed, list) else []
        strays = value.get("strays")
        found.append(
            Replica(
                at=at,
                node=rows.text("node", at),
                name=str(value.get("replica", "")),
                group=group,
                applied=whole_of(value, "log_index"),
                epoch=int(epoch[at]),
                end=int(position[at]),
                sealed=whole_of(value, "sealed"),
                tail=str(value.get("tail", "")),
                segments=segments,
                strays=[*map(str, strays)] if isinstance(strays, list) else [],
            )
        )
    return tuple(found)


def _held(group: int, listed: Sequence[object]) -> Held:
    topic, begin, end, digest, where = (*listed, *[-1] * 5)[:5]
    numbers = (one if isinstance(one, int) else -1 for one in (topic, begin, end))
    return Held(Segment(group, *numbers), str(digest), str(where))


def may_be_harmed(rows: Rows, node: str) -> bool:
    """Return whether a fault has taken something from this node's disk, or may have."""
    return any(node in fault.hits(Effect.LOSES_DISK) or fault.may_hit(node) for fault in rows.memo(faults))
