"""Random histories of readers that wait: pulls that are held, of masters and of certain replicas, many at a time."""

from __future__ import annotations

from random import Random

import pyarrow as pa

from tests.checkers.histories import BROKERS, content, m
from tests.checkers.slow.random_storms import RandomReaders, storms

WAYS: tuple[dict[str, object], ...] = ({}, {"from": "broker-1"}, {"from": "broker-1"}, {"demand": "tier"})
SOURCES = ("local", "local", "tier", "")


class RandomWaiters(RandomReaders):
    """``open``: pulls that wait, as (op, process, queue, offset, what was asked)."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.open: list[tuple[int, str, int, int, dict[str, object]]] = []
        self.calm = rng.random() < 0.7
        self.dwells = rng.choice((0.05, 0.3, 1.0))

    def step(self) -> None:
        weights = (2 if self.calm else 15, 30, 30, 15, 6, 3)
        kind = self.rng.choices(("storm", "ask", "answer", "send", "bounds", "polls"), weights)[0]
        queue = self.rng.randrange(self.queues)
        if self.rng.random() < 0.03:
            self.history.row("harness", f="stall", value={"ms": self.rng.choice((10, 3000))})
        if kind == "storm":
            super().step()
        elif kind == "ask":
            self.ask(queue)
        elif kind == "answer" and self.open:
            self.answer(*self.open.pop(self.rng.randrange(len(self.open))))
        elif kind == "send":
            self.send()
        elif kind == "polls":
            self.polls_in_vain(queue)
        elif kind == "bounds":
            self.history.bounds(0, self.sent[queue] + self.errs(), queue=queue, epoch=self.rng.choice((1, 1, 2)))
        self.history.wait(self.rng.choice((0.001, 0.05, self.dwells)))

    def polls_in_vain(self, queue: int) -> None:
        """A replica gives a reader nothing, mostly."""
        leap = self.rng.choice((0.3, 0.6))
        for _ in range(self.rng.randrange(8)):
            empty, self.empty = self.empty, self.rng.choice((1.0, 1.0, 1.0, 0.5))
            self.pull(queue, 1, {"from": "broker-1"}, max(0, self.sent[queue] - 1))
            self.empty = empty
            self.history.wait(leap)

    def ask(self, queue: int) -> None:
        rng = self.rng
        process = f"tail-{len(self.history.rows)}.0" if rng.random() < 0.8 else "tail.0"
        asked: dict[str, object] = dict(rng.choice(WAYS))
        if rng.random() < 0.5:
            asked["wait_ms"] = rng.choice((100, 3000))
        offset = max(0, self.sent[queue] - rng.choice((0, 0, 1, 2)))
        if process in {one[1] for one in self.open}:
            return
        op = self.history.invoke("pull", process=process, queue=queue, offset=offset, value=asked)
        self.open.append((op, process, queue, offset, asked))

    def answer(self, op: int, process: str, queue: int, offset: int, asked: dict[str, object]) -> None:
        rng, there = self.rng, self.sent[queue]
        outcome = rng.choices(("ok", "fail", "info"), (85, 10, 5))[0]
        end = offset if rng.random() < self.empty else max(offset, min(there, offset + 2))
        node = str(asked.get("from", "")) or rng.choice((BROKERS[0], BROKERS[0], BROKERS[1]))
        told = {"minimum": 0, "maximum": there + self.errs(), "following": end + self.errs()}
        told |= {name: word for name, word in (("source", rng.choice(SOURCES)),) if word}
        told = told if rng.random() < 0.95 else {}
        epoch = rng.choice((1, 1, 1, 2))
        where = {"node": node, "epoch": epoch, "incarnation": 1} if outcome != "info" else {}
        value = told | ({"from": asked["from"]} if "from" in asked else {}) if where else {}
        self.history.complete(op, outcome, value=value, offset=offset, **where)
        for at in range(offset, end if outcome == "ok" else offset):
            stands = {"queue": queue, "offset": at, "message": m(at, queue), "hash": content(m(at, queue))}
            self.history.row("op", type="ok", op=op, process=process, f="delivered", node=node, epoch=epoch, **stands)


def waiters(rng: Random) -> pa.Table:
    return storms(rng, RandomWaiters(rng))
