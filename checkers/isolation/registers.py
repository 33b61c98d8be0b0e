"""Registers that transactions overwrite: what one read before it wrote is the older version."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from checkers.isolation.evidence import Found
from checkers.isolation.graph import Kind
from checkers.isolation.promise import CYCLIC_VERSIONS, G1A, G1B, INTERNAL, UNWRITTEN
from checkers.isolation.steps import Json, Step, Transactions, Txn, shown

#: What a register holds before all writes.
FIRST = Json("null")


@dataclass(slots=True)
class _Key:
    """What was read of a key by committed transactions, before their own writes; who wrote after it; and which values
    are known to have followed one another."""

    reads: dict[int, Hashable] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    follows: list[tuple[Hashable, Hashable]] = field(default_factory=list)


def examine(given: Transactions, keys: set[Hashable], found: Found) -> None:
    """Find what registers show."""
    known: dict[Hashable, _Key] = {key: _Key() for key in keys}
    for number, txn in enumerate(given.every):
        if number in given.committed:
            _steps(number, txn, known, found)
    for key in sorted(known, key=repr):
        _sources(given, key, known[key], found)
        same = {number: value for number, value in known[key].reads.items() if number in known[key].changed}
        found.lost_updates(key, same)
        _order(given, key, known[key], found)


def _steps(number: int, txn: Txn, known: Mapping[Hashable, _Key], found: Found) -> None:
    """Take what a transaction read first, and in which order it changed what."""
    now: dict[Hashable, Hashable] = {}
    for step, key, value in txn.steps:
        if key not in known or (step is Step.READ and not txn.ok):
            continue
        if isinstance(value, tuple):
            found.gap(f"{found.name(number)} read a list in key {shown(key)}, which is a register")
            continue
        value = FIRST if value is None else value
        if step is not Step.READ:
            if key in now:
                known[key].follows.append((now[key], value))
            if number in known[key].reads:
                known[key].changed.add(number)
        elif key not in now:
            known[key].reads[number] = value
        elif now[key] != value:
            found.add(INTERNAL, f"{found.name(number)} read key {shown(key)} otherwise than it knew it", number)
            continue
        now[key] = value


def _sources(given: Transactions, key: Hashable, of: _Key, found: Found) -> None:
    """Check that what was read was written, in the end, by transactions that were committed."""
    for number, value in of.reads.items():
        write = given.writes.get(key, {}).get(value)
        text = f"{found.name(number)} read {shown(value)} in key {shown(key)}"
        if write is None:
            if value != FIRST:
                found.add(UNWRITTEN, f"{text}, which no transaction wrote", number)
        elif given.is_failed(write.txn):
            found.add(G1A, f"{text}, which {found.name(write.txn)} wrote, and that was aborted", write.txn, number)
        elif write.txn == number:
            found.add(INTERNAL, f"{text}, which it wrote only later", number)
        elif not write.final:
            found.add(G1B, f"{text}, which {found.name(write.txn)} overwrote itself", write.txn, number)


def _order(given: Transactions, key: Hashable, of: _Key, found: Found) -> None:
    """Order transactions by the versions of a key, as far as these are ordered: the first one is older than all."""
    writes = {value: one.txn for value, one in given.writes.get(key, {}).items() if one.txn in given.committed}
    readers: dict[Hashable, list[int]] = {}
    for number, value in of.reads.items():
        readers.setdefault(value, []).append(number)
        found.edge(writes.get(value, -1), number, Kind.WR, key, value)
    import networkx as nx  # executors of a cluster without such histories need not have it

    versions = nx.DiGraph()
    versions.add_nodes_from(writes)
    once = {FIRST, *(value for value, one in given.writes.get(key, {}).items() if one.txn >= 0)}
    versions.add_edges_from(pair for pair in of.follows if once.issuperset(pair) and pair[0] != pair[1])
    versions.add_edges_from([(FIRST, value) for value in writes if not versions.in_degree(value)])
    if not nx.is_directed_acyclic_graph(versions):
        values = [value for value, _ in nx.find_cycle(versions)]
        text = f"The versions of key {shown(key)} follow one another in a circle: {', '.join(map(shown, values))}"
        found.add(CYCLIC_VERSIONS, text, *(writes[value] for value in values if value in writes))
        return
    for one, other in versions.edges:
        found.edge(writes.get(one, -1), writes.get(other, -1), Kind.WW, key, other)
        for number in readers.get(one, ()):
            found.edge(number, writes.get(other, -1), Kind.RW, key, other)
