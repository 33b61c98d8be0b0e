"""Producers and consumers of the system's own client library, in one program: a second load beside our own clients.

After recovery the program is started again, and its groups read on until each was given everything, also what is
delayed and what transactions have committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from chaos.driver import HasClientLibrary
from chaos.ops import Answer, QueueRef
from chaos.workload import Load, Outcome, Use, Worker
from workloads._client_program import ClientProgram
from workloads._drain import drain

NAME = "library"
LOOK_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How many producers of each kind: ``sync``, ``asynchronous``, ``ordered`` (by key), ``batch`` (of ``batch_size``
    messages), ``delay`` (delivered later), ``transaction`` (committed, rolled back, or left to a check-back, if there
    is one). Together they send ``rate_per_s`` messages, or batches. How many consumers of each kind, which are a group:
    ``push`` (concurrent), ``orderly`` (push, in order), ``pull``, ``pop`` (they acknowledge each message, and are given
    it again if they don't). What the system's library can't be is refused. Delays and transactions need consumers.
    After recovery the groups have ``drain_s`` to catch up, and as long has the reading of each queue to its end."""

    sync: int = field(default=1, metadata={"within": range(101)})
    asynchronous: int = field(default=1, metadata={"within": range(101)})
    ordered: int = field(default=1, metadata={"within": range(101)})
    batch: int = field(default=1, metadata={"within": range(101)})
    batch_size: int = field(default=4, metadata={"within": range(1, 101)})
    delay: int = field(default=0, metadata={"within": range(101)})
    transaction: int = field(default=0, metadata={"within": range(101)})
    push: int = field(default=1, metadata={"within": range(101)})
    orderly: int = field(default=1, metadata={"within": range(101)})
    pull: int = field(default=1, metadata={"within": range(101)})
    pop: int = field(default=0, metadata={"within": range(101)})
    rate_per_s: float = 40.0
    drain_s: float = 90.0

    def __post_init__(self) -> None:
        if not self.producers and not self.groups:
            raise ValueError("there are neither producers nor consumers; give a number of some kind of them")
        if (self.delay or self.transaction) and not self.groups:
            raise ValueError(
                "delay, transaction: nobody would notice what comes; add `push`, `orderly`, `pull` or `pop`"
            )
        if self.rate_per_s <= 0:
            raise ValueError(f"rate_per_s: expected more than 0, got {self.rate_per_s:g}")

    @property
    def producers(self) -> int:
        return self.sync + self.asynchronous + self.ordered + self.batch + self.delay + self.transaction

    @property
    def groups(self) -> Mapping[str, int]:
        """How many consumers there are of each kind that has some."""
        counts = {"push": self.push, "orderly": self.orderly, "pull": self.pull, "pop": self.pop}
        return {kind: count for kind, count in counts.items() if count}


