"""Latencies before, during and after a fault: the same numbers, however the sends come."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from reports.fault_latency import FaultLatencies
from reports.faults import FaultLine

KILL = FaultLine(name="kill", id="f-0", targets="a", start_s=10.0, end_s=12.0, effective="yes", proof="")
LATE = FaultLine(name="pause", id="f-1", targets="b", start_s=18.0, end_s=25.0, effective="yes", proof="")
NONE = FaultLine(name="loss", id="f-2", targets="c", start_s=1.0, end_s=2.0, effective="no", proof="")


def test_each_fault_has_quantiles_around_it_and_the_time_to_the_first_ok() -> None:
    second = np.array([4.9, 5.0, 7.0, 9.9, 11.0, 12.5, 16.0, 17.5, 19.9, 26.0])
    found = FaultLatencies([KILL, LATE, NONE], 20.0)
    found.add(second, np.array([90.0, 1.0, 2.0, 3.0, 500.0, 7.0, 8.0, 9.0, 10.0, 11.0]))
    kill, pause = found.lines()
    assert kill.before and kill.during and kill.after
    assert (kill.before.count, kill.during.count, kill.after.count) == (3, 1, 2)
    assert kill.before.p50_ms == pytest.approx(2.0, rel=0.02) and kill.before.max_ms == 3.0
    assert (kill.during.p50_ms, kill.first_ok_s) == (500.0, 0.5)
    assert pause.during and pause.during.count == 1, "of the load alone"
    assert (pause.after, pause.first_ok_s) == (None, None)
    assert kill.json["before"]["sends"] == 3 and pause.json["after"] is None


def test_sends_that_come_in_pieces_give_the_same() -> None:
    draw = Random(1)
    second = np.array([draw.random() * 20 for _ in range(2_000)])
    latency = np.array([draw.expovariate(0.1) for _ in range(2_000)])
    whole = FaultLatencies([KILL, LATE], 20.0)
    whole.add(second, latency)
    first, *others = (FaultLatencies([KILL, LATE], 20.0) for _ in range(4))
    for number, one in enumerate((first, *others)):
        one.add(second[number::4], latency[number::4])
    for one in others:
        first.merge(one)
    assert first.lines() == whole.lines()
