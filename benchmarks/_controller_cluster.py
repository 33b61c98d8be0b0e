"""Three controllers as processes of their own, with real connections and real syncs of the disk."""

from __future__ import annotations

import os
import resource
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from chaos.shell.launch import HOST

COUNT = 3
#: Elections may not be what is measured on a busy machine: leaders get time.
ELECTION_MS, HEARTBEAT_MS = 3000, 300
#: Brokers are silent while the other cluster is measured.
BROKER_TIMEOUT_MS = 600_000
_END_S = 10.0


class Cluster:
    """A cluster in one mode. ``addresses``: by name, where each controller listens."""

    def __init__(self, mode: str, directory: Path, *, window: int) -> None:
        self.mode = mode
        self.token = secrets.token_hex(16)
        self.addresses = {f"controller-{number}": (HOST, port) for number, port in enumerate(_free_ports(COUNT))}
        self._directory = directory
        self._window = window
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        for name in self.addresses:
            folder = self._directory / name
            folder.mkdir(parents=True)
            with (folder / "log").open("wb") as log:
                self._processes[name] = subprocess.Popen(
                    [sys.executable, "-P", "-m", "reference", "controller", name],
                    env=self._environment(folder),
                    stdout=log,
                    stderr=log,
                )

    def _environment(self, folder: Path) -> Mapping[str, str]:
        told = {name: value for name, value in os.environ.items() if not name.startswith("NODE_")}
        return told | {
            "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path),
            "NODE_ADDRESSES": " ".join(f"{name}={host}:{port}" for name, (host, port) in self.addresses.items()),
            "NODE_DISK": str(folder / "disk"),
            "NODE_TOKEN": self.token,
            "NODE_CONTROLLERS": " ".join(self.addresses),
            "NODE_MODE": self.mode,
            "NODE_WINDOW": str(self._window),
            "NODE_ELECTION_MS": str(ELECTION_MS),
            "NODE_HEARTBEAT_MS": str(HEARTBEAT_MS),
            "NODE_BROKER_TIMEOUT_MS": str(BROKER_TIMEOUT_MS),
        }

    def check(self) -> None:
        """Raises ``RuntimeError`` with the log of a controller that has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                log = (self._directory / name / "log").read_text("utf-8", "replace")
                raise RuntimeError(f"{self.mode}: {name} has ended: {log[-2000:]}")

    def processor_s(self) -> float:
        """Processor time of all its processes so far."""
        return sum(_processor_s(process.pid) for process in self._processes.values())

    def resident_bytes(self) -> int:
        """The memory of the process that uses most."""
        return max(_resident_bytes(process.pid) for process in self._processes.values())

    def stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


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
