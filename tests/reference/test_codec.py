"""Frames: what is written is read back, however it is cut; garbage is an error, never a hang or another exception."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.wire.codec import MAX_FRAME_BYTES, RemotingCodec
from reference.wire.command import ONEWAY, RESPONSE, Command
from reference.wire.fields import request_number
from tests.damage import altered, flipped

CODEC = RemotingCodec()


TEXTS = st.text(max_size=12)
MESSAGES = st.builds(
    Command,
    code=st.integers(-(2**31), 2**31 - 1),
    flags=st.sampled_from((0, RESPONSE, ONEWAY)),
    opaque=st.integers(-(2**31), 2**31 - 1),
    fields=st.dictionaries(TEXTS, TEXTS, max_size=4),
    body=st.binary(max_size=300),
    remark=TEXTS,
)
#: What RocketMQ's binary form can say: it has 16 bits for the code.
SHORT = MESSAGES.filter(lambda message: -(2**15) <= message.code < 2**15)


def binary(message: Command) -> bytes:
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


@given(
    st.lists(st.one_of(MESSAGES.map(lambda it: (it, CODEC.encode(it))), SHORT.map(lambda it: (it, binary(it))))),
    st.data(),
)
def test_messages_in_either_form_survive_any_cut(sent: list[tuple[Command, bytes]], data: st.DataObject) -> None:
    """Each comes out with its last byte and not before."""
    whole = b"".join(frame for _, frame in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    buffer, read, came = bytearray(), [], 0
    for begin, end in pairwise((0, *cuts, len(whole))):
        buffer += whole[begin:end]
        read += CODEC.decode(buffer)
        ends = accumulate(len(frame) for _, frame in sent)
        came = sum(at <= end for at in ends)
        assert read == [message for message, _ in sent[:came]]
    assert not buffer


def test_a_frame_of_rocketmq_is_read() -> None:
    header = (
        b'{"code":0,"extFields":{"msgId":"0A"},"flag":1,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":513}'
    )
    assert CODEC.decode(framed(header)) == [Command(code=0, flags=1, opaque=7, fields={"msgId": "0A"})]
    assert CODEC.decode(framed(b'{"code":3,"remark":null,"extFields":null}')) == [Command(code=3)]


def test_what_we_write_is_what_rocketmq_reads() -> None:
    frame = CODEC.encode(Command(code=310, opaque=9, fields={"a": "ü"}, body=b"xyz"))
    length, word = struct.unpack_from(">II", frame)
    assert length == len(frame) - 4 and word >> 24 == 0
    header = json.loads(frame[8 : 8 + word])
    assert (header["code"], header["opaque"], header["flag"], header["extFields"]) == (310, 9, 0, {"a": "ü"})
    assert header["language"] == "PYTHON" and header["version"] >= 402
    assert frame[8 + word :] == b"xyz"


@given(st.one_of(MESSAGES.map(CODEC.encode), SHORT.map(binary), st.binary(max_size=200)), st.data())
def test_hostile_bytes_are_an_error_or_messages_that_can_be_written_again(frame: bytes, data: st.DataObject) -> None:
    buffer = bytearray(data.draw(altered(frame)))
    try:
        read = CODEC.decode(buffer)
    except ValueError:
        return
    assert [CODEC.decode(bytearray(CODEC.encode(message))) for message in read] == [[message] for message in read]


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
        CODEC.encode(Command(code=1, body=bytes(MAX_FRAME_BYTES)))
    frame = CODEC.encode(Command(code=1, body=bytes(MAX_FRAME_BYTES - 200)))
    assert len(CODEC.decode(bytearray(frame))[0].body) == MAX_FRAME_BYTES - 200


@given(MESSAGES, st.data())
def test_no_damaged_frame_is_another_message(message: Command, data: st.DataObject) -> None:
    """The receiver notices at once, or the message is the same; it never waits for bytes that won't come, and never
    takes another message for the one that was sent."""
    frame = CODEC.encode(message)
    with suppress(ValueError):
        assert CODEC.decode(bytearray(data.draw(flipped(frame)))) == [message]


def test_a_wrong_length_is_noticed_before_the_bytes_that_it_announces_have_come() -> None:
    frame = bytearray(CODEC.encode(Command(code=10, body=b"x" * 1000)))
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
