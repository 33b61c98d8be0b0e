"""Clients of controllers that cost little themselves: requests and answers as bytes, many under way on a connection."""

from __future__ import annotations

import asyncio
import json
import re
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from benchmarks.controllers.cluster import Cluster
from reference.wire.codes import Request, Response

NO_FIELDS: Mapping[str, str] = {}
ANSWER_S = 10.0
BEGIN_S = 180.0
_POLL_S = 0.05
_ONEWAY = 2
_START = struct.Struct(">II")
_OPAQUE = re.compile(rb'"opaque":(\d+)')
_CODE = re.compile(rb'"code":(\d+)')


def frame(code: int, opaque: int, fields: Mapping[str, str], body: bytes = b"", flags: int = 0) -> bytes:
    """Return a request as any client of RocketMQ writes it."""
    content = {"code": code, "language": "JAVA", "version": 513, "opaque": opaque, "flag": flags, "extFields": fields}
    header = json.dumps(content, separators=(",", ":")).encode()
    return _START.pack(4 + len(header) + len(body), len(header)) + header + body


class Connection(asyncio.Protocol):
    """One connection with one controller. Answers come in any order."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._asked: dict[int, asyncio.Future[tuple[int, bytes]]] = {}
        self._numbers = count(1)
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(cls, cluster: Cluster, node: str, name: str) -> Connection:
        host, port = cluster.addresses[node]
        transport, connection = await asyncio.get_running_loop().create_connection(cls, host, port)
        transport.write(cluster.hello(name, node))
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        asked, self._asked = self._asked, {}
        for answer in asked.values():
            if not answer.done():
                answer.set_exception(ConnectionResetError("the controller has closed the connection"))

    def send_oneway(self, what: Call) -> None:
        self._transport.write(frame(what.code, next(self._numbers), what.fields, what.body, flags=_ONEWAY))

    async def ask(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> tuple[int, bytes]:
        """Send a request; return the answer's code, and the whole frame. Raises ``ConnectionResetError`` and
        ``TimeoutError``."""
        number = next(self._numbers)
        answer = self._asked[number] = self._loop.create_future()
        self._transport.write(frame(code, number, fields, body))
        late = self._loop.call_later(ANSWER_S, _give_up, answer)
        try:
            return await answer
        finally:
            late.cancel()
            self._asked.pop(number, None)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        begin, held = 0, self._buffer
        while len(held) - begin >= _START.size:
            length, word = _START.unpack_from(held, begin)
            end = begin + 4 + length
            if len(held) < end:
                break
            header = bytes(held[begin + 8 : begin + 8 + (word & 0xFFFFFF)])
            opaque, code = _OPAQUE.search(header), _CODE.search(header)
            assert opaque is not None and code is not None, header
            answer = self._asked.get(int(opaque[1]))
            if answer is not None and not answer.done():
                answer.set_result((int(code[1]), bytes(held[begin:end])))
            begin = end
        del held[:begin]

    def close(self) -> None:
        self._transport.abort()


def _give_up(answer: asyncio.Future[tuple[int, bytes]]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError(f"no answer within {ANSWER_S:g} s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request, and the codes with which it has done its work."""

    code: int
    fields: Mapping[str, str]
    body: bytes = b""
    done: frozenset[int] = frozenset({Response.SUCCESS})


@dataclass(slots=True)
class Tally:
    """What became of a phase's requests."""

    latencies_s: list[float] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)


async def call(connection: Connection, what: Call, tally: Tally) -> bytes | None:
    """Make a request and count what comes of it. Returns the answer, None if it refuses."""
    begin_s = time.perf_counter()
    code, answer = await connection.ask(what.code, what.fields, what.body)
    if code in what.done:
        tally.latencies_s.append(time.perf_counter() - begin_s)
        return answer
    tally.refused[code] = tally.refused.get(code, 0) + 1
    await asyncio.sleep(_POLL_S)
    return None


async def keep_asking(connection: Connection, make: Callable[[], Call], tally: Tally, end_s: float) -> None:
    """One request after the other until ``end_s``; what ends later doesn't count."""
    while time.perf_counter() < end_s:
        await call(connection, make(), tally)


async def leader_of(cluster: Cluster) -> str:
    """Wait until the controllers agree on a leader. Raises ``TimeoutError``, or ``RuntimeError`` if one has ended."""
    deadline_s = time.monotonic() + BEGIN_S
    while time.monotonic() < deadline_s:
        cluster.check()
        if found := await _agreed_leader(cluster):
            return found
        await asyncio.sleep(_POLL_S)
    raise TimeoutError(f"{cluster.kind}: no leader within {BEGIN_S:g} s")


async def _agreed_leader(cluster: Cluster) -> str:
    leaders = set()
    for node in cluster.addresses:
        try:
            connection = await Connection.open(cluster, node, "finder")
        except OSError:
            return ""
        try:
            _, answer = await connection.ask(Request.CONTROLLER_GET_METADATA_INFO, NO_FIELDS)
        except OSError:
            return ""
        finally:
            connection.close()
        leaders.add(cluster.leader(answer))
    return leaders.pop() if len(leaders) == 1 else ""
