"""Where client libraries that open their own connections find a node: a forwarder that loses answers on demand.

Nobody but the library knows what a request is, so what a client sends between two answers counts as one.
"""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from enum import StrEnum

from chaos.tasks import Group

Address = tuple[str, int]
HOST = "127.0.0.1"
PIECE_BYTES = 1 << 16


class Loss(StrEnum):
    """How a request ends that was lost. In the first two cases the node got it and has done what it says."""

    TIMEOUT = "timeout"  # no answer came in time
    BROKEN = "connection lost"  # the connection broke before the answer came
    REFUSED = "connection refused"  # the request never left


class Forwarder:
    """Stands before one port of a node for one client. ``target`` says where that is; ``due`` counts a request and
    says how it is to be lost, if it is; ``silent``: whether nothing is to pass now, in either direction."""

    def __init__(
        self, target: Callable[[], Awaitable[Address]], due: Callable[[], Loss | None], silent: Callable[[], bool]
    ) -> None:
        self._target = target
        self._due = due
        self._silent = silent
        self._writers: set[StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def listen(self) -> Address:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._writers.add(writer)
        there: StreamWriter | None = None
        try:
            from_node, there = await asyncio.open_connection(*await self._target())
            self._writers.add(there)
            connection = _Connection(self._due, self._silent, there, writer)
            async with Group() as group:
                group.start(_first(connection.ask, reader, group))
                group.start(_first(connection.answer, from_node, group))
        except (OSError, asyncio.CancelledError):
            pass  # the node refused it, or all is over: it closes at once
        finally:
            for one in (writer, there):
                if one is not None:
                    one.transport.abort()
                    self._writers.discard(one)


async def _first(pipe: Callable[[StreamReader], Awaitable[None]], reader: StreamReader, group: Group) -> None:
    """Carry one direction; when it is over, so is the other."""
    try:
        await pipe(reader)
    except OSError:
        pass
    group.cancel()


class _Connection:
    def __init__(
        self, due: Callable[[], Loss | None], silent: Callable[[], bool], node: StreamWriter, client: StreamWriter
    ) -> None:
        self._due = due
        self._silent = silent
        self._node = node
        self._client = client
        self._asking = False
        self._loss: Loss | None = None

    async def ask(self, reader: StreamReader) -> None:
        while data := await reader.read(PIECE_BYTES):
            if self._silent():
                continue
            if not self._asking and self._loss is None:
                self._asking, self._loss = True, self._due()
            if self._loss is Loss.REFUSED:
                return
            self._node.write(data)
            await self._node.drain()

    async def answer(self, reader: StreamReader) -> None:
        while data := await reader.read(PIECE_BYTES):
            self._asking = False
            if self._loss is Loss.BROKEN:
                return
            if self._loss is None and not self._silent():
                self._client.write(data)
                await self._client.drain()
