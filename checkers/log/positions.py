"""Who reads, and when a reader is sent elsewhere: what it was given before says nothing of what it is to be given
then."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import Flags, Ints, first_in
from checkers.log.rows import Given

#: What sends readers elsewhere.
MOVES = ("assign", "seek", "join", "leave")
#: An offset to read on from that nobody knows.
UNKNOWN = -1
_STEP = re.compile(r"-[0-9]+$")


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of a shard. ``of_code``: for each code of a process the number of its reader, -1 for none."""

    names: tuple[str, ...]
    of_code: Mapping[int, int]
    members: frozenset[int]

    @classmethod
    def of(cls, rows: Rows) -> Readers:
        """A reader goes on under another number after an operation of unknown outcome, and steps of transactions have a
        process each, named for that of the transaction."""
        given = rows.memo(Given.of)
        polls = given.only(given.is_poll)
        moves = [np.append(facts.calls(rows, f).invoke, facts.calls(rows, f).done) for f in MOVES]
        at = np.concatenate([polls.at, *moves])
        at = at[at >= 0]
        named = {code: _name(rows.text("process", one)) for code, one in _one_of_each(rows, at)}
        whole = facts.calls(rows, "txn").invoke
        known = {_name(rows.text("process", one)) for _, one in _one_of_each(rows, whole)}
        called = {code: stem if (stem := _STEP.sub("", name)) in known else name for code, name in named.items()}
        names = tuple(sorted({*called.values()}))
        of_code = {code: names.index(name) for code, name in called.items()}
        joins = facts.calls(rows, "join").invoke
        return cls(names, of_code, frozenset(of_code[code] for code, _ in _one_of_each(rows, joins)))

    def at(self, rows: Rows, at: Ints) -> Ints:
        """Return the reader of each of these rows."""
        table = np.full(max(self.of_code, default=-1) + 2, -1, dtype=np.int64)
        table[[*self.of_code]] = [*self.of_code.values()]
        found: Ints = table[np.minimum(rows.column("process")[at], len(table) - 1)]
        return found

    def are_members(self, reader: Ints) -> Flags:
        """Return which of these are members of groups."""
        return np.isin(reader, np.array(sorted(self.members), dtype=np.int64))


def _name(process: str) -> str:
    return process.rpartition(".")[0] or process


def _one_of_each(rows: Rows, at: Ints) -> Iterator[tuple[int, int]]:
    code = rows.column("process")[at]
    first = first_in(code, int(code.max(initial=-1)) + 1, at)
    yield from ((code, int(first[code])) for code in np.flatnonzero(first >= 0).tolist())


@dataclass(frozen=True, slots=True)
class Moves:
    """Rows at which a reader goes on from another offset of a queue: ``following``, or :data:`UNKNOWN`."""

    at: Ints
    reader: Ints
    queue: Ints
    following: Ints

    @classmethod
    def of(cls, rows: Rows) -> Moves:
        given, readers = rows.memo(Given.of), rows.memo(Readers.of)
        polls = given.only(given.is_poll)
        pairs = np.unique(np.stack([readers.at(rows, polls.at), polls.queue]), axis=1)
        known: dict[int, set[int]] = {}
        for reader, queue in pairs.T.tolist():
            known.setdefault(reader, set()).add(queue)
        walk = _Walk(rows, readers, known)
        every = [(int(one), f, number) for f in MOVES for number, one in enumerate(facts.calls(rows, f).invoke)]
        for asked, f, number in sorted(every):
            walk.move(f, number, asked)
        return cls(*np.array(walk.found, dtype=np.int64).reshape(-1, 4).T)


@dataclass(slots=True)
class _Walk:
    """Follows what readers own. ``known``: the queues that each of them was given messages of."""

    rows: Rows
    readers: Readers
    known: Mapping[int, set[int]]
    owned: dict[int, set[int]] = field(default_factory=dict)
    process: dict[int, str] = field(default_factory=dict)
    found: list[tuple[int, int, int, int]] = field(default_factory=list)

    def move(self, f: str, number: int, asked: int) -> None:
        """Take one operation, unless it surely had no effect."""
        calls = facts.calls(self.rows, f)
        if calls.failed[number]:
            return
        at = int(calls.done[number]) if calls.done[number] >= 0 else asked
        reader = int(self.readers.at(self.rows, np.array([asked]))[0])
        value = self.rows.value(at)
        following = _offsets(value.get("following")) if calls.ok[number] else {}
        if f == "seek":
            queue, offset = int(self.rows.column("queue")[asked]), int(self.rows.column("offset")[at])
            to = offset if calls.ok[number] and offset >= 0 else following.get(queue, UNKNOWN)
            self._send(at, reader, {queue: to})
        elif f == "assign":
            self._assign(at, reader, _queues(value.get("queues")), following)
        else:
            mine = _queues(value.get("queues")) if f == "join" and calls.ok[number] else set()
            self._send(at, reader, dict.fromkeys(self.known.get(reader, ()), UNKNOWN))
            self._send(at, reader, {queue: following.get(queue, UNKNOWN) for queue in mine})

    def _assign(self, at: int, reader: int, queues: set[int], following: Mapping[int, int]) -> None:
        """What a reader owned before, it goes on with; unless it is another process, which may be another client."""
        process = self.rows.text("process", at)
        before = self.owned.get(reader)
        if before is None or self.process[reader] != process:
            begun = {queue: following[queue] for queue in queues if queue in following}
        else:
            begun = {queue: following.get(queue, UNKNOWN) for queue in queues - before}
        lost = self.known.get(reader, set()) - queues
        self._send(at, reader, {**dict.fromkeys(lost, UNKNOWN), **begun})
        self.owned[reader], self.process[reader] = queues, process

    def _send(self, at: int, reader: int, to: Mapping[int, int]) -> None:
        self.found += [(at, reader, queue, offset) for queue, offset in sorted(to.items())]


def _offsets(value: Any) -> dict[int, int]:
    """Return offsets by queue, as a row names them; nothing of what is none."""
    if not isinstance(value, dict):
        return {}
    return {int(queue): to for queue, to in value.items() if queue.isdigit() and isinstance(to, int)}


def _queues(value: Any) -> set[int]:
    return {queue for queue in value if isinstance(queue, int)} if isinstance(value, list) else set()
