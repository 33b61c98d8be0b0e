"""Histories for the differential tests: lawful ones from a correct object with random moments of effect, damaged copies
of these, and arbitrary ones. The same seed makes the same history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from checkers.linearizable.history import NIL, Function, History, Operation
from checkers.linearizable.models import MODELS, model_named

F = Function


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large and how wild a history is. ``values``: how many different ones; few make many equal operations."""

    operations: int = 8
    processes: int = 3
    crash: float = 0.1
    values: int = 3
    keys: int = 1
    linger: float = 0.4  # the chance that an open operation stays open at its turn: more of it, more overlap


def lawful(model: str, shape: Shape, seed: object) -> History:
    """Return a history that is linearizable by construction: each operation takes effect on a correct object at a
    moment between its call and its return, a crashed one at some later moment or never."""
    rng = Random(f"lawful {model} {shape} {seed}")
    init = _init(model, shape, rng)
    keys = [None] if shape.keys == 1 else [f"k{i}" for i in range(shape.keys)]
    world = _World(model, shape, rng, {key: model_named(model).initial(init) for key in keys})
    while world.left or world.open:
        world.turn()
    return _history(f"lawful-{model}-{seed}", model, init, world.done)


def damaged(model: str, shape: Shape, seed: object) -> History:
    """Return a lawful history after one to three changes, each of which may or may not break it."""
    history = lawful(model, shape, seed)
    rng = Random(f"damaged {model} {shape} {seed}")
    operations = list(history.operations)
    for _ in range(rng.randint(1, 3)):
        if operations:
            rng.choice((_result_changed, _result_changed, _swapped, _lost, _moved, _crashed))(
                model, shape, rng, operations
            )
    return _history(f"damaged-{model}-{seed}", model, history.init, operations)


def arbitrary(model: str, shape: Shape, seed: object) -> History:
    """Return operations with arbitrary results at arbitrary times."""
    rng = Random(f"arbitrary {model} {shape} {seed}")
    world = _World(model, shape, rng, {})
    moments = list(range(2 * shape.operations))
    rng.shuffle(moments)
    operations = []
    for i in range(shape.operations):
        process = rng.randrange(shape.processes)
        f, arguments = world.intent(process)
        call, ret = sorted(moments[2 * i : 2 * i + 2])
        if rng.random() < 0.5:
            ret = min((m for m in moments[2 * i : 2 * i + 2] if m > call), default=ret)
        crashed = rng.random() < shape.crash
        f, arguments = (f, arguments) if crashed else _told(model, shape, rng, f, arguments)
        key = None if shape.keys == 1 else f"k{rng.randrange(shape.keys)}"
        ret_or_none = None if crashed else ret
        operations.append(
            Operation(process=str(process), f=f, arguments=arguments, call=call, ret=ret_or_none, key=key)
        )
    return _history(f"arbitrary-{model}-{seed}", model, _init(model, shape, rng), operations)


def mixed(seed: int, *, operations: int = 12, models: tuple[str, ...] = MODELS) -> History:
    """Return one of all kinds: the seed decides on model, size, wildness and way of making it."""
    rng = Random(f"mixed {seed}")
    shape = Shape(
        operations=max(rng.randint(1, operations), rng.randint(1, operations)),
        processes=rng.choice((1, 2, 3, 4, 5, 8)),
        crash=rng.choice((0.0, 0.1, 0.3, 0.6)),
        values=rng.choice((1, 2, 3, 8, 30)),
        keys=rng.choice((1, 1, 1, 2)),
        linger=rng.choice((0.1, 0.4, 0.8)),
    )
    make = rng.choice((lawful, damaged, damaged, arbitrary))
    return make(models[seed % len(models)], shape, seed)


