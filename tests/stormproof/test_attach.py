"""A Compose project that Stormproof did not start is loaded, hurt, judged, and left running as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import BadInput
from chaos.experiment.reader import load
from stormproof.cli import _run
from tests.stormproof.compose_project import ComposeProject
from tests.stormproof.foreign import ANYWHERE, EXPERIMENT, PARTITION, installed

ROOT = Path(__file__).parents[2]
#: Everything is broken from half a second on, for longer than anybody waits.
LASTING = """\
  - kill: {target: queue-0}
    at: 500ms
    for: 50s
  - pause: {target: queue-1}
    at: 500ms
    for: 50s
  - partition: {shape: isolate, target: queue-1}
    at: 500ms
    for: 50s
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return installed(tmp_path / "site")


@pytest.fixture
def project(engine: Any, tmp_path: Path) -> Iterator[ComposeProject]:
    made = ComposeProject(engine, tmp_path / "services")
    yield made
    made.remove()


def begin(cwd: Path, site: Path, experiment: str) -> subprocess.Popen[str]:
    (cwd / "tinyq.yaml").write_text(experiment)
    line = [
        sys.executable,
        "-P",
        "-m",
        "stormproof",
        "run",
        "tinyq.yaml",
        "--on",
        "attach",
        "--engine",
        "local",
        "--json",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(site)))}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(line, cwd=cwd, env=environment, **pipes)


def until(there: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def effective(cwd: Path) -> set[str]:
    (run,) = cwd.glob("runs/*/run.json")
    return set(json.loads(run.read_text("utf-8"))["summary"]["effective_faults"])


@pytest.mark.docker
def test_it_is_judged_and_left_as_it_was(tmp_path: Path, site: Path, project: ComposeProject) -> None:
    before = project.states()
    with begin(tmp_path, site, EXPERIMENT + ANYWHERE + PARTITION + project.key()) as running:
        told, said = running.communicate(timeout=200)
    assert running.returncode == 0 and json.loads(told)["verdict"] == "VALID", said
    assert effective(tmp_path) == {"kill", "pause", "hiccup", "partition"}
    after = project.states()
    assert after["backup"] == before["backup"], "it was only paused and cut off"
    assert after["primary"][0] == "running" and after["primary"][1] > before["primary"][1]
    assert not project.helpers() and not project.rules()


@pytest.mark.full
@pytest.mark.docker
def test_a_cluster_with_messages_of_others_is_refused(tmp_path: Path, site: Path, project: ComposeProject) -> None:
    experiment = EXPERIMENT.replace("8s", "1s") + "  []\n" + project.key()
    with begin(tmp_path, site, experiment) as first:
        assert first.wait(200) == 0
    with begin(tmp_path, site, experiment) as second:
        _, said = second.communicate(timeout=200)
    assert second.returncode == 3 and "queue tinyq/0 holds messages from before this run" in said
    assert {state for state, _ in project.states().values()} == {"running"}


@pytest.mark.full
@pytest.mark.docker
@pytest.mark.usefixtures("abandoned")
def test_a_killed_harness_leaves_what_heal_restores(
    tmp_path: Path, site: Path, project: ComposeProject, capsys: pytest.CaptureFixture[str]
) -> None:
    before, out = project.states(), ["--out", str(tmp_path / "runs")]
    with begin(tmp_path, site, EXPERIMENT.replace("8s", "60s") + LASTING + project.key()) as running:
        until(lambda: {state for state, _ in project.states().values()} == {"exited", "paused"})
        until(lambda: len(project.helpers()) == 2)
        assert _run(["heal", *out]) == 0
        assert "is still driven by process" in capsys.readouterr().out
        running.send_signal(signal.SIGKILL)
    assert _run(["heal", *out]) == 0
    told = capsys.readouterr().out
    assert "node queue-0: started it again" in told and "node queue-1: let it go on" in told
    after = project.states()
    assert after["backup"] == before["backup"] and after["primary"][0] == "running"
    assert not project.helpers() and not project.rules()
    assert _run(["heal", *out]) == 0
    assert "nothing to heal" in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.docker
@pytest.mark.parametrize(
    ("does", "said"),
    [
        (lambda container: container.remove(force=True), "was removed"),
        (lambda container: container.stop(timeout=1), "was stopped, and not by this run"),
        (lambda container: container.restart(timeout=1), "was started again, and not by this run"),
    ],
)
def test_what_others_do_to_it_meanwhile_leaves_it_undecided(
    tmp_path: Path, site: Path, project: ComposeProject, does: Callable[[Any], None], said: str
) -> None:
    bounds = "bounds: {recover_s: 3, drain_s: 3}\n"
    faults = "  - kill: {target: queue-0}\n    at: 500ms\n    for: 500ms\n"
    began = project.states()["primary"][1]
    try:
        with begin(tmp_path, site, EXPERIMENT + faults + bounds + project.key()) as running:
            until(lambda: project.states()["primary"][1] > began)
            time.sleep(1)
            does(project.containers["backup"])
            told, problem = running.communicate(timeout=200)
        assert running.returncode == 2 and json.loads(told)["verdict"] == "UNKNOWN", problem
        assert any(f"of node queue-1 {said}" in why for why in json.loads(told)["why"]), told
    finally:
        project.containers = {name: one for name, one in project.containers.items() if project.exists(one)}


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (
            "  - wipe: {target: queue-0}\n    at: 1s\n",
            "node queue-0 is a program, to which it can't be done: it is not ours",
        ),
        (
            "  - cpu: {target: queue-1}\n    at: 1s\n    for: 1s\n",
            "node queue-1 is a program, to which it can't be done",
        ),
        (
            "  - membership: {change: replace}\n    at: 1s\n",
            "no node is added, removed or replaced; what would do: `kill`",
        ),
        ("  - bit_flip: {target: queue-0}\n    at: 1s\n", "nothing of its disk is wiped or changed"),
        ("  - slow_link: {target: queue-1}\n    at: 1s\n    for: 1s\n", "the links of attach can't do it"),
    ],
)
def test_what_is_never_done_to_it_is_refused_before_the_start(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch, faults: str, said: str
) -> None:
    monkeypatch.syspath_prepend(site)
    (tmp_path / "tinyq.yaml").write_text(EXPERIMENT + faults + "attach: {compose: shop}\n")
    with pytest.raises(BadInput) as caught:
        load(tmp_path / "tinyq.yaml", deployment="attach")
    assert said in str(caught.value)


def test_nodes_that_only_a_deployment_can_host_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("system: reference\nduration: 1s\nworkloads: [queue]\nattach: {compose: shop}\n")
    with pytest.raises(BadInput, match=r"attach takes programs that run already, and node .* is a Python package"):
        load(tmp_path / "a.yaml", deployment="attach")


def test_up_starts_nothing_that_runs_already(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["up", "tinyq.yaml", "--on", "attach", "--out", str(tmp_path)]) == 3
    assert "--on attach: expected a deployment whose nodes can stay: docker" in capsys.readouterr().err
