"""What a driver whose clients write in transactions may not do."""

from __future__ import annotations

from collections.abc import Collection

from chaos.log_services import CanTransact, Transactions
from chaos.ops import QueueRef
from chaos.testing._drivers.bench import Bench, Result
from chaos.testing._drivers.forwarder import Loss
from chaos.testing._drivers.logs import Logs

GROUP, ID = "check-transactions", "check-producer"


async def check_transactions(bench: Bench, driver: CanTransact) -> None:
    """Commit a transaction and abort one; then have another producer take the id over while one is open."""
    logs = Logs(bench)
    first = await _owner(logs, driver, "check-first")
    if first is None:
        return
    for commit in (True, False):
        group = f"{GROUP}-{commit}"
        sent = await _begun(logs, first, group)
        if sent is None or await logs.ok("transactions: end", first.end(commit=commit)) is None:
            return
        await _check_end(logs, sent, group, commit=commit)
    sent = await _begun(logs, first, f"{GROUP}-fenced")
    second = await _owner(logs, driver, "check-second")
    if sent is None or second is None:
        return
    await logs.fenced("transactions: send of a fenced producer", first.send(logs.queues[0], "0" * 32, logs.body()))
    await logs.fenced("transactions: end of a fenced producer", first.end(commit=True))
    await _check_end(logs, sent, f"{GROUP}-fenced", commit=False)
    sent = await _begun(logs, second, f"{GROUP}-lost")
    bench.network.lose("check-second", 1, Loss.BROKEN)
    lost = await bench.ask("transactions: end, with its answer lost", second.end(commit=True))
    bench.network.lose("check-second", 0, Loss.BROKEN)
    if sent is not None and (lost.ok or await logs.ok("transactions: end, once more", second.end(commit=True))):
        await _check_end(logs, sent, f"{GROUP}-lost", commit=True)


async def _owner(logs: Logs, driver: CanTransact, name: str) -> Transactions | None:
    producer = driver.transactions(logs.bench.network, name, id=ID)
    owner: list[Result] = []

    async def owns() -> bool:
        owner.append(await logs.bench.ask("transactions: take_over", producer.take_over()))
        return owner[-1].ok

    if not await logs.until(owns, "transactions: take_over never ends well on a settled system"):
        return None
    is_number = isinstance(owner[-1].answer.value.get("epoch"), int)
    logs.bench.require(is_number, "transactions: take_over ended well without `epoch`, a number that grows")
    return producer


async def _begun(logs: Logs, producer: Transactions, group: str) -> list[tuple[QueueRef, int, bytes]] | None:
    """Return what a transaction has sent, to two queues if there are as many; None where that did not go well."""
    sent = []
    if await logs.ok("transactions: begin", producer.begin()) is None:
        return None
    for queue in logs.queues[:2]:
        body = logs.body()
        stored = await logs.ok("transactions: send", producer.send(queue, "0" * 32, body))
        if stored is None:
            return None
        sent.append((queue, stored.answer.offset, body))
    if await logs.ok("transactions: commit_offsets", producer.commit_offsets(group, {logs.queues[0]: 1})) is None:
        return None
    for queue, offset, body in sent:
        is_early = await logs.is_readable(queue, offset, body)
        logs.bench.require(not is_early, "transactions: a message is readable before its transaction has ended")
    return sent


async def _check_end(logs: Logs, sent: Collection[tuple[QueueRef, int, bytes]], group: str, *, commit: bool) -> None:
    """Check that messages and offsets are there if they were committed, and not if not."""
    for queue, offset, body in sent:
        later = logs.body()
        stored = await logs.ok("send", logs.client.send(queue, "0" * 32, later))
        if stored is None:
            return

        async def is_there(queue: QueueRef = queue, offset: int = stored.answer.offset, body: bytes = later) -> bool:
            return await logs.is_readable(queue, offset, body)

        await logs.until(is_there, "transactions: what was sent after a transaction's end is never readable")
        is_readable = await logs.is_readable(queue, offset, body)
        how = "a committed message is not readable" if commit else "an aborted message is readable"
        logs.bench.require(is_readable == commit, f"transactions: {how} where it was stored")
    wanted = 1 if commit else -1

    async def is_stored() -> bool:
        return await logs.committed(logs.queues[0], group) == wanted

    how = "committed in a transaction is not" if commit else "of an aborted transaction is"
    await logs.until(is_stored, f"transactions: a group's offset that was {how} what committed answers")
