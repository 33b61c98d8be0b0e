"""A client's connection to a node that is a process: over the proxy, in the frames of the system under test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any, cast

from chaos.driver import Disconnected
from chaos.machines.machine import Streams
from chaos.machines.proxy import CONNECTED, HOST, preamble
from chaos.node import Codec, M, Message

#: The error of a driver that asks for messages of a cluster that has none.
NO_CODEC = "this cluster has no codec: give ClusterSpec one, or reach its programs by `dial` and `endpoint`"


class ProcessConnection(asyncio.Protocol):
    """Implements :class:`chaos.driver.TakesRequests`. Numbers of requests never repeat, so a late answer finds none.
    One timer serves all requests: nearly all are answered before it looks for those that are late."""

    def __init__(self, client: str, node: str, proxy_port: int, codec: Codec) -> None:
        self._client = client
        self._node = node
        self._proxy_port = proxy_port
        self._codec = codec
        self._number = 0
        #: By number: the answer (None: it is late), and until when it is waited for, by the loop's clock.
        self._waiting: dict[int, tuple[asyncio.Future[Message | None], float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._link: _Link | None = None
        self._take: Callable[[Any], None] | None = None

    async def request(self, message: M, timeout_s: float) -> M:
        loop = asyncio.get_running_loop()
        self._number += 1
        number = self._number
        answer: asyncio.Future[Message | None] = loop.create_future()
        until_s = loop.time() + timeout_s
        self._waiting[number] = answer, until_s
        try:
            if self._timer is None or until_s < self._timer.when():
                self._look_at(until_s)
            self._send(message.numbered(number))
            found = await answer
        finally:
            self._waiting.pop(number, None)
        if found is None:
            raise TimeoutError(f"no answer from {self._node} within {timeout_s:g} s")
        return cast(M, found)

    def on_request(self, take: Callable[[Any], None]) -> None:
        self._take = take

    def oneway(self, message: Message) -> None:
        self._number += 1
        self._send(message.numbered(self._number, oneway=True))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        link, self._link = self._link, None
        if link is not None:
            link.abort()
            self._fail(sent=link.open)

    def answered(self, message: Message) -> None:
        if not message.is_response:  # a request of the node's own, whose number may be one of ours
            if self._take is not None:
                self._take(message)
            return
        answer, _ = self._waiting.pop(message.number, (None, inf))
        if answer is not None and not answer.done():
            answer.set_result(message)

    def broken(self, link: _Link) -> None:
        """Fail all requests that wait: the link has ended, or never came to be."""
        if link is self._link:
            self._link = None
            self._fail(sent=link.open)

    def _send(self, message: Message) -> None:
        frame = self._codec.encode(message)
        if self._link is None:
            self._link = _Link(self, preamble(self._client, self._node), self._codec)
            self._link.dial(self._proxy_port)
        self._link.send(frame)

    def _look_at(self, until_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(until_s, self._look, until_s)

    def _look(self, now_s: float) -> None:
        """End the requests that are waited for no longer, and look again when the next one is due."""
        self._timer = None
        for answer, until_s in self._waiting.values():
            if until_s <= now_s and not answer.done():
                answer.set_result(None)
        next_s = min((until_s for answer, until_s in self._waiting.values() if not answer.done()), default=inf)
        if next_s < inf:
            self._look_at(next_s)

    def _fail(self, *, sent: bool) -> None:
        waiting, self._waiting = self._waiting, {}
        text = f"connection of {self._client} with {self._node} {'broke' if sent else 'was refused'}"
        for answer, _ in waiting.values():
            if not answer.done():
                answer.set_exception(Disconnected(text, sent=sent))


async def dial(proxy_port: int, client: str, node: str, port: str) -> Streams:
    """Return a client's stream of bytes to a port of a program, by the proxy that listens there. Raises
    :class:`Disconnected`."""
    try:
        reader, writer = await asyncio.open_connection(HOST, proxy_port)
    except OSError as error:
        raise Disconnected(f"{client} can't dial: {error}", sent=False) from error
    try:
        writer.write(preamble(client, node, port=port))
        if await reader.read(1) == CONNECTED:
            return reader, writer
    except OSError:
        pass  # refused like any other
    except BaseException:
        writer.transport.abort()
        raise
    writer.transport.abort()
    raise Disconnected(f"connection of {client} with {node} was refused", sent=False)


class _Link(asyncio.Protocol):
    """One TCP connection of a client with the proxy. Nothing is sent before the node has accepted (``open``)."""

    def __init__(self, owner: ProcessConnection, opening: bytes, codec: Codec) -> None:
        self.open = False
        self._owner = owner
        self._opening = opening
        self._codec = codec
        self._buffer = bytearray()
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._over = False

    def dial(self, port: int) -> None:
        self._dialling = asyncio.get_running_loop().create_task(self._dial(port))

    async def _dial(self, port: int) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, HOST, port)
        except OSError:
            self._owner.broken(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._over:
            transport.abort()
        else:
            transport.write(self._opening)

    def send(self, frame: bytes) -> None:
        if self.open and self._transport is not None:
            self._transport.write(frame)
        else:
            self._unsent.append(frame)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self.open and self._transport is not None:
            if self._buffer[:1] != CONNECTED:
                self.abort()
                return
            del self._buffer[:1]
            self.open = True
            self._transport.write(b"".join(self._unsent))
            self._unsent.clear()
        try:
            messages = self._codec.decode(self._buffer)
        except ValueError:
            self.abort()  # what this node sends makes no sense: who waits learns that the connection broke
            return
        for message in messages:
            self._owner.answered(message)

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.broken(self)

    def abort(self) -> None:
        self._over = True
        if self._transport is not None:
            self._transport.abort()
