"""The sequential specifications, in their plainest form: what one operation does to one object.

``jvm/stormproof/model/*Model.java`` say the same once more for the fast checker; the differential
tests hold the two together. A state is immutable and hashable; equal states are equal objects of Python.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from chaos.errors import BadInput
from checkers.linearizable.history import NIL, Argument, Function, Operation

#: Each model knows what its own states are.
State = Any
Arguments = tuple[Argument, ...]

#: The empty string, as a JSON text.
EMPTY = '""'

#: Kinds of operation that never change a state, whatever their arguments.
OBSERVERS = frozenset({Function.READ, Function.CONTAINS, Function.CAS_FAILED})


class Model(Protocol):
    """One object's behaviour when operations come one after another."""

    def initial(self, init: Arguments) -> State: ...

    def step(self, state: State, f: Function, arguments: Arguments) -> State | None:
        """Return the state after the operation, None where it is illegal. Raises BadInput: no such operation here."""

    def observes(self, f: Function, arguments: Arguments) -> bool:
        """Return whether the operation leaves every state in which it is legal as it is."""

    def describe(self, state: State) -> str:
        """Return the state's content, for people."""


def model_named(name: str) -> Model:
    """Return the model of that name. Raises BadInput: there is none."""
    if name not in _BY_NAME:
        raise BadInput(f"no model {name!r}: expected one of {', '.join(MODELS)}")
    return _BY_NAME[name]


def restricts_nothing(operation: Operation) -> bool:
    """Say whether no history is the less linearizable for this operation: an observation that crashed, or whose result
    is unknown."""
    return operation.f in OBSERVERS and (operation.ret is None or None in operation.arguments)


def _unfit(f: Function, what: str) -> BadInput:
    return BadInput(f"{what} has no operation {f.name.lower()}")


class _Register:
    """One value. ``register`` and ``cas-register`` are one model under two names."""

    def initial(self, init: Arguments) -> State:
        return init[0] if init else NIL

    def step(self, state: State, f: Function, arguments: Arguments) -> State | None:
        if f is Function.READ:
            return state if arguments[0] is None or arguments[0] == state else None
        if f is Function.WRITE:
            return arguments[0]
        if f is Function.CAS:
            return arguments[1] if state == arguments[0] else None
        if f is Function.CAS_FAILED:
            return state if state != arguments[0] else None
        raise _unfit(f, "a register")

    def observes(self, f: Function, arguments: Arguments) -> bool:
        return f in OBSERVERS or (f is Function.CAS and arguments[0] == arguments[1])

    def describe(self, state: State) -> str:
        return "nil" if state == NIL else str(state)


class _KeyValue:
    """The value of one key of a map: put, get, append, delete. A state: (value, what an absent one reads as); a map
    that starts with "" takes nil for "" everywhere."""

    def initial(self, init: Arguments) -> State:
        value = init[0] if init else NIL
        return (value, EMPTY if value == EMPTY else NIL)

    def step(self, state: State, f: Function, arguments: Arguments) -> State | None:
        old, absent = state
        if f is Function.DELETE:
            return (absent, absent)
        value = absent if arguments[0] == NIL else arguments[0]
        if f is Function.READ:
            return state if value is None or value == old else None
        if f is Function.WRITE:
            return (value, absent)
        if f is Function.APPEND:
            return (f'"{self._content("" if old == NIL else old)}{self._content(arguments[0])}"', absent)
        raise _unfit(f, "a map")

    def observes(self, f: Function, arguments: Arguments) -> bool:
        return f is Function.READ

    def describe(self, state: State) -> str:
        return str(state[0])

    @staticmethod
    def _content(text: Any) -> str:
        """Return a JSON string without its quotes: escaped texts, joined, mean what they meant. Else the text."""
        return str(text[1:-1] if text.startswith('"') else text)


class _MultiRegister:
    """Several registers under atomic transactions. A state holds (key, value) pairs, sorted, nil ones left out."""

    def initial(self, init: Arguments) -> State:
        return self._frozen({str(key): str(value) for key, value in zip(init[::2], init[1::2], strict=True)})

    def step(self, state: State, f: Function, arguments: Arguments) -> State | None:
        if f is not Function.TXN:
            raise _unfit(f, "a multi-register")
        values = dict(state)
        for what, key, value in zip(arguments[::3], arguments[1::3], arguments[2::3], strict=True):
            if what == Function.WRITE:
                values[key] = value
            elif value is not None and values.get(key, NIL) != value:
                return None
        return self._frozen(values)

    def observes(self, f: Function, arguments: Arguments) -> bool:
        return Function.WRITE not in arguments[::3]

    def describe(self, state: State) -> str:
        pairs: tuple[tuple[str, str], ...] = state
        return ", ".join(f"{key} = {value}" for key, value in pairs) or "all nil"

    @staticmethod
    def _frozen(values: Mapping[str, str]) -> State:
        return tuple(sorted((key, value) for key, value in values.items() if value != NIL))


