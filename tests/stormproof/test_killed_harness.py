"""A harness that is killed or told to end in a fault: what was recorded is judged, and nothing is left behind."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from chaos.history.directory import runs
from chaos.machines import procfs
from chaos.machines.healing import marks
from chaos.run.journal import JOURNAL
from tests.chaos.run.journals import pending
from tests.stormproof.conftest import Begin
from tests.stormproof.machine_state import CLOCK_S, control_groups, state, wall_clock_s

#: The quickstart's faults in short: from 0.3 s on something is broken at any time.
STORM = """\
name: short
system: {reference: {controllers: 3, brokers: 3, queues: 2}}
duration: 20s
workloads:
  - queue: {producers: 2, consumers: 1, rate_per_s: 60}
faults:
  - pause: {target: slave}
    at: 300ms
    for: 8s
  - add-broker: {}
    at: 500ms
  - partition: {shape: isolate, target: one}
    at: 1s
    for: 2s
  - kill: {target: master}
    at: 2s
    for: 3s
"""
#: Much traffic through the tier before the only fault, so that what a mutant does shows early.
CALM = """\
name: calm
system: {reference: {controllers: 1, brokers: 2, queues: 1, tier_segment_bytes: 2048, tier_max_age_ms: 200}}
duration: 20s
workloads:
  - queue: {producers: 1, consumers: 1, rate_per_s: 100}
  - tier_read: {readers: 2, rate_per_s: 40}
faults:
  - pause: {target: slave}
    at: 3s
    for: 8s
"""
#: Faults that start processes of their own, limit others, or start and end them all the time.
PRESSURE = (
    STORM[: STORM.index("faults:")]
    + """\
faults:
  - cpu: {target: one, share_percent: 20}
    at: 300ms
  - io_hang: {target: slave}
    at: 500ms
  - descriptors: {target: controller_minority}
    at: 700ms
  - memory: {target: nameserver}
    at: 900ms
  - crash_loop: {target: master, up_s: 0.3}
    at: 1s
  - rolling_restart: {}
    at: 1200ms
"""
)
#: How long a killed run's load may have lasted since a fault was written to the journal: the fault itself comes a
#: moment later, and a crowded machine makes that moment longer.
EARLIEST_S, LATEST_S = 1.0, 3.0


def in_a_fault(tmp_path: Path, popen: subprocess.Popen[str]) -> Path:
    """Wait for the first fault; the run's directory."""
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s and popen.poll() is None:
        for run in runs(tmp_path / "runs"):
            if (run / JOURNAL).exists() and pending(run):
                return run
        time.sleep(0.02)
    raise AssertionError(f"no fault was injected: {popen.poll()}")


def finish(popen: subprocess.Popen[str], within_s: float = 40) -> tuple[int, str, str]:
    out, err = popen.communicate(timeout=within_s)
    assert "Traceback" not in err, err
    return popen.returncode, out, err


def start(tmp_path: Path, begin: Begin, text: str = STORM, on: str = "process") -> subprocess.Popen[str]:
    """Begin the storm; whatever it writes outside of its run lands in the test's own folder too."""
    (tmp_path / "storm.yaml").write_text(text)
    elsewhere = {name: str(tmp_path / name) for name in ("HOME", "TMPDIR")}
    # What is kept from one use to the next, such as compiled templates, is of no run.
    elsewhere |= {"MPLCONFIGDIR": str(tmp_path.parent), "XDG_CACHE_HOME": str(tmp_path.parent / "cache")}
    return begin("run", "storm.yaml", "--on", on, "--engine", "local", **elsewhere)


