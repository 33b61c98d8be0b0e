"""Runs that never come again as they were: candidates are run several times, and their rate decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from ruamel.yaml import YAML

from chaos.errors import BadInput
from chaos.experiment.reader import load
from chaos.judging.outcome import judge
from chaos.verdict import Engine
from reports.run_report.shrunk import SUMMARY, shrunk
from stormproof.launch import Launch
from stormproof.shrinking import minimal, often
from stormproof.shrinking.document import pinned, text
from stormproof.shrinking.often import Often, measured, try_often
from stormproof.shrinking.passes import SCHEDULE_AND_LOAD
from stormproof.shrinking.shrink import Case, Stop, replayed, shrink
from stormproof.shrinking.signature import Origin, Signature
from stormproof.shrinking.trial import Size, Trial, record

PROCESS = "process"
WANTED = Signature(law="durability", anomalies=("lost",), origin=Origin.CUT)
OTHER = replace(WANTED, law="order")
HOW = Often(deployment=PROCESS, mutant="", wanted=WANTED, times=5)
EXPERIMENT = """\
name: lossy
system:
  reference: {controllers: 1, brokers: 3, queues: 2, tier: false}
duration: 20s
workloads:
  - queue: {producers: 4, consumers: 1, rate_per_s: 60}
faults:
  - partition: {shape: isolate, target: slave}
    at: 2s
    for: 500ms
  - partition: {shape: halves, target: master}
    at: 6s
    for: 3s
"""


def size(document: object) -> Size:
    assert isinstance(document, dict)
    rate = document["workloads"][0]["queue"].get("rate_per_s", 100)
    return Size(operations=round(rate), messages=0, faults=len(document.get("faults", ())), nodes=1, seconds=1)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Trial | BaseException]]:
    """What the next runs come to, in this order."""
    told: list[Trial | BaseException] = []

    def answer(*arguments: object) -> Trial:
        one = told.pop(0)
        if isinstance(one, BaseException):
            raise one
        return one

    monkeypatch.setattr(often, "try_out", answer)
    yield told


def runs(*failed: bool) -> list[Trial | BaseException]:
    return [Trial(failures=(WANTED,) if one else (OTHER,), digest=str(place)) for place, one in enumerate(failed)]


@pytest.mark.parametrize(
    ("enough", "outcomes", "rate", "fails"),
    [
        (1, (False, True), (1, 2), True),  # one failure is enough, and no run after it
        (2, (True, False, False, True), (2, 4), True),
        (3, (False, False, False), (0, 3), False),  # two more could not make it three
        (1, (False,) * 5, (0, 5), False),
    ],
)
def test_a_candidate_is_run_until_its_rate_decides(
    answers: list[Trial | BaseException],
    tmp_path: Path,
    enough: int,
    outcomes: tuple[bool, ...],
    rate: tuple[int, int],
    fails: bool,
) -> None:
    answers += runs(*outcomes)
    trial = try_often("", 1, replace(HOW, enough=enough), tmp_path)
    assert not answers, "it was run less often than that"
    assert trial.rate == rate
    assert WANTED.kept_by(trial.failures) is fails


def test_the_first_run_that_failed_stands_for_all(answers: list[Trial | BaseException], tmp_path: Path) -> None:
    answers += runs(False, True, True)
    assert try_often("", 1, replace(HOW, enough=2), tmp_path).digest == "1"


def test_the_whole_run_sets_the_rate_that_candidates_must_have(
    answers: list[Trial | BaseException], tmp_path: Path
) -> None:
    answers += runs(True, True, False, True, False)
    trial, how = measured(tmp_path, "", 1, HOW, tmp_path / "scratch")
    assert (trial.rate, how.enough) == ((3, 5), 2), "half of the rate, rounded up"


def test_a_failure_that_never_comes_again_is_told(answers: list[Trial | BaseException], tmp_path: Path) -> None:
    answers += runs(*[False] * 5)
    with pytest.raises(BadInput, match=r"did not come again in 5 runs; more may show it \(`--times`\)"):
        measured(tmp_path, "", 1, HOW, tmp_path / "scratch")


def case(folder: Path) -> Case:
    file = folder / "lossy.yaml"
    file.write_text(EXPERIMENT, "utf-8")
    document = pinned(load(file, deployment=PROCESS), 1, deployment=PROCESS)
    before = Size(operations=1200, messages=900, faults=2, nodes=5, seconds=20)
    return Case(
        run=folder,
        seed=1,
        mutant="",
        wanted=WANTED,
        before=before,
        documents=[document],
        often=replace(HOW, enough=2),
        begun=Trial(failures=(WANTED,), size=before, rate=(4, 5)),
    )


def test_schedule_and_load_become_small_though_runs_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails in nine of ten runs as long as the master is cut off, in one of twenty without."""
    chance, seen = Random(1), []

    def answer(text: str, *arguments: object) -> Trial:
        document = YAML(typ="safe").load(text)
        seen.append(document)
        cut = any(entry["partition"].get("shape") == "halves" for entry in document.get("faults", ()))
        fails = chance.random() < (0.9 if cut else 0.05)
        return Trial(failures=(WANTED,) if fails else (), size=size(document))

    monkeypatch.setattr(often, "try_out", answer)
    best = shrink(case(tmp_path), tmp_path)
    assert best.stop is Stop.DONE
    (fault,) = best.document["faults"]
    assert fault["partition"] == {"shape": "halves", "target": "master"}
    assert best.trial.size is not None and best.trial.size.operations < 0.2 * 60
    assert best.trial.rate[0] >= 2
    assert not best.free
    whole = case(tmp_path).documents[0]
    assert all(document["system"] == whole["system"] for document in seen), "only the schedule and the load may change"
    assert all("simulation" not in document for document in seen)


