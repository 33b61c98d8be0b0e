"""Storms at random: sends, reads, faults that begin and end, and long times in which nobody answers."""

from __future__ import annotations

from random import Random

import pyarrow as pa
from histories import BROKERS, EFFECTS, History

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


def storms(rng: Random) -> pa.Table:
    made = RandomStorm(rng)
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
