"""A node's connections under fire: who may say what, how much of it is kept, and for how long."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from chaos.node import NodeSpec
from chaos.shell import connections
from chaos.shell.connections import Connections, Listener
from chaos.shell.launch import Launch
from chaos.shell.node_process import Shell
from reference.wire.codec import RemotingCodec
from reference.wire.codes import Request, Response
from reference.wire.command import Command

CODEC = RemotingCodec()
TOKEN = "a secret"
HELLO = {"from": "broker-1", "to": "broker-0", "token": TOKEN}
CLIENTS, INTERNAL = Request.HEART_BEAT, Request.STORE_PUT
HALF = struct.pack(">II", 10_000, 100) + b"x" * 400

NO_PREAMBLES = (
    b'{"from":"broker-1"',
    b"{" + b"x" * 5000,
    b'{"a":' * 900 + b"\n",
    b"{}\n",
    b"[]\n",
    b"{\xff}\n",
    *(
        json.dumps({**HELLO, **wrong}).encode() + b"\n"
        for wrong in (
            {"from": 7},
            {"from": ""},
            {"from": "\ud800"},
            {"from": "broker-0"},
            {"from": "x" * 300},
            {"from": None},
            {"token": "another"},
            {"token": None},
            {"token": "\ud800"},
            {"token": ""},
        )
    ),
)


class Served:
    """Connections of ``broker-0`` on a port of this machine; ``heard`` is what its node was given."""

    def __init__(self, port: int, foreign: tuple[str, ...] = ()) -> None:
        self.heard: list[tuple[str, int]] = []
        self.closed: list[str] = []
        launch = Launch(
            spec=NodeSpec(name="broker-0", role="broker", package="reference"),
            nodes=("broker-0", "broker-1"),
            incarnation=1,
            seed=1,
            disk="",
            trace="",
            addresses={"broker-0": f"127.0.0.1:{port}", "broker-1": "127.0.0.1:1"},
            exposed={"broker-1": "outside:1"},
            token=TOKEN,
            foreign=foreign,
        )
        listener = Listener(message=self.hear, closed=self.closed.append, clocks=lambda: b"{}")
        self.connections = Connections(launch, CODEC, listener)
        self.port = port

    def hear(self, source: str, message: Command) -> None:
        self.heard.append((source, message.code))
        (host, port), _ = self.connections.endpoints(source)
        answer = message.reply(fields={"from": f"{host}:{port}", "masterAddress": "broker-1"})
        self.connections.send(source, self.connections.frame(source, answer))

    async def say(self, data: bytes, *, then: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data + then)
        return reader, writer

    async def answer(self, data: bytes, code: int) -> Command | None:
        """The answer to a request behind these bytes; None when the connection is closed instead."""
        reader, writer = await self.say(data, then=CODEC.encode(Command(code=code, opaque=5)))
        buffer = bytearray()
        try:
            while not (found := CODEC.decode(buffer)):
                more = await asyncio.wait_for(reader.read(65536), 5)
                if not more:
                    return None
                buffer += more
            return found[0]
        except ConnectionError:
            return None
        finally:
            writer.close()


def serve(script: Callable[[Served], Coroutine[Any, Any, None]], foreign: tuple[str, ...] = ()) -> Served:
    async def main() -> Served:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        served = Served(port, foreign)
        server = await served.connections.listen()
        await server.start_serving()
        await script(served)
        server.close()
        return served

    return asyncio.run(main())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.005)


def preamble(**more: object) -> bytes:
    return json.dumps({**HELLO, **more}).encode() + b"\n"


def test_what_is_no_first_line_closes_the_connection_and_reaches_no_node() -> None:
    async def script(served: Served) -> None:
        for wrong in NO_PREAMBLES[1:]:
            assert await served.answer(wrong, CLIENTS) is None, wrong[:80]
        assert served.heard == []
        assert await served.answer(preamble(), CLIENTS) is not None

    assert serve(script).heard == [("broker-1", CLIENTS)]


def test_a_program_of_others_is_dialled_at_its_address_without_a_first_line() -> None:
    async def main() -> None:
        came: list[bytes] = []

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            came.append(await reader.read(65536))
            writer.close()

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        there = f"{host}:{port}"
        message = Command(code=1008, fields={"masterAddress": there})
        for foreign in ((), (there,)):
            served = Served(1, foreign)
            served.connections.send(there, served.connections.frame(there, message))
            await until(lambda served=served: not served.connections.peers)
            assert served.closed == list(foreign), "it has gone, and a name that nobody has was never dialled"
        server.close()
        (found,) = CODEC.decode(bytearray(came[0]))
        assert len(came) == 1 and (found.code, found.fields) == (message.code, message.fields)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("foreign", "told"), [((), "outside:1"), (("127.0.0.2:7",), "outside:1"), (("127.0.0.1:7",), "127.0.0.1:1")]
)
def test_a_program_among_the_nodes_is_told_the_addresses_that_nodes_use(foreign: tuple[str, ...], told: str) -> None:
    async def script(served: Served) -> None:
        answer = await served.answer(b"", CLIENTS)
        assert answer is not None and answer.fields["masterAddress"] == told

    serve(script, foreign)


def test_who_knows_no_secret_is_a_client_and_nothing_else() -> None:
    async def script(served: Served) -> None:
        peer, stranger = await served.answer(preamble(), INTERNAL), await served.answer(b"", INTERNAL)
        assert peer is not None
        assert peer.code == 0
        assert stranger is not None
        assert stranger.code == Response.NO_PERMISSION
        client = await served.answer(b"", CLIENTS)
        assert client is not None
        assert client.fields["from"].startswith("127.0.0.1:")
        assert not client.fields["from"].endswith(":0")

    assert [code for _, code in serve(script).heard] == [INTERNAL, CLIENTS]


def test_half_frames_are_freed_with_their_connections() -> None:
    async def script(served: Served) -> None:
        held = [await served.say(preamble(**{"from": f"client-{number}"}), then=HALF) for number in range(20)]
        await until(lambda: served.connections.buffered_bytes == 20 * len(HALF))
        for _, writer in held:
            writer.close()
        await until(lambda: served.connections.buffered_bytes == 0)
        assert served.connections.accepted_count == 0
        assert served.connections.peers == {}

    serve(script)


def test_who_fills_the_memory_with_half_frames_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_BUFFERED_BYTES", 3 * len(HALF))

    async def script(served: Served) -> None:
        held = [await served.say(preamble(**{"from": f"client-{number}"}), then=HALF) for number in range(6)]
        await until(lambda: served.connections.accepted_count == 3)
        assert await served.answer(preamble(), CLIENTS) is not None
        for _, writer in held:
            writer.close()

    serve(script)


def test_connections_are_counted_and_who_says_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PREAMBLE_S", 0.2)

    async def script(served: Served) -> None:
        served.connections.most_accepted = 3
        held = [await served.say(line) for line in (b"", b'{"from":', b"", b"", b"")]
        for reader, _ in held[3:]:
            assert await asyncio.wait_for(reader.read(), 5) == b"", "there was room for three"
        await until(lambda: served.connections.accepted_count == 0)
        assert await served.answer(preamble(), CLIENTS) is not None

    serve(script)


def test_an_answer_of_any_header_fits_into_a_frame() -> None:
    header = json.dumps({"code": 11, "extFields": {"topic": "\x01" * 500_000}}).encode()
    with pytest.raises(ValueError, match="announces a header"):
        CODEC.decode(bytearray(struct.pack(">II", len(header) + 4, len(header)) + header))


def test_halves_of_characters_are_refused() -> None:
    frame = bytearray(b'{"code":11,"extFields":{"topic":"\\ud800"}}')
    frame[:0] = struct.pack(">II", len(frame) + 4, len(frame))
    with pytest.raises(ValueError, match="no JSON"):
        CODEC.decode(frame)
    whole = Command(code=11, fields={"topic": "𝄞"})
    assert CODEC.decode(bytearray(CODEC.encode(whole))) == [replace(whole)]


def test_an_answer_that_makes_no_frame_says_so_and_a_request_that_makes_none_is_a_failure() -> None:
    class Wire:
        def frame(self, to: str, message: Command) -> bytes:
            return CODEC.encode(message)

    shell: Any = object.__new__(Shell)
    shell.connections = Wire()
    large = Command(code=7, opaque=3, body=b"x" * (17 << 20))
    with pytest.raises(ValueError, match="16 MiB"):
        shell._frame("peer", large)
    (told,) = CODEC.decode(bytearray(shell._frame("peer", large.reply(body=large.body))))
    assert (told.code, told.opaque, told.is_response) == (Response.SYSTEM_ERROR, 3, True)
    assert "16 MiB" in told.remark
