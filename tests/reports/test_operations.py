"""What clients did comes to the same in pictures, whether their rows are held, or given in pieces and forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reports
from chaos.history.directory import write_meta, write_verdict
from chaos.history.history import History
from chaos.history.pieces import Held
from chaos.history.row_files import RowFiles
from chaos.judging.in_process import InProcess
from chaos.judging.summary import divide
from chaos.verdict import Anomaly, Validity
from reports.drawn import drawn_of
from reports.operations import Operations
from reports.run_report import run_summary
from reports.run_report.axis import moments
from reports.run_report.fates import Fate, ReplicaFate, fates
from reports.run_report.figure import axis_of
from reports.run_report.gathered import gather
from reports.run_report.run_summary import RunSummary, Summarised
from reports.send_summary import SendSummary
from reports.summary import summarise
from tests.chaos.history.runs import make_large
from tests.checkers.names import A, L
from tests.reports.run_report.histories import MadeRun, in_large
from tests.reports.run_report.test_html import judged

ENDS = ("ok", "ok", "ok", "fail", "info", "")


def record(run: Path, seed: int, messages: int, queues: int = 4) -> None:
    """Sends of all ends, some to another queue than their messages were made for, pulls and a reading to the end."""
    rng, history = Random(f"operations {seed}"), MadeRun(run)
    for number in range(messages):
        at, message = 0.1 * number + rng.random(), (rng.randrange(queues) << 40) | number
        queue = message >> 40 if rng.random() < 0.95 or seed % 2 else rng.randrange(queues)
        process = rng.choice(("producer-0.0", "producer-1.3", "probe.0", "other"))
        asked = {"queue": queue, "message": message}
        op = history.op(at, process, "send", "invoke", **asked)
        if end := rng.choice(ENDS):
            node, offset = rng.choice(("broker-0", "broker-1", "")), rng.randrange(messages)
            told = {"node": node, "offset": offset} if end == "ok" else {}
            known = op if rng.random() < 0.95 else -1
            history.op(at + rng.choice((0.01, 0.4, 3.0)), process, "send", end, op=known, **asked, **told)
        if rng.random() < 0.2:
            history.op(at, "consumer-0.0", "pull", rng.choice(("ok", "fail")), queue=queue)
            history.read(at, message, number)
    end_s = 0.1 * messages + 1
    history.phase(end_s, "drain")
    for queue in range(queues):
        op = history.op(end_s + 1, "drain-0.0", "drain", "invoke", queue=queue, offset=rng.randrange(3))
        history.op(end_s + 2, "drain-0.0", "drain", "ok", queue=queue, offset=messages, op=op)
    for number in range(messages):
        if rng.random() < 0.8:
            history.read(end_s + 1.5, (rng.randrange(queues) << 40) | number, number)
    history.recorder.close()


def summed(whole: History, tables: Sequence[pa.Table], buckets: int = 3) -> Summarised:
    """What pieces with these rows come to, in so many buckets of each kind."""
    pieces = [Held(table) for table in tables if table.num_rows]
    with pytest.MonkeyPatch.context() as patched, InProcess() as tasks:
        patched.setattr(run_summary, "BUCKET_ROWS", 1)
        patched.setattr(run_summary, "MOST_BUCKETS", buckets)
        patched.setattr(run_summary, "PAGE", 8)
        summary = RunSummary.of(pieces)
        assert summary.buckets == 1 + 3 * buckets
        return summary.collected(tasks.shuffled(divide, summary, pieces, summary.buckets).collect)


def cut(table: pa.Table, rng: Random, pieces: int) -> list[pa.Table]:
    """Rows that follow one another, some of them each."""
    places = sorted(rng.randrange(table.num_rows) for _ in range(pieces - 1))
    return [table.slice(begin, end - begin) for begin, end in pairwise([0, *places, table.num_rows])]


@pytest.mark.parametrize("seed", range(12))
def test_what_is_made_of_pieces_and_put_together_is_what_all_rows_tell(tmp_path: Path, seed: int) -> None:
    """Wherever the rows of an operation and of a message stand."""
    record(tmp_path, seed, 120)
    whole = History.open(tmp_path)
    some = summed(whole, cut(whole.table, Random(f"pieces {seed}"), 1 + seed), buckets=1 + seed % 4)
    story, told = summarise(whole, (), Operations.of(whole)), summarise(whole, (), some.operations)
    assert story.throughput == told.throughput and story.counts == told.counts
    for exact, near in zip(fates(whole), some.fates, strict=True):
        assert [(one.count, replace(one, **NO_MOMENTS[type(one)])) for one in exact] == [
            (one.count, replace(one, **NO_MOMENTS[type(one)])) for one in near
        ]
    assert [one.lost for one in fates(whole)[1]] == [one.lost for one in some.fates[1]]


#: How a fate is without the moments of its messages.
NO_MOMENTS: Mapping[Any, Any] = {
    Fate: {"sent_s": (), "counts": None},
    ReplicaFate: {"kept_s": (), "missing_s": (), "kept": None, "missing": None},
}


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded is large, and read in pieces of few rows."""
    make_large(monkeypatch, 1, 50)


