"""Random runs; few rows that are read as many; and shards, as strangers record them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from chaos.history import directory as store
from chaos.history import manifest, pieces, segments
from chaos.history.columns import COLUMNS, INTEGERS, VALUE, WORDS
from chaos.history.directory import SHARDS
from chaos.history.manifest import Manifest
from chaos.history.recorder import Recorder
from chaos.history.seal_traces import Lines

#: A form of Parquet that takes few bytes, and in which a page that was altered is found.
FORM: Mapping[str, Any] = {
    "compression": "zstd",
    "use_dictionary": [*WORDS, VALUE],
    "column_encoding": dict.fromkeys(INTEGERS, "DELTA_BINARY_PACKED"),
    "write_page_checksum": True,
}
VALUES: Sequence[Any] = ({}, {"group": "g"}, {"group": "ä"}, {"n": 5}, {"maximum": 4}, {"maximum": 1 << 70})


def make_large(monkeypatch: pytest.MonkeyPatch, rows: int = 100, piece: int = 60) -> None:
    """Have a run of so many rows count as large, and cut what is recorded from now on, or made of it, into pieces of
    so many."""
    monkeypatch.setattr(pieces, "LARGE_ROWS", rows)
    monkeypatch.setattr(segments, "SEGMENT_ROWS", piece)


def record(directory: Path, seed: int, rows: int = 200) -> None:
    """Random rows of all kinds, and traces of two nodes, as lines."""
    rng = Random(seed)
    (directory / "traces").mkdir(parents=True)
    recorder = Recorder(directory, lambda: 1, batch_rows=rng.choice((5, 20, 50)), batch_ns=None)
    for number in range(rows):
        recorder.record(
            rng.choice(("op", "op", "op", "final", "fault", "harness", "poll", "trace")),
            op=rng.choice((-1, max(0, number - 3), number + 2, 1 << 40)),
            type=rng.choice(("invoke", "ok", "")),
            f=rng.choice(("send", "commit", "log", "role", "pull", "delivered")),
            process=rng.choice(("probe.1", "producer-0", "")),
            node=rng.choice(("", "broker-0", "broker-ü")),
            queue=rng.randrange(-1, 6),
            offset=rng.randrange(-1, 8),
            hash=rng.randrange(-1, 1 << 62),
            value=rng.choice(VALUES),
        )
    recorder.close()
    for node in ("broker-0", "broker-1"):
        lines = [
            b'{"f":"%s","node":"%s","step":%d,"queue":%d}\n'
            % (rng.choice((b"append", b"role", b"malformed")), node.encode(), step, rng.randrange(6))
            for step in range(rng.randrange(100))
        ]
        (directory / "traces" / f"{node}.jsonl").write_bytes(b"".join(lines))


def sends(rows: pa.Table) -> pa.Array:
    return pc.equal(rows["f"], "send")


def plain(table: pa.Table) -> pa.Table:
    """With the same types, whatever the dictionaries are."""
    columns = {name: table[name].cast(pa.int64() if name in INTEGERS else pa.string()) for name in COLUMNS}
    return pa.table({name: column.combine_chunks() for name, column in columns.items()})


def write_shard(run: Path, name: str, rows: pa.Table, **form: object) -> Path:
    """Write rows into a shard of a run."""
    (run / SHARDS).mkdir(parents=True, exist_ok=True)
    path = run / SHARDS / f"{name}.parquet"
    pq.write_table(rows, path, **{**FORM, **form})
    return path


def turn(run: Path, piece_bytes: int) -> int:
    """Turn pieces of traces into segments, as while nodes go on writing; return how many segments that made."""
    made = 0
    with Manifest(run) as sealing:
        for name in store.line_files(run):
            lines = Lines(run, name, manifest.read(run), piece_bytes)
            while segment := lines.write_segment(ended=False):
                lines.seal(segment, sealing)
                made += 1
    return made
