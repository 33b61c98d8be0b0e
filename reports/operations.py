"""What the pictures of a run need of its clients' operations, taken from some rows at a time, so that none are held.

Of each send that has ended a few numbers are kept, and some more of each message, as long as these are not too many;
then both are summarised. All other operations are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.history import History
from chaos.history.parted.choosing import coded
from reports.drawn import drawn_of
from reports.message_table import MessageTable, Parts
from reports.messages import Ints, Messages, small
from reports.send_summary import SendSummary

#: The columns that :meth:`Operations.add` needs.
COLUMNS = ("index", "time_ns", "op", "queue", "offset", "message", "kind", "type", "f", "process", "node")
#: Completions that are counted by the second.
BY_SECOND = (("send", "ok"), ("send", "fail"), ("send", "info"), ("pull", "ok"))
#: What clients ask of objects.
OF_OBJECTS = ("read", "write", "cas", "acquire", "release")
#: How the names of clients begin by which the harness asks whether there is service; they are no load.
PROBE = "probe."
#: So many sends that have ended are held.
HELD = 1 << 19

Numbers = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """All sends that have ended, in the order of recording: when, after how many ms (NaN where its beginning is
    unknown), whether it was acknowledged, to which queue, and by whom, as a number of ``clients``."""

    second: npt.NDArray[np.float64]
    latency_ms: npt.NDArray[np.float64]
    ok: npt.NDArray[np.bool_]
    queue: Numbers
    client: Numbers
    clients: Sequence[str]


class Operations:
    """``clock`` has all rows of the run but those of its operations, or these, too: it says when the load began and
    ended. Both rows of an operation are given to :meth:`add`, in any order; no row twice. ``manifests``: how many
    versions of manifests were written, where ``clock`` has not all rows of them."""

    def __init__(self, clock: History, manifests: int | None = None) -> None:
        self.clock = clock
        self.manifests = manifests
        #: How many operations ended so, by name and type; how many messages were delivered; the first of all ends.
        self.completed: Counter[tuple[str, str]] = Counter()
        self.delivered = 0
        self.first_s = 0.0
        #: Ends of the load, by name and type and by the whole second in which they came.
        counted = (*BY_SECOND, *((f, "ok") for f in OF_OBJECTS))
        self.by_second: dict[tuple[str, str], Counter[int]] = {name: Counter() for name in counted}
        self.load_end_s = min(clock.end_s, clock.phase_s("drain"))
        self.messages = Messages(self._table, clock.zero_ns)
        self.nodes: dict[str, int] = {}
        self._clients: dict[str, int] = {}
        self._names: list[str] = []
        #: Sends whose end is not known yet: index and time of their beginnings; and ends whose beginning is not.
        self._asked = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._waiting: dict[str, Numbers] = {}
        self._ended: dict[str, list[Numbers]] = {}
        self._summary: SendSummary | None = None

    @classmethod
    def of(cls, history: History) -> Operations:
        """Return those of a run whose rows are held."""
        made = cls(history)
        made.add(history.rows("op"))
        return made

    def add(self, rows: pa.Table) -> None:
        """Take some rows with :data:`COLUMNS`; those of operations count."""
        rows = rows.filter(pc.equal(rows["kind"], "op"))
        f, type_ = coded(rows, "f"), coded(rows, "type")
        ends = ~_is(f, "delivered") & ~_is(type_, "invoke") & (f[0] >= 0) & (type_[0] >= 0)
        self.delivered += int(np.count_nonzero(_is(f, "delivered")))
        self._count(rows, f, type_, np.flatnonzero(ends))
        sends = _is(f, "send")
        begun = np.flatnonzero(sends & _is(type_, "invoke"))
        self._pair(rows, begun, np.flatnonzero(sends & ends), _is(type_, "ok"))
        self._note(rows, sends, _is(f, "delivered"), type_)

    def _count(self, rows: pa.Table, f: _Coded, type_: _Coded, ends: Ints) -> None:
        second = self.clock.seconds(rows)[ends]
        self.first_s = min(self.first_s, float(second.min(initial=0.0)))
        of = f[0][ends].astype(np.int64) * len(type_[1]) + type_[0][ends]
        for code in np.unique(of).tolist():
            mine = second[of == code]
            name = (f[1][code // len(type_[1])], type_[1][code % len(type_[1])])
            self.completed[name] += len(mine)
            if name in self.by_second:
                whole, counts = np.unique(np.floor(mine[mine <= self.load_end_s]), return_counts=True)
                self.by_second[name].update(dict(zip(whole.astype(int).tolist(), counts.tolist(), strict=True)))

    def _pair(self, rows: pa.Table, begun: Ints, ended: Ints, ok: npt.NDArray[np.bool_]) -> None:
        """Find the beginning of each send that has ended. A row whose other one has not come yet is kept until then."""
        index, time_ns = rows["index"].to_numpy(), rows["time_ns"].to_numpy()
        asked, started = (np.append(held, new[begun]) for held, new in zip(self._asked, (index, time_ns), strict=True))
        order = np.argsort(asked, kind="stable")
        asked, started = asked[order], started[order]
        ends = {
            "op": rows["op"].to_numpy()[ended],
            "index": index[ended],
            "time_ns": time_ns[ended],
            "queue": rows["queue"].to_numpy()[ended],
            "client": self._coded_clients(rows)[ended],
            "ok": ok[ended],
        }
        ends = {name: np.append(self._waiting.get(name, new[:0]), new) for name, new in ends.items()}
        place = np.searchsorted(asked, ends["op"])
        known = np.append(asked, -1)[place] == ends["op"]
        known &= place < len(asked)
        self._end(ends, known, started[place[known]])
        self._waiting = {name: column[~known] for name, column in ends.items()}
        left = np.ones(len(asked), np.bool_)
        left[place[known]] = False
        self._asked = (asked[left], started[left])

    def _end(self, ends: dict[str, Numbers], chosen: Numbers, started: Ints | None) -> None:
        time_ns = ends["time_ns"][chosen]
        sends = {
            "index": ends["index"][chosen],
            "second": (time_ns - self.clock.zero_ns) / 1e9,
            "latency_ms": np.full(len(time_ns), np.nan) if started is None else (time_ns - started) / 1e6,
            "ok": ends["ok"][chosen],
            "queue": small(ends["queue"][chosen]),
            "client": small(ends["client"][chosen]),
        }
        for name, column in sends.items() if self._summary is None else ():
            self._ended.setdefault(name, []).append(column)
        if self._summary is not None:
            self._summary.add(sends)
        elif sum(map(len, self._ended["ok"])) > HELD:
            self._summary = SendSummary(self.clock, self._names)
            self._summary.add({name: np.concatenate(self._ended.pop(name)) for name in sends})

    def _coded_clients(self, rows: pa.Table) -> Ints:
        """Return each row's client, without the number of its life."""
        codes, texts = coded(rows, "process")
        return np.array([self._client(text.rpartition(".")[0] or text) for text in [*texts, ""]], np.int64)[codes]

    def _client(self, name: str) -> int:
        if name not in self._clients:
            self._clients[name] = len(self._names)
            self._names.append(name)
        return self._clients[name]

    @staticmethod
    def _loaded(rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Return which rows are of clients of workloads."""
        codes, texts = coded(rows, "process")
        found: npt.NDArray[np.bool_] = ~np.array([*(text.startswith(PROBE) for text in texts), False])[codes]
        return found

    def _note(self, rows: pa.Table, sends: Numbers, delivered: Numbers, type_: _Coded) -> None:
        """Note what becomes of messages."""
        loaded = sends & self._loaded(rows)
        message, time_ns = rows["message"].to_numpy(), rows["time_ns"].to_numpy()
        queue, offset = rows["queue"].to_numpy(), rows["offset"].to_numpy()
        chosen = {kind: np.flatnonzero(loaded & _is(type_, kind)) for kind in ("invoke", "ok", "info", "fail")}
        at = chosen["invoke"]
        self.messages.add("asked", message[at], queue=queue[at], time_ns=time_ns[at])
        at = chosen["ok"]
        nodes, names = coded(rows, "node")
        node = np.array([*(self.nodes.setdefault(name, len(self.nodes)) for name in names), -1], np.int64)[nodes]
        self.messages.add("ok", message[at], offset=offset[at], node=node[at])
        for kind in ("info", "fail"):
            self.messages.add(kind, message[chosen[kind]])
        final = np.flatnonzero(delivered & (self.clock.seconds(rows) >= self.clock.phase_s("drain")))
        self.messages.add("final", message[final])

    @property
    def nbytes(self) -> int:
        """How much memory sends and messages take."""
        held = [*self._asked, *self._waiting.values(), *(one for each in self._ended.values() for one in each)]
        summary = self._summary.nbytes if self._summary else 0
        return sum(one.nbytes for one in held) + summary + self.messages.nbytes

    def look_again(self, blocks: Callable[[], Iterable[pa.Table]]) -> None:
        """Where messages of a summarised run are missing, find which part of their queues they are from. ``blocks``:
        gives all rows again."""
        table = self.messages.table
        for learn in (table.bound, table.place) if table is not None and table.some_are_missing else ():
            for rows in blocks():
                at = np.flatnonzero(_is(coded(rows, "f"), "send") & _is(coded(rows, "type"), "ok") & self._loaded(rows))
                learn(rows["message"].to_numpy()[at], rows["offset"].to_numpy()[at])

    def _table(self) -> MessageTable:
        return MessageTable(Parts(*drawn_of(self.clock)), drained(self.clock))

    def sends(self) -> Sends | SendSummary:
        """Return the sends. Call it once, when all rows were given: what was held is given away."""
        if self._waiting:
            self._end(self._waiting, np.ones(len(self._waiting["ok"]), np.bool_), None)
            self._waiting = {}
        if self._summary is not None:
            return self._summary
        columns = {name: np.concatenate(self._ended.pop(name)) for name in [*self._ended]}
        index = columns.pop("index", np.empty(0, np.int64))
        if len(index) and not bool(np.all(index[1:] > index[:-1])):
            order = np.argsort(index, kind="stable")
            for name in columns:
                columns[name] = columns[name][order]
        empty = {name: np.empty(0) for name in ("second", "latency_ms", "queue", "client")}
        return Sends(**{**empty, "ok": np.empty(0, np.bool_), **columns}, clients=self._names)


#: A word of each row as a number, and the words.
_Coded = tuple[Numbers, list[str]]


def _is(column: _Coded, text: str) -> npt.NDArray[np.bool_]:
    codes, texts = column
    found: npt.NDArray[np.bool_] = codes == (texts.index(text) if text in texts else -2)
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
