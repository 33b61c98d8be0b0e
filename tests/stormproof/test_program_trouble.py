"""Programs of others that misbehave: a run ends with one sentence and exit code 3, and with all that it has started."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.history.directory import runs
from tests.chaos.deployments.storms import effective, stormproof
from tests.stormproof.foreign import installed
from tests.stormproof.machine_state import processes

EXPERIMENT = """\
name: rude
system: {rude: {how: HOW}}
duration: 3s
workloads:
  - program
  - queue: {producers: 1, consumers: 1, rate_per_s: 20}
faults:
  - stop: {target: queue-0}
    at: 1s
    for: 300ms
"""
#: What each says, in parts.
TROUBLES = {
    "silent": (
        "node queue-0 runs, but was not ready within 3 s",
        "waited for a line of its log that matches '^tinyq serves'; it listens at ",
        "the last line of its log: warming up, which the run keeps as logs/queue-0.log\nwhat was recorded is in runs/",
    ),
    "ends": ("node queue-0 ended at its start", "(exit code 3); the last line of its log: no licence"),
    "missing": ("node queue-0 ", "127", "no-such-command"),
    "address": (
        "node queue-0 runs, but was not ready within 4 s",
        "waited for port queue (",
        "it listens at 127.0.0.1",
    ),
    "image": ("the image nobody/has:this of node queue-0 is not there: `docker pull nobody/has:this`, or build it",),
    "node": ("node queue-0: files, conf/peer: {ip:queue-7}: there is no node 'queue-7' (did you mean 'queue-",),
    "port": ("node queue-0: files, conf/peer: {port:queue-1.peer}: there is no port of queue-1 'peer'",),
    "no-json": ("client ", "(sh -c 'echo hello; cat')", "line 1 is not JSON: 'hello'"),
    "lies": ("client ", "line 1 says that it is 9000000000000000000"),
}
#: What is the same wherever a node runs is tried once.
EVERYWHERE = ("silent", "ends", "missing", "address")
PLACES = ("process", "netns", "docker", "ssh")
SHORT = ("silent", "lies")


def cases() -> list[Any]:
    found = []
    for how in TROUBLES:
        places = PLACES if how in EVERYWHERE else ("docker",) if how == "image" else ("process",)
        for on in places:
            full = [] if on == "process" and how in SHORT else [pytest.mark.full]
            found.append(pytest.param(how, on, marks=[getattr(pytest.mark, on), *full], id=f"{how}-{on}"))
    return found


@pytest.fixture
def site(tmp_path: Path) -> Path:
    found = installed(tmp_path / "site")
    (found / "rude.py").symlink_to(Path(__file__).with_name("rude.py"))
    info = found / "rude-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rude\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[stormproof.drivers]\nrude = rude\n")
    return found


Place = Callable[[str], list[str]]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The words that have a run use a deployment."""

    def words(on: str) -> list[str]:
        if on == "docker":
            request.getfixturevalue("engine")
        inventory = ["--inventory", str(request.getfixturevalue("hosts").file(tmp_path))] if on == "ssh" else []
        return ["--on", on, *inventory]

    return words


def run(cwd: Path, site: Path, how: str, *words: str) -> subprocess.CompletedProcess[str]:
    (cwd / "rude.yaml").write_text(EXPERIMENT.replace("HOW", how))
    path = os.pathsep.join((str(Path(__file__).parents[2]), str(site)))
    return stormproof(cwd, "run", "rude.yaml", "--engine", "local", "--json", *words, PYTHONPATH=path)


def left(request: pytest.FixtureRequest, cwd: Path, on: str) -> list[str]:
    """What still runs of what was started in this folder."""
    found = processes(str(cwd))
    if on == "docker":
        from chaos.machines.docker.engine import of_run

        for directory in runs(cwd / "runs"):
            found += [one.name for kind in of_run(request.getfixturevalue("engine"), directory) for one in kind]
    if on == "ssh":
        hosts = request.getfixturevalue("hosts")
        lines = [line for number in range(3) for line in hosts.shell(number, "ps", "-eo", "args").splitlines()]
        found += [line for line in lines if "tinyq" in line or line.startswith("sleep ")]
    return found


@pytest.mark.parametrize(("how", "on"), cases())
def test_it_ends_with_one_sentence_and_all_that_was_started(
    request: pytest.FixtureRequest, tmp_path: Path, site: Path, place: Place, how: str, on: str
) -> None:
    done = run(tmp_path, site, how, *place(on))
    assert done.returncode == 3 and "Traceback" not in done.stderr, done.stdout + done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 1, done.stderr
    assert all(part in done.stderr for part in TROUBLES[how]), done.stderr
    assert left(request, tmp_path, on) == []


@pytest.mark.full
@pytest.mark.parametrize("on", [pytest.param(on, marks=getattr(pytest.mark, on)) for on in PLACES])
def test_a_program_that_floods_its_log_is_deaf_and_leaves_its_group_is_judged_and_ended(
    request: pytest.FixtureRequest, tmp_path: Path, site: Path, place: Place, on: str
) -> None:
    done = run(tmp_path, site, "rude", *place(on))
    assert done.returncode == 0 and json.loads(done.stdout)["verdict"] == "VALID", done.stdout + done.stderr
    (directory,) = runs(tmp_path / "runs")
    assert effective(directory) == {"stop": True}
    log = (directory / "logs/queue-0.log").read_text()
    assert 1_000_000 < len(log) < 20_000_000 and "flood" in log and "tinyq serves" in log
    assert left(request, tmp_path, on) == []
