"""What stands beside the own rows of a shard where a queue is parted: what it needs to know of the other shards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.history.parted import numbers
from chaos.history.parted.choosing import Chooser, Flags, Ints, Part, Sieve
from chaos.ops import DELIVERED

#: Of the rows of all shards so many are held before their sieve is asked what it keeps of them.
HELD_ROWS = 1 << 18


class Beside:
    """Says for each shard of a part which rows stand beside its own.

    The blocks of a run are given from the last one to the first: once each to :meth:`learn`, then any number of times
    to :meth:`places`, from the last one again. ``number`` gives for each row of a block the shard that it is an own row
    of, -1 where there is none.
    """

    def __init__(self, part: Part) -> None:
        self._part = part
        self._summaries = [Summary(sieve) for sieve in part.summaries]
        self._callers = Callers()
        self._queues = Queues()
        self._kept: Ints | None = None

    @property
    def learns(self) -> bool:
        """Return whether anything depends on what stands in the shards."""
        return bool(self._part.summaries or self._part.callers or self._part.of_queues)

    def learn(self, block: pa.Table, chooser: Chooser, number: Ints) -> None:
        for summary in self._summaries:
            # what stands in no shard of this part is summed up as if it stood in one of its own
            summary.add(block, np.where(chooser.any_of(summary.sieve.rows), number + 1, -1))
        if self._part.callers:
            self._callers.learn(Operations.of(self._part, block, chooser, number))
        if self._part.of_queues:
            self._queues.learn(chooser.keys("queue"), number, chooser.of(self._part)[1])

    def places(self, block: pa.Table, chooser: Chooser, number: Ints) -> BesideRows | None:
        """None where nothing stands beside in this part."""
        if not self._part.has_beside:
            return None
        if self._kept is None:
            kept = [np.empty(0, np.int64), *(summary.kept() for summary in self._summaries)]
            self._kept, self._summaries = numbers.distinct(np.concatenate(kept)), []
        every = chooser.any_of(self._part.beside)
        if len(self._kept):
            every |= numbers.among(block["index"].to_numpy(), self._kept)
        of_queues = self._queues.places(chooser.keys("queue"), chooser.any_of(self._part.of_queues))
        if not self._part.callers:
            return BesideRows(every, number, of_queues, *np.empty((4, 0), np.int64))
        seen = Operations.of(self._part, block, chooser, number)
        return BesideRows(every, number, of_queues, seen.rows, seen.calls, *self._callers.of(seen))


@dataclass(frozen=True, slots=True)
class BesideRows:
    """The rows of one block that stand beside. ``every``: which do so in every shard; ``of_queues``: which do so in
    those of their queues; ``rows``: positions of those of
    operations, ``calls``: which operations; ``op`` and ``shard``: which of them stand where."""

    every: Flags
    number: Ints
    of_queues: OfQueues
    rows: Ints
    calls: Ints
    op: Ints
    shard: Ints

    def of(self, shard: int) -> Flags:
        """Which rows stand beside the own ones of this shard."""
        found = self.every.copy()
        found[self.of_queues.of(shard)] = True
        here = self.op[self.shard == shard]
        if len(here):
            found[self.rows[numbers.among(self.calls, here)]] = True
        return found & (self.number != shard)


@dataclass(frozen=True, slots=True)
class Operations:
    """Of one block: the rows (positions) of the operations that may stand beside, and which operations; which of them
    are ends; and the deliveries: of which operations, in which shards. ``least``: the lowest ``index``."""

    rows: Ints
    calls: Ints
    ends: Flags
    op: Ints
    shard: Ints
    early: Flags
    least: int

    @classmethod
    def of(cls, part: Part, block: pa.Table, chooser: Chooser, number: Ints) -> Operations:
        index, op = (np.asarray(block[name].to_numpy(), np.int64) for name in ("index", "op"))
        begins = chooser.are("type", "invoke")
        rows = np.flatnonzero(chooser.any_of(part.callers))
        read = np.flatnonzero(chooser.are("kind", "op") & chooser.are("f", DELIVERED) & (number >= 0) & (op >= 0))
        return cls(
            rows=rows,
            calls=np.where(begins, index, op)[rows],
            ends=~begins[rows],
            op=op[read],
            shard=number[read],
            early=op[read] > index[read],
            least=int(index.min(initial=np.iinfo(np.int64).max)),
        )


class Queues:
    """Learns which queues the own rows of each shard name; those of rows that stand in every shard, each does."""

    def __init__(self) -> None:
        self._pairs = np.empty((2, 0), np.int64)
        self._every = np.full(1, -1, np.int64)

    def learn(self, queue: Ints, number: Ints, everywhere: Flags) -> None:
        own = number >= 0
        self._pairs = _joined(self._pairs, numbers.distinct_pairs(np.stack([number[own], queue[own]])))
        self._every = numbers.distinct(np.append(self._every, queue[everywhere]))

    def places(self, queue: Ints, chosen: Flags) -> OfQueues:
        """Where these rows of a block stand."""
        rows = np.flatnonzero(chosen)
        return OfQueues(rows, queue[rows], self._pairs, self._every)


@dataclass(frozen=True, slots=True)
class OfQueues:
    """Rows of one block (positions), their queues, and which shards name which; ``every`` shard names some."""

    rows: Ints
    queue: Ints
    pairs: Ints
    every: Ints

    def of(self, shard: int) -> Ints:
        named = np.append(self.pairs[1, self.pairs[0] == shard], self.every)
        return self.rows[numbers.among(self.queue, named)]


class Callers:
    """Finds the shards in which the messages stand that an operation has delivered.

    What is remembered are the operations that were on their way; and all that delivered something before they ended,
    which the harness never records.
    """

    def __init__(self) -> None:
        self._ended = np.empty(0, np.int64)
        self._open = self._late = np.empty((2, 0), np.int64)

    def learn(self, seen: Operations) -> None:
        late = numbers.among(seen.op, self._ended) | seen.early
        self._late = _joined(self._late, np.stack([seen.op[late], seen.shard[late]]))
        ended = numbers.distinct(np.append(self._ended, seen.calls[seen.ends]))
        self._ended = ended[ended < seen.least]

    def of(self, seen: Operations) -> npt.NDArray[np.int64]:
        """Operations, and the shards where their rows of this block stand."""
        self._open = _joined(self._open, np.stack([seen.op, seen.shard]))
        found = _joined(self._open, self._late[:, numbers.among(self._late[0], seen.calls)])
        self._open = self._open[:, self._open[0] < seen.least]
        return found


def _joined(some: Ints, more: Ints) -> Ints:
    """Pairs (a row of firsts, a row of seconds), each of them once."""
    return numbers.distinct_pairs(np.concatenate([some, more], axis=1)) if more.shape[1] else some


class Summary:
    """What a sieve keeps of each shard, found from some of its rows at a time."""

    def __init__(self, sieve: Sieve) -> None:
        self.sieve = sieve
        self._held: dict[int, list[pa.Table]] = {}
        self._rows, self._most = 0, HELD_ROWS

    def add(self, block: pa.Table, number: Ints) -> None:
        table = block.select([name for name in block.column_names if name in self.sieve.reads])
        for shard in numbers.distinct(number[number >= 0]).tolist():
            mine = table.filter(pa.array(number == shard))
            self._held.setdefault(shard, []).append(mine)
            self._rows += mine.num_rows
        if self._rows > self._most:
            self._fold()
            self._most = max(HELD_ROWS, 2 * self._rows)

    def kept(self) -> Ints:
        """Return the ``index`` of all rows that are kept."""
        self._fold()
        return np.concatenate([np.empty(0, np.int64), *(one["index"].to_numpy() for (one,) in self._held.values())])

    def _fold(self) -> None:
        for shard, tables in self._held.items():
            table = pa.concat_tables(tables[:: 1 if self.sieve.forward else -1]).unify_dictionaries()
            left = table.filter(pa.array(numbers.among(table["index"].to_numpy(), self.sieve.keep(table))))
            self._held[shard] = [left.combine_chunks()]
        self._rows = sum(table.num_rows for (table,) in self._held.values())
