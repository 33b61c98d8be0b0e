"""What a client's call means: from the names and values that files use to the functions and arguments of the models.

The conventions are Knossos's: an ok read of nil was of an unknown value and restricts nothing; a crashed read neither;
a call that failed did not happen (see ``docs/linearizability.md``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from checkers.linearizable.formats.edn import DEEPEST, Set
from checkers.linearizable.history import NIL, Argument, Function

#: What a call did; None when it restricts nothing.
Meaning = tuple[Function, tuple[Argument, ...]] | None
HELD, FREE = 1, 0
NOBODY = -1


class Shape(Exception):
    """A value is not what its function needs: what was ``expected``, and what came."""

    def __init__(self, expected: str, got: object) -> None:
        super().__init__(expected)
        self.expected = expected
        self.got = got


@dataclass(slots=True)
class Call:
    """One call of a client: ``given`` with the invocation, ``result`` with the completion; ``outcome`` is ok, fail or
    info (also without any completion). ``number`` is the process as a dense number."""

    process: str
    number: int
    f: str
    given: Any
    key: str | None
    call: int
    row: int
    outcome: str = "info"
    result: Any = None
    ret: int | None = None
    ret_row: int = -1
    #: Why it failed, in the words of the file.
    why: str = ""
    #: An ok read of nil has seen nil.
    nil_observed: bool = False
    #: The order of its call among several that one event stands for.
    place: int = 0

    @property
    def asked(self) -> Any:
        """The value of a call that changes something: the invocation's, which the completion may repeat."""
        if self.result is None or self.result is self.given or self.outcome == "info":
            return self.given
        if self.given is not None and text(self.result) != text(self.given):
            raise Shape(f"the value of its invocation, {show(self.given)},", self.result)
        return self.result


