"""Histories of logs and transactions with planted anomalies, as run directories of any size.

Transactors read two messages each, one of either of two queues, send two others to the next queues, commit an offset
and end. All begin together in each round, and have ended before the next one; what is sent in one round is read some
rounds later. After the run each queue is read once more, to its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.laws.blocks import Ints, block, joined, table_of
from benchmarks.laws.histories import BATCH, DRAIN, META, PROVER, Made, content, harness
from benchmarks.longer.rows import Stream
from chaos.history.columns import COLUMNS
from chaos.history.directory import write_meta
from chaos.history.format import FORMAT
from chaos.history.stream import SCHEMA
from chaos.ops import SEQUENCE_BITS

QUEUES, TRANSACTORS = 64, 8
#: Queues of one transactor; transactions, and rounds, in which each queue gets one message.
OWN, TURN = QUEUES // TRANSACTORS, QUEUES // 2
ROUNDS = TURN // TRANSACTORS
#: So many turns after it was sent, a message is read.
LATER = 3
#: Client operations of a transaction (itself, begin, poll, two sends, commit, end), and time units of a round.
OPERATIONS, ROUND = 7, 1_000
#: So many turns are written together; of each so many, one message is lost, and two transactions read each other.
CHUNK, RATE = 512, 1_024
USES = {"uses": ["queues", "logs", "transactions"]}
LOST = ("lost-write", "unseen", "torn", "poll-skip", "int-poll-skip")


def make(folder: Path, operations: int) -> Made:
    """Write a history of about so many operations of clients."""
    turns, run = max(1, operations // OPERATIONS // TURN // RATE) * RATE, folder / "run"
    run.mkdir()
    stream = Stream(run)
    _add_harness(stream, 0, 2)
    _add(stream, _assigned())
    for begin in range(0, turns, CHUNK):
        _add(stream, [*_load(begin, begin + CHUNK)])
    _add_harness(stream, 2, 3)
    for queue in range(QUEUES):
        _add(stream, _drain(queue, turns))
    stream.close()
    write_meta(run, {**META, **USES, "format": FORMAT, "run": run.name, "seed": 0, "rows": stream.rows})
    planted = Counter(dict.fromkeys((*LOST, "G1c"), turns // RATE))
    return Made(run=run, messages=turns * QUEUES, rows=stream.rows, planted=planted)


def _add_harness(stream: Stream, begin: int, end: int) -> None:
    rows = harness().slice(begin, end - begin)
    stream.add(rows.set_column(0, "index", [np.arange(stream.rows, stream.rows + rows.num_rows)]))


def _add(stream: Stream, blocks: list[dict[str, Any]]) -> None:
    """Add rows of which all ends have their beginnings among them."""
    table, begin = table_of(joined(blocks)), stream.rows
    for name in ("index", "op"):
        own = table[name].to_numpy()
        table = table.set_column(COLUMNS.index(name), name, [np.where(own >= 0, own + begin, -1)])
    stream.add_whole(table.cast(SCHEMA))


def _texts(texts: Iterator[str]) -> Any:
    return np.array([*texts], dtype=object)


def _owned(transactor: int) -> range:
    return range(transactor * OWN, (transactor + 1) * OWN)


def _assigned() -> list[dict[str, Any]]:
    """Return the assignment of each transactor's queues."""
    queues = [f'"queues":[{",".join(map(str, _owned(one)))}]' for one in range(TRANSACTORS)]
    begins = [",".join(f'"{queue}":0' for queue in _owned(one)) for one in range(TRANSACTORS)]
    time, process = np.ones(TRANSACTORS, np.int64), _texts(f"transactor-{n}-reader.0" for n in range(TRANSACTORS))
    asked = block("assign", time, type="invoke", process=process, value=_texts(f"{{{one}}}" for one in queues))
    following = _texts(f'{{{one},"following":{{{at}}}}}' for one, at in zip(queues, begins, strict=True))
    return [asked, block("assign", time + 1, type="ok", of=asked, process=process, value=following, node="broker-0")]


def is_lost(queue: Ints, turn: Ints) -> Any:
    """Return which messages readers are not given: one of each so many, not at the edge of a pull."""
    return (queue == 5) & (turn % RATE == BATCH + 7)


def _load(begin: int, end: int) -> Iterator[dict[str, Any]]:
    """Yield what is done in some turns."""
    txn = np.arange(begin * TURN, end * TURN)
    who, round_, turn = txn % TRANSACTORS, txn // TRANSACTORS, txn // TURN
    at = 10 + round_ * ROUND + who * 5
    numbers, names = txn.tolist(), who.tolist()

    def call(f: str, since: int, until: int, suffix: str, micro: int, more: str = "", **columns: Any) -> Any:
        value = _texts(f'{{"txn":{n},"micro":{micro}{more}}}' for n in numbers)
        process = _texts(f"transactor-{n}{suffix}.0" for n in names)
        same = {"process": process, "value": value, **columns}
        offset = same.pop("offset", -1)
        asked = block(f, at + since, type="invoke", offset=offset if f == "commit" else -1, **same)
        return [asked, block(f, at + until, type="ok", of=asked, offset=offset, node="broker-0", **same)]

    whole = _texts(
        f'{{"txn":{n},"id":"transactor-{name}","epoch":1,"decision":"commit"}}'
        for n, name in zip(numbers, names, strict=True)
    )
    same = {"process": _texts(f"transactor-{name}.0" for name in names), "value": whole}
    asked = block("txn", at, type="invoke", **same)
    yield from (asked, block("txn", at + 320, type="ok", of=asked, **same))
    yield from call("begin_txn", 1, 5, "-0", 0)
    yield from _polls(at, txn)
    for place in range(2):
        queue = (2 * txn + place) % QUEUES
        message = _message(queue, turn)
        yield from call(
            "send", 100 + 10 * place, 310, f"-{2 + place}", 2 + place,
            queue=queue, message=message, hash=content(message), offset=turn,
        )  # fmt: skip
    queue = who * OWN + 2 * (round_ % ROUNDS)
    yield from call(
        "commit", 120, 311, "-4", 4, ',"group":"transactions"', queue=queue, offset=np.maximum(turn - LATER + 1, 0)
    )
    yield from call("end_txn", 200, 300, "-5", 5, ',"decision":"commit"')
    yield from _cycles(at, txn)