def end(run: Path) -> None:
    write_meta(run, {"run": "r", "seed": 7, "state": "finished"})
    lawful = Anomaly(law=L.DURABILITY, name=A.LOST, explanation="sent twice", rows=(3, 99), lawful=True)
    write_verdict(run, judged(Validity.VALID, (lawful,)))


@pytest.mark.usefixtures("large")
def test_the_page_of_a_large_run_is_that_of_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(tmp_path, 1, 250, 0.2)
    end(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(RowFiles, "recorded_blocks", None)
        page = reports.render(tmp_path).read_text("utf-8")
    assert "Messages by who acknowledged them" in page and "Latency of acknowledged sends" in page
    make_large(monkeypatch, 1 << 20, 50)
    assert gather(tmp_path, ()).summarised is None
    assert in_large(reports.render(tmp_path).read_text("utf-8")) == in_large(page)


def load(run: Path, seed: int, messages: int, missing: float = 0.0, pace: float = 1.0) -> None:
    """Clients that wait for each answer send to four queues, of which each is unserved for a while; some messages are
    sent again, some are in an older part of their queue that is removed before the final reading, some are lost."""
    rng, history = Random(f"load {seed}"), MadeRun(run)
    offset, removed = Counter[int](), 40
    free = {f"producer-{number}": 0.0 for number in range(5)}
    stored: list[tuple[int, int]] = []
    for number in range(messages):
        client = min(free, key=lambda one: (free[one], one))
        at, queue = free[client], number % 4
        message = queue << 40 | number // 4
        down = int(at / 7) % 5 == queue and seed % 2
        for end in ("info", "ok") if rng.random() < 0.1 else ("fail" if down else "ok",):
            op = history.op(at, f"{client}.0", "send", "invoke", queue=queue, message=message)
            at += pace * rng.choice((0.0, 0.0004, 0.013, 0.7, 1.4 if number % 31 == 0 else 0.2))
            told = {"node": rng.choice(("broker-0", "broker-1")), "offset": offset[queue]} if end == "ok" else {}
            history.op(at, f"{client}.0", "send", end, op=op, queue=queue, message=message, **told)
            if end == "ok":
                stored.append((message, offset[queue]))
                offset[queue] += 1
        free[client] = at + pace * rng.random() / 4
        if number % 8 == 0:
            state = {"end": number, "confirm": number}
            history.recorder.record(
                "poll", f="state", type="ok", node=f"broker-{number % 3}", value=state, time_ns=int(at * 1e9)
            )
    end_s = max(free.values())
    history.phase(end_s, "drain")
    for queue in range(4):
        op = history.op(end_s + 1, "drain-0.0", "drain", "invoke", queue=queue, offset=removed)
        history.op(end_s + 2, "drain-0.0", "drain", "ok", queue=queue, offset=offset[queue], op=op)
    for message, at_offset in stored:
        if at_offset >= removed and rng.random() >= missing and not (missing and at_offset > offset[0] - 3):
            history.read(end_s + 1.5, message, at_offset)
    history.recorder.close()


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 6))])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_what_is_summarised_is_what_all_numbers_tell(tmp_path: Path, seed: int, missing: float) -> None:
    load(tmp_path, seed, 600, missing)
    whole = History.open(tmp_path)
    some = summed(whole, cut(whole.table, Random(seed), 1 + 5 * (seed % 3)), buckets=1 + seed)
    story, told = summarise(whole, (), Operations.of(whole)), summarise(whole, (), some.operations)
    assert story.outages == told.outages and (len(told.outages) > 4 or not seed % 2)
    assert story.throughput == told.throughput and story.counts == told.counts
    for one, other in zip(story.latency, told.latency, strict=True):
        assert one.label == other.label and list(one.x) == list(other.x)
        assert np.asarray(other.y) == pytest.approx(np.asarray(one.y), rel=0.011 if one.label != "max" else 1e-12)
    exact, near = fates(whole), some.fates
    assert [(one.label, one.bad, one.count) for one in exact[0]] == [(one.label, one.bad, one.count) for one in near[0]]
    assert {one.label for one in exact[0]} >= {"in the final read", "removed before"}
    assert any(one.bad for one in exact[0]) == bool(missing)
    assert [(one.node, one.count, one.lost) for one in exact[1]] == [(one.node, one.count, one.lost) for one in near[1]]
    axis = axis_of(story)
    assert axis_of(told) == axis and (axis.left_s, axis.right_s) == drawn_of(whole)
    for one, other in zip(exact[0], near[0], strict=True):
        drawn = [moments(axis, fate.sent_s, "kept", each=False, counts=fate.counts) for fate in (one, other)]
        assert drawn[0] == drawn[1]
        assert list(other.sent_s)[:: len(other.sent_s) - 1 or 1] == pytest.approx(
            list(one.sent_s)[:: len(one.sent_s) - 1 or 1], abs=axis.span_s / 1000
        )


