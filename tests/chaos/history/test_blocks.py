"""A run that is read a block at a time gives what it gives as a whole: rows, damage, digest and shards."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from errno import ENOSPC
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from chaos.errors import DamagedHistory, MachineError
from chaos.history import manifest, sharding, shards, spool, stream
from chaos.history.columns import BESIDE, COLUMNS, INTEGERS
from chaos.history.digests import Digest, digest
from chaos.history.history import History
from chaos.history.manifest import Batch, Sealed
from chaos.history.parted import beside
from chaos.history.parted.choosing import Chosen, Part, Sieve
from chaos.history.rare import Rare
from chaos.history.recorder import Recorder
from chaos.history.row_files import RowFiles
from chaos.history.spool import Spool
from chaos.history.stream import SCHEMA, STREAM, stream_blocks


def highest(rows: pa.Table) -> np.ndarray:
    """The rows with the highest offset."""
    offset = rows["offset"].to_numpy()
    return rows["index"].to_numpy()[offset == offset.max(initial=-1)]


def unlike_last(rows: pa.Table) -> np.ndarray:
    """The rows that follow no row of the same name, of their node; not those that stand beside."""
    node, f, index = rows["node"].to_pylist(), rows["f"].to_pylist(), rows["index"].to_pylist()
    known = rows[BESIDE].to_pylist() if BESIDE in rows.column_names else [False] * rows.num_rows
    before: dict[str, str] = {}
    found = []
    for at in range(rows.num_rows):
        found += [index[at]] if before.get(node[at]) != f[at] and not known[at] else []
        before[node[at]] = f[at]
    return np.array(found, np.int64)


def last_of_nodes(rows: pa.Table) -> np.ndarray:
    last = dict(zip(rows["node"].to_pylist(), rows["index"].to_pylist(), strict=True))
    return np.array([*last.values()], np.int64)


def rising(table: pa.Table) -> np.ndarray:
    """A sieve that is given the first rows first: those whose message is above all that came before."""
    message = table["message"].to_numpy()
    before = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(message)[:-1])[: len(message)]
    return table["index"].to_numpy()[message > before]


PLAN = (
    Part("queue", "queue", own=(Chosen("op"), Chosen("final", ("log",))), everywhere=(Chosen("harness"),)),
    Part(
        "other",
        "queue",
        own=(Chosen("op"), Chosen("final", ("log",))),
        split=(
            Part(
                "other.whole",
                "queue",
                own=(Chosen("final", ("log",)),),
                sifted=(
                    Sieve((Chosen("op", ("send",)),), ("offset",), highest),
                    Sieve((Chosen("op", ("delivered",)),), ("message",), rising, forward=True),
                ),
            ),
            Part("other.range", "offset", own=(Chosen("op"),), everywhere=(Chosen("harness"),)),
            Part(
                "other.beside",
                "offset",
                own=(Chosen("op", ("send", "delivered")),),
                everywhere=(Chosen("harness"),),
                beside=(Chosen("op", ("commit",)),),
                callers=(Chosen("op", ("pull",)),),
                of_queues=(Chosen("trace", ("role", "append")), Chosen("final")),
                summaries=(Sieve((Chosen("op", ("send",)),), ("offset",), highest),),
            ),
            Part("other.message", "message", own=(Chosen("op"),), callers=(Chosen("op", ("pull",)),)),
            Part("other.call", "call", own=(Chosen("op"),)),
        ),
    ),
    Part("group", "group", own=(Chosen("op", ("commit",)),), everywhere=(Chosen("trace", ("role",)),)),
    Part("node", "node", own=(Chosen("trace"),), everywhere=(Chosen("harness"), Chosen("fault"))),
    Part("run", "run", own=(Chosen("op", queueless=True),)),
    Part(
        "sifted",
        "run",
        own=(Chosen("op", ("commit",)),),
        sifted=(Sieve((Chosen("op", ("send",)),), ("offset",), highest),),
    ),
    Part("lived", "node", sifted=(Sieve((Chosen("trace"),), (), unlike_last, last_of_nodes, unlike_last),)),
)


def record(directory: Path, seed: int, rows: int = 200) -> None:
    """Random rows of all kinds, and traces of two nodes."""
    rng = Random(seed)
    (directory / "traces").mkdir(parents=True)
    with_values = ({}, {"group": "g"}, {"group": "ä"}, {"n": 5}, {"maximum": 4}, {"maximum": 1 << 70})
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
            value=rng.choice(with_values),
        )
    recorder.close()
    for node in ("broker-0", "broker-1"):
        lines = [
            b'{"f":"%s","node":"%s","step":%d,"queue":%d}\n'
            % (rng.choice((b"append", b"role", b"malformed")), node.encode(), step, rng.randrange(6))
            for step in range(rng.randrange(100))
        ]
        (directory / "traces" / f"{node}.jsonl").write_bytes(b"".join(lines))


def plain(table: pa.Table) -> pa.Table:
    """With the same types, whatever the dictionaries are."""
    columns = {name: table[name].cast(pa.int64() if name in INTEGERS else pa.string()) for name in COLUMNS}
    return pa.table({name: column.combine_chunks() for name, column in columns.items()})


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


@pytest.mark.parametrize("rows", [30, stream.BLOCK_ROWS])
def test_a_harmed_stream_is_read_in_blocks_as_in_one_piece(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BLOCK_ROWS", rows)
    for seed in range(16):
        check_harmed(tmp_path / str(seed), seed)


@pytest.mark.full
def test_many_harmed_streams_are_read_in_blocks_as_in_one_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BLOCK_ROWS", 40)
    for seed in range(16, 350):
        check_harmed(tmp_path / str(seed), seed)


@pytest.mark.parametrize(("most_open", "most"), [(2, 60), (sharding.MOST_OPEN, 60), (sharding.MOST_OPEN, 5)])
def test_many_rows_give_the_digest_and_the_shards_of_few(
    most_open: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "MOST_ROWS", 100)
    monkeypatch.setattr(stream, "BLOCK_ROWS", 40)
    monkeypatch.setattr(sharding, "MOST_OPEN", most_open)
    monkeypatch.setattr(sharding, "HELD_ROWS", 30)
    monkeypatch.setattr(sharding, "ALL_HELD_ROWS", 50)
    monkeypatch.setattr(beside, "HELD_ROWS", 20)
    held: list[int] = []
    relieve = sharding._relieve

    def relieved(writers: Sequence[sharding._Writer]) -> None:
        relieve(writers)
        held.append(sum(writer.rows for writer in writers))

    monkeypatch.setattr(sharding, "_relieve", relieved)
    for seed in range(3 if most > 10 else 1):
        run = tmp_path / str(seed)
        record(run, seed)
        table, _ = History.open(run).recorded()
        with Spool(run) as rows:
            for block in History.open(run).recorded_blocks([]):
                rows.add(block)
            assert rows.whole() is None and rows.in_order and rows.num_rows == table.num_rows
            assert plain(pa.concat_tables(rows.blocks())).equals(plain(table))
            pieces = Digest()
            for block in rows.blocks():
                pieces.add(block)
            assert pieces.hexdigest() == digest(table)
            (run / "parted").mkdir()
            sharding.fill(run / "parted", rows, PLAN, most, offsets=2)
        assert {path.name for path in run.iterdir()} == {STREAM, manifest.FILE, "traces", "parted"}
        wanted = dict(shards.parts(table, PLAN, most, offsets=2))
        assert {path.stem for path in (run / "parted").iterdir()} == set(wanted)
        assert most > 10 or sum(name.startswith("other.range") for name in wanted) > 10
        for name, part in wanted.items():
            found = pq.read_table(run / "parted" / f"{name}.parquet").sort_by("index")
            assert plain(found).equals(plain(part)), name
    assert 0 < max(held) <= 50


def test_the_rows_that_are_wanted_are_those_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK_ROWS", 40)
    record(tmp_path, 4)
    table, damage = History.open(tmp_path).recorded()

    def sends(rows: pa.Table) -> pa.Array:
        return pc.equal(rows["f"], "send")

    assert plain(RowFiles(tmp_path).recorded(sends)[0]).equals(plain(table.filter(sends(table))))
    shards.write(tmp_path, table, PLAN)
    (tmp_path / STREAM).unlink()
    found, problems = RowFiles(tmp_path).recorded(sends)
    assert plain(found).equals(plain(table.filter(sends(table)))) and damage == []
    assert problems == [f"{STREAM} is missing; the shards that were made of it stand in for it"]


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


def test_rows_that_are_not_numbered_in_order_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MOST_ROWS", 100)
    record(tmp_path, 1)
    table, _ = History.open(tmp_path).recorded()
    with Spool(tmp_path) as rows:
        rows.add(table)
        rows.add(table.slice(3, 5))
        assert not rows.in_order
        rows.start_over(table)
        assert rows.in_order and rows.whole() is table and list(rows.blocks({"f"})) == [table.select(["f"])]


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MOST_ROWS", 100)
    record(tmp_path, 1)
    table, _ = History.open(tmp_path).recorded()

    def full(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(Spool, "_write", full)
    with pytest.raises(MachineError, match=r"cannot write the rows in .*: No space left"), Spool(tmp_path) as rows:
        rows.add(table)
    assert {path.name for path in tmp_path.iterdir()} == {STREAM, manifest.FILE, "traces"}


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
