"""What groups of consumers were given, and the wait until each was given everything: what workloads about deliveries
share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.ops import Answer, QueueRef
from chaos.workload import Load, Outcome, Worker

LOOK_S = 0.2
#: So long after its time a message may come.
SLACK_NS = 1_000_000_000


@dataclass(slots=True)
class Given:
    """What a group was given of a queue: all messages below ``until``, and the offsets ``ahead`` of it."""

    until: int = 0
    ahead: set[int] = field(default_factory=set)

    def add(self, offset: int) -> None:
        if offset >= self.until:
            self.ahead.add(offset)
        while self.until in self.ahead:
            self.ahead.remove(self.until)
            self.until += 1

    def reach(self, offset: int) -> None:
        """Add an offset, and all below it: a group that reads in order has come by them, whatever stands there."""
        self.until = max(self.until, offset)
        self.add(offset)


@dataclass(slots=True)
class Deliveries:
    """``owed``: messages, by their ids, that have to be delivered although no offset is known of them; ``_came``:
    which of them came to each group. ``_places``: the offset of each message, as far as any client learned it.
    ``_reached`` counts what shows that clients reached the system, for those that do so in one ``way``. ``_returned``:
    which messages each group has sent back and not been given again."""

    way: Callable[[str], str]
    _given: dict[tuple[str, int], Given] = field(default_factory=dict)
    _owed: set[int] = field(default_factory=set)
    _came: dict[str, set[int]] = field(default_factory=dict)
    _places: dict[int, int] = field(default_factory=dict)
    _reached: Counter[str] = field(default_factory=Counter)
    _returned: dict[str, set[int]] = field(default_factory=dict)
    _expected_ns: int = 0

    def heard(self, f: str, queue: QueueRef, asked: Mapping[str, Any], outcome: Outcome) -> None:
        """Take in an operation that has ended: what it asked for, and how it ended."""
        if not outcome.ok:
            return
        if f in ("delay", "transact") and asked.get("decision") != "rollback":
            self._owed.add(asked["message"])
        elif f == "send":
            self._places[asked["message"]] = outcome.answer.offset
        elif f == "receive":
            given = self._given.setdefault((asked["group"], queue.index), Given())
            came = self._came.setdefault(asked["group"], set())
            self._reached[self.way(asked["group"])] += len(outcome.answer.messages) or 1
            for one in outcome.answer.messages:
                self._places[one.message] = one.offset
                (given.reach if asked["in_order"] else given.add)(one.offset)
                came.add(one.message)
        elif f == "send_back":
            self._returned.setdefault(asked["group"], set()).add(asked["message"])
        elif f == "receive_again":
            self._reached[self.way(asked["group"])] += 1
            self._given.setdefault((asked["group"], queue.index), Given()).add(self._places.get(asked["message"], -1))
            self._came.setdefault(asked["group"], set()).add(asked["message"])
            self._returned.setdefault(asked["group"], set()).discard(asked["message"])

    def expect(self, now_ns: int, within_ms: int) -> None:
        """Note that something may come to a queue within this time, whether it was accepted or not."""
        self._expected_ns = max(self._expected_ns, now_ns + within_ms * 1_000_000 + SLACK_NS)

    def complete(self, load: Load, groups: Sequence[str]) -> bool:
        """Return whether each group was given all that anybody knows of, and nothing more is to come."""
        if load.now_ns() < self._expected_ns:
            return False
        for group in groups:
            for queue in load.queues:
                known = 1 + max(load.shared[what].get(queue.index, -1) for what in ("acked", "seen"))
                if self._given.get((group, queue.index), Given()).until < known:
                    return False
            if not self._owed <= self._came.get(group, set()) or self._returned.get(group):
                return False
        return True

    async def catch_up(
        self,
        load: Load,
        groups: Sequence[str],
        read_on: Callable[[Callable[[], bool]], Awaitable[None]],
        drain_s: float,
    ) -> None:
        """Have the groups ``read_on`` (until what it is given says that they may stop) until each was given everything,
        or for ``drain_s``; record what each was given of each queue."""
        deadline_ns = load.now_ns() + round(drain_s * 1e9)
        over, before = False, self._reached.copy()

        async def caught_up(group: str, queue: QueueRef) -> Answer:
            while not over:
                await load.sleep(LOOK_S)
            until = self._given.get((group, queue.index), Given()).until
            return Answer(offset=until, value={"received": self._reached[self.way(group)] - before[self.way(group)]})

        async def watch(group: str, queue: QueueRef) -> None:
            worker = Worker(load, f"{group}-watcher-{queue.index}")
            await worker.do("caught_up", lambda: caught_up(group, queue), queue=queue, group=group)

        async def read() -> None:
            nonlocal over
            await read_on(lambda: self.complete(load, groups) or load.now_ns() > deadline_ns)
            over = True

        await load.gather(read(), *(watch(group, queue) for group in groups for queue in load.queues))
