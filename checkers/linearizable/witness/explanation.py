"""Why a history is not linearizable, or what is undecided about it, in sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence

from checkers.linearizable import total_queue
from checkers.linearizable.history import History, Operation, Result, Undecided, Witness
from checkers.linearizable.witness.words import call, value

#: So many calls of a witness are named in a sentence.
MAX_NAMED = 8
#: So many are drawn in a terminal.
MAX_BARS = 24


def shown(history: History, result: Result) -> Sequence[int]:
    """Return the numbers of the operations that show the violation: the minimal sub-history, else what is known."""
    witness = result.witness
    if witness is None:
        return ()
    return witness.minimal or (*witness.prefix, witness.blocked)


def rows(history: History, result: Result) -> tuple[int, ...]:
    """Return the rows (lines, events) of these operations, in order."""
    if result.tally is not None:
        return result.tally.rows
    operations = [history.operations[number] for number in shown(history, result)]
    return tuple(sorted({row for operation in operations for row in operation.rows if row >= 0}))


def sentence(history: History, result: Result) -> str:
    """Say why a history is not linearizable."""
    witness = result.witness
    if result.tally is not None:
        return f"{history.model} of history {history.id}: {'; '.join(total_queue.sentences(result.tally))}"
    if witness is None:
        return f"history {history.id} is not linearizable as a {history.model}"
    of = f"{history.model} {value(witness.key)}" if witness.key is not None else history.model
    numbers = shown(history, result)
    calls = [f"process {history.operations[n].process} {call(history.operations[n], history.model)}" for n in numbers]
    left = len(calls) - MAX_NAMED
    parts = calls[:MAX_NAMED] + ([f"and {left} more"] if left > 0 else [])
    why = reason(history, witness) or blocked(history, result)
    text = f"{of} of history {history.id}: {why}; no order of these calls is allowed: {'; '.join(parts)}"
    reading = history.reading
    if reading is None or not reading.conventions:
        return text
    return f"{text} (read as {reading.format}: {'; '.join(reading.conventions)})"


def reason(history: History, witness: Witness) -> str:
    """Return in words the pattern that an algorithm found, which names operations by number; "" where there is none."""

    def words(found: re.Match[str]) -> str:
        number = int(found[1])
        if number >= len(history.operations):
            return found[0]
        operation = history.operations[number]
        return f"{call(operation, history.model)} by process {operation.process}"

    return re.sub(r"\boperation (\d+)\b", words, witness.reason)


def blocked(history: History, result: Result) -> str:
    """Return which operation can't be placed, and in which states it was tried."""
    witness = result.witness
    if witness is None or witness.blocked < 0:
        return "no order of its operations is allowed"
    operation = history.operations[witness.blocked]
    states = list(dict.fromkeys(end.state for end in witness.dead_ends))
    where = f"; the state there: {' or '.join(states[:3])}" if states else ""
    return f"{call(operation, history.model)} by process {operation.process} can't be placed{where}"


def undecided_object(one: Undecided) -> str:
    """Say what could not be decided of one object, and how far it got."""
    key = f"{value(one.key)}: " if one.key is not None else ""
    far = f" after {one.placed} of {one.of} operations" if one.of else ""
    reason = {"time": "the time was up", "memory": "the memory was used up"}.get(one.reason, one.reason)
    return f"{key}{reason}{far}"


def undecided(result: Result) -> str:
    """Say what could not be decided of a history."""
    parts = [f"history {result.id}: {undecided_object(one)}" for one in result.undecided]
    return "; ".join(parts) or f"history {result.id} could not be decided"


def lines(history: History, result: Result) -> list[str]:
    """Return what was found, for a terminal: of a total-queue what became of the elements; of a violation why, and the
    fewest calls that show it as bars over the events."""
    witness = result.witness
    if result.tally is not None:
        return total_queue.sentences(result.tally)
    if witness is None:
        return []
    of = f" of {value(witness.key)}" if witness.key is not None else ""
    found = [reason(history, witness) or blocked(history, result)]
    if witness.reason and witness.blocked >= 0:
        found.append(blocked(history, result))
    numbers = sorted(shown(history, result), key=lambda number: history.operations[number].call)
    found.append(f"no order of these {len(numbers)} calls{of} is allowed:")
    return found + _bars([history.operations[number] for number in numbers[:MAX_BARS]], history.model)


def _bars(operations: Sequence[Operation], model: str) -> list[str]:
    """One line an operation: process, call, rows, and a bar from call to return over the events that matter."""
    places = sorted({place for one in operations for place in (one.call, one.ret) if place is not None})
    column = {place: 2 * number for number, place in enumerate(places)}
    width = 2 * len(places)
    names = [(f"process {one.process}", call(one, model)) for one in operations]
    first, second = (max(len(words[part]) for words in names) for part in (0, 1))
    drawn = []
    for one, (process, words) in zip(operations, names, strict=True):
        begin, end = column[one.call], width if one.ret is None else column[one.ret]
        bar = " " * begin + "├" + "─" * (end - begin - 1) + ("┤" if one.ret is not None else "╌ never returned")
        rows = "-".join(str(row) for row in one.rows if row >= 0)
        drawn.append(f"  {process:<{first}}  {words:<{second}}  {bar:<{width}}  [{rows}]")
    return drawn
