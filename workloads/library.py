"""Producers and consumers of the system's own client library, in one program: a second load beside our own clients.

After recovery the program is started again, and its groups read on until each was given everything, also what is
delayed and what transactions have committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from chaos.driver import HasClientLibrary
from chaos.workload import Load, Use
from workloads._client_program import ClientProgram
from workloads._deliveries import Deliveries
from workloads._drain import drain

NAME = "library"


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
class Library:
    options: Options
    needs: Sequence[type] = (HasClientLibrary,)
    uses: Sequence[Use] = (Use.QUEUES, Use.DELIVERIES)
    _deliveries: Deliveries = field(default_factory=lambda: Deliveries(_way))

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
        drain_s = self.options.drain_s
        if self.options.groups:
            groups = [f"{NAME}-{kind}" for kind in self.options.groups]
            await self._deliveries.catch_up(load, groups, lambda over: self._read_on(load, over), drain_s)
        await load.gather(*(drain(load, queue, f"{NAME}-{queue.index}", NAME, drain_s) for queue in load.queues))

    async def _read_on(self, load: Load, over: Callable[[], bool]) -> None:
        program = await self._program(load, {"answer_checks": self.options.transaction})
        await program.run(over)

    async def _program(self, load: Load, orders: Mapping[str, int]) -> ClientProgram:
        command = await load.library_command(NAME, {**orders, **self.options.groups})
        return ClientProgram(load, NAME, command, self._deliveries.heard)


def _way(group: str) -> str:
    """Pop consumers reach the system in a way of their own; the others share one. A word for each."""
    return group if group == f"{NAME}-pop" else NAME


def create(options: Options) -> Library:
    return Library(options)
