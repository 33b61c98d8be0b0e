"""Histories of clients with planted anomalies, as shards of any size: every row is computed, none is run.

A producer's message ``i`` of a queue stands at offset ``i``. Consumers pull 32 messages at a time and commit; at the
end each queue is drained. Each planted anomaly has a batch of 32 offsets for itself, so that none hides another.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.history import shards
from chaos.history.beginnings import Beginnings
from chaos.history.columns import COLUMNS, INTEGERS, VALUE, WORDS
from chaos.ops import message_id

Ints = npt.NDArray[np.int64]

BATCH = 32
#: How many queues and files a history has, unless their messages would be more than `check` puts into a shard.
QUEUES, FILES = 64, 16
FILE_MESSAGES = 450_000
#: A queue has at least so many messages: each anomaly needs a batch of its own.
LEAST = 1 << 13
PRODUCERS = 8
#: Time units between two sends to one queue; and after which the drains begin, whatever the size of the history.
STEP, DRAIN = 100, 1 << 50
GROUP = json.dumps({"group": "g", "limit": BATCH}, separators=(",", ":"))
PROVER = json.dumps({"by": "queue"}, separators=(",", ":"))
#: Kinds of history: one planted anomaly of each kind for so many messages.
RATES = {"plain": 100_000, "violations": 2_000, "skewed": 100_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A history on disk: its shards, how many messages and rows it has, and how often each anomaly was planted."""

    paths: tuple[Path, ...]
    messages: int
    rows: int
    planted: Counter[str]


def make(folder: Path, messages: int, kind: str = "plain", workers: int = 1) -> Made:
    """Write a history of about so many messages, of one of :data:`RATES`, by so many processes. The same first three
    arguments give the same history."""
    sizes = _sizes(messages, kind)
    files = min(max(FILES, _least_files(messages)), len(sizes))
    write = partial(_write, folder, sizes, RATES[kind], files)
    if workers == 1:
        written = list(map(write, range(files)))
    else:
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            written = list(pool.map(write, range(files)))
    planted: Counter[str] = sum((found for _, found in written), Counter())
    rows = sum(rows for rows, _ in written)
    return Made(paths=tuple(_path(folder, n) for n in range(files)), messages=sum(sizes), rows=rows, planted=planted)


def _write(folder: Path, sizes: list[int], rate: int, files: int, number: int) -> tuple[int, Counter[str]]:
    """Write one file; returns how many rows it has, and what is planted there."""
    parts = []
    planted: Counter[str] = Counter()
    for queue in range(number, len(sizes), files):
        made = _Queue(queue, sizes[queue], rate, np.random.default_rng([len(sizes), queue]))
        parts.append(made.rows())
        planted += made.planted
    table = _table(parts, number, files)
    shards.write_one(table, _path(folder, number))
    return table.num_rows, planted


def _path(folder: Path, number: int) -> Path:
    return folder / f"queue-{number}.parquet"


