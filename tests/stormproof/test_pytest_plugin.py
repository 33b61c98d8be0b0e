"""Experiments as tests: ``@stormproof.scenario`` and the fixture ``stormproof_run``, in sessions of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import stormproof
from chaos.verdict import RunVerdict, Validity, Verdict
from stormproof import scenario_run
from stormproof.scenarios import MARK, Scenario, ScenarioRun
from tests.stormproof import small_runs
from tests.stormproof.small_runs import EXPERIMENT

pytest_plugins = ["pytester"]

#: What asks for a law that nobody can judge, so that the run is UNKNOWN.
IDLE = EXPERIMENT + "laws: [tier-continuity]\n"
HEAD = "import pytest\nimport stormproof\n"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All modules that a run and its report need: a session in this process forgets those that it has loaded, and
    extension modules can't be loaded twice."""
    scenario_run.render(small_runs.planted(tmp_path_factory.mktemp("loaded")))


@pytest.fixture
def project(loaded: None, pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makefile(".yaml", small=EXPERIMENT, idle=IDLE)
    return pytester


def session(project: pytest.Pytester, tests: str, *words: str) -> pytest.RunResult:
    project.makepyfile(HEAD + tests)
    return project.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *words)


def runs(project: pytest.Pytester, folder: str = "runs/pytest") -> list[Path]:
    return sorted(path.parent for path in (project.path / folder).glob("*/*/run.json"))


def test_each_seed_is_a_test_that_sees_its_own_run_and_leaves_nothing_when_it_passes(project) -> None:
    done = session(
        project,
        """
seen = []

@stormproof.scenario("small.yaml", seeds=range(2))
def test_it(stormproof_run):
    seen.append((stormproof_run.seed, stormproof_run.verdict.digest))
    assert str(stormproof_run.verdict.validity) == "VALID" and stormproof_run.violated == ()
    assert {row["f"] for row in stormproof_run.rows("fault")} == {"partition"}
    assert stormproof_run.history().num_rows > len(stormproof_run.rows("trace", "role")) > 0

def test_both_were_different():
    assert [seed for seed, _ in seen] == [0, 1] and len(set(seen)) == 2
""",
        "-v",
        "--junit-xml=told.xml",
    )
    done.assert_outcomes(passed=3)
    done.stdout.fnmatch_lines(["*::test_it[[]seed-0[]] PASSED*", "*::test_it[[]seed-1[]] PASSED*"])
    assert runs(project) == []
    told = {one.get("name"): one.get("value") for one in ElementTree.parse(project.path / "told.xml").iter("property")}
    assert told["verdict"] == "VALID" and told["replay"].startswith("stormproof run small.yaml --on sim --seed")


def test_a_run_that_is_not_valid_fails_with_its_story_and_the_replay_command(project) -> None:
    done = session(
        project,
        """
@stormproof.scenario("small.yaml", mutant="dispatch-past-confirm")
def test_it():
    raise AssertionError("its own lines come after the verdict")
""",
    )
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "INVALID (no-rollback), seed 0: Partition of broker-0 at 1.0 s → two masters for*",
            "replay: stormproof run small.yaml --on sim --seed 0 --bug dispatch-past-confirm",
            "report: runs/pytest/test_it-seed-0-*/report.html",
        ]
    )
    done.stdout.no_fnmatch_line("*.py:*: *Error*")
    (run,) = runs(project)
    assert (run / "report.html").exists()
    assert session(project, "def test_it(): ...").ret == 0
    assert runs(project) == [run], "only the next run of the same test replaces it"


@pytest.mark.full
def test_what_is_expected_passes_and_anything_else_fails(project) -> None:
    done = session(
        project,
        """
bug = {"mutant": "dispatch-past-confirm"}

@stormproof.scenario("small.yaml", **bug, violates="no-rollback")
def test_law(): ...

@stormproof.scenario("small.yaml", **bug, expect="INVALID")
def test_verdict(stormproof_run):
    assert "Partition of broker-0" in stormproof_run.story()

@stormproof.scenario("small.yaml", **bug, violates="order")
def test_other_law(): ...

@stormproof.scenario("small.yaml", expect="INVALID")
def test_valid(): ...

@stormproof.scenario("idle.yaml")
def test_unknown(): ...

@stormproof.scenario("idle.yaml", expect="UNKNOWN")
def test_expected_unknown(): ...
""",
        "--stormproof-keep=all",
        "--stormproof-runs=kept",
    )
    done.assert_outcomes(passed=3, failed=3)
    done.stdout.fnmatch_lines(
        [
            "INVALID (no-rollback), but a violation of order was expected, seed 0: *",
            "VALID, but INVALID was expected, seed 0: 1 fault took effect (partition), *",
            "UNKNOWN, seed 0: *the law tier-continuity, which was not judged*",
        ]
    )
    assert len(runs(project, "kept")) == 6


