"""Groups that a library reads for, at random: what is delayed, decided by a transaction, given in order, or again."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

from tests.checkers.histories import content, m
from tests.checkers.slow.random_clients import RandomClients, history

GROUPS = ("push", "pop", "orderly")


class RandomReceivers(RandomClients):
    """``due``: messages that come to their queue later; ``read``: group and queue → the offset that comes next."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.due: list[tuple[int, int]] = []
        self.read: dict[tuple[str, int], int] = {}
        self.blank = rng.choice((0.0, 0.0, 0.05, 0.5))
        self.waited_ms = 0

    def add(self, kind: str, f: str, value: Any = None, **columns: Any) -> int:
        return super().add(kind, f, value, **{"time_ns": (len(self.rows) + self.waited_ms) * 1_000_000, **columns})

    def step(self) -> None:
        f = self.rng.choices(
            ("other", "send", "delay", "transact", "come", "receive", "receive_again", "ack", "send_back"),
            (8, 20, 5, 5, 8, 40, 4, 10, 2),
        )[0]
        if f == "other":
            super().step()
        elif f == "come" and self.due:
            queue, message = self.due.pop(self.rng.randrange(len(self.due)))
            self.stored[queue].append(message)
        elif f == "send":
            self.send()
        elif f in ("delay", "transact"):
            self.later(f)
        elif f == "receive":
            self.receive(self.rng.choice(GROUPS), self.queue)
        elif f == "send_back":
            self.send_back()
        elif f in ("receive_again", "ack"):
            self.one(f)

    def later(self, f: str) -> None:
        queue, message = self.queue, m(len(self.rows), self.queue)
        asked: dict[str, Any] = {"decision": self.rng.choice(("commit", "rollback"))}
        if f == "delay":
            asked = {"delay_ms": self.rng.choice((0, 5, 100_000 if self.likely(0.1) else 50))}
        outcome = self.rng.choices(("ok", "info", "fail", ""), (80, 8, 6, 6))[0]
        if (outcome in ("ok", "info") and asked.get("decision") != "rollback") or self.errs():
            self.due.append((queue, message))
        told = {"type": outcome, "value": dict(asked)} if outcome else None
        self.call(f, asked, told, queue=queue, message=message, hash=content(message))

    def receive(self, group: str, queue: int) -> None:
        rng, stored = self.rng, self.stored[queue]
        asked = {"group": group, "in_order": int(group == "orderly")}
        outcome = rng.choices(("ok", "info", "fail"), (90, 5, 5))[0]
        op = self.call("receive", asked, {"type": outcome, "value": dict(asked)}, queue=queue)
        begin = self.read.get((group, queue), 0)
        begin = max(0, begin + rng.choice((-3, -1, 0, 0, 0, 0, 1 if self.errs() else 0)))
        for offset in range(begin, min(len(stored), begin + rng.choice((1, 2, 8)))):
            self.read[group, queue] = offset + 1
            if self.errs():
                continue
            message = stored[offset]
            told = -1 if self.likely(self.blank) else message
            stands = {"queue": queue, "offset": offset, "message": told, "hash": content(message) ^ self.errs()}
            self.add("op", "delivered", type="ok", op=op, process="client-0.0", **stands, **self.master())

    def one(self, f: str) -> None:
        queue = self.queue
        if self.stored[queue]:
            message = self.rng.choice(self.stored[queue])
            more = {"hash": content(message)} if f == "receive_again" else {}
            told = {"type": self.rng.choice(("ok", "ok", "info")), "value": {"group": "pop"}}
            self.call(f, {"group": "pop"}, told, queue=queue, message=message, **more)

    def send_back(self) -> None:
        """Some come again: most of these once they were taken back, to their group."""
        queue = self.queue
        if self.stored[queue]:
            message, group = self.rng.choice(self.stored[queue]), self.rng.choice(GROUPS)
            asked, columns = {"group": group}, {"queue": queue, "message": message, "hash": content(message)}
            again_ms = self.rng.choice((0, 100, 100_000 if self.errs() else 0))
            back = {"type": self.rng.choice(("ok", "ok", "ok", "info")), "value": {**asked, "again_ms": again_ms}}
            self.call("send_back", asked, back, **columns)
            if self.likely(0.7):
                other = {"group": self.rng.choice(GROUPS)} if self.errs() else asked
                self.call(
                    "receive_again", other, {"type": self.rng.choice(("ok", "ok", "info")), "value": other}, **columns
                )

    def drain(self, queue: int) -> None:
        self.waited_ms += self.rng.choice((0, 0, 6000))
        for group in GROUPS:
            for _ in range(2 if self.likely(0.7) else 0):
                self.receive(group, queue)
            if self.likely(0.8):
                told = {"type": self.rng.choice(("ok", "ok", "ok", "info")), "offset": len(self.stored[queue])}
                told["value"] = {"group": group, "received": self.rng.choice((0, 1, 5))}
                self.call("caught_up", {"group": group}, told, queue=queue)
        super().drain(queue)


def receivers(rng: Random) -> pa.Table:
    """What groups were given, from the load to the final reading."""
    return history(RandomReceivers(rng))
