"""Nodes as operating-system processes on this machine, under a supervisor, with every link through its proxy.

Works on Linux, without root and without containers. Nodes, proxies and clients listen on and dial 127.0.0.1 alone, on
ports that the system chooses.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from chaos.deployment import copy_of, trace_file
from chaos.driver import ClusterSpec, OnTrace
from chaos.effects.corruption import AtDisk, at_disk
from chaos.effects.disks import DiskRule, to_json
from chaos.effects.links import ACTIONS, LinkRule
from chaos.errors import DeploymentError
from chaos.fault import NotNow, Undo, Verb
from chaos.machines import procfs
from chaos.machines.client import ProcessConnection
from chaos.machines.disk_corruption import HarmsDisks
from chaos.machines.folder_disk import RealFiles
from chaos.machines.local.heal import heal, heal_all
from chaos.machines.local.supervisor import FILE, Charge, disk_of, log_of, rule_to_json
from chaos.machines.local_resources import Kind, spinning
from chaos.machines.procfs import Process
from chaos.machines.proxy import HOST, reaches
from chaos.machines.real_time import Crash, Tail, execute, ping, until
from chaos.machines.resource_limits import PressesMachines
from chaos.machines.torn_writes import LosesWrites
from chaos.node import NodeSpec

__all__ = ["Crash", "ProcessDeployment", "create", "heal", "heal_all"]

#: Bounds on waiting: for the supervisor and for nodes to begin, for a signal to show, for an answer, for the end.
BEGIN_S = 60.0
EFFECT_S = 10.0
#: A node whose disk has failed ends within this time, if it does.
DISK_END_S = 0.3
ANSWER_S = 30.0
END_S = 10.0
#: A node that was told to end and does not is killed.
ORDERLY_S = 5.0
#: What takes longer doesn't work, for whoever probes it.
REACH_S = 0.5


def create(*, run_id: str, directory: Path, seed: int) -> ProcessDeployment:
    """Prepare; nothing runs before ``start``. ``directory`` takes the nodes' disks, traces and logs."""
    return ProcessDeployment(run_id, directory.absolute(), seed)


