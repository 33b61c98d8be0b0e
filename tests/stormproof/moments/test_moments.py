"""A failing run is replayed to many moments, and what comes of it from there shows when the failure was decided."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from chaos.errors import BadInput, MachineError
from chaos.experiment.model import Anew, Experiment
from chaos.experiment.reader import load
from chaos.experiment.schedule import moments
from chaos.history import directory as store
from chaos.history.history import History
from chaos.judging.outcome import judge
from chaos.verdict import Engine
from reports import render
from reports.explanation.sequence import violations
from reports.moments.as_text import as_object, text
from reports.moments.curve import Curve, Moment
from reports.moments.kept import FILE as KEPT
from reports.moments.kept import keep, kept
from reports.moments.picture import draw, write
from reports.sweeps.chances import Share
from stormproof.campaign import workers
from stormproof.cli import stormproof
from stormproof.launch import SIM, Launch, Renewal, start
from stormproof.moments import search
from stormproof.moments.again import Outcome, Try
from stormproof.moments.schedule import redrawn
from stormproof.moments.search import case_of, measure
from stormproof.shipped import experiments
from stormproof.shrinking.trial import record

EXPERIMENTS = experiments()
#: A leader that was cut off answers a read with what it last knew.
FILE, SEED, MUTANT = EXPERIMENTS["minimal/read_without_quorum"], 8, "read-without-quorum"


def launched(folder: Path, file: Path = FILE, seed: int = SEED, mutant: str = MUTANT, **more: Any) -> Launch:
    experiment = load(file, deployment=SIM, mutant=mutant)
    return Launch(experiment=experiment, file=file, deployment=SIM, seed=seed, mutant=mutant, out=folder, **more)


#: A partition after one second, and another fault later.
KILLED: dict[str, Any] = {"file": Path(__file__).with_name("killed.yaml"), "mutant": ""}


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that failed, judged."""
    run = record(launched(tmp_path_factory.mktemp("failing")))
    judge([run], engine=Engine.LOCAL)
    return run.directory


