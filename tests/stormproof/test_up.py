"""``up`` and ``down``: a cluster that stays, with addresses that a client which knows nothing of us can use."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.history.directory import read_meta, runs
from chaos.machines import procfs
from reference.wire.codec import RemotingCodec
from reference.wire.codes import Request
from reference.wire.command import Command

ROOT = Path(__file__).parents[2]
SMALL = """\
name: hands-on
system: {reference: {controllers: 1, brokers: 2, queues: 2}}
duration: 5s
workloads: [queue]
faults:
  - clock: {target: one}  # which processes can not do: `up` injects nothing
    at: 1s
"""


class Stranger:
    """A client as others write them: frames over one plain connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._codec = RemotingCodec()
        self._buffer = bytearray()

    def ask(self, code: Request, body: bytes = b"", **fields: str) -> Command:
        self._socket.sendall(self._codec.encode(Command(code=code, opaque=7, fields=fields, body=body)))
        while not (answers := self._codec.decode(self._buffer)):
            data = self._socket.recv(65536)
            assert data, "the node has closed the connection"
            self._buffer += data
        assert answers[0].opaque == 7
        return answers[0]

    def __enter__(self) -> Stranger:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()


def stormproof(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "stormproof", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, env=environment, check=False)


@pytest.mark.process
@pytest.mark.parametrize("on", ["process", pytest.param("netns", marks=[pytest.mark.netns, pytest.mark.full])])
def test_a_stranger_finds_its_way_through_the_addresses_that_up_prints(tmp_path, machine, on):
    (tmp_path / "small.yaml").write_text(SMALL)
    up = stormproof(tmp_path, "up", "small.yaml", "--on", on)
    try:
        assert up.returncode == 0, up.stderr
        known = dict(line.split() for line in up.stdout.splitlines())
        (run,) = runs(tmp_path / "runs")
        assert read_meta(run).json["addresses"] == known
        send_and_read_back(known)
    finally:
        down = stormproof(tmp_path, "down")
    assert down.returncode == 0 and "ended the supervisor" in down.stdout
    assert not procfs.of_run(run)
    for address in known.values():
        with pytest.raises(ConnectionRefusedError):
            Stranger(address)
    assert "nothing is up" in stormproof(tmp_path, "down").stdout


def send_and_read_back(known: dict[str, str]) -> None:
    brokers = {known[name] for name in known if name.startswith("broker")}
    with Stranger(known["nameserver-0"]) as names:
        deadline_s = time.monotonic() + 10
        while True:  # each broker registers with name servers once a second
            answer = names.ask(Request.GET_ROUTEINFO_BY_TOPIC, topic="storm")
            route = json.loads(answer.body) if not answer.code else {"brokerDatas": []}
            if {one for data in route["brokerDatas"] for one in data["brokerAddrs"].values()} == brokers:
                break
            assert time.monotonic() < deadline_s, (answer.remark, route)
            time.sleep(0.1)
        cluster = json.loads(names.ask(Request.GET_BROKER_CLUSTER_INFO).body)
    (broker,) = route["brokerDatas"]
    assert cluster["brokerAddrTable"][broker["brokerName"]]["brokerAddrs"] == broker["brokerAddrs"]
    with Stranger(known["controller-0"]) as controller:
        told = controller.ask(Request.CONTROLLER_GET_METADATA_INFO).fields
        controllers = {name: address for name, address in known.items() if name.startswith("controller")}
        assert told["controllerLeaderAddress"] in controllers.values()
        assert told["peers"] == ";".join(f"{name}:{address}" for name, address in controllers.items())
    where = {"topic": "storm", "queueId": "1"}
    master = broker["brokerAddrs"]["0"]
    with Stranger(master) as producer, Stranger(master) as consumer:
        sent = producer.ask(
            Request.SEND_MESSAGE,
            b"hello from outside",
            **where,
            producerGroup="p",
            defaultTopic="TBW102",
            defaultTopicQueueNums="4",
            sysFlag="0",
            bornTimestamp="0",
            flag="0",
        )
        assert sent.code == 0, sent.remark
        pulled = consumer.ask(
            Request.PULL_MESSAGE,
            **where,
            consumerGroup="c",
            queueOffset=sent.fields["queueOffset"],
            maxMsgNums="1",
            sysFlag="0",
            commitOffset="0",
            suspendTimeoutMillis="0",
            subVersion="0",
        )
        assert pulled.code == 0 and b"hello from outside" in pulled.body
        assert producer.ask(Request.GET_MAX_OFFSET, **where).code == 0, "two connections don't disturb each other"
