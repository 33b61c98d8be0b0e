"""Violations that need no search to be seen, among the calls on one object of a run.

Calls are the JSON objects that :mod:`checkers.linearizable.law` gathers: ``f`` (a :class:`Function`), ``arguments``,
``called`` and ``ended`` (indices of rows, ``ended`` -1 when it is unknown), ``process``, ``node``, times in seconds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from checkers.linearizable.history import Argument, Function

Call = Mapping[str, Any]


def known_pattern(model: str, init: Sequence[Any], calls: Sequence[Call]) -> list[Call] | None:
    """Return the earliest violation that needs no search, as the few operations that prove it; None when there is none.

    For models whose states never come back: each epoch, and each text that is written, is made once. The patterns: two
    contents of one epoch, two changes of one epoch, and a state that is seen although another one had been seen or made
    since (a stale read, or a change of a stale state).
    """
    if model == "replica-info":
        return _earliest([*_two_of_one(calls), *_stale(calls, init[0], calls)])
    if model == "register":
        first = json.dumps(init[0])
        made = Counter([first, *(_made(call) for call in calls)])
        return _earliest(_stale(calls, first, [call for call in calls if made[_saw(call)] == 1]))
    return None


def _earliest(patterns: Sequence[list[Call]]) -> list[Call] | None:
    return min(patterns, key=lambda calls: max(call["ended"] for call in calls), default=None)


def _saw(call: Call) -> Argument:
    """Return the state that a completed operation found: an epoch, or a text; None for none."""
    return call["arguments"][0] if call["ended"] >= 0 and call["f"] in (Function.READ, Function.CAS) else None


def _made(call: Call) -> Argument:
    """Return the state that an operation leaves, or would leave, if it happens."""
    if call["f"] == Function.WRITE:
        made: Argument = call["arguments"][0]
        return made
    if call["f"] != Function.CAS:
        return None
    expected, new = call["arguments"][:2]
    return expected + 1 if new is None else new


def _two_of_one(calls: Sequence[Call]) -> list[list[Call]]:
    """Two completed changes of one epoch, and two contents of one epoch."""
    found = []
    changed: dict[Argument, Call] = {}
    content: dict[Argument, Call] = {}
    for call in sorted(calls, key=lambda call: call["ended"]):
        if call["ended"] < 0:
            continue
        if call["f"] == Function.CAS:
            other = changed.setdefault(call["arguments"][0], call)
            if other is not call:
                found.append([other, call])
        if call["f"] == Function.CAS or (call["f"] == Function.READ and isinstance(call["arguments"][0], int)):
            epoch, members = (_made(call), call["arguments"][2:]) if call["f"] == Function.CAS else _read(call)
            other = content.setdefault(epoch, call)
            there = other["arguments"][2:] if other["f"] == Function.CAS else other["arguments"][1:]
            if there != members:
                found.append([other, call])
    return found


def _read(call: Call) -> tuple[Argument, Sequence[Argument]]:
    return call["arguments"][0], call["arguments"][1:]


def _stale(calls: Sequence[Call], first: Argument, suspects: Sequence[Call]) -> list[list[Call]]:
    """Find who of the suspects saw a state after another operation, which had begun when that state was known, had
    ended with a later one."""
    by_end = sorted((call for call in calls if call["ended"] >= 0), key=lambda call: call["ended"])
    known: dict[Argument, Call] = {}
    for call in by_end:
        for state in (_saw(call), _made(call)):
            if state is not None:
                known.setdefault(state, call)
    found = []
    for late in suspects:
        state = _saw(late)
        if state is None:
            continue
        evidence = [] if state == first else [known[state]]
        since = max((call["ended"] for call in evidence), default=-1)
        newer = next((call for call in by_end if call["called"] > since and _moved_on(call, state)), None)
        if newer is None or newer["ended"] >= late["called"]:
            continue
        if not any(_made(call) == state for call in evidence):  # seen before anybody had the answer of making it
            evidence += [call for call in calls if _made(call) == state and call["called"] < since]
        found.append(_with_makers([*evidence, newer, late], calls))
    return found


def _with_makers(pattern: list[Call], calls: Sequence[Call]) -> list[Call]:
    """Add who wrote what the pattern's reads saw, where only one operation can have done that."""
    made = {_made(call) for call in pattern}
    for call in [call for call in pattern if call["f"] == Function.READ and _saw(call) not in made]:
        makers = [maker for maker in calls if _made(maker) == _saw(call)]
        if len(makers) == 1 and makers[0]["called"] < call["ended"] and makers[0] not in pattern:
            pattern.append(makers[0])
    return sorted(pattern, key=lambda call: call["called"])


def _moved_on(call: Call, state: Argument) -> bool:
    """Return whether the object had left this state when the operation ended. Epochs only grow."""
    now = _saw(call) if _made(call) is None else _made(call)
    if isinstance(now, int) and isinstance(state, int):
        return now > state
    return now not in (None, state)
