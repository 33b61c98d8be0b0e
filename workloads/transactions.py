"""Transactions that read messages, send others to several queues, and commit the offsets of what they have read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from chaos.driver import Client
from chaos.log_services import CanReadLogs, CanTransact
from chaos.ops import Delivered, OpType, QueueRef
from chaos.transaction_worker import Transaction, TransactionWorker
from chaos.workload import Load, Use, next_message
from workloads._drain import IDLE_S, drain
from workloads._logs import Reading
from workloads._producers import body_of, produce
from workloads._transacting import Owner, close_all

GROUP = "transactions"
READ_LIMIT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``producers`` together send ``rate_per_s`` messages of about ``body_bytes`` each to the first half of the queues
    (every hundredth has ``large_bytes``, if set). A send that didn't end in ok is tried again with probability
    ``retry``, at most ``attempts`` times in all. ``transactors`` together have ``transactions_per_s``: each reads up to
    ``limit`` of these messages, sends one for each to the other half, or up to ``sends`` where it found none, and
    commits where it is to go on. A share of ``aborts`` is aborted; in one of ``crashes`` the producer stops before the
    end; in one of ``races`` another one takes over its id while it ends; in one of ``fences`` another one has done so
    before, and it writes on and commits. The rest is committed, with at most ``attempts`` requests. Each of the
    ``readers`` polls what is sent in transactions. ``drain_s`` bounds the reading of each queue at the end."""

    producers: int = field(default=1, metadata={"within": range(1, 1001)})
    rate_per_s: float = 50.0
    body_bytes: int = field(default=100, metadata={"within": range(4_000_001)})
    large_bytes: int = field(default=0, metadata={"within": range(4_000_001)})
    retry: float = 0.5
    attempts: int = field(default=3, metadata={"within": range(1, 101)})
    transactors: int = field(default=2, metadata={"within": range(1, 1001)})
    transactions_per_s: float = 20.0
    limit: int = field(default=8, metadata={"within": range(1, 1001)})
    sends: int = field(default=3, metadata={"within": range(1, 1001)})
    aborts: float = 0.15
    crashes: float = 0.05
    races: float = 0.05
    fences: float = 0.05
    readers: int = field(default=1, metadata={"within": range(1001)})
    drain_s: float = 45.0


