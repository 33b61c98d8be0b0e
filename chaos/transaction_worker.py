"""Records transactions of one producer: what it did in each, and how that ended, which its end alone shows."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from chaos.ops import Answer, OpType, QueueRef
from chaos.workload import Begun, Load, Outcome, Worker, note, outcome_of

#: Performs one call of a client.
Call = Callable[[], Coroutine[Any, Any, Answer]]


class TransactionWorker:
    """One producer, whose transactions follow one another. What is under way at the same time has a process each: the
    transaction itself that of this name, each step of it one of its own (``NAME-0``, ``NAME-1``, …), and whoever takes
    the id over meanwhile ``NAME-owner``."""

    def __init__(self, load: Load, name: str) -> None:
        self._load = load
        self._name = name
        self._whole = Worker(load, name)
        self._owner = Worker(load, f"{name}-owner")
        self._steps: list[Worker] = []

    def step(self, number: int) -> Worker:
        """Return the worker of the steps of this number in each transaction."""
        while len(self._steps) <= number:
            self._steps.append(Worker(self._load, f"{self._name}-{len(self._steps)}"))
        return self._steps[number]

    def note_acked(self, queue: int, offset: int) -> None:
        """Remember for the run's other workloads that a message was acknowledged."""
        note(self._load, "acked", self._load.queues[queue], offset)

    async def take_over(self, call: Call, id: str) -> Outcome:
        """Record that the producer becomes the owner of a transactional id."""
        return await self._owner.do("take_over", call, id=id)

    def begin(self, id: str, epoch: int, *, commit: bool, **value: Any) -> Transaction:
        """Record that a transaction begins, which is to be committed or aborted. The one before has ended."""
        numbers = self._load.shared.setdefault("txn", {})
        number = numbers[0] = numbers.get(0, -1) + 1
        decision = "commit" if commit else "abort"
        begun = self._whole.begin("txn", txn=number, id=id, epoch=epoch, decision=decision, **value)
        return Transaction(self, self._whole, begun, number)


class Transaction:
    """One transaction. Messages and offsets in it are there if it was committed, and surely not if it was aborted: the
    rows that end their operations are written by :meth:`close`. Nothing else may begin before that."""

    def __init__(self, worker: TransactionWorker, whole: Worker, begun: Begun, number: int) -> None:
        self.number = number
        self._worker = worker
        self._whole = whole
        self._begun = begun
        self._steps = 0
        self._open: list[tuple[Worker, Begun, Outcome]] = []
        self._ends: list[tuple[bool, OpType]] = []

    def mark(self) -> dict[str, Any]:
        """Return what the rows of the next step say of their transaction; for a step that another worker records."""
        step, self._steps = self._steps, self._steps + 1
        return {"txn": self.number, "micro": step}

    def _next(self) -> tuple[Worker, dict[str, Any]]:
        mark = self.mark()
        return self._worker.step(mark["micro"]), mark

    async def do(self, f: str, call: Call, **columns: Any) -> Outcome:
        """Record a step that has ended when its call has."""
        worker, of = self._next()
        return await worker.do(f, call, **of, **columns)

    async def send(self, call: Call, **columns: Any) -> Outcome:
        """Record that a message is sent."""
        worker, of = self._next()
        begun = worker.begin("send", **of, **columns)
        return self._pending([(worker, begun)], await outcome_of(call))

    async def commit_offsets(self, call: Call, group: str, offsets: Mapping[QueueRef, int]) -> Outcome:
        """Record that offsets of a group are committed, by one call: a row for each queue."""
        rows = []
        for queue, offset in offsets.items():
            worker, of = self._next()
            rows.append((worker, worker.begin("commit", queue=queue, offset=offset, group=group, **of)))
        return self._pending(rows, await outcome_of(call))

    def _pending(self, rows: list[tuple[Worker, Begun]], outcome: Outcome) -> Outcome:
        if outcome.type is OpType.FAIL:
            for worker, begun in rows:
                worker.end(begun, outcome)
        else:
            self._open += [(worker, begun, outcome) for worker, begun in rows]
        return outcome

    async def end(self, call: Call, *, commit: bool) -> Outcome:
        """Record one request to end the transaction."""
        outcome = await self.do("end_txn", call, decision="commit" if commit else "abort")
        self._ends.append((commit, outcome.type))
        return outcome

    @property
    def type(self) -> OpType:
        """How it stands: ``ok`` once a commit was acknowledged; ``fail`` once an abort was, or if no request to commit
        can have been heard; ``info`` otherwise."""
        if (True, OpType.OK) in self._ends:
            return OpType.OK
        aborted = (False, OpType.OK) in self._ends or (True, OpType.INFO) not in self._ends
        return OpType.FAIL if aborted else OpType.INFO

    def close(self, **value: object) -> OpType:
        """Record how the transaction and all in it ended, with what else its row shall say."""
        for worker, begun, outcome in self._open:
            ended = worker.end(begun, self._in_the_end(begun, outcome))
            if ended.ok and begun.asked["f"] == "send":
                self._worker.note_acked(begun.asked["queue"], ended.answer.offset)
        self._whole.end(self._begun, Outcome(self.type, Answer(value=value)))
        return self.type

    def _in_the_end(self, begun: Begun, outcome: Outcome) -> Outcome:
        """Return how a step ended, now that the transaction has. What stands nowhere in the queue for readers has no
        offset there: that at which it was written is ``stored``."""
        if self.type is OpType.OK:
            return outcome
        reason = "aborted" if self.type is OpType.FAIL else "it is unknown whether its transaction was committed"
        answer = outcome.answer
        stored = {"stored": answer.offset} if begun.asked["f"] == "send" and answer.offset >= 0 else {}
        answer = replace(answer, offset=-1, position=-1, value={**answer.value, **stored})
        return Outcome(self.type, answer, outcome.reason or reason)
