"""The slow twin of what is judged of logs: everything that happened is an event with a begin and an end, everything
that orders two of them is an edge, and a history is wrong if these edges form a cycle."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, product
from typing import Any

import networkx as nx

from chaos.operations import Delivered, EndTxn, Poll, Send, Txn
from tests.checkers.isolation.logged import Logged

FOREVER = float("inf")
Row = Mapping[str, Any]


class Events:
    """All events of a history: the sends, the reads of single messages, and the commits."""

    def __init__(self, history: Logged) -> None:
        self._rows = [(cls, {field.name: value for field, value in row.items()}) for cls, row in history.rows]
        self._ends = {
            row["op"]: (at, row) for at, (cls, row) in enumerate(self._rows) if "op" in row and cls != Delivered
        }
        self.time: dict[Any, tuple[float, float]] = {}
        self.edges: set[tuple[Any, Any]] = set()
        self._writer: dict[int, Any] = {}
        self._places: dict[int, dict[int, Any]] = {}
        self._commits()
        self._sends()
        self._reads()
        for places in self._places.values():
            self.edges |= {(places[one], places[other]) for one, other in pairwise(sorted(places))}
        self.edges |= {
            (one, other) for one, other in product(self.time, self.time) if self.time[one][1] < self.time[other][0]
        }

    def are_wrong(self) -> bool:
        return not nx.is_directed_acyclic_graph(nx.DiGraph([*self.edges]))

    def _began(self, cls: object) -> list[tuple[int, Row]]:
        return [(at, row) for at, (of, row) in enumerate(self._rows) if of is cls and row.get("type") == "invoke"]

    def _end(self, op: int) -> tuple[str, float]:
        at, row = self._ends.get(op, (FOREVER, {"type": "info"}))
        return row["type"], at if row["type"] == "ok" else FOREVER

    def _commits(self) -> None:
        for op, row in self._began(Txn):
            type, ended = self._end(op)
            asked = [at for at, other in self._began(EndTxn) if other["txn"] == row["txn"]]
            if type != "fail":
                self.time["commit", row["txn"]] = (min(asked, default=op), ended)

    def _sends(self) -> None:
        for op, row in self._began(Send):
            type, ended = self._end(op)
            if type == "fail":
                continue
            event = "send", op
            self.time[event] = (op, ended)
            self._writer[row["message"]] = event
            if row.get("txn", -1) >= 0:
                self._writer[row["message"]] = commit = "commit", row["txn"]
                self.edges.add((event, commit))
            if type == "ok":
                self._places.setdefault(row["queue"], {})[self._ends[op][1]["offset"]] = event

    def _reads(self) -> None:
        sends = {row["message"]: ("send", op) for op, row in self._began(Send) if self._end(op)[0] != "fail"}
        polls = dict(self._began(Poll))
        for at, (cls, row) in enumerate(self._rows):
            if cls is not Delivered or row["message"] not in sends:
                continue
            event = "read", at
            self.time[event] = (row["op"], at)
            self.edges.add((self._writer[row["message"]], event))
            self._places.setdefault(row["queue"], {})[row["offset"]] = sends[row["message"]]
            if ("commit", polls[row["op"]].get("txn", -1)) in self.time:
                self.edges.add((event, ("commit", polls[row["op"]]["txn"])))
