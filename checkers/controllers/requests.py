"""Requests about objects, and when the controllers owed their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaos.fault import Effect
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import Flags, Ints
from checkers._facts.clients import calls
from checkers._facts.faults import Fault, faults, in_force
from checkers._facts.run import bound, phase_time

CHANGES = ("write", "cas")
KINDS = ("read", *CHANGES)
#: What ended without success after at least so long was not refused: nobody answered in time.
UNANSWERED_NS = 500_000_000
#: So long a controller may take to come by what its disk has lost, if there is no other bound.
REBUILD_S = 10.0
#: So many requests have to be in vain.
TRIES = 3
#: Who is hit by one of these is out of service, and nobody else is touched.
TAKES_OUT = (Effect.TAKES_DOWN, Effect.ISOLATES, Effect.REMOVES_REPLICA)
HARMLESS = (Effect.HARMS_TIER, Effect.ADDS_REPLICA, Effect.SWITCHES_MASTER)
CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Request:
    """One request: the row ``at`` by which it began, and that row's index."""

    at: int
    index: int
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class Selection:
    """Some of the requests: those that count as ``tried``, and those that were ``served``."""

    tried: Flags
    served: Flags


@dataclass(frozen=True, slots=True)
class Owed:
    """A time in which requests had to be served: ``well`` are the controllers that no fault held."""

    begin_ns: int
    end_ns: int
    well: frozenset[str]


@dataclass(frozen=True, slots=True)
class Requests:
    """All requests about objects that have ended, in the order of their ends."""

    at: Ints
    index: Ints
    began_ns: Ints
    ended_ns: Ints
    ok: Flags
    refused: Flags
    is_change: Flags
    to: Sequence[str]

    @property
    def changes(self) -> Selection:
        """Changes; one that was refused for its epoch was served, too."""
        served = self.is_change & (self.ok | self.refused)
        return Selection(self.is_change & ~served, served)

    def unanswered_by(self, node: str) -> Selection:
        """Return the reads that this node was asked for; a quick refusal is an answer."""
        reads = ~self.is_change & np.array([name == node for name in self.to], dtype=np.bool_)
        late = ~self.ok & (self.ended_ns - self.began_ns >= UNANSWERED_NS)
        return Selection(reads & late, reads & ~late)

    def in_vain(
        self, some: Selection, owed: Owed, bound_ns: int, *, nodes: Set[str] = frozenset()
    ) -> Iterator[tuple[Request, Request]]:
        """Yield the first and last of each series of requests in this time of which none was served, for longer than
        the bound. What was served in it ends a series, whenever that was asked for. Each of these nodes has to be asked
        often enough."""
        ended = (self.ended_ns >= owed.begin_ns) & (self.ended_ns <= owed.end_ns)
        inside = ended & (some.served | (self.began_ns >= owed.begin_ns))
        series: list[int] = []
        for place in [*np.flatnonzero(inside & (some.tried | some.served)).tolist(), -1]:
            if place >= 0 and some.tried[place]:
                series.append(place)
                continue
            asked = Counter(self.to[one] for one in series)
            if len(series) >= TRIES and all(asked[node] >= TRIES for node in nodes):
                first = min(series, key=lambda one: int(self.began_ns[one]))
                if self.ended_ns[series[-1]] - self.began_ns[first] > bound_ns:
                    yield self._one(first), self._one(series[-1])
            series = []

    def _one(self, place: int) -> Request:
        return Request(*(int(column[place]) for column in (self.at, self.index, self.began_ns, self.ended_ns)))


def of(rows: Rows) -> Requests:
    times, index = rows.column("time_ns"), rows.column("index")
    parts = [calls(rows, f) for f in KINDS]
    invoke, done = (np.concatenate([getattr(part, name) for part in parts]) for name in ("invoke", "done"))
    ok = np.concatenate([part.ok for part in parts])
    change = np.concatenate([np.full(len(part.invoke), f in CHANGES) for f, part in zip(KINDS, parts, strict=True)])
    ended = np.flatnonzero(done >= 0)
    order = ended[np.argsort(times[done[ended]], kind="stable")]
    invoke, done, ok, change = invoke[order], done[order], ok[order], change[order]
    refused = np.array(
        [
            bool(rows.value(at).get("refused")) if not good else False
            for at, good in zip(done.tolist(), ok.tolist(), strict=True)
        ],
        dtype=np.bool_,
    )
    return Requests(invoke, index[invoke], times[invoke], times[done], ok, refused, change, rows.words("to", invoke))


def owed(rows: Rows, context: RunContext) -> list[Owed]:
    """Return the times in which a majority of the controllers was well, and no fault was in force that may have
    hindered requests besides. Each change in who is well begins another such time. A controller that has lost its disk
    has one bound more to get everything again."""
    controllers = frozenset(context.meta.controllers)
    begin, end = phase_time(rows, "load"), phase_time(rows, "collect")
    if not controllers or begin < 0 or len(rows.where(kind="harness", f="host_lost")):
        return []
    end = end if end >= 0 else int(rows.column("time_ns")[-1])
    known = [one for one in rows.memo(faults) if one.effects is None or one.hits(*Effect) & {*controllers, CLIENT}]
    rebuild_ns = int(1e9 * bound(context, "available_s", REBUILD_S))
    empty = [
        (one, one.hits(Effect.LOSES_DISK), one.until_ns + rebuild_ns) for one in known if one.hits(Effect.LOSES_DISK)
    ]
    moments = {begin, end, *(now for one in known for now in (one.began_ns, one.until_ns))}
    moments |= {until_ns for *_, until_ns in empty}
    found = []
    for one, two in pairwise(sorted(now for now in moments if begin <= now <= end)):
        well = _well(known, one, controllers)
        for fault, nodes, until_ns in empty:
            well -= nodes if fault.began_ns <= one < until_ns else frozenset()
        if 2 * len(well) > len(controllers):
            found.append(Owed(one, two, well))
    return found


def _well(known: Sequence[Fault], now: int, controllers: frozenset[str]) -> frozenset[str]:
    """Return the controllers that owe service; none while a fault does more than to take some of them out."""
    out: set[str] = set()
    for one in in_force(known, now):
        gone = one.hits(*TAKES_OUT)
        more = one.hits(*(effect for effect in Effect if effect not in (*TAKES_OUT, *HARMLESS)))
        if one.effects is None or CLIENT in one.hits(*Effect) or (more & controllers) - gone:
            return frozenset()
        out |= gone
    return controllers - out
