"""An operator of the reference system asks the controllers' leader for an election."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chaos.driver import Disconnected
from chaos.ops import Failed, Unknown
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.drivers.test_reference import ScriptedNetwork as Network
from tests.drivers.test_reference import run, says, system

GROUP = {"master": "broker-0", "epoch": 3, "set": ["broker-1", "broker-0"], "brokers": {"broker-0": 1, "broker-1": 2}}


def controllers(answer: Command | Exception, role: str = "leader") -> Network:
    state = {"role": role, "term": 1, "groups": {"broker-a": GROUP}}

    def told(node: str, message: Command) -> Any:
        return says(0, body=json.dumps(state).encode()) if message.code == Request.DESCRIBE else answer

    return Network(told)


def test_the_leader_is_asked_for_an_election_and_names_the_master() -> None:
    network = controllers(says(0))
    operator = system().operator(network, "operator")
    run(operator.elect("broker-a", "broker-1"))
    client, _, message = network.asked[-1]
    assert (client, message.code) == ("operator", Request.CONTROLLER_ELECT_MASTER)
    assert message.fields["brokerId"] == "2" and message.fields["designateElect"] == "true"
    seen = run(operator.find_master("broker-a")).value
    assert seen == {"master": "broker-0", "epoch": 3, "in_sync": ["broker-0", "broker-1"]}


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        (says(Response.CONTROLLER_ELECT_MASTER_FAILED), Failed),
        (says(Response.CONTROLLER_NOT_LEADER), Failed),
        (says(Response.SYSTEM_ERROR), Unknown),
        (TimeoutError(), Unknown),
        (Disconnected("refused", sent=False), Failed),
    ],
)
def test_a_switch_is_refused_or_unclear(answer: Command | Exception, ended: type[Exception]) -> None:
    with pytest.raises(ended):
        run(system().operator(controllers(answer), "operator").elect("broker-a", "broker-1"))


def test_without_a_leader_nothing_is_asked_for() -> None:
    operator = system().operator(controllers(says(0), role="follower"), "operator")
    for work in (operator.elect("broker-a", "broker-1"), operator.find_master("broker-a")):
        with pytest.raises(Failed, match="no controller leads"):
            run(work)
