"""What clients did comes to the same in pictures, whether their rows are held, or given in pieces and forgotten."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import reports
from chaos.history import shards, typed
from chaos.history.directory import write_meta, write_verdict
from chaos.history.recorder import read_rows
from chaos.judging.plan import plan
from chaos.judging.registry import registry
from chaos.verdict import Validity
from reports.messages import Messages
from reports.operations import Operations
from reports.rows import RunRows
from reports.run_report.fates import fates
from reports.run_report.gathered import gather
from reports.summary import tell
from tests.reports.run_report.histories import History
from tests.reports.run_report.test_html import judged

ENDS = ("ok", "ok", "ok", "fail", "info", "")


def record(run: Path, seed: int, messages: int, queues: int = 4) -> None:
    """Sends of all ends, some to another queue than their messages were made for, pulls and a reading to the end."""
    rng, history = Random(f"operations {seed}"), History(run)
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


def found(rows: RunRows, operations: Operations) -> object:
    story = tell(rows, (), operations)
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
    table, _ = read_rows(tmp_path)
    whole = RunRows(table)
    rng = Random(f"pieces {seed}")
    queue = table["queue"].to_numpy()
    pieces = [table.filter(pa.array(queue == one)) for one in np.unique(queue)]  # as shards have them
    cut = [piece.slice(at, 7) for piece in pieces for at in range(0, piece.num_rows, 7)]
    some = Operations(whole)
    for piece in rng.sample(pieces, len(pieces)) if seed % 3 else cut:
        some.add(piece)
    assert found(whole, some) == found(whole, Operations.of(whole))


@pytest.fixture
def parted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SINGLE_SHARD_ROWS", 0)
    monkeypatch.setattr(typed, "BATCH_ROWS", 50)


def part(run: Path) -> None:
    write_meta(run, {"run": "r", "seed": 7, "state": "finished"})
    write_verdict(run, judged(Validity.VALID))
    shards.write(run, read_rows(run)[0], plan(registry().kernels))


@pytest.mark.usefixtures("parted")
def test_the_page_of_a_large_run_is_that_of_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, 1, 400)
    part(tmp_path)
    page = reports.render(tmp_path).read_text("utf-8")
    assert "The same by who acknowledged it" in page and "Latency of acknowledged sends" in page
    monkeypatch.setattr(typed.TypedRun, "is_large", False)
    assert gather(tmp_path, (), is_broken=False).operations is None
    assert reports.render(tmp_path).read_text("utf-8") == page


@pytest.mark.usefixtures("parted")
def test_the_rows_that_a_page_without_violations_holds_do_not_grow_with_the_messages(tmp_path: Path) -> None:
    held = []
    for messages in (200, 2_000):
        run = tmp_path / str(messages)
        run.mkdir()
        record(run, 1, messages)
        part(run)
        found = gather(run, (), is_broken=False)
        assert found.operations is not None and found.operations.delivered > messages / 2
        kind, f = (found.rows.table[name].to_pylist() for name in ("kind", "f"))
        # besides these there are the first and the latest row of what is read at a time
        held.append(sum(one[0] != "op" or one[1] == "drain" for one in zip(kind, f, strict=True)))
    assert held[0] == held[1] < 20


def test_of_a_message_a_few_numbers_are_kept() -> None:
    many, messages = 50_000, Messages()
    number = np.arange(many)
    messages.add("asked", number, queue=np.zeros(many, np.int64), time_ns=number * 10**6)
    messages.add("ok", number, offset=number, node=number % 3)
    messages.add("final", number)
    columns = [column for pile in messages._piles.values() for held in pile._held.values() for column in held]
    assert sum(column.nbytes for column in columns) <= 30 * many
    (told,) = messages.groups()
    assert told["asked"].message.tolist() == told["ok"].offset.tolist() == number.tolist()
