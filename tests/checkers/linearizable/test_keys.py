"""Many objects on Spark: each is judged with all of its rows, and by the same conventions as anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.errors import BadInput
from chaos.judging.spark import Session
from chaos.verdict import Validity
from checkers.linearizable import jar
from checkers.linearizable.checker import check_keys
from checkers.linearizable.history import Function

pytestmark = pytest.mark.spark
READ, WRITE, CAS = Function.READ, Function.WRITE, Function.CAS


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    jar.build()
    with Session() as opened:
        yield opened


def rows(path: Path, *operations: tuple, files: int = 2) -> Path:
    """Parquet files of (key, f, value, call, ret, expected) rows, one key's rows in all of them."""
    path.mkdir(exist_ok=True)
    texts = any(isinstance(value, str) for one in operations for value in one[2:])
    kind = pa.string() if texts else pa.int64()
    for n in range(files):
        part = [(*one, None)[:6] for one in operations[n::files]]
        columns = [list(column) for column in zip(*part, strict=True)] or [[] for _ in range(6)]
        key, f, value, call, ret, expected = columns
        table = pa.table(
            {
                "key": key,
                "process": pa.array([n] * len(key), pa.int32()),
                "f": pa.array([int(one) for one in f], pa.int8()),
                "value": pa.array(value, kind),
                "call": pa.array(call, pa.int64()),
                "ret": pa.array(ret, pa.int64()),
                "expected": pa.array(expected, kind),
            }
        )
        pq.write_table(table, path / f"{n}.parquet")
    return path


def test_each_key_is_judged_with_all_of_its_rows(session, tmp_path):
    good = [(key, f, key, 10 * n, 10 * n + 5) for key in range(500) for n, f in enumerate((WRITE, READ, READ))]
    verdict = check_keys(session, [rows(tmp_path / "good", *good, files=3)], "register")
    assert verdict.validity is Validity.VALID
    assert verdict.counts == {"keys": 500, "operations": 1500, "valid": 500, "invalid": 0, "undecided": 0}
    stale = [(7, WRITE, 1000, 100, 105), (7, READ, 7, 110, 115)]
    verdict = check_keys(session, [tmp_path / "good", rows(tmp_path / "bad", *stale)], "register")
    assert verdict.validity is Validity.INVALID and verdict.counts["invalid"] == 1
    (anomaly,) = verdict.anomalies
    assert "history 7" in anomaly.explanation and "read 7" in anomaly.explanation


def test_times_crashes_unknown_reads_and_first_states(session, tmp_path):
    late = 10**18
    operations = [
        ("a", WRITE, '"x"', late, None),
        ("a", READ, '"y"', late + 1, late + 2),
        ("a", READ, None, late + 3, late + 4),
        ("a", READ, '"x"', late + 5, late + 6),
        ("b", CAS, '"z"', 5, 5, '"y"'),
        ("b", READ, '"z"', 5, 6),
    ]
    path = rows(tmp_path / "texts", *operations)
    assert check_keys(session, [path], "cas-register", init="y").validity is Validity.VALID
    assert check_keys(session, [path], "cas-register").validity is Validity.INVALID
    numbers = rows(tmp_path / "numbers", (1, READ, 5, 0, 1), (1, READ, 5, 2, 3))
    assert check_keys(session, [numbers], "register", init=5).validity is Validity.VALID
    assert check_keys(session, [numbers], "register", init=6).validity is Validity.INVALID


def test_locks_queues_and_counters(session, tmp_path):
    held = rows(tmp_path / "held", (1, Function.RELEASE, None, 0, 1), (1, Function.ACQUIRE, None, 2, 3))
    assert check_keys(session, [held], "mutex", init=True).validity is Validity.VALID
    assert check_keys(session, [held], "mutex").validity is Validity.INVALID
    calls = ((1, Function.ENQUEUE, 8, 0, 1), (1, Function.DEQUEUE, 8, 2, 3), (1, Function.DEQUEUE, None, 4, 5))
    assert check_keys(session, [rows(tmp_path / "queue", *calls)], "fifo-queue").validity is Validity.VALID
    counts = rows(tmp_path / "count", (1, Function.ADD, -3, 0, 1), (1, READ, 4, 2, 3))
    assert check_keys(session, [counts], "counter", init=7).validity is Validity.VALID


def test_what_makes_no_sense_is_refused_and_nothing_is_unknown(session, tmp_path):
    with pytest.raises(BadInput, match="expected a model with simple values"):
        check_keys(session, [tmp_path], "set")
    with pytest.raises(BadInput, match="returned at 3"):
        check_keys(session, [rows(tmp_path / "back", (1, WRITE, 1, 9, 3))], "register")
    with pytest.raises(BadInput, match="register"):
        check_keys(session, [rows(tmp_path / "wrong", (1, Function.DEQUEUE, 1, 1, 3))], "register")
    pq.write_table(pa.table({"key": [1]}), tmp_path / "thin.parquet")
    with pytest.raises(BadInput, match="no column process"):
        check_keys(session, [tmp_path / "thin.parquet"], "register")
    verdict = check_keys(session, [tmp_path / "gone"], "register")
    assert verdict.validity is Validity.UNKNOWN and "gone" in verdict.why
    none = check_keys(session, [rows(tmp_path / "good", (1, READ, 1, 1, None), files=1)], "register")
    assert none.validity is Validity.UNKNOWN and none.counts["operations"] == 0
