"""``stormproof rows``: the rows that a report names can be looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.errors import BadInput
from chaos.history.directory import write_meta
from chaos.history.recorder import Recorder
from stormproof.commands.rows import rows

SECOND = 1_000_000_000


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "a-run").mkdir()
    recorder = Recorder(tmp_path / "a-run", lambda: 0)
    recorder.record("harness", time_ns=5 * SECOND, f="phase", value={"phase": "load"})
    recorder.record("op", time_ns=6 * SECOND, type="invoke", f="send", process="producer-0.0", queue=0, message=7)
    told = {"reason": "\u202etimeout", "attempt": 1}
    recorder.record("op", time_ns=8 * SECOND, type="info", f="send", process="producer-\x1b[31m", op=1, value=told)
    recorder.close()
    write_meta(tmp_path / "a-run", {"run": "a-run", "seed": 1, "state": "finished"})
    return tmp_path / "a-run"


def printed(run: Path, *arguments: str) -> str:
    return CliRunner().invoke(rows, [str(run), *arguments], catch_exceptions=False).stdout


def test_rows_are_printed_in_their_order_on_the_clock_of_the_report(run: Path) -> None:
    first, second = printed(run, "2", "0..1").splitlines()[1:]
    assert first.split() == ["1", "1.000", "s", "op", "send", "invoke", "producer-0.0", "queue", "0,", "message", "7"]
    assert second.split()[:6] == ["2", "3.000", "s", "op", "send", "info"]


def test_values_are_no_commands_for_a_terminal(run: Path) -> None:
    text = printed(run, "2")
    assert "\x1b" not in text and "\u202e" not in text
    assert "\N{REPLACEMENT CHARACTER}[31m" in text


def test_as_json_a_row_has_what_it_has(run: Path) -> None:
    (row,) = json.loads(printed(run, "2", "--json"))
    assert (row["index"], row["at_s"], row["op"], row["value"]) == (
        2,
        3.0,
        1,
        {"reason": "\u202etimeout", "attempt": 1},
    )
    assert not {"queue", "message", "node"} & row.keys()


@pytest.mark.parametrize("word", ["x", "2..1", "1-2", "-1", "..3", "١"])
def test_what_is_no_range_is_said_to_be_none(run: Path, word: str) -> None:
    with pytest.raises(BadInput, match="is no row"):
        printed(run, "--", word)


def test_a_run_says_how_many_rows_it_has(run: Path) -> None:
    with pytest.raises(BadInput, match="no such row; it has 3"):
        printed(run, "3..9")
