"""Histories become pages: of the worst one, or of each that is not VALID; what the checker found stands in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.errors import MachineError
from checkers.linearizable.history import Function, History, Operation, Result, Undecided
from checkers.linearizable.python.checker import examine
from reports.timeline.from_history import timelines
from reports.timeline.pages import TimelinePages
from stormproof.commands.linearize import linearize
from tests.reports.timeline.test_page import data_of


def a_history(name: str, *seen: str, key: str | None = None) -> History:
    """One write of 1, then reads."""
    calls = [(Function.WRITE, "1"), *((Function.READ, value) for value in seen)]
    operations = [
        Operation(process=str(at), f=f, arguments=(value,), call=2 * at, ret=2 * at + 1, key=key, rows=(at + 1, at + 2))
        for at, (f, value) in enumerate(calls)
    ]
    return History(id=name, model="register", operations=operations)


GOOD, BAD = a_history("good", "1"), a_history("bad", "1", "2")


def title(path: Path) -> str:
    text = path.read_text("utf-8")
    return text[text.index("<title>") + 7 : text.index("</title>")]


def test_one_page_shows_the_worst_history(tmp_path: Path) -> None:
    pages = TimelinePages(tmp_path / "new" / "page.html")
    drawn = [pages.add(Path("f"), history, examine(history)) for history in (GOOD, BAD, GOOD, BAD)]
    assert drawn == [tmp_path / "new" / "page.html", tmp_path / "new" / "page.html", None, None]
    assert title(tmp_path / "new" / "page.html") == "INVALID: bad (register)"


def test_a_directory_gets_a_page_for_each_that_is_not_valid(tmp_path: Path) -> None:
    pages = TimelinePages(tmp_path)
    hostile = a_history("../../x/<b>", "2")
    for history in (GOOD, BAD, hostile, hostile):
        pages.add(Path("some/file.edn"), history, examine(history))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["file.edn-.._.._x__b_-2.html", "file.edn-.._.._x__b_.html", "file.edn-bad.html"]


def test_a_page_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot write the timeline"):
        TimelinePages(tmp_path / "file" / "page.html").add(Path("f"), BAD, examine(BAD))


def test_a_violation_has_its_dead_ends_and_calls_as_the_terminal_names_them() -> None:
    (timeline,) = timelines(BAD, examine(BAD))
    assert [call.label for call in timeline.calls] == ["write 1", "read 1", "read 2"]
    assert timeline.calls[2].detail == "line 3 to 4"
    assert timeline.reason == "read 2 by process 2 can't be placed; the state there: 1."
    assert (timeline.verdict, timeline.blocked, list(timeline.minimal)) == ("invalid", 2, [2])
    assert (timeline.orders[0].order, timeline.orders[0].states) == ((0, 1), ("1", "1"))
    assert timeline.minimal_orders[0].illegal == {2: "it read 2, the object then holds nil"}


def test_a_valid_history_shows_its_linearization() -> None:
    (timeline,) = timelines(GOOD, examine(GOOD, orders=True))
    assert (timeline.verdict, timeline.orders[0].order, timeline.orders[0].states) == ("valid", (0, 1), ("1", "1"))


def test_what_is_undecided_says_how_far_the_search_came() -> None:
    gap = Undecided(key='"a"', reason="time", placed=1, of=2)
    result = Result(id="h", valid=None, ms=1.0, configs=9, peak_mib=0.0, undecided=(gap,))
    (timeline,) = timelines(a_history("h", "1", key='"a"'), result)
    assert (timeline.key, timeline.verdict, timeline.placed, timeline.of) == ('"a"', "unknown", 1, 2)
    assert "the time was up" in timeline.reason


def test_a_history_that_nobody_judged_says_so_at_every_object() -> None:
    died = Undecided(key=None, reason="the JVM died", placed=0, of=2)
    result = Result(id="h", valid=None, ms=1.0, configs=0, peak_mib=0.0, undecided=(died,))
    (timeline,) = timelines(a_history("h", "1", key='"a"'), result)
    assert (timeline.verdict, timeline.of) == ("unknown", 0)
    assert "the JVM died" in timeline.reason


def test_objects_beside_a_violation_are_not_called_valid() -> None:
    """The search ended with the first violation: nobody has looked at the others to the end."""
    both = [*a_history("x", "2", key="1").operations, *a_history("x", "1", key="2").operations]
    moved = [
        Operation(process=o.process, f=o.f, arguments=o.arguments, key=o.key, call=2 * at, ret=2 * at + 1)
        for at, o in enumerate(both)
    ]
    history = History(id="x", model="register", operations=moved)
    found = {timeline.key: timeline.verdict for timeline in timelines(history, examine(history, every_key=False))}
    assert found["1"] == "invalid"
    assert found["2"] == "unknown"


def test_the_command_draws_what_it_judged(tmp_path: Path) -> None:
    def op(process: int, kind: str, f: str, value: Any) -> dict[str, Any]:
        return {"process": process, "type": kind, "f": f, "value": value}

    ops = [op(0, "invoke", "write", 1), op(0, "ok", "write", 1), op(1, "invoke", "read", None), op(1, "ok", "read", 2)]
    file = tmp_path / "h.jsonl"
    file.write_text(json.dumps({"id": "h-1", "model": "register", "ops": ops}) + "\n")
    page = tmp_path / "page.html"
    done = CliRunner().invoke(linearize, ["--engine", "python", "--json", "--html", str(page), str(file)])
    assert done.exit_code == 1, done.output
    assert json.loads(done.stdout.splitlines()[0])["valid"] is False
    assert "orders" not in done.stdout, "not asked for"
    (timeline,) = data_of(page)["objects"]
    assert [call[2] for call in timeline["calls"]] == ["write 1", "read 2"]
