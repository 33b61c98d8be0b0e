"""Requests to a port of a program that is not its first: each over a stream of its own.

A :class:`chaos.driver.Network` connects clients with the first port of a node. What serves two kinds of clients in one
program has a second one, and who asks there asks seldom.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import cast

from chaos.driver import Dials, Disconnected, Network
from reference.wire.codec import RemotingCodec
from reference.wire.command import Command

PIECE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class DialledConnection:
    """Implements :class:`drivers._remoting.requests.Asks`. Nothing is open between two requests."""

    network: Network
    client: str
    node: str
    port: str
    codec: RemotingCodec

    async def request(self, message: Command, timeout_s: float) -> Command:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._request(replace(message, opaque=1))
        except TimeoutError:
            raise TimeoutError(f"no answer from {self.node} within {timeout_s:g} s") from None

    async def _request(self, message: Command) -> Command:
        frame = self.codec.encode(message)
        reader, writer = await cast(Dials, self.network).dial(self.client, self.node, self.port)
        try:
            writer.write(frame)
            buffer = bytearray()
            while piece := await reader.read(PIECE_BYTES):
                buffer += piece
                for answer in self.codec.decode(buffer):
                    if answer.is_response and answer.opaque == message.opaque:
                        return answer
        except (OSError, ValueError) as error:
            raise Disconnected(f"connection of {self.client} with {self.node} broke: {error}") from error
        finally:
            writer.transport.abort()
        raise Disconnected(f"connection of {self.client} with {self.node} broke")
