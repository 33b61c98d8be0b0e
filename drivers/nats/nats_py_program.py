"""Producers and consumers with NATS's own Python client. STORMPROOF_ORDERS in the environment is a JSON object with the
orders; standard output and input are Stormproof's protocol for clients that are programs.

Producers wait for each acknowledgement. ``pop`` consumers share a durable pull consumer of each stream, and acknowledge
each message by itself; what they leave out is given again after ``ACK_WAIT_S``. ``orderly`` ones are the library's
ordered consumers.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any

import nats
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import NoStreamResponseError

from drivers.nats.api import REFUSED, REQUEST_S

#: How long a message is a consumer's before it is given again, and how many of a hundred are left to that.
ACK_WAIT_S, LEFT = 3.0, 3
FETCH_S, BATCH, PAUSE_S = 1.0, 8, 0.3
POP, ORDERLY = "library-pop", "library-orderly"


class Operation:
    """An operation that got the word to begin: ``key`` and ``body`` are what it is to send."""

    def __init__(self, number: int, begun: Mapping[str, str]) -> None:
        self.number = number
        self.key, self.body = begun.get("key", ""), begun.get("body", "")

    def end(self, how: str, **more: object) -> None:
        say(id=self.number, type=how, **more)


class Harness:
    """Who gives the word to begin, on standard input, until that ends."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Mapping[str, str]]] = {}

    async def listen(self) -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            begun = json.loads(line)
            self._waiting.pop(begun["id"]).set_result(begun)

    async def begin(self, f: str, process: str, queue: int, **more: object) -> Operation:
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        say(id=number, type="invoke", f=f, process=process, queue=queue, **more)
        return Operation(number, await self._waiting[number])


class Clients:
    """Producers and consumers of one connection."""

    def __init__(self, harness: Harness, orders: Mapping[str, Any], js: Any) -> None:
        self._harness = harness
        self._orders = orders
        self._js = js
        self._rng = random.Random(orders.get("seed", 0))

    def tasks(self) -> list[Awaitable[None]]:
        kinds: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "sync": self._produce,
            "pop": self._pop,
            "orderly": self._read_in_order,
        }
        return [do(f"{kind}-{at}") for kind, do in kinds.items() for at in range(self._orders.get(kind, 0))]

    async def _produce(self, name: str) -> None:
        streams = self._orders["streams"]
        while True:
            await asyncio.sleep(self._orders["gap_ns"] / 1e9 * self._rng.uniform(0.5, 1.5))
            queue = self._rng.randrange(len(streams))
            sent = await self._harness.begin("send", name, queue)
            headers = {self._orders["header"]: sent.key}
            try:
                ack = await self._js.publish(streams[queue][1], sent.body.encode(), timeout=REQUEST_S, headers=headers)
            except Exception as error:
                sent.end("fail" if _is_refusal(error) else "info", reason=_told(error))
                continue
            if ack.duplicate:
                sent.end("info", reason=f"an earlier attempt has stored it as number {ack.seq}")
            else:
                sent.end("ok", offset=ack.seq - 1)

    async def _pop(self, name: str) -> None:
        config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, ack_wait=ACK_WAIT_S)
        heard: dict[int, Any] = {}
        while True:
            for queue, (stream, subject) in enumerate(self._orders["streams"]):
                try:
                    if queue not in heard:
                        heard[queue] = await self._js.pull_subscribe(subject, durable=POP, stream=stream, config=config)
                    messages = await heard[queue].fetch(BATCH, timeout=FETCH_S)
                except Exception as error:
                    _note(name, error)
                    await asyncio.sleep(PAUSE_S)
                    continue
                await self._given(name, queue, POP, messages)
                await asyncio.gather(
                    *(self._acknowledge(f"{name}.{at}", queue, one) for at, one in enumerate(messages))
                )

    async def _acknowledge(self, name: str, queue: int, message: Any) -> None:
        if self._rng.randrange(100) < LEFT:
            return
        done = await self._harness.begin("ack", name, queue, group=POP, key=self._shown(message)["key"])
        try:
            await message.ack_sync(timeout=REQUEST_S)
        except Exception as error:
            done.end("info", reason=_told(error))
        else:
            done.end("ok")

    async def _read_in_order(self, name: str) -> None:
        """Read each stream from its begin on; the library begins again where it finds a gap."""
        streams = enumerate(self._orders["streams"])
        await asyncio.gather(*(self._read_one_in_order(f"{name}.{queue}", queue, *one) for queue, one in streams))

    async def _read_one_in_order(self, name: str, queue: int, stream: str, subject: str) -> None:
        heard = None
        while True:
            try:
                heard = heard or await self._js.subscribe(subject, stream=stream, ordered_consumer=True)
                message = await heard.next_msg(timeout=FETCH_S)
            except Exception as error:
                _note(name, error)
                await asyncio.sleep(PAUSE_S)
            else:
                await self._given(name, queue, ORDERLY, [message], in_order=1)

    async def _given(self, name: str, queue: int, group: str, messages: Sequence[Any], in_order: int = 0) -> None:
        told = await self._harness.begin("receive", name, queue, group=group, in_order=in_order)
        told.end("ok", messages=[self._shown(one) for one in messages])

    def _shown(self, message: Any) -> Mapping[str, Any]:
        key = (message.headers or {}).get(self._orders["header"], "")
        body = b64encode(message.data).decode()
        return {"offset": message.metadata.sequence.stream - 1, "key": key, "base64": body}


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def _is_refusal(error: Exception) -> bool:
    """Return whether a message surely was not stored."""
    return isinstance(error, NoStreamResponseError) or getattr(error, "err_code", 0) in REFUSED


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _note(name: str, error: Exception) -> None:
    if not isinstance(error, TimeoutError):
        print(f"{name}: {_told(error)}", file=sys.stderr, flush=True)


async def main() -> None:
    """Run all clients until standard input ends."""

    async def quiet(error: Exception) -> None:
        _note("connection", error)

    orders, harness = json.loads(os.environ["STORMPROOF_ORDERS"]), Harness()
    listening = asyncio.ensure_future(harness.listen())
    patience = {"max_reconnect_attempts": -1, "reconnect_time_wait": PAUSE_S, "connect_timeout": 2}
    alive = {"ping_interval": 2, "max_outstanding_pings": 2, "error_cb": quiet}
    connection = await nats.connect(orders["servers"], **patience, **alive)
    clients = [asyncio.ensure_future(one) for one in Clients(harness, orders, connection.jetstream()).tasks()]
    await asyncio.wait([listening, *clients], return_when=asyncio.FIRST_COMPLETED)
    for one in (listening, *clients):
        if one.done():
            one.result()  # what went wrong ends the program
    os._exit(0)  # what is under way is of unknown outcome


if __name__ == "__main__":
    asyncio.run(main())
