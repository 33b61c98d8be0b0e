"""What the kernel about readers needs of a large queue: little, as long as they come forward."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from chaos.kernel import Sieve
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import (
    NEVER,
    Flags,
    Highest,
    Ints,
    Line,
    among,
    distinct,
    first_in,
    groups,
    slots,
    stable_order,
)
from checkers._facts.reads import own
from checkers.progress.ends import told_ends
from checkers.progress.pulls import Pulls, processes, readers


def needed(rows: Rows) -> Ints:
    """Return the rows that are kept of a large queue. This is a sieve, given the first rows first.

    It keeps

    * what has not ended yet;
    * pulls in vain: those that were given nothing although the queue was known to go further, or whose answer said so;
      and questions for the committed offset that failed; of each, the poll of the same reader that came next;
    * pulls that asked a certain replica, and were given nothing by an answer which said that the queue goes further, or
      did not say how far;
    * pulls that were sent on to another offset than what was due;
    * of each reader of a queue the last poll, also the last one but for questions that have not ended yet; the first
      pull; and the one that asked for the highest offset;
    * of each queue the first send and the last one, the pulls that named the highest minimum, anywhere and as masters,
      and the first one that the tier alone gave something;
    * the highest end of a queue that anybody had named when a poll in vain began, and that is known now: of each node,
      in each epoch, as whatever replica it was asked, by each kind of row, since it is unknown yet who was master, and
      which of them show that there is a message.

    Of a pull that is kept, it keeps the delivery with the highest offset.
    """
    pulls, asks, sends = Pulls.of(rows), facts.calls(rows, "committed"), rows.memo(facts.sends)
    tops, queue = Tops.of(rows), rows.column("queue")
    known = tops.known_before(pulls.queue, pulls.invoke, len(rows))
    more = (pulls.of_master | (pulls.maximum < 0)) & ((known > pulls.asked) | (pulls.done < 0))
    vain = (pulls.count == 0) & ((pulls.maximum > pulls.asked) | more)
    odd = pulls.answered & (pulls.following >= 0) & (pulls.following != pulls.due)
    refused = np.flatnonzero(~asks.ok)
    next_pulls, next_asks = _polls(rows, pulls, vain, asks, refused)
    kept = Kept(rows)
    kept.pulls(pulls.number[vain | odd | next_pulls | _marks(rows, pulls)])
    kept.calls(asks, np.append(refused, next_asks))
    kept.calls(sends, _ends_of(queue[sends.invoke]))
    for f in ("send", "bounds"):
        kept.calls(facts.calls(rows, f), facts.calls(rows, f).done < 0)
    kept.pulls(np.flatnonzero(rows.memo(facts.pulls).done < 0))
    asked = asks.invoke[refused]
    kept.ends(tops.last())
    kept.ends(tops.before(queue[asked], asked, np.zeros(len(asked), dtype=np.int64)))
    kept.ends(tops.before(pulls.queue[vain], pulls.invoke[vain], pulls.asked[vain]))
    return kept.at()


def _telling_deliveries(rows: Rows) -> Ints:
    """Return the deliveries that show that a queue goes further than others had shown before in the same way; and of
    each pull the one with the highest offset, the first of several. A sieve."""
    at = rows.where(kind="op", f="delivered")
    at = at[stable_order(-rows.column("offset")[at])]
    order, firsts = groups(rows.column("queue")[at], rows.column("op")[at])
    return distinct(np.concatenate([at[order[firsts]], Tops.of(rows).at]))


#: The deliveries that say something to :func:`needed`, whatever came before them.
DELIVERIES = Sieve(
    rows=(own("op", "delivered"),),
    columns=("op", "type", "queue", "offset", "node", "epoch", "value"),
    keep=_telling_deliveries,
    streamed=True,
)


def _polls(rows: Rows, pulls: Pulls, vain: Flags, asks: facts.Calls, refused: Ints) -> tuple[Flags, Ints]:
    """Return the polls that came next after one in vain, and the last ones of each reader of a queue: which pulls, and
    which questions."""
    _, reader = readers(rows, np.concatenate([pulls.invoke, asks.invoke[refused]]))
    every = np.flatnonzero((pulls.demand == "") & pulls.of_master)
    invoke = np.append(pulls.invoke[every], asks.invoke[refused])
    queue = np.append(pulls.queue[every], rows.column("queue")[asks.invoke[refused]])
    who = np.append(reader[: len(pulls.invoke)][every], reader[len(pulls.invoke) :])
    in_vain = np.append(vain[every], np.ones(len(refused), dtype=np.bool_))
    # A question that has not ended yet is a poll only if it fails.
    sure = np.flatnonzero(np.append(np.ones(len(every), dtype=np.bool_), asks.done[refused] >= 0))
    found = np.append(
        _next_polls(queue, who, invoke, in_vain), sure[_next_polls(queue[sure], who[sure], invoke[sure], in_vain[sure])]
    )
    flags = np.zeros(len(pulls.invoke), dtype=np.bool_)
    flags[every[found[found < len(every)]]] = True
    tier = np.flatnonzero((pulls.demand == "tier") & pulls.ok & pulls.of_master)
    _, who = processes(rows, pulls.invoke[tier])
    flags[tier[_next_polls(pulls.queue[tier], who, pulls.invoke[tier], vain[tier])]] = True
    return flags, refused[found[found >= len(every)] - len(every)]


def _next_polls(queue: Ints, reader: Ints, invoke: Ints, in_vain: Flags) -> Ints:
    """Return the places of those that come next after one in vain, by who asks of which queue, and of the last ones."""
    order = stable_order(invoke)
    order = order[np.lexsort((reader[order], queue[order]))]
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = (queue[order][1:] != queue[order][:-1]) | (reader[order][1:] != reader[order][:-1])
    after = np.zeros(len(order), dtype=np.bool_)
    after[1:] = in_vain[order][:-1] & ~last[:-1]
    return order[last | after]


def _marks(rows: Rows, pulls: Pulls) -> Flags:
    """Return the pulls that show how far readers have come, and how queues begin."""
    _, reader = readers(rows, pulls.invoke)
    slot, _ = slots(pulls.queue, reader)
    asked = np.flatnonzero((pulls.demand == "") & pulls.of_master)
    given = np.flatnonzero((pulls.demand == "tier") & pulls.ok & pulls.of_master & (pulls.count > 0))
    by_anybody = np.flatnonzero(pulls.answered)
    by_masters = np.flatnonzero(pulls.answered & pulls.of_master)
    flags = np.zeros(len(pulls.invoke), dtype=np.bool_)
    flags[_first(slot)] = True
    flags[asked[_first(slot[asked], pulls.asked[asked])]] = True
    for some in (by_anybody, by_masters):
        flags[some[_first(pulls.queue[some], pulls.minimum[some])]] = True
    flags[given[_first(pulls.queue[given])]] = True
    return flags


def _first(key: Ints, value: Ints | None = None) -> Ints:
    """Return the place of the first of each key; where there are values, of its highest one."""
    highest = stable_order(-value) if value is not None else np.arange(len(key))
    order, firsts = groups(key[highest])
    return highest[order[firsts]]


def _ends_of(key: Ints) -> Ints:
    """Return the places of the first and the last of each key."""
    order, firsts = groups(key)
    return np.append(order[firsts], order[np.append(firsts[1:], len(order))[: len(firsts)] - 1])


@dataclass(frozen=True, slots=True)
class Tops:
    """Rows that named a higher end of a queue than had been named before in the same way, by way and then by row. Ways
    are numbers that ascend with the queue, and ``queues`` has that of each."""

    way: Ints
    at: Ints
    end: Ints
    queues: Ints

    @classmethod
    def of(cls, rows: Rows) -> Tops:
        at, end = told_ends(rows, by_sends=True)
        queue, node, epoch, f = (rows.column(name)[at] for name in ("queue", "node", "epoch", "f"))
        order, firsts = groups(queue, node, epoch, rows.labels("from", at)[0], f)
        at, end, queues = at[order], end[order], queue[order[firsts]]
        way = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(order))))
        rank = _ranks(end) if len(end) and int(end.max()) * len(firsts) >= NEVER // 2 else end
        highest = way * (int(rank.max(initial=0)) + 1) + rank
        np.maximum.accumulate(highest, out=highest)
        new = np.append(True, highest[1:] > highest[:-1])[: len(at)]
        return cls(way[new], at[new], end[new], queues)

    def known_before(self, queue: Ints, at: Ints, rows: int) -> Ints:
        """Return the highest end of each queue that had been named before its row, of so many; -1 without one."""
        return Highest(self.queues[self.way], self.at, self.end, rows).before(queue, at)

    def last(self) -> Ints:
        """Of each way the row of the highest end."""
        return self.at[np.append(self.way[1:] != self.way[:-1], True)[: len(self.at)]]

    def before(self, queue: Ints, at: Ints, above: Ints) -> Ints:
        """For each of these rows, of each way to name an end, the row that had named the highest one before, if
        that is above this offset."""
        first, until = (np.searchsorted(self.queues, queue, side=side) for side in ("left", "right"))
        number = until - first
        which = np.repeat(np.arange(len(queue)), number)
        way = np.arange(len(which)) - np.repeat(np.cumsum(number) - number, number) + np.repeat(first, number)
        line = Line.of(self.at, at)
        place = np.searchsorted(line.places(self.way, self.at), line.places(way, at[which])) - 1
        known = np.flatnonzero(place >= 0)
        known = known[self.way[place[known]] == way[known]]
        known = known[self.end[place[known]] > above[which[known]]]
        return distinct(self.at[place[known]])

    def after(self, queue: int, at: int, above: int) -> Ints:
        """Of each way to name an end, the first row from this one on that named one above this offset."""
        first, until = np.searchsorted(self.queues, queue), np.searchsorted(self.queues, queue, "right")
        found = []
        for begin, end in zip(
            *(np.searchsorted(self.way, range(first, until), side) for side in ("left", "right")), strict=True
        ):
            place = begin + max(
                np.searchsorted(part[begin:end], value, "right") for part, value in ((self.at, at), (self.end, above))
            )
            found += [int(self.at[place])] if place < end else []
        return np.array(found, dtype=np.int64)


def _ranks(end: Ints) -> Ints:
    """Return numbers from 0 on in the order of these."""
    return np.unique(end, return_inverse=True)[1]


class Kept:
    """Collects the rows that are kept; of each pull, the delivery of its highest offset as well."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._flags = np.zeros(len(rows), dtype=np.bool_)

    def calls(self, calls: facts.Calls, chosen: Flags | Ints) -> None:
        done = calls.done[chosen]
        self._flags[calls.invoke[chosen]] = True
        self._flags[done[done >= 0]] = True

    def pulls(self, numbers: Ints) -> None:
        self.calls(self._rows.memo(facts.pulls), numbers)
        given = self._rows.memo(_last_given)[numbers]
        self._flags[given[given >= 0]] = True

    def ends(self, at: Ints) -> None:
        """Keep rows that named ends, with the operations that they ended."""
        self._flags[at] = True
        for f in ("send", "bounds", "pull"):
            made = facts.calls(self._rows, f)
            ended = np.flatnonzero(made.done >= 0)
            ended = ended[among(made.done[ended], at)]
            (self.pulls if f == "pull" else partial(self.calls, made))(ended)

    def at(self) -> Ints:
        return np.flatnonzero(self._flags)


def _last_given(rows: Rows) -> Ints:
    """Of each pull the row of the highest offset that it delivered, the first of several; -1 for none."""
    read, pulls = rows.memo(facts.delivered), rows.memo(facts.pulls)
    known = np.flatnonzero(read.pull >= 0)
    known = known[stable_order(-rows.column("offset")[read.at[known]])]
    return first_in(read.pull[known], len(pulls.invoke), read.at[known])
