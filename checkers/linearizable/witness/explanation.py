"""Verdicts about linearizability in words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from checkers.linearizable.history import NIL, Argument, Function, History, Operation, Result, Undecided, Witness

#: So many operations of a witness are told in a sentence.
TOLD = 8
#: So many are drawn.
LANES = 24
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
}


def value(argument: Argument) -> str:
    """An argument as a person reads it: nil, ? for unknown, texts in their own letters."""
    if argument is None:
        return "?"
    if isinstance(argument, int):
        return str(argument)
    if argument == NIL:
        return "nil"
    return json.dumps(json.loads(argument), ensure_ascii=False) if "\\u" in argument else argument


def call(operation: Operation, model: str) -> str:
    """What was called and what came back: ``cas 1 → 2``, ``read 4``, ``acquire (token 7)``."""
    name, arguments = _NAMES[operation.f], [value(argument) for argument in operation.arguments]
    if operation.f == Function.TXN:
        steps = [arguments[i : i + 3] for i in range(0, len(arguments), 3)]
        return "txn " + ", ".join(f"{'read' if f == '0' else 'write'} {key} {told}" for f, key, told in steps)
    if operation.f in (Function.ACQUIRE, Function.RELEASE):
        return f"{name} (token {arguments[1]})" if len(arguments) == 2 else name
    if model == "replica-info":
        told = f"{', '.join(arguments[2:])}" if "cas" in name else f"{', '.join(arguments[1:])}"
        epochs = f"epoch {arguments[0]}" + (f" → {arguments[1]}" if "cas" in name else "")
        return f"{name} {epochs} {{{told}}}"
    if operation.f in (Function.CAS, Function.CAS_FAILED):
        return f"{name} {' → '.join(arguments)}"
    if model == "set" and operation.f == Function.READ:
        return f"read {{{', '.join(arguments)}}}"
    if model == "set":
        answers = {"0": " (no)", "1": " (yes)"} if operation.f == Function.CONTAINS else {"0": " (no change)"}
        return f"{name} {arguments[0]}{answers.get(arguments[1], '')}"
    if operation.f == Function.DEQUEUE and arguments[0] == "nil":
        return "dequeue (empty)"
    return " ".join([name, *arguments])


def shown(history: History, result: Result) -> Sequence[int]:
    """The numbers of the operations that show the violation: the minimal sub-history, else what is known."""
    witness = result.witness
    if witness is None:
        return ()
    return witness.minimal or (*witness.prefix, witness.blocked)


def rows(history: History, result: Result) -> tuple[int, ...]:
    """The rows (lines, events) of these operations, in order."""
    operations = [history.operations[number] for number in shown(history, result)]
    return tuple(sorted({row for operation in operations for row in operation.rows if row >= 0}))


def sentence(history: History, result: Result) -> str:
    """Why a history is not linearizable."""
    witness = result.witness
    if witness is None:
        return f"history {history.id} is not linearizable as a {history.model}"
    of = f"{history.model} {value(witness.key)}" if witness.key is not None else history.model
    numbers = shown(history, result)
    told = [f"process {history.operations[n].process} {call(history.operations[n], history.model)}" for n in numbers]
    left = len(told) - TOLD
    parts = told[:TOLD] + ([f"and {left} more"] if left > 0 else [])
    why = reason(history, witness) or blocked(history, result)
    return f"{of} of history {history.id}: {why}; these calls have no lawful order: {'; '.join(parts)}"


def reason(history: History, witness: Witness) -> str:
    """The pattern that an algorithm found, which names operations by number; in words, "" where there is none."""

    def words(found: re.Match[str]) -> str:
        number = int(found[1])
        if number >= len(history.operations):
            return found[0]
        operation = history.operations[number]
        return f"{call(operation, history.model)} by process {operation.process}"

    return re.sub(r"\boperation (\d+)\b", words, witness.reason)


def blocked(history: History, result: Result) -> str:
    """Which operation can't be placed, and in which states it was tried."""
    witness = result.witness
    if witness is None or witness.blocked < 0:
        return "no order of its operations is lawful"
    operation = history.operations[witness.blocked]
    states = list(dict.fromkeys(end.state for end in witness.dead_ends))
    where = f"; the state there: {' or '.join(states[:3])}" if states else ""
    return f"{call(operation, history.model)} by process {operation.process} can't be placed{where}"


def gap(one: Undecided) -> str:
    """What could not be decided of one object, and how far it got."""
    key = f"{value(one.key)}: " if one.key is not None else ""
    far = f" after {one.placed} of {one.of} operations" if one.of else ""
    reason = {"time": "the time was up", "memory": "the memory was used up"}.get(one.reason, one.reason)
    return f"{key}{reason}{far}"


def undecided(result: Result) -> str:
    """What could not be decided of a history."""
    parts = [f"history {result.id}: {gap(one)}" for one in result.undecided]
    return "; ".join(parts) or f"history {result.id} could not be decided"


def story(history: History, result: Result) -> list[str]:
    """A violation for a terminal: why, and the fewest operations that show it as lanes over the events."""
    witness = result.witness
    if witness is None:
        return []
    of = f" of {value(witness.key)}" if witness.key is not None else ""
    lines = [reason(history, witness) or blocked(history, result)]
    if witness.reason and witness.blocked >= 0:
        lines.append(blocked(history, result))
    numbers = sorted(shown(history, result), key=lambda number: history.operations[number].call)
    lines.append(f"these {len(numbers)} calls{of} have no lawful order:")
    return lines + _lanes([history.operations[number] for number in numbers[:LANES]], history.model)


def _lanes(operations: Sequence[Operation], model: str) -> list[str]:
    """One line an operation: process, call, rows, and a bar from call to return over the events that matter."""
    places = sorted({place for one in operations for place in (one.call, one.ret) if place is not None})
    column = {place: 2 * number for number, place in enumerate(places)}
    width = 2 * len(places)
    told = [(f"process {one.process}", call(one, model)) for one in operations]
    first, second = (max(len(words[part]) for words in told) for part in (0, 1))
    lines = []
    for one, (process, words) in zip(operations, told, strict=True):
        begin, end = column[one.call], width if one.ret is None else column[one.ret]
        bar = " " * begin + "├" + "─" * (end - begin - 1) + ("┤" if one.ret is not None else "╌ never returned")
        rows = "-".join(str(row) for row in one.rows if row >= 0)
        lines.append(f"  {process:<{first}}  {words:<{second}}  {bar:<{width}}  [{rows}]")
    return lines
