"""Many histories over the seam to a JVM: in batches that grow while it is quick, read and packed while it works."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any, Protocol

from chaos.errors import BadInput, ChaosError
from checkers.linearizable import total_queue
from checkers.linearizable.history import Argument, DeadEnd, Function, History, Operation, Result, Undecided, Witness
from checkers.linearizable.limits import Limits
from checkers.linearizable.models import CALCULATE, TOTAL_QUEUE
from checkers.linearizable.packing import LARGEST, UNKNOWN, pack

#: A batch that took less is followed by one twice as large, up to these bounds; so results stream, and small histories
#: cost no round trip each.
QUICK_S = 0.1
MOST_HISTORIES = 512
MOST_OPERATIONS = 40_000
#: A batch that has not been answered so long after its time was up never will be.
GRACE_S = 30.0
#: The JVM may be started so often again for one call of :func:`examine`.
MOST_DEATHS = 3
NO_EVENTS = "there is not one event in it: nothing to judge"
BEYOND = "it holds numbers, or adds up to some, that are beyond 64 bits: no checker calculates with them"
NO_CALLS = "all calls in it failed, or it is unknown what they did: nothing to judge"


class JvmDied(Exception):
    """The JVM ended, or answers no more, in the middle of a check."""


class Jvm(Protocol):
    """Something that checks batches. Raises :class:`JvmDied`."""

    def check(self, batch: bytes, limits: Limits) -> str: ...

    def kill(self) -> None: ...


def settled(history: History) -> Result | None:
    """Return the result for a history that needs no search, whatever engine would do it: one without any call, of which
    "linearizable" would be true and prove nothing, one with numbers that only some engines could hold, or one that is
    judged by a count."""
    if not history.operations and (not history.left_out or history.model == TOTAL_QUEUE):
        reading = history.reading
        expected = f"; expected {reading.expected}" if reading is not None and reading.expected else ""
        return undecided(history, NO_CALLS if history.left_out else NO_EVENTS + expected)
    if history.model in CALCULATE and _beyond(history):
        return undecided(history, BEYOND)
    return total_queue.examine(history) if history.model == TOTAL_QUEUE else None


def _beyond(history: History) -> bool:
    """Return whether a sum, or the difference of two, may not fit into 64 bits."""
    largest = _largest(history.init)
    if history.model != "counter":
        whole = max((_largest(one.arguments) for one in history.operations), default=0)
        return max(whole, largest) >= LARGEST  # the next epoch is one more
    added = sum(_largest(one.arguments) for one in history.operations if one.f is Function.ADD)
    seen = max((_largest(one.arguments) for one in history.operations if one.f is not Function.ADD), default=0)
    return max(largest + added, seen) > LARGEST // 2


def _largest(arguments: Sequence[Argument]) -> int:
    return max((abs(one) for one in arguments if isinstance(one, int)), default=0)


def undecided(history: History, reason: str) -> Result:
    """Return the result for a history about which nothing was found out."""
    completed = sum(operation.ret is not None for operation in history.operations)
    whole = Undecided(key=None, reason=reason, placed=0, of=completed)
    return Result(id=history.id, valid=None, ms=0.0, configs=0, peak_mib=0.0, undecided=(whole,))


#: What the JVM will have said, and how long it took it.
Answer = Future[tuple[str, float]]


@dataclass(slots=True)
class _Batch:
    """Histories that go over together, and the answer to come; ``settled`` has the results, by place, of those between
    them that need not go over."""

    histories: list[History]
    settled: dict[int, Result]
    answer: Answer


class Stream:
    """Reads and packs the next histories while the JVM is at those before. ``start`` gives the JVM, a new one when the
    last has died, and may raise :class:`chaos.errors.MachineError`; ``end`` ends one that nobody waits for."""

    def __init__(self, limits: Limits, start: Callable[[], Jvm], end: Callable[[], None]) -> None:
        self._limits = limits
        self._start = start
        self._end = end
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="linearizable")
        self._size = 1
        self._deaths = 0
        self._last_words = ""
        self._latest: Answer | None = None

    def results(self, histories: Iterable[History]) -> Iterator[Result]:
        waiting: deque[_Batch] = deque()
        source = iter(histories)
        failure: BaseException | None = None
        self._worker.submit(self._start)  # while the first history is being read
        try:
            while failure is None:
                group, failure = self._take(source)
                if group:
                    waiting.append(self._hand_over(group))
                elif failure is None:
                    break
                while len(waiting) > 1 or (waiting and waiting[0].answer.done()):
                    yield from self._receive(waiting.popleft())
            while waiting:
                yield from self._receive(waiting.popleft())
            if failure is not None:
                raise failure
        except BaseException:
            if self._latest is not None and not self._latest.done():
                self._end()  # nobody waits for its answer any more
            raise
        finally:
            self._worker.shutdown(wait=False, cancel_futures=True)

    def _take(self, source: Iterator[History]) -> tuple[list[History], BaseException | None]:
        """Return the next histories, and why there can be no more after them: what the reading raised."""
        group: list[History] = []
        operations = 0
        try:
            while len(group) < self._size and operations < MOST_OPERATIONS:
                history = next(source, None)
                if history is None:
                    break
                group.append(history)
                operations += len(history.operations)
        except ChaosError as error:
            return group, error
        return group, None

    def _hand_over(self, histories: list[History]) -> _Batch:
        known = {n: result for n, history in enumerate(histories) if (result := settled(history)) is not None}
        judged = [history for n, history in enumerate(histories) if n not in known]
        return _Batch(judged, known, self._submit(judged))

    def _submit(self, histories: list[History]) -> Answer:
        """Packed here, while the JVM is at the batch before."""
        try:
            packed = pack(histories)
        except BadInput as error:
            failed: Answer = Future()
            failed.set_exception(error)
            return failed
        self._latest = self._worker.submit(self._ask, packed)
        return self._latest

    def _ask(self, packed: bytes) -> tuple[str, float]:
        """In the worker: what the JVM says, and how long it took."""
        if self._deaths > MOST_DEATHS:
            raise JvmDied(self._last_words)
        jvm = self._start()
        begin = time.monotonic()
        return jvm.check(packed, self._limits), time.monotonic() - begin

    def _receive(self, batch: _Batch) -> Iterator[Result]:
        judged = iter(self._answered(batch.histories, batch.answer))
        for n in range(len(batch.histories) + len(batch.settled)):
            yield batch.settled[n] if n in batch.settled else next(judged)

    def _answered(self, histories: list[History], answer: Answer) -> Iterator[Result]:
        """Yield the results of a batch. If it fails as a whole, each history is tried alone, so that one that kills the
        JVM, or is none of its model, spoils no other."""
        patience_s = GRACE_S + len(histories) * (1.2 * self._limits.time_limit_s + 2)
        try:
            said, took_s = answer.result(timeout=patience_s)
            self._size = min(self._size * 2, MOST_HISTORIES) if took_s < QUICK_S else max(self._size // 2, 1)
            yield from (result_of(one, history) for one, history in zip(json.loads(said), histories, strict=True))
            return
        except FutureTimeout:
            self._end()
            self._died("it did not answer in time and was ended")
        except JvmDied as error:
            self._died(str(error))
        except BadInput:
            if len(histories) == 1:
                raise
        self._size = 1
        if len(histories) == 1 or self._deaths > MOST_DEATHS:
            yield from (undecided(history, f"the checker in Java failed: {self._last_words}") for history in histories)
            return
        for history in histories:
            yield from self._answered([history], self._submit([history]))

    def _died(self, last_words: str) -> None:
        if self._deaths <= MOST_DEATHS:
            self._deaths += 1
            self._last_words = last_words
            if self._deaths > MOST_DEATHS:
                self._last_words += f", for the {self._deaths}th time"


def result_of(found: Mapping[str, Any], history: History) -> Result:
    """Return what Java said of a history; operations by number."""
    valid = found["valid"]
    proof = found.get("witness")
    witness = None
    if proof is not None:
        ends = [
            DeadEnd(order=tuple(end["order"]), state=end["state"], illegal=tuple(end["illegal"]))
            for end in proof["dead_ends"]
        ]
        witness = Witness(
            key=proof["key"],
            reason=proof["reason"],
            prefix=tuple(proof["prefix"]),
            blocked=proof["blocked"],
            dead_ends=tuple(ends),
            minimal=tuple(proof["minimal"]),
        )
    return Result(
        id=history.id,
        valid=None if valid == "unknown" else valid,
        ms=found["ms"],
        configs=found["configs"],
        peak_mib=found["peak_mib"],
        undecided=tuple(
            Undecided(key=one["key"], reason=one["reason"], placed=one["placed"], of=one["of"])
            for one in found["undecided"]
        ),
        witness=witness,
        orders={one["key"]: tuple(one["order"]) for one in found.get("orders") or ()},
    )


def history_of(model: str, identity: str, rows: Mapping[str, Any]) -> History:
    """Return a history that came back from Spark by columns, as ``KeyRows.java`` writes them."""
    values, start, numbers = rows["values"], rows["start"], rows["arguments"]

    def argument(number: int) -> Argument:
        if number == UNKNOWN:
            return None
        return number if model == "counter" else str(values[number])

    operations = [
        Operation(
            process=str(process),
            f=Function(rows["f"][n]),
            arguments=tuple(map(argument, numbers[start[n] : start[n + 1]])),
            call=rows["call"][n],
            ret=None if rows["ret"][n] < 0 else rows["ret"][n],
        )
        for n, process in enumerate(rows["process"])
    ]
    return History(id=identity, model=model, operations=operations)
