"""Histories of transactions over keys, written tersely: who did what, one after another or at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from chaos.history.run_meta import RunMeta
from chaos.judging.engine import judge_rows
from chaos.judging.registry import Registry
from chaos.law import RowType, RunContext
from chaos.operations import Txn
from chaos.testing.laws import history_of
from chaos.verdict import Verdict
from checkers.isolation.keys import Keys

CONTEXT = RunContext(run="r", seed=1, meta=RunMeta(uses=frozenset(("transactions",))))
Steps = Sequence[Sequence[Any]]


@dataclass
class Keyed:
    """Rows of transactions. ``a x 1`` appends, ``w x 1`` writes, ``r x …`` reads."""

    isolation: str = ""
    rows: list[tuple[RowType, Mapping[Any, object]]] = field(default_factory=list)
    numbers: int = 0

    def begin(self, steps: Steps, process: str = "client.0", **value: Any) -> int:
        """Begin a transaction of which the reads are not known yet."""
        asked = [[step, key, None if step == "r" else what] for step, key, what in steps]
        self.rows.append((Txn, {Txn.type: "invoke", Txn.process: process, Txn.txn: self.numbers, Txn.micro: asked}))
        self.numbers += 1
        return len(self.rows) - 1

    def end(self, op: int, steps: Steps, type: str = "ok") -> None:
        begun = self.rows[op][1]
        fields = {Txn.op: op, Txn.type: type, Txn.micro: [*map(list, steps)], Txn.process: begun[Txn.process]}
        self.rows.append((Txn, {**fields, Txn.txn: begun[Txn.txn]}))

    def txn(self, *steps: Sequence[Any], process: str = "client.0", type: str = "ok") -> None:
        """One that ends before another one begins."""
        self.end(self.begin(steps, process), steps, type)

    def together(self, *transactions: Steps) -> None:
        """Some that are under way at the same time, each of a process of its own."""
        begun = [self.begin(steps, f"p{number}.0") for number, steps in enumerate(transactions)]
        for op, steps in zip(begun, transactions, strict=True):
            self.end(op, steps)

    def table(self) -> pa.Table:
        table = history_of(self.rows)
        return table if not self.isolation else _promised(table, self.isolation)

    def judge(self) -> Verdict:
        (verdict,) = judge_rows([("all-0", self.table())], CONTEXT, Registry({("isolation", 0): Keys()}, {}))
        return verdict

    def names(self) -> set[str]:
        """The names of the violations that are found."""
        return {anomaly.name for anomaly in self.judge().anomalies if not anomaly.lawful}


def _promised(table: pa.Table, isolation: str) -> pa.Table:
    values = [value[:-1] + f', "isolation": "{isolation}"}}' for value in table["value"].to_pylist()]
    return table.set_column(table.column_names.index("value"), "value", pa.array(values))
