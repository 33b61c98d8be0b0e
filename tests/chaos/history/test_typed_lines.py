"""Typed lines are read together as they are one by one, and say what JSON lines of the same rows say."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from chaos.history import traces
from chaos.history.columns import INTEGERS, VALUE, WORDS, Kind
from chaos.history.manifest import Sealed
from chaos.history.stream import SCHEMA
from chaos.history.trace_lines import COLUMNS, Decoder, Encoder
from chaos.history.values import to_json

FILE = "traces/node-0.jsonl"
VALUES: tuple[dict[str, Any], ...] = (
    {},
    {"size": 3},
    {"size": -1, "confirm": 0},
    {"file": "log/0001", "size": 4006},
    {"group": 'é\t\n"\\%d%s'},
    {"acks": {"broker-0": 17, "broker-1": -4}, "set": ["broker-0"], "set_epoch": 2},
    {"big": 1 << 70, "null": None, "yes": True, "time": 1.5},
    {"no number": float("nan")},
    {'key "quoted" é': 1, "%": 2},
    {"%s": 2},
)
#: Lines that are no row, or odd ones, whatever stands around them.
ODD = (
    *(b"nonsense", b"{}", b"5", b"0", b"", b"=", b"={}", b"00\t1", b"999\t1\t2", b"12345\t1"),
    b"0\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12",
    b'={"form":1000,"row":{},"columns":[],"value":[]}',
    b'={"form":1,"row":{"f":"a"},"columns":["f"],"value":[]}',
    b'={"form":2,"row":{"f":"a","step":"no"},"columns":[],"value":[]}',
    OWN := b'={"form":3,"row":{"f":"odd"},"columns":["step"],"value":["a"]}',
    *(b"3\t7\t{}", b"3\t-0\t1", b"3\t07\t1", b"3\t7\t01", b"3\t\t1", b"3\t1\t", b"3\t0x1\t1", b"3\t1!", b"3\t1\t2!"),
    *(b"3\t9223372036854775808\t1", b"3\t-9223372036854775808\t1", b'3\t1\t"\xc3\xa9"', b'3\t1\t"\xff"', b"3\t1\tNaN"),
    *(b"3\t 1\t1", b"3\t1\t 1", b"3\t1\t1\r", b"3\t+1\t1", b"3\t1\t1e3", b'3\t1\t{"b":[1,2]}', b"3\t1_0\t1"),
    b'3\t1\t"\\u00e9"',
)


def random_row(rng: Random) -> dict[str, Any]:
    row: dict[str, Any] = {name: rng.choice((-1, 0, rng.randrange(10 ** rng.randrange(1, 19)))) for name in COLUMNS}
    row |= {"kind": "trace", "node": "node-0", "incarnation": rng.choice((1, 2)), "f": rng.choice(("append", "é"))}
    return row | {VALUE: rng.choice(VALUES)}


def one_by_one(data: bytes) -> tuple[list[tuple[Any, ...]], list[int]]:
    """The oracle: rows as tuples of their columns, and the lines that are none."""
    rows: list[tuple[Any, ...]] = []
    bad: list[int] = []
    decoder = Decoder()
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        if not line:
            continue
        try:
            row = decoder.decode(line)
            if row is None:
                continue
            numbers = [int(row.get(name, -1)) for name in INTEGERS[1:]]
            if not all(-(2**63) <= one < 2**63 for one in numbers):
                raise ValueError("it doesn't fit")
            words = [str(row.get(name, "")) for name in WORDS[1:]]
            rows.append((len(rows), *numbers, str(Kind.TRACE), *words, to_json(row[VALUE]) if row.get(VALUE) else ""))
        except (ValueError, TypeError, AttributeError):
            bad.append(number)
    return rows, bad


def read(directory: Path, data: bytes) -> tuple[list[tuple[Any, ...]], list[str]]:
    (directory / FILE).parent.mkdir(parents=True, exist_ok=True)
    (directory / FILE).write_bytes(data)
    tables, damage = traces.read_traces(directory, 0, Sealed())
    table = pa.concat_tables([SCHEMA.empty_table(), *tables])
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)), damage


def lines_of(rng: Random, count: int, odd: float) -> bytes:
    encoder, lines = Encoder(), []
    for _ in range(count):
        if rng.random() < 0.02:
            encoder = Encoder()  # another life
        row = random_row(rng)
        as_json = rng.random() < 0.1
        lines.append(json.dumps(row).encode() + b"\n" if as_json else encoder.encode(row).encode())
        if rng.random() < odd:
            lines.append(rng.choice(ODD) + b"\n")
    return b"".join(lines)


@pytest.mark.parametrize("block", [1, 700, traces.BLOCK])
def test_they_are_read_as_if_one_by_one(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "BLOCK", block)
    damaged = 0
    for seed in range(6):
        data = lines_of(Random(seed), 60, (0, 0.02, 0.5)[seed % 3])
        wanted, bad = one_by_one(data)
        rows, damage = read(tmp_path, data)
        assert rows == wanted
        assert damage == [f"{FILE}:{line} is no trace row; it is left out" for line in bad]
        damaged += len(bad)
    assert damaged > 20


@pytest.mark.full
def test_many_are_read_as_if_one_by_one(tmp_path: Path) -> None:
    for seed in range(12, 400):
        data = lines_of(Random(seed), 150, (0, 0.02, 0.5)[seed % 3])
        wanted, bad = one_by_one(data)
        rows, damage = read(tmp_path, data)
        assert rows == wanted and len(damage) == len(bad)


@pytest.mark.parametrize("odd", ODD)
def test_what_is_odd_in_one_way_is_read_as_if_alone(odd: bytes, tmp_path: Path) -> None:
    data = OWN + b"\n" + (odd + b"\n") * 3 + b"3\t1\t1\n"
    wanted, bad = one_by_one(data)
    rows, damage = read(tmp_path, data)
    assert rows == wanted and len(damage) == len(bad)


def test_typed_rows_are_those_of_json_lines(tmp_path: Path) -> None:
    rng = Random(5)
    rows = [random_row(rng) for _ in range(2_000)]
    encoder = Encoder()
    typed = "".join(encoder.encode(row) for row in rows).encode()
    as_json = b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)
    assert typed.count(b"\n{") < len(rows) / 5 and len(typed) < len(as_json) / 2
    assert read(tmp_path / "typed", typed) == read(tmp_path / "json", as_json)


def test_wherever_a_file_is_cut_its_whole_lines_are_left_and_no_other_row(tmp_path: Path) -> None:
    data = lines_of(Random(7), 12, 0)
    for end in Random(1).sample(range(len(data)), 60):
        whole, bad = one_by_one(data[: data.rfind(b"\n", 0, end) + 1])
        rows, damage = read(tmp_path, data[:end])
        assert not bad and not damage
        # A JSON object that lacks but its line's end is a row.
        assert rows == whole or (len(rows) == len(whole) + 1 and rows[:-1] == whole and data[end - 1] == ord("}"))


def test_a_damaged_header_leaves_out_the_lines_of_its_form_alone(tmp_path: Path) -> None:
    encoder = Encoder()
    lines = [encoder.encode({**random_row(Random(1)), "f": f, VALUE: {}, "incarnation": 1}) for f in "abaab"]
    data = "".join(lines).replace('"f":"a"', '"f";"a"').encode()
    rows, damage = read(tmp_path, data)
    assert [row[-4] for row in rows] == ["b", "b"]
    assert [sentence.split(" ")[0] for sentence in damage] == [f"{FILE}:{line}" for line in (1, 2, 5, 6)]
