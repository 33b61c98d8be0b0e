"""What is known of trials outlives whoever is killed, and belongs to one version of the code."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from benchmarks.mutation import __main__ as command
from benchmarks.mutation import page
from benchmarks.mutation.campaign import Job, left
from benchmarks.mutation.mutants import ROOT, Change, Mutant, all_mutants
from benchmarks.mutation.operators import Operator
from benchmarks.mutation.reach import Reach
from benchmarks.mutation.score import Class, Fate, Ruling, Score, outdated, rulings, summary
from benchmarks.mutation.state import Key, code_version, opened, read_only
from benchmarks.mutation.systems import REFERENCE, SPLIT, SYSTEMS, System
from benchmarks.mutation.trial import Outcome, Result, Trial
from benchmarks.seeds import goals, main, problems, shares, table
from chaos.errors import BadInput, MachineError
from stormproof import shipped
from stormproof.shipped import of_reference

MUTANT = Mutant(
    id="broker/x:f:min-max:000000",
    path="reference/broker/x.py",
    change=Change(operator=Operator.MIN_MAX, place="f", statement="", line=1, start=0, end=3, old="min", new="max"),
)


@cache
def in_a_file() -> Mutant:
    """One whose file is there."""
    return next(mutant for mutant in all_mutants() if mutant.path == "reference/broker/replication.py")


def outcome(seed: int, result: Result, mutant: str = MUTANT.id, **more: object) -> Outcome:
    return Outcome(mutant=mutant, experiment="swarm", seed=seed, result=result, **more)  # type: ignore[arg-type]


def job(*seeds: int, until_found: bool = True) -> Job:
    trials = tuple(Trial(mutant=MUTANT, experiment="swarm", seed=seed) for seed in seeds)
    return Job(trials=trials, until_found=until_found)


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    first, second = outcome(1, Result.VALID), outcome(2, Result.UNKNOWN, laws=("order",), why="?", reached=3)
    with opened(path, "code") as state:
        state.add(first)
        state.add(second)
    path.write_bytes(path.read_bytes()[:-10])  # killed in the middle of a line
    with opened(path, "code") as state:
        assert list(state.known.values()) == [first]
        assert left(job(1, 2, 3), state) == job(2, 3)
        state.add(second)
    with opened(path, "code") as state:
        assert list(state.known.values()) == [first, second]


def test_outcomes_of_other_code_stay_and_are_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    with opened(path, "old") as state:
        state.add(outcome(1, Result.VALID))
    with opened(path, "new") as state:
        assert state.known == {}
        state.add(outcome(1, Result.CRASH))
    with opened(path, "old") as state:
        assert [one.result for one in state.known.values()] == [Result.VALID]


def test_two_runs_never_share_a_file(tmp_path: Path) -> None:
    with opened(tmp_path / "state.jsonl", "code"), pytest.raises(MachineError, match="another run"):
        with opened(tmp_path / "state.jsonl", "code"):
            pass


def test_what_is_known_can_be_read_while_a_run_goes_on(tmp_path: Path) -> None:
    path, first = tmp_path / "state.jsonl", outcome(1, Result.VALID)
    with opened(path, "code") as state:
        state.add(first)
        with path.open("a") as file:
            file.write('{"code"')  # a line that is just being written
        with read_only(path, "code") as seen:
            assert list(seen.known.values()) == [first]
    assert path.read_text().endswith('\n{"code"')
    with pytest.raises(BadInput, match="without --publish"), read_only(tmp_path / "none", "code"):
        pass


def test_what_is_found_runs_no_more(tmp_path: Path) -> None:
    with opened(tmp_path / "state.jsonl", "code") as state:
        state.add(outcome(2, Result.CRASH))
        assert left(job(1, 2, 3), state) is None
        assert left(job(1, 2, 3, until_found=False), state) == job(1, 3, until_found=False)


def test_the_version_of_the_code_follows_the_experiments(tmp_path: Path) -> None:
    (tmp_path / "examples" / "start").mkdir(parents=True)
    (tmp_path / "reference" / "mutants").mkdir(parents=True)
    (tmp_path / "examples" / "start" / "swarm.yaml").write_text("a")
    before = code_version(tmp_path)
    (tmp_path / "reference" / "mutants" / "log.py").write_text("a")
    assert code_version(tmp_path) == before
    (tmp_path / "examples" / "start" / "swarm.yaml").write_text("b")
    assert code_version(tmp_path) != before


def test_the_version_of_one_system_does_not_follow_the_code_of_another(tmp_path: Path) -> None:
    def versions() -> list[str]:
        return [code_version(tmp_path, system.elsewhere) for system in (REFERENCE, SPLIT)]

    (tmp_path / "reference" / "split").mkdir(parents=True)
    (tmp_path / "reference" / "split" / "layout.py").write_text("a")
    before = versions()
    (tmp_path / "reference" / "split" / "layout.py").write_text("b")
    assert [one == other for one, other in zip(before, versions(), strict=True)] == [True, False]


def test_experiments_that_the_simulator_cannot_run_take_no_part() -> None:
    known = {name for name in shipped.experiments(ROOT) if name.startswith("split/")}
    assert known - {*SPLIT.experiments(ROOT)} == {"split/library"}
    assert SPLIT.swarm in SPLIT.experiments(ROOT)


def fate(*outcomes: Outcome, ruling: Ruling | None = None) -> Fate:
    correct: dict[Key, Outcome] = {
        ("", "swarm", seed): outcome(seed, Result.VALID, "", history=str(seed)) for seed in (1, 2)
    }
    return Fate(mutant=MUTANT, outcomes=outcomes, correct=correct, ruling=ruling)


def test_survivors_are_told_apart_by_what_was_measured() -> None:
    here = [outcome(seed, Result.VALID, history=str(seed), reached=1) for seed in (1, 2)]
    assert fate(*here).group is Class.NO_EFFECT
    assert fate(here[0], outcome(2, Result.VALID, history="9", reached=1)).group is Class.UNSEEN
    assert fate(outcome(1, Result.VALID, history="1")).group is Class.NOT_REACHED
    ruled = Ruling(mutant=MUTANT.id, verdict="equivalent", reason="both are one")
    assert fate(*here, ruling=ruled).group is Class.EQUIVALENT


def test_the_raw_score_comes_first_and_counts_no_unknown() -> None:
    ruled = Ruling(mutant=MUTANT.id, verdict="equivalent", reason="both are one")
    fates = [
        fate(outcome(1, Result.LAW)),
        fate(outcome(1, Result.VALID), outcome(2, Result.CRASH)),
        fate(outcome(1, Result.UNKNOWN), outcome(2, Result.UNKNOWN)),
        fate(outcome(1, Result.VALID, history="1", reached=1), ruling=ruled),
    ]
    lines = summary(score(*fates))
    assert lines[0] == "4 drawn mutants, up to 2 seeds each: 50.0 % found (2)"
    assert summary(score(*fates, drawn=9))[0].startswith("4 of 9 drawn mutants, ")
    assert lines[1] == "found: 1 by a law, 1 by a crash, 0 by no service, 0 by no end; 1 with the first seed"
    assert "66.7 %" in lines[3] and "commit abc" in lines[5]
    assert lines[4].startswith("6 runs, 1 of them equal")


def test_limits_and_what_was_found_elsewhere_are_groups_with_reasons_and_count_as_survivors() -> None:
    def survivor(verdict: str) -> Fate:
        ruling = Ruling(mutant=in_a_file().id, verdict=verdict, reason=f"why it is {verdict}")
        here = outcome(1, Result.VALID, in_a_file().id, history="9", reached=1)
        return replace(fate(here, ruling=ruling), mutant=in_a_file(), reaching=1)

    measured = score(*map(survivor, ("limit", "limit", "found", "open", "equivalent")))
    shown = page.text(measured, REFERENCE).split("\n### ")[1:]
    assert [part.partition("\n")[0] for part in shown] == [
        "Equivalent (1)",
        "Limits of what a run can show or the documents promise (2)",
        "Found by another run than those of this score (1)",
        "Reached, histories differ, no law looks (1)",
    ]
    reasons = ("why it is equivalent", "why it is limit", "why it is found", "open: why it is open")
    assert all(f"`{in_a_file().id}`: {reason}\n" in part for part, reason in zip(shown, reasons, strict=True))
    lines = summary(measured)
    assert lines[2].startswith("survived: 5: 1 equivalent, 2 limits of what a run can show")
    assert "0.0 %" in lines[3] and "that are not equivalent: 4," in lines[4]


def test_the_page_of_each_system_says_how_its_own_score_is_measured() -> None:
    of_reference, of_split = (page.text(score(), system) for system in (REFERENCE, SPLIT))
    assert "`python -m benchmarks.mutation --sample N" in of_reference and "all mutants of `reference/`" in of_reference
    assert "`python -m benchmarks.mutation --system split --sample N" in of_split and "`split/swarm`'s" in of_split
    assert "--draw 17" in of_reference and "--draw 17" not in of_split, "earlier samples are of the one alone"


def score(*fates: Fate, **more: object) -> Score:
    kept = {"fates": fates, "drawn": len(fates), "trivial": 0, "there_are": 9, "draw": 1, "seeds": 2, "commit": "abc"}
    return Score(**{**kept, "experiments": ["swarm"], "code": "0", "skipped": [], **more})  # type: ignore[arg-type]


def test_seeds_that_come_to_a_change_often_and_cost_little_come_first() -> None:
    def ran(seed: int, rows: int, **lines: int) -> Outcome:
        counts = {line.removeprefix("at"): times for line, times in lines.items()}
        return outcome(seed, Result.VALID, "", rows=rows, lines={in_a_file().path: counts})

    line = str(in_a_file().change.line)
    runs = [ran(1, 900, **{f"at{line}": 9}), ran(2, 100, at1=9), ran(3, 300, **{f"at{line}": 9}), ran(4, 900)]
    known = {("", "swarm", run.seed): run for run in runs}
    reach = Reach([("swarm", run.seed) for run in runs], known)
    assert reach.order(in_a_file()) == [("swarm", 3), ("swarm", 1)], "the others never come there"
    assert reach.times(in_a_file(), ("swarm", 3)) == 9 and reach.times(in_a_file(), ("swarm", 2)) == 0
    rare = {**known, ("", "swarm", 1): ran(1, 500, **{f"at{line}": 9, "at1": 1, "at2": 1})}
    assert Reach([("swarm", run.seed) for run in runs], rare).order(in_a_file())[0] == ("swarm", 1)


def test_a_ruling_about_code_that_has_changed_is_named() -> None:
    def ruling(mutant: str) -> Ruling:
        return Ruling(mutant=mutant, verdict="equivalent", reason="")

    there, changed, gone = MUTANT.id, "broker/x:f:min-max:111111", "broker/x:g:min-max:000000"
    found = outdated({one: ruling(one) for one in (there, changed, gone)}, [MUTANT])
    assert found == [
        f"the ruling about `{changed}` is outdated: its statement has changed",
        f"the ruling about `{gone}` is outdated: its function has no such place any more",
    ]
    assert outdated({there: ruling(there)}, [MUTANT]) == [] and outdated({}, [MUTANT]) == []


def test_the_page_and_the_command_warn_of_rulings_that_are_outdated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Rulings that need another look" not in page.text(score(), REFERENCE)
    measured = score(outdated=["the ruling about `x` is outdated: because"])
    assert "## Rulings that need another look" in page.text(measured, REFERENCE)
    assert "* the ruling about `x` is outdated: because\n" in page.text(measured, REFERENCE)
    monkeypatch.setattr(command, "measure", lambda options, state, system: measured)
    assert command.main(["--state", str(tmp_path / "state.jsonl")]) == 0
    assert "warning: the ruling about `x` is outdated: because" in capsys.readouterr().out


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_every_ruling_gives_its_reason(system: System) -> None:
    ruled = rulings(system)
    assert {ruling.verdict for ruling in ruled.values()} <= {"equivalent", "found", "limit", "open"}
    assert [ruling.mutant for ruling in ruled.values() if len(ruling.reason) < 20] == []


def test_an_example_that_is_not_there_gets_no_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["quickstart", "quikstart"])
    assert "no example is called quikstart" in capsys.readouterr().err


def test_seeds_are_shared_among_all_examples() -> None:
    assert shares(["a", "b", "c"], 8, {}) == {"a": range(1, 4), "b": range(1, 4), "c": range(1, 3)}
    assert shares(["a", "b", "c"], 3, {"b": 7}) == {"a": range(1, 3), "b": range(1, 8), "c": range(1, 2)}
    names = [*of_reference(ROOT)]
    assert sum(map(len, shares(names, 2000, {}).values())) == 2000


def test_no_seed_of_the_correct_system_may_fail() -> None:
    outcomes = [
        Outcome(mutant="", experiment="a", seed=1, result=Result.VALID),
        Outcome(mutant="", experiment="a", seed=2, result=Result.LAW, laws=("order",)),
        Outcome(mutant="", experiment="b", seed=1, result=Result.UNKNOWN),
    ]
    assert problems(["a", "b"], outcomes) == ["a, seed 2: INVALID order ", "b: no seed was VALID"]
    assert problems(["a"], outcomes[:1]) == []
    assert table(["a", "b"], outcomes)[-1].split() == ["all", "1", "1", "1"]


def test_a_goal_that_no_seed_reaches_fails() -> None:
    runs = [
        Outcome(mutant="", experiment="a", seed=seed, result=Result.VALID, goals={"near": seed, "far": 0})
        for seed in (0, 1)
    ]
    assert goals(runs) == ["a: near: 1 of 2 runs", "a: far: 0 of 2 runs"]
    assert problems(["a"], runs) == ["a: no seed reached: far"]
