"""A gateway as a process: its outside answers in later steps, and what it shows was traced before."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.history.trace_lines import Decoder
from reference.wire.codec import RemotingCodec
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.s3 import BUCKET, NONE, SmallS3, Trouble, small_s3

pytestmark = pytest.mark.process
pytest.importorskip("obstore", reason="not there: pip install 'stormproof[cloud]'")
ROOT = Path(__file__).parents[2]
WITHIN_S = 60.0


class Node:
    """One life of a gateway that a person has started, and a connection with it, as a broker's."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self._codec, self._buffer, self._number = process, RemotingCodec(), bytearray(), 0
        deadline_s = time.monotonic() + WITHIN_S
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S)
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline_s
                time.sleep(0.05)
        self._socket.sendall(json.dumps({"from": "broker-0", "to": "store-0"}).encode() + b"\n")

    def send(self, code: Request, body: bytes = b"", **fields: str) -> None:
        self._number += 1
        texts = {"request": f"r{self._number}", "queue": "0", **fields}
        self._socket.sendall(self._codec.encode(Command(code=code, opaque=self._number, fields=texts, body=body)))

    def ask(self, code: Request, body: bytes = b"", **fields: str) -> Command:
        self.send(code, body, **fields)
        while not (found := self._codec.decode(self._buffer)):
            data = self._socket.recv(1 << 16)
            assert data, "the gateway has gone"
            self._buffer += data
        (answer,) = found
        assert isinstance(answer, Command) and answer.opaque == self._number
        return answer


@contextmanager
def gateway(folder: Path, store: str, **options: str) -> Iterator[Node]:
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NODE_")}
    environment |= {
        "NODE_ADDRESSES": f"store-0=127.0.0.1:{port}",
        "NODE_DISK": "none",
        "NODE_TRACE": str(folder / "trace"),
        "NODE_STORE": store,
        "NODE_PREFIX": "mine",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        **{f"NODE_{name.upper()}": value for name, value in options.items()},
    }
    command = [sys.executable, "-m", "reference", "objectstore", "store-0"]
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log, text=True)
        try:
            yield Node(process, port)
        finally:
            process.kill()
            process.wait()


def traced(folder: Path) -> list[dict[str, Any]]:
    decoder = Decoder()
    rows = (decoder.decode(line) for line in (folder / "trace").read_bytes().splitlines())
    return [row for row in rows if row is not None]


def test_what_is_answered_was_traced_and_is_there_for_another_life(tmp_path: Path) -> None:
    store = f"file://{tmp_path}/objects"
    with gateway(tmp_path, store, single_writer="true") as node:
        assert node.ask(Request.STORE_PUT, b"one", key="a").code == Response.SUCCESS
        assert [row["f"] for row in traced(tmp_path)] == ["start", "store_put"]
        assert node.ask(Request.STORE_CAS, b'{"version":1}', key="m", expected="-1").code == Response.SUCCESS
        node.process.send_signal(signal.SIGKILL)
    with gateway(tmp_path, store, single_writer="true") as node:
        assert node.ask(Request.STORE_GET, key="m").body == b'{"version":1}'
        assert [key for key, _ in json.loads(node.ask(Request.STORE_LIST, prefix="").body)] == ["a", "m"]
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(WITHIN_S) == 0
    rows = traced(tmp_path)[3:]
    assert [(row["f"], row["value"].get("recovered")) for row in rows] == [
        ("start", None),
        ("store_cas", True),
        ("store_get", None),
        ("store_put", True),
        ("store_list", None),
    ]
    assert (tmp_path / "log").read_text().count(f"objects stand at file://{tmp_path}/objects/mine/") == 2


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallS3]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with small_s3() as server:
        yield server


def test_requests_do_not_wait_for_one_that_the_store_holds_up(tmp_path: Path, s3: SmallS3) -> None:
    s3.meddle = lambda method, key: Trouble(late_s=1.0, done=True) if key.endswith("slow") else NONE
    with gateway(tmp_path, s3.url) as node:
        node.send(Request.STORE_PUT, b"1", key="slow")
        began_s = time.monotonic()
        assert node.ask(Request.STORE_PUT, b"2", key="quick").code == Response.SUCCESS
        assert time.monotonic() - began_s < 1.0
        assert sorted(key.rpartition("/")[2] for key in s3.objects) == ["quick", "slow"]


def test_a_bucket_that_vanishes_loses_requests_and_says_so_once(tmp_path: Path, s3: SmallS3) -> None:
    with gateway(tmp_path, s3.url, timeout_ms="300") as node:
        assert node.ask(Request.STORE_PUT, b"1", key="a").code == Response.SUCCESS
        s3.meddle = lambda method, key: Trouble(status=404, code="NoSuchBucket")
        for _ in range(2):
            answer = node.ask(Request.STORE_GET, key="a")
            assert (answer.code, "NoSuchBucket" in answer.remark) == (Response.SYSTEM_ERROR, True)
        s3.meddle = lambda method, key: NONE
        assert node.ask(Request.STORE_GET, key="a").body == b"1"
    assert [row["f"] for row in traced(tmp_path)][2:4] == ["store_lost", "store_lost"]
    assert (tmp_path / "log").read_text().count("NoSuchBucket") == 1
    assert f"s3://{BUCKET}: " in (tmp_path / "log").read_text()
