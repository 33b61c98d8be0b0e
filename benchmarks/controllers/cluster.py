"""Three controllers as processes of their own, with real connections and real disks: the reference system's in either
mode, and Apache RocketMQ's."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.shell.launch import HOST
from drivers._java.maven import LIB
from drivers._java.recipes import recipe
from reference.controller.dispatch import CLASSIC, PARALLEL

COUNT = 3
ROCKETMQ, ROCKETMQ_VERSION = "rocketmq", "5.5.0"
KINDS = (CLASSIC, PARALLEL, ROCKETMQ)
#: Changes that may be under way in mode parallel.
WINDOW = 1024
#: Elections may not be what is measured on a busy machine: leaders get time.
ELECTION_MS, HEARTBEAT_MS = 3000, 300
#: Brokers are silent while another cluster is measured.
BROKER_TIMEOUT_MS = 600_000
_END_S = 20.0
#: RocketMQ brings logback under a name of its own.
_LOGGING = """\
<configuration>
  <appender name="out" class="org.apache.rocketmq.logging.ch.qos.logback.core.ConsoleAppender">
    <encoder class="org.apache.rocketmq.logging.ch.qos.logback.classic.encoder.PatternLayoutEncoder">
      <pattern>%d %-5level %logger{0} - %msg%n</pattern>
    </encoder>
  </appender>
  <root level="ERROR"><appender-ref ref="out"/></root>
