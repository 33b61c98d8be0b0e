"""Failing runs are made small: what is left fails in the same way. What can't be shrunk is refused in a sentence."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from chaos.errors import BadInput, MachineError
from chaos.experiment.model import Replay
from chaos.experiment.reader import load, replay_of
from chaos.history import directory as store
from chaos.judging.outcome import judge
from chaos.verdict import Engine
from reports.run_report.shrunk import SUMMARY
from stormproof.cli import stormproof
from stormproof.launch import SIM, Launch
from stormproof.shrinking import minimal, workers
from stormproof.shrinking.document import Document, pinned
from stormproof.shrinking.passes import PASSES, Pass
from stormproof.shrinking.shrink import Best, Case, Progress, Stop, replayed, shrink
from stormproof.shrinking.signature import Origin, Signature
from stormproof.shrinking.trial import Size, Trial, record, try_out
from stormproof.shrinking.workers import Workers

MUTANT = "ack-before-replication"
#: A deposed master goes on acknowledging; the other two faults do nothing for that.
SMALL = """\
name: small
system:
  reference: {controllers: 1, brokers: 3, queues: 2, tier: false}
duration: 5s
workloads:
  - queue: {producers: 2, consumers: 1, rate_per_s: 20}
faults:
  - partition: {shape: isolate, target: slave}
    at: 1s
    for: 500ms
  - partition: {shape: halves, target: master}
    at: 1500ms
    for: 3s
  - pause: {target: one}
    at: 4600ms
    for: 200ms
"""
#: The first pass alone.
FAULTS = [one for one in PASSES if one.name == "faults"]


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that failed, judged."""
    folder = tmp_path_factory.mktemp("failing")
    return recorded(folder, SMALL, MUTANT)


def recorded(folder: Path, experiment: str, mutant: str) -> Path:
    file = folder / "small.yaml"
    file.write_text(experiment, "utf-8")
    loaded = load(file, deployment=SIM, mutant=mutant)
    run = record(Launch(experiment=loaded, file=file, deployment=SIM, seed=1, mutant=mutant, out=folder / "runs"))
    judge([run], engine=Engine.LOCAL)
    return run.directory


def found(failing: Path, tmp_path: Path, passes: Sequence[Pass], law: str = "") -> tuple[Case, Best, Path]:
    case = replayed(failing, tmp_path / "replay", law)
    place = minimal.make(failing)
    best = shrink(
        case,
        tmp_path,
        passes=passes,
        values=False,
        processes=0,
        on_better=lambda document, trial: minimal.write(place, case, document, trial),
    )
    return case, best, place


def test_a_failing_run_keeps_the_fault_that_matters(failing: Path, tmp_path: Path) -> None:
    case, best, place = found(failing, tmp_path, FAULTS)
    assert best.stop is Stop.DONE
    assert case.wanted.kept_by(best.trial.failures)
    (fault,) = best.document["faults"]
    assert fault["partition"] == {"shape": "halves", "target": "master"}
    assert fault["draws"] == "1/0"
    assert best.trial.size is not None
    assert best.trial.size.faults == 1 < case.before.faults == 3
    assert best.trial.digest in (place / minimal.FILE).read_text("utf-8")


def test_the_test_that_it_leaves_fails_until_the_bug_is_gone(failing: Path, tmp_path: Path) -> None:
    """What it says of the anomalies, with the names as a verdict has them."""
    case = replayed(failing, tmp_path / "replay")
    best = Best(document=case.documents[0], trial=Trial(size=case.before))
    written = minimal.test_of(case, best)
    assert json.dumps(case.wanted.anomalies[0]) in written
    assert f'"--bug", "{MUTANT}"' in written
    assert "halves" in written


@pytest.mark.parametrize(
    ("meta", "verdict", "why"),
    [
        ({"deployment": "ssh"}, {}, "it ran on ssh, which needs inventory"),
        ({}, {"verdict": "VALID"}, "it was judged VALID"),
        ({}, {"verdict": "UNKNOWN"}, "it was judged UNKNOWN"),
        ({}, {"digest": "0" * 64}, "the code has changed since it was recorded"),
        ({"versions": {"stormproof": "0.0.1"}}, {"digest": "0" * 64}, "it was recorded by stormproof 0.0.1"),
    ],
)
def test_what_cannot_be_shrunk_is_refused(
    failing: Path, tmp_path: Path, meta: dict[str, object], verdict: dict[str, object], why: str
) -> None:
    was_meta, was_verdict = (json.loads((failing / name).read_text()) for name in (store.META, store.VERDICT))
    try:
        store.write_json(failing / store.META, {**was_meta, **meta})
        store.write_json(failing / store.VERDICT, {**was_verdict, **verdict})
        with pytest.raises(BadInput, match=why):
            replayed(failing, tmp_path / "replay")
    finally:
        store.write_json(failing / store.META, was_meta)
        store.write_json(failing / store.VERDICT, was_verdict)


