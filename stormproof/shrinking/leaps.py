"""Great leaps before the small steps: little load in a short time, with no fault, with one, or with all of them.

A try costs as much as what it simulates. So a leap that fails in the wanted way saves most of what the search would
have cost, and one that does not has cost little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stormproof.shrinking.document import Document, duration, seconds
from stormproof.shrinking.reductions import (
    SEVERAL,
    Attempt,
    Hit,
    fires_once,
    first_of,
    knobs,
    put,
    with_entries,
)

#: Load before the fault, and after it has ended.
BEFORE_S, AFTER_S = 1.0, 3.0
#: A leap leaves so much of each number of the load; the first one is the cheapest.
SHARES = (0.1, 1.0)
#: Nothing leaps any more once the whole load is about as long as a leap.
SHORT_S = 2 * (BEFORE_S + AFTER_S)
#: What tells apart when faults fire, not what they do.
WHICH = ("at", "draws")


def leap(document: Document, attempt: Attempt, hit: Hit, *, bare: bool = True) -> Document:
    """The first leap that fails in the wanted way; the document itself where none does. ``bare``: without any fault,
    too."""
    if seconds(document["duration"]) <= SHORT_S:
        return document
    return first_of(attempt, [one for one in leaps(document, bare=bare) if one != document], document)


def leaps(document: Document, *, bare: bool = True) -> Iterator[Document]:
    """From the cheapest on: no fault, each kind of fault once, and at last all of them in their own time."""
    entries = document.get("faults", ())
    some: list[Sequence[Any]] = [[]] if bare and entries else []
    some += [[entry] for entry in _kinds(entries)]
    for share in SHARES:
        for chosen in some:
            yield _with_load(_alone(document, chosen), share)
    yield _with_load(document, SHARES[0])


def _kinds(entries: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The first entry of those that do the same."""
    seen = []
    for entry in entries:
        what = {key: value for key, value in entry.items() if key not in WHICH}
        if what not in seen:
            seen.append(what)
            yield entry


def _alone(document: Document, chosen: Sequence[Mapping[str, Any]]) -> Document:
    """A short time with at most one fault in it, a moment after the beginning where it says itself when it fires."""
    moved = [{**entry, "at": duration(BEFORE_S)} if fires_once(entry) else entry for entry in chosen]
    length_s = BEFORE_S + AFTER_S + sum(map(_length_s, chosen)) + seconds(document.get("quiet", "0s"))
    short = put(document, ("duration",), duration(min(seconds(document["duration"]), round(length_s, 9))))
    return with_entries(short, moved, key="faults")


def _length_s(entry: Mapping[str, Any]) -> float:
    """How long an entry of ``faults`` lasts, at most."""
    steps = [step for kind in SEVERAL for step in entry.get(kind, ())]
    return sum(seconds(one[key]) for one in (entry, *steps) for key in ("for", "rest", "after") if _is_time(one, key))


def _is_time(entry: Mapping[str, Any], key: str) -> bool:
    return isinstance(entry.get(key), str)


def _with_load(document: Document, share: float) -> Document:
    for knob in list(knobs(document, "workloads")) if share < 1 else ():
        value = knob.floor + (knob.value - knob.floor) * share
        document = knob.set(document, max(round(value), 1) if knob.whole else value)
    return document
