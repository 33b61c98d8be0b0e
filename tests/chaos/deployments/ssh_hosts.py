"""Hosts with SSH servers for the tests: containers of their own, one network, one key that opens all of them.

``python -m tests.chaos.deployments.ssh_hosts FOLDER`` has three of them until Ctrl-C.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import tarfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paramiko

from chaos.experiment.inventory import Host
from chaos.machines.docker.engine import connect
from chaos.machines.procfs import Process
from stormproof.image import DEBIAN_BASE
from tests.left_behind import remove_abandoned, whose

IMAGE = "stormproof-sshd:tests"
#: The users of each host: root, one who may use sudo with a password, and one who may without.
WITH_PASSWORD, FREE = "careful", "free"
PASSWORD = "the right one"
DOCKERFILE = f"""
ARG BASE
FROM $BASE
USER root
RUN command -v sudo || (apt-get update -qq && apt-get install -y -qq --no-install-recommends sudo) || true
RUN useradd -m -s /bin/bash {WITH_PASSWORD} && useradd -m -s /bin/bash {FREE} \
    && echo '{WITH_PASSWORD}:{PASSWORD}' | chpasswd && mkdir -p /run/sshd /etc/sudoers.d \
    && echo '{WITH_PASSWORD} ALL=(ALL) ALL' > /etc/sudoers.d/tests \
    && echo '{FREE} ALL=(ALL) NOPASSWD: ALL' >> /etc/sudoers.d/tests
ENV PYTHONPATH=
ENTRYPOINT ["/bin/sh", "-c"]
CMD ["ssh-keygen -A >/dev/null; for home in /root /home/*; do mkdir -p $home/.ssh; \
      echo \\"$KEY\\" > $home/.ssh/authorized_keys; \
      chown -R --reference=$home $home/.ssh; chmod -R go-rwx $home/.ssh; done; exec /usr/sbin/sshd -D -e"]
"""
#: How many the tests have.
COUNT = 3
UP_S = 90.0


@dataclass(eq=False)
class Hosts:
    """Running hosts. ``known_hosts`` and ``key``: files on this side."""

    engine: Any
    network: Any
    containers: list[Any]
    folder: Path

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def address(self, number: int) -> str:
        self.containers[number].reload()
        return str(self.containers[number].attrs["NetworkSettings"]["Networks"][self.network.name]["IPAddress"])

    def host(self, number: int, **others: Any) -> Host:
        values = {"user": "root", "key": str(self.key), "known_hosts": str(self.known_hosts), **others}
        return Host(host=self.address(number), name=f"h{number}", **values)

    def inventory(self, **others: Any) -> tuple[Host, ...]:
        return tuple(self.host(number, **others) for number in range(len(self.containers)))

    def file(self, folder: Path, **others: Any) -> Path:
        """The inventory as a file for the command line."""
        lines = ["hosts:"]
        for host in self.inventory(**others):
            extra = "".join(f", {name}: {value}" for name, value in others.items())
            lines.append(
                f"  - {{host: {host.host}, name: {host.name}, user: {host.user}, key: {host.key},"
                f" known_hosts: {host.known_hosts}{extra}}}"
            )
        path = folder / "inventory.yaml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def shell(self, number: int, *words: str) -> str:
        return str(self.containers[number].exec_run(list(words)).output.decode())

    def footprint(self) -> Sequence[object]:
        """What runs leave on hosts if they do: processes, chains and folders of runs."""
        found = []
        for number in range(len(self.containers)):
            processes = [line for line in self.shell(number, "ps", "-eo", "args").splitlines() if " -P -m " in line]
            chains = [line for line in self.shell(number, "iptables-nft", "-S").splitlines() if "stormproof" in line]
            runs = self.shell(number, "sh", "-c", "find /root/.stormproof/runs /home/*/.stormproof/runs -mindepth 1")
            found.append((processes, chains, [run for run in runs.splitlines() if run.startswith("/")]))
        return found

    def wait(self, numbers: Sequence[int]) -> None:
        """Until they take connections and their keys are known."""
        lines = []
        for number in range(len(self.containers)):
            deadline_s = time.monotonic() + UP_S
            while True:
                if number not in numbers or ":0016 " in self.shell(number, "cat", "/proc/net/tcp"):
                    break
                assert time.monotonic() < deadline_s, self.containers[number].logs()
                time.sleep(0.05)
            keys = [line for line in self.shell(number, "sh", "-c", "cat /etc/ssh/*.pub").splitlines() if line]
            lines += [" ".join([self.address(number), *line.split()[:2]]) for line in keys]
        self.known_hosts.write_text("\n".join(lines) + "\n")

    def remove(self) -> None:
        for container in self.containers:
            container.remove(force=True, v=True)
        self.network.remove()


def build(engine: Any) -> None:
    """Build the image, upon what the node image is built upon here."""
    from docker.errors import ImageNotFound

    from chaos.machines.docker.engine import IMAGE as NODE_IMAGE

    try:
        engine.images.get(DEBIAN_BASE)
        base = DEBIAN_BASE
    except ImageNotFound:
        base = NODE_IMAGE
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(DOCKERFILE.encode())
        archive.addfile(entry, io.BytesIO(DOCKERFILE.encode()))
    buffer.seek(0)
    engine.images.build(fileobj=buffer, custom_context=True, tag=IMAGE, buildargs={"BASE": base}, rm=True, forcerm=True)


def start(engine: Any, folder: Path, count: int) -> Hosts:
    """Start so many hosts. Whoever calls this removes them."""
    remove_abandoned(engine)
    build(engine)
    labels = whose(Process.of(os.getpid()))
    key = paramiko.ECDSAKey.generate()
    key.write_private_key_file(str(folder / "key"))
    public = f"{key.get_name()} {key.get_base64()}"
    name = f"stormproof-tests-{os.getpid()}-{time.monotonic_ns()}"
    network = engine.networks.create(name, driver="bridge", internal=True, labels=labels)
    hosts = Hosts(engine, network, [], folder)
    try:
        for number in range(count):
            hosts.containers.append(
                engine.containers.run(
                    IMAGE,
                    name=f"{name}-{number}",
                    hostname=f"h{number}",
                    detach=True,
                    network=name,
                    environment={"KEY": public},
                    labels=labels,
                    cap_add=["NET_ADMIN"],
                )
            )
        hosts.wait(range(count))
    except BaseException:
        hosts.remove()
        raise
    return hosts


def main(folder: Path) -> None:
    """Have hosts until Ctrl-C, listed in ``inventory.yaml`` of the folder: for ``make systems`` and runs by hand."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(connect()) as engine:
        hosts = start(engine, folder, COUNT)
        try:
            print(hosts.file(folder), flush=True)
            signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            hosts.remove()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
