"""Finds cycles among transactions: everything acyclic is cut away on arrays, and of what is left the shortest cycle of
each strongly connected component is taken.

An edge says that one transaction took effect before another one. Its kind says why: ``ww`` overwritten by, ``wr`` read
by, ``rw`` read before it was overwritten by, and the order in which clients asked. The names of cycles are Adya's
(Weak Consistency, 1999), as Elle extends them by the orders of processes and of real time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chaos.verdict import Order
from checkers._facts.arrays import NEVER, Flags, Ints, stable_order

#: So many steps are taken in one component to find a short cycle.
STEPS = 2_000_000


class Kind(IntEnum):
    """Why one transaction comes before another one."""

    WW = 0
    WR = 1
    RW = 2
    PROCESS = 3
    REALTIME = 4


#: What an arrow of each kind says.
WORDS = {
    Kind.WW: "ww: overwritten by",
    Kind.WR: "wr: read by",
    Kind.RW: "rw: missed what it wrote",
    Kind.PROCESS: "process: followed by",
    Kind.REALTIME: "real time: ended before",
}
#: What cycles are made of, the most restricted first: what an earlier one finds, no later one names again.
DATA = ((Kind.WW,), (Kind.WW, Kind.WR), (Kind.WW, Kind.WR, Kind.RW))
ORDERS = ((), (Kind.PROCESS,), (Kind.REALTIME,))
SUFFIX = {Kind.PROCESS: "-process", Kind.REALTIME: "-realtime"}


class Edge(NamedTuple):
    """``label``: the number of what shows it, for the caller that made the graph; -1 for the orders of clients."""

    source: int
    target: int
    kind: Kind
    label: int


@dataclass(frozen=True, slots=True)
class Cycle:
    """Edges of which each begins where the one before ends, and the first where the last ends. Not ``sure``: it was not
    tried whether one with a single ``rw`` edge lies among the same transactions."""

    edges: tuple[Edge, ...]
    sure: bool = True

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(edge.source for edge in self.edges)

    @property
    def name(self) -> str:
        """``G0`` to ``G2-item``, with what orders of clients it needs."""
        kinds = {edge.kind for edge in self.edges}
        anti = sum(edge.kind is Kind.RW for edge in self.edges)
        base = ("G1c" if Kind.WR in kinds else "G0") if not anti else "G-single" if anti == 1 else "G2-item"
        return base + next((SUFFIX[kind] for kind in (Kind.REALTIME, Kind.PROCESS) if kind in kinds), "")

    def orders(self, name: Callable[[int], str], shown: Callable[[Edge], str]) -> tuple[Order, ...]:
        """Return the edges as a report draws them. ``name``: of a transaction; ``shown``: what shows an edge."""
        return tuple(
            Order(before=name(edge.source), after=name(edge.target), kind=WORDS[edge.kind], shown=shown(edge))
            for edge in self.edges
        )


def circle(one: str, two: str, why: tuple[Kind, str], why_back: tuple[Kind, str]) -> tuple[Order, Order]:
    """Return two orders of two things that contradict each other: the kind of each, and what shows it."""
    return (
        Order(before=one, after=two, kind=WORDS[why[0]], shown=why[1]),
        Order(before=two, after=one, kind=WORDS[why_back[0]], shown=why_back[1]),
    )


@dataclass(frozen=True, slots=True)
class Graph:
    """Transactions by their number, and what orders them. One that has ``ended`` before another one ``began`` took
    effect before it; both are moments on one clock, :data:`NEVER` where the end is not known. Those of one ``process``
    (-1: of none) follow one another."""

    began: Ints
    ended: Ints
    process: Ints
    source: Ints
    target: Ints
    kind: npt.NDArray[np.int8]
    label: Ints

    def cycles(self) -> list[Cycle]:
        """Return the shortest cycle that was found of each strongly connected component, under the name that needs the
        fewest kinds of edges."""
        return _cycles(self._cut())

    def _cut(self) -> Graph:
        """Return the graph, with the orders of processes, but without edges that lie on no cycle."""
        stretch = self._stretches()
        kept = _within(stretch, self.source, self.target)
        edges = [getattr(self, name)[kept] for name in ("source", "target", "kind", "label")]
        if len(edges[0]):  # without these the orders of clients are none but real time, which never comes back
            before, after = self._orders_of_processes()
            mine = _within(stretch, before, after)
            kinds, labels = np.full(len(before), Kind.PROCESS, np.int8), np.full(len(before), -1)
            orders: list[npt.NDArray[Any]] = [before, after, kinds, labels]
            edges = [np.append(one, other[mine]) for one, other in zip(edges, orders, strict=True)]
        source, target, kind, label = edges
        return replace(self, source=source, target=target, kind=kind, label=label)

    def _orders_of_processes(self) -> tuple[Ints, Ints]:
        mine = np.flatnonzero(self.process >= 0)
        mine = mine[np.lexsort((self.began[mine], self.process[mine]))]
        follows = self.process[mine[1:]] == self.process[mine[:-1]]
        follows &= self.ended[mine[:-1]] < self.began[mine[1:]]
        return mine[:-1][follows], mine[1:][follows]

    def _stretches(self) -> Ints:
        """Return of each transaction the stretch of time that its cycles lie in, -1 where it is on none. Give each a
        moment, at which it may have taken effect: real time, and the order of a process, only lead to later moments. So
        a cycle comes back by edges that lead to earlier ones, and all of it lies in the stretches that these span."""
        moment = self.ended.copy()
        np.minimum.at(moment, self.source, self.ended[self.target])
        moment = np.maximum(moment, self.began)
        back = np.flatnonzero(moment[self.source] >= moment[self.target])
        low, high = moment[self.target[back]], moment[self.source[back]]
        order = stable_order(low)
        low, high = low[order], np.maximum.accumulate(high[order])
        first = np.append(True, low[1:] > high[:-1])[: len(low)]
        begins = low[first]
        ends = high[np.append(np.flatnonzero(first)[1:] - 1, len(low) - 1)[: len(begins)]]
        stretch = np.searchsorted(begins, moment, side="right") - 1
        stretch[(stretch < 0) | (moment > np.append(ends, -1)[stretch])] = -1
        return stretch


def _within(stretch: Ints, source: Ints, target: Ints) -> Flags:
    """Return which edges lie in one stretch of time, the only ones that may lie on a cycle."""
    of = stretch[source]
    found: Flags = (of >= 0) & (of == stretch[target])
    return found


def _cycles(graph: Graph) -> list[Cycle]:
    found: list[Cycle] = []
    named = np.zeros(len(graph.began), dtype=np.bool_)
    for order in ORDERS:
        for data in DATA:
            for component in _components(graph, (*data, *order), named):
                named[component.nodes] = True
                found.append(component.shortest())
    return found


class _Component:
    """A strongly connected component. Places below 0 are moments, from which real time leads on."""

    def __init__(self, edges: Sequence[Edge]) -> None:
        self.nodes = sorted({edge.source for edge in edges if edge.source >= 0})
        self._edges = edges
        self._after: dict[int, list[Edge]] = {}
        for edge in edges:
            self._after.setdefault(edge.source, []).append(edge)

    def shortest(self) -> Cycle:
        """Return a short cycle, with one ``rw`` edge alone if there is such a one."""
        data = [edge for edge in self._edges if edge.kind < Kind.PROCESS]
        anti = [edge for edge in data if edge.kind is Kind.RW]
        best, sure = self._best(anti, rw=False) if anti else (None, True)
        if best is None:
            best, _ = self._best(data, rw=True)
        assert best is not None, "each edge of a component lies on a cycle"
        return replace(best, sure=sure)

    def _best(self, starts: Sequence[Edge], *, rw: bool) -> tuple[Cycle | None, bool]:
        """Return the shortest cycle through one of these edges, which then may be followed by more ``rw`` edges or not;
        and whether all were tried if there is none."""
        best: Cycle | None = None
        steps = [0]
        for start in starts:
            if steps[0] > STEPS or (best is not None and len(best.edges) == 2):
                break
            path = self._path(start.target, start.source, steps, rw=rw)
            if path is not None and (best is None or len(path) + 1 < len(best.edges)):
                best = Cycle((start, *path))
        return best, best is not None or steps[0] <= STEPS

    def _path(self, begin: int, end: int, steps: list[int], *, rw: bool) -> list[Edge] | None:
        """Return the shortest path. What leads to a moment counts for nothing."""
        before: dict[int, Edge | None] = {begin: None}
        ahead = deque([begin])
        while ahead and end not in before:
            for edge in self._after.get(ahead.popleft(), ()):
                steps[0] += 1
                if edge.target not in before and (rw or edge.kind is not Kind.RW):
                    before[edge.target] = edge
                    (ahead.appendleft if edge.target < 0 else ahead.append)(edge.target)
        if end not in before:
            return None
        path: list[Edge] = []
        last = before[end]
        while last is not None:
            path.append(last)
            last = before[last.source]
        return [*_joined(path[::-1])]


def _joined(path: Sequence[Edge]) -> Iterator[Edge]:
    """Yield a path with one edge in place of all that lead from moment to moment."""
    source = -1
    for edge in path:
        if edge.source >= 0:
            source = edge.source
        if edge.target >= 0:
            yield edge if edge.source >= 0 else Edge(source, edge.target, Kind.REALTIME, -1)


def _components(graph: Graph, kinds: Sequence[Kind], named: Flags) -> Iterator[_Component]:
    """Yield the strongly connected components of more than one transaction of which none is named yet, those with the
    first one first."""
    from scipy.sparse import coo_array  # takes longer to import than all laws together
    from scipy.sparse.csgraph import connected_components

    chosen, count = np.isin(graph.kind, kinds), len(graph.began)
    moments = _moments(graph) if Kind.REALTIME in kinds else np.empty((2, 0), dtype=np.int64)
    source, target = np.append(graph.source[chosen], moments[0]), np.append(graph.target[chosen], moments[1])
    places, ends = np.unique(np.concatenate([source, target]), return_inverse=True)
    ends = ends.reshape(2, -1)
    shape = (len(places), len(places))
    matrix = coo_array((np.ones(ends.shape[1], dtype=np.int8), (ends[0], ends[1])), shape=shape)
    components, of = connected_components(matrix, directed=True, connection="strong") if len(places) else (0, places)
    is_node = places < count
    wanted = np.bincount(of, weights=is_node, minlength=components) > 1
    wanted[of[is_node][named[places[is_node]]]] = False
    inner = np.flatnonzero((of[ends[0]] == of[ends[1]]) & wanted[of[ends[0]]])
    kind = np.append(graph.kind[chosen], np.full(moments.shape[1], Kind.REALTIME, np.int8))[inner]
    label = np.append(graph.label[chosen], np.full(moments.shape[1], -1))[inner]
    source, target = (np.where(side < count, side, count - 1 - side) for side in (source[inner], target[inner]))
    found: dict[int, list[Edge]] = {}
    columns = (of[ends[0][inner]], source, target, kind, label)
    for number, one, other, why, what in zip(*(column.tolist() for column in columns), strict=True):
        found.setdefault(number, []).append(Edge(one, other, Kind(why), what))
    yield from sorted(map(_Component, found.values()), key=lambda one: one.nodes[0])


def _moments(graph: Graph) -> npt.NDArray[np.int64]:
    """Return edges that say the order of real time, as few as transactions: each leads to the moment of its end, each
    moment to the next one, and the last moment before one began to that one."""
    nodes = np.unique(np.concatenate([graph.source, graph.target]))
    done = nodes[graph.ended[nodes] != NEVER]
    moment, at = np.unique(graph.ended[done], return_inverse=True)
    places = len(graph.began) + np.arange(len(moment))
    last = np.searchsorted(moment, graph.began[nodes]) - 1
    later = last >= 0
    return np.stack(
        [
            np.concatenate([done, places[:-1], places[last[later]]]),
            np.concatenate([places[at], places[1:], nodes[later]]),
        ]
    )
