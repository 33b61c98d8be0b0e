"""The record layout: round trips, and damage that is noticed wherever it is."""

from __future__ import annotations

from random import Random

import pytest

from chaos import workload
from reference.broker.records import MAGIC, BadRecord, body_hash, decode, decode_all, encode, message_number


def sample(rng: Random) -> bytes:
    return encode(
        topic="storm",
        queue_id=rng.randrange(8),
        offset=rng.getrandbits(53),
        position=rng.getrandbits(53),
        body=rng.randbytes(rng.randrange(1, 300)),
        properties=b"KEYS\x01k\x02UNIQ_KEY\x01" + b"%032X" % rng.getrandbits(63) + b"\x02",
        born_ms=1,
        store_ms=2,
        sys_flag=0b110000,
    )


def test_a_record_comes_back_as_it_was() -> None:
    data = encode(topic="t", queue_id=3, offset=1 << 53, position=1 << 40, body=b"hello", properties=b"A\x01b")
    record = decode(data)
    assert (record.topic, record.queue_id, record.offset, record.position) == ("t", 3, 1 << 53, 1 << 40)
    assert (record.body, record.properties, record.size) == (b"hello", b"A\x01b\x02", len(data))


def test_the_layout_is_rocketmqs() -> None:
    data = encode(topic="topic", queue_id=7, offset=9, position=11, body=b"xyz", store_ms=5)
    assert int.from_bytes(data[:4], "big") == len(data)
    assert int.from_bytes(data[4:8], "big", signed=True) == MAGIC == -626843481
    assert int.from_bytes(data[12:16], "big") == 7
    assert int.from_bytes(data[20:28], "big") == 9
    assert int.from_bytes(data[28:36], "big") == 11
    assert int.from_bytes(data[56:64], "big") == 5
    assert data[84:91] == b"\x00\x00\x00\x03xyz"
    assert data[91:97] == b"\x05topic"
    assert int.from_bytes(data[97:99], "big") == len(data) - 99 == 20


def test_a_flipped_bit_is_noticed_wherever_it_is() -> None:
    data = sample(Random(1))
    for at in range(len(data)):
        for bit in (1, 128):
            damaged = bytearray(data)
            damaged[at] ^= bit
            with pytest.raises(BadRecord):
                decode(bytes(damaged))


def test_a_cut_is_noticed_wherever_it_is() -> None:
    data = sample(Random(2))
    for size in range(len(data)):
        with pytest.raises(BadRecord):
            decode(data[:size])


def test_records_back_to_back_come_back_one_by_one() -> None:
    rng = Random(3)
    parts = [sample(rng) for _ in range(20)]
    assert [record.size for record in decode_all(b"".join(parts))] == [len(part) for part in parts]


def test_too_large_parts_are_refused() -> None:
    for topic, body, properties in (("", b"x", b""), ("t" * 128, b"x", b""), ("t", b"x", b"p" * 32767)):
        with pytest.raises(ValueError, match="too large"):
            encode(topic=topic, queue_id=0, offset=0, position=0, body=body, properties=properties)


def test_a_body_has_the_same_hash_as_in_the_workloads() -> None:
    for body in (b"", b"a", bytes(1000)):
        assert body_hash(body) == workload.body_hash(body)


@pytest.mark.parametrize(
    ("properties", "number"),
    [
        (b"UNIQ_KEY\x01" + b"0" * 30 + b"2A\x02", 42),
        (b"A\x01b\x02UNIQ_KEY\x012A", 42),
        (b"A\x01UNIQ_KEY\x012A\x02", -1),
        (b"MY_UNIQ_KEY\x0101\x02UNIQ_KEY\x0102\x02", 2),
        (b"UNIQ_KEY\x017F000001ABCDABCDABCDABCDABCDABCD\x02", -1),
        (b"UNIQ_KEY\x01nonsense\x02", -1),
        (b"", -1),
    ],
)
def test_a_key_becomes_a_number_when_it_is_one(properties: bytes, number: int) -> None:
    assert message_number(properties) == number
