"""What a host says is bounded, and must make sense: whatever it is, it ends no harness."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import DeploymentError, HostLost
from chaos.experiment.inventory import Host
from chaos.machines.node_package import NodeWheel
from chaos.machines.ssh import host as ssh
from chaos.machines.ssh.agent import READ_BYTES, HostAgent
from chaos.machines.ssh.host import SshHost


class Channel:
    def settimeout(self, seconds: float) -> None: ...

    def sendall(self, data: bytes) -> None: ...


def says(line: bytes) -> SshHost:
    it = SshHost(Host(name="h", host="10.0.0.1"), "run", NodeWheel(name="w", data=b"", digest=""))
    channel: Any = Channel()
    it._channel, it._answers = channel, io.BytesIO(line)
    return it


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"ok":' + b"1" * 2000 + b"}\n", "more than"),
        (b'{"ok":1', "has ended"),
        (b"nonsense\n", "no sense"),
        (b"[" * 900 + b"\n", "no sense"),
        (b"7\n", "no sense"),
        (b"\xff\xfe\n", "no sense"),
        (b"{}\n", "no sense"),
    ],
)
def test_what_makes_no_sense_ends_the_connection_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, line: bytes, problem: str
) -> None:
    monkeypatch.setattr(ssh, "MOST_SAID_BYTES", 1000)
    with pytest.raises((HostLost, DeploymentError), match=problem):
        says(line).call("status")


def test_what_makes_sense_is_heard() -> None:
    assert says(b'{"ok":{"n":1}}\n').call("status") == {"n": 1}


def test_a_row_of_any_size_is_read(tmp_path: Path) -> None:
    agent = HostAgent(tmp_path, tmp_path)
    agent.do_begin("r")
    row = json.dumps({"value": "x" * (READ_BYTES + READ_BYTES // 2)}).encode() + b"\n"
    trace = tmp_path / "runs/r/traces"
    trace.mkdir(parents=True)
    (trace / "n.jsonl").write_bytes(row + b'{"next":')
    assert len(agent.do_read({"traces/n.jsonl": 0})["traces/n.jsonl"]) > READ_BYTES
