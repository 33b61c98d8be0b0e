"""Producers that send single messages at an even pace: what several workloads have."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

from chaos.driver import Client
from chaos.ops import QueueRef
from chaos.workload import Load, Worker, body_hash, next_message, note

RETRY_PAUSE_S = 0.1


class ProducerOptions(Protocol):
    """``producers`` together send ``rate_per_s`` messages of about ``body_bytes`` each (every hundredth has
    ``large_bytes``, if set). A send that didn't end in ok is tried again with probability ``retry``, at most
    ``attempts`` times in all."""

    @property
    def producers(self) -> int: ...

    @property
    def rate_per_s(self) -> float: ...

    @property
    def body_bytes(self) -> int: ...

    @property
    def large_bytes(self) -> int: ...

    @property
    def retry(self) -> float: ...

    @property
    def attempts(self) -> int: ...


#: Chooses the queue of a producer's next message, and what else its row shall say.
Choose = Callable[[Random], tuple[QueueRef, dict[str, object]]]


async def produce(
    load: Load, options: ProducerOptions, number: int, choose: Choose | None = None, of: str = ""
) -> None:
    """Be the producer of this number (of a workload ``of`` a kind): send to all queues in turn, or as ``choose`` says,
    evenly spaced; after a long send go on at the same pace, without catching up."""
    name = f"{of}producer-{number}"
    client, worker, rng = load.client(name), Worker(load, name), load.rng(name)
    gap_ns = round(1e9 * options.producers / options.rate_per_s)
    due_ns = load.now_ns() + round(gap_ns * rng.random())
    turn = number
    try:
        while not load.stopping:
            wait_ns = due_ns - load.now_ns()
            due_ns = max(due_ns, load.now_ns()) + gap_ns
            if wait_ns > 0 and await load.sleep(wait_ns / 1e9):
                break
            queue, value = choose(rng) if choose else (load.queues[turn % len(load.queues)], {})
            await _send(load, options, client, worker, rng, queue, value)
            turn += 1
    finally:
        client.close()


async def _send(
    load: Load,
    options: ProducerOptions,
    client: Client,
    worker: Worker,
    rng: Random,
    queue: QueueRef,
    value: dict[str, object],
) -> None:
    message = next_message(load, queue)
    body = body_of(message, rng, options.body_bytes, options.large_bytes)
    for attempt in range(1, options.attempts + 1):
        outcome = await worker.do(
            "send",
            lambda: client.send(queue, f"{message:032X}", body),
            queue=queue,
            message=message,
            hash=body_hash(body),
            attempt=attempt,
            **value,
        )
        if outcome.ok:
            note(load, "acked", queue, outcome.answer.offset)
            return
        if load.stopping or rng.random() >= options.retry:
            return
        await load.sleep(RETRY_PAUSE_S * attempt)


def body_of(message: int, rng: Random, body_bytes: int, large_bytes: int = 0) -> bytes:
    """Return the body of a message: each one is different, and their lengths vary."""
    size = rng.randint(body_bytes // 2, body_bytes * 3 // 2)
    if large_bytes and rng.random() < 0.01:
        size = large_bytes
    start = f"{message:014}:".encode()
    return start + rng.randbytes(max(0, size - len(start)))
