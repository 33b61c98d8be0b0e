"""How a transaction is recorded to have ended, by what was asked and answered about its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from chaos.ops import Answer, Failed, OpType, QueueRef, Unknown
from chaos.transaction_worker import TransactionWorker
from chaos.workload import Load

QUEUE = QueueRef(index=0, topic="t", queue_id=0)
Call = Callable[[], Coroutine[Any, Any, Answer]]


class Recorded:
    """What a worker needs of a load."""

    queues = (QUEUE,)

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.shared: dict[str, dict[int, int]] = {"acked": {}, "seen": {}, "sequence": {}}

    def record(self, kind: str, **columns: Any) -> int:
        self.rows.append({"kind": kind, **columns})
        return len(self.rows) - 1

    def ends(self, f: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["f"] == f and row["type"] != OpType.INVOKE]


def answered(offset: int = -1) -> Call:
    async def call() -> Answer:
        return Answer(offset=offset)

    return call


def raising(error: Exception) -> Call:
    async def call() -> Answer:
        raise error

    return call


OK, FAILED, UNKNOWN = answered(), raising(Failed("no")), raising(Unknown("timeout"))


def had(*ends: tuple[bool, Call], sends: tuple[Call, ...] = (answered(7),)) -> Recorded:
    """A transaction with these sends, of which these ends were asked for: whether to commit, and what came of it."""
    load = Recorded()
    worker = TransactionWorker(cast(Load, load), "t")

    async def main() -> None:
        txn = worker.begin("id", 1, commit=True)
        for send in sends:
            await txn.send(send, queue=QUEUE, message=1, hash=2)
        await txn.commit_offsets(answered(), "g", {QUEUE: 3})
        for commit, end in ends:
            await txn.end(end, commit=commit)
        txn.close()

    asyncio.run(main())
    return load


@pytest.mark.parametrize(
    ("ends", "type"),
    [
        ((), "fail"),
        (((True, OK),), "ok"),
        (((True, UNKNOWN),), "info"),
        (((True, FAILED),), "fail"),
        (((True, UNKNOWN), (True, OK)), "ok"),
        (((True, UNKNOWN), (True, FAILED)), "info"),
        (((False, OK),), "fail"),
        (((False, UNKNOWN),), "fail"),
        (((True, UNKNOWN), (False, OK)), "fail"),
        (((True, UNKNOWN), (False, UNKNOWN)), "info"),
    ],
)
def test_all_that_is_in_a_transaction_ends_as_it_does(ends: tuple[tuple[bool, Call], ...], type: str) -> None:
    load = had(*ends)
    (txn,), (send,), (commit,) = (load.ends(f) for f in ("txn", "send", "commit"))
    assert {txn["type"], send["type"], commit["type"]} == {type}
    assert (send["offset"], send["value"].get("stored", -1)) == ((7, -1) if type == "ok" else (-1, 7))
    assert load.shared["acked"] == ({0: 7} if type == "ok" else {})


def test_what_surely_was_not_sent_has_failed_whatever_the_transaction_does() -> None:
    load = had((True, OK), sends=(answered(7), FAILED, UNKNOWN))
    assert [(row["type"], row["value"]["micro"]) for row in load.ends("send")] == [("fail", 1), ("ok", 0), ("info", 2)]


def test_no_process_does_two_things_at_a_time_or_acts_after_an_unknown_outcome() -> None:
    load = Recorded()
    worker = TransactionWorker(cast(Load, load), "t")

    async def main() -> None:
        for _ in range(2):
            txn = worker.begin("id", 1, commit=True)
            for offset in range(3):
                await txn.send(answered(offset), queue=QUEUE, message=1, hash=2)
            await txn.end(UNKNOWN, commit=True)
            txn.close()

    asyncio.run(main())
    busy: set[str] = set()
    for row in load.rows:
        if row["type"] == OpType.INVOKE:
            assert row["process"] not in busy
            busy.add(row["process"])
    assert [row["value"]["txn"] for row in load.ends("txn")] == [0, 1]