def test_what_can_not_be_run_is_one_sentence(project) -> None:
    project.makefile(".yaml", wrong="name: wrong\nsystem: nothing\n")
    done = session(
        project,
        """
@stormproof.scenario("none.yaml")
def test_no_file(): ...

@stormproof.scenario("wrong.yaml")
def test_no_experiment(): ...

def test_without(stormproof_run): ...
""",
    )
    done.assert_outcomes(errors=3)
    done.stdout.fnmatch_lines(["cannot read */none.yaml: No such file or directory", "*@stormproof.scenario(FILE)*"])
    done.stdout.no_fnmatch_line("*Traceback*")
    done.stdout.no_fnmatch_line("*The above exception*")


@pytest.mark.full
def test_its_own_failure_keeps_the_run_where_the_ini_file_says(project) -> None:
    project.makeini("[pytest]\nstormproof_runs = out/kept\n")
    below = project.mkpydir("below")  # the experiment is not there, but in the root directory
    test = "@stormproof.scenario('small.yaml')\ndef test_it(stormproof_run):\n    assert stormproof_run.seed == 7\n"
    (below / "test_there.py").write_text(HEAD + test)
    done = project.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*assert 0 == 7*", "*- Stormproof -*", "VALID, seed 0: *", "replay: stormproof run *"])
    assert len(runs(project, "out/kept")) == 1


def test_the_expected_verdict_and_law_are_compared(tmp_path: Path) -> None:
    def run(validity: Validity, *broken: str) -> ScenarioRun:
        laws = [Verdict(law=name, validity=Validity.INVALID) for name in broken]
        verdict = RunVerdict(run="r", seed=0, validity=validity, laws=laws, digest="", engine="local", seconds=0)
        return ScenarioRun(directory=tmp_path, seed=0, verdict=verdict, replay="")

    def fits(found: ScenarioRun, **words: Any) -> bool:
        return scenario_run.is_expected(Scenario(file=tmp_path, on="sim", seeds=(0,), **words), found)

    valid, unknown, invalid = run(Validity.VALID), run(Validity.UNKNOWN), run(Validity.INVALID, "order", "roles")
    assert [fits(one) for one in (valid, unknown, invalid)] == [True, False, False]
    assert [fits(one, expect="INVALID") for one in (valid, unknown, invalid)] == [False, False, True]
    assert [fits(one, expect="UNKNOWN") for one in (valid, unknown, invalid)] == [False, True, False]
    assert fits(invalid, expect="INVALID", violates="roles") and not fits(invalid, expect="INVALID", violates="in-sync")


@pytest.mark.full
def test_workers_share_the_seeds(project) -> None:
    project.makepyfile(
        HEAD
        + """
@stormproof.scenario("small.yaml", seeds=range(4))
def test_it(stormproof_run): ...

@stormproof.scenario("small.yaml", mutant="dispatch-past-confirm")
def test_bad(): ...
"""
    )
    done = project.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2")
    done.assert_outcomes(passed=4, failed=1)
    assert len(runs(project)) == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"seeds": ()}, "one at least"),
        ({"seeds": (-1,)}, "from 0"),
        ({"expect": "FINE"}, "not 'FINE'"),
        ({"expect": "VALID", "violates": "order"}, "is INVALID"),
    ],
)
def test_what_can_not_be_meant_is_refused(words: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        stormproof.scenario("small.yaml", **words)  # type: ignore[arg-type]


def test_a_class_and_a_function_are_marked() -> None:
    @stormproof.scenario("small.yaml", seeds=[3])
    class TestIt: ...

    (mark,) = (mark for mark in TestIt.pytestmark if mark.name == MARK)  # type: ignore[attr-defined]
    assert mark.args[0].seeds == (3,) and mark.args[0].file == Path("small.yaml")


def test_a_session_without_scenarios_loads_nothing_heavy() -> None:
    code = "import sys, stormproof.pytest_plugin; print(sorted(n for n in sys.modules if '.' not in n))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {"numpy", "pyarrow", "chaos", "pydantic", "click", "matplotlib"} & set(eval(done.stdout))
