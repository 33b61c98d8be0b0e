"""What the pictures of a run need of its clients' operations: counts, and the sends that have ended.

Of a large run it is made of some operations at a time, in any process, and put together: then sends are summarised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.history import History
from chaos.history.parted.choosing import coded
from chaos.ops import DELIVERED, OpType
from reports.send_summary import Sends, SendSummary

#: Completions that are counted by the second.
BY_SECOND = (("send", "ok"), ("send", "fail"), ("send", "info"), ("pull", "ok"))
#: What puts a message in, where clients see offsets and where they don't.
WRITES = ("send", "enqueue", "put")
#: What clients ask of objects.
OF_OBJECTS = ("read", "write", "cas", "acquire", "release")
#: The columns of :func:`ends_of`.
END_COLUMNS = ("time_ns", "began_ns", "queue", "type", "f", "process")

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: A word of each row as a number, and the words.
_Coded = tuple[npt.NDArray[Any], list[str]]


@dataclass(kw_only=True)
class Operations:
    """``completed``: how many operations ended so, by name and type; ``by_second``: ends of the load, by name and type
    and by the whole second in which they came; ``first_s``: when the first of all ends came, 0 where that was later.
    ``delivered``: how many messages readers were given; ``manifests``: how many versions of manifests were written,
    where that is not counted in the rows that are drawn."""

    load_end_s: float
    completed: Counter[tuple[str, str]]
    by_second: dict[tuple[str, str], Counter[int]]
    first_s: float
    sends: Sends | SendSummary
    delivered: int = 0
    manifests: int | None = None

    @classmethod
    def of(cls, history: History) -> Operations:
        """Return those of a run whose rows are held."""
        rows = history.rows("op")
        made = cls.of_ends(ends_of(rows), history)
        made.delivered = int(np.count_nonzero(is_word(coded(rows, "f"), DELIVERED)))
        return made

    @classmethod
    def of_ends(cls, ends: pa.Table, clock: History) -> Operations:
        """Return what some rows of :func:`ends_of` come to. ``clock`` says when the load began and ended."""
        second, f, type_ = clock.seconds(ends), coded(ends, "f"), coded(ends, "type")
        load_end_s = min(clock.end_s, clock.phase_s("drain"))
        counted = (*BY_SECOND, *((name, "ok") for name in OF_OBJECTS))
        by_second: dict[tuple[str, str], Counter[int]] = {name: Counter() for name in counted}
        completed: Counter[tuple[str, str]] = Counter()
        of = f[0].astype(np.int64) * len(type_[1]) + type_[0]
        for code in np.unique(of).tolist():
            mine = second[of == code]
            name = (f[1][code // len(type_[1])], type_[1][code % len(type_[1])])
            completed[name] += len(mine)
            shown = ("send", name[1]) if name[0] in WRITES else name
            if shown in by_second:
                whole, counts = np.unique(np.floor(mine[mine <= load_end_s]), return_counts=True)
                by_second[shown].update(dict(zip(whole.astype(int).tolist(), counts.tolist(), strict=True)))
        return cls(
            load_end_s=load_end_s,
            completed=completed,
            by_second=by_second,
            first_s=float(second.min(initial=0.0)),
            sends=_sends(ends, second, _any_of(f, WRITES), is_word(type_, str(OpType.OK))),
        )

    def merge(self, other: Operations) -> None:
        """Take others of the same run, whose sends are summarised too."""
        assert isinstance(self.sends, SendSummary) and isinstance(other.sends, SendSummary)
        self.completed.update(other.completed)
        for name, counts in other.by_second.items():
            self.by_second[name].update(counts)
        self.first_s = min(self.first_s, other.first_s)
        self.delivered += other.delivered
        self.sends.merge(other.sends)


def ends_of(rows: pa.Table) -> pa.Table:
    """Return of the rows of operations those that end one, with :data:`END_COLUMNS`."""
    f, type_ = coded(rows, "f"), coded(rows, "type")
    ends = ~is_word(f, DELIVERED) & ~is_word(type_, str(OpType.INVOKE)) & (f[0] >= 0) & (type_[0] >= 0)
    return rows.select(END_COLUMNS).take(pa.array(np.flatnonzero(ends)))


def _sends(ends: pa.Table, second: npt.NDArray[np.float64], sends: Flags, ok: Flags) -> Sends:
    at = np.flatnonzero(sends)
    time_ns, began_ns = (ends[name].to_numpy()[at] for name in ("time_ns", "began_ns"))
    clients, names = _clients(ends)
    return Sends(
        second=second[at],
        latency_ms=np.where(began_ns == -1, np.nan, (time_ns - began_ns) / 1e6),
        ok=ok[at],
        queue=ends["queue"].to_numpy()[at],
        client=clients[at],
        clients=names,
    )


def _clients(rows: pa.Table) -> tuple[Ints, Sequence[str]]:
    """Return each row's client as a number, without that of its life, and the names of all."""
    codes, texts = coded(rows, "process")
    names: dict[str, int] = {}
    of = [names.setdefault(text.rpartition(".")[0] or text, len(names)) for text in [*texts, ""]]
    return np.array(of, np.int64)[codes], [*names]


def is_word(column: _Coded, text: str) -> Flags:
    """Return which rows have this word."""
    codes, texts = column
    found: Flags = codes == (texts.index(text) if text in texts else -2)
    return found


def _any_of(column: _Coded, texts: Sequence[str]) -> Flags:
    found: Flags = np.logical_or.reduce([is_word(column, text) for text in texts])
    return found


def _of_type(table: pa.Table, type: str) -> pa.Table:
    return table.filter(pc.equal(table["type"], type))


def drained(history: History) -> tuple[Ints, Ints]:
    """Return the queues that were read to their end, sorted, and for each the lowest offset where that began."""
    drains = history.rows("op", "drain")
    ended = set(_of_type(drains, "ok")["op"].to_pylist())
    begun = _of_type(drains, "invoke")
    begun = begun.filter(pc.is_in(begun["index"], pa.array(sorted(ended), pa.int64())))
    queue, offset = begun["queue"].to_numpy(), begun["offset"].to_numpy()
    up = np.argsort(offset, kind="stable")
    queues, first = np.unique(queue[up], return_index=True)
    return queues, offset[up][first]
