"""A history gives the rows of a run, on one clock: by kind, by event, by number, or a few at a time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from chaos.errors import BadInput, DamagedHistory
from chaos.events import Append, Confirm, Role
from chaos.history.columns import COLUMNS
from chaos.history.directory import META, write_json
from chaos.history.history import History
from chaos.history.recorder import STREAM, Recorder
from chaos.history.row import Row
from chaos.history.run_meta import RunMeta
from chaos.history.seal_traces import seal_traces
from tests.chaos.history.runs import make_large, plain, record

SECOND = 1_000_000_000


def recorded(run: Path, *, extra: int = 0, meta: dict[str, Any] | None = None) -> Path:
    """A run of a few seconds: the load begins at 10 s."""
    run.mkdir(exist_ok=True)
    recorder = Recorder(run, lambda: 0)
    recorder.record("harness", time_ns=8 * SECOND, f="phase", value={"phase": "start"})
    recorder.record("harness", time_ns=10 * SECOND, f="phase", value={"phase": "load"})
    op = recorder.record("op", time_ns=11 * SECOND, type="invoke", f="send", process="producer-0.3", queue=1, message=7)
    recorder.record_trace(
        {"f": "append", "node": "broker-0", "incarnation": 1, "step": 4, "time_ns": 12 * SECOND, "position": 40}
        | {"queue": 1, "offset": 0, "message": 7, "value": {"size": 60}}
    )
    recorder.record_trace({"f": "role", "node": "broker-0", "incarnation": 1, "step": 5, "time_ns": 13 * SECOND})
    recorder.record("op", time_ns=14 * SECOND, type="ok", f="send", op=op, process="producer-0.3", queue=1, offset=0)
    recorder.record("poll", time_ns=14 * SECOND, f="state", type="ok", node="broker-0", value={"end": 100})
    recorder.record("poll", time_ns=15 * SECOND, f="state", type="info", node="broker-0")
    recorder.record("harness", time_ns=15 * SECOND, f="phase", value={"phase": "drain"})
    for _ in range(extra):
        recorder.record("op", time_ns=16 * SECOND, f="more")
    recorder.close()
    write_json(run / META, {"seed": 5, "deployment": "sim", **(meta or {})})
    return run


def test_rows_are_asked_for_by_kind_and_name_or_by_the_class_of_their_event(tmp_path: Path) -> None:
    history = History.open(recorded(tmp_path))
    assert history.rows("op", "send")["index"].to_pylist() == [2, 5]
    assert history.rows("op", "send", "nothing", columns=("type", "index")).column_names == ["index", "type"]
    assert history.rows("trace")["index"].to_pylist() == [3, 4]
    assert history.rows(Append).equals(history.rows("trace", "append")) and history.rows(Append).num_rows == 1
    assert history.rows(Append, Role).num_rows == 2 and not history.rows(Confirm).num_rows
    assert [row.index for row in history.each("op", keep=lambda rows: pc.equal(rows["type"], "ok"))] == [5]
    assert history.has_traces and history.num_rows == 9 and not history.damage


def test_a_row_has_its_columns_its_value_and_its_second(tmp_path: Path) -> None:
    history = History.open(recorded(tmp_path))
    (row,) = history.each(Append)
    assert row == history.row(3)
    assert (row.position, row.end, row.at_s, row.lane, row.value) == (40, 100, 2.0, "broker-0", {"size": 60})
    assert {name: getattr(row, name) for name in COLUMNS[:-1]} == {
        name: history.table[name][3].as_py() for name in COLUMNS[:-1]
    }
    assert row.text == history.table["value"][3].as_py() and history.row(2).lane == "producer-0"
    assert [one.index for one in history.numbered((5, 2, 5, 400))] == [2, 5]
    with pytest.raises(KeyError):
        history.row(9)


def test_seconds_count_from_the_beginning_of_the_load(tmp_path: Path) -> None:
    history = History.open(recorded(tmp_path))
    assert [*history.phases] == ["start", "load", "drain"] and history.zero_ns == 10 * SECOND
    assert (history.phase_s("start"), history.load_end_s, history.end_s) == (-2.0, 5.0, 5.0)
    assert history.phase_s("heal") == float("inf")
    assert history.seconds(history.rows("op")).tolist() == [1.0, 4.0]
    assert [(poll.node, poll.at_s, poll.value) for poll in history.polls] == [("broker-0", 4.0, {"end": 100})]
    without = History.of(history.table.slice(2))  # the harness's first row then
    assert without.zero_ns == 15 * SECOND and without.load_end_s == without.end_s
    assert History.of(history.rows("trace")).zero_ns == 12 * SECOND
    assert History.of(history.table.slice(0, 0)).end_s == 0.0


def row_of(index: int, time_ns: int) -> Row:
    numbers = (index, time_ns, *(-1 for _ in range(12)))
    return Row(*numbers, *("" for _ in range(6)), {}, 0.0)  # type: ignore[arg-type]


def test_rows_of_nodes_with_clocks_of_their_own_are_ordered_by_these(tmp_path: Path) -> None:
    table, first, second = History.open(recorded(tmp_path)).table, row_of(1, 20), row_of(2, 10)
    assert History.of(table, RunMeta(deployment="sim")).before(first, second)
    assert not History.of(table, RunMeta(deployment="process")).before(first, second)


def test_histories_differ_from_a_row_on(tmp_path: Path) -> None:
    one, same, longer = (History.open(recorded(tmp_path / name, extra=name == "c")) for name in "abc")
    assert one.first_difference(same) is None
    assert one.first_difference(longer) == longer.first_difference(one) == 9
    column = pa.array([*same.table["queue"].to_pylist()[:4], 3, *same.table["queue"].to_pylist()[5:]])
    other = same.with_rows(same.table.set_column(same.table.column_names.index("queue"), "queue", column))
    assert one.first_difference(other) == 4


def test_a_word_of_a_user_opens_a_directory_an_archive_or_what_is_under_a_uri(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    run = recorded(tmp_path / "runs" / "storm")
    shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path / "runs")
    for number, word in enumerate(("storm", str(run), "latest", f"{tmp_path}/packed.zip", f"file://{run}")):
        folder = tmp_path / "runs" if number < 3 else tmp_path / str(number)
        history = History.open(word, folder)
        assert history.run == folder / "storm" and history.meta.seed == 5 and history.num_rows == 9
    with pytest.raises(BadInput, match=r"there is no run latst, here or in .*; did you mean 'latest'\?"):
        History.open("latst", tmp_path)
    with pytest.raises(BadInput, match="is not a run directory"):
        History.open(str(tmp_path), tmp_path)


def test_what_is_damaged_is_read_as_far_as_possible_and_reported(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    with (run / STREAM).open("ab") as file:
        file.write(b"more")
    history = History.open(run)
    assert history.num_rows == 9 and "not vouched for" in history.damage[0]
    (run / STREAM).write_bytes(b"")
    with pytest.raises(DamagedHistory):
        _ = History.open(run).table


def test_a_run_of_a_newer_format_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="format 99"):
        History.open(recorded(tmp_path, meta={"format": 99}))


def commits(rows: pa.Table) -> pa.Array:
    return pc.equal(rows["f"], "commit")


def test_the_wanted_rows_of_a_large_run_are_a_history_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_large(monkeypatch)
    record(tmp_path, 3)
    seal_traces(tmp_path)
    history = History.open(tmp_path)
    some, whole = history.only(commits), plain(History.open(tmp_path).recorded()[0])
    assert history.is_large and not some.is_large and plain(history.table).equals(whole)
    assert plain(some.table).equals(whole.filter(commits(whole))) and some.run == tmp_path
    index = some.table["index"].to_pylist()
    few = history.only(commits, [range(index[3], index[4]), range(index[-1], index[-1] + 1)])
    assert {index[3], index[-1]} <= {*few.table["index"].to_pylist()} < {*index}
    with pytest.raises(ValueError, match="no more to read"):
        some.recorded()
