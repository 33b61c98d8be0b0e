"""Clients that use RocketMQ's own library: how their program is started, and, where it is installed, what it does."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from chaos.driver import ClientCommand, Dials, HasClientLibrary
from chaos.errors import MachineError
from chaos.recipe import Recipe
from drivers._java import client_program
from drivers._java.client_library import CLASSES, SOURCES
from drivers._java.maven import LIB
from drivers._java.recipes import GRPC
from drivers._remoting import frames as remoting
from drivers._remoting.wire import Command, RemotingCodec, Request
from drivers.rocketmq import RECIPES
from drivers.rocketmq.driver import Options, create
from stormproof import cli


class Dialled:
    """Gives each node's port an address of its own."""

    async def endpoint(self, client: str, node: str, port: str = "") -> tuple[str, int]:
        return "127.0.0.1", 5000 + ["nameserver-0", "nameserver-1", "broker-0", "broker-1", "broker-2"].index(node)


def command(monkeypatch: pytest.MonkeyPatch, installed: Path, **orders: int) -> ClientCommand:
    for made in (LIB, *(() if installed.name == "bare" else (CLASSES,))):
        (installed / made).mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(Recipe, "folder", installed)
    monkeypatch.setattr(Recipe, "problem", "")
    driver = create(Options(nameservers=2, queues=2))
    assert isinstance(driver, HasClientLibrary)
    return asyncio.run(driver.library_command(cast(Dials, Dialled()), "library", orders))


def test_the_program_is_told_how_it_reaches_whom(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = command(monkeypatch, tmp_path, sync=1, seed=3, gap_ns=5)
    told = json.loads(made.env["STORMPROOF_ORDERS"])
    assert told["nameservers"] == "127.0.0.1:5000;127.0.0.1:5001" and told["name"] == "library"
    assert told["queues"][1] == {"topic": "storm", "broker": "broker-a", "queue": 1} and told["sync"] == 1
    assert f"{tmp_path}/clients/classes:{tmp_path}/lib/*" in made.argv


def test_a_route_as_rocketmq_writes_it_leads_through_the_proxies() -> None:
    reached = {"127.1.1.2:10911": "127.0.0.1:5002"}.__getitem__
    asked = Command(code=Request.GET_ROUTEINFO_BY_TOPIC, opaque=7)
    route = b'{"brokerDatas":[{"brokerAddrs":{0:"127.1.1.2:10911"},"brokerName":"broker-a"}]}'
    frames = remoting.frames("")
    (request,) = frames.requests(bytearray(RemotingCodec().encode(asked)))
    (answer,) = frames.answers(bytearray(RemotingCodec().encode(asked.reply(body=route))), ended=False)
    (moved,) = RemotingCodec().decode(bytearray(frames.readdress(request, answer, reached)))
    assert json.loads(moved.body)["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:5002"} and moved.opaque == 7
    controllers = asked.reply(fields={"peers": "n0-127.1.1.2:9878;1:127.1.1.2:10911", "controllerLeaderAddress": ""})
    assert RemotingCodec().readdress(0, controllers, reached).fields["peers"] == "n0-127.1.1.2:9878;1:127.0.0.1:5002"


def test_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"is not compiled for rocketmq .* install a JDK"):
        command(monkeypatch, tmp_path / "bare", sync=1)


def test_the_recipe_carries_the_sources() -> None:
    files = RECIPES[0].files
    assert "public static void main" in files["clients/stormproof/rocketmq/Main.java"]
    assert "System.err" in files["clients/logback.xml"]


needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="RocketMQ needs Java 17")
needs_jars = pytest.mark.skipif(
    not (RECIPES[0].installed and (RECIPES[0].folder / CLASSES).is_dir()),
    reason="not there: stormproof install rocketmq, with a JDK",
)
EXPERIMENT = """
name: library
system:
  rocketmq: {queues: 2, controllers: 1, broker_options: {transactionTimeOut: 2000, transactionCheckInterval: 4000}}
duration: 40s
bounds: {available_s: 60, recover_s: 120, drain_s: 150}
workloads:
  - queue: {producers: 1, consumers: 1, rate_per_s: 10}
  - library: {delay: 1, transaction: 1, rate_per_s: 30}
faults:
  - kill: {target: master}
    at: 10s
    for: 3s
"""