class _Mutex:
    """Held or free; who holds it is not asked, as in Knossos."""

    def initial(self, init: Arguments) -> State:
        return bool(init and init[0])

    def step(self, state: State, f: Function, arguments: Arguments) -> State | None:
        if f not in (Function.ACQUIRE, Function.RELEASE):
            raise _unfit(f, "a mutex")
        acquire = f is Function.ACQUIRE
        return acquire if state != acquire else None

    def observes(self, f: Function, arguments: Arguments) -> bool:
        return False

    def describe(self, state: State) -> str:
        return "held" if state else "free"


class _FencedLock:
    """A lock whose holders get growing tokens. A state: (holder or -1, last token, whether the holder's is known).

    An unknown token counts as the smallest possible one, which leaves the most room for those after it, until a
    release names it.
    """

    def initial(self, init: Arguments) -> State:
        return (init[0] if init else -1, init[1] if len(init) > 1 else -math.inf, True)

    def step(self, state: State, f: Function, arguments: Arguments) -> State | None:
        holder, last, known = state
        process, token = arguments
        if f is Function.ACQUIRE:
            if holder != -1 or (token is not None and token <= last):
                return None
            return (process, last + 1, False) if token is None else (process, token, True)
        if f is Function.RELEASE:
            fits = token is None or (token == last if known else token >= last)
            return (-1, last if token is None else token, True) if holder == process and fits else None
        raise _unfit(f, "a fenced lock")

    def observes(self, f: Function, arguments: Arguments) -> bool:
        return False

    def describe(self, state: State) -> str:
        holder, last, known = state
        token = "no known token" if last == -math.inf else f"token {last}"
        return f"free, last {token}" if holder == -1 else f"held by {holder}, {'' if known else 'at least '}{token}"


class _Set:
    """A set of values."""

    def initial(self, init: Arguments) -> State:
        return frozenset(init)

    def step(self, state: State, f: Function, arguments: Arguments) -> State | None:
        elements: frozenset[Argument] = state
        if f is Function.READ:
            return state if None in arguments or elements == frozenset(arguments) else None
        element, answer = arguments
        present = element in elements
        if f is Function.CONTAINS:
            return state if answer is None or answer == present else None
        if f not in (Function.ADD, Function.REMOVE):
            raise _unfit(f, "a set")
        changes = present == (f is Function.REMOVE)
        if answer is not None and answer != changes:
            return None
        return elements | {element} if f is Function.ADD else elements - {element}

    def observes(self, f: Function, arguments: Arguments) -> bool:
        return f in OBSERVERS or arguments[1] == 0

    def describe(self, state: State) -> str:
        return "{" + ", ".join(sorted(map(str, state))) + "}"


class _FifoQueue:
    """First in, first out. A dequeue of nil found it empty; one of an unknown value took the front, if any."""

    def initial(self, init: Arguments) -> State:
        return tuple(init)

    def step(self, state: State, f: Function, arguments: Arguments) -> State | None:
        queue: tuple[Argument, ...] = state
        value = arguments[0]
        if f is Function.ENQUEUE:
            return (*queue, value)
        if f is not Function.DEQUEUE:
            raise _unfit(f, "a queue")
        if value is None:
            return queue[1:]
        if value == NIL:
            return queue if not queue else None
        return queue[1:] if queue and queue[0] == value else None

    def observes(self, f: Function, arguments: Arguments) -> bool:
        return f is Function.DEQUEUE and arguments[0] == NIL

    def describe(self, state: State) -> str:
        return "[" + ", ".join(map(str, state)) + "]"


