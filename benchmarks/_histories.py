"""Histories for the linearizability benchmark: what clients of a correct object see, and what a broken one shows."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from checkers.linearizable import NIL, Argument, Function, History, Operation

#: A choice of the next call: function, arguments as far as the caller knows them, key.
Call = tuple[Function, tuple[Argument, ...], str | None]
#: Applies a call to an object; the arguments with what the object answered, or None for a refusal.
Apply = Callable[[Function, tuple[Argument, ...], str | None], tuple[Argument, ...] | None]


@dataclass(slots=True)
class _Pending:
    operation: Operation
    applied: bool = False
    refused: bool = False


def record(
    name: str,
    model: str,
    rng: Random,
    *,
    clients: int,
    calls: int,
    choose: Callable[[], Call],
    apply: Apply,
    crashed: float = 0.0,
) -> History:
    """Let clients call an object concurrently; each call takes effect at one moment between its call and its return.
    A crashed call, one in ``1 / crashed``, took effect or did not; its client goes on under a new name."""
    done: list[Operation] = []
    pending: dict[int, _Pending] = {}
    lives = [0] * clients
    now, left = 0, calls
    while left or pending:
        client = rng.randrange(clients)
        if client not in pending:
            if left:
                f, arguments, key = choose()
                process = f"{client + lives[client] * clients}"
                pending[client] = _Pending(
                    Operation(process=process, f=f, arguments=arguments, call=now, ret=None, key=key)
                )
                now, left = now + 1, left - 1
            continue
        one = pending[client]
        if not one.applied:
            if rng.random() < crashed:  # it may have been applied just before, too
                if rng.random() < 0.5:
                    apply(one.operation.f, one.operation.arguments, one.operation.key)
                done.append(pending.pop(client).operation)
                lives[client] += 1
                continue
            answer = apply(one.operation.f, one.operation.arguments, one.operation.key)
            one.applied, one.refused = True, answer is None
            if answer is not None:
                one.operation = replace(one.operation, arguments=answer)
        else:
            if not one.refused:
                done.append(replace(one.operation, ret=now))
            now += 1
            del pending[client]
    return History(id=name, model=model, operations=sorted(done, key=lambda operation: operation.call))


# Objects


def register(state: str = NIL) -> Apply:
    states: dict[str | None, Argument] = {}

    def apply(f: Function, arguments: tuple[Argument, ...], key: str | None) -> tuple[Argument, ...] | None:
        now = states.get(key, state)
        if f is Function.READ:
            return (now,)
        if f is Function.CAS and now != arguments[0]:
            return None
        states[key] = arguments[-1]
        return arguments

    return apply


def key_value() -> Apply:
    states: dict[str | None, str] = {}

    def apply(f: Function, arguments: tuple[Argument, ...], key: str | None) -> tuple[Argument, ...]:
        now = states.get(key, "")
        if f is Function.READ:
            return (json.dumps(now),)
        text = json.loads(str(arguments[0]))
        states[key] = now + text if f is Function.APPEND else text
        return arguments

    return apply


def mutex() -> Apply:
    held = [False]

    def apply(f: Function, arguments: tuple[Argument, ...], key: str | None) -> tuple[Argument, ...] | None:
        if held[0] == (f is Function.ACQUIRE):
            return None
        held[0] = not held[0]
        return arguments

    return apply


def fifo_queue() -> Apply:
    waiting: deque[Argument] = deque()

    def apply(f: Function, arguments: tuple[Argument, ...], key: str | None) -> tuple[Argument, ...] | None:
        if f is Function.ENQUEUE:
            waiting.append(arguments[0])
            return arguments
        return (waiting.popleft() if waiting else NIL,)

    return apply


# Calls


def register_calls(rng: Random, values: int, *, cas: bool, keys: int = 0) -> Callable[[], Call]:
    def choose() -> Call:
        key = str(rng.randrange(keys)) if keys else None
        kind = rng.randrange(3 if cas else 2)
        value = str(rng.randrange(values))
        if kind == 0:
            return Function.READ, (None,), key
        if kind == 1:
            return Function.WRITE, (value,), key
        return Function.CAS, (str(rng.randrange(values)), value), key

    return choose


def key_value_calls(rng: Random, keys: int, puts: float = 0.05) -> Callable[[], Call]:
    numbers = iter(range(1 << 30))

    def choose() -> Call:
        key, number = str(rng.randrange(keys)), next(numbers)
        if rng.random() < 0.5:
            return Function.READ, (None,), key
        f = Function.WRITE if rng.random() < puts else Function.APPEND
        return f, (json.dumps(f"x {number} y"),), key

    return choose


def queue_calls(rng: Random, values: int = 0, lead: float = 0.5) -> Callable[[], Call]:
    """``values`` 0: each value is enqueued once. ``lead``: the share of enqueues."""
    numbers = iter(range(1 << 30))

    def choose() -> Call:
        if rng.random() >= lead:
            return Function.DEQUEUE, (None,), None
        return Function.ENQUEUE, (str(rng.randrange(values) if values else next(numbers)),), None

    return choose


def mutex_calls(rng: Random) -> Callable[[], Call]:
    return lambda: (rng.choice((Function.ACQUIRE, Function.RELEASE)), (), None)


# Lies


def with_a_lie(history: History, rng: Random) -> History:
    """One observation shows what another one showed."""
    observations = (Function.READ, Function.DEQUEUE)
    at = [n for n, one in enumerate(history.operations) if one.f in observations and one.ret is not None]
    if len(at) < 2:
        return history
    one, two = rng.sample(at, 2)
    operations = list(history.operations)
    operations[one] = replace(operations[one], arguments=operations[two].arguments)
    return replace(history, id=f"{history.id}-lie", operations=operations)


# The series


def small(count: int = 10_000) -> Iterator[History]:
    """Histories of 10 to 60 operations of five models, up to eight of them crashed, every third with a lie."""
    rng = Random(1)
    for number in range(count):
        clients, calls, crashed = rng.randrange(2, 9), rng.randrange(10, 61), rng.choice((0.0, 0.05, 0.15))
        made = _small(f"small-{number}", rng, number % 5, clients, calls, crashed)
        crashes = 0
        operations = []
        for operation in made.operations:
            crashes += operation.ret is None
            if operation.ret is not None or crashes <= 8:
                operations.append(operation)
        made = replace(made, operations=operations)
        yield with_a_lie(made, rng) if number % 3 == 0 else made


def _small(name: str, rng: Random, model: int, clients: int, calls: int, crashed: float) -> History:
    def make(name_of: str, choose: Callable[[], Call], apply: Apply) -> History:
        return record(
            name, name_of, rng, clients=clients, calls=calls, choose=choose, apply=apply, crashed=crashed
        )  # fmt: skip

    if model == 0:
        return make("register", register_calls(rng, 5, cas=False), register())
    if model == 1:
        return make("cas-register", register_calls(rng, 5, cas=True), register())
    if model == 2:
        return make("mutex", mutex_calls(rng), mutex())
    if model == 3:
        return make("fifo-queue", queue_calls(rng, rng.choice((0, 3))), fifo_queue())
    return replace(make("kv", key_value_calls(rng, 3), key_value()), init=('""',))


def queues(count: int = 40) -> Iterator[History]:
    """Histories of 1,000 to 12,000 calls: distinct or repeated values, few or none crashed, every second with a lie."""
    rng = Random(2)
    for number in range(count):
        calls = rng.randrange(1_000, 12_001)
        values = 0 if number % 4 < 2 else rng.choice((50, 500))
        crashed = rng.choice((0.0, 0.0, 3 / calls))
        made = record(
            f"queue-{number}",
            "fifo-queue",
            rng,
            clients=rng.choice((5, 10, 25)),
            calls=calls,
            choose=queue_calls(rng, values, lead=rng.choice((0.5, 0.6))),
            apply=fifo_queue(),
            crashed=crashed,
        )
        yield with_a_lie(made, rng) if number % 2 else made


def key_values(count: int = 4, clients: int = 50, calls: int = 4_000) -> Iterator[History]:
    """Yield maps under many clients; one key has a read that shows what another read of it showed, somewhere."""
    rng = Random(3)
    for number in range(count):
        made = record(
            f"kv-{number}",
            "kv",
            rng,
            clients=clients,
            calls=calls,
            choose=key_value_calls(rng, 10),
            apply=key_value(),
        )
        made = replace(made, init=('""',))
        if number % 2:
            key = str(rng.randrange(10))
            reads = [n for n, one in enumerate(made.operations) if one.key == key and one.f is Function.READ]
            one, two = rng.sample(reads, 2)
            operations = list(made.operations)
            operations[one] = replace(operations[one], arguments=operations[two].arguments)
            made = replace(made, id=f"{made.id}-lie", operations=operations)
        yield made


def many_crashed() -> Iterator[History]:
    """Crashed writes, equal or distinct, that nobody read; mutexes whose holders crashed; crashed compare-and-sets. A
    violation at the end makes the whole space count."""
    for count in (30, 60):
        for lie in (False, True):
            kind = "bad" if lie else "good"
            yield _crashed_writes(f"equal-writes-{count}-{kind}", ["1"] * count, lie)
            yield _crashed_writes(f"distinct-writes-{count}-{kind}", [str(10 + n) for n in range(count)], lie)
            yield _crashed_cas(f"cas-{count}-{kind}", count, lie)
            yield _crashed_holders(f"holders-{count}-{kind}", count, lie)


def _listed(name: str, model: str, calls: Sequence[tuple[Function, tuple[Argument, ...], bool]]) -> History:
    """Return a history of calls one after another; the crashed ones (False) never return."""
    operations = [
        Operation(process=str(n), f=f, arguments=arguments, call=2 * n, ret=2 * n + 1 if ok else None)
        for n, (f, arguments, ok) in enumerate(calls)
    ]
    return History(id=name, model=model, operations=operations)


def _crashed_writes(name: str, values: Sequence[str], lie: bool) -> History:
    crashed = [(Function.WRITE, (value,), False) for value in values]
    after: list[tuple[Function, tuple[Argument, ...], bool]] = []
    for n in range(7):
        after += [(Function.WRITE, (f"{n + 2}",), True), (Function.READ, (f"{n + 2}",), True)]
    after.append((Function.READ, ('"never written"' if lie else "8",), True))
    return _listed(name, "register", [*crashed, *after])


def _crashed_cas(name: str, count: int, lie: bool) -> History:
    calls: list[tuple[Function, tuple[Argument, ...], bool]] = [(Function.WRITE, ("0",), True)]
    calls += [(Function.CAS, (str(n % 5), str((n + 1) % 5)), False) for n in range(count)]
    calls += [(Function.READ, (str(n % 5),), True) for n in range(10)]
    calls.append((Function.READ, ("9" if lie else "4",), True))
    return _listed(name, "cas-register", calls)


def _crashed_holders(name: str, count: int, lie: bool) -> History:
    calls: list[tuple[Function, tuple[Argument, ...], bool]] = []
    for _ in range(count // 2):
        calls += [(Function.ACQUIRE, (), False), (Function.RELEASE, (), False)]
    calls += [(Function.ACQUIRE, (), True), (Function.RELEASE, (), True)] * 5
    if lie:
        calls += [(Function.ACQUIRE, (), True)] * (count // 2 + 2)
    return _listed(name, "mutex", calls)
