"""Histories that no system would ever leave: rows at random, so that anything may contradict anything."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa

from chaos.history.columns import INTEGERS, VALUE, WORDS
from tests.checkers.histories import BROKERS, ends_of

#: What nodes tell, and how often.
TRACES = {
    "confirm": 40,
    "synced": 20,
    "acked": 8,
    "append": 8,
    "truncate": 3,
    "recovered": 2,
    "start": 2,
    "bootstrap": 1,
    "retention": 3,
    "role": 3,
}


class Table:
    """Rows that are added one after the other; ``dump``: how their values are written."""

    def __init__(self, **dump: Any) -> None:
        self.rows: list[dict[str, Any]] = []
        self.dump = dump

    def add(self, kind: str, f: str, value: dict[str, Any] | None = None, **columns: Any) -> int:
        index = len(self.rows)
        row: dict[str, Any] = dict.fromkeys(INTEGERS, -1) | dict.fromkeys(WORDS, "")
        row |= {"index": index, "time_ns": index * 1_000_000, "kind": kind, "f": f, **columns}
        row[VALUE] = json.dumps(value, **self.dump) if value else ""
        self.rows.append(row)
        return index

    def table(self) -> pa.Table:
        return ends_of(self.rows)


class RandomRows(Table):
    """Rows that are drawn. Positions of each node mostly rise, a little at a time."""

    def __init__(self, rng: Random) -> None:
        super().__init__(**rng.choice(({}, {"separators": (",", ":")})))
        self.rng = rng
        self.position = dict.fromkeys(BROKERS, 0)

    def likely(self, chance: float) -> bool:
        return self.rng.random() < chance

    def trace(self, *, far: float = 0.1) -> None:
        """``far``: how often a position is any at all."""
        rng = self.rng
        node, f = rng.choice(BROKERS), rng.choices([*TRACES], [*TRACES.values()])[0]
        self.position[node] = self._walk(self.position[node], far)
        order = {"incarnation": 1 + len(self.rows) // 50, "step": len(self.rows) + rng.choice((0, 0, -3))}
        columns = {"position": self.position[node], "epoch": 1 + len(self.rows) // 70 + self.likely(0.05)}
        self.add("trace", f, self._told(f, node, self.position[node]), node=node, **order, **columns)

    def final_node(self) -> None:
        node = self.rng.choice(BROKERS)
        value = {"end": self._walk(self.position[node], 0.3), "confirm": 3, "role": "slave"}
        self.add("final", "node", value if self.likely(0.8) else {}, node=node)

    def _walk(self, position: int, far: float) -> int:
        return self.rng.randrange(90) if self.likely(far) else max(0, position + self.rng.choice((-2, 0, 1, 3, 9)))

    def _told(self, f: str, node: str, position: int) -> dict[str, Any]:
        rng = self.rng
        if f == "confirm":
            return {} if self.likely(0.4) else self._counted_on(position)
        if f == "start":
            return {"generation": rng.choice((1, 1, 2, 3)), "disk": rng.choice("ab")} if self.likely(0.8) else {}
        if f == "recovered":
            return {"first": rng.randrange(20), "confirm": position} if self.likely(0.8) else {}
        if f == "acked":
            return rng.choice(({"confirm": self._walk(position, 0.1)}, {"confirm": position}, {"confirm": True}, {}))
        if f == "role":
            return {"role": rng.choice(("master", "slave")), "master": node, "start": self._walk(position, 0.2)}
        if f == "append":
            return {"size": rng.choice((1, 5))}
        return self._removed(position) if f == "retention" else {}

    def _counted_on(self, position: int) -> dict[str, Any]:
        names = [name for name in (*BROKERS, "broker-9") if self.likely(0.6 if name != "broker-9" else 0.02)]
        told: dict[str, Any] = {"set": names, "proposed": [], "set_epoch": self.rng.randrange(3)}
        if self.likely(0.1):
            told["proposed"] = [self.rng.choice(BROKERS)]
        if self.likely(0.8):
            close = {name: position + self.rng.choice((0, 0, 0, 0, 4, -1)) for name in names if self.likely(0.97)}
            told["acks"] = close if self.likely(0.97) else {name: float(number) for name, number in close.items()}
        return told

    def _removed(self, position: int) -> dict[str, Any]:
        rng = self.rng
        minimums = {str(queue): rng.choice((0, 0, 1, 2)) for queue in range(rng.choice((1, 2, 3)))}
        inputs = {"end": position + rng.randrange(9), "retain_bytes": rng.choice((0, 5, 9)), "tiered": self.likely(0.3)}
        if self.likely(0.5):
            inputs["delete_untiered"] = self.likely(0.7)
        told: dict[str, Any] = {"rule": "size", "inputs": inputs, "minimums": minimums}
        return told if self.likely(0.9) else {}


def replicas(rng: Random) -> pa.Table:
    """What replicas tell of their logs."""
    made, far = RandomRows(rng), rng.choice((0.0, 0.02, 0.3))
    made.add("harness", "phase", {"phase": "load"})
    for _ in range(rng.choice((3, 30, 150, 400))):
        made.trace(far=far)
    for _ in range(rng.randrange(4)):
        made.final_node()
    return made.table()