</configuration>
"""
_HEAP = ("-Xms512m", "-Xmx512m")
_OPENED = ("java.lang", "java.nio", "java.util", "jdk.internal.ref", "sun.nio.ch")


class Cluster:
    """Three controllers. ``addresses``: by name, where each listens."""

    def __init__(self, kind: str, directory: Path, *, broker_timeout_ms: int = BROKER_TIMEOUT_MS) -> None:
        self.kind = kind
        self.addresses = {f"controller-{number}": (HOST, port) for number, port in enumerate(_free_ports(COUNT))}
        self.broker_timeout_ms = broker_timeout_ms
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.directory = directory

    def start(self) -> None:
        for name in self.addresses:
            folder = self.directory / name
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    self._command(name, folder), env=self._environment(name, folder), stdout=log, stderr=log
                )

    def hello(self, client: str, node: str) -> bytes:
        """Return what a client's connection begins with."""
        return b""

    def leader(self, metadata: bytes) -> str:
        """Return the leader that an answer to request 1005 names; "" if there is none."""
        raise NotImplementedError

    def _command(self, name: str, folder: Path) -> Sequence[str]:
        raise NotImplementedError

    def _environment(self, name: str, folder: Path) -> Mapping[str, str]:
        raise NotImplementedError

    def rest(self) -> None:
        """Cost nothing while another cluster is measured."""

    def wake(self) -> bool:
        """End :meth:`rest`; returns whether there was any."""
        return False

    def group_memory(self) -> int:
        """Return the memory of the process that uses most, as far as it depends on the groups."""
        return max(_resident_bytes(process.pid) for process in self.processes.values())

    def check(self) -> None:
        """Raise ``RuntimeError`` with the log of a controller that has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                log = (self.directory / name / "log").read_text("utf-8", "replace")
                raise RuntimeError(f"{self.kind}: {name} has ended: {log[-2000:]}")

    def processor_s(self) -> dict[str, float]:
        """Processor time of each controller so far."""
        return {name: _processor_s(process.pid) for name, process in self.processes.items()}

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()


class ReferenceCluster(Cluster):
    """The reference system's controllers; ``kind`` is their mode. ``sampled``: they report where their processor time
    goes."""

    def __init__(
        self, kind: str, directory: Path, *, sampled: bool = False, broker_timeout_ms: int = BROKER_TIMEOUT_MS
    ) -> None:
        super().__init__(kind, directory, broker_timeout_ms=broker_timeout_ms)
        self._token = secrets.token_hex(16)
        self._sampled = sampled

    def hello(self, client: str, node: str) -> bytes:
        return json.dumps({"from": client, "to": node, "token": self._token}).encode() + b"\n"

    def leader(self, metadata: bytes) -> str:
        found = re.search(rb'"controllerLeaderId":"([^"]+)"', metadata)
        return found[1].decode() if found else ""

    async def samples(self, node: str) -> str:
        """Return what :mod:`benchmarks.controllers.sampled` has counted in a controller. Raises ``TimeoutError``."""
        path = self._samples(node)
        self.processes[node].send_signal(signal.SIGUSR2)
        for _ in range(100):
            if path.exists():
                return path.read_text("utf-8")
            await asyncio.sleep(0.05)
        raise TimeoutError(f"{node} does not say where its time went")

    def _samples(self, node: str) -> Path:
        return self.directory / node / "samples.json"

    def _command(self, name: str, folder: Path) -> Sequence[str]:
        sampled = ("benchmarks.controllers.sampled", str(self._samples(name))) if self._sampled else ("reference",)
        return (sys.executable, "-P", "-m", *sampled, "controller", name)

    def _environment(self, name: str, folder: Path) -> Mapping[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("NODE_")}
        return inherited | {
            "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path),
            "NODE_ADDRESSES": " ".join(f"{name}={host}:{port}" for name, (host, port) in self.addresses.items()),
            "NODE_DISK": str(folder / "disk"),
            "NODE_TOKEN": self._token,
            "NODE_CONTROLLERS": " ".join(self.addresses),
            "NODE_MODE": self.kind,
            "NODE_WINDOW": str(WINDOW),
            "NODE_ELECTION_MS": str(ELECTION_MS),
            "NODE_HEARTBEAT_MS": str(HEARTBEAT_MS),
            "NODE_BROKER_TIMEOUT_MS": str(self.broker_timeout_ms),
        }


class RocketMqCluster(Cluster):
    """Apache RocketMQ's controllers on DLedger, one JVM each, the JVM's own choice of collector and compilers.

    The brokers of the benchmark have no addresses, so no broker is notified of elections.

    ``logged_reads``: a read is an entry of the log (``processReadEvent``); by default the leader answers from its
    memory, and a deposed one may answer from old state."""

    def __init__(
        self, directory: Path, *, logged_reads: bool = False, broker_timeout_ms: int = BROKER_TIMEOUT_MS
    ) -> None:
        super().__init__(ROCKETMQ, directory, broker_timeout_ms=broker_timeout_ms)
        self._logged_reads = logged_reads
        self._lib = recipe(ROCKETMQ_VERSION).program(LIB)

    def leader(self, metadata: bytes) -> str:
        found = re.search(rb'"controllerLeaderId":"n(\d+)"', metadata)
        return f"controller-{int(found[1])}" if found else ""

    def _command(self, name: str, folder: Path) -> Sequence[str]:
        home = folder.absolute()
        (home / "node.conf").write_text("".join(f"{key}={value}\n" for key, value in self._properties(name, home)))
        (home / "logback.xml").write_text(_LOGGING)
        opened = (f"--add-{how}=java.base/{package}=ALL-UNNAMED" for how in ("opens", "exports") for package in _OPENED)
        return (
            *("java", "-server", *_HEAP, *opened, f"-Drocketmq.home.dir={home}", f"-Duser.home={home}"),
            *(f"-Drmq.logback.configurationFile={home}/logback.xml", "-cp", f"{self._lib}/*"),
            *("org.apache.rocketmq.controller.ControllerStartup", "-c", f"{home}/node.conf"),
        )

    def _properties(self, name: str, home: Path) -> Sequence[tuple[str, object]]:
        listens = enumerate(self.addresses.values())
        return (
            ("listenPort", self.addresses[name][1]),
            ("controllerType", "DLedger"),
            ("controllerDLegerGroup", "controllers"),
            ("controllerDLegerPeers", ";".join(f"n{number}-{host}:{port}" for number, (host, port) in listens)),
            ("controllerDLegerSelfId", f"n{list(self.addresses).index(name)}"),
            ("controllerStorePath", home / "disk"),
            ("configStorePath", home / "controller.properties"),
            ("mappedFileSize", 64 * 1024 * 1024),
            ("scanNotActiveBrokerInterval", 1000),
            ("scanInactiveMasterInterval", 1000),
            ("notifyBrokerRoleChanged", "false"),
            ("processReadEvent", "true" if self._logged_reads else "false"),
        )

    def _environment(self, name: str, folder: Path) -> Mapping[str, str]:
        return {**os.environ, "ROCKETMQ_HOME": str(folder.absolute())}

    def rest(self) -> None:
        """Idle controllers of this kind take a quarter of a core."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> bool:
        self._signal(signal.SIGCONT)
        return True

    def stop(self) -> None:
        self.wake()
        super().stop()

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(number)

    def group_memory(self) -> int:
        """Return what is left in the largest heap after a collection."""
        return max(_heap_bytes(process.pid) for process in self.processes.values())


def cluster(kind: str, directory: Path, *, broker_timeout_ms: int = BROKER_TIMEOUT_MS) -> Cluster:
    """Return a cluster of one of the kinds that are compared."""
    if kind == ROCKETMQ:
        return RocketMqCluster(directory, broker_timeout_ms=broker_timeout_ms)
    return ReferenceCluster(kind, directory, broker_timeout_ms=broker_timeout_ms)


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens at now."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _processor_s(pid: int) -> float:
    after_name = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def _heap_bytes(pid: int) -> int:
    """Return what objects take that are still in use. Raises ``RuntimeError`` if the JVM does not say."""
    histogram = subprocess.run(
        ["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"^Total\s+\d+\s+(\d+)", histogram, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"jcmd {pid} GC.class_histogram gave no total: {histogram[:200]!r}")
    return int(found[1])