class _World:
    """Processes, an object per key, and the calls that are open."""

    def __init__(self, model: str, shape: Shape, rng: Random, states: dict[str | None, Any]) -> None:
        self.model = model
        self.shape = shape
        self.rng = rng
        self.states = states
        self.left = shape.operations
        self.open: list[dict[str, Any]] = []
        self.done: list[Operation] = []
        self.idle = list(range(shape.processes))
        self.names = shape.processes
        self.now = 0
        self.tokens: dict[int, tuple[str | None, int | None]] = {}  # holder's process -> key, token

    def turn(self) -> None:
        """Let one call begin, take effect, crash or return."""
        rng = self.rng
        if self.left and self.idle and (not self.open or rng.random() < 0.5):
            process = self.idle.pop(rng.randrange(len(self.idle)))
            f, arguments = self.intent(process)
            key = rng.choice(list(self.states))
            if f is F.RELEASE and process in self.tokens:
                key = self.tokens[process][0]
            call = {"process": process, "f": f, "arguments": arguments, "call": self.tick(), "key": key}
            self.open.append(call)
            self.left -= 1
            return
        if not self.open:
            return
        call = rng.choice(self.open)
        if "told" not in call:
            self.take_effect(call)
        elif call.get("crashed") or (not self.left and call.get("doomed")):
            self.open.remove(call)
        elif rng.random() >= self.shape.linger:
            self.finish(call)
        if call in self.open and not call.get("crashed") and rng.random() < self.shape.crash / 3:
            self.crash(call)

    def tick(self) -> int:
        self.now += 1
        return self.now

    def take_effect(self, call: dict[str, Any]) -> None:
        told = _settled(self.model, self.states[call["key"]], call["f"], call["arguments"], self.rng)
        if told is None:  # a lock that is not free: the call goes on waiting, or fails
            if self.rng.random() < 0.3:
                self.open.remove(call)
                if not call.get("crashed"):
                    self.idle.append(call["process"])
            return
        f, arguments = told
        self.states[call["key"]] = model_named(self.model).step(self.states[call["key"]], f, arguments)
        call["told"] = told
        if f is F.ACQUIRE and self.model == "fenced-lock":
            self.tokens[call["process"]] = (call["key"], arguments[1])
        if f is F.RELEASE:
            self.tokens.pop(call["process"], None)

    def crash(self, call: dict[str, Any]) -> None:
        """The client gives up; its call may still take effect, and the next client has another name."""
        call["crashed"] = True
        self.names += 1
        self.idle.append(self.names)
        self.done.append(self.operation(call, call["f"], call["arguments"], None))
        if "told" in call or self.rng.random() < 0.4:
            self.open.remove(call)

    def finish(self, call: dict[str, Any]) -> None:
        self.open.remove(call)
        self.idle.append(call["process"])
        f, arguments = call["told"]
        self.done.append(self.operation(call, f, arguments, self.tick()))

    def operation(self, call: dict[str, Any], f: Function, arguments: tuple[Any, ...], ret: int | None) -> Operation:
        return Operation(
            process=str(call["process"]), f=f, arguments=arguments, call=call["call"], ret=ret, key=call["key"]
        )

    def intent(self, process: int) -> tuple[Function, tuple[Any, ...]]:
        """Return what a client asks for; results are None."""
        rng, model = self.rng, self.model
        value = _value(model, self.shape, rng)
        other = _value(model, self.shape, rng)
        if model == "register":
            return rng.choice(((F.READ, (None,)), (F.WRITE, (value,))))
        if model == "cas-register":
            return rng.choice(
                ((F.READ, (None,)), (F.WRITE, (value,)), (F.CAS, (value, other)), (F.CAS, (value, other)))
            )
        if model == "kv":
            return rng.choice(((F.READ, (None,)), (F.WRITE, (value,)), (F.APPEND, (value,)), (F.DELETE, ())))
        if model == "multi-register":
            parts: list[Any] = []
            for _ in range(rng.randint(1, 3)):
                write = rng.random() < 0.5
                parts += [
                    int(F.WRITE if write else F.READ),
                    f'"{rng.choice("xy")}"',
                    _value(model, self.shape, rng) if write else None,
                ]
            return F.TXN, tuple(parts)
        if model == "mutex":
            return rng.choice((F.ACQUIRE, F.RELEASE)), ()
        if model == "fenced-lock":
            if process in self.tokens and rng.random() < 0.9:
                return F.RELEASE, (process, rng.choice((self.tokens[process][1], None)))
            return F.ACQUIRE, (process, None)
        if model == "set":
            asked = rng.choice((F.ADD, F.ADD, F.REMOVE, F.CONTAINS, F.READ))
            return (asked, (None,)) if asked is F.READ else (asked, (value, None))
        if model == "fifo-queue":
            fuller = 0.7 if self.shape.values > 2 else 0.5  # few values: often empty, too
            return (F.ENQUEUE, (value,)) if rng.random() < fuller else (F.DEQUEUE, (None,))
        if model == "unordered-queue":
            drain = rng.randrange(2)
            took = (F.DEQUEUE, rng.choice(((None,), (None,), (None, drain))))
            return rng.choice(((F.ENQUEUE, (value,)), (F.ENQUEUE, (value,)), took, took, (F.DRAINED, (drain,))))
        if model == "counter":
            return rng.choice(((F.ADD, (rng.randint(-1, self.shape.values),)), (F.READ, (None,))))
        epoch = rng.randrange(self.shape.values + 1)
        return rng.choice(
            ((F.READ, (None,)), (F.CAS, (epoch, None, value)), (F.CAS, (epoch, epoch + rng.randint(1, 2), value)))
        )


