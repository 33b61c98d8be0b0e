"""What acts on a host: it starts its code from nothing, and never takes another process for one of its nodes."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaos.machines.agent.commands import Refused, boot_id, command_of, until
from chaos.machines.node_package import NodeWheel, node_wheel
from chaos.machines.procfs import Process, session_of
from chaos.machines.ssh import boot as sshboot
from chaos.machines.ssh.agent import HostAgent

#: Ready once it has closed what it opened.
READY = "part = f'ready.{os.getpid()}'\nopen(part, 'w').close()\nos.rename(part, 'ready')\n"
PARENT = f"import os, time\nos.fork()\n{READY}time.sleep(600)\n"
SLEEPER = f"import os, time\n{READY}time.sleep(600)\n"

#: Seconds that a busy machine may take to end or stop a process.
PATIENCE_S = 60.0


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
        boot.say({"do": "signal", "node": "n", "name": "kill"})
        assert boot.hear() == {"refused": "n is not running"}
        boot.say({"do": "begin", "run": "../r"})
        assert "not a name of a run" in boot.hear()["error"]
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


class Asked:
    """A host's agent, asked as the harness asks it: by lines of JSON, and answered by some."""

    def __init__(self, root: Path, code: Path, run: str = "") -> None:
        self.host = HostAgent(root, code)
        self.begin(run=run or f"run-{os.getpid()}-{time.monotonic_ns()}")

    @property
    def run(self) -> Path:
        assert self.host.agent is not None
        return self.host.agent.run

    def status(self) -> Any:
        return self.ask("status", nodes=["n"])["n"]

    def ask(self, do: str, **arguments: object) -> Any:
        _, command = command_of(self.host.parts, json.dumps({"do": do, **arguments}).encode())
        return json.loads(json.dumps(command()))

    def __getattr__(self, do: str) -> Callable[..., Any]:
        return partial(self.ask, do)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Asked]:
    code = tmp_path / "code" / "sleeper"
    code.mkdir(parents=True)
    (code / "__main__.py").write_text(SLEEPER)
    found = Asked(tmp_path, code.parent)
    yield found
    found.clear()


def later(agent: Asked) -> Asked:
    """Another agent, for the same run."""
    return Asked(agent.host._root, agent.host._code, agent.run.name)


def start(agent: Asked, incarnation: int = 1) -> Any:
    agent.start(launch={"spec": {"name": "n", "package": "sleeper"}, "incarnation": incarnation}, port=0)
    return agent.status()


def started(agent: Asked, incarnation: int = 1) -> None:
    """Start it, and wait until it has read all of its code."""
    ready = agent.run / "ready"
    ready.unlink(missing_ok=True)
    start(agent, incarnation)
    while not ready.exists():
        time.sleep(0.01)


def ended(agent: Asked, name: str = "kill") -> Any:
    """End it by this signal; its status then."""
    agent.signal(node="n", name=name)
    assert until(lambda: not agent.status()["state"], PATIENCE_S)
    return agent.status()


def stop(agent: Asked) -> None:
    agent.signal(node="n", name="stop")
    assert until(lambda: agent.status()["state"] == "T", PATIENCE_S)


def pid_file(agent: Asked) -> Path:
    return agent.run / "lives" / "n.json"


@pytest.mark.process
def test_a_node_is_paused_killed_and_started_again(agent: Asked) -> None:
    first = start(agent)
    assert first["state"] and start(agent, 2)["pid"] == first["pid"], "one that lives is not started"
    stop(agent)
    assert agent.status()["paused"] is True
    agent.signal(node="n", name="continue")
    assert until(lambda: agent.status()["state"] != "T")
    with pytest.raises(Refused, match="running"):
        agent.wipe(node="n")
    assert ended(agent)["exit_code"] == -9
    with pytest.raises(Refused, match="not running"):
        agent.signal(node="n", name="kill")
    agent.signal(node="n", name="continue")
    (agent.run / "nodes/n").mkdir(parents=True)
    (agent.run / "nodes/n/file").touch()
    assert agent.wipe(node="n") == 1
    assert start(agent, 2)["incarnation"] == 2


