"""Random transactions are called wrong if, and only if, no order of them explains what they read: an oracle that tries
all orders, and knows of no cycles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from chaos.verdict import Validity
from tests.checkers.isolation.keyed import Keyed

Step = list[Any]


class Drawn:
    """Transactions that took effect in some order, mostly that of real time, on a store that mostly answers rightly."""

    def __init__(self, seed: int, *, lists: bool) -> None:
        self.random = Random(seed)
        self.lists = lists
        self.good = self.random.choice([0.7, 0.9, 1.0])
        self.values = iter(range(1, 100))
        self.store: dict[str, list[int]] = {}
        count = self.random.randint(2, 6)
        self.types = [self.random.choice(["ok"] * 6 + ["info", "fail"]) for _ in range(count)]
        self.began = sorted(self.random.sample(range(20), count))
        self.ended = [at + self.random.randint(0, 8) + 0.5 for at in self.began]
        effect = [self.random.uniform(at, end) for at, end in zip(self.began, self.ended, strict=True)]
        order = sorted(range(count), key=lambda one: effect[one] if self.random.random() < self.good else one % 3)
        steps = {one: self.steps(self.types[one]) for one in order}
        self.steps_of = [steps[one] for one in range(count)]

    def steps(self, type: str) -> list[Step]:
        """Let one transaction take effect, or not."""
        found: list[Step] = []
        store = {key: [*values] for key, values in self.store.items()}
        for _ in range(self.random.randint(1, 3)):
            key = self.random.choice("xy")
            values = store.setdefault(key, [])
            if self.random.random() < 0.5:
                seen = values if self.random.random() < self.good else values[: self.random.randint(0, len(values))]
                found.append(["r", key, [*seen] if self.lists else seen[-1] if seen else None])
            else:
                values.append(next(self.values))
                found.append(["append" if self.lists else "w", key, values[-1]])
        if type == "ok" or (type == "info" and self.random.random() < 0.5) or self.random.random() > self.good:
            self.store = store
        return found

    def history(self) -> Keyed:
        history, begun = Keyed(), dict[int, int]()
        moments = [(at, 0, one) for one, at in enumerate(self.began)] + [(at, 1, n) for n, at in enumerate(self.ended)]
        for _, is_end, one in sorted(moments):
            if is_end:
                history.end(begun[one], self.steps_of[one], self.types[one])
            else:
                begun[one] = history.begin(self.steps_of[one], f"p{one}.0")
        return history

    def is_explained(self, *, real_time: bool) -> bool:
        """Whether some order of those that were committed, and of any of those that may have been, explains all."""
        there = [one for one, type in enumerate(self.types) if type != "fail"]
        ok = {one for one in there if self.types[one] == "ok"}
        before = {two: {one for one in ok if self.ended[one] < self.began[two]} for two in there}

        def search(done: set[int], store: dict[str, list[int]]) -> bool:
            if ok <= done:
                return True
            for one in there:
                if one in done or (real_time and not before[one] <= done):
                    continue
                after = self.applied(one, store)
                if after is not None and search(done | {one}, after):
                    return True
            return False

        return search(set(), {})

    def applied(self, one: int, store: dict[str, list[int]]) -> dict[str, list[int]] | None:
        """What the store is after a transaction; None if that can't have read what it did."""
        now = {key: [*values] for key, values in store.items()}
        for step, key, value in self.steps_of[one]:
            values = now.setdefault(key, [])
            if step != "r":
                values.append(value)
            elif self.types[one] == "ok" and value != (values if self.lists else values[-1] if values else None):
                return None
        return now


def drawn(seeds: Sequence[int], *, lists: bool) -> Iterator[tuple[int, Drawn]]:
    yield from ((seed, Drawn(seed, lists=lists)) for seed in seeds)


def test_lists_are_wrong_if_no_order_explains_them() -> None:
    seen: Counter[str] = Counter()
    for seed, given in drawn(range(120), lists=True):
        history = given.history()
        verdict = history.judge()
        explained = given.is_explained(real_time=True)
        assert (verdict.validity is not Validity.INVALID) == explained, f"{seed}: {verdict}"
        history.isolation = "serializable"
        assert (history.judge().validity is not Validity.INVALID) == given.is_explained(real_time=False), seed
        seen.update({anomaly.name for anomaly in verdict.anomalies} or {str(verdict.validity)})
    assert seen["VALID"] > 20 and len(seen) > 6, seen


def test_registers_that_an_order_explains_are_not_wrong() -> None:
    seen: Counter[bool] = Counter()
    for seed, given in drawn(range(120), lists=False):
        wrong = given.history().judge().validity is Validity.INVALID
        explained = given.is_explained(real_time=True)
        assert not (wrong and explained), seed
        seen[wrong] += not explained
    assert seen[True] > 2 * seen[False], seen  # the order of registers' versions is known in part
