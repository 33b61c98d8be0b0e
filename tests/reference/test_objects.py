"""Data objects come back exactly as they were written, or not at all."""

from __future__ import annotations

from random import Random

import pytest

from reference.tier.interface import Stored
from reference.tier.objects import DataName, ObjectError, content_hash, decode, encode, parse_key


def records(seed: int) -> list[Stored]:
    rng = Random(seed)
    base = rng.choice([0, 2**31 - 2, 2**53 - 2])
    position = rng.choice([0, 2**53 - 5])
    made = []
    for offset in range(base, base + rng.randint(1, 6)):
        data = rng.randbytes(rng.choice([0, 1, 30, 300]))
        made.append(Stored(queue=3, offset=offset, position=position, epoch=7, hash=content_hash(data), data=data))
        position += len(data) + rng.randrange(50)
    return made


@pytest.mark.parametrize("seed", range(20))
def test_what_was_encoded_is_decoded(seed: int) -> None:
    assert list(decode(encode(3, records(seed)))) == records(seed)


def test_any_flipped_bit_is_refused() -> None:
    data = encode(3, records(1))
    for at in range(len(data)):
        for bit in (0, 7):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            with pytest.raises(ObjectError):
                decode(bytes(damaged))


def test_a_cut_or_longer_object_is_refused() -> None:
    data = encode(3, records(2))
    for size in range(len(data)):
        with pytest.raises(ObjectError):
            decode(data[:size])
    with pytest.raises(ObjectError):
        decode(data + b"\0")


def test_records_with_a_hole_between_them_are_refused() -> None:
    made = records(3)
    jump = Stored(queue=3, offset=made[-1].offset + 2, position=2**60, epoch=7, hash=1, data=b"x")
    with pytest.raises(ObjectError, match="expected record"):
        decode(encode(3, [*made, jump]))


def test_names_sort_by_offset_and_are_read_back() -> None:
    names = [
        DataName(queue=12, base=base, epoch=2**53, generation=1, attempt=base % 7)
        for base in (0, 9, 10, 2**31, 2**53 + 1)
    ]
    assert sorted(name.key for name in names) == [name.key for name in names]
    assert [parse_key(name.key) for name in names] == names
    assert names[1].key == "queues/12/data/00000000000000000009-9007199254740992-1-2"


@pytest.mark.parametrize("key", ["queues/1/manifest", "queues/1/data/", "queues/1/data/9-1-1-1", "queues/x/data/", ""])
def test_other_keys_are_no_data_objects(key: str) -> None:
    assert parse_key(key) is None