def _least_files(messages: int) -> int:
    return -(-messages // FILE_MESSAGES)


def _sizes(messages: int, kind: str) -> list[int]:
    """How many messages each queue has, a multiple of a batch. ``skewed``: the first has nine tenths."""
    if kind == "skewed":
        rest = max(0, min(QUEUES - 1, messages // 10 // LEAST))
        sizes = [max(LEAST, messages - messages // 10), *[messages // 10 // max(1, rest)] * rest]
    else:
        queues = max(1, min(max(QUEUES, _least_files(messages)), messages // LEAST))
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
        return _joined([*self._sends(), *self._pulls(), *self._commits(), *self._ends(), *self._drain()])

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
        asked = _block("send", self._began[sent], type="invoke", **same)
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
            _block("send", self._ended[sent], type=self._type[sent], of=asked, **answer, **same),
            _block("send", time[1:], type="invoke", **unclear),
        ]

    def _pulls(self) -> list[dict[str, Any]]:
        batch = np.sort(np.concatenate([np.arange(len(self._asked)), np.array(self._again, dtype=np.int64)]))
        again = np.append(False, batch[1:] == batch[:-1])
        time = _after(batch) + 250 * again
        same = {"queue": self._number, "process": "consumer-0.0"}
        asked = _block("pull", time, type="invoke", offset=self._asked[batch], value=GROUP, **same)
        end = self._known(time)
        answers = [f'{{"minimum":0,"maximum":{known},"source":"local"}}' for known in end.tolist()]
        answer = {"type": "ok", "node": "broker-0", "epoch": 1, **same}
        done = _block("pull", time + 10, of=asked, value=np.array(answers, dtype=object), **answer)
        slot = (batch[:, None] * BATCH + np.arange(BATCH)).ravel()
        call = np.repeat(np.arange(len(batch)), BATCH)
        keep = self._read[slot]
        slot, call = slot[keep], call[keep]
        given = {"offset": slot, "message": self._stored[slot], "hash": self._stored_hash[slot]}
        return [asked, done, _block("delivered", time[call] + 11, of=asked, call=call, **given, **answer)]

    def _known(self, time: Ints) -> Ints:
        """Return the end of the queue if all that was sent before this time stands in it: no later answer contradicts
        that."""
        sent = np.maximum.accumulate(self._began)
        return np.searchsorted(sent, time)

    def _commits(self) -> list[dict[str, Any]]:
        batch = np.arange(len(self._asked))
        same = {"queue": self._number, "process": "consumer-0.0", "value": '{"group":"g"}'}
        asked = _block("commit", _after(batch) + 20, type="invoke", offset=(batch + 1) * BATCH, **same)
        acked = {"offset": (batch + 1) * BATCH, "node": "broker-0", "epoch": 1}
        done = _block("commit", _after(batch) + 30, type="ok", of=asked, **acked, **same)
        good = batch[::64]
        queries = [*zip((_after(good) + 150).tolist(), ((good + 1) * BATCH).tolist(), strict=True), *self._queries]
        time, offset = (np.array(column, dtype=np.int64) for column in zip(*queries, strict=True))
        question = _block("committed", time, type="invoke", **same)
        found = {"offset": offset, "node": "broker-0", "epoch": 1}
        return [asked, done, question, _block("committed", time + 5, type="ok", of=question, **found, **same)]

    def _ends(self) -> list[dict[str, Any]]:
        time = _after(np.arange(0, len(self._asked), 3)) + 60
        bounds = [*zip(time.tolist(), self._known(time).tolist(), strict=True), *self._bounds]
        asked_at = np.array([at for at, _ in bounds], dtype=np.int64)
        answers = np.array([f'{{"minimum":0,"maximum":{end}}}' for _, end in bounds], dtype=object)
        same = {"queue": self._number, "process": "monitor-0.0"}
        asked = _block("bounds", asked_at, type="invoke", **same)
        return [
            asked,
            _block("bounds", asked_at + 5, type="ok", of=asked, value=answers, node="broker-0", epoch=1, **same),
        ]

    def _drain(self) -> list[dict[str, Any]]:
        batch = np.arange(len(self._asked))
        same = {"queue": self._number, "process": "drain-0-reader"}
        start = _block("drain", np.array([DRAIN + 1]), type="invoke", offset=0, value=PROVER, **same)
        time = DRAIN + 2 + batch * 10
        asked = _block("pull", time, type="invoke", offset=batch * BATCH, value=PROVER, **same)
        bounds = f'{{"minimum":0,"maximum":{self._size}}}'
        answer = {"type": "ok", "node": "broker-0", "epoch": 1, **same}
        done = _block("pull", time + 1, of=asked, value=bounds, **answer)
        slot = np.flatnonzero(self._kept)
        given = {"offset": slot, "message": self._final[slot], "hash": self._final_hash[slot]}
        read = _block("delivered", time[slot // BATCH] + 2, of=asked, call=slot // BATCH, **given, **answer)
        end = _block("drain", time[-1:] + 20, of=start, type="ok", offset=self._size, value=PROVER, **same)
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


def _block(f: str, time: Ints, **columns: Any) -> dict[str, Any]:
    """Rows of one kind. ``of``: the rows of the invocations that these belong to, one each, or those of the numbers
    ``call``."""
    return {"f": f, "time": time, "of": None, "call": None, **columns}


def _joined(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """All rows of a queue, in order of time. ``op`` is the place of the invocation among them."""
    lengths = [len(block["time"]) for block in blocks]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).tolist()
    start_of = {id(block): start for block, start in zip(blocks, starts, strict=True)}
    op = np.full(sum(lengths), -1, dtype=np.int64)
    for block, start, length in zip(blocks, starts, lengths, strict=True):
        if block["of"] is not None:
            call = np.arange(length) if block["call"] is None else block["call"]
            op[start : start + length] = start_of[id(block["of"])] + call
    time = np.concatenate([block["time"] for block in blocks])
    order = np.argsort(time, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    joined: dict[str, Any] = {"time": time[order], "op": np.where(op >= 0, place[op], -1)[order]}
    for name in ("epoch", "queue", "offset", "message", "hash"):
        joined[name] = np.concatenate([_filled(block, name, -1, np.int64) for block in blocks])[order]
    for name in ("type", "f", "process", "node", VALUE):
        joined[name] = np.concatenate([_filled(block, name, "", object) for block in blocks])[order]
    return joined


def _filled(block: dict[str, Any], name: str, none: Any, kind: Any) -> npt.NDArray[Any]:
    given = block.get(name, none)
    return given if isinstance(given, np.ndarray) else np.full(len(block["time"]), given, dtype=kind)


def _table(parts: list[dict[str, Any]], number: int, files: int) -> pa.Table:
    """Return the rows of some queues as a shard, between those of the harness; every shard has numbers of its own."""
    starts = np.concatenate([[0], np.cumsum([len(part["time"]) for part in parts])[:-1]]).tolist()
    time = np.concatenate([part["time"] for part in parts])
    order = np.argsort(time, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    # 0 and 1 are the rows before the load, and DRAIN the one that begins the drain.
    index = 2 + np.arange(len(order)) * files + number + np.where(time[order] > DRAIN, DRAIN, 0)
    refers = np.concatenate(
        [np.where(part["op"] >= 0, part["op"] + start, -1) for part, start in zip(parts, starts, strict=True)]
    )
    refers = refers[order]
    columns: dict[str, Any] = {"index": index, "op": np.where(refers >= 0, index[place[refers]], -1)}
    columns["time_ns"] = time[order] * 1_000
    for name in ("epoch", "queue", "offset", "message", "hash"):
        columns[name] = np.concatenate([part[name] for part in parts])[order]
    arrays = {name: pa.array(column) for name, column in columns.items()}
    for name in ("type", "f", "process", "node", VALUE):
        arrays[name] = pa.array(np.concatenate([part[name] for part in parts])[order], pa.string()).dictionary_encode()
    arrays["kind"] = pa.repeat("op", len(order)).dictionary_encode()
    for name in INTEGERS:
        arrays.setdefault(name, pa.repeat(pa.scalar(-1, pa.int64()), len(order)))
    table = Beginnings().repeat(pa.table({name: arrays[name] for name in COLUMNS}).sort_by("index"))
    return pa.concat_tables([_harness(), table]).unify_dictionaries().combine_chunks().sort_by("index")


def _harness() -> pa.Table:
    """Return the rows that every shard has."""
    rows = [(0, "phase", '{"phase":"load"}'), (1, "recovered", '{"seconds":1}'), (DRAIN, "phase", '{"phase":"drain"}')]
    columns: dict[str, pa.Array] = {name: pa.array([-1] * len(rows), pa.int64()) for name in INTEGERS}
    columns |= {name: pa.array([""] * len(rows), pa.string()).dictionary_encode() for name in (*WORDS, VALUE)}
    columns["index"] = pa.array([index for index, _, _ in rows], pa.int64())
    columns["time_ns"] = pa.array([0, 0, DRAIN * 1_000], pa.int64())
    columns["kind"] = pa.array(["harness"] * len(rows)).dictionary_encode()
    columns["f"] = pa.array([f for _, f, _ in rows]).dictionary_encode()
    columns[VALUE] = pa.array([value for _, _, value in rows]).dictionary_encode()
    return pa.table({name: columns[name] for name in COLUMNS})
