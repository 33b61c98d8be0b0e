"""Frames: what is written is read back, however it is cut; garbage is an error, never a hang or another exception."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from random import Random

import pytest

from chaos.node import ONEWAY, RESPONSE, Message
from reference.wire.codec import MAX_FRAME_BYTES, RemotingCodec
from reference.wire.fields import request_number

CODEC = RemotingCodec()


def a_message(rng: Random) -> Message:
    word = "".join(rng.choice('aß☃\x01\x02"\\ {}0') for _ in range(rng.randint(0, 12)))
    return Message(
        code=rng.choice((0, 10, 310, 9301, 200_050)),
        flags=rng.choice((0, RESPONSE, ONEWAY)),
        opaque=rng.randint(-(2**31), 2**31 - 1),
        fields={f"k{i}{word}": word * i for i in range(rng.randint(0, 4))},
        body=rng.randbytes(rng.choice((0, 1, 100, 5000))),
        remark=word,
    )


def binary(message: Message) -> bytes:
    """A frame as RocketMQ's binary form has it."""
    remark = message.remark.encode()
    fields = b"".join(
        struct.pack(">H", len(k.encode())) + k.encode() + struct.pack(">i", len(v.encode())) + v.encode()
        for k, v in message.fields.items()
    )
    header = struct.pack(">hBhii", message.code, 0, 513, message.opaque, message.flags)
    header += struct.pack(">i", len(remark)) + remark + struct.pack(">i", len(fields)) + fields
    return struct.pack(">II", 4 + len(header) + len(message.body), 1 << 24 | len(header)) + header + message.body


def framed(header: bytes, kind: int = 0) -> bytearray:
    return bytearray(struct.pack(">II", 4 + len(header), kind << 24 | len(header)) + header)


@pytest.mark.parametrize("seed", range(20))
def test_messages_survive_any_cut(seed: int) -> None:
    rng = Random(seed)
    messages = [a_message(rng) for _ in range(20)]
    data = b"".join(CODEC.encode(message) for message in messages)
    buffer, read = bytearray(), []
    while data:
        size = rng.choice((1, 7, 100, 20_000))
        buffer += data[:size]
        data = data[size:]
        read += CODEC.decode(buffer)
    assert read == messages and not buffer


def test_a_frame_comes_out_with_its_last_byte_and_not_before() -> None:
    message = a_message(Random(1))
    buffer = bytearray()
    *most, last = CODEC.encode(message)
    for byte in most:
        buffer.append(byte)
        assert CODEC.decode(buffer) == []
    buffer.append(last)
    assert CODEC.decode(buffer) == [message]


def test_binary_headers_are_understood() -> None:
    rng = Random(2)
    for _ in range(50):
        message = a_message(rng)
        if message.code < 2**15:
            assert CODEC.decode(bytearray(binary(message))) == [message]


def test_a_frame_of_rocketmq_is_read() -> None:
    header = (
        b'{"code":0,"extFields":{"msgId":"0A"},"flag":1,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":513}'
    )
    assert CODEC.decode(framed(header)) == [Message(code=0, flags=1, opaque=7, fields={"msgId": "0A"})]
    assert CODEC.decode(framed(b'{"code":3,"remark":null,"extFields":null}')) == [Message(code=3)]


def test_what_we_write_is_what_rocketmq_reads() -> None:
    frame = CODEC.encode(Message(code=310, opaque=9, fields={"a": "ü"}, body=b"xyz"))
    length, word = struct.unpack_from(">II", frame)
    assert length == len(frame) - 4 and word >> 24 == 0
    header = json.loads(frame[8 : 8 + word])
    assert (header["code"], header["opaque"], header["flag"], header["extFields"]) == (310, 9, 0, {"a": "ü"})
    assert header["language"] == "PYTHON" and header["version"] >= 402
    assert frame[8 + word :] == b"xyz"