class _UnorderedQueue:
    """A dequeue may take any element that is in it. A state: (layers of elements, numbers of the drains that are over).

    Which element a dequeue of an unknown value took is left open. Between two layers stands such a dequeue: it took one
    of the elements in the layers before it. So up to the i-th of them at least i elements are in the layers; where it
    is just i, all of these are gone.
    """

    def initial(self, init: Arguments) -> State:
        return ((tuple(sorted(init, key=str)),), ())

    def step(self, state: State, f: Function, arguments: Arguments) -> State | None:
        layers, over = state
        value = arguments[0]
        if f is Function.ENQUEUE:
            return ((*layers[:-1], tuple(sorted((*layers[-1], value), key=str))), over)
        empty = layers == ((),)
        if f is Function.DRAINED:
            return (layers, tuple(sorted({*over, value}))) if empty else None
        if f is not Function.DEQUEUE:
            raise _unfit(f, "a queue")
        if empty or value == NIL:
            return state if empty and value in (NIL, None) else None
        if len(arguments) > 1 and arguments[1] in over:
            return None
        if value is None:
            return (self._settled((*layers, ())), over)
        after = self._without(layers, value)
        return None if after is None else (after, over)

    def observes(self, f: Function, arguments: Arguments) -> bool:
        return f is Function.DEQUEUE and arguments[0] == NIL

    def describe(self, state: State) -> str:
        layers, _ = state
        unseen = len(layers) - 1
        taken = f", {unseen} of them taken by dequeues that crashed" if unseen else ""
        return "{" + ", ".join(str(element) for layer in layers for element in layer) + "}" + taken

    def _without(self, layers: tuple[Arguments, ...], value: Argument) -> tuple[Arguments, ...] | None:
        """Without the value, of several the latest, which leaves the others the most choice; None where it can't be."""
        for place in reversed(range(len(layers))):
            if value in layers[place]:
                at = layers[place].index(value)
                left = (*layers[:place], (*layers[place][:at], *layers[place][at + 1 :]), *layers[place + 1 :])
                return self._settled(left)
        return None

    @staticmethod
    def _settled(layers: tuple[Arguments, ...]) -> tuple[Arguments, ...]:
        count, gone = 0, 0
        for place, layer in enumerate(layers[:-1], 1):
            count += len(layer)
            gone = place if count == place else gone
        return layers[gone:]


class _Counter:
    """A number."""

    def initial(self, init: Arguments) -> State:
        return init[0] if init else 0

    def step(self, state: State, f: Function, arguments: Arguments) -> State | None:
        if f is Function.ADD:
            return state + arguments[0]
        if f is Function.READ:
            return state if arguments[0] is None or arguments[0] == state else None
        raise _unfit(f, "a counter")

    def observes(self, f: Function, arguments: Arguments) -> bool:
        return f is Function.READ or arguments[0] == 0

    def describe(self, state: State) -> str:
        return str(state)


class _ReplicaInfo:
    """A broker group as its controller knows it (RIP-44): (epoch, member, member, ...), under compare-and-set."""

    def initial(self, init: Arguments) -> State:
        return tuple(init) if init else (0,)

    def step(self, state: State, f: Function, arguments: Arguments) -> State | None:
        info: Sequence[Argument] = state
        if f is Function.READ:
            return state if None in arguments or info == arguments else None
        if f is Function.WRITE:
            return arguments
        if f is Function.CAS:
            expected: Any = arguments[0]
            new: Any = expected + 1 if arguments[1] is None else arguments[1]
            return (new, *arguments[2:]) if info[0] == expected and new > expected else None
        if f is Function.CAS_FAILED:
            return state if info[0] != arguments[0] else None
        raise _unfit(f, "replica-info")

    def observes(self, f: Function, arguments: Arguments) -> bool:
        return f in OBSERVERS

    def describe(self, state: State) -> str:
        epoch, *members = state
        return f"epoch {epoch} {{{', '.join(map(str, members))}}}"


_BY_NAME: Mapping[str, Model] = {
    "register": _Register(),
    "cas-register": _Register(),
    "multi-register": _MultiRegister(),
    "mutex": _Mutex(),
    "fenced-lock": _FencedLock(),
    "kv": _KeyValue(),
    "set": _Set(),
    "fifo-queue": _FifoQueue(),
    "unordered-queue": _UnorderedQueue(),
    "counter": _Counter(),
    "replica-info": _ReplicaInfo(),
}

#: The names of all models.
MODELS = tuple(_BY_NAME)
#: The models that calculate with numbers; to all others values are texts.
CALCULATE = ("counter", "fenced-lock", "replica-info")
#: A check that is none of linearizability: what was put in must come out (``total_queue.py``).
TOTAL_QUEUE = "total-queue"
#: What a history can be judged as.
JUDGED_AS = (*MODELS, TOTAL_QUEUE)
