"""A node that ended without a fault: who did it, as far as anybody can tell, and how that is said."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from chaos.deployment import EndedBy
from chaos.machines import procfs
from chaos.machines.agent import commands
from chaos.machines.agent.commands import Agent
from chaos.machines.lifecycle.crashes import Crash, Crashes, last_words
from chaos.machines.machine import Life, Machine

ALIVE = Life(incarnation=2, pid=7, started=7, state="S", paused=False, exit_code=None, of_a_fault=False)
NODE = "kafka-1"


class OneNode:
    losses: Sequence[str] = ()

    def __init__(self, log: str = "") -> None:
        self.life = ALIVE
        self._log = log

    def lives(self, nodes: Sequence[str]) -> Mapping[str, Life]:
        return dict.fromkeys(nodes, self.life)

    def log(self, node: str) -> str:
        return self._log


def ended(code: int | None, *, oom_killed: bool = False, log: str = "") -> Crash:
    machine, crashes = OneNode(log), Crashes(lambda node, incarnation: False)
    crashes.note(cast(Machine, machine), [NODE])
    machine.life = replace(ALIVE, state="", exit_code=code, oom_killed=oom_killed)
    crashes.note(cast(Machine, machine), [NODE])
    crashes.note(cast(Machine, machine), [NODE])
    (crash,) = crashes.noted
    assert crash.alive_ns > 0
    return crash


@pytest.mark.parametrize(
    ("code", "oom_killed", "by"),
    [
        (-signal.SIGKILL, True, EndedBy.MACHINE),
        (137, True, EndedBy.MACHINE),  # a shell, or a container, tells of its child so
        (-signal.SIGKILL, False, EndedBy.UNKNOWN),  # it may have sent that to itself
        (137, False, EndedBy.UNKNOWN),
        (3, True, EndedBy.ITSELF),  # -XX:+ExitOnOutOfMemoryError, while the kernel has killed somebody else
        (-signal.SIGABRT, True, EndedBy.ITSELF),  # -XX:+CrashOnOutOfMemoryError, a watchdog
        (-signal.SIGSEGV, False, EndedBy.ITSELF),
        (0, False, EndedBy.ITSELF),
        (None, True, EndedBy.ITSELF),
    ],
)
def test_only_a_sigkill_may_be_a_strangers(code: int | None, oom_killed: bool, by: EndedBy) -> None:
    assert ended(code, oom_killed=oom_killed).by is by


@pytest.mark.parametrize(
    ("code", "log", "text"),
    [
        (1, "begins\nno space\n\n", f"{NODE}, life 2, ended with exit code 1; the last line of its log: no space"),
        (-6, "", f"{NODE}, life 2, ended by SIGABRT; its log is empty"),
        (-99, " \n", f"{NODE}, life 2, ended by signal 99; its log is empty"),
        (None, "a", f"{NODE}, life 2, ended, and nobody saw its exit code; the last line of its log: a"),
        (1, "x" * 4000, f"{NODE}, life 2, ended with exit code 1; the last line of its log: {'x' * 200} …"),
    ],
)  # fmt: skip
def test_a_crash_is_told_in_one_line(code: int | None, log: str, text: str) -> None:
    assert str(ended(code, log=log)) == text


def test_the_kernels_counts_show_whether_it_killed_somebody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("9:cpu:/x\n0::/pods/a\n")
    (tmp_path / "pods/a").mkdir(parents=True)
    (tmp_path / "vmstat").write_text("nr_free 5\noom_kill 3\n")
    (tmp_path / "pods/a/memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    monkeypatch.setattr(procfs, "_PROC", tmp_path)
    monkeypatch.setattr(procfs, "_CGROUP", tmp_path)
    assert list(procfs.oom_kills().values()) == [3, 1]
    (tmp_path / "pods/a/memory.events").unlink()
    (tmp_path / "vmstat").write_text("nonsense\n")
    assert procfs.oom_kills() == {}, "what can't be read shows nothing"


@pytest.mark.parametrize(
    ("before", "after", "oom_killed"),
    [
        ({"vmstat": 3}, {"vmstat": 4}, True),
        ({"vmstat": 3}, {"vmstat": 3}, False),
        ({"vmstat": 3, "events": 0}, {"vmstat": 3, "events": 1}, True),
        ({}, {"vmstat": 4}, False),
        ({"vmstat": 3}, {}, False),
    ],
)
def test_a_kill_counts_since_the_node_was_last_seen_alive(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, int], after: dict[str, int], oom_killed: bool
) -> None:
    agent: Any = Agent.__new__(Agent)
    agent._oom_kills, agent._starved_to_death = {}, set()
    process = procfs.Process(1, 1)
    told = iter([{"vmstat": 0}, before, after])
    monkeypatch.setattr(commands, "oom_kills", lambda: next(told))
    assert not agent._oom_killed(process, alive=True) and not agent._oom_killed(process, alive=True)
    assert [agent._oom_killed(process, alive=False) for _ in range(2)] == [oom_killed] * 2, "it is looked at once"


def test_the_last_line_of_a_stack_trace_is_what_went_wrong() -> None:
    trace = "started\nFatal (kafka.Kafka$)\njava.lang.Error: no disk\n\tat a.B$.c(B.scala:3)\n\t... 5 more\n"
    assert last_words(trace) == "the last line of its log: java.lang.Error: no disk"
    assert last_words("\tat a.B(C.java:1)") == "the last line of its log: at a.B(C.java:1)"
    assert last_words("at noon it ended") == "the last line of its log: at noon it ended"
    assert last_words(" \n") == "its log is empty"
