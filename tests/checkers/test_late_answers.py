"""When a send has to be answered that can't be acknowledged in time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checkers.histories import BROKERS, History, content, m
from tests.checkers.names import A, L

LAW = L.AVAILABILITY


def asked(
    after_s: float,
    *,
    type: str = "info",
    node: str = "broker-0",
    limit_ms: int | None = 400,
    fault: tuple[str, str] | None = None,
    calm_s: float = 0.0,
) -> History:
    """A send that ``broker-0``, where a message may wait for 400 ms, has answered so long after it was made."""
    history = History()
    history.phase("load")
    for name in BROKERS[1:]:
        history.role(name, "slave", 1)
    history.master("broker-0", 1)
    if limit_ms is not None:
        value = {"role": "master", "master": "broker-0", "ack_timeout_ms": limit_ms}
        history.trace("broker-0", "role", epoch=1, value=value)
    history.send(0)
    if fault is not None:
        history.undo(fault[0], history.inject(*fault))
        history.wait(calm_s)
    op = history.invoke("send", process="producer-0.0", queue=0, message=m(1), hash=content(m(1)))
    history.wait(after_s)
    history.complete(op, type, offset=1 if type == "ok" else -1, node=node, epoch=1, incarnation=1)
    return history


def found(history: History) -> list[str]:
    return [one.explanation for one in history.verdict(LAW).anomalies if one.name == A.LATE_ANSWER]


@pytest.mark.parametrize("type", ["info", "ok", "fail"])
def test_a_send_that_a_broker_answered_too_late_is_found(type: str) -> None:
    (text,) = found(asked(0.7, type=type))
    assert "broker-0 answered a send to queue 0" in text and "may wait 400 ms" in text


@pytest.mark.parametrize(
    "how",
    [
        {"after_s": 0.55},  # it was on its way besides
        {"after_s": 0.7, "node": ""},  # the client gave up, and nobody knows who was asked
        {"after_s": 0.7, "limit_ms": None},  # nobody tells how long a message may wait
        {"after_s": 0.7, "limit_ms": 1500},
    ],
)
def test_who_answers_in_time_or_never_or_promises_no_time_is_not_late(how: dict[str, Any]) -> None:
    assert not found(asked(**how))


@pytest.mark.parametrize(
    ("fault", "calm_s", "lawful"),
    [
        (("slow_link", "broker-0"), 1.0, True),
        (("pause", "nameserver-0"), 0.0, True),  # a client asks it where the master is
        (("slow_link", "broker-0"), 4.0, False),
        (("pause", "broker-1"), 0.0, False),  # that is what the time is for
    ],
)
def test_a_fault_of_another_broker_is_no_excuse(fault: tuple[str, str], calm_s: float, lawful: bool) -> None:
    assert bool(found(asked(0.7, fault=fault, calm_s=calm_s))) is not lawful


@pytest.mark.parametrize(("after_s", "lawful"), [(2.5, True), (2.7, False)])
def test_each_message_on_the_way_may_take_as_much_longer_as_the_run_says(after_s: float, lawful: bool) -> None:
    history = asked(after_s)
    history.meta["jitter_s"] = 0.25
    assert bool(found(history)) is not lawful


def test_real_machines_may_be_late() -> None:
    history = asked(0.7)
    history.meta["deployment"] = "process"
    assert not found(history)
