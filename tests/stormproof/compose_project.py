"""A Docker Compose project that Stormproof has not started: tinyq in plain containers with Compose's labels."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

from chaos.machines.attach.project import NUMBER, ONE_OFF, PROJECT, SERVICE
from chaos.machines.docker.engine import image_name
from chaos.machines.procfs import Process
from tests.left_behind import remove_abandoned, whose
from tests.stormproof.foreign import OUTSIDE

PORT = 7000


class ComposeProject:
    """Services ``primary`` and ``backup``, one container each, which find one another by name, as with Compose."""

    def __init__(self, engine: Any, folder: Path) -> None:
        self.name = f"shop-{uuid.uuid4().hex[:8]}"
        self._engine = engine
        remove_abandoned(engine)
        self._labels = {PROJECT: self.name, **whose(Process.of(os.getpid()))}
        self.network = engine.networks.create(f"{self.name}_default", driver="bridge", labels=self._labels)
        self.containers: dict[str, Any] = {}
        try:
            for service in ("backup", "primary"):
                self._start(service, folder)
        except BaseException:
            self.remove()
            raise

    def _start(self, service: str, folder: Path) -> None:
        home = folder / service
        (home / "disk").mkdir(parents=True)
        backup = ["backup", PORT] if service == "primary" else None
        config = {"listen": ["0.0.0.0", PORT], "disk": "/home/disk", "backup": backup}
        (home / "tinyq.json").write_text(json.dumps(config))
        (home / "tinyq_server.py").write_bytes((OUTSIDE / "mystorm/tinyq_server.py").read_bytes())
        it = self._engine.api.create_container(
            image_name(),
            ["python3", "/home/tinyq_server.py", "/home/tinyq.json"],
            entrypoint=[],
            user=f"{os.getuid()}:{os.getgid()}",
            name=f"{self.name}_{service}_1",
            labels={**self._labels, SERVICE: service, NUMBER: "1", ONE_OFF: "False"},
            host_config=self._engine.api.create_host_config(
                binds={str(home): {"bind": "/home", "mode": "rw"}}, restart_policy={"Name": "unless-stopped"}
            ),
            networking_config=self._engine.api.create_networking_config(
                {self.network.name: self._engine.api.create_endpoint_config(aliases=[service])}
            ),
        )
        self.containers[service] = self._engine.containers.get(it["Id"])
        self.containers[service].start()

    def key(self) -> str:
        """How an experiment names it."""
        return (
            f"attach:\n  compose: {self.name}\n  nodes: {{queue-0: primary, queue-1: backup}}\n"
            f"  ports: {{queue: {PORT}}}\n"
        )

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