@pytest.mark.full
@pytest.mark.process
@needs_java
@needs_jars
def test_the_program_refuses_a_name_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It starts, tells of a send before it sends, and calls one that reached nobody a failure."""
    told: dict[str, Any] = {"name": "t", "nameservers": "127.0.0.1:1", "seed": 1, "gap_ns": 1000}
    told |= {"queues": [{"topic": "storm", "broker": "broker-a", "queue": 0}], "sync": 1}
    argv = ["java", "-cp", f"{RECIPES[0].folder / CLASSES}:{RECIPES[0].folder / LIB}/*", "stormproof.rocketmq.Main"]
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": "/usr/bin", "STORMPROOF_ORDERS": json.dumps(told)},
    ) as program:
        assert program.stdin is not None and program.stdout is not None
        begin = json.loads(program.stdout.readline())
        assert (begin["type"], begin["f"], begin["via"]) == ("invoke", "send", "sync")
        program.stdin.write(b'{"id": 1, "key": "0", "body": "x"}\n')
        program.stdin.flush()
        end = json.loads(program.stdout.readline())
        assert end["type"] == "fail" and end["id"] == 1 and end["reason"]
        program.stdin.close()
        assert program.wait(10) == 0


ENDS = """
package stormproof.rocketmq;

import java.util.Map;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import stormproof.client.Harness;

final class Ends {
    public static void main(String[] arguments) {
        Harness harness = new Harness(
            line -> RemotingSerializable.toJson(line, false), line -> RemotingSerializable.fromJson(line, Map.class));
        for (String reason : arguments) {
            Outcomes.notSent(harness.begin("send", "p", 0), new MQClientException(reason, null));
        }
        Runtime.getRuntime().halt(0);
    }
}
"""


@pytest.mark.full
@pytest.mark.process
@needs_java
@needs_jars
def test_the_program_runs_without_the_client_of_the_proxy() -> None:
    orders = {"queues": [], "proxies": "", "nameservers": "", "name": "x", "seed": 1, "gap_ns": 1}
    argv = client_program.java(RECIPES[0], client_program.MAIN)
    env = {**os.environ, "STORMPROOF_ORDERS": json.dumps(orders)}
    ended = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


@needs_java
@needs_jars
def test_a_send_whose_answer_did_not_come_in_time_may_have_been_stored(tmp_path: Path) -> None:
    """The client of 5.1 gives no cause with an asynchronous send that timed out, as with one that asked nobody."""
    sources = tmp_path / "stormproof"
    shutil.copytree(SOURCES / "stormproof", sources)
    (sources / "rocketmq" / "Ends.java").write_text(ENDS)
    jars = f"{RECIPES[0].folder / GRPC}/*:{RECIPES[0].folder / LIB}/*"
    subprocess.run(
        ["javac", "-nowarn", "-d", str(tmp_path), "-cp", jars, *map(str, sources.rglob("*.java"))], check=True
    )
    reasons = ["wait response timeout 5000ms", "unknow reseaon", "The broker[broker-a] not exist", "No route info"]
    argv = ["java", "-cp", f"{tmp_path}:{jars}", "stormproof.rocketmq.Ends", *reasons]
    ends = []
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None and program.stdout is not None
        for number in range(1, 5):
            assert json.loads(program.stdout.readline())["type"] == "invoke"
            program.stdin.write(json.dumps({"id": number, "key": "0", "body": "x"}).encode() + b"\n")
            program.stdin.flush()
            ends.append(json.loads(program.stdout.readline())["type"])
    assert ends == ["info", "info", "fail", "fail"]


@pytest.mark.full
@pytest.mark.netns
@needs_java
@needs_jars
def test_the_official_client_over_a_kill_of_the_master(tmp_path: Path) -> None:
    """All kinds at once. What 5.5.0 itself may lose are offsets of groups (docs/rocketmq.md)."""
    (tmp_path / "library.yaml").write_text(EXPERIMENT)
    code = cli._run(["run", str(tmp_path / "library.yaml"), "--on", "netns", "--out", str(tmp_path / "runs")])
    (run,) = (tmp_path / "runs").glob("library-*")
    laws = {one["law"]: one for one in json.loads((run / "verdict.json").read_text())["laws"]}
    assert code in (0, 1, 2) and laws["durability"]["validity"] == laws["order"]["validity"] == "VALID"
    counts = laws["deliveries"]["counts"]
    assert counts["delivered"] > 300 and counts["owed"] > 50 and counts["rolled_back"] > 10 and counts["in_order"] > 100
    assert counts["groups_awaited"] == 6
