"""Cycles that are found on arrays are those of all cycles that a graph has, by the name that says most."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import networkx as nx
import numpy as np

from checkers._facts.arrays import NEVER
from checkers.isolation.graph import SUFFIX, Cycle, Edge, Graph, Kind

#: Names, the strongest first.
NAMES = [base + order for order in ("", "-process", "-realtime") for base in ("G0", "G1c", "G-single", "G2-item")]


def graph(edges: list[tuple[int, int, Kind]], began: list[int], ended: list[int], process: list[int]) -> Graph:
    source, target, kind = (np.array([edge[at] for edge in edges], dtype=np.int64) for at in range(3))
    moments = [np.array(column, dtype=np.int64) for column in (began, ended, process)]
    return Graph(*moments, source, target, kind.astype(np.int8), np.arange(len(edges)))


def all_edges(given: Graph) -> set[tuple[int, int, Kind]]:
    """Every edge, of which those of real time are one for each pair."""
    data = zip(given.source.tolist(), given.target.tolist(), map(Kind, given.kind.tolist()), strict=True)
    count = range(len(given.began))
    late = {(a, b, Kind.REALTIME) for a, b in product(count, count) if given.ended[a] < given.began[b]}
    follow = {(a, b, Kind.PROCESS) for a, b, _ in late if given.process[a] == given.process[b] >= 0}
    return {*data} | late | follow


def names_by_enumeration(given: Graph) -> set[str]:
    """The names of all cycles, by trying each of them with each kind of edge between two transactions."""
    kinds: dict[tuple[int, int], set[Kind]] = {}
    for one, other, kind in all_edges(given):
        kinds.setdefault((one, other), set()).add(kind)
    names = set()
    for nodes in nx.simple_cycles(nx.DiGraph([*kinds])):
        for chosen in product(*(kinds[edge] for edge in pairwise([*nodes, nodes[0]]))):
            anti = chosen.count(Kind.RW)
            base = "G-single" if anti == 1 else "G2-item" if anti else "G1c" if Kind.WR in chosen else "G0"
            orders = [SUFFIX[kind] for kind in (Kind.REALTIME, Kind.PROCESS) if kind in chosen]
            names.add(base + (orders[0] if orders else ""))
    return names


def drawn(random: Random) -> Graph:
    count = random.randint(2, 6)
    began = [random.randint(0, 12) * 2 for _ in range(count)]
    ended = [NEVER if random.random() < 0.15 else one + 1 + 2 * random.randint(0, 5) for one in began]
    kinds = [Kind.WW, Kind.WR, Kind.RW][: random.randint(1, 3)]
    pairs = [(a, b) for a, b in product(range(count), range(count)) if a != b]
    if random.random() < 0.5:  # mostly forward in time
        pairs = [(a, b) for a, b in pairs if began[a] <= began[b] or random.random() < 0.1]
    edges = [(*random.choice(pairs), random.choice(kinds)) for _ in range(random.randint(0, 7)) if pairs]
    processes, last = [-1] * count, dict.fromkeys(range(3), -1)
    for at in sorted(range(count), key=began.__getitem__):  # a process does one thing after the other
        mine = random.randint(-1, 2)
        if mine >= 0 and last[mine] < began[at]:
            processes[at], last[mine] = mine, ended[at]
    return graph(edges, began, ended, processes)


def is_real(given: Graph, cycle: Cycle) -> bool:
    """Whether each edge is one of the graph, and begins where the one before ends."""
    edges = all_edges(given)
    return all(edge[:3] in edges for edge in cycle.edges) and all(
        one.target == other.source for one, other in pairwise([*cycle.edges, cycle.edges[0]])
    )


def test_all_that_is_found_is_there_and_what_says_most_is_found() -> None:
    with_cycles = 0
    for seed in range(600):
        given = drawn(Random(seed))
        found, expected = given.cycles(), names_by_enumeration(given)
        assert all(is_real(given, cycle) for cycle in found), seed
        assert {cycle.name for cycle in found} <= expected, seed
        strongest = [name for name in NAMES if name in expected][:1]
        assert [name for name in NAMES if name in {cycle.name for cycle in found}][:1] == strongest, seed
        with_cycles += bool(found)
    assert 100 < with_cycles < 550


def test_components_of_their_own_are_found_each() -> None:
    edges = [(a, b, Kind.WW) for a, b in ((0, 1), (1, 0), (2, 3), (3, 4), (4, 2), (4, 5))]
    found = graph(edges, [0] * 6, [NEVER] * 6, [-1] * 6).cycles()
    assert [(cycle.name, sorted(cycle.nodes)) for cycle in found] == [("G0", [0, 1]), ("G0", [2, 3, 4])]


def test_the_shortest_cycle_of_a_component_is_taken() -> None:
    ring = [(at, (at + 1) % 50, Kind.WW) for at in range(50)]
    (found,) = graph([*ring, (30, 29, Kind.WW)], [0] * 50, [NEVER] * 50, [-1] * 50).cycles()
    assert {*found.edges} == {Edge(29, 30, Kind.WW, 29), Edge(30, 29, Kind.WW, 50)}


def test_nothing_is_left_of_a_large_graph_that_goes_forward_in_time() -> None:
    count = 100_000
    began = np.arange(count) * 2
    source = np.arange(count - 1)
    kinds = np.full(count - 1, Kind.RW, np.int8)
    given = Graph(began, began + 3, np.full(count, -1), source, source + 1, kinds, source)
    assert given.cycles() == [] and not len(given._cut().source)
