"""A document pins what a seed drew, and reads as the experiment that it was made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import BadInput
from chaos.experiment.durations import parse_duration
from chaos.experiment.model import Experiment
from chaos.experiment.reader import load
from chaos.history.digests import digest
from chaos.history.history import History
from stormproof.launch import SIM, Launch, start
from stormproof.shipped import of_reference
from stormproof.shrinking.document import Document, duration, pinned, text

ROOT = Path(__file__).parent.parent.parent.parent
#: Of all examples, those with most to say; the others are for a full test.
TELLING = ("bad_disks", "empty_slave", "quickstart", "register", "swarm")
FILES = [*of_reference().values()]
EXAMPLES = [pytest.param(file, marks=() if file.stem in TELLING else pytest.mark.full, id=file.stem) for file in FILES]
#: Every way to say when a fault fires, in five seconds.
STORM = """\
name: storm
system:
  reference: {controllers: 1, brokers: {one_of: [2, 3]}, queues: 2, broker_options: {linger_ms: 0}}
duration: 5s
quiet: 500ms
workloads:
  - queue: {producers: 1, consumers: {one_of: [0, 1]}, rate_per_s: 20}
faults:
  - kill: {target: one}
    at: [1200ms, 3s]
    for: 300ms
  - slow_link: {target: one}
    every: 2s
    for: 500ms
  - sequence: [{pause: {target: one}, for: 200ms}, {partition: {target: one}, for: 300ms, rest: 100ms}]
    at: 2s
  - sequence: [{pause: {target: one}}, {slow_link: {target: one}, after: 100ms}]
    at: 3200ms
    for: 300ms
  - each: [{pause: {target: one}}, {reset: {target: one}}]
    at: [1s, 2500ms, 4s]
    for: 100ms
  - partition: {target: slave}
    when: {event: role, skip: 1, times: 2}
    for: 200ms
  - pause: {target: one}
    after: {fault: slow_link, delay: 150ms}
    for: 100ms
  - reordering: {target: one}
    when: {event: role, times: 2, gap: 100ms}
    for: 200ms
  - swarm:
      - loss: {target: one}
        random: {mean: 1s}
        for: 300ms
      - duplication: {target: one}
        at: 3500ms
        for: 300ms
"""


def read(document: Document, folder: Path) -> Experiment:
    file = folder / "document.yaml"
    file.write_text(text(document), "utf-8")
    return load(file, deployment=SIM)


@pytest.mark.parametrize("file", EXAMPLES)
def test_every_example_has_a_document_that_reads_the_same(file: Path, tmp_path: Path) -> None:
    experiment = load(file, deployment=SIM)
    document = pinned(experiment, 3)
    again = read(document, tmp_path)
    drawn = experiment.drawn(3)
    assert again.system == drawn.system
    assert again.workloads == drawn.workloads
    assert (again.duration_s, again.quiet_s, again.bounds) == (drawn.duration_s, drawn.quiet_s, drawn.bounds)
    assert again.profile == drawn.profile
    names = [step.name for spec in experiment.faults_on(SIM, 3) for step in spec.steps()]
    assert {step.name for spec in again.faults for step in spec.steps()} <= set(names)


def history(experiment: Experiment, out: Path, seed: int) -> str:
    launch = Launch(experiment=experiment, file=out, deployment=SIM, seed=seed, mutant="", out=out)
    return digest(History.open(start(launch)).table)


@pytest.mark.parametrize("singly", [True, pytest.param(False, marks=pytest.mark.full)])
def test_the_document_replays_the_history(singly: bool, tmp_path: Path) -> None:
    file = tmp_path / "storm.yaml"
    file.write_text(STORM, "utf-8")
    experiment = load(file, deployment=SIM)
    document = pinned(experiment, 4, singly=singly)
    assert history(read(document, tmp_path), tmp_path / "again", 4) == history(experiment, tmp_path / "first", 4)


def test_what_is_left_out_does_not_change_what_other_faults_draw(tmp_path: Path) -> None:
    file = tmp_path / "storm.yaml"
    file.write_text(STORM, "utf-8")
    document = pinned(load(file, deployment=SIM), 4)
    fewer = read({**document, "faults": document["faults"][3:]}, tmp_path)
    assert [spec.draws for spec in fewer.faults] == [spec.draws for spec in read(document, tmp_path).faults][3:]
    assert len({step.draws for spec in read(document, tmp_path).faults for step in spec.steps()}) == len(
        [step for spec in read(document, tmp_path).faults for step in spec.steps()]
    )


@pytest.mark.parametrize("seconds", [0.25, 0.0004, 1.0, 45.0, 12.345678901234567, 1 / 3, 3600.0, 0.1 + 0.2, 1e-05])
def test_durations_are_read_as_exactly_what_they_were(seconds: float) -> None:
    assert parse_duration(duration(seconds)) == pytest.approx(seconds, rel=0, abs=1e-12)
    assert seconds < 1e-3 or parse_duration(duration(seconds)) == seconds


@pytest.mark.parametrize("words", ["three", "1/2/3/4", "", "1/", "-1"])
def test_draws_name_a_fault_and_one_of_its_times(words: str, tmp_path: Path) -> None:
    file = tmp_path / "it.yaml"
    fault = f"  - pause: {{target: one}}\n    at: 1s\n    draws: '{words}'\n"
    file.write_text(f"system: reference\nduration: 5s\nworkloads: [queue]\nfaults:\n{fault}", "utf-8")
    with pytest.raises(BadInput, match="3/1"):
        load(file, deployment=SIM)