class ProcessDeployment(HarmsDisks, LosesWrites, PressesMachines):
    """Implements ``Deployment`` and all capabilities but that of clocks. ``crashes`` lists nodes that ended by
    themselves."""

    LINK_ACTIONS = frozenset(ACTIONS.values())

    def __init__(self, run_id: str, directory: Path, seed: int) -> None:
        self._run_id = run_id
        self._directory = directory
        self._seed = seed
        self._supervisor: _Supervisor | None = None
        self._cluster: ClusterSpec | None = None
        self._tail: Tail | None = None
        self._connections: dict[tuple[str, str], ProcessConnection] = {}
        self._crashes: tuple[Crash, ...] = ()

    @property
    def name(self) -> str:
        return "process"

    @property
    def crashes(self) -> tuple[Crash, ...]:
        if self._supervisor is not None:
            told = self._supervisor.call("crashes")
            self._crashes = tuple(Crash(**crash) for crash in told)
        return self._crashes

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def execute(self, main: Coroutine[Any, Any, int]) -> int:
        return execute(main)

    # The cluster's life

    async def start(self, cluster: ClusterSpec, on_trace: OnTrace) -> None:
        names = [spec.name for spec in cluster.nodes]
        if len(set(names)) < len(names):
            raise DeploymentError(f"two nodes have one name; every node needs a name of its own: {', '.join(names)}")
        self._cluster = cluster
        charge = Charge(
            run_id=self._run_id,
            directory=str(self._directory),
            seed=self._seed,
            harness=str(Process.of(os.getpid())),
        )
        self._supervisor = await _Supervisor.begin(charge)
        self._tail = Tail({name: trace_file(self._directory, name) for name in names}, on_trace)
        self._supervisor.call("define", nodes=[asdict(spec) for spec in cluster.nodes])
        for name in names:
            self._supervisor.call("spawn", node=name)
        for name in names:
            await self._first_life(name)

    async def add(self, spec: NodeSpec) -> Mapping[str, object]:
        assert self._cluster is not None and self._tail is not None
        if not self._running().call("add", node=asdict(spec)):
            raise NotNow(f"there is a node {spec.name} already")
        self._cluster = replace(self._cluster, nodes=[*self._cluster.nodes, spec])
        self._tail.follow(spec.name, trace_file(self._directory, spec.name))
        self._running().call("spawn", node=spec.name)
        status = await self._first_life(spec.name)
        born = Process.parse(status["process"])
        told = {"node": spec.name, "incarnation": status["incarnation"], "pid": born.pid, "started": born.started}
        return {**told, "alive": bool(born.state())}

    async def stop(self) -> None:
        for connection in self._connections.values():
            connection.close()
        supervisor = self._supervisor
        if supervisor is not None:
            try:
                self._crashes = self.crashes
            except DeploymentError:
                pass  # a supervisor that has ended tells no more; what it left is still to be cleared away
            self._supervisor = None
            await supervisor.end()
            await self._clear_away()
        if self._tail is not None:
            tail, self._tail = self._tail, None
            await tail.end()

    async def _clear_away(self) -> None:
        """End what outlived its supervisor: nodes die with one that was killed, but only a moment later."""

        def left() -> list[Process]:
            return procfs.of_run(self._directory)

        for process in left():
            process.signal(signal.SIGKILL)
        await until(lambda: not left(), END_S)

    async def undo(self, step: Undo) -> None:
        supervisor = self._running()
        match step.verb:
            case Verb.CLEAR_RULE:
                supervisor.call("clear_rule", rule_id=step.subject)
            case Verb.CLEAR_DISK:
                for node in supervisor.call("clear_disk", rule_id=step.subject):
                    # One that ends of it must have ended before it is started again.
                    await until(partial(self._is_down, node), DISK_END_S)
            case Verb.RESUME:
                supervisor.call("resume", node=step.subject)
            case Verb.START:
                supervisor.call("spawn", node=step.subject)
                await self._begun(step.subject)
            case Verb.RELEASE:
                node, _, kind = step.subject.rpartition("/")
                supervisor.call("release", node=node, kind=kind)
            case Verb.RESET_CLOCK:
                pass  # no process's clock was ever touched

    async def _first_life(self, node: str) -> Mapping[str, Any]:
        """Wait until the node has begun; its status then. Raises :class:`DeploymentError` when it has ended."""
        status = await self._begun(node)
        if not status["alive"]:
            log = log_of(self._directory, node)
            tail = log.read_text("utf-8", "replace")[-1500:].strip() if log.exists() else ""
            raise DeploymentError(
                f"node {node} ended at its start (exit code {status['ended']}); its log is {log}:\n{tail}"
            )
        return status

    async def _begun(self, node: str) -> Mapping[str, Any]:
        """Wait until the node has taken its first step, is stopped, or is dead; its status then."""

        def there() -> Mapping[str, Any] | None:
            status = self._status(node)
            stopped = Process.parse(status["process"]).state() == "T"
            return status if status["listening"] or not status["alive"] or stopped else None

        status = await until(there, BEGIN_S)
        if status is None:
            raise DeploymentError(
                f"node {node} did not begin within {BEGIN_S:g} s; its log is {log_of(self._directory, node)}"
            )
        return status

    # Faults

    async def kill(self, node: str) -> Mapping[str, object]:
        status = self._status(node)
        victim = Process.parse(status["process"])
        if not self._running().call("kill", node=node):
            raise NotNow(f"{node} is not running")
        if not await until(lambda: not self._status(node)["alive"], EFFECT_S):
            raise NotNow(f"{node} did not end within {EFFECT_S:g} s of its SIGKILL")
        return {
            "node": node,
            "incarnation": status["incarnation"],
            "pid": victim.pid,
            "started": victim.started,
            "alive": bool(victim.state()),
        }

    async def terminate(self, node: str) -> Mapping[str, object]:
        status = self._status(node)
        victim = Process.parse(status["process"])
        if victim.state() == "T":
            raise NotNow(f"{node} is paused")
        if not self._running().call("terminate", node=node):
            raise NotNow(f"{node} is not running")
        told = {"node": node, "incarnation": status["incarnation"], "pid": victim.pid, "started": victim.started}
        if not await until(lambda: not self._status(node)["alive"], ORDERLY_S):
            with suppress(NotNow):  # it has just ended
                await self.kill(node)
            return {**told, "alive": bool(victim.state()), "orderly": False}
        return {**told, "alive": bool(victim.state()), "orderly": self._status(node)["ended"] == 0}

    async def pause(self, node: str) -> Mapping[str, object]:
        status = self._status(node)
        victim = Process.parse(status["process"])
        if victim.state() == "T":
            raise NotNow(f"{node} is paused already")
        if not self._running().call("pause", node=node):
            raise NotNow(f"{node} is not running")
        if not await until(lambda: victim.state() == "T", EFFECT_S):
            raise NotNow(f"{node} did not stop within {EFFECT_S:g} s of its SIGSTOP")
        return {"node": node, "incarnation": status["incarnation"], "pid": victim.pid, "state": victim.state()}

    async def wipe(self, node: str) -> Mapping[str, object]:
        status = self._status(node)
        was_alive = bool(status["alive"])
        if was_alive:
            try:
                await self.kill(node)
            except NotNow:
                if self._status(node)["alive"]:
                    raise
        disk = disk_of(self._directory, node)
        files = sum(1 for path in disk.rglob("*") if path.is_file())
        shutil.rmtree(disk, ignore_errors=True)
        if disk.exists():
            raise DeploymentError(f"the disk of {node} could not be emptied: {disk}")
        return {
            "node": node,
            "incarnation": status["incarnation"],
            "was_alive": was_alive,
            "files_removed": files,
        }

    async def _life_of(self, node: str) -> int:
        status = self._status(node)
        return int(status["incarnation"]) if status["alive"] else 0

    async def _at_disk(self, node: str, do: AtDisk, told: Mapping[str, Any]) -> Any:
        disk, copy = disk_of(self._directory, node), copy_of(self._directory, node)
        return at_disk(RealFiles(disk), RealFiles(copy), do, told)

    async def slow_processor(self, node: str, share_percent: int) -> Mapping[str, object]:
        shown = await self._press(node, Kind.CPU, share_percent)
        first, count = Process.parse(str(shown["spinner"])), shown["spinners"]
        if not await until(lambda: spinning(first) == count, EFFECT_S):
            raise NotNow(f"{spinning(first)} of {count} processes take {node}'s processor after {EFFECT_S:g} s")
        return shown

    async def _press(self, node: str, kind: Kind, amount: int) -> Mapping[str, object]:
        shown: Mapping[str, object] = self._running().call("press", node=node, kind=kind, amount=amount)
        if "refused" in shown:
            raise NotNow(f"{node}: {shown['refused']}")
        return {"node": node, **shown}

    async def set_disk_rule(self, rule_id: str, rule: DiskRule) -> None:
        self._running().call("set_disk_rule", node=rule.node, rule_id=rule_id, action=to_json(rule.action))

    async def disk_rule_hits(self, rule_id: str) -> int:
        hits: int = self._running().call("disk_rule_hits", rule_id=rule_id)
        return hits

    async def set_rule(self, rule_id: str, rule: LinkRule) -> None:
        self._running().call("set_rule", rule_id=rule_id, rule=rule_to_json(rule))

    async def rule_hits(self, rule_id: str) -> int:
        hits: int = self._running().call("rule_hits", rule_id=rule_id)
        return hits

    # What shows whether a fault has an effect

    async def reaches(self, source: str, target: str) -> bool:
        return await reaches(self._running().proxy_port, source, target, REACH_S)

    async def answers(self, node: str) -> bool:
        port = self._status(node)["port"]
        return bool(port) and await ping(HOST, port, REACH_S)

    # Clients

    def connect(self, client: str, node: str) -> ProcessConnection:
        supervisor, cluster = self._running(), self._cluster
        assert cluster is not None
        names = cluster.names()
        if node not in names:
            raise DeploymentError(f"there is no node {node!r}; the nodes are {', '.join(names)}")
        if client in names:
            raise DeploymentError(f"client {client!r} has the name of a node")
        known = self._connections.get((client, node))
        if known is None:
            known = ProcessConnection(client, node, supervisor.proxy_port, cluster.codec)
            self._connections[client, node] = known
        return known

    def expose(self, client: str, node: str) -> tuple[str, int]:
        """Open a port for a client that knows nothing of the proxy: it leads to this node, as this client, under the
        same link rules. Open until ``stop``."""
        host, port = self._running().call("expose", client=client, node=node)
        return str(host), int(port)

    def _running(self) -> _Supervisor:
        if self._supervisor is None:
            raise DeploymentError("the cluster is not running: start it first")
        return self._supervisor

    def _is_down(self, node: str) -> bool:
        return not self._status(node)["alive"]

    def _status(self, node: str) -> Mapping[str, Any]:
        told: Mapping[str, Mapping[str, Any]] = self._running().call("status")
        if node not in told:
            raise DeploymentError(f"there is no node {node!r}; the nodes are {', '.join(told)}")
        return told[node]