def test_a_run_of_another_version_whose_replay_is_the_same_can_be_shrunk(failing: Path, tmp_path: Path) -> None:
    meta = store.read_meta(failing).json
    try:
        store.write_json(failing / store.META, {**meta, "versions": {**meta["versions"], "stormproof": "0.0.1"}})
        assert replayed(failing, tmp_path / "replay").wanted.law
    finally:
        store.write_json(failing / store.META, meta)


def test_the_command_says_in_a_sentence_what_it_refuses(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    store.write_json(tmp_path / "run" / store.META, {"deployment": "process", "seed": 1})
    told = CliRunner().invoke(stormproof, ["shrink", "run", "--out", str(tmp_path)])
    assert isinstance(told.exception, BadInput)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_law_that_is_not_broken_is_named(failing: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"does not break the law 'linearizable'; broken: .*durability"):
        replayed(failing, tmp_path / "replay", "linearizable")


def failed(fails: bool) -> Trial:
    wanted = Signature(law="durability", anomalies=("lost",), origin=Origin.CUT)
    return Trial(failures=(wanted,) if fails else (), size=Size(operations=1, messages=1, faults=1, nodes=1, seconds=1))


def search(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tries: list[Trial | BaseException]) -> Best:
    """Search with made-up answers, one for each try; the last one stands for all that follow."""

    def answer(*arguments: object) -> Trial:
        told = tries.pop(0) if len(tries) > 1 else tries[0]
        if isinstance(told, BaseException):
            raise told
        return told

    monkeypatch.setattr(workers, "try_out", answer)
    return shrink(case, tmp_path, processes=0)


@pytest.fixture
def case(failing: Path, tmp_path: Path) -> Case:
    document = pinned(load(failing / store.EXPERIMENT, deployment=SIM, mutant=MUTANT), 1)
    (wanted,) = failed(True).failures
    size = Size(operations=9, messages=9, faults=3, nodes=5, seconds=7)
    return Case(run=failing, seed=1, mutant=MUTANT, wanted=wanted, before=size, documents=[document])


def test_a_machine_that_cannot_go_on_keeps_the_best(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = MachineError("cannot write in /tmp: No space left on device")
    best = search(case, tmp_path, monkeypatch, [failed(True), failed(False), failed(True), full])
    assert (best.stop, best.error) == (Stop.BROKEN, str(full))
    assert len(best.document["faults"]) < 3


def test_a_failure_that_changes_on_the_way_is_not_taken(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without faults another law breaks, and with one fault the same law for another reason."""
    (wanted,) = failed(True).failures
    others = (replace(wanted, law="roles"), replace(wanted, origin=Origin.FORGOTTEN), wanted, wanted)

    def answer(text: str, *arguments: object) -> Trial:
        faults = len(YAML(typ="safe").load(text).get("faults", ()))
        return replace(failed(True), failures=(others[faults],))

    monkeypatch.setattr(workers, "try_out", answer)
    best = shrink(case, tmp_path, processes=0)
    assert best.stop is Stop.DONE
    assert len(best.document["faults"]) == 2
    assert best.trial.failures == (wanted,)


def test_a_full_disk_under_a_try_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(MachineError, match=r"cannot write in .*: No space left on device"):
        try_out(SMALL, 1, MUTANT, tmp_path / "scratch")
    assert not (tmp_path / "scratch").exists()


def test_a_full_disk_under_the_result_keeps_the_best(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found is not lost, though it can't be written down any more."""
    full = MachineError("cannot write minimal.yaml: No space left on device")
    written: list[Document] = []

    def write(document: Document, trial: Trial) -> None:
        if written:
            raise full
        written.append(document)

    monkeypatch.setattr(workers, "try_out", lambda *arguments: failed(True))
    best = shrink(case, tmp_path, processes=0, on_better=write)
    assert (best.stop, best.error) == (Stop.BROKEN, str(full))
    assert "faults" not in best.document and "faults" in written[0]


def test_ctrl_c_keeps_the_best(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    best = search(case, tmp_path, monkeypatch, [failed(True), failed(True), KeyboardInterrupt()])
    assert best.stop is Stop.INTERRUPTED
    assert "faults" not in best.document
    with pytest.raises(KeyboardInterrupt):
        search(case, tmp_path, monkeypatch, [KeyboardInterrupt()])


def test_the_time_limit_keeps_the_best(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "try_out", lambda *arguments: failed(True))
    clock = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    best = shrink(case, tmp_path, processes=0, within_s=8)
    assert best.stop is Stop.TIME
    assert best.document != case.documents[0]


def test_progress_tells_the_pass_the_tries_and_what_is_left(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(text: str, *arguments: object) -> Trial:
        faults = len(YAML(typ="safe").load(text).get("faults", ()))
        size = Size(operations=1, messages=1, faults=faults, nodes=1, seconds=1)
        return replace(failed(faults >= 1), size=size)

    monkeypatch.setattr(workers, "try_out", answer)
    told: list[Progress] = []
    best = shrink(case, tmp_path, processes=0, on_progress=told.append)
    assert [one.size.faults for one in told][:: len(told) - 1] == [3, 1]
    assert [one.tried for one in told] == sorted(one.tried for one in told) and told[-1].tried == best.tried
    assert {(one.number, one.name) for one in told if one.round == 1 and one.number} == {
        (number, one.name) for number, one in enumerate(PASSES, 1)
    }
    assert {one.passes for one in told if one.round} == {len(PASSES)}


def test_much_load_without_a_fault_is_not_preferred_to_little_load_with_one(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(text: str, *arguments: object) -> Trial:
        document = YAML(typ="safe").load(text)
        rate = document["workloads"][0]["queue"].get("rate_per_s", 100)
        fails = rate >= 15 or any("partition" in fault for fault in document.get("faults", ()))
        size = Size(operations=rate, messages=0, faults=len(document.get("faults", ())), nodes=1, seconds=1)
        return Trial(failures=failed(fails).failures, size=size)

    monkeypatch.setattr(workers, "try_out", answer)
    case = replace(case, before=replace(case.before, operations=20))
    best = shrink(case, tmp_path, processes=0)
    (fault,) = best.document["faults"]
    assert "partition" in fault
    assert best.trial.size is not None and best.trial.size.operations == 1
    without = shrink(replace(case, before=replace(case.before, operations=100)), tmp_path, processes=0)
    assert "faults" not in without.document, "15 of 100 operations are few enough"


def test_a_failure_that_does_not_come_again_is_told(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="did not come again"):
        search(case, tmp_path, monkeypatch, [failed(False)])


@pytest.mark.full
def test_a_killed_worker_ends_the_search_in_a_sentence(case: Case, tmp_path: Path) -> None:
    with Workers(seed=1, mutant=MUTANT, scratch=tmp_path, processes=1) as some:
        killer = threading.Thread(target=_kill_the_first, args=(some._pool,))
        killer.start()
        with pytest.raises(MachineError, match="a worker process died"):
            some.first(case.documents, case.wanted)
        killer.join()


def _kill_the_first(pool: Executor) -> None:
    """Kill a worker as soon as there is one: it is still importing what it needs."""
    assert isinstance(pool, ProcessPoolExecutor)
    while not (processes := list(pool._processes)):
        time.sleep(0.01)
    os.kill(processes[0], signal.SIGKILL)


@pytest.mark.full
def test_all_passes_make_it_small(failing: Path, tmp_path: Path) -> None:
    case = replayed(failing, tmp_path / "replay")
    place = minimal.make(failing)
    best = shrink(case, tmp_path, on_better=lambda document, trial: minimal.write(place, case, document, trial))
    assert best.stop is Stop.DONE
    told = minimal.finish(place, case, best)
    assert json.loads((place / SUMMARY).read_text("utf-8")) == told
    page = (Path(told["recorded"]) / "report.html").read_text("utf-8")
    assert f"This run was made from <b>{failing.name}</b>" in page and "shape: halves" in page
    again = try_out((place / minimal.FILE).read_text("utf-8"), 1, MUTANT, tmp_path / "again")
    assert again.digest == told["digest"]
    assert replay_of(place / minimal.FILE) == Replay(on="sim", seed=1, bug=MUTANT)
    compile((place / minimal.TEST).read_text("utf-8"), minimal.TEST, "exec")
    assert len(YAML().load(place / minimal.FILE)["faults"]) == 1  # it may be injected twice, until its rules hit
    assert told["after"]["operations"] < told["before"]["operations"] / 5
    assert told["after"]["nodes"] < told["before"]["nodes"]
    assert told["after"]["seconds"] < told["before"]["seconds"]
    assert told["any"] == [str(one) for one in best.free]
    head = (place / minimal.FILE).read_text("utf-8").partition("\n\n")[0]
    assert [line.removeprefix("# any: ") for line in head.splitlines() if line.startswith("# any: ")] == told["any"]


@pytest.mark.full
def test_the_answer_does_not_depend_on_the_number_of_cores(failing: Path, tmp_path: Path) -> None:
    case = replayed(failing, tmp_path / "replay")
    found = [shrink(case, tmp_path, passes=PASSES[:4], processes=processes) for processes in (0, 1, 3)]
    assert found[0].document == found[1].document == found[2].document


def test_what_a_broken_search_has_left_is_told(failing: Path) -> None:
    place = minimal.make(failing)
    assert minimal.left(place).startswith("nothing was kept") and not place.exists()
    place = minimal.make(failing)
    (place / minimal.FILE).write_text(SMALL, "utf-8")
    assert minimal.left(place) == f"the best so far is {place / minimal.FILE}"


@pytest.mark.full
def test_the_pasted_test_fails_with_the_bug_and_passes_without(failing: Path, tmp_path: Path) -> None:
    """As it stands, in a directory of its own."""
    case = replayed(failing, tmp_path)
    best = shrink(case, tmp_path, passes=FAULTS, values=False, processes=0)
    for mutant, outcome in ((MUTANT, 1), ("", 0)):
        folder = tmp_path / (mutant or "correct")
        folder.mkdir()
        (folder / minimal.TEST).write_text(minimal.test_of(replace(case, mutant=mutant), best), "utf-8")
        words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", str(folder / minimal.TEST)]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        assert done.returncode == outcome, done.stdout
        assert mutant == "" or f"test_{case.wanted.law}" in done.stdout
