"""What a driver whose nodes hold reads may not do."""

from __future__ import annotations

import asyncio

from chaos.services import CanHoldReads
from chaos.tasks import gather
from chaos.testing._drivers.bench import Bench

WAIT_S, SENT_AFTER_S = 2.0, 0.3
#: The body of the message that is waited for.
BODY = b"a reader waits for this"


async def check_waiting(bench: Bench, driver: CanHoldReads) -> None:
    """Read at the end of a queue and wait in vain; then once more, and send a message meanwhile."""
    client = driver.waiting_reads(bench.network, "check-waiting")
    queue = bench.driver.queues()[0]
    bounds = await bench.ask("waiting_reads: bounds", client.bounds(queue))
    if not bench.require(bounds.ok, f"waiting_reads: bounds did not end well on a settled system: {bounds.reason}"):
        return
    end = bounds.answer.maximum
    read = await bench.ask("waiting_reads: pull", client.pull(queue, end, limit=1, wait_s=0.1))
    bench.require(
        read.ok and not read.answer.messages, "waiting_reads: a pull that waited in vain must be ok, and empty"
    )

    async def send() -> None:
        await asyncio.sleep(SENT_AFTER_S)
        await bench.ask("send", sender.send(queue, "0" * 32, BODY))

    async def wait() -> None:
        began_ns = bench.network.now_ns()
        woken = await bench.ask("waiting_reads: pull", client.pull(queue, end, limit=1, wait_s=WAIT_S))
        waited_s = (bench.network.now_ns() - began_ns) / 1e9
        bench.require(
            woken.ok and len(woken.answer.messages) == 1,
            f"waiting_reads: a pull that waited at offset {end} was not given the message that was sent there",
        )
        bench.require(
            waited_s < WAIT_S, f"waiting_reads: a pull was answered after {waited_s:.1f} s, not when a message came"
        )

    sender = bench.driver.client(bench.network, "check-sender")
    await gather(wait(), send())
