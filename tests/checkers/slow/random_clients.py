"""What clients might be told by a system that keeps no promise: most answers are right, and any may be wrong."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

from tests.checkers.histories import BROKERS, content, m
from tests.checkers.slow.random_rows import RandomRows


class RandomClients(RandomRows):
    """``stored``: queue → the messages that stand there, by offset."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.stored: dict[int, list[int]] = {queue: [] for queue in range(rng.choice((1, 2, 3)))}
        self.wrong = rng.choice((0.0, 0.01, 0.2))
        self.versions = 0

    @property
    def queue(self) -> int:
        return self.rng.choice([*self.stored])

    def errs(self) -> bool:
        return self.likely(self.wrong)

    def call(self, f: str, asked: dict[str, Any], told: dict[str, Any] | None, **columns: Any) -> int:
        """An operation and, with ``told``, its answer. Returns the row of its invocation."""
        process = self.rng.choice(("client-0.0", "client-1.0"))
        op = self.add("op", f, asked, type="invoke", process=process, **columns)
        if told is not None:
            end = {"type": "ok", "op": op, "process": process, **self.master(), **columns}
            self.add("op", f, told.pop("value", {}), **{**end, **told})
        return op

    def master(self) -> dict[str, Any]:
        return {"node": BROKERS[0] if self.likely(0.9) else "", "epoch": self.rng.choice((1, 1, 1, 2))}

    def send(self) -> None:
        queue = self.queue
        stored = self.stored[queue]
        message = self.rng.choice(stored) if stored and self.likely(0.1) else m(len(self.rows), queue)
        outcome = self.rng.choices(("ok", "info", "fail", ""), (80, 8, 6, 6))[0]
        is_repetition = outcome == "info" and message in stored
        if (outcome != "fail" and not is_repetition) or self.errs():
            stored.append(message)
        offset = len(stored) - 1 if outcome == "ok" and not self.errs() else -1
        offset = stored.index(message) if is_repetition and self.likely(0.5) else offset
        told = {"type": outcome, "offset": offset, "value": {"again": 1} if is_repetition else {}} if outcome else None
        self.call("send", {}, told, queue=queue, message=message, hash=content(message))
        if self.errs() and stored:
            stored.pop(self.rng.randrange(len(stored)))

    def pull(self, queue: int, begin: int, count: int) -> None:
        asked = self.rng.choice(({"group": "g"}, {"group": "h"}, {}, {"from": "slave"}))
        told = {"minimum": self.rng.choice((0, 2)) if self.errs() else 0, "maximum": len(self.stored[queue])}
        op = self.call("pull", asked, {"value": told}, queue=queue, offset=begin)
        for offset, message in enumerate(self.stored[queue][begin : begin + count], begin):
            if self.errs():
                continue
            message = self.rng.choice((77 << 40, m(1, queue), message)) if self.errs() else message
            stands = {"queue": queue, "message": message, "hash": content(message) ^ self.errs()}
            stands["offset"] = offset + self.errs()
            self.add("op", "delivered", type="ok", op=op, process="client-0.0", **stands, **self.master())

    def step(self) -> None:
        rng, queue = self.rng, self.queue
        length = len(self.stored[queue])
        f = rng.choices(("send", "pull", "bounds", "retention", "manifest", "role"), (40, 25, 5, 4, 2, 1))[0]
        if f == "send":
            self.send()
        elif f == "pull":
            self.pull(queue, rng.randrange(length + 1), rng.choice((0, 1, 3)))
        elif f == "bounds":
            told = {"minimum": rng.choice((0, 0, 1, 5)), "maximum": length}
            self.call("bounds", {}, {"value": told}, queue=queue)
        elif f == "manifest":
            self.manifest(queue)
        elif f == "role":
            self.add("trace", "role", {"role": "master", "start": 0}, node=BROKERS[0], epoch=rng.choice((1, 2)))
        else:
            position = rng.randrange(20)
            self.add("trace", f, self._removed(position), node=rng.choice(BROKERS), position=position)

    def manifest(self, queue: int) -> None:
        rng, self.versions = self.rng, self.versions + 1
        segments = [{"base": base, "bytes": 5} for base in range(0, len(self.stored[queue]), 3)]
        start = rng.choice((0, 0, 0, 3))
        told = {"writer": BROKERS[0], "start": start, "segments": [one for one in segments if one["base"] >= start]}
        version = {"version": self.versions, "content": told, "outcome": rng.choice(("applied", "applied", "refused"))}
        end = len(self.stored[queue]) - rng.choice((0, 0, 2))
        self.add("trace", "store_cas", version, node="store-0", queue=queue, offset=end)
        limit = {"version": self.versions, "retain_bytes": rng.choice((0, 5, 12))}
        self.add("trace", "tier_commit", limit if self.likely(0.9) else {}, node=BROKERS[0], queue=queue)

    def drain(self, queue: int) -> None:
        begin, end = self.rng.choice((0, 0, 0, 1)), len(self.stored[queue]) - self.errs()
        asked = self.add("op", "drain", type="invoke", process="drain-0.0", queue=queue, offset=begin)
        self.pull(queue, begin, end)
        if not self.errs():
            self.add("op", "drain", type="ok", op=asked, process="drain-0.0", queue=queue, offset=end)

    def extent(self) -> dict[str, int]:
        """From where to where a replica's log goes, if it says so."""
        return {}

    def finals(self) -> None:
        for node in (*BROKERS, "store-0"):
            for queue, stored in self.stored.items():
                for offset, message in enumerate(stored):
                    if not self.errs():
                        stands = {"queue": queue, "offset": offset, "position": offset, "hash": content(message)}
                        f = "tiered" if node == "store-0" else "log"
                        self.add("final", f, node=node, message=message if not self.errs() else 5, epoch=1, **stands)
        for node in BROKERS:
            role = self.rng.choice(("master", "slave"))
            maximums = {str(queue): len(stored) + self.errs() for queue, stored in self.stored.items()}
            told = {"role": role, "maximums": maximums, "confirm": 9, **self.extent()}
            self.add("final", "node", told, node=node)
            if self.likely(0.95):
                self.add("final", "complete", node=node)


