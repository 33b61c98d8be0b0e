"""Lists to which transactions append: each list that was read shows the order of the versions that it had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checkers.isolation.evidence import Found
from checkers.isolation.graph import Kind
from checkers.isolation.promise import DUPLICATE_ELEMENTS, G1A, G1B, INCOMPATIBLE_ORDER, INTERNAL, UNWRITTEN
from checkers.isolation.steps import Step, Transactions, Txn, Write, shown

List = tuple[Hashable, ...]


@dataclass(slots=True)
class _Key:
    """What was read of a key by committed transactions, before their own appends; and who appended after it."""

    reads: dict[int, List] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)


def examine(given: Transactions, keys: set[Hashable], found: Found) -> None:
    """Find what lists show."""
    known: dict[Hashable, _Key] = {key: _Key() for key in keys}
    for number, txn in enumerate(given.every):
        if txn.ok:
            _reads(number, txn, known, found)
    for key in sorted(known, key=repr):
        _examine_key(given, key, known[key], found)


def _reads(number: int, txn: Txn, known: Mapping[Hashable, _Key], found: Found) -> None:
    """Take what a transaction read, without what it appended itself, which must be there."""
    own: dict[Hashable, List] = {}
    for step, key, value in txn.steps:
        if key not in known:
            continue
        mine, reads = own.get(key, ()), known[key].reads
        if step is not Step.READ:
            own[key] = (*mine, value)
            if number in reads:
                known[key].changed.add(number)
            continue
        if not isinstance(value, tuple) and value is not None:
            found.gap(f"{found.name(number)} read {shown(value)} in key {shown(key)}, which is no list")
            continue
        seen: List = value or ()
        begin = len(seen) - len(mine)
        if begin < 0 or seen[begin:] != mine or reads.get(number, seen[:begin]) != seen[:begin]:
            found.add(INTERNAL, f"{found.name(number)} read key {shown(key)} otherwise than it knew it", number)
        else:
            reads[number] = seen[:begin]


def _examine_key(given: Transactions, key: Hashable, of: _Key, found: Found) -> None:
    writes = given.writes.get(key, {})
    good: dict[int, List] = {}
    for number, seen in of.reads.items():
        twice = [value for value, times in Counter(seen).items() if times > 1]
        if any(value not in writes or writes[value].txn >= 0 for value in twice):
            found.add(DUPLICATE_ELEMENTS, f"{found.name(number)} read elements of key {shown(key)} twice", number)
        elif any(value in writes and writes[value].txn == number for value in seen):
            found.add(INTERNAL, f"{found.name(number)} read in key {shown(key)} what it appended only later", number)
        elif not twice:
            good[number] = seen
    order = max(good.values(), key=len, default=())
    longest = next((number for number, seen in good.items() if seen == order), -1)
    for number in [number for number, seen in good.items() if order[: len(seen)] != seen]:
        text = f"{found.name(number)} and {found.name(longest)} read key {shown(key)} in orders that differ"
        found.add(INCOMPATIBLE_ORDER, text, longest, number)
        _sources(given, key, number, good.pop(number), found)
    _sources(given, key, longest, order, found)
    _intermediate(key, good, writes, found)
    found.lost_updates(key, {number: len(seen) for number, seen in good.items() if number in of.changed})
    _order(given, key, order, good, found)


def _sources(given: Transactions, key: Hashable, number: int, seen: List, found: Found) -> None:
    """Check that what was read was written by transactions that were committed."""
    for value in seen:
        write = given.writes.get(key, {}).get(value)
        if write is None:
            text = f"{found.name(number)} read {shown(value)} in key {shown(key)}, which no transaction wrote"
            found.add(UNWRITTEN, text, number)
        elif given.is_failed(write.txn):
            text = f"{found.name(number)} read {shown(value)} in key {shown(key)}, which {found.name(write.txn)} wrote"
            found.add(G1A, f"{text}, and that was aborted", write.txn, number)


def _intermediate(key: Hashable, reads: Mapping[int, List], writes: Mapping[Hashable, Write], found: Found) -> None:
    for number, seen in reads.items():
        write = writes.get(seen[-1]) if seen else None
        if write is not None and not write.final and write.txn != number:
            text = f"{found.name(number)} read key {shown(key)} up to {shown(seen[-1])}, in the midst of"
            found.add(G1B, f"{text} what {found.name(write.txn)} appended", write.txn, number)


def _order(given: Transactions, key: Hashable, order: List, reads: Mapping[int, List], found: Found) -> None:
    """Order transactions by the versions of a key: what they appended, and how much of it they read. What a committed
    one appended and no list shows stands behind all of them."""
    writes = given.writes.get(key, {})
    shown_by = [writes[value].txn if value in writes else -1 for value in order]
    hidden = [*_hidden(given, writes, order)]
    for place, one in enumerate(shown_by):
        after = [(shown_by[place + 1], order[place + 1])] if place + 1 < len(order) else hidden
        for other, value in after:
            found.edge(one, other, Kind.WW, key, value)
    for number, seen in reads.items():
        if seen:
            found.edge(shown_by[len(seen) - 1], number, Kind.WR, key, seen[-1])
        missed: Sequence[tuple[int, Hashable]] = hidden
        if len(seen) < len(order):
            missed = [(shown_by[len(seen)], order[len(seen)])]
        for other, value in missed:
            found.edge(number, other, Kind.RW, key, value)


def _hidden(given: Transactions, writes: Mapping[Hashable, Write], order: List) -> Iterator[tuple[int, Hashable]]:
    known = {*order}
    for value, write in writes.items():
        if value not in known and write.txn in given.committed:
            yield write.txn, value
