"""Storms at random: sends, reads, faults that begin and end, and long times in which nobody answers."""

from __future__ import annotations

from random import Random

import pyarrow as pa

from tests.checkers.histories import BROKERS, EFFECTS, History, content, m

FAULTS = [*EFFECTS, "partition", "own"]
LEAPS = (0.0, 0.0, 0.0, 0.2, 1.0, 4.0, 11.0)


class RandomStorm:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.history = History(step_ms=rng.choice((1, 100)))
        self.queues = rng.choice((1, 2, 4))
        self.answered = rng.choice((0.05, 0.5, 0.9))
        self.sent = [0] * self.queues
        self.active: list[tuple[str, str]] = []

    def step(self) -> None:
        rng, history = self.rng, self.history
        kind = rng.choices(("send", "inject", "undo", "stall"), (60, 4, 4, 1))[0]
        if kind == "send":
            self.send()
        elif kind == "inject":
            name = rng.choice(FAULTS)
            targets = rng.sample((*BROKERS, "client"), rng.choice((1, 1, 2)))
            effects = None if name == "own" else "usual"
            self.active.append((name, history.inject(name, *targets, effects=effects, shape="isolate")))
        elif kind == "undo" and self.active:
            history.undo(*self.active.pop(rng.randrange(len(self.active))))
        elif kind == "stall":
            history.row("harness", f="stall", value={"ms": rng.choice((10, 3000))})
        history.wait(rng.choice(LEAPS))

    def send(self) -> None:
        queue = self.rng.randrange(self.queues)
        outcome = "ok" if self.rng.random() < self.answered else self.rng.choice(("fail", "info"))
        self.history.send(self.sent[queue], queue=queue, type=outcome)
        self.sent[queue] += outcome == "ok"


class RandomReaders(RandomStorm):
    """``wrong``: how often an answer says what is not so."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.wrong = rng.choice((0.0, 0.05, 0.5))
        self.empty = rng.choice((0.1, 0.8))

    def step(self) -> None:
        kind = self.rng.choices(("storm", "pull", "polls", "committed", "bounds"), (30, 50, 4, 5, 3))[0]
        queue, epoch = self.rng.randrange(self.queues), self.rng.choice((1, 1, 1, 2))
        if kind == "storm":
            super().step()
        elif kind == "pull":
            self.pull(queue, epoch, self.asked())
        elif kind == "polls":
            self.polls(queue, epoch)
        elif kind == "committed":
            group = {"group": self.rng.choice("gh")}
            op = self.history.invoke("committed", queue=queue, value=group)
            self.history.complete(op, self.rng.choice(("ok", "fail", "info")), offset=0, node=BROKERS[0], epoch=1)
        else:
            self.history.bounds(0, self.sent[queue] + self.errs(), queue=queue, epoch=epoch)

    def errs(self) -> bool:
        return self.rng.random() < self.wrong

    def asked(self) -> dict[str, str]:
        asked: dict[str, str] = dict(self.rng.choice(({"group": "g"}, {"group": "h"}, {"by": "queue"}, {})))
        return asked | self.rng.choice(({}, {}, {}, {"demand": "tier"}, {"demand": "local"}, {"from": "broker-1"}))

    def polls(self, queue: int, epoch: int) -> None:
        """One reader asks again and again, a stall's length at most."""
        asked, begin, leap = self.asked(), self.rng.randrange(self.sent[queue] + 1), self.rng.choice((0.5, 3.0, 6.0))
        for _ in range(self.rng.randrange(2, 9)):
            self.pull(queue, epoch, asked, begin)
            self.history.wait(leap)

    def pull(self, queue: int, epoch: int, asked: dict[str, str], begin: int = -1) -> None:
        rng, history, there = self.rng, self.history, self.sent[queue]
        begin = rng.randrange(there + 2) if begin < 0 else begin
        process = f"reader-{rng.randrange(2)}.{rng.randrange(2)}"
        op = history.invoke("pull", process=process, queue=queue, offset=begin, value=asked)
        end = begin if rng.random() < self.empty else min(there, begin + 2)
        end = max(begin, end)
        told = {"minimum": rng.choice((0, 0, 1)), "maximum": there + self.errs(), "following": end + self.errs()}
        outcome = rng.choices(("ok", "fail", "info", ""), (80, 10, 5, 5))[0]
        if outcome:
            node = rng.choice((BROKERS[0], BROKERS[0], BROKERS[1]))
            history.complete(op, outcome, value=told, offset=begin, node=node, epoch=epoch, incarnation=1)
        for offset in range(begin, end if outcome == "ok" else begin):
            stands = {"queue": queue, "offset": offset, "message": m(offset, queue), "hash": content(m(offset, queue))}
            history.row("op", type="ok", op=op, process=process, f="delivered", node=BROKERS[0], epoch=epoch, **stands)


def readers(rng: Random) -> pa.Table:
    """As :func:`storms`, with those who read meanwhile and in the end."""
    made = RandomReaders(rng)
    table = storms(rng, made)
    for _ in range(rng.choice((0, 20))):
        made.polls(rng.randrange(made.queues), 1)
    return made.history.table() if rng.random() < 0.9 else table


def storms(rng: Random, made: RandomStorm | None = None) -> pa.Table:
    made = made or RandomStorm(rng)
    history = made.history
    history.phase("load")
    history.master(BROKERS[0], 1)
    for _ in range(rng.choice((20, 100, 300))):
        made.step()
    if rng.random() < 0.9:
        history.phase("heal")
    if rng.random() < 0.8:
        history.recovered()
    elif rng.random() < 0.5:
        history.row("harness", f="not_recovered", value={"seconds": 60, "reason": "no master"})
    history.phase("drain")
    return history.table()
