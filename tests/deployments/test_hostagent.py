"""What acts on a host: it starts its code from nothing, and never takes another process for one of its nodes."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.effects.disks import Full, SlowDisk, to_json
from chaos.machines.node_package import NodeWheel, node_wheel
from chaos.machines.procfs import Process
from chaos.machines.ssh import boot as sshboot
from chaos.machines.ssh.agent import RUN, Agent, Refused, boot_id
from chaos.shell.disk_rules import ReadRules

SLEEPER = "import time\nopen('ready', 'w').close()\ntime.sleep(600)\n"


class Boot:
    """The boot program as a process of this machine, spoken to as the harness does through SSH."""

    def __init__(self, directory: Path, wheel: NodeWheel, python: tuple[int, ...] = (3, 11)) -> None:
        program = Path(sshboot.__file__).read_text("utf-8")
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-I", "-c", program], stdin=pipe, stdout=pipe, cwd=directory)
        told = {"python": python, "directory": "there", "name": "code-1", "bytes": len(wheel.data)}
        self.say({**told, "digest": wheel.digest})

    def say(self, line: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline().decode().removeprefix(sshboot.MARK))

    def end(self) -> int:
        self.process.communicate(timeout=20)
        return self.process.returncode


def test_a_host_gets_the_code_once_and_then_obeys(tmp_path: Path) -> None:
    for first in (True, False):
        boot = Boot(tmp_path, node_wheel())
        assert boot.hear() == {"need": first}
        if first:
            boot.say(node_wheel().data)
        assert boot.hear() == {}
        boot.say({"do": "begin", "run": "r"})
        assert boot.hear()["ok"]["folder"] == str(tmp_path / "there/runs/r")
        boot.say({"do": "kill", "node": "n"})
        assert boot.hear() == {"refused": "it is not running"}
        boot.say({"do": "begin", "run": "../r"})
        assert "no name of a run" in boot.hear()["error"]
        assert boot.end() == 0
    assert [path.name for path in (tmp_path / "there/code").iterdir()] == ["code-1"]


def test_code_that_was_damaged_on_its_way_is_not_kept(tmp_path: Path) -> None:
    wheel = node_wheel()
    boot = Boot(tmp_path, wheel)
    assert boot.hear() == {"need": True}
    boot.say(wheel.data[:-1] + b"x")
    assert "damaged on its way" in boot.hear()["problem"]
    boot.end()
    assert list((tmp_path / "there/code").iterdir()) == []


def test_a_host_whose_python_is_too_old_says_so(tmp_path: Path) -> None:
    boot = Boot(tmp_path, node_wheel(), python=(99, 0))
    assert boot.hear()["problem"].startswith("it has Python 3.")
    boot.end()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    code = tmp_path / "code" / "sleeper"
    code.mkdir(parents=True)
    (code / "__main__.py").write_text(SLEEPER)
    found = Agent(tmp_path, code.parent)
    found.do_begin(f"run-{os.getpid()}-{time.monotonic_ns()}")
    yield found
    found.do_clear()


def start(agent: Agent, incarnation: int = 1) -> Any:
    launch = {"disk": "disks/n", "trace": "traces/n.jsonl", "gate": "gates/n", "disk_rules": "rules/n.rules"}
    launch["membership"] = "launch/membership"
    return agent.do_start(node="n", package="sleeper", incarnation=incarnation, launch=launch, port=0)


def started(agent: Agent, incarnation: int = 1) -> None:
    """Start it, and wait until it has read all of its code."""
    ready = agent._run / "ready"
    ready.unlink(missing_ok=True)
    start(agent, incarnation)
    while not ready.exists():
        time.sleep(0.01)


def pid_file(agent: Agent) -> Path:
    return agent._run / "pids" / "n.json"


@pytest.mark.process
def test_a_node_is_paused_killed_and_started_again(agent: Agent) -> None:
    first = start(agent)
    assert first["state"] and start(agent, 2)["pid"] == first["pid"], "one that lives is not started"
    assert agent.do_pause("n")["state"] == "T"
    with pytest.raises(Refused, match="paused already"):
        agent.do_pause("n")
    agent.do_resume("n")
    assert agent.do_status(["n"])["n"]["state"] != "T"  # type: ignore[index]
    with pytest.raises(Refused, match="running"):
        agent.do_wipe("n")
    told = agent.do_kill("n")
    assert told["state"] == "" and told["exit_code"] == -9
    with pytest.raises(Refused, match="not running"):
        agent.do_kill("n")
    (agent._run / "disks/n").mkdir(parents=True)
    (agent._run / "disks/n/file").touch()
    assert agent.do_wipe("n") == 1
    assert start(agent, 2)["incarnation"] == 2


@pytest.mark.process
def test_a_node_is_told_to_end_and_its_syncs_are_held(agent: Agent) -> None:
    start(agent)
    assert agent.do_terminate("n", 5.0)["state"] == ""
    with pytest.raises(Refused, match="not running"):
        agent.do_terminate("n", 5.0)
    agent.do_press("n", "io", 0)
    with pytest.raises(Refused, match="already"):
        agent.do_press("n", "io", 0)
    agent.do_release("n", "io")
    agent.do_release("n", "io")
    agent.do_press("n", "io", 0)
    assert (agent._run / "gates/n").exists()
    start(agent, 2)
    agent.do_pause("n")
    with pytest.raises(Refused, match="paused"):
        agent.do_terminate("n", 5.0)


@pytest.mark.process
def test_disk_rules_are_known_to_later_agents_and_tell_what_a_node_ended_of(agent: Agent, tmp_path: Path) -> None:
    start(agent)
    agent.do_set_disk_rule("n", "full", to_json(Full()))
    agent.do_set_disk_rule("n", "slow", to_json(SlowDisk(5)))
    later = Agent(tmp_path, tmp_path / "code")
    later.do_begin(agent._run.name)
    rules = agent._run / "rules" / "n.rules"
    seen = ReadRules(rules)
    assert seen.refresh() and set(seen.by_id) == {"full", "slow"} and seen.latency_ns() == 5
    assert later.do_disk_rule_hits("n", "slow") == 1 and later.do_disk_rule_hits("n", "full") == 0
    assert later.do_status(["n"])["n"]["of_a_fault"] is False  # type: ignore[index]
    assert later.do_clear_disk("n", "slow") is False and seen.refresh() and set(seen.by_id) == {"full"}
    assert seen.refuses_growth()
    assert later.do_status(["n"])["n"]["of_a_fault"] is True  # type: ignore[index]
    assert later.do_clear_disk("n", "full") is True and not rules.exists()
    agent.do_kill("n")
    assert start(agent, 2)["of_a_fault"] is False, "a new life has a new beginning"


@pytest.mark.process
def test_pressure_is_felt_in_each_life_and_released_by_whoever_serves_then(agent: Agent, tmp_path: Path) -> None:
    def limits() -> tuple[int, int]:
        pid = agent.do_status(["n"])["n"]["pid"]  # type: ignore[index]
        return resource.prlimit(pid, resource.RLIMIT_AS)[0], resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]

    with pytest.raises(Refused, match="not running"):
        agent.do_press("n", "memory", 5)
    started(agent)
    free = limits()
    assert agent.do_press("n", "memory", 5)["limit"] == limits()[0] != free[0]
    assert agent.do_press("n", "descriptors", 0)["limit"] == limits()[1] < free[1]
    with pytest.raises(Refused, match="already"):
        agent.do_press("n", "descriptors", 0)
    assert agent.do_status(["n"])["n"]["of_a_fault"] is True  # type: ignore[index]
    agent.do_kill("n")
    started(agent, 2)
    assert limits() == free
    agent.do_weigh("n")
    assert limits()[0] != free[0] and limits()[1] < free[1]
    later = Agent(tmp_path, tmp_path / "code")
    later.do_begin(agent._run.name)
    for kind in ("memory", "descriptors", "cpu"):
        later.do_release("n", kind)
    assert limits() == free and later.do_status(["n"])["n"]["of_a_fault"] is False  # type: ignore[index]


@pytest.mark.process
def test_what_takes_a_processors_time_outlives_its_agent_and_goes_with_the_run(agent: Agent, tmp_path: Path) -> None:
    start(agent)
    code = Path(sshboot.__file__).parents[2]
    agent._code = code
    first = agent.do_press("n", "cpu", 25)
    assert first["spinners"] == 3 and Process.parse(str(first["spinner"])).state()
    later = Agent(tmp_path, code)
    later.do_begin(agent._run.name)
    later.do_release("n", "cpu")
    assert not Process.parse(str(first["spinner"])).state()
    again = later.do_press("n", "cpu", 50)
    done = agent.do_clear()
    assert f"ended what took a processor's time (process {str(again['spinner']).partition(':')[0]})" in done
    assert not Process.parse(str(again["spinner"])).state() and len(done) == 2


@pytest.mark.process
@pytest.mark.parametrize("other", ["start", "boot"])
def test_a_recycled_process_id_is_never_killed(agent: Agent, other: str) -> None:
    """The file names a process id that another process has by now: one that began at another time, or in another boot
    of the machine."""
    start(agent)
    innocent = subprocess.Popen(["sleep", "600"])
    try:
        process = Process.of(innocent.pid)
        told = json.loads(pid_file(agent).read_text())
        assert told["boot"] == boot_id()
        told["process"] = f"{process.pid}:{process.started - (other == 'start')}"
        told["boot"] = "another" if other == "boot" else told["boot"]
        pid_file(agent).write_text(json.dumps(told))
        with pytest.raises(Refused, match="not running"):
            agent.do_kill("n")
        agent.do_resume("n")
        assert process.state() and innocent.poll() is None
        assert agent.do_clear() != [], "the real one is found by its environment"
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


@pytest.mark.process
def test_what_a_run_has_is_found_by_another_agent(agent: Agent, tmp_path: Path) -> None:
    first = start(agent)
    agent.do_pause("n")
    later = Agent(tmp_path, tmp_path / "code")
    later.do_begin(agent._run.name)
    assert later.do_status(["n"])["n"] == {**first, "state": "T", "exit_code": None}
    assert later.do_clear() == [f"ended node n (process {first['pid']}), which was stopped"] and later.do_clear() == []
    assert later.do_remove() is True and later.do_remove() is False


def test_only_whole_lines_of_traces_are_read(tmp_path: Path) -> None:
    agent = Agent(tmp_path, tmp_path)
    agent.do_begin("r")
    for folder in ("traces", "logs"):
        (tmp_path / "runs/r" / folder).mkdir(parents=True)
    (tmp_path / "runs/r/traces/n.jsonl").write_bytes(b"one\ntwo\nth")
    (tmp_path / "runs/r/logs/n.log").write_bytes(b"one\ntw")
    found = agent.do_read({"traces/n.jsonl": 4, "logs/n.log": 0, "logs/other.log": 0})
    assert {name: b64decode(text) for name, text in found.items()} == {
        "traces/n.jsonl": b"two\n",
        "logs/n.log": b"one\ntw",
    }
    assert agent.do_read({"traces/n.jsonl": 8}) == {}


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    agent = Agent(tmp_path, tmp_path)
    agent.do_begin("r")
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match=r"is taken .*`first_port`"):
        agent.do_start(node="n", package="x", incarnation=1, launch={}, port=taken.getsockname()[1])


def test_connections_are_tried_all_at_once(tmp_path: Path) -> None:
    agent = Agent(tmp_path, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as heard, socket.socket() as deaf, socket.socket() as filling:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        filling.connect(deaf.getsockname())  # no other one is taken any more
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ends = [it.getsockname()[1] for it in (heard, deaf, deaf, free)]
        dials = [{"ports": [0], "host": "127.0.0.1", "port": port} for port in ends]
        begun_s = time.monotonic()
        assert agent.do_reach(dials, within_s=0.5) == [True, False, False, False]
        assert 0.5 <= time.monotonic() - begun_s < 0.9
        taken = {"ports": [heard.getsockname()[1]], "host": "127.0.0.1", "port": ends[0]}
        assert agent.do_reach([taken], within_s=0.5) == [False], "there is no port that it may begin at"


def test_the_environment_of_nodes_is_not_that_of_processes_of_this_machine() -> None:
    """Healing what runs on processes must not end nodes of hosts."""
    from chaos.machines import procfs

    assert RUN != procfs.RUN