@pytest.fixture
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether all runs of the folder are healed, as at every fifth moment, or one run alone."""
    request.getfixturevalue("abandoned")
    return bool(request.node.callspec.params["moment"] % 5 == 0)


def heal(begin: Begin, run: str, whole: bool) -> tuple[int, str, str]:
    return finish(begin("heal", "--all" if whole else run))


def prepare(tmp_path: Path) -> None:
    for name in ("HOME", "TMPDIR"):
        (tmp_path / name).mkdir()
    (tmp_path / "storm.yaml").touch()


def kill_in_a_fault(tmp_path: Path, begin: Begin, moment: int) -> Path:
    popen = start(tmp_path, begin)
    run = in_a_fault(tmp_path, popen)
    time.sleep(Random(f"moment/{moment}").uniform(EARLIEST_S, LATEST_S))
    popen.kill()
    popen.wait()
    return run


@pytest.mark.process
@pytest.mark.parametrize("moment", [0, *(pytest.param(moment, marks=pytest.mark.full) for moment in range(1, 20))])
def test_a_harness_killed_in_a_fault_leaves_a_history_to_judge_and_nothing_else(tmp_path, whole, begin, moment):
    prepare(tmp_path)
    before, clock_s = state(str(tmp_path), tmp_path), wall_clock_s()
    run = kill_in_a_fault(tmp_path, begin, moment)
    left = procfs.of_run(run)
    assert any(process.state() == "T" for process in left), "a node is stopped, and nobody is there to resume it"
    code, out, _ = heal(begin, run.name, whole)
    assert code == 0 and out.count(f"run {run.name}: ended") == len(left) and "which was stopped" in out
    assert not procfs.of_run(run) and not any(process.state() for process in left)
    assert state(str(tmp_path), tmp_path) == before and control_groups(run.name) == []
    assert abs(wall_clock_s() - clock_s) < CLOCK_S
    code, out, _ = finish(begin("check", run.name, "--engine", "local", "--json"))
    verdict = json.loads(out)
    assert code == 2 and verdict["verdict"] == "UNKNOWN", out[:4000]
    assert verdict["anomalies"].keys() <= {"redelivery"}
    assert any("did not come to its end: its last phase was load" in why for why in verdict["why"])
    assert not any("no pause took effect" in why for why in verdict["why"]), "it was in force"
    assert "nothing to heal" in finish(begin("heal", run.name))[1] and marks.below(tmp_path) == []


@pytest.mark.process
@pytest.mark.parametrize("moment", [0, *(pytest.param(moment, marks=pytest.mark.full) for moment in range(1, 12))])
def test_a_harness_killed_while_machines_are_pressed_leaves_nothing(tmp_path, whole, begin, moment):
    prepare(tmp_path)
    before = state(str(tmp_path), tmp_path)
    popen = start(tmp_path, begin, PRESSURE)
    run = in_a_fault(tmp_path, popen)
    time.sleep(1.0 + Random(f"pressed/{moment}").uniform(0, LATEST_S))
    assert popen.poll() is None, popen.communicate()
    popen.kill()
    popen.wait()
    left = procfs.of_run(run)
    spinning = [process for process in left if "chaos.machines.local_resources" in command_of(process)]
    assert len(spinning) == 4
    assert heal(begin, run.name, whole)[0] == 0
    assert not any(process.state() for process in left) and not procfs.of_run(run)
    assert state(str(tmp_path), tmp_path) == before and pending(run)


def command_of(process: procfs.Process) -> str:
    """What it was started with; nothing for one that has ended since."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return (Path("/proc") / str(process.pid) / "cmdline").read_text().replace("\0", " ")
    return ""


#: From the first line of the command to the last one: the load is cut short, so that all phases are met.
WHOLE_LIFE_S = 12.0
BRIEF = STORM.replace("duration: 20s", "duration: 4s").replace("for: 8s", "for: 3s")


@pytest.mark.parametrize(
    ("on", "moment"),
    [
        pytest.param("process", 0, marks=pytest.mark.process),
        *(pytest.param("process", moment, marks=[pytest.mark.full, pytest.mark.process]) for moment in range(1, 20)),
        *(pytest.param("netns", moment, marks=[pytest.mark.full, pytest.mark.netns]) for moment in range(20)),
    ],
)
def test_a_harness_killed_in_any_phase_leaves_nothing_that_heal_does_not_end(tmp_path, whole, begin, on, moment):
    prepare(tmp_path)
    before, clock_s = state(str(tmp_path), tmp_path), wall_clock_s()
    popen = start(tmp_path, begin, BRIEF, on)
    time.sleep(Random(f"any moment/{moment}").uniform(0, WHOLE_LIFE_S))
    popen.kill()
    popen.wait()
    found = runs(tmp_path / "runs")
    if whole or found:
        assert heal(begin, "latest", whole)[0] == 0
        assert marks.below(tmp_path) == []
    assert state(str(tmp_path), tmp_path) == before and abs(wall_clock_s() - clock_s) < CLOCK_S
    assert [group for run in found for group in control_groups(run.name)] == []


