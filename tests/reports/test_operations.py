"""What clients did comes to the same in pictures, whether their rows are held, or given in pieces and forgotten."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import reports
from chaos.history.directory import write_meta, write_verdict
from chaos.history.history import History
from chaos.history.row_files import RowFiles
from chaos.verdict import Validity
from reports import messages, operations
from reports.drawn import drawn_of
from reports.message_table import BLOCK, Bit, MessageTable, Parts
from reports.operations import Operations
from reports.run_report import thinned
from reports.run_report.axis import moments
from reports.run_report.fates import fates
from reports.run_report.figure import axis_of
from reports.run_report.gathered import gather
from reports.summary import summarise
from tests.chaos.history.runs import make_large
from tests.reports.run_report.histories import MadeRun
from tests.reports.run_report.test_html import judged

#: No queue was read to its end.
NOTHING = (np.empty(0, np.int64), np.empty(0, np.int64))
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
    history.phase(0.1 * messages, "drain")
    for queue in range(queues):
        op = history.op(0.1 * messages + 1, "drain-0.0", "drain", "invoke", queue=queue, offset=rng.randrange(3))
        history.op(0.1 * messages + 2, "drain-0.0", "drain", "ok", queue=queue, offset=messages, op=op)
    for number in range(messages):
        if rng.random() < 0.8:
            history.read(0.1 * messages + 1.5, (rng.randrange(queues) << 40) | number, number)
    history.recorder.close()


def found(rows: History, operations: Operations) -> object:
    story = summarise(rows, (), operations)
    overall, replicas = fates(operations)
    told = [] if story.latencies is None else [list(story.latencies.x), list(story.latencies.y)]
    return (
        (story.outages, story.throughput, story.latency, story.counts, told),
        [(one.label, one.bad, list(one.sent_s)) for one in overall],
        [(one.node, list(one.kept_s), list(one.missing_s)) for one in replicas],
    )


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_are_given_in_pieces_come_to_the_same(tmp_path: Path, seed: int) -> None:
    record(tmp_path, seed, 120)
    whole = History.open(tmp_path)
    rng, table = Random(f"pieces {seed}"), whole.table
    queue = table["queue"].to_numpy()
    pieces = [table.filter(pa.array(queue == one)) for one in np.unique(queue)]  # in any order
    cut = [piece.slice(at, 7) for piece in pieces for at in range(0, piece.num_rows, 7)]
    some = Operations(whole)
    for piece in rng.sample(pieces, len(pieces)) if seed % 3 else cut:
        some.add(piece)
    assert found(whole, some) == found(whole, Operations.of(whole))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded is large, and read in pieces of few rows."""
    make_large(monkeypatch, 1, 50)


def end(run: Path) -> None:
    write_meta(run, {"run": "r", "seed": 7, "state": "finished"})
    write_verdict(run, judged(Validity.VALID))


@pytest.mark.usefixtures("large")
def test_the_page_of_a_large_run_is_that_of_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, 1, 400)
    end(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(RowFiles, "recorded_blocks", None)
        page = reports.render(tmp_path).read_text("utf-8")
    assert "The same by who acknowledged it" in page and "Latency of acknowledged sends" in page
    make_large(monkeypatch, 1 << 20, 50)
    assert gather(tmp_path, (), is_broken=False).operations is None
    assert reports.render(tmp_path).read_text("utf-8") == page


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


def summed(monkeypatch: pytest.MonkeyPatch, whole: History, pieces: int) -> Operations:
    """What is taken from these rows in so many pieces, when hardly any may be held."""
    monkeypatch.setattr(operations, "HELD", 20)
    monkeypatch.setattr(messages, "HELD", 50)
    found, table = Operations(whole), whole.table
    number = np.random.default_rng(0).integers(0, pieces, table.num_rows)
    cut = [table.filter(pa.array(number == piece)) for piece in range(pieces)]
    for piece in cut:
        found.add(piece)
    found.look_again(lambda: cut)
    monkeypatch.undo()
    assert found.messages.table is not None
    return found


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 6))])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_what_is_summarised_is_what_all_numbers_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, missing: float
) -> None:
    load(tmp_path, seed, 600, missing)
    whole = History.open(tmp_path)
    some = summed(monkeypatch, whole, 1 + 5 * (seed % 3))
    story, told = summarise(whole, (), Operations.of(whole)), summarise(whole, (), some)
    assert story.outages == told.outages and (len(told.outages) > 4 or not seed % 2)
    assert story.throughput == told.throughput and story.counts == told.counts
    for one, other in zip(story.latency, told.latency, strict=True):
        assert one.label == other.label and list(one.x) == list(other.x)
        assert np.asarray(other.y) == pytest.approx(np.asarray(one.y), rel=0.011 if one.label != "max" else 1e-12)
    exact, near = fates(Operations.of(whole)), fates(some)
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


def test_the_dots_of_a_summary_are_those_of_all_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(tmp_path, 1, 1_000)
    whole = History.open(tmp_path)
    told = summarise(whole, (), summed(monkeypatch, whole, 4)).latencies
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
    """In bytes: once there is too much to be held, ten times the messages take no more, in a run of the same length;
    besides the messages themselves, of which a block stands for a million."""
    monkeypatch.setattr(operations, "HELD", 100)
    monkeypatch.setattr(messages, "HELD", 100)
    monkeypatch.setattr(thinned, "HELD", 40)
    held = []
    for count in (200, 2_000):
        run = tmp_path / str(count)
        run.mkdir()
        load(run, 1, count, pace=200 / count)
        end(run)
        found = gather(run, (), is_broken=False)
        assert found.operations is not None and found.operations.messages.table is not None
        assert found.operations.completed["send", "ok"] > count / 2
        kind, f = (found.drawn.table[name].to_pylist() for name in ("kind", "f"))
        # besides these there are the first and the latest row of what is read at a time
        rows = sum(one[0] != "op" or one[1] == "drain" for one in zip(kind, f, strict=True))
        held.append((rows, found.operations.nbytes))
    assert held[1][0] < 80
    assert held[1][1] < 1.1 * held[0][1]


def test_of_a_message_a_few_numbers_are_kept() -> None:
    many, held = 50_000, messages.Messages(lambda: MessageTable(Parts(0, 60), NOTHING))
    number = np.arange(many)
    held.add("asked", number, queue=np.zeros(many, np.int64), time_ns=number * 10**6)
    held.add("ok", number, offset=number, node=number % 3)
    held.add("final", number)
    assert many < held.nbytes <= 30 * many
    (told,) = held.groups()
    assert told["asked"].message.tolist() == told["ok"].offset.tolist() == number.tolist()


def test_of_very_many_messages_five_bytes_are_kept() -> None:
    many = 2 * BLOCK
    table = MessageTable(Parts(0, 60), NOTHING)
    for begin in range(0, many, BLOCK):
        number = np.arange(begin, begin + BLOCK)
        table.sent(number, number / many * 60)
        table.acknowledged(number, number, number % 3)
        table.said(Bit.FINAL, number)
    assert table.nbytes == 5 * many
    assert [int(block.has(Bit.ASKED, Bit.OK, Bit.FINAL).sum()) for block in table.blocks] == [BLOCK] * 2