class RandomLogs(RandomClients):
    """Clients, and replicas whose logs grow, are confirmed and cut, and go from somewhere to somewhere in the end."""

    def step(self) -> None:
        if self.likely(0.6):
            super().step()
            return
        rng, node = self.rng, self.rng.choice(BROKERS)
        f = rng.choices(("append", "confirm", "truncate", "recovered", "bootstrap"), (12, 6, 2, 1, 1))[0]
        lived = {"node": node, "incarnation": 1, "step": len(self.rows) + rng.choice((0, 0, -2)), "epoch": 1}
        if f == "append":
            queue = self.queue
            offset = rng.randrange(len(self.stored[queue]) + 1)
            message = m(1, queue) if self.errs() or offset == len(self.stored[queue]) else self.stored[queue][offset]
            stands = {"queue": queue, "offset": offset, "message": message, "hash": content(message)}
            size = rng.choice((1, 3))
            self.add("trace", f, {"size": size}, position=self.position[node], **stands, **lived)
            self.position[node] += size
        else:
            self.add("trace", f, position=max(0, self.position[node] + rng.choice((-4, -2, -1, 0, 0))), **lived)

    def extent(self) -> dict[str, int]:
        longest = max(map(len, self.stored.values()))
        return {"first": self.rng.choice((0, 0, 1, 2)), "end": max(0, longest + self.rng.choice((-2, -1, 0, 0)))}


class RandomConsumers(RandomClients):
    """Clients that also commit, and pull with limits and as owners."""

    def step(self) -> None:
        if self.likely(0.7):
            super().step()
            return
        group, queue, length = self.rng.choice("gh"), self.queue, len(self.stored[self.queue])
        f = self.rng.choice(("commit", "committed", "pull"))
        if f == "pull":
            asked = {
                "group": group,
                "owner": self.rng.choice("ab"),
                "limit": self.rng.choice((0, 1, 4)),
                "max_bytes": 6,
            }
            told = {"minimum": 0, "maximum": length, "size": self.rng.choice((5, 7))}
            begin = self.rng.randrange(length + 1)
            op = self.call("pull", asked, {"value": told}, queue=queue, offset=begin)
            for offset, message in enumerate(self.stored[queue][begin : begin + 2], begin):
                stands = {"queue": queue, "message": message, "hash": content(message), "offset": offset}
                self.add("op", "delivered", type="ok", op=op, process="client-0.0", **stands, **self.master())
            return
        offset = self.rng.choice((-1, 0, length // 2, length, length + 2))
        told = {"type": self.rng.choice(("ok", "ok", "ok", "info", "fail")), "offset": offset}
        asked_at = {"offset": offset} if f == "commit" else {}
        op = self.add("op", f, {"group": group}, type="invoke", process="client-0.0", queue=queue, **asked_at)
        if self.likely(0.3):
            self.send()  # something else happens meanwhile
        self.add("op", f, {"group": group}, op=op, process="client-0.0", queue=queue, **{**told, **self.master()})


def consumers(rng: Random) -> pa.Table:
    """What groups of consumers did and were told, besides."""
    return history(RandomConsumers(rng))


def logs(rng: Random) -> pa.Table:
    """What clients did and were told, and what replicas told of their logs."""
    return history(RandomLogs(rng))


def clients(rng: Random) -> pa.Table:
    """What clients did and were told, and what was there after the run."""
    return history(RandomClients(rng))


def history(made: RandomClients) -> pa.Table:
    """What they do and are told, from the load to the final reading."""
    rng = made.rng
    made.add("harness", "phase", {"phase": "load"})
    if made.likely(0.3):
        told = {"targets": [BROKERS[0]], "detail": {}, "effects": {"takes_down": [BROKERS[0]]}}
        made.add("fault", "kill", told if made.likely(0.8) else {}, type="invoke", process="fault-0")
        proof = {"phase": "inject", "proof": {"seen": True}, "proven": told["effects"]}
        made.add("fault", "kill", proof, type="ok", process="fault-0")
    for _ in range(rng.choice((2, 40, 200))):
        made.step()
    made.add("harness", "phase", {"phase": "heal"})  # else each shard would take its own last send for the load's end
    if made.likely(0.9):
        made.add("harness", "recovered", {"seconds": 1})
    if made.likely(0.9):
        made.add("harness", "phase", {"phase": "drain"})
    for queue in made.stored:
        if made.likely(0.9):
            made.drain(queue)
    made.finals()
    return made.table()
