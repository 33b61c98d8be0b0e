"""Where brokers read messages from: their log or the tier. No read can say that; a property of the broker decides it
for all its readers (``tieredStorageLevel``), which request 25 changes while the broker runs."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from chaos.driver import Network
from chaos.ops import Failed, Unknown
from drivers._remoting.requests import ask
from drivers._remoting.wire import Command, Request, Response

LEVEL = "tieredStorageLevel"
#: What a reader may demand → the level with which a broker reads from there.
LEVELS: Mapping[str, str] = {"tier": "FORCE", "local": "DISABLE"}
SET_S = 5.0


@dataclass(slots=True)
class TierLevels:
    """``usual``: the level that brokers have but for moments, "" where there is no tier. A broker has one level at a
    time, so a client that demands a source waits until the one before has read."""

    usual: str
    _turns: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock), init=False)

    @asynccontextmanager
    async def reading_from(self, source: str, network: Network, client: str, node: str) -> AsyncIterator[None]:
        """Have the node read from this source alone, for this client and everybody else. Raises :class:`Failed` where
        it can't be set so; nothing was read then."""
        if not self.usual:
            raise Failed(f"there is no tier, so that nobody can demand to read from the {source} alone")
        async with self._turns[node]:
            try:
                await put(network, client, node, LEVELS[source])
                yield
            finally:
                await self._back(network, client, node)

    async def _back(self, network: Network, client: str, node: str) -> None:
        """Go back to the usual level. A node that can't be reached keeps the other one until somebody demands a source
        again; what it answers is right in either case, if late."""
        try:
            await put(network, client, node, self.usual)
        except Failed:
            return


async def put(network: Network, client: str, node: str, level: str) -> None:
    """Set the level of a broker. Raises :class:`Failed` unless it says that it has done so."""
    message = Command(code=Request.UPDATE_BROKER_CONFIG, body=f"{LEVEL}={level}\n".encode())
    try:
        answer = await ask(network.connect(client, node), message, SET_S)
    except (Failed, Unknown) as error:
        raise Failed(f"{node} was not set to read with the level {level}: {error.reason}") from error
    if answer.code != Response.SUCCESS:
        raise Failed(f"{node} does not take the level {level}: code {answer.code}: {answer.remark}")
