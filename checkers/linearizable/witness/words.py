"""One call in words: what was called and what came back, and why it is illegal in a state."""

from __future__ import annotations

import json
from collections.abc import Sequence

from checkers.linearizable.history import NIL, Argument, Function, Operation

_NAMES = {
    Function.READ: "read",
    Function.WRITE: "write",
    Function.CAS: "cas",
    Function.CAS_FAILED: "failed cas",
    Function.APPEND: "append",
    Function.DELETE: "delete",
    Function.ACQUIRE: "acquire",
    Function.RELEASE: "release",
    Function.ADD: "add",
    Function.REMOVE: "remove",
    Function.CONTAINS: "contains",
    Function.ENQUEUE: "enqueue",
    Function.DEQUEUE: "dequeue",
    Function.TXN: "txn",
    Function.DRAINED: "drain (empty)",
}


def value(argument: Argument) -> str:
    """Return an argument as a person reads it: nil, ? for unknown, texts in their own letters."""
    if argument is None:
        return "?"
    if isinstance(argument, int):
        return str(argument)
    if argument == NIL:
        return "nil"
    return json.dumps(json.loads(argument), ensure_ascii=False) if "\\u" in argument else argument


def call(operation: Operation, model: str) -> str:
    """Return what was called and what came back: ``cas 1 → 2``, ``read 4``, ``acquire (token 7)``."""
    name, arguments = _NAMES[operation.f], [value(argument) for argument in operation.arguments]
    if operation.f == Function.TXN:
        steps = [arguments[i : i + 3] for i in range(0, len(arguments), 3)]
        return "txn " + ", ".join(f"{'read' if f == '0' else 'write'} {key} {content}" for f, key, content in steps)
    if operation.f in (Function.ACQUIRE, Function.RELEASE):
        return f"{name} (token {arguments[1]})" if len(arguments) == 2 else name
    if model == "replica-info":
        changes = operation.f in (Function.CAS, Function.CAS_FAILED)
        epochs = f"epoch {arguments[0]}" + (f" → {arguments[1]}" if changes else "")
        return f"{name} {epochs} {members(operation.arguments[2 if changes else 1 :])}"
    if operation.f in (Function.CAS, Function.CAS_FAILED):
        return f"{name} {' → '.join(arguments)}"
    if model == "set" and operation.f == Function.READ:
        return f"read {members(operation.arguments)}"
    if model == "set":
        answers = {"0": " (no)", "1": " (yes)"} if operation.f == Function.CONTAINS else {"0": " (no change)"}
        return f"{name} {arguments[0]}{answers.get(arguments[1], '')}"
    if operation.f == Function.DRAINED:
        return name
    if operation.f == Function.DEQUEUE and arguments[0] == "nil":
        return "dequeue (empty)"
    if operation.f == Function.DEQUEUE and len(arguments) > 1:
        return f"dequeue {arguments[0]} (in a drain)"
    return " ".join([name, *arguments])


def illegal(operation: Operation, model: str, state: str) -> str:
    """Say why the operation is illegal on that state."""
    arguments = [value(argument) for argument in operation.arguments]
    match operation.f:
        case Function.READ:
            return f"it read {_content(model, operation.arguments)}, the object then holds {state}"
        case Function.CAS:
            return f"it changed what was {_expected(model, arguments)}, the object then holds {state}"
        case Function.CAS_FAILED:
            return f"it found another one than {_expected(model, arguments)}, the object then holds {state}"
        case Function.ADD | Function.REMOVE | Function.CONTAINS if model == "set":
            found = operation.arguments[1] == (0 if operation.f is Function.ADD else 1)
            return f"it found {arguments[0]} {'in' if found else 'not in'} the set, which then is {state}"
        case Function.DEQUEUE | Function.DRAINED:
            found_empty = operation.f is Function.DRAINED or operation.arguments[0] == NIL
            return f"it {'found nothing' if found_empty else f'took {arguments[0]}'}, the queue then is {state}"
        case Function.ACQUIRE | Function.RELEASE:
            return f"the lock then is {state}"
        case _:
            return f"it does not fit {state}"


def members(arguments: Sequence[Argument]) -> str:
    """Several values without order: ``{1, 2}``."""
    return "{" + ", ".join(map(value, arguments)) + "}"


def _content(model: str, arguments: Sequence[Argument]) -> str:
    if model == "replica-info":
        return f"epoch {value(arguments[0])} {members(arguments[1:])}"
    return members(arguments) if model == "set" else " ".join(map(value, arguments))


def _expected(model: str, arguments: Sequence[str]) -> str:
    return f"epoch {arguments[0]}" if model == "replica-info" else arguments[0]