@pytest.mark.process
def test_signals_reach_whatever_a_node_has_started_and_its_state_is_that_of_all(agent: Asked) -> None:
    def children() -> list[Process]:
        return [process for process in session_of(leader(), {}) if process != leader()]

    def leader() -> Process:
        return Process(agent.status()["pid"], agent.status()["started"])

    (agent.host._code / "sleeper" / "__main__.py").write_text(PARENT)
    started(agent)
    (child,) = children()
    stop(agent)
    assert child.state() == "T"
    child.signal(signal.SIGCONT)
    assert until(lambda: agent.status()["state"] in ("S", "R")), "one of them goes on"
    agent.signal(node="n", name="continue")
    assert ended(agent)["exit_code"] == -9
    assert until(lambda: not child.state(), PATIENCE_S), "a kill takes effect when the process gets a processor"
    started(agent, 2)
    (child,) = children()
    leader().signal(signal.SIGKILL)
    assert until(lambda: not agent.status()["state"] and not child.state(), PATIENCE_S), (
        "a node ends with its first process"
    )


@pytest.mark.process
def test_a_node_is_told_to_end_and_its_syncs_are_held(agent: Asked) -> None:
    started(agent)
    assert ended(agent, "terminate")["exit_code"] == -15
    with pytest.raises(Refused, match="not running"):
        agent.signal(node="n", name="terminate")
    agent.press(node="n", kind="io", amount=0)
    with pytest.raises(Refused, match="already"):
        agent.press(node="n", kind="io", amount=0)
    agent.release(node="n", kind="io")
    agent.release(node="n", kind="io")
    agent.press(node="n", kind="io", amount=0)
    assert (agent.run / "nodes/n.gate").exists()


def test_a_node_has_these_files_and_no_others(tmp_path: Path) -> None:
    agent = Asked(tmp_path, tmp_path)

    def put(file: str, content: bytes) -> None:
        agent.put(node="n", file=file, content=b64encode(content).decode())

    def get(file: str, begin: int = 0) -> bytes:
        return b64decode(agent.get(node="n", file=file, begin=begin))

    assert get("rules") == b""
    put("rules", b"first")
    put("rules", b"sec\0nd")
    assert get("rules") == (agent.run / "nodes/n.rules").read_bytes() == b"sec\0nd" and get("rules", 4) == b"nd"
    again = later(agent)
    assert b64decode(again.get(node="n", file="rules", begin=0)) == b"sec\0nd"
    put("rules", b"")
    put("rules", b"")
    assert os.listdir(agent.run / "nodes") == [] and get("rules", 9) == b""
    for name in ("gate", "../n", "rules.part", ""):
        with pytest.raises(ValueError, match="is not a valid NodeFile"):
            put(name, b"x")
        with pytest.raises(ValueError, match="is not a valid NodeFile"):
            get(name)


@pytest.mark.process
def test_pressure_is_felt_in_each_life_and_released_by_whoever_serves_then(agent: Asked, tmp_path: Path) -> None:
    def limits() -> tuple[int, int]:
        pid = agent.status()["pid"]
        return resource.prlimit(pid, resource.RLIMIT_AS)[0], resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]

    with pytest.raises(Refused, match="not running"):
        agent.press(node="n", kind="memory", amount=5)
    started(agent)
    free = limits()
    assert agent.press(node="n", kind="memory", amount=5)["limit"] == limits()[0] != free[0]
    assert agent.press(node="n", kind="descriptors", amount=0)["limit"] == limits()[1] < free[1]
    with pytest.raises(Refused, match="already"):
        agent.press(node="n", kind="descriptors", amount=0)
    assert agent.status()["of_a_fault"] is True and agent.status()["starved"] is True
    ended(agent)
    started(agent, 2)
    assert limits() == free
    agent.born(node="n")
    assert limits()[0] != free[0] and limits()[1] < free[1]
    again = later(agent)
    for kind in ("memory", "descriptors", "cpu"):
        again.release(node="n", kind=kind)
    assert limits() == free and again.status()["of_a_fault"] is again.status()["starved"] is False