@dataclass(slots=True)
class _Given:
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
class Library:
    """``_owed``: messages, by their ids, that have to be delivered although no offset is known of them; ``_came``:
    which of them came to each group. ``_places``: the offset of each message, as far as any client learned it.
    ``_reached`` counts what shows that clients reached the system, for those that do so in one way (:func:`_way`)."""

    options: Options
    needs: Sequence[type] = (HasClientLibrary,)
    uses: Sequence[Use] = (Use.QUEUES, Use.DELIVERIES)
    _given: dict[tuple[str, int], _Given] = field(default_factory=dict)
    _owed: set[int] = field(default_factory=set)
    _came: dict[str, set[int]] = field(default_factory=dict)
    _places: dict[int, int] = field(default_factory=dict)
    _reached: Counter[str] = field(default_factory=Counter)

    @property
    def sends_per_s(self) -> float:
        """How many messages, or batches, the producers send together each second."""
        return self.options.rate_per_s if self.options.producers else 0.0

    def misfits(self, driver: object) -> Mapping[str, str]:
        """See :class:`chaos.fault.FitsSystems`: name what the system's library can't be."""
        lacks = cast(HasClientLibrary, driver).library_lacks()
        return {option: why for option, why in lacks.items() if getattr(self.options, option)}

    async def run(self, load: Load) -> None:
        options = self.options
        orders = {
            "sync": options.sync,
            "async": options.asynchronous,
            "ordered": options.ordered,
            "batch": options.batch,
            "batch_size": options.batch_size,
            "delay": options.delay,
            "transaction": options.transaction,
            "gap_ns": round(1e9 * max(1, options.producers) / options.rate_per_s),
            "seed": load.rng(NAME).getrandbits(32),
        }
        await (await self._program(load, orders)).run()

    async def drain(self, load: Load) -> None:
        """Read all that is left, the groups first: what is delayed, or decided late, may come to a queue meanwhile."""
        if self.options.groups:
            await self._catch_up(load)
        drain_s = self.options.drain_s
        await load.gather(*(drain(load, queue, f"{NAME}-{queue.index}", NAME, drain_s) for queue in load.queues))

    async def _catch_up(self, load: Load) -> None:
        deadline_ns = load.now_ns() + round(self.options.drain_s * 1e9)
        over, before = False, self._reached.copy()

        async def caught_up(group: str, queue: QueueRef) -> Answer:
            while not over:
                await load.sleep(LOOK_S)
            until = self._given.get((group, queue.index), _Given()).until
            return Answer(offset=until, value={"received": self._reached[_way(group)] - before[_way(group)]})

        async def watch(group: str, queue: QueueRef) -> None:
            worker = Worker(load, f"{group}-watcher-{queue.index}")
            await worker.do("caught_up", lambda: caught_up(group, queue), queue=queue, group=group)

        async def read_on() -> None:
            nonlocal over
            program = await self._program(load, {"answer_checks": self.options.transaction})
            await program.run(lambda: self._complete(load) or load.now_ns() > deadline_ns)
            over = True

        groups = [f"{NAME}-{kind}" for kind in self.options.groups]
        await load.gather(read_on(), *(watch(group, queue) for group in groups for queue in load.queues))

    async def _program(self, load: Load, orders: Mapping[str, int]) -> ClientProgram:
        command = await load.library_command(NAME, {**orders, **self.options.groups})
        return ClientProgram(load, NAME, command, self._heard)

    def _heard(self, f: str, queue: QueueRef, asked: Mapping[str, Any], outcome: Outcome) -> None:
        if f in ("delay", "transact") and outcome.ok and asked.get("decision") != "rollback":
            self._owed.add(asked["message"])
        elif f == "send" and outcome.ok:
            self._places[asked["message"]] = outcome.answer.offset
        elif f == "receive" and outcome.ok:
            given = self._given.setdefault((asked["group"], queue.index), _Given())
            came = self._came.setdefault(asked["group"], set())
            self._reached[_way(asked["group"])] += len(outcome.answer.messages) or 1
            for one in outcome.answer.messages:
                self._places[one.message] = one.offset
                (given.reach if asked["in_order"] else given.add)(one.offset)
                came.add(one.message)
        elif f == "receive_again" and outcome.ok:
            self._reached[_way(asked["group"])] += 1
            self._given.setdefault((asked["group"], queue.index), _Given()).add(self._places.get(asked["message"], -1))
            self._came.setdefault(asked["group"], set()).add(asked["message"])

    def _complete(self, load: Load) -> bool:
        """Return whether each group was given all that anybody knows of."""
        for group in (f"{NAME}-{kind}" for kind in self.options.groups):
            for queue in load.queues:
                known = 1 + max(load.shared[what].get(queue.index, -1) for what in ("acked", "seen"))
                if self._given.get((group, queue.index), _Given()).until < known:
                    return False
            if not self._owed <= self._came.get(group, set()):
                return False
        return True


def _way(group: str) -> str:
    """Pop consumers reach the system in a way of their own; the others share one. A word for each."""
    return group if group == f"{NAME}-pop" else NAME


def create(options: Options) -> Library:
    return Library(options)
