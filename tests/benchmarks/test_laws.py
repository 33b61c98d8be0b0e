"""The benchmark of the laws: its histories hold what was planted, and it needs its rivals."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.laws import __main__ as benchmark
from benchmarks.laws import by_numpy, histories, ours
from chaos.history import shards


@pytest.mark.parametrize("kind", ["plain", "violations"])
def test_the_laws_and_plain_numpy_find_all_that_was_planted_and_nothing_else(tmp_path: Path, kind: str) -> None:
    made = histories.make(tmp_path, 2 * histories.LEAST, kind)
    assert made.messages == 2 * histories.LEAST and len(made.paths) == 2
    assert set(made.planted) == {name for _, found in histories._KINDS for name in found}
    assert +ours.count([ours.examine(str(path)) for path in made.paths]) == made.planted
    assert +sum((by_numpy.count(str(path)) for path in made.paths), Counter()) == made.planted


def test_the_laws_find_all_that_was_planted_in_a_queue_that_is_parted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = histories.make(tmp_path, 2 * histories.LEAST, "skewed")
    monkeypatch.setattr(shards, "SHARD_ROWS", 20_000)
    monkeypatch.setattr(shards, "SINGLE_SHARD_ROWS", 0)
    paths = [path for one in made.paths for path in ours._parted(one)]
    assert sum("queue.range" in path for path in paths) > 1 and any("queue.message" in path for path in paths)
    assert +ours.count([ours.examine(path) for path in paths]) == made.planted


def test_a_skewed_history_has_most_messages_in_one_queue() -> None:
    sizes = histories._sizes(1_000_000, "skewed")
    assert len(sizes) == 13 and sizes[0] == 900_000 and 950_000 < sum(sizes) <= 1_000_000


def test_no_file_of_a_large_history_has_more_rows_than_a_shard() -> None:
    sizes = histories._sizes(100_000_000, "plain")
    files = histories._least_files(100_000_000)
    assert len(sizes) == files == 223 and 99_900_000 < sum(sizes) <= 100_000_000
    rows_per_message = 4.21
    assert max(sizes) * rows_per_message < shards.SHARD_ROWS


def test_a_rival_that_nobody_knows_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["laws", "--messages", "1", "--rivals", "numpy,abacus"])
    assert benchmark.main() == 3
    assert capsys.readouterr().err == (
        "error: --rivals takes duckdb, polars, numpy, one-worker, processes or none, not abacus\n"
    )


def test_rivals_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "polars" else object())
    monkeypatch.setattr(sys, "argv", ["laws", "--messages", "1"])
    assert benchmark.main() == 3
    told = capsys.readouterr().err
    assert told.startswith("error: polars can't be imported") and told.count("\n") == 1
