"""What is found in one piece and in shards is what a slow twin finds, in random histories of logs."""

from __future__ import annotations

from collections import Counter
from random import Random

from chaos.verdict import Validity
from tests.checkers.isolation.events import Events
from tests.checkers.isolation.logged import Logged, Place


class Drawn:
    """Clients that do one thing after another, at random. ``order``: how often a message stands where it should, and is
    read by those that may."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.history = Logged()
        self.order = self.random.choice([0.5, 0.9, 0.98, 1.0])
        self.queues = {queue: [*range(0, 60, 3)] for queue in range(self.random.randint(1, 3))}
        self.stands: list[Place] = []
        self.sent_by: dict[Place, int] = {}
        self.running: list[int] = []
        self.sending: list[tuple[int, Place]] = []
        self.numbers = 0

    def play(self) -> Logged:
        for _ in range(self.random.randint(5, 40)):
            self.random.choice([self.begin, self.send, self.send, self.poll, self.poll, self.end, self.alone])()
        for txn in self.running[:: self.random.choice([1, 2])]:
            self.history.end(txn)
        return self.history

    def place(self) -> Place:
        queue = self.random.choice([*self.queues])
        free = self.queues[queue]
        return queue, free.pop(0 if self.random.random() < self.order else self.random.randrange(len(free)))

    def begin(self) -> None:
        if len(self.running) < 3:
            self.history.begin(self.numbers, f"p{self.random.randint(0, 9) + 10 * self.numbers}.0")
            self.running.append(self.numbers)
            self.numbers += 1

    def send(self) -> None:
        if self.running:
            txn, place = self.random.choice(self.running), self.place()
            self.history.send(txn, place)
            self.sent_by[place] = txn
            if self.random.random() > self.order:
                self.stands.append(place)

    def alone(self) -> None:
        if self.sending and self.random.random() < 0.6:
            op, place = self.sending.pop(0)
            self.history.end_send(op, place, self.random.choice(["ok", "ok", "ok", "info"]))
        else:
            place = self.place()
            self.sending.append((self.history.begin_send(place, f"producer-{place}.0"), place))
            self.stands.append(place)

    def poll(self) -> None:
        txn = self.random.choice([-1, *self.running])
        there = [place for place in self.stands if self.sent_by.get(place) != txn]
        if there:
            self.history.poll(*self.random.sample(there, min(len(there), self.random.randint(1, 3))), txn=txn)

    def end(self) -> None:
        if self.running:
            txn = self.running.pop(self.random.randrange(len(self.running)))
            type = self.random.choice(["ok", "ok", "ok", "info", "fail"])
            if type != "fail":
                self.stands += [place for place, by in self.sent_by.items() if by == txn]
            self.history.end(txn, type)


def test_random_histories_are_judged_as_the_slow_twin_judges_them() -> None:
    seen: Counter[object] = Counter()
    for seed in range(100):
        history = Drawn(seed).play()
        verdict, wrong = history.judge(), Events(history).are_wrong()
        assert (verdict.validity is Validity.INVALID) == wrong, f"{seed}: {verdict}"
        if seed % 5 == 0 and history.rows:
            assert history.judge(most=1) == verdict, seed
        seen.update({anomaly.name for anomaly in verdict.anomalies} or {verdict.validity})
    assert min(seen[name] for name in ("G0-realtime", "G1c-realtime", "allowed-cycle", Validity.VALID)) > 2, seen
