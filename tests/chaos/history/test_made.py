"""Rows that can't be read apart as they stand are held while they are few, and become pieces that can when they are
many."""

from __future__ import annotations

from collections.abc import Callable
from errno import ENOSPC
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from chaos.errors import DamagedHistory, MachineError
from chaos.history import made
from chaos.history.digests import Digest, digest
from chaos.history.made import Made
from chaos.history.pieces import rows_of
from chaos.history.segments import are_one
from chaos.history.stream import SCHEMA
from tests.chaos.history.runs import make_large, plain

FEW, PIECE = 100, 60


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_large(monkeypatch, FEW, PIECE)


def rows(count: int, seed: int = 0, value: str = "") -> pa.Table:
    """Pulls with what they deliver, which are up to a hundred rows of one operation, amid other rows."""
    rng, op = Random(seed), list[int]()
    while len(op) < count:
        op += [rng.choice((-1, len(op)))] * rng.choice((1, 1, 2, 9, 100))
    made = [
        {**dict.fromkeys(SCHEMA.names[:14], -1), **dict.fromkeys(SCHEMA.names[14:-1], "")}
        | {"index": at, "time_ns": 3 * at, "op": op[at], "f": rng.choice("ab"), "value": value}
        for at in range(count)
    ]
    return pa.Table.from_pylist(made, SCHEMA)


def given(parent: Path, table: pa.Table, size: int) -> Made:
    """Take rows so many at a time."""
    taken = Made(parent)
    for begin in range(0, table.num_rows, size):
        taken.add(table.slice(begin, size))
    return taken


@pytest.mark.parametrize("count", [0, 1, FEW - 1])
def test_few_rows_are_held(count: int, tmp_path: Path) -> None:
    with given(tmp_path, wanted := rows(count), 7) as taken:
        assert taken.table is not None and plain(taken.table).equals(plain(wanted))
        assert taken.in_order and taken.num_rows == count and not [*tmp_path.iterdir()]


@pytest.mark.parametrize("size", [1, 7, 60, 130, 1_000])
def test_many_rows_become_pieces_of_whole_operations(size: int, tmp_path: Path) -> None:
    with given(tmp_path, wanted := rows(1_000, size), size) as taken:
        assert taken.table is None and taken.in_order and taken.num_rows == 1_000
        pieces = taken.pieces
        assert [path.name[:7] for path in tmp_path.iterdir()] == ["pieces-"]
        read = [piece.read() for piece in pieces]
        assert plain(pa.concat_tables(read)).equals(plain(wanted)) and rows_of(pieces) == 1_000
        assert [piece.first_index for piece in pieces] == [table["index"][0].as_py() for table in read]
        op = [table["op"].to_pylist() for table in read]
        assert not any(are_one(one[-1], other[0]) for one, other in pairwise(op))
        assert 1 < len(pieces) < 20 and (len(pieces) > 5 or size > PIECE)
        assert pieces[1].read(("f", "index")).equals(read[1].select(["index", "f"]))
        pieces_digest = Digest()
        for table in read:
            pieces_digest.add(table)
        assert pieces_digest.hexdigest() == digest(wanted)
    assert not [*tmp_path.iterdir()]


def test_few_rows_that_take_much_become_pieces_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "MOST_HELD", 40_000)
    monkeypatch.setattr(made, "PIECE_BYTES", 20_000)
    with given(tmp_path, wanted := rows(FEW - 1, 4, "x" * 1_000), 5) as taken:
        assert taken.table is None and 2 < len(taken.pieces) < 10
        assert plain(pa.concat_tables([piece.read() for piece in taken.pieces])).equals(plain(wanted))


def test_an_operation_is_in_one_piece_however_long_it_is(tmp_path: Path) -> None:
    op = pa.array([*[-1] * 30, *[30] * 400, *[-1] * 30])
    table = rows(460).set_column(2, "op", op)
    with given(tmp_path, table, 20) as taken:
        found = [piece.read(["op"])["op"].to_pylist().count(30) for piece in taken.pieces]
        assert len(found) > 1 and sorted(found)[-2:] == [0, 400]


def test_rows_that_are_not_numbered_in_order_are_noticed(tmp_path: Path) -> None:
    table = rows(300)
    for again in (table.slice(3, 5), table.slice(280), table.slice(299, 1)):
        with given(tmp_path, table.slice(0, 290), 50) as taken:
            taken.add(again)
            assert not taken.in_order
            taken.start_over(table)
            assert taken.in_order and taken.num_rows == 300
            assert plain(pa.concat_tables([piece.read() for piece in taken.pieces])).equals(plain(table))
            assert len([*tmp_path.iterdir()]) == 1, "what was written before is gone"
            taken.start_over(table.slice(0, 20))
            assert taken.table is not None and taken.table.num_rows == 20 and not [*tmp_path.iterdir()]


def _no_folder(*_: object, **__: object) -> str:
    raise OSError(ENOSPC, "No space left on device")


class _Full:
    """A stream of Arrow whose disk is full when the second piece is written."""

    def __init__(self) -> None:
        self._new, self._written = pa.ipc.new_stream, 0

    def __call__(self, *given: object, **form: object) -> object:
        self._written += 1
        if self._written > 1:
            raise OSError(ENOSPC, "No space left on device")
        return self._new(*given, **form)


@pytest.mark.parametrize("place", ["tempfile.mkdtemp", "pyarrow.ipc.new_stream"])
def test_a_full_disk_is_one_clear_error_and_leaves_nothing(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full: Callable[..., object] = _no_folder if place == "tempfile.mkdtemp" else _Full()
    monkeypatch.setattr(place, full)
    with (
        pytest.raises(MachineError, match=r"cannot write the rows in .*: No space left"),
        Made(tmp_path) as taken,
    ):
        for begin in range(0, 1_000, 30):
            taken.add(rows(1_000).slice(begin, 30))
    assert not [*tmp_path.iterdir()]


def test_a_piece_that_is_not_as_it_was_written_is_damage(tmp_path: Path) -> None:
    with given(tmp_path, rows(500), 30) as taken:
        first, second, *_ = taken.pieces
        data = Path(first.place).read_bytes()
        Path(first.place).write_bytes(data[: len(data) // 2])
        Path(second.place).unlink()
        for piece in (first, second):
            with pytest.raises(DamagedHistory, match=r"pieces-.*arrows"):
                piece.read()
