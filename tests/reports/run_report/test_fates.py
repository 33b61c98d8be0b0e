"""What became of each message, told from what its sender and the final reading saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.run_report.fates import fates
from tests.reports.run_report.histories import MadeRun, stale_master


def send(
    history: MadeRun, at: float, message: int, *ends: str, process: str = "producer-0.0", offset: int = -1
) -> None:
    for end in ends or ("invoke",):
        op = history.op(at, process, "send", "invoke", queue=message >> 40, message=message)
        if end != "invoke":
            columns = {"op": op, "queue": message >> 40, "message": message, "offset": offset}
            history.op(at + 0.1, process, "send", end, **columns)


def told(history: MadeRun) -> dict[str, int]:
    rows, _ = history.close()
    overall, _ = fates(rows)
    return {fate.label: fate.count for fate in overall}


def drained(history: MadeRun, queue: int, begin: int) -> None:
    op = history.op(8.0, "drain-0.0", "drain", "invoke", queue=queue, offset=begin)
    history.op(9.0, "drain-0.0", "drain", "ok", queue=queue, offset=100, op=op)


def test_the_message_that_a_stale_master_acknowledged_is_missing(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    stale_master(history)
    drained(history, 0, 0)
    rows, _ = history.close()
    found, replicas = fates(rows)
    assert [(fate.label, fate.count, fate.bad) for fate in found] == [
        ("in the final read", 2, False),
        ("missing: middle", 1, True),
    ]
    assert list(found[1].sent_s) == [2.0]
    assert [(one.node, one.count, list(one.missing_s)) for one in replicas] == [
        ("broker-0", 2, [2.0]),
        ("broker-1", 1, []),
    ]


@pytest.mark.parametrize(
    ("read", "shapes"),
    [
        ({2, 3, 4, 5}, {"missing: beginning": 2}),
        ({0, 1, 2}, {"missing: end": 3}),
        ({0, 3, 5}, {"missing: middle": 3}),
        ({1, 4}, {"missing: beginning": 1, "missing: middle": 2, "missing: end": 1}),
        (set(), {"missing: whole queue": 6}),
    ],
)
def test_a_loss_has_the_shape_of_the_part_of_its_queue_that_is_gone(
    tmp_path: Path, read: set[int], shapes: dict[str, int]
) -> None:
    history, other = MadeRun(tmp_path), 1 << 40
    for message in range(6):
        send(history, 1.0 + message, message, "ok", offset=message)
    send(history, 1.5, other, "ok", offset=0)
    history.phase(7.5, "drain")
    for message in read:
        history.read(8.5, message, message)
    drained(history, 0, 0)
    assert {label: count for label, count in told(history).items() if label.startswith("missing")} == shapes


def test_fates_follow_from_the_answers_to_all_attempts(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    send(history, 1.0, 1, "fail")
    send(history, 1.0, 2, "fail", "info")
    send(history, 1.0, 3, "info", "ok", offset=3)
    send(history, 1.0, 4, "info")
    send(history, 1.0, 5)
    send(history, 1.0, 6, "ok", process="probe.0", offset=6)
    history.phase(6.0, "drain")
    history.read(7.0, 3, 3)
    history.read(7.0, 4, 4)
    drained(history, 0, 0)
    assert told(history) == {"in the final read": 1, "outcome unknown, read": 1, "outcome unknown": 2, "refused": 1}


def test_nothing_is_missing_that_the_final_reading_did_not_go_past(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    other = 1 << 40
    send(history, 1.0, 1, "ok", offset=1)
    send(history, 1.0, other, "ok", offset=0)
    history.phase(6.0, "drain")
    drained(history, 0, 2)
    assert told(history) == {"removed before": 1, "not read out": 1}


def test_a_run_without_sends_has_no_fates(tmp_path: Path) -> None:
    assert told(MadeRun(tmp_path)) == {}


def test_messages_that_nobody_sent_have_no_fate_and_break_no_page(tmp_path: Path) -> None:
    """What was spoiled on its way reads as a message of a queue to which nothing was ever sent."""
    history = MadeRun(tmp_path)
    send(history, 1.0, 1, "ok", offset=1)
    history.phase(6.0, "drain")
    history.read(7.0, 1, 1)
    history.read(7.5, (1 << 40) + 5, 0)
    drained(history, 0, 0)
    assert told(history) == {"in the final read": 1}