def test_a_run_goes_its_way_up_to_a_moment_and_another_one_after_it(failing: Path, tmp_path: Path) -> None:
    history = History.open(failing)
    moment_ns = history.row(history.num_rows // 2).time_ns
    again = History.open(start(launched(tmp_path, renewal=Renewal(moment_ns=moment_ns, seed="another"))))
    before = sum(time_ns <= moment_ns for time_ns in history.table["time_ns"].to_pylist())
    differs = history.first_difference(again)
    assert differs is not None and differs >= before


def fires(experiment: Experiment) -> list[list[float]]:
    """When each fault does."""
    return [
        list(moments(fault.schedule, experiment.duration_s, Random(f"of the run/{number}"), fault.anew))
        for number, fault in enumerate(experiment.faults)
    ]


def test_faults_that_have_not_begun_fire_at_other_times() -> None:
    experiment = load(EXPERIMENTS["stale_master"], deployment=SIM, mutant="")
    assert fires(experiment) == [[3.0, 10.0], [15.0]]
    fresh = [fires(redrawn(experiment, 4.0, str(seed))) for seed in range(20)]
    assert {cuts[0] for cuts, _ in fresh} == {3.0}
    later = [(*cuts[1:], *pauses) for cuts, pauses in fresh]
    assert len(set(later)) == 20 and all(len(times) == 2 and min(times) > 4 and max(times) < 20 for times in later)
    assert fires(redrawn(experiment, 4.0, "0")) == fresh[0]
    assert fires(redrawn(experiment, 15.0, "0")) == fires(experiment)  # what fires at the very moment has fired


def test_a_period_keeps_what_has_fired_and_what_waits_still_waits() -> None:
    (pauses,) = fires(redrawn(load(EXPERIMENTS["pending_offset_commits"], deployment=SIM, mutant=""), 9.0, "0"))
    assert pauses[:2] == [4.0, 8.0] and len(pauses) == 5 and pauses[2:] != [12.0, 16.0, 20.0]
    tail = load(EXPERIMENTS["unreplicated_tail"], deployment=SIM, mutant="")
    assert fires(redrawn(tail, 0.0, "0"))[1] == []


def test_random_times_are_drawn_anew_with_the_same_gap() -> None:
    swarm = load(EXPERIMENTS["swarm"], deployment=SIM, mutant="")
    fault = next(one for one in swarm.faults if one.schedule.mean_s)
    whole = list(moments(fault.schedule, 1000.0, Random("x")))
    fresh = replace(fault, anew=Anew(since_s=500.0, seed="y"))
    other = list(moments(fresh.schedule, 1000.0, Random("x"), fresh.anew))
    kept = [moment for moment in whole if moment <= 500]
    assert other[: len(kept)] == kept and other[len(kept)] > 500 and not set(other[len(kept) :]) & set(whole)
    assert 0.5 < len(other) / len(whole) < 2


def test_a_run_whose_later_faults_fire_at_other_times_is_the_same_up_to_the_moment(tmp_path: Path) -> None:
    first, second = (launched(tmp_path / str(place), **KILLED) for place in range(2))
    history = History.open(start(first))
    times, zero_ns = history.table["time_ns"].to_pylist(), history.zero_ns
    moment_ns = next(time_ns for time_ns in times if time_ns > zero_ns + 1_200_000_000)
    moved = redrawn(second.experiment, (moment_ns - zero_ns) / 1e9, "0")
    assert moved.faults != second.experiment.faults
    renewed = replace(second, experiment=moved, renewal=Renewal(moment_ns=moment_ns, seed="0"))
    before = sum(time_ns <= moment_ns for time_ns in times)
    differs = history.first_difference(History.open(start(renewed)))
    assert differs is not None and differs >= before


def answers(failing: Path, outcomes: Mapping[int, Outcome], monkeypatch: pytest.MonkeyPatch) -> search.Case:
    """A case whose tries end as they are told to: each as the last one whose place is not later."""
    case = case_of(failing, "1", failing.parent)

    def answer(one: Try) -> Outcome:
        place = case.times.index(one.renewal.moment_ns)
        return outcomes[max(known for known in outcomes if known <= place)]

    monkeypatch.setattr(search, "try_again", answer)
    return case


@pytest.mark.parametrize("cause", [1, 17, 40])
def test_the_jump_is_found_to_the_row(
    failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: int
) -> None:
    lost = Outcome(same=True, alike=True)
    case = answers(failing, {0: Outcome(), cause: lost}, monkeypatch)
    curve = measure(case, tmp_path, moments=20, tries=2, processes=0)
    assert curve.jump is not None
    before, after = curve.jump
    assert (before.row, after.row) == (case.indices[cause - 1], case.indices[cause])
    assert (before.same.value, after.same.value) == (0, 1)
    assert len(curve.moments) <= 20


def test_what_was_inevitable_from_the_start_has_no_jump(
    failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = answers(failing, {0: Outcome(same=True, alike=True)}, monkeypatch)
    curve = measure(case, tmp_path, moments=9, tries=2, processes=0)
    assert curve.jump is None
    assert "2 of 2 already at the first moment" in "\n".join(text(curve))


def test_a_jump_that_may_be_chance_is_tried_again(
    failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = answers(failing, {0: Outcome(), 17: Outcome(same=True, alike=True)}, monkeypatch)
    curve = measure(case, tmp_path, moments=30, tries=1, processes=0)
    assert curve.jump is not None and not curve.may_be_chance
    assert [moment.same.tries for moment in curve.jump] == [4, 4]
    assert max(moment.same.tries for moment in curve.moments if moment not in curve.jump) == 1


def test_what_happened_in_the_jump_is_told(failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = answers(failing, {0: Outcome(), 17: Outcome(same=True, alike=True)}, monkeypatch)
    curve = measure(case, tmp_path, moments=20, tries=2, processes=0)
    assert curve.happened[-1].endswith(f"[{case.indices[17]}]") and curve.faults
    few = measure(case, tmp_path, moments=3, tries=2, processes=0)
    assert len(few.happened) == 6 and "more rows" in few.happened[-1]


def test_tries_that_come_to_no_end_do_not_count(failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = answers(failing, {0: Outcome(error="it is stuck")}, monkeypatch)
    curve = measure(case, tmp_path, moments=3, tries=2, processes=0)
    assert {moment.same.tries for moment in curve.moments} == {0}
    assert "6 tries could not be brought to an end" in curve.notes[0] and "it is stuck" in curve.notes[0]


def test_ctrl_c_keeps_what_was_measured(failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = answers(failing, {0: Outcome()}, monkeypatch)

    def interrupt(done: int, of: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    curve = measure(case, tmp_path, moments=9, tries=1, processes=0, on_progress=interrupt)
    assert len(curve.moments) == 2 and "interrupted" in curve.notes[0]


def test_a_full_disk_ends_it_in_a_sentence(failing: Path, tmp_path: Path) -> None:
    case = case_of(failing, "1", tmp_path)
    with pytest.raises(MachineError, match=r"cannot write in .*gone: No such file"):
        measure(case, tmp_path / "gone", moments=3, tries=1, processes=0)


@pytest.mark.full
def test_a_killed_worker_ends_it_in_a_sentence(failing: Path, tmp_path: Path) -> None:
    mine = {process.pid for process in active_children()}

    def kill(done: int, of: int) -> None:
        for process in active_children() if done else ():
            if process.pid not in mine:
                process.kill()

    with pytest.raises(MachineError, match="a worker process died"):
        measure(case_of(failing, "1", tmp_path), tmp_path, moments=3, tries=2, processes=1, on_progress=kill)


@pytest.mark.full
def test_the_curve_does_not_depend_on_the_number_of_cores(failing: Path, tmp_path: Path) -> None:
    case = case_of(failing, "1", tmp_path)
    assert measure(case, tmp_path, moments=5, tries=3, processes=2) == measure(
        case, tmp_path, moments=5, tries=3, processes=0
    )


def decided(failing: Path, tmp_path: Path, which: str, **asked: int) -> tuple[Moment, Moment]:
    curve = measure(case_of(failing, which, tmp_path), tmp_path, **asked)
    assert curve.jump is not None, list(text(curve))
    return curve.jump


@pytest.mark.full
def test_a_stale_read_is_decided_when_the_deposed_leader_is_asked(failing: Path, tmp_path: Path) -> None:
    """The write of the new value is over by then, and the answer not yet there."""
    before, after = decided(failing, tmp_path, "not-linearizable", moments=8, tries=3, processes=0)
    history = History.open(failing)
    last = store.read_verdict(failing)
    (rows,) = [one.rows for one in last.violations if one.name == "not-linearizable"]
    asked = min(row.op for row in history.numbered(rows) if row.f == "read" and row.op >= 0)
    assert before.row < asked <= after.row


@pytest.mark.parametrize(
    ("meta", "verdict", "why"),
    [
        ({"deployment": "process"}, {}, "it ran on process; only simulated runs can be replayed to a moment"),
        ({}, {"verdict": "VALID"}, "it was judged VALID"),
        ({}, {"verdict": "UNKNOWN"}, "it was judged UNKNOWN"),
        ({"versions": {"stormproof": "0.0.1"}}, {"digest": "0" * 64}, "it was recorded by stormproof 0.0.1"),
    ],
)
def test_what_cannot_be_replayed_is_refused(
    failing: Path, tmp_path: Path, meta: dict[str, object], verdict: dict[str, object], why: str
) -> None:
    was_meta, was_verdict = (json.loads((failing / name).read_text()) for name in (store.META, store.VERDICT))
    try:
        store.write_json(failing / store.META, {**was_meta, **meta})
        store.write_json(failing / store.VERDICT, {**was_verdict, **verdict})
        with pytest.raises(BadInput, match=why):
            case_of(failing, "1", tmp_path)
    finally:
        store.write_json(failing / store.META, was_meta)
        store.write_json(failing / store.VERDICT, was_verdict)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--tries", "5"], "--tries is for --moments"),
        (["--moments", "5", "--markdown"], "--moments has no Markdown"),
        (["--moments", "5", "--json", "--svg", "x.svg"], "only one of"),
    ],
)
def test_options_that_do_not_fit_are_refused(failing: Path, words: list[str], why: str) -> None:
    told = CliRunner().invoke(stormproof, ["explain", str(failing), *words])
    assert isinstance(told.exception, BadInput) and why in str(told.exception)


def curve_of(*chances: int, name: str = "lost") -> Curve:
    moments = [
        Moment(row=10 * place, at_s=float(place), event="broker-0: append", same=share, alike=share)
        for place, share in enumerate(Share(hits=hits, tries=10) for hits in chances)
    ]
    return Curve(run=Path("r"), law="durability", name=name, number=1, text="It is gone.", about="message 0/1",
                 moments=moments)  # fmt: skip


def test_of_two_jumps_alike_the_later_one_counts() -> None:
    assert curve_of(0, 5, 5, 10).jump == tuple(curve_of(0, 5, 5, 10).moments[2:])
    assert curve_of(9, 5, 2).jump is None


def test_a_jump_that_may_be_chance_is_called_so() -> None:
    assert curve_of(2, 5).may_be_chance and "may be chance" in "\n".join(text(curve_of(2, 5)))
    assert "may be chance" not in "\n".join(text(curve_of(0, 10)))


def test_a_curve_as_text_as_json_and_as_a_picture(tmp_path: Path) -> None:
    curve = curve_of(0, 1, 10)
    lines = list(text(curve))
    assert any("10 of 10 ( 72 to 100 %)" in line for line in lines)
    assert any("from 10 % to 100 %, lies between the rows 10 and 20" in line for line in lines)
    assert any(line.startswith(">") and "20]" in line for line in lines)
    told = json.loads(json.dumps(as_object(curve)))
    assert told["jump"] == {"after_row": 10, "by_row": 20, "from": 0.1, "to": 1.0}
    drawn = ElementTree.parse(write(tmp_path / "x.svg", curve))
    assert len(drawn.findall(".//{http://www.w3.org/2000/svg}circle")) == 3
    with pytest.raises(BadInput, match="cannot write"):
        write(tmp_path / "none" / "x.svg", curve)


def test_names_are_hostile_in_a_picture() -> None:
    assert "<script>" not in draw(curve_of(0, 10, name="<script>"))
    assert "<script>" not in draw(replace(curve_of(0, 10), happened=["<script>"], faults=[("<script>", 0.0, 1.0)]))


def test_a_curve_is_kept_in_the_run_and_the_report_shows_it(failing: Path, tmp_path: Path) -> None:
    run = tmp_path / failing.name
    shutil.copytree(failing, run)
    found = violations(run)
    assert kept(run, found) == {} and "When was it lost?" not in render(run).read_text()
    anomaly = found[0]
    curve = replace(
        curve_of(0, 1, 10, name=anomaly.name), run=run, law=anomaly.law, text=anomaly.explanation,
        happened=["1.0 s  <b>"], faults=[("kill of a", 0.5, 1.0)], notes=["a note"],
    )  # fmt: skip
    keep(curve)
    assert kept(run, found) == {1: curve}
    page = render(run).read_text()
    assert "When was it lost?" in page and "10 % → 100 %" in page and "kill of a" in page
    assert kept(run, [replace(anomaly, explanation="of another verdict")]) == {}
    (run / KEPT).write_text('{"1": {"law": 3}}')
    assert kept(run, found) == {}
    (run / KEPT).write_text("[")
    assert kept(run, found) == {}


def test_the_command_keeps_what_it_measures(failing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / failing.name
    shutil.copytree(failing, run)
    render(run)
    case = answers(failing, {0: Outcome(), 17: Outcome(same=True, alike=True)}, monkeypatch)
    monkeypatch.setattr(search, "case_of", lambda *_: replace(case, again=replace(case.again, run=run)))
    monkeypatch.setattr(workers, "cores", lambda: 0)
    told = CliRunner().invoke(stormproof, ["explain", str(run), "--moments", "12", "--tries", "4"])
    assert told.exit_code == 0 and "The largest jump, from 0 % to 100 %" in told.output, told.output
    assert (run / KEPT).exists() and "0 % → 100 %" in (run / "report.html").read_text()
