"""A run that is read a block at a time gives what it gives as a whole: rows and damage."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from chaos.errors import DamagedHistory
from chaos.history import manifest, stream
from chaos.history.history import History
from chaos.history.manifest import Batch, Sealed
from chaos.history.rare import Rare
from chaos.history.recorder import Recorder
from chaos.history.row_files import RowFiles
from chaos.history.stream import SCHEMA, STREAM, stream_blocks
from tests.chaos.history.runs import plain, record, sends


def whole_stream(directory: Path, sealed: Sealed) -> tuple[pa.Table, list[str]]:
    """The oracle: the stream in one piece, as it was read before it was read in blocks."""
    size = os.stat(directory / STREAM).st_size
    data = (directory / STREAM).read_bytes()[: sealed.stream_bytes]
    damage: list[str] = []
    end = expected = 0
    for number, batch in enumerate(sealed.batches):
        if problem := _problem(data, end, batch):
            damage.append(f"{STREAM}: batch {number} {problem}; it and all later rows are left out")
            break
        end, expected = end + batch.sum.length, expected + batch.rows
    else:
        if size > end:
            damage.append(f"{STREAM}: {size - end} bytes at the end are not vouched for; they are left out")
    if not end:
        raise DamagedHistory("; ".join(damage))
    try:
        table = pa.ipc.open_stream(pa.py_buffer(data[:end])).read_all()
    except pa.ArrowInvalid as error:
        raise DamagedHistory(str(error)) from error
    if table.num_rows != expected:
        damage.append(f"{STREAM}: {table.num_rows} rows where {manifest.FILE} promises {expected}")
    return table.cast(SCHEMA), damage


def _problem(data: bytes, end: int, batch: Batch) -> str:
    offset, (length, crc), _ = batch
    if offset != end or length < 0:
        return f"begins at {offset}, expected {end}"
    if end + length > len(data):
        return f"is cut off ({len(data) - end} of {length} bytes)"
    return "" if zlib.crc32(data[end : end + length]) == crc else "has a wrong checksum"


def harm(directory: Path, sealed: Sealed, rng: Random) -> None:
    """Flip a byte, cut the stream, let it go on, or lie about its batches."""
    path = directory / STREAM
    data = bytearray(path.read_bytes())
    batches, at = sealed.batches, rng.randrange(len(sealed.batches))
    match rng.randrange(7):
        case 0:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 1:
            del data[rng.randrange(len(data)) :]
        case 2:
            data += b"more"
        case 3:
            batches[at] = batches[at]._replace(rows=batches[at].rows + 1)
        case 4:
            del batches[at]
        case 5:
            batches[at] = batches[at]._replace(offset=batches[at].offset + rng.choice((-1, 1)))
        case 6:  # nonsense that somebody has vouched for
            batch = batches[at]
            data[batch.offset : batch.offset + batch.sum.length] = bytes(batch.sum.length)
            zeros = manifest.sum_of(bytes(batch.sum.length))
            batches[at] = batch._replace(sum=zeros)
    path.write_bytes(data)


def check_harmed(directory: Path, seed: int) -> None:
    record(directory, seed)
    sealed = manifest.read(directory)
    sealed.segments.clear()  # of a run that goes on
    if seed % 8:
        harm(directory, sealed, Random(seed))
    damage: list[str] = []
    try:
        wanted, problems = whole_stream(directory, sealed)
    except DamagedHistory:
        with pytest.raises(DamagedHistory):
            list(stream_blocks(directory, sealed, damage))
    else:
        blocks = list(stream_blocks(directory, sealed, damage))
        assert damage == problems
        assert plain(pa.concat_tables(blocks)).equals(plain(wanted))


@pytest.mark.parametrize(
    ("rows", "seeds"),
    [
        (30, range(16)),
        (stream.BLOCK_ROWS, range(16)),
        pytest.param(40, range(16, 350), marks=pytest.mark.full),
    ],
    ids=str,
)
def test_a_harmed_stream_is_read_in_blocks_as_in_one_piece(
    rows: int, seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BLOCK_ROWS", rows)
    for seed in seeds:
        check_harmed(tmp_path / str(seed), seed)


def test_the_rows_that_are_wanted_are_those_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK_ROWS", 40)
    record(tmp_path, 4)
    table, _ = RowFiles(tmp_path).recorded()
    assert plain(RowFiles(tmp_path).recorded(sends)[0]).equals(plain(table.filter(sends(table))))


def test_wanted_rows_of_a_stream_that_repeats_some_come_once(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, lambda: 1, batch_rows=4, batch_ns=None)
    for _ in range(3):
        recorder._next = 0  # as a program of others might number them
        for _ in range(5):
            recorder.record("op", f="send")
    recorder.close()
    whole, damage = History.open(tmp_path).recorded()
    found, problems = RowFiles(tmp_path).recorded(lambda rows: pc.greater(rows["index"], 1))
    assert damage == problems and "more than once" in damage[0]
    assert whole["index"].to_pylist() == [0, 1, 2, 3, 4] and found["index"].to_pylist() == [2, 3, 4]


def test_of_the_rows_that_are_not_rare_the_first_of_each_kind_is_kept(tmp_path: Path) -> None:
    record(tmp_path, 2)
    table, _ = History.open(tmp_path).recorded()
    kept = Rare("probe.")
    for begin in range(0, table.num_rows, 37):
        kept.add(table.slice(begin, 37))
    rows = kept.table()
    index = rows["index"].to_numpy()
    assert np.all(np.diff(index) > 0)
    seen: set[tuple[object, ...]] = set()
    wanted = []
    for row in table.to_pylist():
        name = (row["kind"], row["f"], row["type"], row["node"], row["process"].startswith("probe."))
        if name not in seen or row["kind"] in ("harness", "fault") or row["f"] == "malformed":
            wanted.append(row["index"])
        seen.add(name)
    assert index.tolist() == wanted and len(wanted) < table.num_rows
