"""Lines that are read together give the rows and the damage that they give one by one."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from chaos.history import traces
from chaos.history.columns import INTEGERS, VALUE, WORDS, Kind
from chaos.history.manifest import Sealed, Sum
from chaos.history.stream import SCHEMA

COMPACT = (",", ":")
VALUES: tuple[Any, ...] = (
    {},
    {"size": 3},
    {"acks": {"broker-0": 17, "broker-1": -4}, "set": ["broker-0"], "set_epoch": 2},
    {"text": 'é\n\\ "a":5,'},
    {"text": ':5,"a":6}', "n": 7},
    {"time": 1.5, "n": 3},
    {"big": 1 << 70, "n": 1, "null": None, "yes": True},
    {"nested": [{"a": 1}, 2], "value": {"size": 3}},
    {"word": "NaN", "n": 4},
    '{"size": 3}',
    "",
    None,
    [],
    5,
)
ODD = (
    b"",
    b"nonsense",
    b"[1]",
    b'{"f":"role"}',
    b'{"f":5,"node":["a"],"step":"7"}',
    b'{"f":"a","step":1,"step":2,"value":{"a":1,"a":2}}',
    b'{"f":"a","step":-0,"value":{"a":-0}}',
    b'{"f":"a","step":07}',
    b'{"f":"a","step":9999999999999999999}',
    b'{"f":"a","step":8999999999999999999,"value":{"a":8999999999999999999}}',
    b'{"f":"a","step":1e3,"epoch":2.9}',
    b'{"f":"a","step":1e999}',
    b'{"f":"a","step":NaN}',
    b'{"f":"a","value":{"a":NaN,"b":3}}',
    b'{"f":"a","step":null}',
    b'{"f":"a","value":{"a" :5}}',
    b'{"f":"a","value":{"a":5} }',
    b'{"f":"a","value":{"a":5},"step":4}',
    b'{"value":{"a":1},"b":{"value":{"a":2}}}',
    b'{"f":"a","value":{"a":"\\u00e9"},"step":4}\r',
    b'{"f":"\xff","step":1}',
    b'\xef\xbb\xbf{"f":"a","step":1}',
    b'{"f":"\x01","step":\x01}',
    b'{"f":"a","index":77,"kind":"op","extra":5,"type":"t"}',
)


def one_by_one(name: str, data: bytes, first_index: int) -> tuple[list[tuple[Any, ...]], list[str]]:
    """The oracle: rows as tuples of their columns."""
    rows: list[tuple[Any, ...]] = []
    damage: list[str] = []
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            row = json.loads(line)
            row["index"], row["kind"] = first_index + len(rows), str(Kind.TRACE)
            value = row.get(VALUE) or ""
            if not isinstance(value, str):
                value = json.dumps(value, separators=COMPACT, ensure_ascii=False)
            elif value and not isinstance(json.loads(value), dict):
                raise ValueError("it is not an object")
            numbers = [int(row.get(column, -1)) for column in INTEGERS]
            if not all(-(2**63) <= one < 2**63 for one in numbers):
                raise ValueError("a number doesn't fit into 64 bits")
            rows.append((*numbers, *(str(row.get(column, "")) for column in WORDS), value))
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            if number < len(lines):
                damage.append(f"{name}:{number} is no trace row; it is left out")
    return rows, damage


def line(rng: Random) -> bytes:
    if rng.random() < 0.1:
        return rng.choice(ODD)
    row = {"kind": "trace", "time_ns": rng.randrange(10 ** rng.randrange(1, 19)), "node": "broker-1", "f": "append"}
    row |= {"incarnation": rng.choice((1, 12)), "step": rng.randrange(10_000), "position": rng.choice((-1, 0, 512))}
    if rng.random() < 0.9:
        row[VALUE] = rng.choice(VALUES)
    if rng.random() < 0.05:
        row["hash"] = rng.randrange(1 << 64)
    return json.dumps(row, separators=COMPACT if rng.random() < 0.9 else (", ", ": ")).encode()


def check(directory: Path, files: dict[str, bytes]) -> None:
    (directory / "traces").mkdir(parents=True)
    wanted: list[tuple[Any, ...]] = []
    problems: list[str] = []
    for name, data in sorted(files.items()):
        (directory / name).write_bytes(data)
        rows, damage = one_by_one(name, data, 100 + len(wanted))
        wanted, problems = wanted + rows, problems + damage
    tables, damage = traces.read_traces(directory, 100, Sealed())
    table = pa.concat_tables([SCHEMA.empty_table(), *tables])
    assert damage == problems
    assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == wanted


def random_files(seed: int) -> dict[str, bytes]:
    rng = Random(seed)
    lines = {f"traces/node-{number}.jsonl": [line(rng) for _ in range(rng.choice((0, 1, 200)))] for number in range(3)}
    ends = (b"\n", b"", b"\n" + line(rng)[:20])
    return {name: b"\n".join(found) + rng.choice(ends) for name, found in lines.items()}


@pytest.mark.parametrize("block", [1, 500, traces.BLOCK])
def test_random_lines_are_read_as_if_one_by_one(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "BLOCK", block)
    for seed in range(6):
        check(tmp_path / str(seed), random_files(seed))


@pytest.mark.full
def test_many_random_lines_are_read_as_if_one_by_one(tmp_path: Path) -> None:
    for seed in range(6, 500):
        check(tmp_path / str(seed), random_files(seed))


@pytest.mark.parametrize("odd", ODD)
def test_lines_that_are_odd_in_one_way_are_read_as_if_one_by_one(odd: bytes, tmp_path: Path) -> None:
    check(tmp_path, {"traces/a.jsonl": (odd + b"\n") * 5, "traces/b.jsonl": odd})


def test_lines_that_differ_in_numbers_are_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(b'{"f":"append","step":%d,"value":{"size":%d}}\n' % (n, n) for n in range(1000))
    parsed: list[object] = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda text, **how: parsed.append(text) or loads(text, **how))
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "a.jsonl").write_bytes(data)
    ((table,), damage) = traces.read_traces(tmp_path, 0, Sealed())
    assert len(parsed) == 1 and not damage and table.num_rows == 1000
    assert table["value"].to_pylist()[7::500] == ['{"size":7}', '{"size":507}']


def test_of_a_sealed_file_no_more_is_read_than_was_sealed(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "a.jsonl").write_bytes(b'{"f":"a"}\n' * 3)
    sealed = Sealed()
    sealed.files["traces/a.jsonl"] = [Sum(20, 0)]
    ((table,), damage) = traces.read_traces(tmp_path, 0, sealed)
    assert table.num_rows == 2 and not damage