def test_ctrl_c_keeps_the_best(tmp_path: Path, answers: list[Trial | BaseException]) -> None:
    """The run under way heals and ends; then the search does."""
    answers += [Trial(failures=(WANTED,), size=size(case(tmp_path).documents[0]))] * 2
    answers.append(KeyboardInterrupt())
    best = shrink(case(tmp_path), tmp_path)
    assert best.stop is Stop.INTERRUPTED
    assert best.document != case(tmp_path).documents[0]


SHORT = """\
name: short
system:
  reference: {controllers: 1, brokers: 2, queues: 1, tier: false}
duration: 2s
workloads:
  - queue: {producers: 2, consumers: 1, groups: 2, rate_per_s: 40}
faults:
  - pause: {target: slave}
    at: 500ms
    for: 100ms
"""


@pytest.mark.full
def test_a_run_on_processes_becomes_small(tmp_path: Path) -> None:
    """A new group begins at the end of a queue, whatever the schedule; so no fault is left."""
    mutant = "new-groups-begin-at-the-end"
    file = tmp_path / "short.yaml"
    file.write_text(SHORT, "utf-8")
    experiment = load(file, deployment=PROCESS, mutant=mutant)
    launch = Launch(experiment=experiment, file=file, deployment=PROCESS, seed=1, mutant=mutant, out=tmp_path / "runs")
    run = record(launch)
    judge([run], engine=Engine.LOCAL)
    (tmp_path / "scratch").mkdir()
    found = replayed(run.directory, tmp_path / "scratch", "consumers", times=2)
    place = minimal.make(run.directory)
    best = shrink(found, tmp_path / "scratch", passes=SCHEDULE_AND_LOAD[:2])
    told = minimal.finish(place, found, best)
    assert "faults" not in best.document
    assert told["rate"]["before"] == [2, 2] and told["rate"]["after"][1] == 2 and "digest" not in told
    assert json.loads((place / SUMMARY).read_text("utf-8")) == told
    head = (place / minimal.FILE).read_text("utf-8").partition("\n\n")[0]
    assert "of 2 runs failed so" in head and "on: process" in (place / minimal.FILE).read_text("utf-8")
    shown = shrunk(Path(told["recorded"]))
    assert shown is not None and ("runs that failed so", "2 of 2", "2 of 2") in shown.sizes
    pasted = (place / minimal.TEST).read_text("utf-8")
    compile(pasted, minimal.TEST, "exec")
    assert "for _ in range(2):" in pasted and text(best.document).splitlines()[0] in pasted
