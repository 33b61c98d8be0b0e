"""Faults that wait for other faults: how they are written, and what would never fire is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import BadInput
from chaos.experiment import waits
from chaos.experiment.checks import DENSEST
from chaos.experiment.model import Experiment
from chaos.experiment.reader import load

HEAD = "system: reference\nduration: 20s\nworkloads: [queue]\nfaults:\n"
CUT = "  - partition: {target: master}\n    every: 5s\n    for: 1s\n"
KILL = "  - kill: {target: slave}\n    after: {fault: partition, delay: 500ms}\n"
STEPS = "  - sequence: [pause, {kill: {target: slave}, after: 300ms}]\n    at: 3s\n    for: 1s\n"


def read(folder: Path, faults: str, deployment: str = "sim") -> Experiment:
    (folder / "it.yaml").write_text(HEAD + faults)
    return load(folder / "it.yaml", deployment=deployment)


def test_a_fault_names_the_one_that_it_follows_by_any_of_its_names(tmp_path: Path) -> None:
    cut, kill = read(tmp_path, CUT + KILL).faults
    assert kill.schedule.after is not None and cut.schedule.after is None
    assert (kill.schedule.after.fault, kill.schedule.after.delay_s) == ("partition", 0.5)
    joins = "  - add-broker: {}\n    at: 1s\n  - kill: {target: one}\n    after: {fault: add-broker}\n"
    (_, kill) = read(tmp_path, joins).faults
    assert kill.schedule.after is not None and kill.schedule.after.fault == "membership"


def test_a_step_may_come_a_while_after_the_effect_of_the_one_before(tmp_path: Path) -> None:
    (head,) = read(tmp_path, STEPS).faults
    assert [(step.name, step.after_s, step.for_s) for step in head.steps()] == [
        ("pause", None, 1.0),
        ("kill", 0.3, 1.0),
    ]
    (left,) = read(tmp_path, STEPS.replace("pause,", "{pause: , on: [process]},")).faults_on("sim", 1)
    assert (left.name, left.after_s, left.schedule.at_s) == ("kill", None, (3.0,))
    assert [step.after_s for step in head.stretched(2.0).steps()] == [None, 0.6]


@pytest.mark.parametrize(
    ("faults", "line", "words"),
    [
        (CUT + KILL.replace("fault: partition", "fault: partiton"), 9, "unknown fault 'partiton'; did you mean 'part"),
        (CUT + KILL.replace("fault: partition", "faul: partition"), 9, "did you mean 'fault'?"),
        (CUT + KILL.replace("fault: partition, ", ""), 9, "'fault' is missing"),
        (CUT + KILL.replace("500ms", "20s"), 9, "20s is not before the end of the load"),
        (CUT + KILL.replace("fault: partition", "fault: pause"), 9, "no other entry does 'pause' on sim"),
        (KILL.replace("partition", "kill"), 6, "no other entry does 'kill' on sim"),
        (CUT.replace("every", "on: [process]\n    every") + KILL, 10, "no other entry does 'partition' on sim"),
        (f"  - swarm:\n{CUT.replace('  ', '      ', 1)}".replace("\n    e", "\n        e").replace(
            "\n    f", "\n        f") + KILL, 10, "'partition' stands in a swarm, and a seed may leave it out"),
        (KILL + "  - partition:\n    after: {fault: kill}\n", 6, "kill and partition wait for one another"),
        (STEPS.replace("pause", "{pause: , after: 1s}"), 5, "the first step follows none"),
        (STEPS.replace("sequence", "each"), 5, "it is for the steps of a sequence"),
        (STEPS.replace("300ms", "{fault: pause}"), 5, "expected a duration"),
        (CUT + KILL + "    at: 3s\n", 8, "got ['at', 'after']"),
        ("  - kill:\n    when: {event: role, gap: 2s}\n", 6, "gap: it fires once; say how often with `times`"),
    ],
)  # fmt: skip
def test_what_would_never_fire_is_refused_with_its_line(tmp_path: Path, faults: str, line: int, words: str) -> None:
    with pytest.raises(BadInput) as told:
        read(tmp_path, faults)
    assert any(f"it.yaml:{line}: " in problem and words in problem for problem in told.value.problems), str(told.value)


def test_what_waits_counts_as_often_as_what_it_waits_for(tmp_path: Path) -> None:
    twice = "  - sequence: [pause, clock, pause]\n    after: {fault: kill}\n"
    last = "  - switch: {}\n    after: {fault: pause, delay: 1s}\n"
    faults = read(tmp_path, last + CUT + KILL + twice).faults
    assert waits.most_firings(faults, 20.0, DENSEST) == [8, 4, 4, 4]
    many = CUT.replace("5s", "1ms") + "".join(KILL for _ in range(5))
    with pytest.raises(BadInput, match="at most 100,000"):
        read(tmp_path, many)