@pytest.mark.process
def test_what_was_proven_before_the_kill_is_invalid(tmp_path, abandoned, begin):
    (tmp_path / "storm.yaml").write_text(CALM)
    popen = begin("run", "storm.yaml", "--on", "process", "--engine", "local", "--bug", "view-keeps-old-content")
    run = in_a_fault(tmp_path, popen)
    time.sleep(3)  # of the fault's eight: on a loaded machine the readers have shown the old view by then, too
    popen.kill()
    popen.wait()
    assert finish(begin("heal"))[0] == 0
    code, out, _ = finish(begin("check", "latest", "--engine", "local", "--json"))
    assert code == 1 and json.loads(out)["verdict"] == "INVALID"
    assert not procfs.of_run(run)


@pytest.mark.process
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.full), signal.SIGTERM])
def test_a_harness_told_to_end_heals_and_judges(tmp_path, begin, number):
    (tmp_path / "storm.yaml").write_text(STORM)
    popen = begin("run", "storm.yaml", "--on", "process", "--engine", "local", "--json")
    run = in_a_fault(tmp_path, popen)
    popen.send_signal(number)
    code, out, err = finish(popen)
    verdict = json.loads(out)
    assert code == 2 and "the run was interrupted" in verdict["why"]
    assert err.splitlines()[-1] == "stormproof run storm.yaml --on process --seed 0"
    assert pending(run) == [] and not procfs.of_run(run)
    assert "nothing to heal" in finish(begin("heal"))[1]


@pytest.mark.process
@pytest.mark.parametrize(
    "number",
    [*(pytest.param(number, marks=pytest.mark.full) for number in (signal.SIGINT, signal.SIGTERM)), signal.SIGKILL],
)
def test_a_sweep_that_is_ended_leaves_no_worker(tmp_path, begin, number):
    few = CALM.replace("rate_per_s: 100", "rate_per_s: 10").replace("rate_per_s: 40", "rate_per_s: 4")
    (tmp_path / "calm.yaml").write_text(few)
    popen = begin("run", "calm.yaml", "--on", "sim", "--seeds", "0..99", "--engine", "local", "--json")
    deadline_s = time.monotonic() + 30
    while not list((tmp_path / "runs").glob("*/run.json")):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    workers = children(popen.pid)
    assert workers
    popen.send_signal(number)
    out, err = popen.communicate(timeout=40)
    if number != signal.SIGKILL:
        assert popen.returncode == 3 and "interrupted" in err and "Traceback" not in err
        assert isinstance(json.loads(out), list)
    while any(process.state() for process in workers):
        assert time.monotonic() < deadline_s + 40
        time.sleep(0.02)


def children(pid: int) -> list[procfs.Process]:
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [procfs.Process.of(int(child)) for child in pids]


@pytest.mark.parametrize(
    "where", ["sim", pytest.param("process", marks=[pytest.mark.full, pytest.mark.process])]
)  # fmt: skip
def test_a_run_whose_directory_is_deleted_ends_at_once_and_healed(tmp_path, begin, where):
    duration = "100h" if where == "sim" else "60s"
    (tmp_path / "storm.yaml").write_text(CALM.replace("20s", duration).replace("for: 8s", "for: 50s"))
    popen = begin("run", "storm.yaml", "--on", where, "--engine", "local")
    deadline_s = time.monotonic() + 30
    while not (found := [path for path in tmp_path.glob("runs/*/history.arrows") if path.stat().st_size > 30_000]):
        assert time.monotonic() < deadline_s and popen.poll() is None
        time.sleep(0.05)
    run = found[0].parent
    shutil.rmtree(run.rename(tmp_path / "gone"))  # where it was, nodes can't make files any more meanwhile
    code, out, err = finish(popen, within_s=20)
    assert code == 3 and out.startswith("stormproof run storm.yaml")
    profile, *phases, error = err.splitlines()
    assert profile.startswith("profile: ")
    assert all(re.match(r" *\d+\.\d s  \w", line) for line in phases), err
    assert "history.arrows was deleted while the run went on, so the run ends here" in error
    assert procfs.of_run(run) == [] and list(tmp_path.glob("runs/*")) == []
