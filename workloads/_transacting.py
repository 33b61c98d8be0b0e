"""The owner of a transactional id, and how it ends a transaction: what workloads with transactions share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from chaos.log_services import Transactions
from chaos.ops import QueueRef
from chaos.transaction_worker import Transaction, TransactionWorker
from chaos.workload import Load, Outcome, body_hash

RETRY_S = 0.2


class Owner:
    """A producer that is, or will be, the owner of a transactional id. One that was fenced, or does not know how its
    last transaction ended, is done with."""

    def __init__(self, load: Load, name: str, id: str, worker: TransactionWorker) -> None:
        self.client: Transactions = load.transactions(name, id)
        self._load = load
        self._id = id
        self._epoch = -1
        self._worker = worker

    async def take_over(self) -> bool:
        """Ask once to be the owner. Return whether it surely is."""
        taken = await self._worker.take_over(self.client.take_over, self._id)
        epoch = taken.answer.value.get("epoch")
        self._epoch = epoch if isinstance(epoch, int) else -1
        return taken.ok

    async def take_over_within(self, seconds: float) -> bool:
        """Ask until it is the owner."""
        deadline_ns = self._load.now_ns() + round(seconds * 1e9)
        while not (taken := await self.take_over()) and self._load.now_ns() < deadline_ns:
            await self._load.sleep(RETRY_S)
        return taken

    def begin(self, *, commit: bool, **value: object) -> Transaction:
        """Record that a transaction begins, which is to be committed or not."""
        return self._worker.begin(self._id, self._epoch, commit=commit, **value)

    async def send(self, txn: Transaction, queue: QueueRef, message: int, body: bytes, **value: object) -> Outcome:
        """Send a message in a transaction."""
        call = partial(self.client.send, queue, f"{message:032X}", body)
        return await txn.send(call, queue=queue, message=message, hash=body_hash(body), **value)

    async def end(self, txn: Transaction, *, commit: bool, attempts: int = 1) -> Outcome:
        """Ask for the end until that is acknowledged, or another owner is the reason why not."""
        ended = await txn.end(partial(self.client.end, commit=commit), commit=commit)
        if ended.ok or attempts <= 1 or ended.answer.value.get("fenced"):
            return ended
        await self._load.sleep(RETRY_S)
        return await self.end(txn, commit=commit, attempts=attempts - 1)


async def close_all(load: Load, ids: Sequence[str], seconds: float) -> None:
    """Take all these ids over, so that no transaction of theirs stays open."""

    async def close(id: str) -> None:
        name = f"{id}-last"
        owner = Owner(load, name, id, TransactionWorker(load, name))
        await owner.take_over_within(seconds)
        owner.client.close()

    await load.gather(*(close(id) for id in ids))
