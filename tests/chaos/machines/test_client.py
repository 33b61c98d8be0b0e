"""A client's connection waits for each answer as long as it was told to, with one timer for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from chaos.driver import Disconnected
from chaos.machines.client import ProcessConnection
from chaos.machines.proxy import CONNECTED, HOST
from reference import codec
from reference.wire.command import Command

CODEC = codec("")
#: Requests with this code are answered at once, and others never.
ECHO = 7


class Peer(asyncio.Protocol):
    """A proxy and a node at once. Before each answer it asks something itself, under the number of the request."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._begun:
            end = self._buffer.find(b"\n") + 1
            del self._buffer[:end]
            self._begun = bool(end)
            self._transport.write(CONNECTED)
        for message in CODEC.decode(self._buffer):
            if message.code == ECHO:
                question = Command(code=1, opaque=message.opaque)
                self._transport.write(CODEC.encode(question) + CODEC.encode(message.reply(body=message.body)))


def with_peer(talk: Callable[[ProcessConnection], Awaitable[None]]) -> None:
    async def body() -> None:
        server = await asyncio.get_running_loop().create_server(Peer, HOST, 0)
        connection = ProcessConnection("client", "node", server.sockets[0].getsockname()[1], CODEC)
        try:
            await asyncio.wait_for(talk(connection), 20.0)
        finally:
            connection.close()
            server.close()

    asyncio.run(body())


def test_each_request_waits_for_its_own_time_whatever_the_order() -> None:
    async def talk(connection: ProcessConnection) -> None:
        ended: list[float] = []

        async def late(timeout_s: float) -> None:
            with pytest.raises(TimeoutError, match=f"no answer from node within {timeout_s:g} s"):
                await connection.request(Command(code=1), timeout_s)
            ended.append(timeout_s)

        await asyncio.gather(*map(late, (0.3, 0.1, 0.4, 0.2)), late(0.15))
        assert ended == sorted(ended)
        await late(0.05)

    with_peer(talk)


def test_answers_reach_who_asked_beside_requests_that_nobody_answers() -> None:
    async def talk(connection: ProcessConnection) -> None:
        silent = asyncio.ensure_future(connection.request(Command(code=1), 0.3))
        for number in range(20):
            answer = await connection.request(Command(code=ECHO, body=b"%d" % number), 10.0)
            assert (answer.is_response, answer.body) == (True, b"%d" % number)
        with pytest.raises(TimeoutError):
            await silent
        assert (await connection.request(Command(code=ECHO), 10.0)).is_response

    with_peer(talk)


def test_who_waits_when_the_connection_is_closed_learns_it_at_once() -> None:
    async def talk(connection: ProcessConnection) -> None:
        await connection.request(Command(code=ECHO), 10.0)
        waiting = asyncio.ensure_future(connection.request(Command(code=1), 60.0))
        await asyncio.sleep(0)
        connection.close()
        with pytest.raises(Disconnected):
            await waiting

    with_peer(talk)
