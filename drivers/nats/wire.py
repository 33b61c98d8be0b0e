"""NATS's text protocol as far as requests need it: a connection with one server, and the replies in its inbox."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaos.driver import Dials

#: What is larger is no answer to a test.
MOST_BYTES = 64 * 2**20
#: The status of a reply by which a server says that nobody listens to the subject: it has dropped the request.
NO_RESPONDERS = 503
_CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"tls_required":false,"name":"stormproof","lang":"python","version":"1",'
    b'"protocol":1,"echo":true,"headers":true,"no_responders":true}\r\n'
)
_VERSION_LINE = b"NATS/1.0"


class Broken(ConnectionError):
    """The connection ended, or what came makes no sense; requests may have been sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A message that asks for one reply."""

    subject: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def frame(self, inbox: str) -> bytes:
        """Return the bytes of the message."""
        if not self.headers:
            return f"PUB {self.subject} {inbox} {len(self.body)}\r\n".encode() + self.body + b"\r\n"
        lines = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        head = _VERSION_LINE + b"\r\n" + lines.encode() + b"\r\n"
        sizes = f"{len(head)} {len(head) + len(self.body)}"
        return f"HPUB {self.subject} {inbox} {sizes}\r\n".encode() + head + self.body + b"\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """``status``: of a reply that has one in its headers, 0 for most."""

    body: bytes
    status: int = 0


class Link:
    """An open connection with a server, with one inbox for all replies. Requests that were given up may still be
    answered: each has a number of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        self._next = 0

    async def greet(self) -> None:
        """Introduce ourselves, and wait until the server has taken that. Raises :class:`Broken`."""
        try:
            if not (await self._line()).startswith(b"INFO "):
                raise Broken("the server did not introduce itself")
            self._writer.write(_CONNECT + f"SUB {self._inbox}.* 1\r\nPING\r\n".encode())
            while await self._line() != b"PONG":
                pass
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Broken(f"the connection ended: {error}") from error

    async def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """Send all requests, and return their replies in the same order. Raises :class:`Broken` or ``OSError``."""
        names = [f"{self._inbox}.{self._next + number}" for number in range(len(requests))]
        self._next += len(requests)
        self._writer.write(b"".join(one.frame(name) for one, name in zip(requests, names, strict=True)))
        await self._writer.drain()
        found: dict[str, Reply] = {}
        waiting = set(names)
        try:
            while waiting:
                subject, reply = await self._message()
                if subject in waiting:
                    waiting.remove(subject)
                    found[subject] = reply
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise Broken(f"no whole reply came: {error}") from error
        return [found[name] for name in names]

    def close(self) -> None:
        self._writer.transport.abort()

    async def _line(self) -> bytes:
        """Return the next line that is neither an acknowledgement nor a question whether we are alive."""
        while True:
            line = (await self._reader.readuntil(b"\r\n"))[:-2]
            if line.upper() == b"PING":
                self._writer.write(b"PONG\r\n")
            elif line.startswith(b"-ERR"):
                raise Broken(f"the server refused: {line[4:204].decode('utf-8', 'replace').strip()}")
            elif line != b"+OK":
                return line

    async def _message(self) -> tuple[str, Reply]:
        """Return the subject of the next message, and what it says. Raises ``ValueError`` for one that can't be
        understood."""
        while True:
            line = await self._line()
            verb, *words = line.decode().split()
            if verb in ("MSG", "HMSG"):
                break
            if verb not in ("INFO", "PONG"):
                raise ValueError(f"unknown message {line[:80]!r}")
        head_bytes, total = (int(words[-2]), int(words[-1])) if verb == "HMSG" else (0, int(words[-1]))
        if not 0 <= head_bytes <= total <= MOST_BYTES:
            raise ValueError(f"unlikely sizes {line[:80]!r}")
        content = await self._reader.readexactly(total + 2)
        if content[total:] != b"\r\n":
            raise ValueError(f"a message that does not end where it says: {line[:80]!r}")
        return words[0], Reply(body=content[head_bytes:total], status=_status(content[:head_bytes]))


def _status(head: bytes) -> int:
    """Return the status in the first line of headers, 0 without one. Raises ``ValueError``."""
    first = head.partition(b"\r\n")[0]
    if head and not first.startswith(_VERSION_LINE):
        raise ValueError(f"headers of another version {first[:80]!r}")
    words = first.split()
    return int(words[1]) if len(words) > 1 else 0


async def connect(network: Dials, client: str, node: str) -> Link:
    """Open a connection of this client with a node. Raises :class:`chaos.driver.Disconnected` when it was refused, and
    :class:`Broken`; give it a bound of your own."""
    reader, writer = await network.dial(client, node)
    link = Link(reader, writer)
    try:
        await link.greet()
    except BaseException:
        link.close()
        raise
    return link
