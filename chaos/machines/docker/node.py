"""One node in containers: a *machine* that holds its network, and the *program* in it that is started and killed.

The machine is a container of its own, so that the node's address, its link rules and what the kernel still has to say
on its connections outlive a kill, as they do where a process dies and its machine doesn't. It alone may change the
network (as root, by ``exec``); the program runs as a normal user without any capability, on a read-only disk but for
the node's own. All calls block: they belong on a thread.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.deployment import trace_file
from chaos.errors import DeploymentError
from chaos.machines.docker.engine import MACHINE, NODE, PART, PROGRAM, engine_errors, explain, image_name, not_now
from chaos.machines.docker.root_shell import RootShell
from chaos.machines.node_package import package_digest, package_folder, packages_of
from chaos.machines.procfs import listeners
from chaos.node import NodeSpec
from chaos.shell import clocks as _clocks
from chaos.shell import files_below
from chaos.shell.launch import Launch
from chaos.shell.node_files import NodeFile, file_of

if TYPE_CHECKING:
    from docker import DockerClient

#: Where the node listens, in a network of its own.
PORT = 10911
#: Who the program is when the harness is root; otherwise it is the user of the harness, to whom its files belong.
USER = 10001
CODE = "/opt/stormproof"
INSIDE = "/stormproof"
#: In the run's directory, and inside: what programs are given at their start, which they can't change.
LAUNCH = "launch"
END_S = 10
#: How often the kernel gives a program with a limited processor its share again.
PERIOD_US = 100_000
#: The engine keeps two files of this size of what a program of others has written.
LOG_SIZE = "8m"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the engine says of a program. ``started`` is its start time in the engine's words; ``oom_killed``: the
    kernel has killed one of its processes for want of memory."""

    running: bool
    paused: bool
    pid: int
    started: str
    exit_code: int
    oom_killed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What the containers of one run have in common: their labels, the beginning of their names, their network, and the
    run's directory; whether their programs' ``clocks`` can be set; and which packages of nodes their image holds, with
    the digest of each (``packages``)."""

    labels: Mapping[str, str]
    prefix: str
    network: str
    directory: Path
    clocks: bool
    packages: Mapping[str, str] = field(default_factory=dict)


class NodeContainers:
    """Both containers of one node. ``address`` is known once the machine runs. ``machine``: a folder that the harness
    shares with the program, for what is done to the program's machine."""

    GATE = "io.gate"

    def __init__(self, client: DockerClient, spec: NodeSpec, placement: Placement) -> None:
        self.spec = spec
        self.name = spec.name
        self.address = ""
        self._client = client
        self._placement = placement
        self._machine: Any = None
        self._program: Any = None
        self._shell: RootShell | None = None

    def create(self) -> None:
        """Make both and start the machine."""
        placement = self._placement
        uid, gid = owner()
        for folder in (self._disk, self._trace.parent, self.machine, self._launch.parent, self.home):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)
        for folder in (self._disk, self._trace.parent, self.machine, self.home):
            os.chown(folder, uid, gid)
        with engine_errors():
            self._machine = self._client.containers.create(
                image_name(),
                ["infinity"],
                entrypoint=["sleep"],
                name=f"{placement.prefix}-{self.name}-{MACHINE}",
                hostname=self.name,
                labels=self._labels(MACHINE),
                network=placement.network,
                user="0:0",
                cap_drop=["ALL"],
                cap_add=["NET_ADMIN", "NET_RAW"],  # the older flavour of iptables opens a raw socket
                read_only=True,
                tmpfs={"/run": ""},
                security_opt=["no-new-privileges"],
            )
            self._machine.start()
            self._machine.reload()
            self.address = str(self._machine.attrs["NetworkSettings"]["Networks"][placement.network]["IPAddress"])
            self._shell = RootShell(self._client, self._machine.id, self.name)
            if self.spec.program is None:
                self._program = self._create_program(
                    image_name(),
                    command=[self.spec.package, f"{INSIDE}/{LAUNCH}/{self._launch.name}"],
                    environment={
                        "PYTHONPATH": f"{INSIDE}/packages:{CODE}",
                        **(_clocks.environment(self.file_inside(NodeFile.CLOCK)) if placement.clocks else {}),
                    },
                    mounts=list(self._mounts()),
                    read_only=True,
                    log_config={"type": "json-file"},
                )

    def _create_program(self, image: str, **more: Any) -> Any:
        uid, gid = owner()
        return self._client.containers.create(
            image,
            name=f"{self._placement.prefix}-{self.name}",
            labels=self._labels(PROGRAM),
            network_mode=f"container:{self._machine.id}",
            user=f"{uid}:{gid}",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            **more,
        )

    def _start_foreign(self, launch: Launch) -> None:
        """Begin a life of a program of others. Its container is made when all addresses are known, and what it writes
        besides its disk and its home stays in there."""
        program, asked = launch.program, self.spec.program
        assert program is not None and asked is not None, "said by who starts it"
        for path, text in program.files.items():
            with _file_errors(self.name):
                files_below.write(self.home, path, b64decode(text))
        if self._program is None:
            with self._engine_errors():
                self._program = self._create_program(
                    asked.image or image_name(),
                    entrypoint=[program.argv[0]],
                    command=list(program.argv[1:]),
                    environment={**program.env, "TINI_KILL_PROCESS_GROUP": "1"},
                    mounts=list(self._foreign_mounts()),
                    working_dir=self.home_inside,
                    init=True,  # the first process of a container must hand signals on, and bury the dead
                    mem_limit=f"{asked.memory_mb}m" if asked.memory_mb else None,
                    log_config={"type": "json-file", "config": {"max-size": LOG_SIZE, "max-file": "2"}},
                )
        with self._engine_errors():
            self._program.start()

    def start(self, launch: Launch) -> None:
        """Begin a life. ``launch`` names paths in the container."""
        if launch.program is not None:
            self._start_foreign(launch)
            return
        self._launch.write_text(launch.to_json(), "utf-8")
        self._launch.chmod(0o644)
        with self._engine_errors():
            self._program.start()

    @property
    def disk(self) -> str:
        """Where the program finds its disk."""
        return f"{INSIDE}/disk"

    @property
    def installed(self) -> str:
        """Where a program of others finds what its recipe has made."""
        return f"{INSIDE}/installed"

    @property
    def trace(self) -> str:
        """Where the program writes its trace."""
        return f"{INSIDE}/traces/{self._trace.name}"

    @property
    def gate(self) -> str:
        """While the program finds a file there, no sync of its disk ends."""
        return f"{INSIDE}/machine/{self.GATE}"

    def file(self, file: NodeFile) -> Path:
        """Return where the harness finds one of the node's files."""
        return file_of(self.machine, self.name, file)

    def file_inside(self, file: NodeFile) -> str:
        """Return where the program finds one of the node's files."""
        return str(file_of(Path(INSIDE, "machine"), self.name, file))

    @property
    def machine(self) -> Path:
        return self._placement.directory / "machines" / self.name

    @property
    def home(self) -> Path:
        """Where the harness finds the home of a program of others."""
        return self._placement.directory / "homes" / self.name

    @property
    def home_inside(self) -> str:
        return f"{INSIDE}/home"

    def says(self, pattern: str) -> bool:
        """Return whether a line that the program has written in this life holds a match."""
        since = datetime.fromisoformat(self.state().started[:19]).replace(tzinfo=UTC).timestamp()
        with self._engine_errors():
            text = self._program.logs(since=int(since)).decode("utf-8", "replace")
        return any(re.search(pattern, line) for line in text.splitlines())

    def listening(self) -> list[str]:
        """Return where processes listen in the node's network."""
        _, text = self.run(["cat", "/proc/net/tcp"])
        return sorted(where for where, _ in listeners(text))

    def state(self) -> State:
        if self._program is None:  # the set-up has failed before
            return State(running=False, paused=False, pid=0, started="", exit_code=0)
        with self._engine_errors():
            self._program.reload()
        shown = self._program.attrs["State"]
        return State(
            running=bool(shown["Running"]),
            paused=bool(shown["Paused"]),
            pid=int(shown["Pid"]),
            started=str(shown["StartedAt"]),
            exit_code=int(shown["ExitCode"]),
            oom_killed=bool(shown.get("OOMKilled")),
        )

    def kill(self) -> None:
        """Send SIGKILL, which ends a paused one too, and wait for the end. Raises :class:`NotNow` if it isn't
        running."""
        with self._engine_errors(), not_now("it is not running"):
            self._program.kill()
        with self._engine_errors():
            self._program.wait(timeout=END_S)

    def terminate(self) -> None:
        """Send SIGTERM. Raises :class:`NotNow` if it isn't running."""
        with self._engine_errors(), not_now("it is not running"):
            self._program.kill("SIGTERM")

    def pause(self) -> None:
        """Pause the program. Raises :class:`NotNow` if it isn't running, or paused already."""
        with self._engine_errors(), not_now("it is not running, or paused already"):
            self._program.pause()

    def resume(self) -> None:
        """Let it go on, if it is paused."""
        if self.state().paused:
            with self._engine_errors():
                self._program.unpause()

    def share_processor(self, percent: int) -> None:
        """Let the program have only this part of one processor's time, over all its lives; 0: as much as there is."""
        with self._engine_errors():
            self._program.update(cpu_period=PERIOD_US, cpu_quota=percent * PERIOD_US // 100 or -1)

    def log(self, lines: int) -> str:
        """Return the end of what it wrote, over all its lives."""
        with self._engine_errors():
            return str(self._program.logs(tail=lines).decode("utf-8", "replace"))

    def run(self, command: Sequence[str], given: str = "") -> tuple[int, str]:
        """Run a command as root on the machine, with this on its standard input; return its exit code and output. One
        after the other."""
        assert self._shell is not None, "created first"
        return self._shell.run(command, given)

    def succeeds(self, command: Sequence[str]) -> bool:
        """Run a command on the machine, whatever else runs there; return whether it ended well."""
        with self._engine_errors():
            return bool(self._machine.exec_run(list(command)).exit_code == 0)

    def inside(self, module: Sequence[str]) -> tuple[int, str]:
        """Run a Python module of the image beside the program, as the same user; return its exit code and output.
        Raises :class:`NotNow` if the program isn't running, or is paused."""
        with self._engine_errors(), not_now("it is not running, or paused"):
            done = self._program.exec_run(["python3", "-m", *module])
        return int(done.exit_code or 0), str(done.output.decode("utf-8", "replace").strip())

    def close(self) -> None:
        """Let go of the machine; it runs on."""
        if self._shell is not None:
            self._shell.close()

    @contextmanager
    def _engine_errors(self) -> Iterator[None]:
        """Turn the engine's errors into ours as :func:`engine_errors` does, and say whose container is gone."""
        from docker.errors import NotFound

        with engine_errors():
            try:
                yield
            except NotFound as error:
                raise DeploymentError(
                    f"a container of node {self.name} is gone, which nobody may remove while the run lasts; start it"
                    f" again ({explain(error)})"
                ) from error

    def _labels(self, part: str) -> dict[str, str]:
        return {**self._placement.labels, NODE: self.name, PART: part}

    def _mounts(self) -> Iterator[Any]:
        from docker.types import Mount

        yield Mount(f"{INSIDE}/disk", str(self._disk), type="bind")
        yield Mount(f"{INSIDE}/traces", str(self._trace.parent), type="bind")
        yield Mount(f"{INSIDE}/machine", str(self.machine), type="bind")
        yield Mount(f"{INSIDE}/{LAUNCH}", str(self._launch.parent), type="bind", read_only=True)
        for package in packages_of([self.spec]):
            if self._placement.packages.get(package) != package_digest(package):
                there = str(package_folder(package))
                yield Mount(f"{INSIDE}/packages/{package}", there, type="bind", read_only=True)

    def _foreign_mounts(self) -> Iterator[Any]:
        from docker.types import Mount

        yield Mount(f"{INSIDE}/disk", str(self._disk), type="bind")
        yield Mount(self.home_inside, str(self.home), type="bind")
        if self.spec.program is not None and self.spec.program.recipe is not None:
            yield Mount(self.installed, str(self.spec.program.recipe.folder), type="bind", read_only=True)

    @property
    def _disk(self) -> Path:
        return disk_of(self._placement.directory, self.name)

    @property
    def _trace(self) -> Path:
        return trace_file(self._placement.directory, self.name)

    @property
    def _launch(self) -> Path:
        return self._placement.directory / LAUNCH / f"{self.name}.json"


@contextmanager
def _file_errors(node: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DeploymentError(f"node {node}: its files can't be written: {error}") from error


def disk_of(directory: Path, node: str) -> Path:
    return directory / "nodes" / node


def owner() -> tuple[int, int]:
    """Return user and group that programs run as, and to whom their files belong."""
    return (os.getuid(), os.getgid()) if os.getuid() else (USER, USER)
