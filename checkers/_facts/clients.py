"""Operations of clients, each with its end: sends, pulls, and the messages that they were given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER, Flags, Ints, Line, among, groups, places_in
from checkers._facts.run import phase_index

#: Of times without an acknowledged send, :func:`bounding_silence` keeps those that are longer than this.
SILENCE_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Calls:
    """Operations of one kind: an array element for each invocation. ``done`` is the position of the completion row or
    -1; ``ok`` and ``failed`` say how it ended; what is neither is unclear and may take effect at any later time.
    ``ended`` is the completion's index, the largest number for what is unclear."""

    invoke: Ints
    done: Ints
    began: Ints
    ended: Ints
    ok: Flags
    failed: Flags


def calls(rows: Rows, f: str) -> Calls:
    """All operations ``f``, in the order of their invocations."""
    known = rows.memo(_known_calls)
    if f not in known:
        known[f] = _paired(rows, f)
    return known[f]


def _known_calls(rows: Rows) -> dict[str, Calls]:
    return {}


def _paired(rows: Rows, f: str) -> Calls:
    index, op, kind = rows.column("index"), rows.column("op"), rows.column("type")
    every = rows.where(kind="op", f=f)
    begins = kind[every] == rows.code("type", "invoke")
    invoke, ends = every[begins], every[~begins]
    began = index[invoke]
    slot, known = places_in(began, op[ends])
    done = np.full(len(invoke), -1, dtype=np.int64)
    done[slot[known]] = ends[known]
    has = done >= 0
    outcome = np.where(has, kind[done], -3)
    ok, failed = outcome == rows.code("type", "ok"), outcome == rows.code("type", "fail")
    return Calls(
        invoke=invoke,
        done=done,
        began=began,
        ended=np.where(ok | failed, index[done], NEVER),
        ok=ok,
        failed=failed,
    )


def sends(rows: Rows) -> Calls:
    return calls(rows, "send")


def first_acknowledged(rows: Rows) -> Ints:
    """Keep of each queue, and each epoch, the send that was acknowledged first, of those that report an offset.
    A sieve."""
    return _first(rows, "send", by=("queue", "epoch"))


def first_answers(rows: Rows) -> Ints:
    """Keep of each queue, and of all that answered (each node in each epoch, as whatever replica it was asked), the
    answers that were the first to report the queue's end: of a send, a pull, and a look at its bounds. Those that
    failed besides: the answer to a pull from beyond the end says where that is. A sieve."""
    return np.concatenate(
        [_first(rows, f, by=("queue", "node", "epoch", "from", "type")) for f in ("send", "pull", "bounds")]
    )


def highest_commits(rows: Rows) -> Ints:
    """Keep of each queue and group the acknowledged commit of the highest offset, the first of several. A sieve."""
    found = calls(rows, "commit")
    mine = np.flatnonzero(found.ok)
    asked = found.invoke[mine]
    mine = mine[np.lexsort((asked, -rows.column("offset")[asked]))]
    asked = found.invoke[mine]
    order, firsts = groups(rows.column("queue")[asked], rows.labels("group", asked)[0])
    return rows_of(rows, "commit", mine[order[firsts]])


def lowest_pulls(rows: Rows) -> Ints:
    """Keep of each queue and group the pull that asked for the lowest offset, the first of several, however it ended. A
    negative one asks for the queue's begin. A sieve."""
    asked = calls(rows, "pull").invoke
    lowest = np.lexsort((asked, np.maximum(rows.column("offset")[asked], 0)))
    order, firsts = groups(rows.column("queue")[asked[lowest]], rows.labels("group", asked[lowest])[0])
    return rows_of(rows, "pull", lowest[order[firsts]])


def _first(rows: Rows, f: str, by: tuple[str, ...]) -> Ints:
    found = calls(rows, f)
    mine = np.flatnonzero(found.ok if f == "send" else found.ok | found.failed)
    end = found.done[mine]
    mine = mine[(rows.column("offset")[end] if f == "send" else rows.numbers("maximum", end)) >= 0]
    mine = mine[np.argsort(found.done[mine])]
    end = found.done[mine]
    order, firsts = groups(*(rows.column(name)[end] if name != "from" else rows.labels(name, end)[0] for name in by))
    return rows_of(rows, f, mine[order[firsts]])


def bounding_silence(rows: Rows) -> Ints:
    """Keep of each queue, and each second, the sends that were acknowledged first and last in it; so whatever lies
    further apart than a second of what is kept has nothing between. Besides: all sends that were tried while no other
    one was acknowledged for as long, those without an end, and the first and the last that were tried at all. A sieve.
    """
    sends, time = calls(rows, "send"), rows.column("time_ns")
    queue, number = np.unique(rows.column("queue")[sends.invoke], return_inverse=True)
    kept = sends.done < 0
    order, firsts = groups(number)
    kept[order[firsts]] = kept[order[np.append(firsts[1:], len(order))[: len(firsts)] - 1]] = True
    line = Line.of(time)
    good = np.flatnonzero(sends.ok)
    answered = line.places(number[good], time[sends.done[good]])
    order = np.argsort(answered, kind="stable")
    good, answered = good[order], answered[order]
    second = line.numbers(answered) // SILENCE_NS
    new = (number[good[1:]] != number[good[:-1]]) | (second[1:] != second[:-1])
    kept[good[np.append(True, new)[: len(good)]]] = kept[good[np.append(new, True)[: len(good)]]] = True
    asked = line.places(number, time[sends.invoke])
    after = np.searchsorted(answered, asked)
    bounds = np.concatenate([[-1], answered, [len(queue) * line.span]])
    low, high = bounds[after], bounds[after + 1]
    served = (line.keys(low) == number) & (line.keys(high) == number) & (high - low <= SILENCE_NS)
    return rows_of(rows, "send", np.flatnonzero(kept | ~served))


def pulls(rows: Rows) -> Calls:
    return calls(rows, "pull")


@dataclass(frozen=True, slots=True)
class Delivered:
    """Messages that clients read. ``pull`` is the number of the call in :func:`pulls`, -1 if that is missing."""

    at: Ints
    pull: Ints


def delivered(rows: Rows) -> Delivered:
    at = rows.where(kind="op", f="delivered")
    slot, known = places_in(rows.memo(pulls).began, rows.column("op")[at])
    return Delivered(at, np.where(known, slot, -1))


def drain_reads(rows: Rows) -> Flags:
    """Return which deliveries belong to the final reading: those that were asked for after the drain began, or, in a
    history without phases, by a process that also drained."""
    at = rows.where(kind="op", f="delivered")
    begin = phase_index(rows, "drain")
    if begin >= 0:
        return rows.column("op")[at] >= begin
    process = rows.column("process")
    provers = process[rows.beside.where(kind="op", f="drain")]
    return among(process[at], provers)


def rows_of(rows: Rows, f: str, chosen: Ints) -> Ints:
    """All rows of these calls (numbers in :func:`calls`), and the ends whose invocations aren't here: a streamed sieve
    may be given them later."""
    began = calls(rows, f).began
    every = rows.where(kind="op", f=f)
    begins = rows.column("type")[every] == rows.code("type", "invoke")
    op = np.where(begins, rows.column("index")[every], rows.column("op")[every])
    return every[among(op, began[chosen]) | ~among(op, began)]
