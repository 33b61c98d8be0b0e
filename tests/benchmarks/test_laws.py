"""The benchmark of the laws: its histories hold what was planted, and it needs its rivals."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks import laws_small
from benchmarks.laws import __main__ as benchmark
from benchmarks.laws import by_numpy, histories, ours, transactions
from chaos.history import segments
from chaos.history.history import History
from chaos.history.manifest import read
from chaos.judging import surveying
from chaos.verdict import Validity


@pytest.mark.parametrize("kind", ["plain", "violations", "skewed"])
def test_the_laws_and_plain_numpy_find_all_that_was_planted_and_nothing_else(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 20_000)
    monkeypatch.setattr(surveying, "TASK_ROWS", 20_000)
    made = histories.make(tmp_path, 2 * histories.LEAST, kind)
    assert made.messages == (14_720 if kind == "skewed" else 2 * histories.LEAST) and len(made.pieces) > 2
    assert set(made.planted) == {name for _, found in histories._KINDS for name in found}
    assert +ours.in_process(made, 1, ExitStack())() == made.planted
    for shares in (1, 2):
        counted = [by_numpy.count(made.pieces, shares, share) for share in range(shares)]
        assert +sum(counted, Counter()) == made.planted
    table, damage = History.open(made.run).recorded()
    assert not damage and table.num_rows == made.rows


@pytest.mark.spark
def test_workers_find_all_that_was_planted(tmp_path: Path) -> None:
    made = histories.make(tmp_path, histories.LEAST)
    with ExitStack() as stack:
        assert +ours.on_one_worker(made, 2, stack)() == made.planted


def test_the_laws_about_logs_find_all_that_was_planted_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 20_000)
    monkeypatch.setattr(surveying, "TASK_ROWS", 20_000)
    monkeypatch.setattr(transactions, "RATE", 64)
    monkeypatch.setattr(transactions, "CHUNK", 64)
    made = transactions.make(tmp_path, 20_000)
    assert made.planted["G1c"] == 1 and made.rows > 30_000
    assert +ours.in_process(made, 1, ExitStack())() == made.planted


def test_a_small_run_is_as_good_as_it_says(tmp_path: Path) -> None:
    rows = laws_small.write(tmp_path / "run", laws_small.FEW_OPERATIONS)
    (verdict,) = laws_small.judged([tmp_path / "run"])
    assert {law.validity for law in verdict.laws if law.law in laws_small.CORE} == {Validity.VALID}
    assert not read(tmp_path / "run").damage and sum(one.rows for one in read(tmp_path / "run").segments) == rows


def test_a_skewed_history_has_most_messages_in_one_queue() -> None:
    sizes = histories._sizes(1_000_000, "skewed")
    assert len(sizes) == 13 and sizes[0] == 900_000 and 950_000 < sum(sizes) <= 1_000_000


def test_a_rival_that_nobody_knows_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["laws", "--messages", "1", "--rivals", "numpy,abacus"])
    assert benchmark.main() == 3
    assert capsys.readouterr().err == (
        "error: --rivals takes duckdb, polars, numpy, one-worker, in-process or none, not abacus\n"
    )


def test_rivals_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "polars" else object())
    monkeypatch.setattr(sys, "argv", ["laws", "--messages", "1"])
    assert benchmark.main() == 3
    told = capsys.readouterr().err
    assert told.startswith("error: polars can't be imported") and told.count("\n") == 1
