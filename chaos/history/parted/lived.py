"""What a sieve keeps of the rows of nodes, which are given in the order in which the nodes lived them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from chaos.history.parted import numbers
from chaos.history.parted.choosing import Flags, Ints, Sieve, coded


class Lived:
    """Asks a sieve that remembers (:attr:`Sieve.remember`), some rows at a time, the last ones first.

    What a row of a node means to an earlier one depends on the order in which the node lived them: incarnation, step,
    index. In nearly all runs ``index`` alone is that order. Where it isn't, a row that is given later may belong
    between two that were left out, so of such a node no row is left out: after all blocks were given to :meth:`add`,
    they are given to :meth:`add_all` if there are ``disordered`` nodes.
    """

    def __init__(self, sieve: Sieve) -> None:
        self._sieve = sieve
        self._known: pa.Table | None = None
        self._kept: list[Ints] = [np.empty(0, np.int64)]
        self._first: dict[str, tuple[int, int]] = {}
        self.disordered: set[str] = set()

    def add(self, block: pa.Table, chosen: Flags) -> None:
        """``chosen``: which of these rows the sieve is about."""
        table = block.filter(pa.array(chosen))
        if not table.num_rows:
            return
        self._look_for_disorder(table)
        last = int(table["index"].to_numpy().max())
        if self._known is not None:
            table = pa.concat_tables([table, self._known]).unify_dictionaries()
        kept = self._sieve.keep(table)
        self._kept.append(kept[kept <= last])
        assert self._sieve.remember is not None
        known = numbers.among(table["index"].to_numpy(), self._sieve.remember(table))
        self._known = table.filter(pa.array(known)).combine_chunks()

    def add_all(self, block: pa.Table, chosen: Flags) -> None:
        """Keep all rows of disordered nodes."""
        codes, names = coded(block, "node")
        disordered = np.array([*(name in self.disordered for name in names), "" in self.disordered], np.bool_)
        self._kept.append(block["index"].to_numpy()[chosen & disordered[codes]])

    def kept(self) -> Ints:
        """The ``index`` of all rows that are kept, ascending."""
        return numbers.distinct(np.concatenate(self._kept))

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
            if node in self._first and (int(life[last]), int(step[last])) > self._first[node]:
                self.disordered.add(node)
            self._first[node] = (int(life[first]), int(step[first]))