def text(value: Any) -> str:
    """Return a value as canonical JSON: sorted keys, no spaces, ASCII; equal texts are equal values."""
    kind = type(value)
    if kind is int:
        return str(value)
    if kind is str:
        return _quoted(value)
    if value is None:
        return NIL
    return json.dumps(_without_sets(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


@lru_cache(maxsize=4096)
def _quoted(value: str) -> str:
    return json.dumps(value)


def _without_sets(value: Any, depth: int = 0) -> Any:
    """Return a value without sets. Raises ``RecursionError`` for what somebody who has less of the stack left could not
    read again."""
    if depth > DEEPEST:
        raise RecursionError
    if isinstance(value, Set):
        return {"#set": sorted(map(text, value))}
    if isinstance(value, list):
        return [_without_sets(one, depth + 1) for one in value]
    if isinstance(value, dict):
        return {name: _without_sets(one, depth + 1) for name, one in value.items()}
    return value


def show(value: object) -> str:
    """Return a value for a message: short."""
    shown = text(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


# Registers and maps.


def _read(call: Call) -> Meaning:
    if call.outcome != "ok" or (call.result is None and not call.nil_observed):
        return None
    return Function.READ, (text(call.result),)


def _write(call: Call) -> Meaning:
    return Function.WRITE, (text(call.asked),)


def _cas(call: Call) -> Meaning:
    return Function.CAS, _pair(call.asked)


def _cas_failed(call: Call) -> Meaning:
    return (Function.CAS_FAILED, _pair(call.asked)) if call.outcome == "ok" else None


def _pair(value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or isinstance(value, Set) or len(value) != 2:
        raise Shape("[expected, new]", value)
    return text(value[0]), text(value[1])


def _append(call: Call) -> Meaning:
    if not isinstance(call.asked, str):
        raise Shape("a string to append", call.asked)
    return Function.APPEND, (text(call.asked),)


def _delete(call: Call) -> Meaning:
    return Function.DELETE, ()


def _txn(call: Call) -> Meaning:
    steps = call.result if call.outcome == "ok" and call.result is not None else call.given
    if not isinstance(steps, list) or isinstance(steps, Set):
        raise Shape('a list of ["read" or "write", key, value]', steps)
    arguments: list[Argument] = []
    restricts = False
    for step in steps:
        function = _STEPS.get(str(step[0])) if isinstance(step, list) and len(step) == 3 else None
        if function is None:
            raise Shape('["read" or "write", key, value]', step)
        known = function == Function.WRITE or (call.outcome == "ok" and (step[2] is not None or call.nil_observed))
        restricts = restricts or (known and (call.outcome == "ok" or function == Function.WRITE))
        arguments += (int(function), text(step[1]), text(step[2]) if known else None)
    return (Function.TXN, tuple(arguments)) if restricts else None


_STEPS = {"read": Function.READ, "r": Function.READ, "write": Function.WRITE, "w": Function.WRITE}


# Locks.


def _acquire(call: Call) -> Meaning:
    return Function.ACQUIRE, ()


def _release(call: Call) -> Meaning:
    return Function.RELEASE, ()


def _acquire_fenced(call: Call) -> Meaning:
    return Function.ACQUIRE, (call.number, _token(call.result) if call.outcome == "ok" else None)


def _release_fenced(call: Call) -> Meaning:
    token = call.result if call.outcome == "ok" and call.result is not None else call.given
    return Function.RELEASE, (call.number, _token(token))


def _token(value: Any) -> int | None:
    return None if value is None else _whole(value, "a whole number, the fencing token,")


def _whole(value: Any, expected: str) -> int:
    if type(value) is not int:
        raise Shape(expected, value)
    return value


# Sets.


def _add(call: Call) -> Meaning:
    return Function.ADD, _changed(call)


def _remove(call: Call) -> Meaning:
    return Function.REMOVE, _changed(call)


def _contains(call: Call) -> Meaning:
    element, flag = _element(call)
    if call.outcome == "ok" and flag is None and call.result is not None and text(call.result) != element:
        raise Shape("true or false, whether the element was there,", call.result)
    return None if flag is None else (Function.CONTAINS, (element, flag))


def _changed(call: Call) -> tuple[Argument, ...]:
    element, flag = _element(call)
    if call.outcome == "ok" and flag is None and call.result is not None and text(call.result) != element:
        raise Shape("true or false, whether this changed the set, or the element again,", call.result)
    return element, flag


def _element(call: Call) -> tuple[str, int | None]:
    """Return the element, and what the answer said of it: true, false, or [element, true or false]; None: nothing."""
    element = text(call.given)
    answer = call.result if call.outcome == "ok" else None
    if isinstance(answer, bool) and (call.f == "contains" or text(answer) != element):
        return element, int(answer)
    if isinstance(answer, list) and len(answer) == 2 and isinstance(answer[1], bool) and text(answer[0]) == element:
        return element, int(answer[1])
    return element, None


def _read_all(call: Call) -> Meaning:
    if call.outcome != "ok" or call.result is None:
        return None
    if not isinstance(call.result, list):
        raise Shape("a list of all elements", call.result)
    return Function.READ, _elements(call.result)


def _elements(values: list[Any]) -> tuple[str, ...]:
    found = sorted(map(text, values))
    if len(set(found)) != len(found):
        raise Shape("each element of the set once", values)
    return tuple(found)


# Queues and counters.


def _enqueue(call: Call) -> Meaning:
    if call.asked is None:
        raise Shape("a value to enqueue, not null (which says of a dequeue that the queue was empty),", None)
    return Function.ENQUEUE, (text(call.asked),)


def _dequeue(call: Call) -> Meaning:
    return Function.DEQUEUE, (text(call.result) if call.outcome == "ok" else None,)


def _drain(call: Call) -> Meaning:
    raise AssertionError("a drain stands for several operations: drains.py")


def _count(call: Call) -> Meaning:
    amount = 1 if call.asked is None and call.f != "add" else _whole(call.asked, "a whole number to add")
    return Function.ADD, (-amount if call.f in ("decrement", "dec") else amount,)


def _read_count(call: Call) -> Meaning:
    if call.outcome != "ok" or call.result is None:
        return None
    return Function.READ, (_whole(call.result, "a whole number, the count,"),)


# The controller's metadata.


def _read_info(call: Call) -> Meaning:
    return (Function.READ, _info(call.result)) if call.outcome == "ok" and call.result is not None else None


def _write_info(call: Call) -> Meaning:
    return Function.WRITE, _info(call.asked)


def _cas_info(call: Call) -> Meaning:
    return Function.CAS, _info_change(call.asked)


def _cas_info_failed(call: Call) -> Meaning:
    return (Function.CAS_FAILED, _info_change(call.asked)) if call.outcome == "ok" else None


def _info(value: Any) -> tuple[Argument, ...]:
    """[epoch, [members]] or {"epoch": .., "members": [..]}."""
    expected = '[epoch, [members]] or {"epoch": .., "members": [..]}'
    parts = [value.get("epoch"), value.get("members", [])] if isinstance(value, dict) else value
    if not isinstance(parts, list) or len(parts) != 2 or not isinstance(parts[1], list):
        raise Shape(expected, value)
    return _whole(parts[0], expected), *_elements(parts[1])


def _info_change(value: Any) -> tuple[Argument, ...]:
    """Return the arguments of [expected epoch, new epoch or null, [members]], or of the same with names."""
    expected = '[expected epoch, new epoch, [members]] or {"expected": .., "epoch": .., "members": [..]}'
    parts = value
    if isinstance(value, dict):
        parts = [value.get("expected"), value.get("epoch"), value.get("members", [])]
    if not isinstance(parts, list) or len(parts) != 3 or not isinstance(parts[2], list):
        raise Shape(expected, value)
    new = None if parts[1] is None else _whole(parts[1], expected)
    return _whole(parts[0], expected), new, *_elements(parts[2])


def _named(*pairs: tuple[str, Callable[[Call], Meaning]]) -> Mapping[str, Callable[[Call], Meaning]]:
    return {name: meaning for names, meaning in pairs for name in names.split()}


_REGISTER = _named(
    ("read get r", _read), ("write put set w", _write), ("cas compare-and-set", _cas), ("cas-failed", _cas_failed)
)
_QUEUE = _named(("enqueue push offer", _enqueue), ("dequeue pop poll", _dequeue), ("drain", _drain))
#: By model, the names of its functions in lower case with dashes; the first of each is the usual one.
FUNCTIONS: Mapping[str, Mapping[str, Callable[[Call], Meaning]]] = {
    "register": _REGISTER,
    "cas-register": _REGISTER,
    "multi-register": _named(("txn transaction", _txn)),
    "mutex": _named(("acquire lock", _acquire), ("release unlock", _release)),
    "fenced-lock": _named(("acquire lock", _acquire_fenced), ("release unlock", _release_fenced)),
    "kv": _named(("get read", _read), ("put write set", _write), ("append", _append), ("delete del remove", _delete)),
    "set": _named(
        ("add insert", _add), ("remove delete del", _remove), ("contains", _contains), ("read get members", _read_all)
    ),
    "fifo-queue": _named(("enqueue push offer", _enqueue), ("dequeue pop poll", _dequeue)),
    "unordered-queue": _QUEUE,
    "total-queue": _QUEUE,
    "counter": _named(("add", _count), ("increment inc", _count), ("decrement dec", _count), ("read get", _read_count)),
    "replica-info": _named(
        ("read get", _read_info),
        ("cas compare-and-set", _cas_info),
        ("cas-failed", _cas_info_failed),
        ("write put", _write_info),
    ),
}


def first_state(model: str, init: Any, processes: Mapping[str, int], used: set[str]) -> tuple[Argument, ...]:
    """Return the arguments that describe a model's first state, from a value as a person writes it; None is the model's
    own (nil, free, empty, 0). ``processes`` are dense numbers; ``used`` are the keys of transactions that occur."""
    if init is None:
        return ()
    if model in ("register", "cas-register", "kv"):
        return (text(init),)
    if model == "multi-register":
        return _registers(init, used)
    if model == "mutex":
        if init not in (False, True, 0, 1, "free", "held"):
            raise Shape("true (held) or false (free) as the first state", init)
        return (HELD,) if init in (True, 1, "held") else ()
    if model == "fenced-lock":
        return _holder(init, processes)
    if model == "counter":
        return (_whole(init, "a whole number as the first state"),)
    if model == "replica-info":
        return _info(init)
    if not isinstance(init, list):
        raise Shape("a list of values as the first state", init)
    return _elements(init) if model == "set" else tuple(map(text, init))


def _registers(init: Any, used: set[str]) -> tuple[Argument, ...]:
    """{key: value, ...}, or [[key, value], ...] where keys are no strings. A number as a key of an object, which JSON
    makes a string, is a number again if that is what the transactions use."""
    if isinstance(init, dict):
        pairs = [(key if key in used and text(key) not in used else text(key), init[key]) for key in init]
    elif isinstance(init, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in init):
        pairs = [(text(key), value) for key, value in init]
    else:
        raise Shape('{"key": value, ...} as the first state', init)
    return tuple(argument for key, value in pairs for argument in (key, text(value)))


def _holder(init: Any, processes: Mapping[str, int]) -> tuple[Argument, ...]:
    expected = "[process or null, last token] as the first state"
    if not isinstance(init, list) or len(init) != 2:
        raise Shape(expected, init)
    holder = NOBODY if init[0] is None else processes.get(str(init[0]), len(processes))
    return holder, _whole(init[1], expected)
