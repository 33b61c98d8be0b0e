"""A harness that is killed while its nodes are on a host: the state folder ends them, whatever the run says."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from chaos.history import directory as store
from chaos.machines import procfs
from chaos.machines.healing import marks, state
from stormproof.cli import _run
from tests.stormproof.conftest import Begin
from tests.stormproof.small_ssh import HOST, SmallSsh
from tests.stormproof.test_killed_harness import in_a_fault

CLONE_NEWNET = 0x40000000
STORM = """\
name: short
system: {reference: {controllers: 1, brokers: 2, queues: 1}}
duration: 60s
workloads:
  - queue: {producers: 1, consumers: 1, rate_per_s: 20}
faults:
  - pause: {target: slave}
    at: 300ms
    for: 50s
  - kill: {target: master}
    at: 800ms
    for: 50s
"""


@pytest.fixture
def own_network() -> Iterator[None]:
    """Give this thread, and what it begins, a network of their own: rules on links are not those of this machine."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    assert libc.unshare(CLONE_NEWNET) == 0
    try:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        yield
    finally:
        assert libc.setns(before, CLONE_NEWNET) == 0
        os.close(before)


@pytest.fixture
def host(tmp_path: Path, own_network: None) -> Iterator[SmallSsh]:
    made = SmallSsh(tmp_path)
    yield made
    made.close()


@pytest.mark.full
@pytest.mark.netns
@pytest.mark.skipif(os.getuid() != 0, reason="on hosts one becomes root, and here the host is this machine")
@pytest.mark.parametrize("become", ["as it was", "altered", "moved", "without its mark"])
@pytest.mark.parametrize("moment", range(5))
def test_what_runs_on_a_host_is_ended(
    tmp_path: Path, begin: Begin, host: SmallSsh, capsys: pytest.CaptureFixture[str], become: str, moment: int
) -> None:
    (tmp_path / "storm.yaml").write_text(STORM)
    one = {"host": HOST, "port": host.port, "key": str(host.key), "known_hosts": str(host.known_hosts)}
    one |= {"first_port": 27_000, "directory": str(tmp_path / "there"), "name": "h0", "user": "root"}
    (tmp_path / "hosts.yaml").write_text(json.dumps({"hosts": [one]}))
    own, out = tmp_path / "state", ["--out", str(tmp_path / "runs")]
    words = ("--on", "ssh", "--inventory", "hosts.yaml", "--engine", "local", "--state", str(own))
    popen = begin("run", "storm.yaml", *words)
    run = in_a_fault(tmp_path, popen)
    time.sleep(Random(f"{become}/{moment}").uniform(0, 3))
    assert popen.poll() is None
    popen.kill()
    popen.wait()
    tag = json.loads((run / store.HOSTS).read_text())["tag"]
    left = procfs.marked({procfs.HOST_RUN: tag})
    assert left and (tmp_path / "there/runs" / tag).is_dir() and str(host.key) not in (run / store.HOSTS).read_text()
    with state.using(own):
        if become == "altered":
            (run / store.HOSTS).write_text('{"hosts": [{"host": "203.0.113.1"}], "cleared": false}')
        elif become == "moved":
            run.rename(tmp_path / "elsewhere")
        elif become == "without its mark":
            marks.remove(run)
            assert _run(["heal", run.name, *out]) == 3 and procfs.marked({procfs.HOST_RUN: tag}) == left
            trusted = ["heal", run.name, "--trust", "--inventory", str(tmp_path / "hosts.yaml"), *out]
            assert _run(trusted) == 3 and procfs.marked({procfs.HOST_RUN: tag}) == left
            assert f"remove the folder {tmp_path / 'there'}/runs/{tag}" in capsys.readouterr().out
            assert _run([*trusted, "--yes"]) == 0
        assert _run(["heal", *out]) == 0
        assert marks.below(tmp_path) == []
    assert procfs.marked({procfs.HOST_RUN: tag}) == [] and not (tmp_path / "there/runs" / tag).exists()
    assert f"host h0: removed {tmp_path / 'there'}/runs/{tag}" in capsys.readouterr().out