@pytest.mark.parametrize("seed", range(10))
def test_flipped_bytes_are_an_error_or_another_message(seed: int) -> None:
    rng = Random(seed)
    errors = 0
    for _ in range(300):
        message = a_message(rng)
        data = bytearray(rng.choice((CODEC.encode, binary))(message) if message.code < 2**15 else CODEC.encode(message))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(min(len(data), 150))] ^= 1 << rng.randrange(8)
        try:
            CODEC.decode(data)
        except ValueError:
            errors += 1
    assert errors > 100


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", 3),
        struct.pack(">I", MAX_FRAME_BYTES),
        struct.pack(">II", 10, 7),
        struct.pack(">II", 10, 2 << 24),
        b"GET / HTTP/1.1\r\n",
        framed(b"no json"),
        framed(b"[1]"),
        framed(b"\xff\xfe"),
        framed(b"[" * 100_000),
        framed(b'{"code":"1"}'),
        framed(b'{"code":true}'),
        framed(b'{"code":99999999999}'),
        framed(b'{"remark":5}'),
        framed(b'{"extFields":{"a":1}}'),
        framed(b'{"extFields":["a"]}'),
        framed(b"short", 1),
        framed(struct.pack(">hBhiii", 1, 0, 0, 0, 0, -1) + bytes(4), 1),
        framed(struct.pack(">hBhiii", 1, 0, 0, 0, 0, 0) + struct.pack(">i", 5), 1),
    ],
)
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        CODEC.decode(bytearray(data))


def test_a_frame_above_16_mib_is_not_made_and_one_just_below_is() -> None:
    with pytest.raises(ValueError, match="16 MiB"):
        CODEC.encode(Message(code=1, body=bytes(MAX_FRAME_BYTES)))
    frame = CODEC.encode(Message(code=1, body=bytes(MAX_FRAME_BYTES - 200)))
    assert len(CODEC.decode(bytearray(frame))[0].body) == MAX_FRAME_BYTES - 200


@pytest.mark.parametrize("seed", range(5))
def test_no_flipped_bit_makes_another_message_of_a_frame(seed: int) -> None:
    """Each single bit: the receiver notices at once, or the message is the same; it never waits for bytes that won't
    come, and never takes another message for the one that was sent."""
    rng = Random(seed)
    message = replace(a_message(rng), body=rng.randbytes(50))
    frame = CODEC.encode(message)
    noticed = 0
    for bit in range(8 * len(frame)):
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert CODEC.decode(damaged) == [message], f"bit {bit}"
        except ValueError:
            noticed += 1
    assert noticed > 8 * len(frame) - 300


def test_a_wrong_length_is_noticed_before_the_bytes_that_it_announces_have_come() -> None:
    frame = bytearray(CODEC.encode(Message(code=10, body=b"x" * 1000)))
    frame[1] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        CODEC.decode(frame[:60])


def test_requests_of_lives_and_of_parts_of_a_node_have_numbers_of_their_own() -> None:
    most = 1 << 19
    lives, counts = (0, 1, 2047), (0, 1, most - 1)
    numbers = [request_number(life, count, part) for life in lives for part in (0, 1) for count in counts]
    assert len({*numbers}) == len(numbers) and all(0 <= number < 1 << 31 for number in numbers)
    assert request_number(1, most) == request_number(1, 0), "after so many they begin anew, among their own"
    assert request_number(1, 2 * most - 1, 1) == request_number(1, most - 1, 1)


@pytest.mark.parametrize("half", [b"\\ud800", b"\xed\xa0\x80"], ids=["escaped", "as bytes"])
@pytest.mark.parametrize("blank", [b"", b" "])
def test_half_a_character_which_no_node_could_write_again_is_refused(half: bytes, blank: bytes) -> None:
    header = blank + b'{"code":11,"extFields":{"topic":"' + half + b'"}}'
    frame = struct.pack(">II", 4 + len(header), len(header)) + header
    with pytest.raises(ValueError, match="no JSON"):
        RemotingCodec().decode(bytearray(frame))
