"""Where the failures of planted bugs became inevitable: within one step of the protocol around their causes.

Each case names two rows of the recorded run: that of the cause, and that by which the next step of the protocol has
been made. The largest jump must lie between two moments that follow each other, from the cause to that step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.experiment.reader import load
from chaos.history.history import History
from chaos.history.row import Row
from chaos.judging.outcome import judge
from chaos.verdict import Anomaly, Engine
from reports.moments.as_text import text
from stormproof.launch import SIM, Launch
from stormproof.moments.search import case_of, measure
from stormproof.shrinking.trial import record
from tests.stormproof.small_runs import ANOMALY, BUG
from tests.stormproof.small_runs import EXPERIMENT as SMALL

MINIMAL = Path(__file__).parents[3] / "tests" / "scenarios" / "minimal"
SYSTEM = "{queues: 1, controllers: 1, nameservers: 1, tier: false}"

#: The master is cut off, but not from its clients.
CUT_OFF = """\
system:
  reference: {queues: 1, controllers: 1, nameservers: 1, tier: false, broker_options: {linger_ms: 0}}
duration: 5s
workloads:
  - queue: {producers: 4, consumers: 1, rate_per_s: 40}
faults:
  - partition: {shape: halves, target: master}
    at: 2s
    for: 2s
"""
BITS = f"""\
system:
  reference: {SYSTEM}
duration: 4s
workloads:
  - queue: {{producers: 2, consumers: 1, rate_per_s: 30}}
faults:
  - corruption: {{target: client, per_mille: 50}}
    at: 1s
    for: 2s
"""
#: A master is cut off before its first records reach anybody, comes back, and crashes soon after.
RELAPSE = f"""\
system:
  reference: {SYSTEM}
duration: 6s
workloads:
  - queue: {{producers: 20, consumers: 1, rate_per_s: 16, body_bytes: 2, commit_s: 8, retry: 1, attempts: 2}}
faults:
  - switch: {{target: broker-1}}
    at: 1s
  - partition: {{shape: apart, target: broker-1, away_from: [brokers, controllers, nameservers]}}
    when: {{event: set, node: broker-1, skip: 1}}
    for: 1800ms
  - kill: {{target: broker-1}}
    at: 3100ms
    for: 1s
"""
#: All brokers lose their power.
POWER_CUT = f"""\
system:
  reference: {SYSTEM}
duration: 4s
workloads:
  - queue: {{producers: 4, consumers: 1, rate_per_s: 80}}
faults:
  - kill: {{target: all}}
    at: 2300ms
    for: 500ms
"""
#: Several clients change one object at once.
TOGETHER = """\
system:
  reference: {brokers: 2, queues: 1, controllers: 3, nameservers: 1, tier: false}
duration: 1s
workloads:
  - register: {clients: 4, objects: 1, rate_per_s: 16, writes: 0.7, members: 2}
"""
#: Finds a row of a run, where this violation was found; the step is asked with the number of the cause's row.
Find = Callable[[History, Anomaly, int], Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """``experiment``: its text, or a file. ``which``: the violation. The largest jump must lie between the rows
    ``cause`` and ``step``. ``tries``: replays of each moment at first."""

    mutant: str
    experiment: str | Path
    which: str
    cause: Find
    step: Find
    seed: int = 1
    tries: int = 4


def begins(fault: str, time: int = 0) -> Find:
    """The row by which this fault is about to begin, for the so-manieth time."""
    return lambda rows, anomaly, cause: [row for row in rows.each("fault", fault) if row.type == "invoke"][time]


def next_row(kind: str, name: str, **columns: object) -> Find:
    """The first row of a kind and name after the cause, with these values in its columns; ``message="its"`` stands for
    the message of the violation."""

    def find(history: History, anomaly: Anomaly, cause: int) -> Row:
        wanted = {key: anomaly.message if value == "its" else value for key, value in columns.items()}
        found = [row for row in history.each(kind, name) if row.index > cause]
        return next(row for row in found if all(getattr(row, key) == value for key, value in wanted.items()))

    return find


def asked(name: str) -> Find:
    """The call behind the last answer that the law names."""

    def find(history: History, anomaly: Anomaly, cause: int) -> Row:
        calls = [row.op for row in history.numbered(anomaly.rows) if row.f == name and row.op >= 0]
        return history.numbered([max(calls)])[0]

    return find


CASES = [
    Planted(
        mutant="read-without-quorum", seed=8, experiment=MINIMAL / "read_without_quorum.yaml",
        which="not-linearizable", tries=8,  # from one in two to each
        cause=asked("read"), step=next_row("op", "read", type="ok"),
    ),
    Planted(
        mutant="ack-before-replication", experiment=CUT_OFF, which="lost",
        cause=begins("partition"), step=next_row("trace", "append", message="its"),
    ),
    Planted(
        mutant=BUG, experiment=SMALL, seed=0, which=ANOMALY,
        cause=begins("partition"), step=next_row("trace", "append"),
    ),
    Planted(
        mutant="sends-unchecked", experiment=BITS, which="corrupt",
        cause=next_row("op", "send", message="its"), step=next_row("trace", "append", message="its"),
    ),
    Planted(
        mutant="truncation-only-in-memory", experiment=RELAPSE, which="replica-divergence",
        cause=begins("kill"), step=next_row("trace", "recovered", node="broker-1"),
    ),
    Planted(
        mutant="ack-before-fsync", experiment=POWER_CUT, seed=2, which="lost",
        cause=begins("kill"), step=next_row("trace", "recovered"),
    ),
    Planted(
        mutant="set-epoch-not-compared", seed=18, experiment=TOGETHER, which="not-linearizable", tries=8,
        cause=asked("cas"), step=next_row("op", "cas", type="ok"),
    ),
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.mutant)
def test_the_largest_jump_lies_within_one_step_of_the_cause(case: Planted, tmp_path: Path) -> None:
    file = case.experiment
    if isinstance(file, str):
        file = tmp_path / "small.yaml"
        file.write_text(case.experiment if case.experiment.startswith("name:") else f"name: small\n{case.experiment}")
    experiment = load(file, deployment=SIM, mutant=case.mutant)
    launch = Launch(
        experiment=experiment, file=file, deployment=SIM, seed=case.seed, mutant=case.mutant, out=tmp_path / "runs"
    )
    run = record(launch)
    judge([run], engine=Engine.LOCAL)
    (tmp_path / "scratch").mkdir()
    found = case_of(run.directory, case.which, tmp_path / "scratch")
    cause = case.cause(found.history, found.anomaly, -1).index
    step = case.step(found.history, found.anomaly, cause).index
    curve = measure(found, tmp_path / "scratch", moments=16, tries=case.tries, processes=0)
    told = "\n".join([*text(curve), f"the cause is row {cause}, the step ends with row {step}"])
    assert curve.jump is not None, told
    before, after = curve.jump
    places = [found.indices.index(moment.row) for moment in curve.jump]
    assert places[1] - places[0] == 1 and not curve.may_be_chance, told
    assert before.row < step and after.row >= cause, told
    print(told)
