"""Transactions over queues that are lists: each reads some of them from the beginning to the end, and appends to some.

Their rows are those of Elle's list-append.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from chaos.driver import Client
from chaos.log_services import CanTransact
from chaos.ops import SEQUENCE_BITS, QueueRef
from chaos.transaction_worker import Transaction, TransactionWorker
from chaos.workload import Load, Outcome, Use, next_message, note
from workloads._drain import after, drain
from workloads._producers import body_of
from workloads._transacting import Owner, close_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``clients`` together have ``transactions_per_s``. Each reads up to ``reads`` of the queues, by pulls of up to
    ``limit`` messages, and then appends up to ``appends`` messages of about ``body_bytes`` each. A share of ``aborts``
    is aborted; the rest is committed, with at most ``attempts`` requests. A share of ``offsets`` also commits how far
    one queue was read, as a group of its own. ``drain_s`` bounds the reading of each queue at the end."""

    clients: int = field(default=3, metadata={"within": range(1, 1001)})
    transactions_per_s: float = 15.0
    reads: int = field(default=2, metadata={"within": range(101)})
    appends: int = field(default=3, metadata={"within": range(1, 101)})
    limit: int = field(default=500, metadata={"within": range(1, 10_001)})
    body_bytes: int = field(default=40, metadata={"within": range(4_000_001)})
    aborts: float = 0.1
    offsets: float = 0.3
    attempts: int = field(default=3, metadata={"within": range(1, 101)})
    drain_s: float = 45.0


#: The largest number of a message in its queue, which is its value in the list.
LAST = (1 << SEQUENCE_BITS) - 1
#: A step of a transaction, as its row has it: ``append`` or ``r``, the key, and a value, or the values that were read.
Step = tuple[str, int, int | list[int] | None]


@dataclass(slots=True)
class ListAppend:
    options: Options
    needs: Sequence[type] = (CanTransact,)
    uses: Sequence[Use] = (Use.QUEUES, Use.TRANSACTIONS)

    @property
    def sends_per_s(self) -> float:
        """How many messages are sent each second at least: one in each transaction."""
        return self.options.transactions_per_s

    async def run(self, load: Load) -> None:
        appended: set[int] = set()
        clients = [_Appender(load, self.options, _name(number), appended) for number in range(self.options.clients)]
        await load.gather(*(client.run() for client in clients))

    async def drain(self, load: Load) -> None:
        """Take all ids over, so that no transaction stays open, and read each queue to its end."""
        drain_s = self.options.drain_s
        await close_all(load, [_name(number) for number in range(self.options.clients)], drain_s)
        await load.gather(*(drain(load, queue, f"list-drain-{queue.index}", "list", drain_s) for queue in load.queues))


def _name(number: int) -> str:
    """Return the name of a client, which is its transactional id, too."""
    return f"appender-{number}"


class _Appender:
    """A client. ``appended``: the messages of all clients; what others send to the queues is in no list."""

    def __init__(self, load: Load, options: Options, name: str, appended: set[int]) -> None:
        self._load = load
        self._appended = appended
        self._options = options
        self._name = name
        self._rng: Random = load.rng(name)
        self._worker = TransactionWorker(load, name)
        self._reader: Client = load.client(name)
        self._ends: dict[QueueRef, int] = {}

    async def run(self) -> None:
        """Own the id, and have transactions until one can't go on; then again."""
        try:
            while not self._load.stopping:
                owner = Owner(self._load, self._name, self._name, self._worker)
                try:
                    if await owner.take_over():
                        await self._go_on(owner)
                finally:
                    owner.client.close()
                await self._pause()
        finally:
            self._reader.close()

    async def _pause(self) -> None:
        await self._load.sleep(2 * self._rng.random() * self._options.clients / self._options.transactions_per_s)

    async def _go_on(self, owner: Owner) -> None:
        while not self._load.stopping and await self._transact(owner):
            await self._pause()

    async def _transact(self, owner: Owner) -> bool:
        """Have one transaction. Return whether the owner may have others."""
        commit = self._rng.random() >= self._options.aborts
        steps: list[Step] = [*self._reads(), *self._appends()]
        txn = owner.begin(commit=commit, micro=[[*step] for step in steps])
        is_over = False
        try:
            if (await txn.do("begin_txn", owner.client.begin)).ok:
                is_sound = await self._work(txn, owner, steps)
                ended = await owner.end(txn, commit=commit and is_sound, attempts=self._options.attempts)
                is_over = ended.ok
        finally:
            txn.close(micro=[[*step] for step in steps])
        return is_over

    def _reads(self) -> list[Step]:
        queues = self._load.queues
        drawn = self._rng.sample(queues, min(len(queues), self._rng.randint(0, self._options.reads)))
        return [("r", queue.index, None) for queue in drawn]

    def _appends(self) -> list[Step]:
        queues = self._rng.choices(self._load.queues, k=self._rng.randint(1, self._options.appends))
        messages = [next_message(self._load, queue) for queue in queues]
        self._appended.update(messages)
        return [("append", message >> SEQUENCE_BITS, message & LAST) for message in messages]

    async def _work(self, txn: Transaction, owner: Owner, steps: list[Step]) -> bool:
        """Do all steps in turn, and note what was read. Return whether all went well."""
        for number, (what, key, value) in enumerate(steps):
            queue = self._load.queues[key]
            if what == "r":
                values = await self._read(txn, queue)
                if values is None:
                    return False
                steps[number] = ("r", key, values)
            elif isinstance(value, int) and not (await self._append(txn, owner, queue, value)).ok:
                return False
        if not self._ends or self._rng.random() >= self._options.offsets:
            return True
        offsets = dict([self._rng.choice([*self._ends.items()])])
        call = partial(owner.client.commit_offsets, self._name, offsets)
        return (await txn.commit_offsets(call, self._name, offsets)).ok

    async def _append(self, txn: Transaction, owner: Owner, queue: QueueRef, value: int) -> Outcome:
        message = queue.index << SEQUENCE_BITS | value
        return await owner.send(txn, queue, message, body_of(message, self._rng, self._options.body_bytes))

    async def _read(self, txn: Transaction, queue: QueueRef) -> list[int] | None:
        """Return the values of a queue, up to where it ended when the first answer came; None if some are not known."""
        values: list[int] = []
        offset, end, limit = 0, -1, self._options.limit
        while end < 0 or offset < end:
            call = partial(self._reader.pull, queue, offset, limit=limit)
            read = await txn.do("pull", call, queue=queue, offset=offset, limit=limit)
            if not read.ok:
                return None
            end = read.answer.maximum if end < 0 else end
            found = [one for one in read.answer.messages if one.offset < end]
            values += [one.message & LAST for one in found if one.message in self._appended]
            if found:
                note(self._load, "seen", queue, found[-1].offset)
            before, offset = offset, after(offset, read)
            if offset == before:
                break
        self._ends[queue] = max(offset, self._ends.get(queue, 0))
        return values


def create(options: Options) -> ListAppend:
    return ListAppend(options)
