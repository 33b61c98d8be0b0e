"""NATS's text protocol as far as requests need it: a connection with one server, and the replies in its inbox."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

#: What is larger is no answer to a test.
MOST_BYTES = 64 * 2**20
_CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"protocol":1,"headers":true,"no_responders":true}\r\n'
_VERSION = b"NATS/1.0"


class Broken(ConnectionError):
    """The connection ended, or what came makes no sense; requests may have been sent."""


@dataclass(frozen=True, slots=True)
class Request:
    """A message that asks for one reply. ``headers``: lines, each with its CR and LF."""

    subject: str
    body: bytes
    headers: str = ""

    def frame(self, inbox: str) -> bytes:
        """Return the bytes of the message."""
        head = _VERSION + f"\r\n{self.headers}\r\n".encode()
        sizes = f"{len(head)} {len(head) + len(self.body)}"
        return f"HPUB {self.subject} {inbox} {sizes}\r\n".encode() + head + self.body + b"\r\n"


@dataclass(frozen=True, slots=True)
class Reply:
    """``status``: of a reply that has one in its headers, 0 for most."""

    body: bytes
    status: int = 0


class Link:
    """An open connection with a server, with an inbox for all replies. A request that was given up may be answered yet:
    each has a subject of its own in the inbox."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        self._asked = 0

    async def greet(self) -> None:
        """Introduce ourselves, and wait until the server has taken that. Raises :class:`Broken` or ``OSError``."""
        if not (await self._line()).startswith(b"INFO "):
            raise Broken("the server did not introduce itself")
        self._writer.write(_CONNECT + f"SUB {self._inbox}.* 1\r\nPING\r\n".encode())
        while await self._line() != b"PONG":
            pass

    async def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """Send all requests, and return their replies in the same order. Raises :class:`Broken` or ``OSError``."""
        names = [f"{self._inbox}.{self._asked + number}" for number in range(len(requests))]
        self._asked += len(requests)
        self._writer.write(b"".join(one.frame(name) for one, name in zip(requests, names, strict=True)))
        await self._writer.drain()
        found: dict[str, Reply] = {}
        while not found.keys() >= set(names):
            try:
                subject, reply = await self._message()
            except ValueError as error:
                raise Broken(f"a damaged reply: {error}") from error
            found.setdefault(subject, reply)
        return [found[name] for name in names]

    def close(self) -> None:
        self._writer.transport.abort()

    async def _line(self) -> bytes:
        """Return the next line, and answer those by which the server asks whether we are alive."""
        while True:
            try:
                line = (await self._reader.readuntil(b"\r\n"))[:-2]
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                raise Broken("the connection ended") from error
            if line.startswith(b"-ERR"):
                raise Broken(f"the server refused: {line[4:204].decode('utf-8', 'replace').strip()}")
            if line != b"PING":
                return line
            self._writer.write(b"PONG\r\n")

    async def _message(self) -> tuple[str, Reply]:
        """Return the subject of the next message, and what it says. Raises ``ValueError`` for a damaged one."""
        verb, *words = (await self._line()).decode().split()
        while verb in ("INFO", "PONG", "+OK"):
            verb, *words = (await self._line()).decode().split()
        if verb not in ("MSG", "HMSG") or len(words) < 3:
            raise ValueError(f"{verb[:40]} is no message")
        total, head_size = int(words[-1]), int(words[-2]) if verb == "HMSG" else 0
        if not 0 <= head_size <= total <= MOST_BYTES:
            raise ValueError("unlikely sizes")
        try:
            content = await self._reader.readexactly(total + 2)
        except asyncio.IncompleteReadError as error:
            raise Broken("the connection ended in a reply") from error
        if content[total:] != b"\r\n" or (head_size and not content.startswith(_VERSION)):
            raise ValueError("it is not framed as it says")
        status = content[:head_size].partition(b"\r\n")[0].split()[1:2]
        return words[0], Reply(content[head_size:total], int(status[0]) if status else 0)
