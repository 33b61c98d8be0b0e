"""Frames that nobody should send: whole, half, damaged, with wrong types or missing fields; drawn by a seed."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from reference.wire.codec import MAX_FRAME_BYTES, RemotingCodec
from reference.wire.codes import FIRST_OF_OUR_OWN, Request
from reference.wire.command import ONEWAY, RESPONSE, Command

NAMES = (
    *("topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag", "suspendTimeoutMillis", "consumerGroup", "timestamp"),
    *("commitOffset", "writeQueueNums", "position", "session", "epoch", "id", "end", "confirm", "recordEpoch", "view"),
    *("brokerName", "brokerId", "brokerAddr", "brokerAddress", "clusterName", "generation", "lives", "life", "clean"),
    *("appliedBrokerId", "registerCheckCode", "masterBrokerId", "masterEpoch", "designateElect", "masterAddress"),
    *("brokerControllerIdsToClean", "key", "prefix", "queue", "expected", "request", "after", "rule", "answer", "term"),
    *("b", "e", "f", "g", "h", "i", "j", "m", "anyReplica", "demandSource", "maxMsgBytes", "maxOffset"),
)
TEXTS = (
    *("", "0", "1", "-1", "true", "x", "1.5", "0x10", "1e9", " 7 ", "７", "9" * 5000, str(1 << 31), str(1 << 63)),
    *(
        str(-(1 << 63)),
        "storm",
        "strange/key",
        "a/../b",
        "q" * 300,
        "q" * 70_000,
        "\x00\x01\x02",
        "ü€𝄞",
        ";;;",
        ",",
        "[]",
    ),
    "TRAN_MSG\x01true\x02DELAY\x013\x02",
)
VALUES = (None, True, 0, -1, 1.5, "", "x", [], {}, [[]], [1], [[1, 2]], [[1, "x"]], [None], {"a": None}, 1 << 62)
MEMBERS = (
    *(
        "consumerDataSet",
        "clientID",
        "groupName",
        "epochs",
        "first",
        "end",
        "bootstrapping",
        "views",
        "base",
        "content",
    ),
    *("topicConfigSerializeWrapper", "dataVersion", "stateVersion", "topicConfigTable", "syncStateSet", "version"),
    *("syncStateSetEpoch", "effect", "verbs", "per_mille", "delay_ms", "queues", "topics", "offsets", "position"),
)
BODIES = (
    *(
        b"",
        b"{",
        b"[]",
        b"{}",
        b"null",
        b"\xff\xfe",
        b"\x00" * 100,
        b"[" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
    ),
    *(b"[" * 900 + b"]" * 900, b'{"version":' + b"9" * 4000 + b"}", b'{"version":1e999}', b'{"version":NaN}'),
    *(b'{"clientID":"\\ud800"}', b'"\\udfff"', b"x" * 100_000),
)
#: What a stranger's frame must not name, or it would be a lawful order to the cluster: instead, something of its own.
_OWN = {"brokerName": "strange", "brokerAddr": "stranger", "brokerAddress": "stranger", "session": "strange"}


class Fuzzer:
    """``corpus``: messages that the nodes of a cluster exchange, to be damaged."""

    def __init__(self, seed: int, corpus: Sequence[Command]) -> None:
        self._rng = Random(f"{seed}/frames")
        self._corpus = list(corpus)
        self._codec = RemotingCodec()

    def frame(self) -> bytes:
        """Anything at all; no whole message of it is a lawful order."""
        rng = self._rng
        kind = rng.random()
        if kind < 0.45:
            return self._written(self._harmless(self._drawn()))
        if kind < 0.85:
            return self._written(self._harmless(self.damaged(rng.choice(self._corpus))))
        if kind < 0.9:
            return rng.randbytes(rng.choice((1, 7, 8, 50, 3000)))
        if kind < 0.94:
            whole = self._written(self._harmless(self._drawn()))
            return whole[: rng.randrange(len(whole))]
        return self._odd()

    def damaged(self, message: Command) -> Command:
        """The same, but that it can't be understood, or not as it was meant."""
        rng = self._rng
        fields, body = dict(message.fields), message.body
        for _ in range(rng.randint(1, 2)):
            name = rng.choice(list(fields) or ["topic"])
            if rng.random() < 0.3:
                fields.pop(name, None)
            elif rng.random() < 0.6:
                fields[name] = rng.choice(TEXTS)
            elif body[:1] in (b"{", b"["):
                body = self._damaged_json(body)
            else:
                body = rng.choice((b"", body[: len(body) // 2], body + b"\x00", rng.choice(BODIES)))
        return replace(message, fields=fields, body=body)

    def broken(self, message: Command) -> Command:
        """The same, but that a number in it is none, or its body is cut off."""
        rng = self._rng
        numbers = [name for name, value in message.fields.items() if value.lstrip("-").isdecimal()]
        if numbers and (not message.body or rng.random() < 0.6):
            return replace(message, fields={**message.fields, rng.choice(numbers): rng.choice(("x", "1.5", "9" * 30))})
        return replace(message, body=message.body[: len(message.body) // 2] + b"\xff")

    def _drawn(self) -> Command:
        rng = self._rng
        fields = {rng.choice(NAMES): rng.choice(TEXTS) for _ in range(rng.randrange(8))}
        code = rng.choice((*Request, 0, -1, 320, 33, 12345, 1 << 30))
        flags = rng.choice((0, 0, 0, ONEWAY, RESPONSE))
        body = rng.choice(BODIES) if rng.random() < 0.5 else json.dumps(self._value(3)).encode()
        return Command(code=code, flags=flags, opaque=rng.randrange(1 << 31), fields=fields, body=body)

    def _value(self, depth: int) -> object:
        rng = self._rng
        if not depth or rng.random() < 0.3:
            return rng.choice(VALUES)
        if rng.random() < 0.3:
            return [self._value(depth - 1) for _ in range(rng.randrange(4))]
        return {rng.choice(MEMBERS): self._value(depth - 1) for _ in range(rng.randrange(6))}

    def _damaged_json(self, body: bytes) -> bytes:
        rng = self._rng
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return b""
        if isinstance(value, dict) and value:
            value[rng.choice(list(value))] = rng.choice(VALUES)
        elif isinstance(value, list):
            value.append(rng.choice(VALUES))
        return json.dumps(value).encode()

    def _harmless(self, message: Command) -> Command:
        """Without what would be a lawful order to this cluster."""
        fields = {name: _OWN.get(name, value) for name, value in message.fields.items()}
        if message.code == Request.REPLICA_HELLO and "id" in fields:
            fields["id"] = "1000000"
        for name in ("key", "prefix"):
            if fields.get(name, "").startswith("queues/"):
                fields[name] = f"strange/{fields[name]}"
        body = message.body.replace(b'"storm"', b'"other"') if message.code == Request.REGISTER_BROKER else message.body
        return replace(message, fields=fields, body=body)

    def _written(self, message: Command) -> bytes:
        try:
            frame = self._codec.encode(message)
        except ValueError:
            return b"\x00\x00\x00\x05"
        if self._rng.random() < 0.2:
            frame = _binary(message)
        if self._rng.random() < 0.1:
            at = self._rng.randrange(len(frame))
            frame = frame[:at] + bytes((frame[at] ^ 1 << self._rng.randrange(8),)) + frame[at + 1 :]
        return frame

    def _odd(self) -> bytes:
        """Frames whose form itself is wrong, or just not."""
        rng = self._rng
        deep = b"[" * 50_000
        lone = b'{"code":11,"extFields":{"topic":"\\ud800"}}'
        half = b'{"code":11,"extFields":{"topic":"\xed\xa0\x80"}}'
        typed = b'{"code":"11","opaque":[],"flag":null}'
        big = b'{"code":%b}' % (b"9" * 5000)
        headers = (deep, lone, half, typed, big)
        return rng.choice(
            (
                struct.pack(">II", MAX_FRAME_BYTES, 10),
                struct.pack(">II", 0x7FFFFFFF, 0),
                struct.pack(">II", 3, 0),
                struct.pack(">II", 100, 0x02000000 | 10) + b"x" * 100,
                struct.pack(">II", (2 << 20) + 4, 2 << 20),
                *(struct.pack(">II", len(header) + 4, len(header)) + header for header in headers),
                b'{"from":"stranger","to":',
                b"\x16\x03\x01\x02\x00\x01\x00",
                b"GET / HTTP/1.1\r\n\r\n",
            )
        )


def _binary(message: Command) -> bytes:
    """The same in RocketMQ's binary form, as far as that can say it."""
    parts = []
    for name, value in message.fields.items():
        parts.append(struct.pack(">H", len(name.encode())) + name.encode())
        parts.append(struct.pack(">I", len(value.encode())) + value.encode())
    fields = b"".join(parts)
    code = (message.code + (1 << 15)) % (1 << 16) - (1 << 15)
    head = struct.pack(">hBhiii", code, 12, 513, message.opaque, message.flags, 0)
    header = head + struct.pack(">I", len(fields)) + fields
    return struct.pack(">II", 4 + len(header) + len(message.body), 1 << 24 | len(header)) + header + message.body


def is_own(message: Command) -> bool:
    """Whether nodes of the cluster say this to one another."""
    return message.code >= FIRST_OF_OUR_OWN or message.code in (Request.BROKER_HEARTBEAT, Request.REGISTER_BROKER)
