"""What is found about transactions over keys: violations, and what orders them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from chaos.findings import Findings
from checkers._facts.arrays import NEVER
from checkers.isolation.graph import Edge, Graph, Kind
from checkers.isolation.promise import ALLOWED, LOST_UPDATE
from checkers.isolation.steps import Transactions, shown


class Found:
    """Collects it. ``forbidden``: the violations that the system's level of isolation rules out; others are counted.
    ``only_reads``: nothing but what was read orders transactions."""

    def __init__(self, given: Transactions, findings: Findings, forbidden: frozenset[str], *, only_reads: bool) -> None:
        self._given = given
        self._findings = findings
        self._forbidden = forbidden
        self._only_reads = only_reads
        self._edges: list[tuple[int, int, int]] = []
        self._shown_by: list[tuple[Hashable, Hashable]] = []

    def name(self, number: int) -> str:
        """Return what a transaction is called."""
        return f"transaction {self._given.every[number].name}"

    def add(self, name: str, text: str, *numbers: int) -> None:
        """Report what transactions show, in the order of the story."""
        if name in self._forbidden:
            self._findings.add(name, f"{text[0].upper()}{text[1:]}.", *self._rows(numbers))
        else:
            self._findings.count(f"allowed_{name}", 1)

    def edge(self, source: int, target: int, kind: Kind, key: Hashable, value: Hashable) -> None:
        """Note that a transaction comes before another one, since it did so with this value of this key; -1 for one
        that is not known, or was not committed."""
        committed = self._given.committed
        orders = kind is Kind.WR or not self._only_reads
        if orders and source != target and source in committed and target in committed:
            self._edges.append((source, target, int(kind)))
            self._shown_by.append((key, value))

    def gap(self, text: str) -> None:
        """Note that something can't be judged."""
        self._findings.gap(text)

    def lost_updates(self, key: Hashable, versions: Mapping[int, Hashable]) -> None:
        """Report what changed the same version of a key; ``versions``: what each transaction read before it changed
        it."""
        groups: dict[Hashable, list[int]] = {}
        for number, version in versions.items():
            groups.setdefault(version, []).append(number)
        for numbers in groups.values():
            if len(numbers) > 1:
                names = " and ".join(map(self.name, numbers[:2]))
                self.add(LOST_UPDATE, f"{names} changed the same version of key {shown(key)}", *numbers)

    def cycles(self) -> None:
        """Report the cycles that all this makes."""
        every = self._given.every
        edges = np.array(self._edges, dtype=np.int64).reshape(-1, 3)
        self._findings.count("transaction_edges", len(edges))
        committed = [number in self._given.committed for number in range(len(every))]
        process = np.array(
            [one.process if there else -1 for one, there in zip(every, committed, strict=True)], np.int64
        )
        began, ended = (np.array([getattr(one, name) for one in every], np.int64) for name in ("began", "ended"))
        source, target, kind = edges.T
        graph = Graph(began, ended, process, source, target, kind.astype(np.int8), np.arange(len(edges)))
        for cycle in graph.cycles():
            text = f"{cycle.name}: {'; '.join(map(self._clause, cycle.edges))}."
            allowed = cycle.name not in self._forbidden
            if allowed:
                self._findings.count(f"allowed_{cycle.name}", 1)
            if allowed and not cycle.sure:
                self._findings.gap("there are too many orders between transactions to tell which cycles they form")
            orders = cycle.orders(self.name, self._place)
            self._findings.add(ALLOWED if allowed else cycle.name, text, *self._rows(cycle.nodes), cycle=orders)

    def _clause(self, edge: Edge) -> str:
        one, two = self.name(edge.source), self.name(edge.target)
        if edge.kind is Kind.PROCESS:
            return f"{two} followed {one} in one process"
        if edge.kind is Kind.REALTIME:
            return f"{one} had ended before {two} began"
        key, value = map(shown, self._shown_by[edge.label])
        if edge.kind is Kind.WW:
            return f"{two} wrote {value} to key {key} behind what {one} had written"
        if edge.kind is Kind.WR:
            return f"{two} read {value} in key {key}, which {one} had written"
        return f"{one} read key {key} without {value}, which {two} wrote"

    def _place(self, edge: Edge) -> str:
        """Say which version of which key shows an order; "" of one that clients' moments show."""
        if edge.label < 0:
            return ""
        key, value = map(shown, self._shown_by[edge.label])
        return f"{value} in key {key}"

    def _rows(self, numbers: tuple[int, ...]) -> list[int]:
        rows = {row for number in numbers for row in (self._given.every[number].began, self._given.every[number].ended)}
        return sorted(rows - {NEVER})
