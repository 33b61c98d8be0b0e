"""Which pieces of a large run may have rows about something, so that what explains a violation is looked up in few.

Of each piece the least and the highest number of each column are noted, apart for each node and queue; and for each
name of rows by which logs grow, and are known to be held.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.columns import Kind
from chaos.history.parted.choosing import coded
from chaos.history.row import Row
from chaos.history.stream import MOST_ROWS, SCHEMA
from reports.explanation.selection import REACHED

#: Of which columns it is noted.
NOTED = ("op", "incarnation", "step", "epoch", "offset", "position", "message")
#: What is noted apart, besides all others: rows with these names, and those of operations.
OF_CLIENTS = "op"
APART = ("", "append", *REACHED, OF_CLIENTS)
LEAST, HIGHEST = "least", "highest"
#: A row by which a node had gone past a record is sought in so many pieces.
FIRST = 4

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def noted(rows: pa.Table) -> pa.Table:
    """Return what is noted of a piece: the least numbers of each of its groups, then the highest ones, with the number
    of its first row. Where rows have none, the least is higher than the highest."""
    (f, names), (kind, kinds), (node, nodes) = (coded(rows, name) for name in ("f", "kind", "node"))
    apart = np.array([APART.index(name) if name in APART else 0 for name in (*names, "")], np.int64)[f]
    apart[kind == (kinds.index(str(Kind.OP)) if str(Kind.OP) in kinds else -2)] = APART.index(OF_CLIENTS)
    queue, queues = _numbered(rows["queue"])
    place, groups = _numbered((apart * (len(nodes) + 1) + node + 1) * len(queues) + queue)
    first = np.zeros(len(groups), np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]
    shown = {"index": np.full(len(first), rows["index"][0].as_py()), "f": np.array(APART, np.object_)[apart[first]]}
    shown |= {name: rows[name].take(pa.array(first)) for name in ("node", "queue")}
    found = []
    for name, least in ((LEAST, True), (HIGHEST, False)):
        columns = {one: _extreme(rows[one].to_numpy(), place, len(first), least) for one in NOTED}
        made = {**columns, **shown, "type": np.full(len(first), name, np.object_)}
        names = [one for one in SCHEMA.names if one in made]
        schema = pa.schema([SCHEMA.field(one) for one in names])
        found.append(pa.table({one: made[one] for one in names}).cast(schema))
    return pa.concat_tables(found)


def _numbered(column: pa.ChunkedArray | Ints) -> tuple[Ints, Ints]:
    """Return a number for each row by which equal ones are known, and what each stands for."""
    array = pa.array(column) if isinstance(column, np.ndarray) else column.combine_chunks()
    found = array.dictionary_encode()
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    found = found.chunk(0) if isinstance(found, pa.ChunkedArray) else found
    return found.indices.to_numpy(), found.dictionary.to_numpy()


def _extreme(column: Ints, group: Ints, groups: int, least: bool) -> Ints:
    """Return the least number of each group that is one, or the highest."""
    none = np.iinfo(np.int64).max if least else -1
    found = np.full(groups, none)
    if int(column.max()) < 0:
        return found
    if least:  # -1 as a number without a sign is the highest
        np.minimum.at(found.view(np.uint64), group, column.view(np.uint64))
    else:
        np.maximum.at(found, group, column)
    return found


class Notes:
    """What is noted of all pieces. Each method returns which rows some pieces have, by their numbers."""

    def __init__(self, table: pa.Table) -> None:
        least, highest = (table.filter(pc.equal(table["type"], name)) for name in (LEAST, HIGHEST))
        self._least = {name: least[name].to_numpy() for name in NOTED}
        self._highest = {name: highest[name].to_numpy() for name in NOTED}
        self._f, self._node = (np.array(least[name].to_pylist(), np.object_) for name in ("f", "node"))
        self._queue, self._first = least["queue"].to_numpy(), least["index"].to_numpy()
        firsts = np.unique(self._first).tolist()
        self._rows = {begin: range(begin, end) for begin, end in pairwise([*firsts, MOST_ROWS])}

    def of_numbers(self, index: Collection[int]) -> set[range]:
        """Of those that have these rows."""
        firsts = np.array([*self._rows], np.int64)
        return self._of(firsts[np.maximum(np.searchsorted(firsts, sorted(index), side="right") - 1, 0)])

    def of_calls(self, calls: Collection[int]) -> set[range]:
        """Of those that may have rows of operations that began with these ones."""
        return self._any(self._f == OF_CLIENTS, "op", calls)

    def about(self, messages: Collection[int], places: Collection[tuple[int, int]]) -> set[range]:
        """Of those that may have rows about these messages, or these (queue, offset)."""
        found = self._any(np.ones(len(self._f), np.bool_), "message", messages)
        for queue in {queue for queue, _ in places}:
            found |= self._any(self._queue == queue, "offset", {offset for other, offset in places if other == queue})
        return found

    def answered(self, node: str, epoch: int) -> set[range]:
        """Of those in which this node may have answered clients in this epoch."""
        return self._any((self._f == OF_CLIENTS) & (self._node == node), "epoch", {epoch})

    def beyond(self, node: str, position: int, before: tuple[int, int]) -> set[range]:
        """Of those in which this node may have appended, before this step of an incarnation, at a position or behind
        it; and of the one with what it had appended last."""
        mine = (self._f == "append") & (self._node == node) & self._starts_before(before)
        found = self._of(self._first[mine & (self._highest["position"] >= position)])
        order = np.lexsort((self._least["step"][mine], self._least["incarnation"][mine]))
        return found | self._of(self._first[mine][order[-1:]])

    def appended(self, node: str, epoch: int) -> set[range]:
        """Of those in which this node may first have appended in this epoch."""
        mine = (self._f == "append") & (self._node == node)
        mine &= (self._least["epoch"] <= epoch) & (self._highest["epoch"] >= epoch)
        return self._of(np.sort(self._first[mine])[:FIRST])

    def past(self, record: Row) -> set[range]:
        """Of those, for each name, in which a node may first have gone past a record in that incarnation."""
        mine = (self._node == record.node) & (self._highest["position"] >= record.end)
        mine &= (self._least["incarnation"] <= record.incarnation) & (
            self._highest["incarnation"] >= record.incarnation
        )
        found = set[range]()
        for name in REACHED:
            of_name = mine & (self._f == name)
            if name != REACHED[0]:
                of_name &= (self._least["epoch"] <= record.epoch) & (self._highest["epoch"] >= record.epoch)
            found |= self._of(np.sort(self._first[of_name & self._ends_behind(record)])[:FIRST])
        return found

    def _starts_before(self, order: tuple[int, int]) -> Flags:
        incarnation, step = self._least["incarnation"], self._least["step"]
        found: Flags = (incarnation < order[0]) | ((incarnation == order[0]) & (step <= order[1]))
        return found

    def _ends_behind(self, record: Row) -> Flags:
        incarnation, step = self._highest["incarnation"], self._highest["step"]
        found: Flags = (incarnation > record.incarnation) | (step >= record.step)
        return found

    def _any(self, among: Flags, column: str, numbers: Collection[int]) -> set[range]:
        """Of those with a group, among these, in whose range one of these numbers is."""
        wanted = np.array(sorted(numbers), np.int64)
        begin = np.searchsorted(wanted, self._least[column][among])
        end = np.searchsorted(wanted, self._highest[column][among], side="right")
        return self._of(self._first[among][begin < end])

    def _of(self, firsts: Ints) -> set[range]:
        return {self._rows[first] for first in firsts.tolist()}
