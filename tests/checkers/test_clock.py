"""One clock: prose, tables, JUnit and command line count seconds from the start of the load."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from chaos.history import history as run_history
from chaos.history.run_meta import RunMeta
from chaos.judging.engine import judge_rows
from chaos.verdict import RunVerdict, Validity
from reports.run_report import junit
from reports.summary import summarise
from stormproof.commands import _verdict
from tests.checkers.histories import History

TIME = re.compile(r"\b(?:at|by|from) (-?\d+\.\d+) s\b")


def broken() -> History:
    """Anomalies of several laws, in a run whose load begins seconds after its setup."""
    history = History()
    history.phase("setup")
    history.trace("broker-0", "role", epoch=1, value={"role": "fenced"})
    history.wait(7)
    history.phase("load")
    for sequence in range(4):
        history.send(sequence)
    history.send(9, 2)
    history.pull(0, 0, 1, group="g")
    history.pull(1, 0, group="g")
    history.commit(4)
    history.committed(2)
    history.committed(9)
    asked = history.invoke("pull", queue=0, offset=1, value={"group": "g"})
    history.complete(asked, value={"maximum": 4, "following": 1}, node="broker-0", epoch=1)
    return history.finish(0, 1)


def recorded(history: History) -> run_history.History:
    return run_history.History.of(history.recorded(), RunMeta())


def verdict_of(history: History) -> RunVerdict:
    laws = judge_rows([("all-0", history.table())], history.context())
    same: dict[str, Any] = {"digest": "", "engine": "local", "seconds": 0.0}
    return RunVerdict(run="no-such-run", seed=1, validity=Validity.INVALID, laws=laws, **same)


def test_prose_and_tables_tell_one_time_of_each_row() -> None:
    history = broken()
    verdict = verdict_of(history)
    anomalies = [anomaly for law in verdict.laws for anomaly in law.anomalies]
    story = summarise(recorded(history), [row for anomaly in anomalies for row in anomaly.rows])
    spoken: Mapping[str, int] = {anomaly.law: len(TIME.findall(anomaly.explanation)) for anomaly in anomalies}
    assert {law for law, times in spoken.items() if times} >= {
        "agreement",
        "consumers",
        "durability",
        "order",
        "progress",
    }
    for anomaly in anomalies:
        shown = {f"{story.witnesses[row].at_s:.3f}" for row in anomaly.rows}
        assert set(TIME.findall(anomaly.explanation)) <= shown, (anomaly.explanation, shown)


def test_the_clock_begins_with_the_load_and_without_one_with_the_run() -> None:
    def zero_ns(*phases: str) -> int:
        history = History()
        for phase in phases:
            history.wait(2)
            history.phase(phase)
        history.send(0)
        history.send(1, 0)
        (law,) = (law for law in verdict_of(history).laws if law.law == "order")
        (anomaly,) = law.anomalies
        story = summarise(recorded(history), anomaly.rows)
        second = TIME.findall(anomaly.explanation)[0]
        assert second == f"{story.witnesses[anomaly.rows[1]].at_s:.3f}"
        return story.zero_ns

    assert zero_ns("setup", "load", "heal") == 4_020_000_000
    assert zero_ns("setup") == 2_010_000_000
    assert zero_ns() == 10_000_000


def test_junit_and_the_command_line_repeat_the_prose(tmp_path: Path) -> None:
    verdict = verdict_of(broken())
    said = [anomaly.explanation for law in verdict.laws for anomaly in law.anomalies if not anomaly.lawful]
    text = junit.write(tmp_path, verdict, RunMeta()).read_text("utf-8").replace("&gt;", ">").replace("&lt;", "<")
    assert all(explanation in text for explanation in said)
    out = io.StringIO()
    found = _verdict.Outcome(verdict=verdict, meta=RunMeta(), trouble="it has no rows")
    _verdict.show_run(found, Console(file=out, width=1000, highlight=False), _verdict.View.PROMISES)
    kinds: dict[tuple[str, str], str] = {}
    for law in verdict.laws:
        for anomaly in law.anomalies:
            if not anomaly.lawful:
                kinds.setdefault((law.law, anomaly.name), anomaly.explanation)
    told = [line.partition("): ")[2] for line in out.getvalue().splitlines() if "): " in line]
    assert told == list(kinds.values())[: _verdict.EXPLAINED], "one finding of each kind"
