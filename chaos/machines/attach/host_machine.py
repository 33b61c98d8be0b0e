"""A program that somebody else has started on a host, as a machine: it is hurt and healed, never removed or changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from chaos.errors import BadInput
from chaos.experiment.attached import Running
from chaos.fault import NotNow
from chaos.machines.attach.host_left import BORN_S, ProgramsLeft, start
from chaos.machines.attach.ledger import Ledger
from chaos.machines.attach.untouched import Untouched
from chaos.machines.machine import Dial, Life, Signal
from chaos.machines.ssh.watch import Watch
from chaos.shell.launch import Launch

_SIGNALS = {Signal.KILL: "SIGKILL", Signal.TERMINATE: "SIGTERM", Signal.STOP: "SIGSTOP"}


class HostedProgram(Untouched):
    """Implements :class:`chaos.machines.machine.Machine`. Each process that its owner's command names is a life of the
    node; ``life`` keeps them apart. What happens to it that is not the run's doing is a loss: nobody sees how a process
    of others has ended, so that a crash can't be distinguished from somebody's kill."""

    def __init__(self, node: str, watch: Watch, program: Running) -> None:
        self.name = node
        self.watch = watch
        self.program = program
        self.life = ""
        #: What the kernel calls it: a process with its old id and another name is none of it.
        self.named = ""
        self.ledger: Ledger[ProgramsLeft] | None = None
        self._losses: list[str] = []
        self._incarnation = 0
        self._ending = self._pausing = False
        self._lock = threading.RLock()

    @property
    def proof(self) -> Mapping[str, object]:
        return {"host": self.watch.host.name}

    @property
    def losses(self) -> Sequence[str]:
        return (*self.watch.losses, *self._losses)

    # What is seen

    def found(self) -> None:
        """Take it as it is. Raises :class:`BadInput` when it does not run, or was stopped."""
        who = f"attach, programs: node {self.name} on host {self.watch.host.name}"
        report = self._report()
        if "problem" in report:
            raise BadInput(f"{who}: {report['problem']}: start it first, or fix `pid`")
        if report["paused"]:
            pid = str(report["process"]).partition(":")[0]
            raise BadInput(f"{who}: process {pid} was stopped: let it go on first (`kill -CONT {pid}`)")
        self.named = str(report["name"])
        self.look()

    def look(self) -> Mapping[str, Any]:
        """Return what runs of it now; an empty ``process`` when nothing does."""
        with self._lock:
            report = {"process": "", "paused": False, **self._report()}
            if report.get("name") != self.named:
                report["process"] = ""
            if not report["process"]:
                if not self._ending:
                    self._lose("has ended, and not by this run: it crashed, or somebody ended it")
                return report
            if report["process"] != self.life:
                if self.life and not self._ending:
                    self._lose("was started again, and not by this run")
                self.life, self._ending = str(report["process"]), False
                self._incarnation += 1
            if report["paused"] and not self._pausing:
                self._lose("was stopped, and not by this run")
            return report

    def _report(self) -> Mapping[str, Any]:
        return dict(self._as_root("program", pid=list(self.program.pid), known=self.life))

    def _as_root(self, do: str, **arguments: object) -> Any:
        return self.watch.use(lambda: self.watch.host.as_root(do, **arguments))

    def _lose(self, what: str) -> None:
        sentence = f"the program of node {self.name} on host {self.watch.host.name} {what}"
        if sentence not in self._losses:
            self._losses.append(sentence)

    def lives(self, nodes: Sequence[str]) -> Mapping[str, Life]:
        with self._lock:
            report = self.look()
            running, paused = bool(report["process"]), bool(report["process"] and report["paused"])
            return {
                self.name: Life(
                    incarnation=self._incarnation,
                    pid=int(self.life.partition(":")[0] or 0),
                    started=self.life,
                    state="paused" if paused else "running" if running else "",
                    paused=paused,
                    exit_code=None,
                    of_a_fault=False,
                )
            }

    def log(self, node: str) -> str:
        return ""  # where it is, only its owner knows

    def says(self, node: str, pattern: str) -> bool:
        return False

    def runs_program(self, node: str) -> bool:
        return bool(self.look()["process"])

    # What is done to it

    def start(self, launch: Launch) -> None:
        with self._lock:
            if not self.watch.use(lambda: start(self.watch.host, self.program, self.named)):
                self._lose(f"was not there within {BORN_S:g} s of the command that starts it")
            self._settled()

    def signal(self, node: str, number: Signal) -> None:
        with self._lock:
            if number is Signal.CONTINUE:
                if process := self.look()["process"]:
                    self._as_root("signal_program", process=process, name="SIGCONT")
                self._pausing = False
                self._settled()
                return
            assert self.ledger is not None, "it was attached"
            self.ledger.hold(self.name)
            before = self._pausing, self._ending
            if number is Signal.STOP:
                self._pausing = True
            else:
                self._ending = True
            try:
                self._as_root("signal_program", process=self.life, name=_SIGNALS[number])
            except NotNow:
                self._pausing, self._ending = before
                self._settled()
                raise

    def _settled(self) -> None:
        """Hold nothing of it any more if it runs."""
        report = self.look()
        if report["process"] and not report["paused"] and self.ledger is not None:
            self.ledger.let_go(self.name)

    # Its network

    @contextmanager
    def settling(self) -> Iterator[None]:
        """Do nothing: a host keeps its network, whatever lives there."""
        yield

    def run_as_root(self, command: Sequence[str], given: str) -> tuple[int, str]:
        return self.watch.use(lambda: self.watch.host.root(command, given))

    def reach(self, dials: Sequence[Dial], within_s: float) -> list[bool]:
        said = [{"ports": [0], "host": dial.target[0], "port": dial.target[1]} for dial in dials]
        return [bool(works) for works in self.watch.ask("reach", dials=said, within_s=within_s)]
