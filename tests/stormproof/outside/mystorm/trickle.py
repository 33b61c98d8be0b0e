"""One client that writes, then reads all back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from chaos.workload import Load, Worker, body_hash, next_message

PAUSE_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``pause_s`` between two messages."""

    pause_s: float = PAUSE_S


class Trickle:
    def __init__(self, options: Options) -> None:
        self._options = options

    async def run(self, load: Load) -> None:
        worker, client, queue = Worker(load, "trickle"), load.client("trickle"), load.queues[0]
        while not load.stopping:
            message = next_message(load, queue)
            body = f"{message}:toy".encode()
            await worker.do(
                "send",
                partial(client.send, queue, f"{message:032X}", body),
                queue=queue,
                message=message,
                hash=body_hash(body),
            )
            await load.sleep(self._options.pause_s)

    async def drain(self, load: Load) -> None:
        worker, client, queue = Worker(load, "drain"), load.client("drain"), load.queues[0]

        offset = end = 0
        while offset <= end:
            outcome = await worker.do("pull", partial(client.pull, queue, offset, limit=1), queue=queue, offset=offset)
            if not outcome.ok:
                await load.sleep(self._options.pause_s)
                continue
            offset, end = offset + 1, outcome.answer.maximum
        invoked = load.record("op", type="invoke", f="drain", process="drain.x", queue=0, offset=0)
        load.record("op", type="ok", f="drain", process="drain.x", queue=0, op=invoked, offset=end)


def create(options: Options) -> Trickle:
    return Trickle(options)
