"""Run directories that were damaged, or forged by somebody who knows the format, each drawn by a number.

What is damaged is no longer what its manifest says; what is forged is sealed anew, so that nothing but its content can
give it away.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.history import directory, manifest
from chaos.history.columns import COLUMNS, INTEGERS, VALUE, WORDS
from chaos.history.manifest import Batch, Manifest, sum_of, sum_of_file
from chaos.history.stream import SCHEMA, STREAM

#: What nobody expects in the place of a value.
ODD: Sequence[Any] = (
    *(None, True, -1, 0, 2**31, 2**63 - 1, -(2**63), 2**70, 1e308, -0.5, "", "..", "../../../outside", "/etc/passwd"),
    *(
        "-rf",
        "\x1b[2J",
        "a\nb",
        "<script>",
        "é" * 50,
        "0" * 5_000,
        [],
        [[]],
        {},
        {"": None},
        [1, "2", None],
        {"a": {"b": []}},
    ),
)
NUMBERS = (-1, 0, 1, 2**31, 2**62, 2**63 - 1, -(2**63), -2)
WORDS_ODD = (
    "",
    "op",
    "send",
    "pull",
    "final",
    "phase",
    "harness",
    "fault",
    "trace",
    "ok",
    "info",
    "\x1b[31m",
    "no such",
    "a" * 3_000,
)
VALUES = (
    *("", "{}", "{", "[]", "1", "null", '"text"', '{"phase": 5}', '{"phase": "load"}', '{"from": []}', '{"detail": 7}'),
    *(
        '{"a": 1e999}',
        "[" * 2_000,
        '{"interrupted": "no"}',
        '{"following": -9223372036854775808}',
        '{"targets": {"x": 1}}',
    ),
)


def bytes_of(rng: Random, data: bytes) -> bytes:
    """With some bits turned, some bytes more or fewer, an end cut off, or a part twice."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(found))
        match rng.randrange(5):
            case 0 if at < len(found):
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                found[at : at + rng.randint(0, 8)] = rng.randbytes(rng.randint(0, 8))
            case 2:
                del found[at:]
            case 3:
                other = rng.randint(0, len(found))
                found[at:at] = found[other : other + rng.randint(1, 200)]
            case _:
                found[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f"))
    return bytes(found)


def json_of(rng: Random, data: bytes) -> bytes:
    """With one value, or one key, in whose place an odd one stands."""
    try:
        root = json.loads(data)
    except ValueError:
        return bytes_of(rng, data)
    here, steps = root, rng.randint(0, 4)
    for _ in range(steps):
        inner = [
            one for one in (here.values() if isinstance(here, dict) else here) if one and isinstance(one, dict | list)
        ]
        if not inner:
            break
        here = rng.choice(inner)
    if not here or not isinstance(here, dict | list):
        return json.dumps(rng.choice(ODD)).encode()
    key = rng.choice(sorted(here)) if isinstance(here, dict) else rng.randrange(len(here))
    match rng.randrange(4):
        case 0:
            del here[key]
        case 1 if isinstance(here, dict):
            here[str(rng.choice(ODD))] = here.pop(key)
        case _:
            here[key] = rng.choice(ODD)
    return json.dumps(root).encode()


def lines_of(rng: Random, data: bytes) -> bytes:
    """With lines in another order, twice, missing, or odd."""
    lines = data.splitlines(keepends=True) or [b"\n"]
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            lines[at], lines[other] = lines[other], lines[at]
        case 1:
            lines.insert(at, lines[other])
        case 2:
            del lines[at]
        case 3:
            lines[at] = json.dumps(rng.choice(ODD)).encode() + b"\n"
        case 4:
            words = lines[at].rstrip(b"\n").split(b" ")
            words[rng.randrange(len(words))] = str(rng.choice(ODD)).encode()
            lines[at] = b" ".join(words) + b"\n"
        case _:
            lines[at] = json_of(rng, lines[at]) + b"\n"
    return b"".join(lines)


def rows_of(rng: Random, table: pa.Table) -> pa.Table:
    """With odd cells, or with rows in another order, twice, or missing."""
    rows = table.to_pylist()
    match rng.randrange(6):
        case 0:
            rows = rows[: rng.choice((0, 1, len(rows) // 2))]
        case 1:
            rng.shuffle(rows)
        case 2:
            rows += rng.sample(rows, min(len(rows), 5))
        case 3:
            kinds = {row["kind"] for row in rows} - {rng.choice(["op", "trace", "harness", "fault", "poll", "final"])}
            rows = [row for row in rows if row["kind"] in kinds]
    for row in rng.sample(rows, min(len(rows), rng.randint(0, 4))):
        name = rng.choice([*COLUMNS, VALUE, VALUE])
        row[name] = rng.choice(NUMBERS if name in INTEGERS else WORDS_ODD if name in WORDS else VALUES)
    if rng.random() < 0.5:
        rows = [{**row, "index": number} for number, row in enumerate(rows)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def write_stream(run: Path, table: pa.Table) -> list[Batch]:
    """Put these rows in the place of a run's history; returns its batches."""
    sink, batches, begin = pa.BufferOutputStream(), [], 0
    writer = pa.ipc.new_stream(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="lz4"))
    ends = []
    for batch in [pa.RecordBatch.from_pylist([], schema=SCHEMA), *table.combine_chunks().to_batches(500)]:
        writer.write_batch(batch)
        ends.append((sink.tell(), batch.num_rows))
    data = sink.getvalue().to_pybytes()
    for end, rows in ends:
        batches.append(Batch(begin, sum_of(data[begin:end]), rows))
        begin = end
    (run / STREAM).write_bytes(data[:begin])
    return batches


def seal(run: Path, batches: Sequence[Batch] | None = None) -> None:
    """Have a new manifest say that a run is what it is now. ``batches``: those of its history, if they are others."""
    sealed = manifest.read(run)
    data = (run / STREAM).read_bytes() if (run / STREAM).exists() else b""
    if batches is None:
        batches = [one._replace(sum=sum_of(data[one.offset : one.offset + one.sum.length])) for one in sealed.batches]
    (run / manifest.FILE).unlink(missing_ok=True)
    with Manifest(run) as sealing:
        for batch in batches:
            sealing.batch(batch)
        for name in sealed.files:
            if (run / name).is_file():
                sealing.seal(name, sum_of_file(run / name))


def damage(rng: Random, run: Path, names: Sequence[str]) -> None:
    """Alter something that is not sealed anew."""
    name = rng.choice(names)
    match rng.randrange(8):
        case 0:
            (run / name).unlink()
        case 1:
            (run / name).write_bytes((run / rng.choice(names)).read_bytes())
        case 2 if name.endswith(".json"):
            (run / name).write_bytes(json_of(rng, (run / name).read_bytes()))
        case 3 if name.endswith(("l", "t")):
            (run / name).write_bytes(lines_of(rng, (run / name).read_bytes()))
        case _:
            (run / name).write_bytes(bytes_of(rng, (run / name).read_bytes()))


def forge(rng: Random, run: Path, names: Sequence[str], table: pa.Table) -> None:
    """Alter something, and seal it. ``table``: the rows of the run."""
    name, batches = rng.choice([*names, *[one for one in names if one == STREAM] * 2]), None
    place = run / name
    how: Callable[[Random, bytes], bytes] = bytes_of
    if name.endswith(".json"):
        how = json_of
    elif name.endswith(("jsonl", "yaml")):
        how = rng.choice((bytes_of, lines_of))
    if name == manifest.FILE:
        lines = [line.split(b" ", 2)[2] for line in place.read_bytes().splitlines()]
        lines = [line for line in lines_of(rng, b"\n".join(lines)).split(b"\n") if line]
        place.write_bytes(
            b"".join(manifest._line(at, line.decode("utf-8", "replace")) for at, line in enumerate(lines))
        )
        return
    if name == STREAM and rng.random() < 0.7:
        batches = write_stream(run, rows_of(rng, table))
        told = directory.read_meta(run).json
        if rng.random() < 0.7:
            directory.write_meta(run, {**told, "rows": sum(batch.rows for batch in batches)})
    elif name.endswith(".parquet") and rng.random() < 0.5:
        pq.write_table(rows_of(rng, table), place)
    else:
        place.write_bytes(how(rng, place.read_bytes()))
    seal(run, batches)
