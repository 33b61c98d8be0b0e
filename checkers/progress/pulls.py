"""What readers asked of queues, and what they were given and answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import Flags, Ints


@dataclass(frozen=True, slots=True)
class Pulls:
    """Pulls that asked for an offset. ``number``: their places in :func:`checkers._facts.pulls`. ``asked`` is the
    offset that they asked for, ``following`` the one to go on with, ``maximum`` and ``minimum`` the queue's ends, as
    answered (-1: not named); ``count`` messages came, the last of them at ``last``. ``by_master``: the master of the
    epoch that the answer names gave it. ``replica``: the one that was asked, "" for the master.
    ``demand``: what source was asked for, ``source`` the one that was answered from. ``wait_ms``: for how long the read
    might be held, -1 for one that might not."""

    number: Ints
    invoke: Ints
    done: Ints
    began: Ints
    ok: Flags
    failed: Flags
    queue: Ints
    asked: Ints
    following: Ints
    minimum: Ints
    maximum: Ints
    epoch: Ints
    count: Ints
    last: Ints
    by_master: Flags
    replica: np.ndarray
    demand: np.ndarray
    source: np.ndarray
    wait_ms: Ints

    @classmethod
    def of(cls, rows: Rows) -> Pulls:
        calls, read = rows.memo(facts.pulls), rows.memo(facts.delivered)
        offset, answered = rows.column("offset"), calls.done >= 0
        known = read.pull >= 0
        count = np.bincount(read.pull[known], minlength=len(calls.invoke)).astype(np.int64)
        last = np.full(len(calls.invoke), -1, dtype=np.int64)
        np.maximum.at(last, read.pull[known], offset[read.at[known]])
        by_master = np.zeros(len(calls.invoke), dtype=np.bool_)
        by_master[answered] = facts.from_masters(rows, calls.done[answered])
        made = cls(
            number=np.arange(len(calls.invoke)),
            invoke=calls.invoke,
            done=calls.done,
            began=calls.began,
            ok=calls.ok,
            failed=calls.failed,
            queue=rows.column("queue")[calls.invoke],
            asked=offset[calls.invoke],
            following=_answer_numbers(rows, "following", calls.done),
            minimum=_answer_numbers(rows, "minimum", calls.done),
            maximum=_answer_numbers(rows, "maximum", calls.done),
            epoch=np.where(answered, rows.column("epoch")[calls.done], -1),
            count=count,
            last=last,
            by_master=by_master,
            replica=_words(rows, "from", calls.invoke),
            demand=_words(rows, "demand", calls.invoke),
            source=_answer_words(rows, "source", calls.done),
            wait_ms=rows.numbers("wait_ms", calls.invoke),
        )
        return made.only(made.asked >= 0)

    @property
    def due(self) -> Ints:
        """The offset to go on with: the one behind what was given, or the one that was asked for."""
        return np.where(self.count > 0, self.last + 1, self.asked)

    @property
    def answered(self) -> Flags:
        return self.ok | self.failed

    @property
    def sent_to_local(self) -> Flags:
        """Which answers to who demanded what is local gave nothing, and sent the reader on."""
        sent: Flags = (self.demand == "local") & (self.count == 0) & (self.following > self.asked)
        return sent

    @property
    def of_master(self) -> Flags:
        """Which of them asked for no certain replica."""
        asked: Flags = self.replica == ""
        return asked

    def only(self, keep: Flags) -> Pulls:
        return Pulls(*(getattr(self, name)[keep] for name in self.__slots__))


def ask_masters(rows: Rows, calls: facts.Calls) -> Flags:
    """Return which pulls asked for an offset, and for no certain replica."""
    asked: Flags = rows.column("offset")[calls.invoke] >= 0
    return asked & (_words(rows, "from", calls.invoke) == "")


def _words(rows: Rows, key: str, at: Ints) -> np.ndarray:
    """Return the text under this key of each row, "" where there is none."""
    code, words = rows.labels(key, at)
    return np.array(words, dtype=np.str_)[code]


def _answer_numbers(rows: Rows, key: str, done: Ints) -> Ints:
    """Return a number of each answer, -1 where there is none or no answer."""
    found = np.full(len(done), -1, dtype=np.int64)
    found[done >= 0] = rows.numbers(key, done[done >= 0])
    return found


def _answer_words(rows: Rows, key: str, done: Ints) -> np.ndarray:
    """Return a text of each answer, "" where there is none or no answer."""
    answered = np.flatnonzero(done >= 0)
    code, words = rows.labels(key, done[answered])
    found = np.zeros(len(done), dtype=np.array(["", *words], dtype=np.str_).dtype)
    found[answered] = np.array([*words, ""], dtype=np.str_)[code]
    return found


def readers(rows: Rows, at: Ints) -> tuple[Sequence[str], Ints]:
    """Who asks, as people call it: a group, or the final reading that a workload does; "" for others. Returns the
    names, ascending, and the place of each row's."""
    group, groups = rows.labels("group", at)
    by, ways = rows.labels("by", at)
    called = [
        f"group {name}" if name else f"the final reading by {way}" if way else "" for name in groups for way in ways
    ]
    return _places(called, group * len(ways) + by)


def processes(rows: Rows, at: Ints) -> tuple[Sequence[str], Ints]:
    """As :func:`_readers`, of readers of the tier alone. A process that was left without an answer goes on under the
    next number, as the same reader."""
    _, first, place = np.unique(rows.column("process")[at], return_index=True, return_inverse=True)
    called = [rows.text("process", int(at[one])).partition(".")[0] for one in first.tolist()]
    return _places([f"the reader {name} of the tier alone" for name in called], place)


def _places(called: Sequence[str], code: Ints) -> tuple[Sequence[str], Ints]:
    names = sorted({*called})
    return names, np.array([names.index(name) for name in called], dtype=np.int64)[code]
