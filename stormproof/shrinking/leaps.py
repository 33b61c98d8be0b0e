"""Great leaps before the small steps: little load in a short time, with no fault, with one or two, or with all of them;
or else the run up to some fault, and of that the last faults alone.

A try costs as much as what it simulates. So a leap that fails in the wanted way saves most of what the search would
have cost, and one that does not has cost little.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stormproof.shrinking.document import Document, duration, seconds
from stormproof.shrinking.reductions import (
    SEVERAL,
    Attempt,
    fires_once,
    first_of,
    knobs,
    put,
    with_entries,
)
from stormproof.shrinking.trial import Trial

#: One of the faults of a document.
Entry = Mapping[str, Any]

#: Load before the first fault, and after the last one has ended.
BEFORE_S, AFTER_S = 1.0, 3.0
#: A leap leaves so much of each number of the load; the first one is the cheapest.
SHARES = (0.1, 1.0)
#: Of two faults that follow one another, so many are tried.
PAIRS = 8
#: Nothing leaps any more once the whole load is about as long as a leap.
SHORT_S = 2 * (BEFORE_S + AFTER_S)
#: What says when faults fire, not what they do.
WHICH = ("at", "draws")


def leap(document: Document, attempt: Attempt, seen: Trial, *, bare: bool = True) -> Document:
    """Return the first leap that fails in the wanted way; the document itself where none does. ``bare``: without any
    fault, too."""
    if seconds(document["duration"]) <= SHORT_S:
        return document
    far = first_of(attempt, [one for one in leaps(document, bare=bare) if one != document], document)
    if far is not document:
        return far
    begun = first_of(attempt, list(beginnings(document)), document)
    return first_of(attempt, list(ends(begun)), begun) if begun is not document else document


def leaps(document: Document, *, bare: bool = True) -> Iterator[Document]:
    """Yield leaps from the cheapest on: no fault, each kind of fault once, two that follow one another, and at last all
    of them in their own time."""
    entries = document.get("faults", ())
    some: list[Sequence[Entry]] = [[]] if bare and entries else []
    some += [[entry] for entry in _kinds(entries)]
    for share in SHARES:
        for chosen in some:
            yield _with_load(_alone(document, chosen), share)
    if len(entries) > 2:
        for pair in itertools.islice(_pairs(entries), PAIRS):
            yield _with_load(_alone(document, pair), SHARES[0])
    yield _with_load(document, SHARES[0])


def beginnings(document: Document) -> Iterator[Document]:
    """Yield the run up to the end of each of its faults, the shortest first. Such a try costs its part of the run, no
    more, and the history is the same up to there, so that what has failed by then fails again."""
    whole_s, entries = seconds(document["duration"]), document.get("faults", ())
    for end_s in sorted({_at_s(entry) + _length_s(entry) for entry in entries if fires_once(entry)}):
        left = [entry for entry in entries if not fires_once(entry) or _at_s(entry) <= end_s]
        length_s = round(end_s + AFTER_S + seconds(document.get("quiet", "0s")), 9)
        if length_s < whole_s:
            yield with_entries(put(document, ("duration",), duration(length_s)), left, key="faults")


def ends(document: Document) -> Iterator[Document]:
    """Yield the last fault alone, the last two, and so on, each as a leap with the whole load; all but the first at
    last."""
    timed = sorted(filter(fires_once, document.get("faults", ())), key=_at_s)
    others = [entry for entry in document.get("faults", ()) if not fires_once(entry)]
    for count in range(1, len(timed)):
        yield _alone(document, [*others, *timed[-count:]])


def _kinds(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the first entry of those that do the same."""
    first: dict[str, Entry] = {}
    for entry in entries:
        first.setdefault(_what(entry), entry)
    yield from first.values()


def _pairs(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Yield two that follow one another, of those that do the same the first ones."""
    first: dict[tuple[str, ...], Sequence[Entry]] = {}
    for pair in itertools.pairwise(sorted(filter(fires_once, entries), key=_at_s)):
        first.setdefault(tuple(map(_what, pair)), pair)
    yield from first.values()


def _what(entry: Entry) -> str:
    """Return what it does, whenever it does."""
    return repr({key: value for key, value in entry.items() if key not in WHICH})


def _at_s(entry: Entry) -> float:
    return seconds(entry["at"])


def _alone(document: Document, chosen: Sequence[Entry]) -> Document:
    """Return a short time with these faults only. They fire a moment after its beginning, as far apart as they did;
    those of which something else says when they fire have that moment and their own length."""
    first_s = min(map(_at_s, filter(fires_once, chosen)), default=0.0)
    moved, ends_s = [], [BEFORE_S]
    for entry in chosen:
        at_s = round(BEFORE_S + _at_s(entry) - first_s, 9) if fires_once(entry) else BEFORE_S
        moved.append({**entry, "at": duration(at_s)} if fires_once(entry) else entry)
        ends_s.append(at_s + _length_s(entry))
    length_s = round(max(ends_s) + AFTER_S + seconds(document.get("quiet", "0s")), 9)
    short = put(document, ("duration",), duration(min(seconds(document["duration"]), length_s)))
    return with_entries(short, moved, key="faults")


def _length_s(entry: Entry) -> float:
    """Return how long an entry of ``faults`` lasts, at most."""
    steps = [step for kind in SEVERAL for step in entry.get(kind, ())]
    return sum(seconds(one[key]) for one in (entry, *steps) for key in ("for", "rest", "after") if _is_time(one, key))


def _is_time(entry: Entry, key: str) -> bool:
    return isinstance(entry.get(key), str)


def _with_load(document: Document, share: float) -> Document:
    for knob in list(knobs(document, "workloads")) if share < 1 else ():
        value = knob.floor + (knob.value - knob.floor) * share
        document = knob.set(document, max(round(value), 1) if knob.whole else value)
    return document
