"""A network that loses answers on demand: most mistakes of drivers are in what they make of that."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from chaos.deployment import CanReadFiles
from chaos.driver import Connection, Dials, Disconnected, Network
from chaos.node import Codec, M, Message
from chaos.testing._drivers.forwarder import Address, Forwarder, Loss
from chaos.testing._drivers.spoken import Spoken

#: How long a request of a silent network takes to fail at most.
SILENT_S = 0.1


class UnreliableNetwork:
    """Passes everything on to another network, but for what :meth:`lose` and ``silent`` say."""

    def __init__(self, network: Network) -> None:
        self.silent = False
        #: Clients of which an answer was lost so far.
        self.hit: set[str] = set()
        #: What was said on each connection that the driver has opened, while nothing was lost.
        self.spoken: list[Spoken] = []
        #: In whose frames messages are sent, where they are.
        self.codec: Codec | None = None
        self._network = network
        self._connections: dict[tuple[str, str], _Connection] = {}
        self._losses: dict[str, tuple[int, Loss]] = {}
        self._cutting: set[asyncio.Task[None]] = set()
        self._forwarders: dict[tuple[str, str, str], tuple[Forwarder, Address]] = {}

    def connect(self, client: str, node: str) -> Connection:
        pair = client, node
        if pair not in self._connections:
            self._connections[pair] = _Connection(self, client, self._network.connect(client, node), Spoken(""))
            self.spoken.append(self._connections[pair].spoken)
        return self._connections[pair]

    async def dial(self, client: str, node: str, port: str = "") -> tuple[StreamReader, StreamWriter]:
        """Dial. A connection counts as one request: nobody but the driver knows what else is asked on it."""
        loss = self.due(client)
        if self.silent:
            await asyncio.Event().wait()  # as over a cut link; the driver has a bound of its own
        if loss is Loss.REFUSED:
            raise Disconnected("connection refused", sent=False)
        reader, writer = await cast(Dials, self._network).dial(client, node, port)
        if loss is None:
            self.spoken.append(spoken := Spoken(port))
            spoken.hear(reader, writer)
            return reader, writer
        deaf = StreamReader()
        if loss is Loss.BROKEN:
            cutting = asyncio.get_running_loop().create_task(_cut(reader, deaf))
            self._cutting.add(cutting)
            cutting.add_done_callback(self._cutting.discard)
        return deaf, writer

    async def endpoint(self, client: str, node: str, port: str = "") -> Address:
        """Return the address of a forwarder to that of the other network."""
        key = client, node, port
        if key not in self._forwarders:
            target = partial(cast(Dials, self._network).endpoint, client, node, port)
            forwarder = Forwarder(target, partial(self.due, client), lambda: self.silent)
            self._forwarders[key] = forwarder, await forwarder.listen()
        return self._forwarders[key][1]

    @property
    def has_endpoints(self) -> bool:
        """Whether clients open connections of their own."""
        return bool(self._forwarders)

    def end(self) -> None:
        """Close what clients have opened by themselves."""
        for forwarder, _ in self._forwarders.values():
            forwarder.close()

    def now_ns(self) -> int:
        return self._network.now_ns()

    def lose(self, client: str, which: int, loss: Loss) -> None:
        """Lose the request of this number, counted from 1, that the client begins from now on."""
        self._losses[client] = (which, loss)

    def due(self, client: str) -> Loss | None:
        """Count a request; how it is to be lost, if it is."""
        which, loss = self._losses.get(client, (0, Loss.TIMEOUT))
        self._losses[client] = (which - 1, loss)
        if which != 1:
            return None
        self.hit.add(client)
        return loss


class WithFiles(UnreliableNetwork):
    """The same of a network that can read files of nodes; reading fails while it is silent."""

    async def files(self, node: str, globs: Sequence[str]) -> Mapping[str, int]:
        return await self._heard().files(node, globs)

    async def read_file(self, node: str, path: str, begin: int = 0, length: int = 1 << 20) -> bytes:
        return await self._heard().read_file(node, path, begin, length)

    def _heard(self) -> CanReadFiles:
        if self.silent:
            raise OSError("no answer")
        return cast(CanReadFiles, self._network)


def unreliable(network: Network) -> UnreliableNetwork:
    return WithFiles(network) if isinstance(network, CanReadFiles) else UnreliableNetwork(network)


async def _cut(reader: StreamReader, deaf: StreamReader) -> None:
    """End the connection where its answer would begin."""
    try:
        await reader.read(1)
    finally:
        deaf.feed_eof()


@dataclass(slots=True)
class _Connection:
    network: UnreliableNetwork
    client: str
    inner: Connection
    spoken: Spoken

    async def request(self, message: M, timeout_s: float) -> M:
        loss = self.network.due(self.client)
        if self.network.silent:
            await asyncio.sleep(min(timeout_s, SILENT_S))
            raise TimeoutError("no answer")
        if loss is Loss.REFUSED:
            raise Disconnected("connection refused", sent=False)
        answer = await self.inner.request(message, timeout_s)
        if self.network.codec is not None:
            self.spoken.asked += self.network.codec.encode(message.numbered(answer.number))
            self.spoken.answered += self.network.codec.encode(answer)
        if loss is Loss.TIMEOUT:
            raise TimeoutError("no answer")
        if loss is Loss.BROKEN:
            raise Disconnected("connection lost", sent=True)
        return answer

    def oneway(self, message: Message) -> None:
        if not self.network.silent:
            self.inner.oneway(message)

    def close(self) -> None:
        self.inner.close()