@pytest.mark.process
def test_what_takes_a_processors_time_outlives_its_agent_and_goes_with_the_run(agent: Asked, tmp_path: Path) -> None:
    start(agent)
    code = Path(sshboot.__file__).parents[3]
    agent = Asked(tmp_path, code, agent.run.name)
    first = agent.press(node="n", kind="cpu", amount=25)
    assert first["spinners"] == 3 and Process.parse(str(first["spinner"])).state()
    while agent.spinning(first=first["spinner"]) != 3:  # the first one's environment may be empty until then
        time.sleep(0.01)
    again = later(agent)
    again.release(node="n", kind="cpu")
    assert not Process.parse(str(first["spinner"])).state()
    second = again.press(node="n", kind="cpu", amount=50)
    done = agent.clear()
    assert f"ended what took a processor's time (process {str(second['spinner']).partition(':')[0]})" in done
    assert not Process.parse(str(second["spinner"])).state() and len(done) == 2


@pytest.mark.process
@pytest.mark.parametrize("other", ["start", "boot"])
def test_a_recycled_process_id_is_never_killed(agent: Asked, other: str) -> None:
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
            ended(agent)
        agent.signal(node="n", name="continue")
        assert process.state() and innocent.poll() is None
        assert agent.clear() != [], "the real one is found by its environment"
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


@pytest.mark.process
def test_what_a_run_has_is_found_by_another_agent(agent: Asked, tmp_path: Path) -> None:
    started(agent)
    first = agent.status()
    stop(agent)
    again = later(agent)
    assert again.status() == {**first, "state": "T", "paused": True, "exit_code": None}
    assert again.clear() == [f"ended node n (process {first['pid']}), which was stopped"] and again.clear() == []
    assert again.remove() is True and again.remove() is False


def test_only_whole_lines_of_traces_are_read(tmp_path: Path) -> None:
    agent = Asked(tmp_path, tmp_path, "r")
    for folder in ("traces", "logs"):
        (tmp_path / "runs/r" / folder).mkdir(parents=True)
    (tmp_path / "runs/r/traces/n.jsonl").write_bytes(b"one\ntwo\nth")
    (tmp_path / "runs/r/logs/n.log").write_bytes(b"one\ntw")
    found = agent.read(files={"traces/n.jsonl": 4, "logs/n.log": 0, "logs/other.log": 0})
    assert {name: b64decode(text) for name, text in found.items()} == {
        "traces/n.jsonl": b"two\n",
        "logs/n.log": b"one\ntw",
    }
    assert agent.read(files={"traces/n.jsonl": 8}) == {}


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    agent = Asked(tmp_path, tmp_path, "r")
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match=r"is taken .*`first_port`"):
        agent.start(launch={"spec": {"name": "n"}, "incarnation": 1}, port=taken.getsockname()[1])


def test_connections_are_tried_all_at_once(tmp_path: Path) -> None:
    agent = Asked(tmp_path, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as heard, socket.socket() as deaf, socket.socket() as filling:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        filling.connect(deaf.getsockname())  # no other one is taken any more
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ends = [it.getsockname()[1] for it in (heard, deaf, deaf, free)]
        dials = [{"ports": [0], "host": "127.0.0.1", "port": port} for port in ends]
        begun_s = time.monotonic()
        assert agent.reach(dials=dials, within_s=0.5) == [True, False, False, False]
        assert 0.5 <= time.monotonic() - begun_s < 0.9
        taken = {"ports": [heard.getsockname()[1]], "host": "127.0.0.1", "port": ends[0]}
        assert agent.reach(dials=[taken], within_s=0.5) == [False], "there is no port that it may begin at"


def test_the_environment_of_nodes_is_not_that_of_processes_of_this_machine() -> None:
    """Healing what runs on processes must not end nodes of hosts."""
    from chaos.machines import procfs

    assert procfs.HOST_RUN != procfs.RUN
