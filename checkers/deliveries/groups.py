"""Messages that groups were given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import Flags, Ints, among


@dataclass(frozen=True, slots=True)
class Groups:
    """Messages that groups were given, an element for each, in the order in which they came: ``delivered`` rows, or the
    ends of ``receive_again``, which have no offset. ``group`` is a code for ``names``."""

    at: Ints
    group: Ints
    in_order: Flags
    names: list[str]

    @classmethod
    def of(cls, rows: Rows, *, again: bool = True) -> Groups:
        """``again``: also what came from copies of a group's own."""
        calls, none = facts.calls(rows.beside, "receive"), np.empty(0, dtype=np.int64)
        asked, began = calls.invoke[calls.ok], calls.began[calls.ok]
        copies = facts.calls(rows, "receive_again") if again else None
        handed, came = (none, none) if copies is None else (copies.invoke[copies.ok], copies.done[copies.ok])
        code, names = rows.beside.labels("group", np.append(asked, handed))
        ordered = rows.beside.numbers("in_order", asked) == 1
        every = rows.where(kind="op", f="delivered")
        op = rows.column("op")[every]
        mine = among(op, began)
        slot = np.searchsorted(began, op[mine])
        at = np.append(every[mine], came)
        order = np.argsort(at, kind="stable")
        group = np.append(code[slot], code[len(asked) :])[order]
        in_order = np.append(ordered[slot], np.zeros(len(came), dtype=np.bool_))[order]
        return cls(at[order], group, in_order, list(names))

    def given(self, name: str) -> Ints:
        """Return the rows of the messages that this group was given."""
        return self.at[self.group == (self.names.index(name) if name in self.names else -1)]
