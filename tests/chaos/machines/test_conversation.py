"""Rules on requests, as the proxy carries them out: over frames with numbers, and over lines that are answered in
order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from chaos.effects.links import HARNESS, LinkRule
from chaos.effects.requests import DelayAnswers, LoseAnswers, OnRequests, RefuseRequests, SwallowRequests
from chaos.frames import CodecFrames, Frame, Framing
from chaos.machines.proxy import HOST, Proxy, preamble
from chaos.plain import PlainCodec, PlainMessage
from drivers.etcd.frames import HttpFrames

LATE_S = 0.3
KINDS = {1: "write", 2: "read"}


def numbered(port: str) -> CodecFrames:
    """Read a protocol whose answers have numbers."""

    def size_of(buffer: bytearray) -> int:
        return 12 + int.from_bytes(buffer[:4], "big") if len(buffer) >= 4 else 0

    return CodecFrames(PlainCodec(), kind_of=lambda message: KINDS.get(message.kind, ""), size_of=size_of)


class Lines:
    """A protocol of lines, each answered by one line, in order. ``quiet`` is not answered."""

    def requests(self, buffer: bytearray) -> Sequence[Frame]:
        found = []
        while b"\n" in buffer:
            end = buffer.index(b"\n") + 1
            line = bytes(buffer[:end])
            del buffer[:end]
            if line == b"garbage\n":
                raise ValueError("garbage")
            found.append(Frame(data=line, kind=line.split()[0].decode(), paired=line != b"quiet\n"))
        return found

    def answers(self, buffer: bytearray, *, ended: bool) -> Sequence[Frame]:
        return self.requests(buffer)

    def refusal(self, request: Frame) -> bytes:
        return b"" if request.kind == "mute" else b"no\n"


def lines(port: str) -> Lines | None:
    return Lines() if port != "other" else None


class Bench:
    """A proxy in front of a program that answers each line with the same line, and notes what it was asked."""

    def __init__(self, reader: str) -> None:
        self.proxy = Proxy(1, lambda hello, transport: transport.abort())
        self.proxy.read_requests(Framing(reader=f"{__name__}:{reader}", kinds=("read", "write")), ruled=True)
        self.asked = bytearray()

    async def begin(self) -> None:
        self.port = await self.proxy.listen()
        self.server = await asyncio.start_server(self._serve, HOST, 0)
        self.proxy.programs["node"] = {"main": self.server.sockets[0].getsockname()}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        codec, buffer = PlainCodec(), bytearray()
        while data := await reader.read(65_536):
            self.asked += data
            if self.proxy.framing is not None and self.proxy.framing.reader.endswith(":numbered"):
                buffer += data
                data = b"".join(codec.encode(message.reply(message.body)) for message in codec.decode(buffer))
            writer.write(data)
            if data.endswith(b"end\n"):
                break
        writer.close()

    async def dial(self, source: str = "client", port: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        writer.write(preamble(source, "node", port=port))
        assert await reader.readexactly(1) == b"+"
        return reader, writer

    def rule(self, action: OnRequests) -> None:
        self.proxy.set_rule("rule", LinkRule(frozenset({"*"}), frozenset({"node"}), action, frozenset({"node"})))

    @property
    def hits(self) -> int:
        return self.proxy.hits["rule"]


def on(reader: str) -> Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], Callable[[], None]]:
    def decorated(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        async def main() -> None:
            bench = Bench(reader)
            await bench.begin()
            try:
                async with asyncio.timeout(15):
                    await test(bench)
            finally:
                bench.proxy.close()
                bench.server.close()

        def run() -> None:
            asyncio.run(main())

        run.__name__ = test.__name__  # type: ignore[attr-defined]
        return run

    return decorated


def frame(kind: int, number: int) -> bytes:
    return PlainCodec().encode(PlainMessage(kind=kind, number=number, body=b"x" * number))


async def heard(reader: asyncio.StreamReader, size: int) -> bytes:
    """Return so many bytes that come."""
    return await reader.readexactly(size)


async def silent(reader: asyncio.StreamReader) -> bool:
    """Return whether nothing comes for a while."""
    try:
        return not await asyncio.wait_for(reader.read(1), 0.1)
    except TimeoutError:
        return True


async def answers(reader: asyncio.StreamReader, count: int) -> list[tuple[int, str]]:
    """Return the numbers of so many answers in the order in which they come, each with its error."""
    found: list[PlainMessage] = []
    buffer = bytearray()
    while len(found) < count and (data := await reader.read(65_536)):
        buffer += data
        found += PlainCodec().decode(buffer)
    return [(message.number, message.error) for message in found]


@on("numbered")
async def test_a_lost_answer_is_that_of_a_request_that_was_done(bench: Bench) -> None:
    bench.rule(LoseAnswers(("write",)))
    reader, writer = await bench.dial()
    writer.write(frame(1, 1) + frame(2, 2) + frame(1, 3)[:7])
    assert await answers(reader, 1) == [(2, "")]
    writer.write(frame(1, 3)[7:])
    assert await silent(reader)
    assert bench.asked == frame(1, 1) + frame(2, 2) + frame(1, 3)
    assert bench.hits == 2
    bench.proxy.clear_rule("rule")
    writer.write(frame(1, 4))
    assert await answers(reader, 1) == [(4, "")]


@on("lines")
async def test_after_a_lost_answer_none_follows_where_they_come_in_order(bench: Bench) -> None:
    bench.rule(LoseAnswers(("write",)))
    reader, writer = await bench.dial()
    writer.write(b"read 1\nwrite 2\nread 3\n")
    assert await heard(reader, 7) == b"read 1\n"
    assert await silent(reader)
    assert bench.asked == b"read 1\nwrite 2\nread 3\n"
    bench.proxy.clear_rule("rule")
    with pytest.raises(ConnectionError):  # else it stayed silent for good
        await reader.read(1)


@on("lines")
async def test_an_answer_may_be_lost_with_its_connection(bench: Bench) -> None:
    bench.rule(LoseAnswers(("write",), breaks=True))
    reader, writer = await bench.dial()
    writer.write(b"write\n")
    with pytest.raises(ConnectionError):
        await reader.read(1)
    assert bench.asked == b"write\n" and bench.hits == 1


@on("numbered")
async def test_a_refused_request_never_arrives(bench: Bench) -> None:
    bench.rule(RefuseRequests(("write",)))
    reader, writer = await bench.dial()
    writer.write(frame(1, 1) + frame(2, 2) + frame(7, 3))
    first, second, third = await answers(reader, 3)
    assert first[0] == 1 and "fault" in first[1]
    assert (second, third) == ((2, ""), (3, ""))
    assert bench.asked == frame(2, 2) + frame(7, 3) and bench.hits == 1


@on("lines")
async def test_a_refusal_comes_in_its_turn(bench: Bench) -> None:
    bench.rule(RefuseRequests(("write", "mute", "quiet")))
    reader, writer = await bench.dial()
    writer.write(b"read 1\nwrite 2\nread 3\nmute\nquiet\n")
    assert await heard(reader, 28) == b"read 1\nno\nread 3\nmute\nquiet\n"
    assert bench.asked == b"read 1\nread 3\nmute\nquiet\n"
    assert bench.hits == 1  # what can't be refused goes through, and doesn't count


@on("numbered")
async def test_a_late_answer_is_overtaken_where_answers_have_numbers(bench: Bench) -> None:
    bench.rule(DelayAnswers(("write",), delay_ns=round(LATE_S * 1e9)))
    reader, writer = await bench.dial()
    writer.write(frame(1, 1) + frame(2, 2))
    assert await answers(reader, 2) == [(2, ""), (1, "")]
    assert bench.hits == 1


@on("lines")
async def test_others_wait_behind_a_late_answer_where_they_come_in_order(bench: Bench) -> None:
    bench.rule(DelayAnswers(("write",), delay_ns=round(LATE_S * 1e9)))
    reader, writer = await bench.dial()
    writer.write(b"read 1\nwrite 2\nend\n")
    assert await heard(reader, 7) == b"read 1\n"
    assert await heard(reader, 12) == b"write 2\nend\n"
    assert await reader.read() == b""  # the node has ended the connection long before


@on("numbered")
async def test_late_answers_come_at_once_when_the_rule_goes(bench: Bench) -> None:
    bench.rule(DelayAnswers(delay_ns=3600 * 10**9))
    reader, writer = await bench.dial()
    writer.write(frame(1, 1) + frame(2, 2))
    assert await silent(reader)
    bench.proxy.clear_rule("rule")
    assert await answers(reader, 2) == [(1, ""), (2, "")]


@on("numbered")
async def test_a_swallowed_request_never_arrives_and_nothing_comes_back(bench: Bench) -> None:
    bench.rule(SwallowRequests(("write",)))
    reader, writer = await bench.dial()
    writer.write(frame(1, 1) + frame(2, 2))
    assert await answers(reader, 1) == [(2, "")]
    assert await silent(reader)
    assert bench.asked == frame(2, 2) and bench.hits == 1


@on("lines")
async def test_all_is_swallowed_after_one_where_answers_come_in_order(bench: Bench) -> None:
    bench.rule(SwallowRequests(("write",)))
    reader, writer = await bench.dial()
    writer.write(b"read 1\nwrite 2\nread 3\nwrite 4\n")
    assert await heard(reader, 7) == b"read 1\n"
    assert await silent(reader)
    assert bench.asked == b"read 1\n" and bench.hits == 1
    bench.proxy.clear_rule("rule")
    with pytest.raises(ConnectionError):
        await reader.read(1)


@on("lines")
async def test_what_makes_no_frame_goes_through_untouched(bench: Bench) -> None:
    bench.rule(RefuseRequests())
    reader, writer = await bench.dial()
    writer.write(b"read 1\n")
    assert await heard(reader, 3) == b"no\n"
    writer.write(b"read 2\ngarbage\nread 3\nhalf a li")
    assert await heard(reader, 31) == b"read 2\ngarbage\nread 3\nhalf a li"
    assert bench.hits == 1


@on("lines")
async def test_the_rules_leave_the_harness_and_nodes_and_other_ports_alone(bench: Bench) -> None:
    bench.proxy.programs["node"] = {**bench.proxy.programs["node"], "other": bench.proxy.programs["node"]["main"]}
    bench.proxy.programs["peer"] = {}
    bench.rule(RefuseRequests())
    for source, port in ((HARNESS, ""), ("peer", ""), ("client", "other")):
        reader, writer = await bench.dial(source, port)
        writer.write(b"read\n")
        assert await heard(reader, 5) == b"read\n"
    assert bench.hits == 0


def test_requests_of_etcd_are_read_whole_and_answers_until_their_end() -> None:
    it = HttpFrames()
    first = b"POST /v3/kv/put HTTP/1.0\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
    second = b"GET /health HTTP/1.1\r\n\r\n"
    buffer = bytearray()
    found = []
    for byte in first + second:
        buffer.append(byte)
        found += it.requests(buffer)
    assert [(frame.data, frame.kind) for frame in found] == [(first, "write"), (second, "")]
    buffer = bytearray(b"HTTP/1.0 200 OK\r\n\r\nwhole")
    assert it.answers(buffer, ended=False) == []
    assert [frame.data for frame in it.answers(buffer, ended=True)] == [b"HTTP/1.0 200 OK\r\n\r\nwhole"]
    (refusal,) = it.answers(bytearray(it.refusal(found[0])), ended=False)
    assert b" 429 " in refusal.data and b'"code": 8' in refusal.data
    for alien in (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"x" * 70_000,
    ):
        with pytest.raises(ValueError, match=r"HTTP|head"):
            it.requests(bytearray(alien))
