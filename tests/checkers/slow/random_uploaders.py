"""What uploaders might tell of their logs and manifests, and clients of their sends: any of it may be wrong or late."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa

from chaos.history.columns import VALUE
from tests.checkers.histories import BROKERS
from tests.checkers.slow.random_clients import RandomClients, history

#: So many bytes of the log a record takes up, and so much time passes from row to row.
SIZE, EACH_NS = 10, 1_000_000_000


class RandomUploaders(RandomClients):
    """Masters that append what is sent, and upload it in segments: ``segments`` of each queue in the tier."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.segments: dict[int, list[dict[str, Any]]] = {queue: [] for queue in self.stored}
        self.most = rng.choice((1, 2, 20))
        self.settings = {
            "segment_bytes": rng.choice((0, 15, 1000, 1000, 1000)),
            "max_age_ms": rng.choice((0, 0, 20_000, 120_000)),
        }
        self.first = rng.choice((0, 0, 2))
        self.epochs = rng.choice(((1,), (1, 1, 1, 1, 2)))
        self.often = rng.choice((0.05, 0.3, 0.6))

    def add(self, kind: str, f: str, value: dict[str, Any] | None = None, **columns: Any) -> int:
        if kind == "trace":
            columns = {"incarnation": 1 + len(self.rows) // 300, "step": len(self.rows), **columns}
        return super().add(kind, f, value, **{"time_ns": len(self.rows) * EACH_NS, **columns})

    def send(self) -> None:
        before = {queue: len(stored) for queue, stored in self.stored.items()}
        super().send()
        for queue, stored in self.stored.items():
            for offset in range(before[queue], len(stored)):
                self.append(queue, offset)

    def append(self, queue: int, offset: int) -> None:
        for node in BROKERS:
            if self.likely(0.9 if node == BROKERS[0] else 0.3):
                stands = {"queue": queue, "offset": offset + self.likely(0.03), "position": offset * SIZE}
                size = SIZE + self.likely(0.03)
                self.add("trace", "append", {"size": size}, node=node, epoch=self.rng.choice((1, 1, 1, 2)), **stands)
        if self.likely(0.5):
            confirm = max(0, offset - self.rng.choice((0, 0, 0, 3))) * SIZE + SIZE
            self.add("trace", "confirm", node=BROKERS[0], position=confirm)

    def step(self) -> None:
        if self.likely(self.often):
            self.manifest(self.queue)
        elif self.likely(0.02):
            queues, node = {str(queue): self.rng.randrange(4) for queue in self.stored}, self.rng.choice(BROKERS)
            told = {"queues": queues, "epochs": self.rng.choice(([[1, 0]], [[1, 0], [2, 3 * SIZE]], []))}
            self.add("trace", "bootstrap", told, node=node, position=0)
        elif self.likely(0.6):
            self.send()
        else:
            super().step()

    def manifest(self, queue: int) -> None:
        rng, held = self.rng, self.segments[queue]
        base = held[-1]["base"] + held[-1]["count"] if held else self.first
        count = min(len(self.stored[queue]) - base, self.most)
        if count > 0 and self.likely(0.95):
            held.append({"key": f"k{base}", "base": base, "count": count, "bytes": count * SIZE})
        elif held and self.likely(0.1):
            held.pop()
        self.versions += 1
        end = held[-1]["base"] + held[-1]["count"] if held else self.first
        node, epoch = BROKERS[0] if self.likely(0.95) else BROKERS[1], rng.choice(self.epochs)
        stands = {"queue": queue, "offset": end, "position": end * SIZE + self.likely(0.05), "epoch": epoch}
        request = {"request": f"{node}/{self.versions}"} if self.likely(0.5) else {}
        content = {"start": self.first, "end": end, "writer": node, "confirm": end * SIZE, "segments": list(held)}
        told = {"version": self.versions, "outcome": "applied", "content": content, **request}
        if self.likely(0.95):
            sent = self.settings | request | {"version": self.versions}
            self.add("trace", "tier_commit", sent, node=node, **stands)
        if self.likely(0.95):
            self.add("trace", "store_cas", told, node="store-0", hash=self.versions, **stands)

    def finals(self) -> None:
        if self.likely(0.6):
            self.add("harness", "phase", {"phase": "collect"})
        super().finals()
        least = self.rng.choice((0, 3))
        for row in self.rows:
            if row["kind"] == "final" and row["f"] == "node":
                told = {**json.loads(row[VALUE]), "minimums": {str(queue): least for queue in self.stored}}
                row[VALUE] = json.dumps(told, **self.dump)


def uploaders(rng: Random) -> pa.Table:
    """What clients and uploaders did, and what was there after the run."""
    return history(RandomUploaders(rng))
