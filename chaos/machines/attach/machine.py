"""A container that somebody else has started, as a machine: it is hurt and healed, never removed or changed."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from chaos.errors import HostLost
from chaos.machines.attach.helper import Helper
from chaos.machines.attach.ledger import Ledger
from chaos.machines.attach.left import ProjectLeft
from chaos.machines.attach.project import Found, Network
from chaos.machines.attach.untouched import Untouched
from chaos.machines.docker.engine import THREADS, engine_errors, not_now
from chaos.machines.machine import Dial, Life, Signal
from chaos.shell.launch import Launch

if TYPE_CHECKING:
    from docker import DockerClient

LOG_LINES = 30
#: So much of its log is looked at for a line that says that it is ready.
READY_LINES = 10_000


class AttachedMachine(Untouched):
    """Implements :class:`chaos.machines.machine.Machine`. Each start of the container is a life of the node, in a
    network of its own; ``life`` keeps them apart. What others do to the container meanwhile is a loss: nobody can judge
    then what the system did by itself."""

    def __init__(
        self, client: DockerClient, found: Found, ledger: Ledger[ProjectLeft], labels: Mapping[str, str]
    ) -> None:
        self.name = found.node
        self.found = found
        self.life = ""
        self.losses: list[str] = []
        self._client = client
        self._ledger = ledger
        self._labels = labels
        self._incarnation = 0
        self._ending = self._pausing = self._settling = False
        self._helper: Helper | None = None
        self._helped = ""  # the life in whose network the helper is
        self._lock = threading.RLock()

    @property
    def proof(self) -> Mapping[str, object]:
        return {"container": self.found.name}

    # What is seen

    def look(self) -> dict[str, Any]:
        """Return what the engine says of the container now. Raises :class:`HostLost` when it was removed."""
        from docker.errors import NotFound

        with self._lock, engine_errors():
            try:
                found: dict[str, Any] = self._client.api.inspect_container(self.found.container)
            except NotFound:
                self._lose("was removed")
                raise HostLost(f"the container {self.found.name} of node {self.name} was removed") from None
            state = found["State"]
            if state["StartedAt"] != self.life:
                if self.life and not self._ending:
                    self._lose("was started again, and not by this run")
                self.life, self._ending = state["StartedAt"], False
                self._incarnation += 1
            if state["Paused"] and not self._pausing:
                self._lose("was paused, and not by this run")
            if not state["Running"] and not self._ending and self._was_asked_to_end():
                self._lose("was stopped, and not by this run")
            return found

    def _was_asked_to_end(self) -> bool:
        """Return whether somebody has sent the present life a signal: a container that ends by itself gets none."""
        since, until = int(_seconds(self.life)), datetime.now(UTC).timestamp()
        asked = {"container": self.found.container, "event": "kill"}
        return any(True for _ in self._client.api.events(since=since, until=until, filters=asked, decode=True))

    def _lose(self, what: str) -> None:
        sentence = f"the container {self.found.name} of node {self.name} {what}"
        if sentence not in self.losses:
            self.losses.append(sentence)

    def lives(self, nodes: Sequence[str]) -> Mapping[str, Life]:
        with self._lock:
            state = self.look()["State"]
            running, paused = bool(state["Running"]), bool(state["Paused"])
            return {
                self.name: Life(
                    incarnation=self._incarnation,
                    pid=int(state["Pid"]),
                    started=self.life,
                    state="paused" if paused else "running" if running else "",
                    paused=paused,
                    exit_code=None if running else int(state["ExitCode"]),
                    of_a_fault=False,
                    oom_killed=not running and bool(state.get("OOMKilled")),
                )
            }

    def network(self) -> Network:
        """Return where it is in its present life. Raises :class:`HostLost` while it is down."""
        network = self.found.network(self.look())
        if network is None:
            raise HostLost(f"the container {self.found.name} of node {self.name} has no address now")
        return network

    def log(self, node: str) -> str:
        return self._logs(tail=LOG_LINES)

    def says(self, node: str, pattern: str) -> bool:
        text = self._logs(tail=READY_LINES, since=int(_seconds(self.life)))
        return any(re.search(pattern, line) for line in text.splitlines())

    def _logs(self, **which: int) -> str:
        with engine_errors():
            return str(self._client.api.logs(self.found.container, **which).decode("utf-8", "replace"))

    def runs_program(self, node: str) -> bool:
        return bool(self.look()["State"]["Running"])

    # What is done to it

    def start(self, launch: Launch) -> None:
        with self._refused("it can't be started now"):
            self._client.api.start(self.found.container)
        self._settled()

    def signal(self, node: str, number: Signal) -> None:
        with self._lock:
            if number is Signal.CONTINUE:
                if self.look()["State"]["Paused"]:
                    with self._refused("it is not paused"):
                        self._client.api.unpause(self.found.container)
                self._pausing = False
                self._settled()
                return
            self._ledger.hold(self.name)
            if number is Signal.STOP:
                self._pausing = True
                with self._refused("it is not running, or paused already"):
                    self._client.api.pause(self.found.container)
                return
            self._ending = True
            word = "SIGKILL" if number is Signal.KILL else self.look()["Config"].get("StopSignal") or "SIGTERM"
            with self._refused("it is not running"):
                self._client.api.kill(self.found.container, word)

    def _settled(self) -> None:
        """Hold nothing of it any more if it runs."""
        state = self.look()["State"]
        if state["Running"] and not state["Paused"]:
            self._ledger.let_go(self.name)

    @contextmanager
    def _refused(self, why: str) -> Iterator[None]:
        """Raise :class:`NotNow` when the container is in another state than the call needs, :class:`HostLost` when it
        is gone."""
        from docker.errors import APIError

        with engine_errors(), not_now(why):
            try:
                yield
            except APIError as error:
                if error.response is not None and error.response.status_code == 404:
                    self.look()  # says that it is gone
                raise

    # Its network

    @contextmanager
    def settling(self) -> Iterator[None]:
        """Take the network of its present life over: only meanwhile do commands run in one that was not taken over yet.
        One that fails is not taken over."""
        self._settling = True
        try:
            yield
        except BaseException:
            self._helped = ""
            raise
        finally:
            self._settling = False

    def run_as_root(self, command: Sequence[str], given: str) -> tuple[int, str]:
        return self._help().run(command, given)

    def reach(self, dials: Sequence[Dial], within_s: float) -> list[bool]:
        helper = self._help()

        def reached(dial: Dial) -> bool:
            host, port = dial.target
            dialling = ["bash", "-c", ': <"/dev/tcp/$0/$1"', host, str(port)]
            return helper.succeeds(["timeout", str(within_s), *dialling])

        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(reached, dials))

    def _help(self) -> Helper:
        """Return the helper in the network of its present life. Raises :class:`HostLost` when there is none, or rules
        do not hold there yet."""
        with self._lock:
            if not self.look()["State"]["Running"]:
                raise HostLost(f"{self.name} is down, and its network with it")
            if self._helper is not None and self._helped == self.life:
                return self._helper
            if not self._settling:
                raise HostLost(f"{self.name} was just started again")
            self._close_helper()
            self._helper = Helper(self._client, self.found.container, self.name, self._labels)
            if self.look()["State"]["StartedAt"] != self.life or not self.life:
                raise HostLost(f"{self.name} was just started again")
            self._helped = self.life
            return self._helper

    def _close_helper(self) -> None:
        helper, self._helper, self._helped = self._helper, None, ""
        if helper is not None:
            helper.close()

    def leave(self, stem: str) -> None:
        """Take down what the run has in its network, and our helper."""
        with self._lock:
            if self._helper is None:
                return
            try:
                self._helper.clear(stem)
            finally:
                self._close_helper()


def _seconds(started: str) -> float:
    """Return the engine's word for a time, as seconds since 1970."""
    return datetime.fromisoformat(started[:19]).replace(tzinfo=UTC).timestamp()
