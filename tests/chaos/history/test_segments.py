"""The stream of a run is cut into segments: each can be read alone, and the digest is a tree over them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import DamagedHistory
from chaos.history import manifest, stream
from chaos.history.digests import Digest, digest
from chaos.history.history import History
from chaos.history.manifest import Batch, Manifest, Sealed
from chaos.history.pieces import pieces
from chaos.history.recorder import Recorder
from chaos.history.segments import Segments, are_one
from chaos.history.stream import STREAM
from tests.chaos.history.runs import make_large

ROWS = 50


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_large(monkeypatch, piece=ROWS)
    monkeypatch.setattr(stream, "BLOCK_ROWS", 30)


def record(run: Path, seed: int, calls: int = 60) -> Recorder:
    """Record pulls with all that they deliver, amid traces; the recorder is left open."""
    run.mkdir(exist_ok=True)
    rng = Random(seed)
    recorder = Recorder(run, lambda: 7, batch_rows=rng.choice((1, 8, 500)), batch_ns=None)
    for number in range(calls):
        row = {"f": "pull", "process": f"p-{number % 3}.0", "queue": number % 2}
        asked = recorder.record("op", type="invoke", offset=number, **row)
        for _ in range(rng.randrange(3)):
            recorder.record_trace({"node": f"broker-{rng.randrange(3)}", "f": "start", "time_ns": 5})
        recorder.record("op", type="ok", op=asked, **row)
        for _ in range(rng.choice((0, 1, 2, ROWS + 9)) if number % 7 == 3 else 1):
            recorder.record("op", type="ok", op=asked, **{**row, "f": "delivered"}, offset=rng.randrange(9))
    return recorder


def starts(table: pa.Table) -> list[int]:
    """The oracle: one row after the other."""
    op, found, rows = table["op"].to_pylist(), [], 0
    for at in range(len(op)):
        if rows >= ROWS and not are_one(op[at - 1], op[at]):
            found.append(at)
            rows = 0
        rows += 1
    return found


@pytest.mark.parametrize("seed", range(6))
def test_each_segment_is_a_stream_of_its_own(seed: int, tmp_path: Path) -> None:
    record(tmp_path, seed).close()
    table, damage = History.open(tmp_path).recorded()
    sealed, data = manifest.read(tmp_path), (tmp_path / STREAM).read_bytes()
    assert damage == [] and len(sealed.segments) > 3
    alone = []
    for one in sealed.segments:
        piece = data[one.offset : one.offset + one.sum.length]
        assert manifest.sum_of(piece) == one.sum
        alone.append(pa.ipc.open_stream(piece).read_all())
        assert alone[-1].num_rows == one.rows
    assert pa.concat_tables(alone).unify_dictionaries().to_pylist() == table.to_pylist()
    assert np.cumsum([one.rows for one in sealed.segments])[:-1].tolist() == starts(table)
    assert sum(one.sum.length for one in sealed.segments) == len(data)


@given(st.lists(st.integers(-1, 3), max_size=400), st.lists(st.integers(0, 400), max_size=5))
def test_rows_are_cut_at_the_same_places_in_whatever_pieces_they_come(op: list[int], cuts: list[int]) -> None:
    bounds, known, found = [0, *sorted(min(cut, len(op)) for cut in cuts), len(op)], Segments(), []
    for begin, end in pairwise(bounds):
        found += [begin + at for at in known.starts(np.array(op[begin:end], np.int64))]
    assert found == starts(pa.table({"op": pa.array(op, pa.int64())}))


def test_the_digest_is_that_of_the_segments_in_their_order(tmp_path: Path) -> None:
    record(tmp_path, 1).close()
    table, _ = History.open(tmp_path).recorded()
    bounds = [0, *starts(table), table.num_rows]
    leaves = []
    for begin, end in pairwise(bounds):
        leaf = Digest()
        leaf._leaf.add(table.slice(begin, end - begin))
        leaves.append(leaf._leaf.digest())
    assert digest(table) == hashlib.sha256(b"".join(leaves)).hexdigest()
    pieces = Digest()
    for begin in range(0, table.num_rows, 17):
        pieces.add(table.slice(begin, 17))
    assert pieces.hexdigest() == digest(table)
    swapped = pa.concat_tables([table.slice(0, 60), table.slice(61, 1), table.slice(60, 1), table.slice(62)])
    assert digest(swapped.combine_chunks()) != digest(table)


def test_rows_of_nodes_that_follow_the_stream_make_no_difference(tmp_path: Path) -> None:
    record(tmp_path, 2).close()
    table, _ = History.open(tmp_path).recorded()
    first = digest(table)
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "broker-0.jsonl").write_text('{"node":"broker-0","f":"start"}\n' * 3 * ROWS)
    traced, _ = History.open(tmp_path).recorded()
    assert traced.num_rows == table.num_rows + 3 * ROWS and digest(traced) == first


def test_a_segment_that_goes_on_is_vouched_for_by_its_batches(tmp_path: Path) -> None:
    recorder = record(tmp_path, 3)
    recorder.flush()
    sealed = manifest.read(tmp_path)
    table, damage = History.open(tmp_path).recorded()
    assert damage == [] and table.num_rows == len(recorder)
    assert 0 < sum(one.rows for one in sealed.segments) < table.num_rows
    recorder.close()


@pytest.mark.parametrize("harm", ["rows", "crc", "offset", "length"])
def test_a_segment_that_is_not_what_its_line_says_is_damage(harm: str, tmp_path: Path) -> None:
    record(tmp_path, 4).close()
    sealed = manifest.read(tmp_path)
    (tmp_path / manifest.FILE).unlink()
    with Manifest(tmp_path) as sealing:
        for batch in sealed.batches:
            sealing.batch(batch)
        for number, one in enumerate(sealed.segments):
            length, crc = one.sum
            length, crc = length + (harm == "length"), crc ^ (harm == "crc")
            other = Batch(one.offset + (harm == "offset"), manifest.Sum(length, crc), one.rows + (harm == "rows"))
            sealing.segment(other if number == 1 else one)
    table, damage = History.open(tmp_path).recorded()
    assert len(damage) == 1 and "is another one" in damage[0]
    history = History.open(tmp_path)  # read in pieces, as far as these go
    assert history.table.equals(table) and history.damage == damage


def test_what_follows_a_bad_batch_is_left_out_in_later_segments_too(tmp_path: Path) -> None:
    record(tmp_path, 5).close()
    table, _ = History.open(tmp_path).recorded()
    second = manifest.read(tmp_path).segments[1]
    data = bytearray((tmp_path / STREAM).read_bytes())
    data[second.offset + second.sum.length - 3] ^= 1
    (tmp_path / STREAM).write_bytes(data)
    found, damage = History.open(tmp_path).recorded()
    assert len(damage) == 1 and "it and all later rows are left out" in damage[0]
    assert found.num_rows < sum(starts(table)[1:2]) and found.equals(table.slice(0, found.num_rows))


def test_what_is_not_as_it_was_sealed_is_not_read_apart(tmp_path: Path) -> None:
    record(tmp_path, 5).close()
    found = pieces(tmp_path, sealed := manifest.read(tmp_path))
    assert pa.concat_tables([piece.read() for piece in found]).num_rows == History.open(tmp_path).num_rows
    with pytest.raises(DamagedHistory, match=r"history\.arrows: the rows of the segment at .* are numbered otherwise"):
        replace(found[1], first_index=found[1].first_index + 1).read()
    with pytest.raises(DamagedHistory, match="rows, expected"):
        replace(found[1], rows=found[1].rows + 1).read()
    for problem in (Sealed(), replace(sealed, damage=["manifest: line 7 is damaged"]), replace(sealed, segments=[])):
        assert pieces(tmp_path, problem) == ()
    with (tmp_path / STREAM).open("ab") as file:
        file.write(b"more")
    assert pieces(tmp_path, sealed) == ()
    (tmp_path / STREAM).write_bytes(b"something else")
    with pytest.raises(DamagedHistory, match=r"history\.arrows: the segment at .* is not what was written"):
        found[1].read()


@pytest.mark.parametrize("rows", [ROWS - 20, ROWS + 20])
def test_segments_that_end_elsewhere_than_those_of_the_digest_are_not_read_apart(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_large(monkeypatch, piece=rows)
    record(tmp_path, 6).close()
    make_large(monkeypatch, piece=ROWS)
    found = pieces(tmp_path, manifest.read(tmp_path))
    assert bool(found) == (rows > ROWS)
    if found:
        with pytest.raises(DamagedHistory, match="ends elsewhere"):
            found[0].read()
    history = History.open(tmp_path)
    assert history.is_large and history.table.equals(history.recorded()[0]) and not history.damage
