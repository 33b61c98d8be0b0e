"""Histories of logs, written tersely: transactions that send and poll, and clients that do so without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from chaos.driver import NoOptions
from chaos.history.run_meta import RunMeta
from chaos.judging.divided import shards
from chaos.judging.engine import judge_rows
from chaos.judging.plan import plan
from chaos.judging.registry import Registry
from chaos.law import RowType, RunContext
from chaos.operations import Delivered, EndTxn, FaultRow, Poll, Send, Txn
from chaos.ops import message_id
from chaos.testing.laws import history_of
from chaos.verdict import Verdict
from checkers.isolation import create

LAWS = tuple(create(NoOptions()))
REGISTRY = Registry({("isolation", number): law for number, law in enumerate(LAWS)}, {})
#: A queue and an offset.
Place = tuple[int, int]


def context(**meta: Any) -> RunContext:
    return RunContext(run="r", seed=1, meta=RunMeta(**{"uses": frozenset(("logs", "transactions")), **meta}))


CONTEXT = context()


@dataclass
class Logged:
    """Each message is known by where it stands: what is sent to a place is the message that is read there."""

    rows: list[tuple[RowType, Mapping[Any, object]]] = field(default_factory=list)
    open: dict[int, list[tuple[int, Place]]] = field(default_factory=dict)
    begun: dict[int, tuple[int, str]] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)

    def _add(self, cls: RowType, **fields: Any) -> int:
        self.rows.append((cls, {getattr(cls, name): value for name, value in fields.items()}))
        return len(self.rows) - 1

    def begin(self, txn: int, process: str = "") -> None:
        """Begin a transaction."""
        process = process or f"p{txn}.0"
        self.open[txn] = []
        self.begun[txn] = (self._add(Txn, type="invoke", process=process, txn=txn, id="t"), process)

    def send(self, txn: int, *places: Place) -> None:
        """Send messages in a transaction: its end will say whether they were."""
        for queue, offset in places:
            step = f"{self.begun[txn][1][:-2]}-{len(self.open[txn])}.0"
            asked = {"process": step, "queue": queue, "message": message_id(queue, offset), "txn": txn}
            self.open[txn].append((self._add(Send, type="invoke", **asked), (queue, offset)))

    def poll(self, *places: Place, txn: int = -1, process: str = "reader.0", type: str = "ok", node: str = "") -> None:
        """Read what stands at these places."""
        of = {"process": process} | ({"txn": txn} if txn >= 0 else {})
        self.given(self._add(Poll, type="invoke", **of), *places, type=type, node=node, **of)

    def poll_together(self, first: Place, second: Place) -> None:
        """Have transactions 1 and 2 read a message each, at the same time."""
        reads = [(self._add(Poll, type="invoke", process=f"r{txn}.0", txn=txn), txn) for txn in (1, 2)]
        for (op, txn), place in zip(reads, (first, second), strict=True):
            self.given(op, place, process=f"r{txn}.0", txn=txn)

    def given(self, op: int, *places: Place, type: str = "ok", node: str = "", **of: Any) -> None:
        self._add(Poll, type=type, op=op, **of)
        txn = {"txn": of["txn"]} if "txn" in of else {}
        for queue, offset in places:
            at = {"process": of["process"], "queue": queue, "offset": offset, "node": node}
            self._add(Delivered, type="ok", op=op, message=message_id(queue, offset), **at, **txn)

    def end(self, txn: int, type: str = "ok") -> None:
        """End a transaction, and with it what it sent."""
        op, process = self.begun[txn]
        if type != "fail":
            self.commit(txn)
        for sent, place in self.open[txn]:
            self._ended(sent, place, type)
        self._add(Txn, type=type, op=op, process=process, txn=txn, id="t")

    def commit(self, txn: int) -> None:
        """Ask for the commit, once."""
        if txn not in self.asked:
            self.asked[txn] = self._add(EndTxn, type="invoke", txn=txn, decision="commit")

    def _ended(self, op: int, place: Place, type: str) -> None:
        fields = {field.name: value for field, value in self.rows[op][1].items()}
        self._add(Send, **{**fields, "type": type, "op": op, "offset": place[1] if type == "ok" else -1})

    def begin_send(self, place: Place, process: str = "producer.0") -> int:
        """Begin to send without a transaction."""
        message = message_id(*place)
        return self._add(Send, type="invoke", process=process, queue=place[0], message=message)

    def sent(self, place: Place, process: str = "producer.0", type: str = "ok") -> None:
        self.end_send(self.begin_send(place, process), place, type)

    def end_send(self, op: int, place: Place, type: str = "ok") -> None:
        self._ended(op, place, type)

    def fault(self) -> None:
        """The disk of a node is lost."""
        self._add(FaultRow, type="invoke", process="wipe-0", targets=["n1"])

    def table(self) -> pa.Table:
        return history_of(self.rows)

    def judge(self, run: RunContext = CONTEXT, most: int = 0) -> Verdict:
        table = self.table()
        parts: Sequence[Any] = [("all-0", table)]
        if most:
            parts = list(shards([table], plan(REGISTRY.kernels, run.meta), most))
        (verdict,) = judge_rows(parts, run, REGISTRY)
        return verdict

    def names(self, run: RunContext = CONTEXT) -> set[str]:
        """The names of the violations that are found."""
        return {anomaly.name for anomaly in self.judge(run).anomalies if not anomaly.lawful}
