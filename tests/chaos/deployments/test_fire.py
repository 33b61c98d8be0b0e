"""Nodes that are processes, on ports of this machine, go on serving while anybody sends them anything."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from reference.console import Console, NoAnswer
from reference.wire.codes import Request
from reference.wire.command import Command
from tests.reference.frames import Fuzzer

pytestmark = pytest.mark.process
TOKEN = "a secret of this test"
ROLES = {"controller-0": "controller", "nameserver-0": "nameserver", "store-0": "objectstore", "broker-0": "broker"}
ROLES["broker-1"] = "broker"
OPTIONS = {
    "broker": {
        "NODE_CONTROLLERS": "controller-0",
        "NODE_NAMESERVERS": "nameserver-0",
        "NODE_OBJECTSTORE": "store-0",
        "NODE_TOPICS": "storm=2",
    },
    "controller": {"NODE_CONTROLLERS": "controller-0"},
}
BEGIN_S, SERVED_S = 60.0, 60.0
#: Frames that end nowhere, and connections that say nothing, are left open so many at a time.
HANGING = 50


class Nodes:
    """A cluster by hand. ``processes`` by name; ``console`` knows the secret."""

    def __init__(self, folder: Path) -> None:
        self.addresses = {name: f"127.0.0.1:{_free()}" for name in ROLES}
        self.console = Console(self.addresses, TOKEN)
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        listed = " ".join(f"{name}={where}" for name, where in self.addresses.items())
        for name, role in ROLES.items():
            environment = {key: value for key, value in os.environ.items() if not key.startswith("NODE_")}
            environment |= {"NODE_ADDRESSES": listed, "NODE_DISK": str(self.folder / name), "NODE_TOKEN": TOKEN}
            with (self.folder / f"{name}.log").open("wb") as log:
                command = [sys.executable, "-m", "reference", role, name]
                self.processes[name] = subprocess.Popen(
                    command, env={**environment, **OPTIONS.get(role, {})}, stdout=log, stderr=log
                )

    def must_serve(self) -> None:
        until_s = time.monotonic() + SERVED_S
        while True:
            try:
                self.console.send("storm", 0, "served")
            except (NoAnswer, OSError) as error:
                self.must_live()
                assert time.monotonic() < until_s, f"nobody is served: {error}"
                time.sleep(0.1)
            else:
                return

    def must_live(self) -> None:
        for name, process in self.processes.items():
            assert process.poll() is None, (self.folder / f"{name}.log").read_text("utf-8", "replace")[-3000:]

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextmanager
def cluster(folder: Path) -> Iterator[Nodes]:
    nodes = Nodes(folder)
    try:
        nodes.start()
        nodes.must_serve()
        yield nodes
    finally:
        nodes.end()


def fire(nodes: Nodes, count: int, seed: int) -> int:
    """Send so many frames, over connections that open in all ways; how many ended with an answer."""
    rng, hanging, answered = Random(seed), [], 0
    corpus = [Command(code=code, fields={"topic": "storm", "brokerName": "x"}, body=b'{"a":1}') for code in Request]
    fuzzer = Fuzzer(seed, corpus)
    known = {"from": "client-x", "to": "x", "token": TOKEN}
    for number in range(count):
        host, port = nodes.addresses[rng.choice(list(ROLES))].split(":")
        opening = rng.choice((b"", json.dumps(known).encode() + b"\n", b'{"from":7}\n', b"{" * 2000 + b"\n"))
        with suppress(OSError):
            sock = socket.create_connection((host, int(port)), timeout=5)
            sock.sendall(opening + fuzzer.frame())
            if number % 5:
                sock.settimeout(0.005)
                with suppress(TimeoutError):
                    answered += bool(sock.recv(65536))
                sock.close()
            else:
                hanging.append(sock)
        if len(hanging) > HANGING:
            hanging.pop(0).close()
        if number % 500 == 499:
            nodes.must_serve()
    for sock in hanging:
        sock.close()
    nodes.must_serve()
    nodes.must_live()
    return answered


@pytest.mark.full
def test_no_frame_over_a_real_connection_ends_a_process(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        assert fire(nodes, 10_000, seed=1) > 500


@pytest.mark.full
def test_the_ports_are_closed_to_who_does_not_know_the_secret(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        nodes.must_serve()
        assert nodes.console.describe("store-0")["ready"]
        with pytest.raises((NoAnswer, OSError)):
            Console(nodes.addresses).describe("store-0")
        with pytest.raises((NoAnswer, OSError)):
            Console(nodes.addresses, "another").describe("broker-0")
