"""When a process has begun and when it has ended, as the system shows it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from chaos.machines import procfs
from chaos.machines.procfs import Process

#: Its first thread ends; another one goes on until the process is killed.
OUTLIVED = """
import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("ready", flush=True)
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""


def test_a_process_lives_until_its_last_thread_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", OUTLIVED], stdout=subprocess.PIPE, text=True) as popen:
        try:
            assert popen.stdout is not None and popen.stdout.readline() == "ready\n"
            process, deadline_s = Process.of(popen.pid), time.monotonic() + 10
            while process.state() != "Z":
                assert time.monotonic() < deadline_s, "the first thread has not ended"
                time.sleep(0.01)
            time.sleep(0.1)
            assert process.state() == "Z", "its sockets still take connections"
        finally:
            popen.kill()
        deadline_s = time.monotonic() + 10
        while process.state():
            assert time.monotonic() < deadline_s, "a zombie has ended"
            time.sleep(0.01)
        assert popen.returncode is None, "nobody has waited for it yet"


def test_a_process_has_begun_once_its_environment_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = iter([{}, {}, {procfs.NODE: "n"}])
    monkeypatch.setattr(procfs, "environment", lambda pid: next(read))
    assert Process.begun(os.getpid()) == Process.of(os.getpid())
    assert next(read, None) is None


def test_what_was_begun_shows_its_environment_until_it_ends() -> None:
    for _ in range(30):
        with subprocess.Popen(["sleep", "60"], env={**os.environ, procfs.NODE: "n"}) as popen:
            try:
                Process.begun(popen.pid)
                assert procfs.environment(popen.pid)[procfs.NODE] == "n" and procfs.has_memory(popen.pid)
            finally:
                popen.kill()


def test_a_process_without_an_environment_any_more_has_no_memory() -> None:
    """Also before its state says that it has ended."""
    for _ in range(100):
        with subprocess.Popen(["sh", "-c", "exit 1"], env={**os.environ, procfs.NODE: "n"}) as popen:
            process = Process.begun(popen.pid)
            while process.state():
                assert procfs.environment(popen.pid) or not procfs.has_memory(popen.pid)


def test_a_process_that_ended_at_once_has_begun() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as popen:
        os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
        assert Process.begun(popen.pid).state() == ""
