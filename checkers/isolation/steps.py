"""Transactions over keys as clients recorded them: what each of them did, step by step, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import NEVER, Ints
from checkers.isolation.promise import LEVELS, LOG, STRICT

#: So much of a key or a value is shown.
SHOWN = 40


class Step(StrEnum):
    """What a step of a transaction does to its key."""

    APPEND = "append"
    WRITE = "w"
    READ = "r"


@dataclass(frozen=True, slots=True)
class Json:
    """A key or a value that is neither a text nor a whole number."""

    text: str


class Micro(NamedTuple):
    """One step. ``value``: what is appended, written, or was read; a list is a tuple."""

    step: Step
    key: Hashable
    value: Any


@dataclass(frozen=True, slots=True)
class Txn:
    """A transaction that was committed (``ok``), surely not (``failed``), or nobody knows; ``number`` counts those that
    are in the graph, -1 for one that is not."""

    name: str
    began: int
    ended: int
    process: int
    ok: bool
    failed: bool
    steps: tuple[Micro, ...]


class Write(NamedTuple):
    """Who wrote a value to a key, -1 for several; and whether the same transaction wrote no other one there
    afterwards."""

    txn: int
    final: bool


@dataclass(slots=True)
class Transactions:
    """All of a run. ``writes``: who wrote each value of each key; ``committed``: those that were, as their end or a
    read says."""

    every: list[Txn]
    levels: set[str] = field(default_factory=set)
    writes: dict[Hashable, dict[Hashable, Write]] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)

    def is_failed(self, number: int) -> bool:
        """Return whether a transaction was surely not committed."""
        return number >= 0 and self.every[number].failed


def of_keys(rows: Rows) -> Ints:
    """Keep the transactions over keys: those whose steps are recorded with them. A sieve."""
    return facts.rows_of(rows, "txn", rows.memo(_with_steps))


def _with_steps(rows: Rows) -> Ints:
    """Return which of the transactions, by number, are over keys."""
    forms = rows.forms(facts.calls(rows, "txn").invoke)
    return np.sort(np.concatenate([np.empty(0, np.int64), *(one.at for one in forms if "micro" in one.value)]))


def transactions(rows: Rows, found: Findings) -> Transactions:
    """Return the transactions over keys. What is recorded otherwise than it should be is a gap."""
    calls, given = facts.calls(rows, "txn"), Transactions([])
    index, process = rows.column("index"), rows.column("process")
    for number in rows.memo(_with_steps).tolist():
        at, done, ok = int(calls.invoke[number]), int(calls.done[number]), bool(calls.ok[number])
        asked = rows.value(at)
        steps = _steps(rows.value(done) if ok else asked)
        if steps is None:
            found.gap(f"the steps of the transaction in row {int(index[at])} are not recorded as such")
            continue
        given.levels.add(str(asked.get("isolation", LOG if asked.get("id") else STRICT)))
        name = str(asked["txn"]) if isinstance(asked.get("txn"), int) else f"in row {int(index[at])}"
        failed = bool(calls.failed[number])
        ended = int(index[done]) if ok else NEVER
        given.every.append(Txn(name, int(index[at]), ended, int(process[at]), ok, failed, steps))
    _note_writes(given, found)
    return given


def _steps(value: Mapping[str, Any]) -> tuple[Micro, ...] | None:
    micro = value.get("micro")
    return tuple(map(_step, micro)) if isinstance(micro, list) and all(map(_is_step, micro)) else None


def _is_step(one: Any) -> bool:
    """Return whether this is a step. What is written is not null: that is the value of a key before all writes."""
    is_step: bool = isinstance(one, list) and len(one) == 3 and one[0] in [*Step]
    return is_step and (one[0] == Step.READ or one[2] is not None)


def _step(one: Sequence[Any]) -> Micro:
    step, key, value = Step(one[0]), plain(one[1]), one[2]
    return Micro(step, key, tuple(map(plain, value)) if step is Step.READ and isinstance(value, list) else plain(value))


def plain(value: object) -> Hashable:
    """Return what stands for a JSON value in tables: equal ones are equal there, and no others."""
    if value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return Json(json.dumps(value, sort_keys=True))


def shown(value: object) -> str:
    """Return a key or a value for people."""
    text = value.text if isinstance(value, Json) else json.dumps(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _note_writes(given: Transactions, found: Findings) -> None:
    """Note who wrote what, and who was committed: one whose end nobody knows was, if somebody read what it wrote."""
    twice: set[tuple[Hashable, Hashable]] = set()
    for number, txn in enumerate(given.every):
        last = {one.key: place for place, one in enumerate(txn.steps) if one.step is not Step.READ}
        for place, (step, key, value) in enumerate(txn.steps):
            if step is Step.READ:
                continue
            if value in given.writes.setdefault(key, {}):
                twice.add((key, value))
            given.writes[key][value] = Write(number, last[key] == place)
    for key, value in sorted(twice, key=repr):
        found.gap(f"{shown(value)} was written to key {shown(key)} twice, so that nothing says which of them was read")
        given.writes[key][value] = Write(-1, True)
    read = {write.txn for key, value in _read(given) if (write := given.writes.get(key, {}).get(value)) is not None}
    given.committed = {n for n, txn in enumerate(given.every) if txn.ok or (n in read and not txn.failed)}


def _read(given: Transactions) -> Iterator[tuple[Hashable, Hashable]]:
    for txn in given.every:
        for step, key, value in txn.steps if txn.ok else ():
            if step is Step.READ:
                yield from ((key, one) for one in (value if isinstance(value, tuple) else (value,)))


def levels(given: Transactions, found: Findings) -> frozenset[str]:
    """Return the violations that the promised level of isolation rules out; of several levels, those of all."""
    for name in sorted(given.levels - LEVELS.keys()):
        found.gap(f"there is no level of isolation {shown(name)}; known: {', '.join(LEVELS)}")
    if len(given.levels) > 1:
        found.gap(
            f"transactions are promised several levels of isolation: {', '.join(sorted(map(shown, given.levels)))}"
        )
    known = [LEVELS[name] for name in given.levels & LEVELS.keys()] or [*LEVELS.values()]
    return frozenset.intersection(*known)
