"""Histories of clients with planted anomalies, as run directories of any size: every row is computed, none is run.

A producer's message ``i`` of a queue stands at offset ``i``. Consumers pull 32 messages at a time and commit; at the
end each queue is drained. Each planted anomaly has a batch of 32 offsets for itself, so that none hides another.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.laws.blocks import block, joined, table_of
from benchmarks.longer.rows import Stream
from chaos.driver import Evidence
from chaos.history import manifest
from chaos.history.columns import COLUMNS, INTEGERS, VALUE, WORDS
from chaos.history.directory import write_meta
from chaos.history.format import FORMAT
from chaos.history.pieces import Piece, StreamPiece, pieces
from chaos.history.stream import SCHEMA
from chaos.ops import message_id

Ints = npt.NDArray[np.int64]

BATCH = 32
#: How many queues a history has, if it is not so small that each has fewer messages than a queue must.
QUEUES = 64
#: A queue has at least so many messages: each anomaly needs a batch of its own.
LEAST = 1 << 13
PRODUCERS = 8
#: Time units between two sends to one queue; and after which the drains begin, whatever the size of the history.
STEP, DRAIN = 100, 1 << 50
GROUP = json.dumps({"group": "g", "limit": BATCH}, separators=(",", ":"))
PROVER = json.dumps({"by": "queue"}, separators=(",", ":"))
#: What rivals read.
READ = ("index", "op", "queue", "offset", "message", "hash", "kind", "f", "type", VALUE)
#: Kinds of history: one planted anomaly of each kind for so many messages.
RATES = {"plain": 100_000, "violations": 2_000, "skewed": 100_000}
#: So many rows are written together.
SLICE_ROWS = 1 << 18
META = {"tells": [Evidence.OPERATIONS, Evidence.FINAL_LOGS], "brokers": ["broker-0"], "deployment": "process"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A history on disk: the directory of its run, how many messages and rows it has, and how often each anomaly was
    planted."""

    run: Path
    messages: int
    rows: int
    planted: Counter[str]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Its segments."""
        return pieces(self.run, manifest.read(self.run))

    def tables(self, threads: int) -> Iterator[pa.Table]:
        """Yield what rivals read of each segment."""
        with ThreadPoolExecutor(threads) as readers:
            yield from readers.map(read, self.pieces)


def read(piece: Piece) -> pa.Table:
    """Return what rivals read of a segment as it stands there, without any check."""
    assert isinstance(piece, StreamPiece)
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=[*map(COLUMNS.index, READ)])
    with pa.memory_map(piece.place) as file:
        file.seek(piece.offset)
        return pa.ipc.open_stream(file.read_buffer(piece.sum.length), options=options).read_all().select(READ)


def make(folder: Path, messages: int, kind: str = "plain", workers: int = 1) -> Made:
    """Write a history of about so many messages, of one of :data:`RATES`; so many processes make its queues. The same
    first three arguments give the same history."""
    sizes, run = _sizes(messages, kind), folder / "run"
    run.mkdir()
    with TemporaryDirectory(dir=folder) as queues:
        write = partial(_write, Path(queues), sizes, RATES[kind])
        if workers == 1:
            planted = list(map(write, range(len(sizes))))
        else:
            with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
                planted = list(pool.map(write, range(len(sizes))))
        rows = _merge([harness(), *(_read(Path(queues), number) for number in range(len(sizes)))], run)
    write_meta(run, {**META, "format": FORMAT, "run": run.name, "seed": 0, "rows": rows})
    return Made(run=run, messages=sum(sizes), rows=rows, planted=sum(planted, Counter()))


def _write(folder: Path, sizes: list[int], rate: int, number: int) -> Counter[str]:
    """Write the rows of a queue, numbered among themselves, in order of time; return what is planted there."""
    made = _Queue(number, sizes[number], rate, np.random.default_rng([len(sizes), number]))
    table = table_of(made.rows())
    with pa.OSFile(str(folder / str(number)), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return made.planted


def _read(folder: Path, number: int) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(folder / str(number)))).read_all()


def _merge(tables: list[pa.Table], run: Path) -> int:
    """Write the rows of all queues as the stream of a run, in order of time; return how many they are."""
    times = [table["time_ns"].to_numpy() for table in tables]
    numbers = [np.empty(len(time), np.int64) for time in times]
    some = np.sort(np.concatenate([time[:: SLICE_ROWS // 256] for time in times]))
    stream, begins = Stream(run), [0] * len(tables)
    for until in [*np.unique(some[256::256]).tolist(), 1 << 62]:
        ends = [int(np.searchsorted(time, until)) for time in times]
        rows = [table.slice(begin, end - begin) for table, begin, end in zip(tables, begins, ends, strict=True)]
        order = np.argsort(np.concatenate([one["time_ns"].to_numpy() for one in rows]), kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = stream.rows + np.arange(len(order))
        op, done = [], 0
        for number, one, begin, end in zip(numbers, rows, begins, ends, strict=True):
            number[begin:end] = place[done : done + end - begin]
            done, of = done + end - begin, one["op"].to_numpy()
            op.append(np.where(of >= 0, number[of], -1))
        whole = pa.concat_tables(rows).unify_dictionaries().take(pa.array(order))
        whole = whole.set_column(0, "index", pa.array(stream.rows + np.arange(len(order))))
        stream.add_whole(whole.set_column(COLUMNS.index("op"), "op", pa.array(np.concatenate(op)[order])).cast(SCHEMA))
        begins = ends
    stream.close()
    return stream.rows


def _sizes(messages: int, kind: str) -> list[int]:
    """How many messages each queue has, a multiple of a batch. ``skewed``: the first has nine tenths."""
    if kind == "skewed":
        rest = max(0, min(QUEUES - 1, messages // 10 // LEAST))
        sizes = [max(LEAST, messages - messages // 10), *[messages // 10 // max(1, rest)] * rest]
    else:
        queues = max(1, min(QUEUES, messages // LEAST))
        sizes = [max(LEAST, messages // queues)] * queues
    return [size // BATCH * BATCH for size in sizes]


class _Queue:
    """One queue. A slot is an offset; what stands there is the slot's own message unless something was planted: it is
    ``_stored`` there until the readers have pulled it, and in the ``_final`` reading."""

    def __init__(self, number: int, size: int, rate: int, random: np.random.Generator) -> None:
        slot = np.arange(size)
        self._number, self._size, self._rate, self._random = number, size, rate, random
        self._began = slot * STEP + random.integers(0, 40, size)
        self._ended = self._began + 1 + random.integers(0, 150, size)
        self._type = np.full(size, "ok", dtype=object)
        self._message = message_id(number, 0) + slot
        self._hash = content(self._message)
        self._stored, self._stored_hash = self._message.copy(), self._hash.copy()
        self._final, self._final_hash = self._message.copy(), self._hash.copy()
        self._sent, self._read, self._kept = (np.ones(size, dtype=np.bool_) for _ in range(3))
        self._asked = np.arange(size // BATCH) * BATCH
        self._again: list[int] = []
        self._extra: list[tuple[int, int]] = []
        self._bounds: list[tuple[int, int]] = []
        self._queries: list[tuple[int, int]] = []
        self.planted: Counter[str] = Counter()

    def rows(self) -> dict[str, Any]:
        self._plant(len(self._asked))
        return joined([*self._sends(), *self._pulls(), *self._commits(), *self._ends(), *self._drain()])

    def _plant(self, batches: int) -> None:
        """Each kind so often as the rate says, at batches that the generator draws; neither the first nor the last."""
        kinds = _KINDS
        times = max(1, self._size // self._rate)
        at = 1 + self._random.permutation(batches - 3)[: times * len(kinds)]
        for number, batch in enumerate(at.tolist()):
            plant, found = kinds[number % len(kinds)]
            plant(self, batch)
            self.planted.update(found)

    def _unclear(self, batch: int) -> None:
        self._type[batch * BATCH + 5] = "info"

    def _refused(self, batch: int) -> None:
        self._type[batch * BATCH + 5] = "fail"

    def _corrupt(self, batch: int) -> None:
        at = batch * BATCH + 5
        self._type[at] = "info"
        self._stored_hash[at] = self._final_hash[at] = self._hash[at] ^ 1

    def _lost(self, batch: int) -> None:
        self._kept[batch * BATCH + BATCH - 1] = False

    def _replaced(self, batch: int) -> None:
        """After the readers' pull, another message stands there, whose own send was unclear and got no offset."""
        at, other = batch * BATCH + 5, message_id(self._number, self._size + len(self._extra))
        self._extra.append((int(self._began[at]), other))
        self._final[at], self._final_hash[at] = other, content(np.array([other]))[0]

    def _appended_twice(self, batch: int) -> None:
        at = batch * BATCH + 5
        self._sent[at] = False
        for stored, held in ((self._stored, self._message), (self._stored_hash, self._hash)):
            stored[at] = held[at - 1]
        self._final[at], self._final_hash[at] = self._stored[at], self._stored_hash[at]

    def _delivered_again(self, batch: int) -> None:
        self._again.append(batch)

    def _reordered(self, batch: int) -> None:
        """Let the message of the later offset be acknowledged before the other one is sent."""
        one = batch * BATCH + 5
        first, second = one * STEP, one * STEP + 50
        self._began[one], self._ended[one] = second, second + 1
        self._began[one + 1], self._ended[one + 1] = first, first + 1

    def _end_fell(self, batch: int) -> None:
        self._bounds.append((_after(batch), batch * BATCH))

    def _asked_elsewhere(self, batch: int) -> None:
        self._asked[batch] -= 1

    def _skipped(self, batch: int) -> None:
        self._read[batch * BATCH + BATCH - 1] = False

    def _commit_back(self, batch: int) -> None:
        self._queries.append((_after(batch) + 200, batch * BATCH))

    def _never_committed(self, batch: int) -> None:
        self._queries.append((_after(batch) + 200, self._size - 1))

    def _sends(self) -> list[dict[str, Any]]:
        sent = np.flatnonzero(self._sent)
        who = np.array([f"producer-{n}.0" for n in range(PRODUCERS)], dtype=object)[sent % PRODUCERS]
        same = {"queue": self._number, "message": self._message[sent], "hash": self._hash[sent], "process": who}
        ok = self._type[sent] == "ok"
        asked = block("send", self._began[sent], type="invoke", **same)
        answer = {"offset": np.where(ok, sent, -1), "epoch": np.where(ok, 1, -1), "node": np.where(ok, "broker-0", "")}
        time, message = (np.array(column, dtype=np.int64) for column in zip(*[(0, -1), *self._extra], strict=True))
        unclear = {
            "queue": self._number,
            "message": message[1:],
            "hash": content(message[1:]),
            "process": "producer-x.0",
        }
        return [
            asked,
            block("send", self._ended[sent], type=self._type[sent], of=asked, **answer, **same),
            block("send", time[1:], type="invoke", **unclear),
        ]

    def _pulls(self) -> list[dict[str, Any]]:
        batch = np.sort(np.concatenate([np.arange(len(self._asked)), np.array(self._again, dtype=np.int64)]))
        again = np.append(False, batch[1:] == batch[:-1])
        time = _after(batch) + 250 * again
        same = {"queue": self._number, "process": "consumer-0.0"}
        asked = block("pull", time, type="invoke", offset=self._asked[batch], value=GROUP, **same)
        end = self._known(time)
        answers = [f'{{"minimum":0,"maximum":{known},"source":"local"}}' for known in end.tolist()]
        answer = {"type": "ok", "node": "broker-0", "epoch": 1, **same}
        done = block("pull", time + 10, of=asked, value=np.array(answers, dtype=object), **answer)
        slot = (batch[:, None] * BATCH + np.arange(BATCH)).ravel()
        call = np.repeat(np.arange(len(batch)), BATCH)
        keep = self._read[slot]
        slot, call = slot[keep], call[keep]
        given = {"offset": slot, "message": self._stored[slot], "hash": self._stored_hash[slot]}
        return [asked, done, block("delivered", time[call] + 10, of=asked, call=call, **given, **answer)]

    def _known(self, time: Ints) -> Ints:
        """Return the end of the queue if all that was sent before this time stands in it: no later answer contradicts
        that."""
        sent = np.maximum.accumulate(self._began)
        return np.searchsorted(sent, time)

    def _commits(self) -> list[dict[str, Any]]:
        batch = np.arange(len(self._asked))
        same = {"queue": self._number, "process": "consumer-0.0", "value": '{"group":"g"}'}
        asked = block("commit", _after(batch) + 20, type="invoke", offset=(batch + 1) * BATCH, **same)
        acked = {"offset": (batch + 1) * BATCH, "node": "broker-0", "epoch": 1}
        done = block("commit", _after(batch) + 30, type="ok", of=asked, **acked, **same)
        good = batch[::64]
        queries = [*zip((_after(good) + 150).tolist(), ((good + 1) * BATCH).tolist(), strict=True), *self._queries]
        time, offset = (np.array(column, dtype=np.int64) for column in zip(*queries, strict=True))
        question = block("committed", time, type="invoke", **same)
        found = {"offset": offset, "node": "broker-0", "epoch": 1}
        return [asked, done, question, block("committed", time + 5, type="ok", of=question, **found, **same)]

    def _ends(self) -> list[dict[str, Any]]:
        time = _after(np.arange(0, len(self._asked), 3)) + 60
        bounds = [*zip(time.tolist(), self._known(time).tolist(), strict=True), *self._bounds]
        asked_at = np.array([at for at, _ in bounds], dtype=np.int64)
        answers = np.array([f'{{"minimum":0,"maximum":{end}}}' for _, end in bounds], dtype=object)
        same = {"queue": self._number, "process": "monitor-0.0"}
        asked = block("bounds", asked_at, type="invoke", **same)
        return [
            asked,
            block("bounds", asked_at + 5, type="ok", of=asked, value=answers, node="broker-0", epoch=1, **same),
        ]

    def _drain(self) -> list[dict[str, Any]]:
        batch = np.arange(len(self._asked))
        same = {"queue": self._number, "process": "drain-0-reader"}
        start = block("drain", np.array([DRAIN + 1]), type="invoke", offset=0, value=PROVER, **same)
        time = DRAIN + 2 + batch * 10
        asked = block("pull", time, type="invoke", offset=batch * BATCH, value=PROVER, **same)
        bounds = f'{{"minimum":0,"maximum":{self._size}}}'
        answer = {"type": "ok", "node": "broker-0", "epoch": 1, **same}
        done = block("pull", time + 1, of=asked, value=bounds, **answer)
        slot = np.flatnonzero(self._kept)
        given = {"offset": slot, "message": self._final[slot], "hash": self._final_hash[slot]}
        read = block("delivered", time[slot // BATCH] + 1, of=asked, call=slot // BATCH, **given, **answer)
        end = block("drain", time[-1:] + 20, of=start, type="ok", offset=self._size, value=PROVER, **same)
        return [start, asked, done, read, end]


_Plant = Callable[[_Queue, int], None]
#: What each plant makes the laws find, and nothing else.
_KINDS: tuple[tuple[_Plant, dict[str, int]], ...] = (
    (_Queue._unclear, {"recovered": 1}),
    (_Queue._refused, {"unexpected": 1}),
    (_Queue._corrupt, {"corrupt": 1, "recovered": 1}),
    (_Queue._lost, {"lost": 1, "rollback": 1}),
    (_Queue._replaced, {"lost": 1, "rollback": 1, "offset-conflict": 1, "recovered": 1}),
    (_Queue._appended_twice, {"duplicate-append": 1}),
    (_Queue._delivered_again, {"redelivery": BATCH}),
    (_Queue._reordered, {"reorder": 1, "max-offset-regression": 1}),
    (_Queue._end_fell, {"max-offset-regression": 1}),
    (_Queue._asked_elsewhere, {"consumer-reorder": 1}),
    (_Queue._skipped, {"skipped": 1}),
    (_Queue._commit_back, {"commit-regression": 1}),
    (_Queue._never_committed, {"never-committed": 1}),
)


def content(message: Ints) -> Ints:
    """Return the identity of a message's content: numbers that are spread like those of hashes."""
    spread = message.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(spread >> np.uint64(2), dtype=np.int64)


def _after(batch: Any) -> Any:
    """When all messages of a batch have been answered."""
    return (batch + 1) * BATCH * STEP + 200


def harness() -> pa.Table:
    """Return the rows before the load, and the one that begins the final read."""
    empty: dict[str, Any] = {**dict.fromkeys(INTEGERS, -1), **dict.fromkeys((*WORDS, VALUE), ""), "kind": "harness"}
    rows = [(0, "phase", '{"phase":"load"}'), (0, "recovered", '{"seconds":1}'), (DRAIN, "phase", '{"phase":"drain"}')]
    told = [empty | {"time_ns": time * 1_000, "f": f, VALUE: value} for time, f, value in rows]
    return pa.Table.from_pylist(told, SCHEMA)