def _value(model: str, shape: Shape, rng: Random) -> str:
    number = rng.randrange(shape.values)
    return f'"{chr(97 + number % 26)}{number // 26 or ""}"' if model in ("kv", "replica-info") else str(number)


def _init(model: str, shape: Shape, rng: Random) -> tuple[Any, ...]:
    if rng.random() < 0.6:
        return ()
    value = _value(model, shape, rng)
    return {
        "kv": rng.choice(((value,), ('""',), ('""',))),
        "multi-register": ('"x"', value),
        "mutex": (rng.randrange(2),),
        "fenced-lock": rng.choice(((-1, 3), (99, 3))),
        "counter": (rng.randint(-2, 2),),
        "replica-info": (rng.randint(0, 2), value),
    }.get(model, (value,))


def _settled(
    model: str, state: Any, f: Function, arguments: tuple[Any, ...], rng: Random
) -> tuple[Function, tuple[Any, ...]] | None:
    """Return the operation as it is told when it takes effect on that state; None: it can't now."""
    if f is F.TXN:
        now, parts = dict(state), list(arguments)
        for i in range(0, len(parts), 3):
            if parts[i] == F.WRITE:
                now[parts[i + 1]] = parts[i + 2]
            else:
                parts[i + 2] = now.get(parts[i + 1], NIL)
        return f, tuple(parts)
    if f is F.READ:
        if rng.random() < 0.03:
            return f, (None,)
        if model == "set":
            return f, tuple(sorted(state))
        return f, {"replica-info": state, "kv": state[:1] if model == "kv" else None}.get(model, (state,))
    if f is F.CAS and model == "replica-info":
        if state[0] != arguments[0]:
            return F.CAS_FAILED, arguments[:1]
        return f, (arguments[0], arguments[1] or arguments[0] + 1, *arguments[2:])
    if f is F.CAS:
        return (f if state == arguments[0] else F.CAS_FAILED), arguments
    if model == "set":
        hidden = f is not F.CONTAINS and rng.random() < 0.2
        changes = (arguments[0] in state) == (f is not F.ADD)
        return f, (arguments[0], None if hidden else int(changes))
    if f is F.DEQUEUE and model == "unordered-queue":
        elements = [element for layer in state[0] for element in layer]
        told = (rng.choice(elements) if elements else NIL, *arguments[1:])
        return None if model_named(model).step(state, f, told) is None else (f, told)
    if f is F.DEQUEUE:
        return f, (state[0] if state else NIL,)
    if f is F.ACQUIRE and model == "fenced-lock":
        if state[0] != -1:
            return None
        last = 0 if state[1] == -float("inf") else state[1]
        arguments = (arguments[0], rng.choice((None, last + rng.randint(1, 3), last + 1)))
    return None if model_named(model).step(state, f, arguments) is None else (f, arguments)