def _polls(at: Ints, txn: Ints) -> list[dict[str, Any]]:
    """Have each transaction read on in two of its transactor's queues."""
    who, round_, turn = txn % TRANSACTORS, txn // TRANSACTORS, txn // TURN
    begin = np.maximum(turn - LATER, 0)
    given = turn >= LATER
    first = 2 * (round_ % ROUNDS)

    def positions(after: int) -> Iterator[str]:
        for name, place, now, some in zip(
            *(column.tolist() for column in (who, first + after, begin, given)), strict=True
        ):
            yield ",".join(f'"{name * OWN + n}":{now + (some and n < place)}' for n in range(OWN))

    asked_at, then = _texts(positions(0)), _texts(positions(2))
    process = _texts(f"transactor-{name}-reader.0" for name in who.tolist())
    head = [
        f'"positions":{{{now}}},"limit":8,"txn":{n},"micro":1,"group":"transactions"'
        for now, n in zip(asked_at, txn.tolist(), strict=True)
    ]
    asked = block("poll", at + 40, type="invoke", process=process, value=_texts(f"{{{one}}}" for one in head))
    value = _texts(f'{{{one},"following":{{{to}}}}}' for one, to in zip(head, then, strict=True))
    done = block("poll", at + 60, type="ok", of=asked, process=process, value=value, node="broker-0")
    call = np.repeat(np.flatnonzero(given), 2)
    queue = np.repeat((who * OWN + first)[given], 2) + np.tile([0, 1], int(given.sum()))
    offset = begin[call]
    keep = ~is_lost(queue, offset)
    call, queue, offset = call[keep], queue[keep], offset[keep]
    read = _delivered(at[call] + 60, asked, call, queue, offset, process[call])
    return [asked, done, {**read, "value": _read_in(txn[call])}]


def _read_in(txn: Ints) -> Any:
    return _texts(f'{{"txn":{n}}}' for n in txn.tolist())


def _message(queue: Ints, sequence: Ints) -> Ints:
    return (queue << SEQUENCE_BITS) + sequence


def _delivered(time: Ints, asked: Any, call: Ints, queue: Ints, offset: Ints, process: Any) -> dict[str, Any]:
    message = _message(queue, offset)
    same = {"queue": queue, "offset": offset, "message": message, "hash": content(message)}
    return block("delivered", time, type="ok", of=asked, call=call, process=process, node="broker-0", **same)


def _cycles(at: Ints, txn: Ints) -> list[dict[str, Any]]:
    """Have the first two transactions of some turns read each other, before either is answered."""
    one = np.flatnonzero(txn % (TURN * RATE) == 0)
    reader = np.stack([one, one + 1], axis=1).ravel()
    writer = np.stack([one + 1, one], axis=1).ravel()
    process = _texts(f"circle-{n}.0" for n in txn[reader].tolist())
    value = _texts(f'{{"positions":{{}},"limit":1,"txn":{n},"micro":6}}' for n in txn[reader].tolist())
    same = {"process": process, "value": value}
    asked = block("poll", at[reader] + 220, type="invoke", **same)
    done = block("poll", at[reader] + 230, type="ok", of=asked, node="broker-0", **same)
    queue = 2 * txn[writer] % QUEUES
    given = _delivered(at[reader] + 230, asked, np.arange(len(reader)), queue, txn[writer] // TURN, process)
    return [asked, done, {**given, "value": _read_in(txn[reader])}]


def _drain(queue: int, turns: int) -> list[dict[str, Any]]:
    """Return the final read of a queue."""
    batch, all_turns = np.arange(turns // BATCH), np.arange(turns)
    same = {"queue": queue, "process": f"drain-{queue}-reader.0"}
    began = DRAIN + 1 + queue * (10 * turns + 100)
    start = block("drain", np.array([began]), type="invoke", offset=0, value=PROVER, **same)
    time = began + 1 + batch * 10
    asked = block("pull", time, type="invoke", offset=batch * BATCH, value=PROVER, **same)
    answer = {"type": "ok", "node": "broker-0", "epoch": 1, **same}
    done = block("pull", time + 1, of=asked, value=f'{{"minimum":0,"maximum":{turns}}}', **answer)
    offset = all_turns[~is_lost(np.full(turns, queue), all_turns)]
    read = _delivered(time[offset // BATCH] + 1, asked, offset // BATCH, np.full(len(offset), queue), offset,
                      same["process"])  # fmt: skip
    end = block("drain", time[-1:] + 20, of=start, type="ok", offset=turns, value=PROVER, **same)
    return [start, asked, done, read, end]