class _Supervisor:
    """The harness's hold on its supervisor. Every command is answered at once, so calls simply block."""

    def __init__(self, process: subprocess.Popen[bytes], told: Mapping[str, Any]) -> None:
        self.proxy_port = int(told["proxy_port"])
        self._process = process
        self._socket = socket.create_connection((HOST, int(told["port"])), timeout=ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(str(told["token"]).encode() + b"\n")
        self._answers = self._socket.makefile("rb")

    @staticmethod
    async def begin(charge: Charge) -> _Supervisor:
        """Start the supervisor in a session of its own: a Ctrl-C at the terminal isn't for it."""
        directory = Path(charge.directory)
        for folder in (directory, log_of(directory, "supervisor").parent):
            folder.mkdir(parents=True, exist_ok=True)
        path = directory / FILE
        path.unlink(missing_ok=True)
        environment = {
            **os.environ,
            procfs.RUN: procfs.mark(directory),
            procfs.HARNESS_PROCESS: charge.harness,
            "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path),
        }
        log = log_of(directory, "supervisor")
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "chaos.machines.local.supervisor", json.dumps(asdict(charge))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=directory,
                env=environment,
                start_new_session=True,
            )
        try:
            await until(lambda: path.exists() or process.poll() is not None, BEGIN_S)
            if not path.exists():
                raise DeploymentError(f"the supervisor did not start; its log is {log}")
            return _Supervisor(process, json.loads(path.read_text("utf-8")))
        except BaseException:  # also an interrupt: nobody else knows yet that it runs
            process.kill()
            process.wait()
            raise

    def call(self, do: str, **arguments: object) -> Any:
        """Give a command and return its answer. Raises :class:`DeploymentError`."""
        try:
            self._socket.sendall(json.dumps({"do": do, **arguments}).encode() + b"\n")
            line = self._answers.readline()
        except OSError as error:
            raise DeploymentError(f"the supervisor does not answer: {error}") from error
        if not line.endswith(b"\n"):
            raise DeploymentError("the supervisor has ended, and the nodes with it")
        answer = json.loads(line)
        if "error" in answer:
            raise DeploymentError(f"the supervisor could not {do} {arguments}: {answer['error']}")
        return answer["ok"]

    async def end(self) -> None:
        """End the nodes and the supervisor, by force if need be; when this returns the supervisor has ended."""
        try:
            self.call("shutdown")
        except DeploymentError:
            pass  # then by force; the nodes die with it
        self._socket.close()
        self._answers.close()
        if not await until(lambda: self._process.poll() is not None, END_S):
            self._process.kill()
            self._process.wait()
