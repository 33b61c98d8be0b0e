"""Requests of one client to JetStream, each to one server, and what their ends say of what happened."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from chaos.driver import Dials
from chaos.ops import Answer, Failed, Unknown
from drivers.nats.wire import Link, Reply, Request

#: A message that was proposed just before its leader was lost is never answered, nor is a question about it then.
REQUEST_S = 5.0
LOOK_S = 2.0
API = "$JS.API"
#: The clients' account, which has JetStream, and the subject under which it may ask servers about themselves.
ACCOUNT = "STORM"
ABOUT_SERVERS = "storm.servers"
#: The state of a server that leads, among Raft's.
LEADER = "LEADER"
#: Errors by which a server refuses a message before it proposes it: too large, a sealed stream, a message of this id is
#: being stored. After any other one replicas may have it.
REFUSED = frozenset({10054, 10109, 10158})
NO_MESSAGE = 10037
NO_RESPONDERS = 503

Json = Mapping[str, Any]


class NoResponders(Failed):
    """A server dropped the request, since no server listens to its subject: no leader, no stream, or an old version."""


class Session:
    """A client's connection with one of the servers, as with a client library; after trouble it turns to the next one.
    Not every client begins with the same."""

    def __init__(self, network: Dials, name: str, nodes: Sequence[str]) -> None:
        self._network = network
        self._name = name
        self._nodes = tuple(nodes)
        self._turn = crc32(name.encode())
        self._link: Link | None = None

    async def ask(self, *requests: Request, timeout_s: float) -> Sequence[Reply]:
        """Send all of these at once and return their replies. Raises :class:`Failed` when none was sent, and
        :class:`Unknown` for any other trouble."""
        node = self._nodes[self._turn % len(self._nodes)]
        sent = False
        try:
            async with asyncio.timeout(timeout_s):
                if self._link is None:
                    self._link = Link(*await self._network.dial(self._name, node))
                    await self._link.greet()
                sent = True
                return await self._link.exchange(requests)
        except OSError as error:  # Disconnected, Broken and TimeoutError are such
            self.close()
            self._turn += 1
            reason = f"{node}: {str(error) or f'no answer within {timeout_s:g} s'}"
            raise (Unknown if sent else Failed)(reason) from error
        except BaseException:
            self.close()  # half of a reply may have been read
            raise

    async def look(self, subject: str, *asked: Json, timeout_s: float = LOOK_S) -> list[dict[str, Any]]:
        """Ask for what has no effect, and return the objects of JSON that came, which may be errors of JetStream's.
        Whatever else goes wrong is :class:`Failed`."""
        requests = [Request(subject, json.dumps(one).encode()) for one in asked]
        try:
            return [parsed(reply) for reply in await self.ask(*requests, timeout_s=timeout_s)]
        except Unknown as error:
            raise Failed(error.reason) from error

    async def about(self, node: str, what: str, **asked: object) -> dict[str, Any]:
        """Return what a server says about itself, whichever is asked; empty where its version doesn't say. Raises
        :class:`Failed`."""
        try:
            (found,) = await self.look(f"{ABOUT_SERVERS}.{what}", {"server_name": node, **asked})
        except NoResponders:
            return {}
        return member(found, "data")

    async def publish(self, stream: str, subject: str, body: bytes, headers: str = "") -> int:
        """Have a stream store a message; return its number there, from 0 on."""
        (reply,) = await self.ask(Request(subject, body, headers), timeout_s=REQUEST_S)
        try:
            ack = parsed(reply)
        except Failed as error:
            raise (Failed if isinstance(error, NoResponders) else Unknown)(error.reason) from error
        if reason := refusal(ack):
            raise (Failed if error_code(ack) in REFUSED else Unknown)(reason)
        if ack.get("stream") != stream or not isinstance(ack.get("seq"), int):
            raise Unknown("the acknowledgement makes no sense")
        if ack.get("duplicate"):
            said = f"an earlier attempt has stored it as number {ack['seq']}"
            raise Unknown(said, Answer(offset=int(ack["seq"]) - 1))
        return int(ack["seq"]) - 1

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


def parsed(reply: Reply) -> dict[str, Any]:
    """Return the object of JSON in a reply. Raises :class:`NoResponders`, and :class:`Failed` where there is none."""
    if reply.status == NO_RESPONDERS:
        raise NoResponders("no responders: no leader is known")
    try:
        found = json.loads(reply.body)
    except (ValueError, RecursionError) as error:
        raise Failed(f"no answer of JSON: {error}") from error
    if reply.status or not isinstance(found, dict):
        raise Failed(f"an answer without an object of JSON, with status {reply.status}")
    return found


def member(found: object, name: str) -> dict[str, Any]:
    """Return an object within an object; empty where there is none."""
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, dict) else {}


def number(found: Json, name: str) -> int:
    """Return a whole number of an object. Raises :class:`Failed`."""
    if type(value := found.get(name)) is not int:
        raise Failed(f"an answer without a number {name!r}")
    return value


def error_code(found: Json) -> int:
    """Return JetStream's own number of the error that an answer holds, 0 without one."""
    code = member(found, "error").get("err_code")
    return code if isinstance(code, int) else 0


def refusal(found: Json) -> str:
    """Return why JetStream refused, "" where it did not."""
    if "error" not in found:
        return ""
    return f"error {error_code(found)}: {str(member(found, 'error').get('description'))[:200]}"
