"""What a driver whose clients read logs from positions may not do, and what is asked of several such powers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import count

from chaos.driver import Client
from chaos.log_services import CanReadLogs, LogReader
from chaos.ops import Answer, OpType, QueueRef
from chaos.testing._drivers.bench import Bench, Result
from chaos.testing._drivers.forwarder import Loss
from chaos.workload import body_hash

TRIES, RETRY_S = 50, 0.2
LIMIT = 32


class Logs:
    """A client of queues beside those that are looked at."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.queues = bench.driver.queues()
        self.client: Client = bench.driver.client(bench.network, "check-beside")
        self._numbers = count()

    def body(self) -> bytes:
        return f"logs:{next(self._numbers)}".encode()

    async def ok(self, what: str, work: Awaitable[Answer]) -> Result | None:
        """Return how a call ended that must end well on a settled system; None, and a problem noted, if it didn't."""
        result = await self.bench.ask(what, work)
        told = f"{what} did not end well on a settled system: {result.reason}"
        return result if self.bench.require(result.ok, told) else None

    async def fenced(self, what: str, work: Awaitable[Answer]) -> None:
        result = await self.bench.ask(what, work)
        is_fenced = result.type is OpType.FAIL and result.answer.value.get("fenced") is True
        how = f"{result.type}, with {dict(result.answer.value)}"
        self.bench.require(is_fenced, f"{what} must end as Failed with `fenced` = True, but it ended as {how}")

    async def until(self, holds: Callable[[], Awaitable[bool]], problem: str) -> bool:
        """Ask again and again, a bounded number of times, whether this holds; note the problem if it never does."""
        for _ in range(TRIES):
            if await holds():
                return True
            await asyncio.sleep(RETRY_S)
        return self.bench.require(False, problem)

    async def is_readable(self, queue: QueueRef, offset: int, body: bytes) -> bool:
        """Return whether a client is given this message where it was stored."""
        result = await self.bench.ask("pull", self.client.pull(queue, offset, limit=LIMIT))
        return any(one.hash == body_hash(body) and one.offset == offset for one in result.answer.messages)

    async def committed(self, queue: QueueRef, group: str) -> int:
        result = await self.bench.ask("committed", self.client.committed(queue, group))
        return result.answer.offset if result.ok else -2

    def following(self, what: str, result: Result) -> Mapping[str, int]:
        """Return what an answer says of positions."""
        found = result.answer.value.get("following")
        known = {str(queue.index) for queue in self.queues}
        is_sound = (
            isinstance(found, Mapping) and known >= {*found} and all(isinstance(at, int) for at in found.values())
        )
        self.bench.require(is_sound, f"{what} says {found!r} in `following`, expected {{queue: offset}}")
        return found if is_sound and isinstance(found, Mapping) else {}


async def check_log_reader(bench: Bench, driver: CanReadLogs) -> None:
    """Own all queues, and read on from their ends what is sent to each; also when an answer was lost."""
    logs, name = Logs(bench), "check-log-reader"
    reader = driver.log_reader(bench.network, name)
    owned = await logs.ok("log_reader: assign", reader.assign(logs.queues))
    if owned is None or not logs.following("log_reader: assign", owned):
        return
    for queue in logs.queues:
        end = await logs.ok("log_reader: seek", reader.seek(queue, -1))
        if end is None or await _is_lost(logs, reader, queue, end.answer.offset, name):
            return
    alone = await logs.ok("log_reader: assign", reader.assign(logs.queues[:1]))
    if alone is not None:
        kept = [*logs.following("log_reader: assign", alone)]
        text = f"log_reader: assign of queue {logs.queues[0].index} alone leaves the queues {', '.join(kept)}"
        bench.require(kept == [str(logs.queues[0].index)], text)
    reader.close()


async def _is_lost(logs: Logs, reader: LogReader, queue: QueueRef, end: int, name: str) -> bool:
    """Send at the end of a queue; the reader must be given that, though its first answer is lost."""
    body = logs.body()
    sent = await logs.ok("send", logs.client.send(queue, "0" * 32, body))
    text = f"log_reader: seek to the end of queue {queue.index} went to {end}, behind what was sent afterwards"
    if sent is None or not logs.bench.require(end <= sent.answer.offset, text):
        return True
    wanted = queue.index, sent.answer.offset, body_hash(body)

    async def is_given() -> bool:
        result = await logs.bench.ask("log_reader: poll", reader.poll(LIMIT))
        logs.bench.network.lose(name, 0, Loss.BROKEN)
        following = logs.following("log_reader: poll", result) if result.ok else {}
        for one in result.answer.messages:
            text = f"log_reader: poll was given offset {one.offset} and goes on at {following.get(str(one.queue))}"
            logs.bench.require(following.get(str(one.queue), -1) > one.offset, text)
        return wanted in [(one.queue, one.offset, one.hash) for one in result.answer.messages]

    logs.bench.network.lose(name, 1, Loss.BROKEN)
    text = f"log_reader: poll is never given what was sent to queue {queue.index} at its position"
    return not await logs.until(is_given, text)
