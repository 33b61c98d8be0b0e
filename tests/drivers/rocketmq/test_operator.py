"""An operator of RocketMQ: what counts of a switch is what its admin tool says."""

from __future__ import annotations

import asyncio
import shlex
from typing import Any, cast

import pytest

from chaos.driver import ClientCommand, Dials
from chaos.errors import DeploymentError
from chaos.ops import Answer, Failed, Unknown
from drivers.rocketmq import java_clients
from drivers.rocketmq import operator as operators
from drivers.rocketmq.cluster import CLUSTER
from drivers.rocketmq.driver import create
from tests.drivers.rocketmq.test_topology import TWO, healthy

#: As 5.5.0 says it, shortened.
GOOD = "\n#ClusterName\tstormproof\n#BrokerName\tbroker-b\n#BrokerMasterAddr\t10.0.0.1:10951\n#MasterEpoch\t2\n"
UNREAD = (
    "org.apache.rocketmq.tools.command.SubCommandException: ReElectMasterSubCommand command failed\nCaused by: {}: x"
)


class Network:
    """A healthy cluster that can be dialled."""

    def __init__(self) -> None:
        self._inner = healthy()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def endpoint(self, client: str, node: str, port: str = "") -> tuple[str, int]:
        assert client == "operator"
        return "127.0.0.1", 5000 + int(node[-1])


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The shell command that stands for the tool; the arguments that it was given are then appended."""
    script: list[str] = []

    def java(*args: object) -> tuple[str, ...]:
        assert args[1] == java_clients.ADMIN_TOOL
        return ("/bin/sh", "-c", script[0], "mqadmin")

    monkeypatch.setattr(java_clients, "java", java)
    return script


def elect(target: str = "broker-3", group: str = "broker-b") -> Answer:
    operator = create(TWO).operator(cast(Dials, Network()), "operator")
    return asyncio.run(operator.elect(group, target))


def test_the_tool_is_told_of_the_leader_the_group_and_the_brokers_id(tool: list[str]) -> None:
    tool.append(f"printf {shlex.quote(GOOD)}")
    assert elect().node == "controller-0"
    tool[0] = 'echo "SubCommandException $@" >&2'
    with pytest.raises(Failed) as refused:
        elect()
    assert f"electMaster -a 127.0.0.1:5000 -c {CLUSTER} -bn broker-b -b 2" in refused.value.reason


@pytest.mark.parametrize(
    ("cause", "ended"),
    [
        ("com.alibaba.fastjson2.JSONException", Failed),
        ("org.apache.rocketmq.client.exception.MQBrokerException", Failed),
        ("org.apache.rocketmq.remoting.exception.RemotingTimeoutException", Unknown),
        ("org.apache.rocketmq.remoting.exception.RemotingConnectException", Unknown),
    ],
)
def test_a_failed_command_was_refused_unless_nobody_answered_it(
    tool: list[str], cause: str, ended: type[Exception]
) -> None:
    tool.append(f"echo {shlex.quote(UNREAD.format(cause))} >&2")
    with pytest.raises(ended, match="command failed"):
        elect()


def test_a_tool_that_says_nothing_or_does_not_end_is_no_answer(
    tool: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool.append("true")
    with pytest.raises(Unknown, match="said nothing"):
        elect()
    monkeypatch.setattr(operators, "TOOL_S", 0.2)
    tool[0] = "sleep 60"
    with pytest.raises(Unknown, match="did not end within"):
        elect()


def test_whom_no_controller_knows_is_not_asked_for(tool: list[str]) -> None:
    with pytest.raises(Failed, match="doesn't know broker-0"):
        elect("broker-0")


def test_a_tool_that_is_not_there_is_the_harnesss_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    async def command(*_: object) -> ClientCommand:
        return ClientCommand(argv=("/nowhere/java",), env={})

    monkeypatch.setattr(java_clients, "admin_tool", command)
    with pytest.raises(DeploymentError, match="admin tool can't be started"):
        elect()


def test_the_master_is_the_one_that_the_controllers_leader_names() -> None:
    operator = create(TWO).operator(cast(Dials, Network()), "operator")
    found = asyncio.run(operator.find_master("broker-b"))
    assert found.node == "controller-0" and found.value["master"] == "broker-2"
    assert set(cast(list[str], found.value["in_sync"])) == {"broker-2", "broker-3"}
