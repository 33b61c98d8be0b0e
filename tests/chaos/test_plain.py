"""The plain message: what shells need of it, and its frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.node import Malformed
from chaos.plain import MAX_FRAME_BYTES, PlainCodec, PlainMessage

CODEC = PlainCodec()
MESSAGES = st.builds(
    PlainMessage,
    kind=st.integers(0, 1 << 40),
    number=st.integers(0, 1 << 40),
    fields=st.dictionaries(st.text(), st.text(), max_size=3),
    body=st.binary(max_size=50),
    error=st.text(max_size=10),
    is_response=st.booleans(),
    is_oneway=st.booleans(),
)


@given(messages=st.lists(MESSAGES, max_size=4), cut=st.integers(0, 1000))
def test_messages_come_out_as_they_went_in_whatever_the_pieces(messages: list[PlainMessage], cut: int) -> None:
    data = b"".join(map(CODEC.encode, messages))
    buffer = bytearray(data[:cut])
    found = CODEC.decode(buffer)
    buffer += data[cut:]
    assert found + CODEC.decode(buffer) == messages and not buffer


@given(message=MESSAGES, at=st.integers(0), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed_when_the_frame_is_there(message: PlainMessage, at: int, bit: int) -> None:
    frame = bytearray(CODEC.encode(message))
    frame[at % len(frame)] ^= 1 << bit
    with pytest.raises(ValueError, match="frame"):
        CODEC.decode(frame)


def test_no_frame_is_too_large() -> None:
    with pytest.raises(ValueError, match="the limit is"):
        CODEC.encode(PlainMessage(body=bytes(MAX_FRAME_BYTES)))


def test_an_answer_has_its_requests_number_and_says_why_it_refuses() -> None:
    request = PlainMessage(kind=3, fields={"n": "1"}, body=b"abc").numbered(9)
    assert (request.number, request.size, request.is_oneway) == (9, 3, False)
    assert request.numbered(4, oneway=True).is_oneway
    answer = request.reply(b"x", fields={"end": "2"})
    assert (answer.number, answer.is_response, answer.fields["end"], answer.error) == (9, True, "2", "")
    assert request.refused(Malformed("what?")).error == "what?"