def _told(
    model: str, shape: Shape, rng: Random, f: Function, arguments: tuple[Any, ...]
) -> tuple[Function, tuple[Any, ...]]:
    """Return the operation with an arbitrary result."""
    value = _value(model, shape, rng)
    if f is F.TXN:
        parts = list(arguments)
        for i in range(0, len(parts), 3):
            parts[i + 2] = rng.choice((value, NIL)) if parts[i + 2] is None else parts[i + 2]
        return f, tuple(parts)
    if f is F.READ:
        several = tuple(sorted({_value(model, shape, rng) for _ in range(rng.randrange(3))}))
        number = rng.randint(-2, 2 * shape.values)
        joined = '"' + "".join(_value("kv", shape, rng).strip('"') for _ in range(rng.randrange(3))) + '"'
        return f, {
            "set": several,
            "counter": (number,),
            "replica-info": (abs(number), value),
            "kv": (rng.choice((joined, NIL)),),
        }.get(model, (rng.choice((value, value, NIL)),))
    if f is F.CAS:
        failed = rng.random() < 0.3
        if model == "replica-info":
            return (
                (F.CAS_FAILED, arguments[:1])
                if failed
                else (f, (arguments[0], arguments[1] or arguments[0] + 1, *arguments[2:]))
            )
        return (F.CAS_FAILED if failed else f), arguments
    if model == "set":
        return f, (arguments[0], rng.choice((0, 1)) if f is F.CONTAINS else rng.choice((0, 1, 1, None)))
    if f is F.DEQUEUE:
        return f, (rng.choice((value, value, NIL)), *arguments[1:])
    if model == "fenced-lock":
        return rng.choice((F.ACQUIRE, F.RELEASE)), (arguments[0], rng.choice((None, rng.randint(1, 5))))
    return f, arguments


# The changes below happen in place.


def _result_changed(model: str, shape: Shape, rng: Random, operations: list[Operation]) -> None:
    place = rng.randrange(len(operations))
    operation = operations[place]
    if operation.ret is not None:
        f, arguments = operation.f, operation.arguments
        f = F.CAS if f is F.CAS_FAILED and model != "replica-info" else f
        if f is F.CAS_FAILED:
            return
        blank = (
            tuple(None if i % 3 == 2 and arguments[i - 2] == F.READ else a for i, a in enumerate(arguments))
            if f is F.TXN
            else arguments
        )
        f, arguments = _told(model, shape, rng, f, blank)
        operations[place] = replace(operation, f=f, arguments=arguments)


def _swapped(model: str, shape: Shape, rng: Random, operations: list[Operation]) -> None:
    one = rng.randrange(len(operations))
    alike = [i for i, o in enumerate(operations) if o.f == operations[one].f and o.ret is not None]
    if operations[one].ret is not None:
        other = rng.choice(alike)
        first, second = operations[one], operations[other]
        operations[one] = replace(first, arguments=second.arguments)
        operations[other] = replace(second, arguments=first.arguments)


def _lost(model: str, shape: Shape, rng: Random, operations: list[Operation]) -> None:
    operations.pop(rng.randrange(len(operations)))


def _moved(model: str, shape: Shape, rng: Random, operations: list[Operation]) -> None:
    place = rng.randrange(len(operations))
    operation = operations[place]
    if operation.ret is not None:
        length = rng.randint(1, 4)
        call = operation.call + rng.randint(-8, 8)
        # Fractions keep the moments apart until the history is numbered anew.
        operations[place] = replace(operation, call=call + 0.25, ret=call + length + 0.5)  # type: ignore[arg-type]


def _crashed(model: str, shape: Shape, rng: Random, operations: list[Operation]) -> None:
    place = rng.randrange(len(operations))
    operation = operations[place]
    if operation.f is not F.CAS_FAILED:
        arguments = operation.arguments
        if operation.f is F.DEQUEUE:
            arguments = (None, *arguments[1:])
        if model == "set" and operation.f is not F.READ:
            arguments = (arguments[0], None)
        operations[place] = replace(operation, arguments=arguments, ret=None)


def _history(id: str, model: str, init: tuple[Any, ...], operations: list[Operation]) -> History:
    return numbered(History(id=id, model=model, operations=[], init=init), operations)


def numbered(history: History, operations: list[Operation]) -> History:
    """Return the history with these operations instead, their events numbered from 0 and they in the order of calls.
    Moments may be any numbers; where two are equal, calls come first."""
    events = sorted(
        [(o.call, 0, i) for i, o in enumerate(operations)]
        + [(o.ret, 1, i) for i, o in enumerate(operations) if o.ret is not None]
    )
    position = {(kind, i): place for place, (_, kind, i) in enumerate(events)}
    renumbered = [
        replace(o, call=position[0, i], ret=None if o.ret is None else position[1, i]) for i, o in enumerate(operations)
    ]
    return replace(history, operations=sorted(renumbered, key=lambda o: o.call))