def test_the_dots_of_a_summary_are_those_of_all_sends(tmp_path: Path) -> None:
    load(tmp_path, 1, 1_000)
    whole = History.open(tmp_path)
    told = summarise(whole, (), summed(whole, cut(whole.table, Random(1), 4)).operations).latencies
    story = summarise(whole, ()).latencies
    assert story is not None and told is not None and min(story.y) == min(told.y) == 0 < max(told.y) == max(story.y)
    wide_s = (drawn_of(whole)[1] - drawn_of(whole)[0]) / 1000
    drawn = {(int((x - drawn_of(whole)[0]) / wide_s + 1e-6), y) for x, y in zip(told.x, told.y, strict=True)}
    for x, y in zip(story.x, story.y, strict=True):
        column = (x - drawn_of(whole)[0]) / wide_s
        assert any(abs(one - column) <= 1.5 and y == pytest.approx(high, rel=0.011) for one, high in drawn)


@pytest.mark.usefixtures("large")
def test_what_a_page_without_violations_holds_does_not_grow_with_the_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bytes: ten times the messages take no more, in a run of the same length."""
    monkeypatch.setattr(run_summary, "HELD", 40)
    held = []
    for count in (200, 2_000):
        run = tmp_path / str(count)
        run.mkdir()
        load(run, 1, count, pace=200 / count)
        end(run)
        found = gather(run, ())
        assert found.summarised is not None and found.operations.completed["send", "ok"] > count / 2
        sends = found.operations.sends
        assert isinstance(sends, SendSummary)
        held.append((found.drawn.num_rows, sends.nbytes))
    assert held[1][0] < 80
    assert held[1][1] < 1.5 * held[0][1]
