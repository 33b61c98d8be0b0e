"""Runs without a fault, as long as one likes: each message is sent, replicated, confirmed, read and drained."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.checkers.histories import BROKERS, SIZE, content, m
from tests.checkers.slow.random_rows import Table

#: Where logs begin, so that all positions are written with as many digits.
START = 1_000_000_000
RETENTION = {"rule": "size", "inputs": {"end": 9, "retain_bytes": 0, "tiered": False}, "minimums": {"0": 0, "1": 0}}
ALL = {"set": list(BROKERS), "set_epoch": 1}
ELECTED = ALL | {"type": "elect", "group": "b", "master": BROKERS[0], "master_epoch": 1, "bootstrap": True}


class SteadyRows(Table):
    """``bad``: a slave never acknowledges in time, and no message comes back as it was sent."""

    def __init__(self, *, queues: int, bad: bool) -> None:
        super().__init__(separators=(",", ":"))
        self.queues = queues
        self.bad = bad
        self.steps = dict.fromkeys(BROKERS, 0)

    def call(self, f: str, value: dict[str, Any], **columns: Any) -> int:
        """An operation and its answer. Returns the row of its invocation."""
        named = {key: value[key] for key in ("group", "owner") if key in value}
        asked = self.add("op", f, named, type="invoke", process="client-0.0", **columns)
        answer = {"node": BROKERS[0], "epoch": 1, "incarnation": 1}
        self.add("op", f, value, type="ok", op=asked, process="client-0.0", **{**columns, **answer})
        return asked

    def trace(self, node: str, f: str, value: dict[str, Any] | None = None, **columns: Any) -> None:
        self.steps[node] += 1
        self.add("trace", f, value, node=node, incarnation=1, step=self.steps[node], epoch=1, **columns)

    def message(self, number: int) -> None:
        queue, sequence = number % self.queues, number // self.queues
        position = START + number * SIZE
        end = position + SIZE
        same = {"queue": queue, "message": m(sequence, queue), "hash": content(m(sequence, queue)), "offset": sequence}
        for node in BROKERS:
            self.trace(node, "append", {"size": SIZE}, position=position, **same)
            self.trace(node, "synced", {"size": end, "file": "log/0"}, position=end)
            self.trace(node, "retention", RETENTION, position=0)
        acks = {node: end - (self.bad and node == BROKERS[2]) for node in BROKERS}
        told = {"acks": acks, "set": list(BROKERS), "proposed": [], "set_epoch": 1}
        for node in BROKERS:
            self.trace(node, "confirm", told if node == BROKERS[0] else None, position=end)
        self.trace(BROKERS[0], "acked", {"confirm": end - self.bad}, position=end, **same)
        self.call("send", {}, position=position, **same)
        self.read(queue, sequence, {"group": "g", "owner": "client-0"})
        self.call("bounds", {"minimum": 0, "maximum": sequence + 1}, queue=queue)
        self.call("commit", {"group": "g"}, queue=queue, offset=sequence + 1)
        self.call("committed", {"group": "g"}, queue=queue, offset=sequence + 1 - self.bad)

    def read(self, queue: int, sequence: int, value: dict[str, Any]) -> None:
        told = {"minimum": int(self.bad), "maximum": sequence + 1, "following": sequence + 1, "source": "local"}
        op = self.call("pull", {**told, **value}, queue=queue, offset=sequence)
        stands = {"queue": queue, "offset": sequence, "message": m(sequence, queue), "node": BROKERS[0], "epoch": 1}
        found = content(m(sequence, queue)) ^ self.bad
        self.add("op", "delivered", type="ok", op=op, process="client-0.0", hash=found, **stands)


def steady(messages: int, *, queues: int = 2, bad: bool = False) -> pa.Table:
    made = SteadyRows(queues=queues, bad=bad)
    made.add("harness", "phase", {"phase": "load"})
    for node in BROKERS:
        role = "master" if node == BROKERS[0] else "slave"
        made.trace(node, "start", {"generation": 1, "disk": "a"})
        made.trace(node, "role", {"role": role, "master": BROKERS[0], "start": START, **ALL})
    made.add("trace", "applied", {"entry": ELECTED}, node="controller-0", incarnation=1, step=1, position=1, epoch=1)
    for number in range(messages):
        made.message(number)
    made.add("harness", "recovered", {"seconds": 1})
    made.add("harness", "phase", {"phase": "drain"})
    for queue in range(queues):
        drained = range(messages // queues)
        for sequence in drained:
            made.read(queue, sequence, {"maximum": len(drained)})
        asked = made.add("op", "drain", type="invoke", process="client-0.0", queue=queue, offset=0)
        made.add("op", "drain", type="ok", op=asked, process="client-0.0", queue=queue, offset=len(drained))
    for node in BROKERS:
        made.add("final", "node", {"role": "slave", "end": START + messages * SIZE}, node=node)
        made.add("final", "complete", node=node)
    return made.table()
