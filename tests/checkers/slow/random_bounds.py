"""Random histories of replicas that delete the beginnings of queues, and tell readers where those begin and end."""

from __future__ import annotations

from random import Random

import pyarrow as pa

from tests.checkers.histories import BROKERS
from tests.checkers.slow.random_storms import RandomStorm, storms


class RandomBounds(RandomStorm):
    """``begins``: where the log of each replica, and the manifest (``store-0``), of each queue begin."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.begins: dict[tuple[str, int], int] = {}
        self.calm, self.has_tier = rng.random() < 0.8, rng.random() < 0.6
        self.versions = 0
        self.lives = dict.fromkeys(BROKERS, 1)

    def step(self) -> None:
        rng = self.rng
        kinds = ("storm", "send", "ask", "retention", "manifest", "bootstrap", "restart")
        kind = rng.choices(kinds, (2 if self.calm else 12, 30, 40, 12, 8 if self.has_tier else 0, 1, 2))[0]
        queue, node = rng.randrange(self.queues), rng.choice(BROKERS)
        if kind == "storm":
            super().step()
        elif kind == "send":
            self.send()
        elif kind == "ask":
            self.ask(node, queue)
        elif kind == "retention":
            minimums = {str(one): self.raised(node, one) for one in range(self.queues) if rng.random() < 0.8}
            value = {"minimums": minimums, "inputs": {"tiered": rng.random() < (0.9 if self.has_tier else 0.1)}}
            self.history.trace(node, "retention", incarnation=self.lives[node], position=1, value=value)
        elif kind == "manifest":
            self.versions += 1
            content = {"writer": BROKERS[0], "start": self.raised("store-0", queue), "segments": []}
            value = {"version": self.versions, "content": content, "outcome": rng.choice(("applied", "refused"))}
            self.history.trace("store-0", "store_cas", queue=queue, offset=self.sent[queue], value=value)
        elif kind == "bootstrap":
            self.history.trace(node, "bootstrap", incarnation=self.lives[node], position=1, value={"queues": {}})
        else:
            self.lives[node] += 1
        self.history.wait(rng.choice((0.01, 0.3, 1.5)))

    def raised(self, node: str, queue: int) -> int:
        begin = min(self.sent[queue], self.begins.get((node, queue), 0) + self.rng.choice((0, 1, 3)))
        self.begins[node, queue] = begin
        return begin

    def ask(self, node: str, queue: int) -> None:
        rng, there = self.rng, self.sent[queue]
        f = rng.choice(("pull", "pull", "bounds"))
        asked: dict[str, object] = {"from": node} if rng.random() < 0.6 else {}
        op = self.history.invoke(f, process="asker", queue=queue, offset=0 if f == "pull" else -1, value=asked)
        begin, told = self.begins.get((node, queue), 0), {}
        if rng.random() < 0.9:
            told["minimum"] = begin if rng.random() < 0.5 else rng.randrange(begin + 1)
        if rng.random() < 0.9:
            told["maximum"] = there if rng.random() < 0.5 else rng.randrange(there + 1)
        outcome = rng.choices(("ok", "fail", "info"), (80, 15, 5))[0]
        where = {"node": node, "epoch": rng.choice((1, 1, 2)), "incarnation": self.lives[node]}
        self.history.complete(op, outcome, value=told, **(where if outcome != "info" else {}))


def bounds(rng: Random) -> pa.Table:
    return storms(rng, RandomBounds(rng))
