"""A client's connections with Kafka's nodes: one request, one answer, and what its end says of what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
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
        self, node: str, request: str, values: Mapping[str, Any], sure: Collection[int], timeout_s: float | None = None
    ) -> Any:
        """Send a request about one thing and return what the answer says of that. Raises :class:`Failed` when it surely
        never left, or the answer has one of the errors ``sure``, and :class:`Unknown` for all other trouble."""
        answer = await self.exchange(node, request, values, timeout_s or REQUEST_S)
        try:
            return _part(node, request, answer)
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

    async def exchange(self, node: str, request: str, values: Mapping[str, Any], timeout_s: float) -> Any:
        """Send one request and return the whole answer, whatever it says. Raises :class:`Failed` when the request
        surely never left, :class:`Unknown` when no whole answer came; both name the node."""
        stream, sent = self._idle.pop(node, None), False
        try:
            async with asyncio.timeout(timeout_s):
                if stream is None or stream[0].at_eof():
                    _drop(stream)
                    stream = await self.network.dial(self._name, node)
                self._number = number = self._number + 1
                frame = wire.encode(request, number, self._name, values)
                sent = True
                stream[1].write(frame)
                answer = wire.decode(request, number, await _frame(stream[0]))
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


def _part(node: str, request: str, answer: Any) -> Any:
    """Return the one part of an answer to a question about one thing. Raises ``ValueError`` where there is another
    number of them, and :class:`Unknown` for an error, of the part or of all."""
    for name in (*wire.REQUESTS[request][1], ""):
        if code := int(getattr(answer, "error_code", 0)):
            text = getattr(answer, "error_message", None) or answer.error_code.name
            raise Unknown(f"{request}: {code} {text}", Answer(node=node, value={ERROR: code}))
        if name:
            (answer,) = getattr(answer, name)
    return answer


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    if size > MOST_BYTES:
        raise wire.BadAnswer(f"an answer of {size} bytes")
    return await reader.readexactly(size)


def _drop(stream: Stream | None) -> None:
    if stream is not None:
        stream[1].transport.abort()
