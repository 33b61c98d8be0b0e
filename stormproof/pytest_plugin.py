"""The plug-in for pytest, loaded by its entry point: runs the experiments of tests with ``@stormproof.scenario``.

All that takes time to import comes with the first such test: every test session of every project where Stormproof is
installed loads this page.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from stormproof.scenarios import FIXTURE, MARK, Scenario, ScenarioRun

#: Where runs go unless the command line or the ini-file says otherwise.
RUNS = "runs/pytest"
_RUN = pytest.StashKey[ScenarioRun]()
#: The test's own lines passed, or were skipped.
_GOOD = pytest.StashKey[bool]()
#: The test's failure describes the run already.
_DESCRIBED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stormproof")
    group.addoption(
        "--stormproof-runs",
        metavar="DIR",
        help="Folder of the runs of scenarios, one subfolder for each test (default: stormproof_runs of the ini-file).",
    )
    group.addoption(
        "--stormproof-keep",
        choices=("failed", "all"),
        default="failed",
        help="Which runs stay after their test: those of failed tests (default), or all. "
        "The next run of the same test replaces them.",
    )
    parser.addini("stormproof_runs", f"Folder of the runs of scenarios, from the root directory (default: {RUNS}).")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}(scenario): set by @stormproof.scenario, which is what tests use")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if (asked := _asked(metafunc.definition)) is not None:
        names = [f"seed-{seed}" for seed in asked.seeds]
        metafunc.parametrize(FIXTURE, asked.seeds, indirect=True, ids=names)


def _asked(node: pytest.Item) -> Scenario | None:
    mark = node.get_closest_marker(MARK)
    found = mark.args[0] if mark is not None and mark.args else None
    return found if isinstance(found, Scenario) else None


@pytest.fixture
def stormproof_run(request: pytest.FixtureRequest) -> Iterator[ScenarioRun]:
    """Yield the run of a test with ``@stormproof.scenario``: its verdict, its history, and where it is."""
    item, asked = request.node, _asked(request.node)
    if asked is None or not hasattr(request, "param"):
        pytest.fail(
            f"the fixture {FIXTURE} is for test functions with the decorator @stormproof.scenario(FILE)", pytrace=False
        )
    from stormproof import scenario_run

    runs = _runs(request.config)
    folder = runs / _folder(item)
    scenario_run.forget(folder)
    run, problem = None, ""
    try:
        run = scenario_run.execute(
            asked, _file(asked.file, item), request.param, folder, runs / scenario_run.LOCK
        )  # fmt: skip
    except Exception as error:  # whatever it is: lines of ours help nobody who tests something else
        problem = scenario_run.error_of(error)
    if run is None:
        pytest.fail(problem, pytrace=False)
    item.stash[_RUN] = run
    item.user_properties += [("verdict", str(run.verdict.validity)), ("digest", run.verdict.digest)]
    item.user_properties += [("replay", run.replay)]
    item.user_properties += [("lost by policy", "; ".join(losses))] if (losses := run.verdict.lost_by_policy) else []
    yield run
    if request.config.getoption("stormproof_keep") == "failed" and item.stash.get(_GOOD, False):
        scenario_run.forget(folder)


def _runs(config: pytest.Config) -> Path:
    asked = config.getoption("stormproof_runs")
    if asked:
        return config.invocation_params.dir / asked
    return config.rootpath / (config.getini("stormproof_runs") or RUNS)


def _folder(item: pytest.Item) -> str:
    """Return a name that a test keeps from session to session, and that no other test has."""
    name = re.sub(r"[^\w.-]+", "-", item.name).strip("-.")[:80]
    return f"{name}-{zlib.crc32(item.nodeid.encode()):08x}"


def _file(file: Path, item: pytest.Item) -> Path:
    """Return the experiment; if it is nowhere, where it should be."""
    beside, below_root = item.path.parent / file, item.config.rootpath / file
    return below_root if below_root.is_file() and not beside.is_file() else beside


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Fail before the test's own lines, where the verdict is not the expected one."""
    asked, run = _asked(pyfuncitem), pyfuncitem.stash.get(_RUN, None)
    if asked is None or run is None:
        return
    from stormproof import scenario_run

    if not scenario_run.is_expected(asked, run):
        pyfuncitem.stash[_DESCRIBED] = True
        scenario_run.render(run)
        pytest.fail(scenario_run.failure(asked, run), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note how the test ended; one that fails by its own lines gets the run's story and replay command too."""
    report = yield
    run = item.stash.get(_RUN, None)
    if report.when != "call" or run is None:
        return report
    item.stash[_GOOD] = not report.failed
    if report.failed and not item.stash.get(_DESCRIBED, False):
        from stormproof import scenario_run

        scenario_run.render(run)
        report.sections.append(("Stormproof", scenario_run.summary(run)))
    return report
