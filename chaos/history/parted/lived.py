"""What a sieve keeps of the rows of nodes, which are given in the order in which the nodes lived them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from chaos.history.columns import BESIDE
from chaos.history.parted import numbers
from chaos.history.parted.choosing import Flags, Ints, Sieve
from chaos.history.parted.words import coded

#: Where more rows must be known to choose among later ones, no row is left out: to ask about all of them with each
#: block would take ever longer.
MOST_KNOWN = 1 << 17


class Lived:
    """Asks a sieve that remembers (:attr:`Sieve.remember`), some rows at a time, the first ones first.

    What a row of a node means depends on the order in which the node lived its rows: incarnation, step, index. In
    nearly all runs ``index`` alone is that order. Where it isn't, a row that is given later may belong between two that
    were left out, so of such a node no row is left out: after all blocks were given to :meth:`add`, they are given to
    :meth:`add_all` if there are ``disordered`` nodes. The nodes of a run of which too much had to be known count as
    such, too.
    """

    def __init__(self, sieve: Sieve) -> None:
        self._sieve = sieve
        self._known: pa.Table | None = None
        self._kept: list[Ints] = [np.empty(0, np.int64)]
        self._last: dict[str, tuple[int, int]] = {}
        self._gave_up = False
        self.disordered: set[str] = set()

    def add(self, block: pa.Table, chosen: Flags) -> None:
        """``chosen``: which of these rows the sieve is about."""
        table = self._sieve.only(block).filter(pa.array(chosen))
        if not table.num_rows:
            return
        self._look_for_disorder(table)
        if self._gave_up:
            self.disordered |= self._last.keys()
            return
        table = table.append_column(BESIDE, pa.array(np.zeros(table.num_rows, np.bool_)))
        if self._known is not None:
            table = pa.concat_tables([self._known, table]).unify_dictionaries()
        assert self._sieve.sure is not None and self._sieve.remember is not None
        self._kept.append(self._sieve.sure(table))
        known = table.filter(pa.array(numbers.among(table["index"].to_numpy(), self._sieve.remember(table))))
        if known.num_rows > MOST_KNOWN:
            self._gave_up, self._known = True, None
            self.disordered |= self._last.keys()
            return
        beside = pa.array(np.ones(known.num_rows, np.bool_))
        self._known = known.set_column(known.column_names.index(BESIDE), BESIDE, beside).combine_chunks()

    def add_all(self, block: pa.Table, chosen: Flags) -> None:
        """Keep all rows of disordered nodes."""
        codes, names = coded(block, "node")
        disordered = np.array([*(name in self.disordered for name in names), "" in self.disordered], np.bool_)
        self._kept.append(block["index"].to_numpy()[chosen & disordered[codes]])

    def kept(self) -> Ints:
        """Return the ``index`` of all rows that are kept, ascending."""
        last = [] if self._known is None else [self._sieve.keep(self._known)]
        return numbers.distinct(np.concatenate([*self._kept, *last]))

    def _look_for_disorder(self, table: pa.Table) -> None:
        codes, names = coded(table, "node")
        index, life, step = (table[name].to_numpy() for name in ("index", "incarnation", "step"))
        order = np.lexsort((index, codes))
        codes, life, step = codes[order], life[order], step[order]
        same = codes[1:] == codes[:-1]
        back = same & ((life[1:] < life[:-1]) | ((life[1:] == life[:-1]) & (step[1:] < step[:-1])))
        named = [*names, ""]
        self.disordered.update(named[code] for code in np.unique(codes[1:][back]).tolist())
        firsts = np.flatnonzero(np.append(True, ~same))
        for first, last in zip(firsts.tolist(), [*(firsts[1:] - 1).tolist(), len(codes) - 1], strict=True):
            node = named[int(codes[first])]
            if node in self._last and (int(life[first]), int(step[first])) < self._last[node]:
                self.disordered.add(node)
            self._last[node] = (int(life[last]), int(step[last]))
