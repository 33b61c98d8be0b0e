"""A Docker Compose project that Stormproof has not started: programs in plain containers with Compose's labels."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.driver import Driver
from chaos.machines.attach.project import NUMBER, ONE_OFF, PROJECT, SERVICE
from chaos.machines.docker.engine import image_name
from chaos.machines.procfs import Process
from chaos.program import Surroundings, render
from tests.left_behind import remove_abandoned, whose
from tests.stormproof.foreign import OUTSIDE

PORT = 7000


@dataclass(frozen=True, kw_only=True)
class Service:
    """A program in a container of its own, whose home is ``/home``: its command, its files, what it is told by its
    environment, and folders of this machine that it may read."""

    command: Sequence[str]
    files: Mapping[str, bytes]
    env: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, str] = field(default_factory=dict)


def tinyq() -> dict[str, Service]:
    """Services ``backup`` and ``primary``, which find one another by name, as with Compose."""
    code = (OUTSIDE / "mystorm/tinyq_server.py").read_bytes()
    found = {}
    for name, backup in (("backup", None), ("primary", ["backup", PORT])):
        config = json.dumps({"listen": ["0.0.0.0", PORT], "disk": "/home/disk", "backup": backup}).encode()
        command = ["python3", "/home/tinyq_server.py", "/home/tinyq.json"]
        found[name] = Service(command=command, files={"tinyq.json": config, "tinyq_server.py": code})
    return found


def services_of(driver: Driver, ports: Mapping[str, int]) -> dict[str, Service]:
    """Return the programs of a driver as somebody else would have set them up: each by the name of its node, at these
    numbers of its ports."""
    programs = {node.name: node.program for node in driver.cluster("").nodes if node.program is not None}
    numbers = {name: {port: ports[port] for port in program.ports} for name, program in programs.items()}
    found = {}
    for name, program in programs.items():
        assert program.recipe is not None
        there = Surroundings(
            name=name,
            ips={one: one for one in programs},
            ports=numbers,
            disk="/home/disk",
            home="/home",
            installed="/installed",
        )
        made = render(program, there)
        found[name] = Service(
            command=made.argv,
            files={path: b64decode(content) for path, content in made.files.items()},
            env=made.env,
            reads={str(program.recipe.folder): "/installed"},
        )
    return found


class ComposeProject:
    """Services, one container each; those of :func:`tinyq` unless others are given."""

    def __init__(self, engine: Any, folder: Path, services: Mapping[str, Service] | None = None) -> None:
        self.name = f"shop-{uuid.uuid4().hex[:8]}"
        self._engine = engine
        remove_abandoned(engine)
        self._labels = {PROJECT: self.name, **whose(Process.of(os.getpid()))}
        self.network = engine.networks.create(f"{self.name}_default", driver="bridge", labels=self._labels)
        self.containers: dict[str, Any] = {}
        try:
            for name, service in (services or tinyq()).items():
                self._start(name, service, folder / name)
        except BaseException:
            self.remove()
            raise

    def _start(self, name: str, service: Service, home: Path) -> None:
        (home / "disk").mkdir(parents=True)
        for path, content in service.files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_bytes(content)
        binds = {str(home): {"bind": "/home", "mode": "rw"}}
        binds |= {here: {"bind": there, "mode": "ro"} for here, there in service.reads.items()}
        it = self._engine.api.create_container(
            image_name(),
            list(service.command),
            entrypoint=[],
            environment=dict(service.env),
            working_dir="/home",
            user=f"{os.getuid()}:{os.getgid()}",
            name=f"{self.name}_{name}_1",
            hostname=name,
            labels={**self._labels, SERVICE: name, NUMBER: "1", ONE_OFF: "False"},
            host_config=self._engine.api.create_host_config(binds=binds, restart_policy={"Name": "unless-stopped"}),
            networking_config=self._engine.api.create_networking_config(
                {self.network.name: self._engine.api.create_endpoint_config(aliases=[name])}
            ),
        )
        self.containers[name] = self._engine.containers.get(it["Id"])
        self.containers[name].start()

    def key(self) -> str:
        """How an experiment names tinyq's services."""
        return (
            f"attach:\n  compose: {self.name}\n  nodes: {{queue-0: primary, queue-1: backup}}\n"
            f"  ports: {{queue: {PORT}}}\n"
        )

    def wait(self, numbers: Sequence[int], within_s: float = 120.0) -> None:
        """Until some of these ports accept on each container."""
        deadline_s = time.monotonic() + within_s
        for container in self.containers.values():
            container.reload()
            address = container.attrs["NetworkSettings"]["Networks"][self.network.name]["IPAddress"]
            while not any(_accepts(address, number) for number in numbers):
                assert time.monotonic() < deadline_s, container.logs().decode(errors="replace")[-2000:]
                time.sleep(0.2)

    def states(self) -> dict[str, tuple[str, str]]:
        """By service: the container's state, and when it was started."""
        found = {}
        for service, container in self.containers.items():
            container.reload()
            state = container.attrs["State"]
            found[service] = (state["Status"], state["StartedAt"])
        return found

    def rules(self) -> str:
        """What stands in the packet filters of its networks and is Stormproof's."""
        found = ""
        for container in self.containers.values():
            for flavour in ("iptables-nft", "iptables-legacy"):
                found += self._engine.containers.run(
                    image_name(),
                    ["-c", f"{flavour} -S | grep -i stormproof || true"],
                    entrypoint=["sh"],
                    user="0:0",
                    cap_add=["NET_ADMIN", "NET_RAW"],
                    network_mode=f"container:{container.id}",
                    remove=True,
                ).decode()
        return found

    def helpers(self) -> list[str]:
        """Containers beside it that share a network with one of it."""
        ours = {f"container:{container.id}" for container in self.containers.values()}
        every = self._engine.api.containers(all=True)
        return [one["Id"] for one in every if one["HostConfig"].get("NetworkMode") in ours]

    def exists(self, container: Any) -> bool:
        return container.id in {one["Id"] for one in self._engine.api.containers(all=True)}

    def remove(self) -> None:
        for container in self.containers.values():
            container.remove(force=True, v=True)
        self.network.remove()


def _accepts(address: str, number: int) -> bool:
    try:
        socket.create_connection((address, number), 1.0).close()
    except OSError:
        return False
    return True
