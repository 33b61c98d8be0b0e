"""The program with NATS's own client: how each of its operations ends, against a server that says what a test wants."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nats", reason="nats-py is not installed: pip install 'stormproof[nats]'")

ROOT = Path(__file__).parents[2]
INFO = {"server_id": "N", "version": "2.15.3", "headers": True, "max_payload": 1 << 20, "proto": 1}
ENDS: list[tuple[bytes, str, dict[str, Any]]] = [
    (b'{"stream":"STORM-0","seq":12}', "ok", {"offset": 11}),
    (b'{"stream":"STORM-0","seq":12,"duplicate":true}', "info", {"reason": "stored it as number 12"}),
    (b'{"error":{"code":503,"err_code":10077,"description":"no"}}', "info", {"reason": "err_code=10077"}),
    (b'{"error":{"code":400,"err_code":10054,"description":"no"}}', "fail", {"reason": "err_code=10054"}),
    (b"", "fail", {"reason": "NoStreamResponse"}),
    (b"{", "info", {"reason": "JSON"}),
]


async def serve(replies: Sequence[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one message after another; nothing stands for a message that nobody listens to."""
    left = list(replies)
    writer.write(b"INFO " + json.dumps(INFO).encode() + b"\r\n")
    while line := await reader.readline():
        verb, *rest = line.decode().split()
        if verb == "PING":
            writer.write(b"PONG\r\n")
        elif verb == "HPUB":
            content = await reader.readexactly(int(rest[3]) + 2)
            assert b"Storm-Key: 0A" in content and content.endswith(b"hello\r\n")
            body = left.pop(0)
            if body:
                writer.write(f"MSG {rest[1]} 1 {len(body)}\r\n".encode() + body + b"\r\n")
            else:
                writer.write(f"HMSG {rest[1]} 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n".encode())


async def produce(replies: Sequence[bytes]) -> list[dict[str, Any]]:
    """Have one producer send as many messages, and return what it says of each."""
    server = await asyncio.start_server(lambda *both: serve(replies, *both), "127.0.0.1", 0)
    orders = {
        "servers": [f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"],
        "streams": [["STORM-0", "storm.queue.STORM-0"]],
        "header": "Storm-Key",
        "sync": 1,
        "gap_ns": 1_000_000,
    }
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "drivers.nats.nats_py_program"),
        cwd=ROOT,
        env={**os.environ, "STORMPROOF_ORDERS": json.dumps(orders)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert program.stdin and program.stdout
    said = []
    async with asyncio.timeout(60):
        for _ in replies:
            asked = json.loads(await program.stdout.readline())
            assert (asked["type"], asked["f"], asked["queue"]) == ("invoke", "send", 0)
            program.stdin.write(json.dumps({"id": asked["id"], "key": "0A", "body": "hello"}).encode() + b"\n")
            said.append(json.loads(await program.stdout.readline()))
            assert said[-1]["id"] == asked["id"]
        program.stdin.close()  # the load is over
        assert await program.wait() == 0
    server.close()
    return said


def test_a_message_of_the_official_client_ends_as_one_of_ours_does() -> None:
    said = asyncio.run(produce([reply for reply, _, _ in ENDS]))
    assert [one["type"] for one in said] == [ends for _, ends, _ in ENDS]
    for one, (_, _, more) in zip(said, ENDS, strict=True):
        for name, value in more.items():
            assert one[name] == value if name == "offset" else value in one[name], one
