"""When a process has ended, as the system tells it."""

from __future__ import annotations

import subprocess
import sys
import time

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