@dataclass(slots=True)
class TransactionLoad:
    options: Options
    needs: Sequence[type] = (CanTransact, CanReadLogs)
    uses: Sequence[Use] = (Use.QUEUES, Use.LOGS, Use.TRANSACTIONS)

    @property
    def sends_per_s(self) -> float:
        """How many messages are sent each second at least: one in each transaction."""
        return self.options.transactions_per_s

    async def run(self, load: Load) -> None:
        inputs = load.queues[: len(load.queues) // 2]

        def choose(rng: Random) -> tuple[QueueRef, dict[str, object]]:
            return rng.choice(inputs), {}

        feeding = range(self.options.producers if inputs else 0)
        await load.gather(
            *(produce(load, self.options, number, choose, "transactions-") for number in feeding),
            *(self._transact(load, number) for number in range(self.options.transactors)),
            *(self._read(load, number) for number in range(self.options.readers)),
        )

    async def _read(self, load: Load, number: int) -> None:
        reading = Reading(load, f"transactions-reader-{number}")
        try:
            while not load.stopping:
                if not reading.positions.following:
                    await reading.assign(load.queues[len(load.queues) // 2 :])
                if not (await reading.poll(READ_LIMIT)).answer.messages:
                    await load.sleep(IDLE_S)
        finally:
            reading.client.close()

    async def drain(self, load: Load) -> None:
        """Take all ids over, so that no transaction stays open, and read each queue to its end."""
        await close_all(load, [_name(number) for number in range(self.options.transactors)], self.options.drain_s)
        name, drain_s = "transactions-drain", self.options.drain_s
        queues = load.queues
        await load.gather(*(drain(load, queue, f"{name}-{queue.index}", "transactions", drain_s) for queue in queues))

    async def _transact(self, load: Load, number: int) -> None:
        transactor = _Transactor(load, self.options, number)
        gap_s = self.options.transactors / self.options.transactions_per_s
        try:
            while not load.stopping and not await load.sleep(gap_s * 2 * transactor.rng.random()):
                await transactor.transact()
        finally:
            transactor.close()


def _name(number: int) -> str:
    """Return the name of a transactor, which is its transactional id, too."""
    return f"transactor-{number}"


class _Transactor:
    """One transactional id, its owners one after the other, and a reader of some of the inputs."""

    def __init__(self, load: Load, options: Options, number: int) -> None:
        half = len(load.queues) // 2
        self.rng = load.rng(_name(number))
        self._load = load
        self._options = options
        self._name = _name(number)
        self._inputs = load.queues[:half][number :: options.transactors]
        self._outputs = load.queues[half:]
        self._worker = TransactionWorker(load, self._name)
        self._reading = Reading(load, f"{self._name}-reader")
        self._offsets: Client = load.client(f"{self._name}-reader")
        self._owner: Owner | None = None
        self._is_placed = False

    def close(self) -> None:
        """Stop as it stands."""
        self._reading.client.close()
        self._offsets.close()
        self._leave(None)

    def _leave(self, successor: Owner | None) -> None:
        if self._owner is not None:
            self._owner.client.close()
        self._owner = successor

    def _new_owner(self) -> Owner:
        return Owner(self._load, self._name, self._name, self._worker)

    async def transact(self) -> None:
        """Have one transaction, or make sure that there can be one."""
        if self._owner is None:
            owner = self._new_owner()
            if not await owner.take_over():
                owner.client.close()
                return
            self._owner = owner
        self._is_placed = self._is_placed or await self._place()
        if self._is_placed:
            await self._go_through(self._owner, self._draw())

    def _draw(self) -> str:
        """Return how the next transaction is to end."""
        left = self.rng.random()
        for fate in ("aborts", "crashes", "races", "fences"):
            left -= getattr(self._options, fate)
            if left < 0:
                return fate
        return ""

    async def _place(self) -> bool:
        """Go on where the offsets say that are committed. Return whether that worked out."""
        if not self._reading.positions.following and self._inputs:
            await self._reading.assign(self._inputs)
        for queue in self._inputs:
            stored = await self._reading.worker.do(
                "committed", partial(self._offsets.committed, queue, GROUP), queue=queue, group=GROUP
            )
            if not stored.ok or not (await self._reading.seek(queue, max(0, stored.answer.offset))).ok:
                return False
        return True

    async def _go_through(self, owner: Owner, fate: str) -> None:
        txn = owner.begin(commit=fate != "aborts")
        try:
            if (await txn.do("begin_txn", owner.client.begin)).ok:
                is_sound = await self._work(txn, owner)
                await self._end(txn, owner, fate, commit=is_sound and fate != "aborts")
            else:
                self._leave(None)
        finally:
            ended = txn.close()
        self._is_placed = ended is OpType.OK or not self._inputs
        if ended is OpType.INFO and self._owner is owner:
            self._leave(None)

    async def _work(self, txn: Transaction, owner: Owner) -> bool:
        """Read, send and commit offsets. Return whether all of it went well."""
        before = dict(self._reading.positions.following)
        read: Sequence[Delivered] = ()
        if self._inputs:
            read = (await self._reading.poll(self._options.limit, **txn.mark(), group=GROUP)).answer.messages
        sources: list[dict[str, object]] = [{"input": [one.queue, one.offset]} for one in read]
        sources = sources or [{} for _ in range(self.rng.randint(1, self._options.sends))]
        for source in sources:
            if not await self._send(txn, owner, self.rng.choice(self._outputs), **source):
                return False
        after = self._reading.positions.following
        offsets = {queue: after[at] for queue in self._inputs if (at := str(queue.index)) in after}
        offsets = {queue: offset for queue, offset in offsets.items() if offset > before.get(str(queue.index), 0)}
        if not offsets:
            return True
        return (await txn.commit_offsets(partial(owner.client.commit_offsets, GROUP, offsets), GROUP, offsets)).ok

    async def _send(self, txn: Transaction, owner: Owner, queue: QueueRef, **value: object) -> bool:
        message = next_message(self._load, queue)
        body = body_of(message, self.rng, self._options.body_bytes, self._options.large_bytes)
        sent = await owner.send(txn, queue, message, body, **value)
        return sent.ok

    async def _end(self, txn: Transaction, owner: Owner, fate: str, *, commit: bool) -> None:
        """End the transaction as it is drawn."""
        if fate == "crashes":
            self._leave(None)
        elif fate in ("races", "fences"):
            await self._fence(txn, owner, fate, commit=commit)
        elif not (await owner.end(txn, commit=commit, attempts=self._options.attempts)).ok:
            self._leave(None)

    async def _fence(self, txn: Transaction, owner: Owner, fate: str, *, commit: bool) -> None:
        """Have another producer take the id over, while the owner ends the transaction or before it does."""
        successor = self._new_owner()
        taken = [False]

        async def take_over() -> None:
            taken[0] = await successor.take_over()

        async def end() -> None:
            await owner.end(txn, commit=commit)

        if fate == "races":
            await self._load.gather(end(), take_over())
        else:
            await take_over()
            await self._send(txn, owner, self.rng.choice(self._outputs))
            await end()
        self._leave(successor if taken[0] else None)
        if not taken[0]:
            successor.client.close()


def create(options: Options) -> TransactionLoad:
    return TransactionLoad(options)
