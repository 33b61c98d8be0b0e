"""A client's connections with Kafka's nodes: one request, one answer, and what its end says of what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from chaos.driver import Dials, Disconnected
from chaos.ops import Answer, Failed, Unknown
from drivers.kafka import wire

REQUEST_S = 3.0
#: What is larger is no answer to a test.
MOST_BYTES = 64 * 2**20
#: The field of an answer's value that has Kafka's number of an error.
ERROR = "error"
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Connections:
    """Each request has a connection for itself until its answer is there; one without an answer is closed, so that a
    late answer is nobody else's."""

    def __init__(self, network: Dials, name: str) -> None:
        self.network = network
        self._name = name
        self._number = 0
        self._idle: dict[str, Stream] = {}

    async def ask(
        self,
        node: str,
        request: str,
        values: Mapping[str, Any],
        sure: Collection[int],
        timeout_s: float | None = None,
        parts: int = 1,
        version: int = 0,
    ) -> Any:
        """Send a request about so many things and return what the answer says of the first. Raises :class:`Failed` when
        it surely never left, or has one of the errors ``sure`` for all, and :class:`Unknown` for all other trouble."""
        answer = await self.exchange(node, request, values, timeout_s or REQUEST_S, version)
        try:
            found = _parts(node, request, answer)
            if len(found) != parts:
                raise ValueError(f"an answer of {len(found)} parts instead of {parts}")
            return found[0]
        except ValueError as error:
            raise Unknown(f"{request}: {error}", Answer(node=node)) from error
        except Unknown as error:
            if error.answer.value[ERROR] in sure:
                raise Failed(error.reason, error.answer) from None
            raise

    async def look(self, node: str, request: str, values: Mapping[str, Any], timeout_s: float | None = None) -> Any:
        """Do so with a request that has no effect: whatever goes wrong is :class:`Failed`."""
        try:
            return await self.ask(node, request, values, (), timeout_s)
        except Unknown as error:
            raise Failed(error.reason, error.answer) from error

    async def exchange(
        self, node: str, request: str, values: Mapping[str, Any], timeout_s: float, version: int = 0
    ) -> Any:
        """Send one request and return the whole answer, whatever it says. Raises :class:`Failed` when the request
        surely never left, :class:`Unknown` when no whole answer came; both name the node."""
        stream, sent = self._idle.pop(node, None), False
        try:
            async with asyncio.timeout(timeout_s):
                if stream is None or stream[0].at_eof():
                    _drop(stream)
                    stream = await self.network.dial(self._name, node)
                self._number = number = self._number + 1
                frame = wire.encode(request, number, self._name, values, version)
                sent = True
                stream[1].write(frame)
                answer = wire.decode(request, number, await _frame(stream[0]), version)
        except (TimeoutError, OSError, EOFError, ValueError, Disconnected) as error:
            _drop(stream)
            reason = f"{request}: {str(error) or 'no answer in time'}"
            raise (Unknown if sent else Failed)(reason, Answer(node=node)) from error
        except BaseException:
            _drop(stream)
            raise
        _drop(self._idle.pop(node, None))
        self._idle[node] = stream
        return answer

    def close(self) -> None:
        """Close all connections."""
        for stream in self._idle.values():
            _drop(stream)
        self._idle.clear()


def _parts(node: str, request: str, answer: Any) -> Sequence[Any]:
    """Return the parts of an answer, one for each thing that was asked about. Raises :class:`Unknown` for an error, of
    all or of each part, and ``ValueError`` if only some have it."""
    found = [answer]
    for name in (*wire.REQUESTS[request][1], ""):
        codes = {_code(one): one for one in found}
        if len(codes) > 1:
            raise ValueError(f"errors {sorted(map(int, codes))}")
        for code, one in codes.items():
            if code:
                text = getattr(one, "error_message", None) or code.name
                raise Unknown(f"{request}: {int(code)} {text}", Answer(node=node, value={ERROR: int(code)}))
        found = [part for one in found for part in getattr(one, name)] if name else found
    return found


def _code(part: Any) -> Any:
    return getattr(part, "error_code", 0) or getattr(part, "partition_error_code", 0)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    if size > MOST_BYTES:
        raise wire.BadAnswer(f"an answer of {size} bytes")
    return await reader.readexactly(size)


def _drop(stream: Stream | None) -> None:
    if stream is not None:
        stream[1].transport.abort()
