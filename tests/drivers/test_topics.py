"""What answers to a client of topics mean: a topic is there, it is not, or nobody knows."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from chaos.driver import Disconnected
from chaos.ops import Answer, Failed, Unknown
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.drivers.test_reference import ScriptedNetwork as Network
from tests.drivers.test_reference import broker_says, run, says, system


def create(network: Network) -> Answer:
    made: Answer = run(system().topics(network, "t").create("made-0", 2))
    return made


def find(answer: Command | Exception, **options: int) -> Answer:
    found: Answer = run(system(**options).topics(Network(lambda node, message: answer), "t").find("made-0"))
    return found


def test_a_topic_is_created_at_the_master_of_the_first_queue() -> None:
    network = broker_says(says(0, epoch="3", incarnation="2"))
    assert create(network) == Answer(node="broker-1", incarnation=2, epoch=3)
    (_, server, route), (client, node, message) = network.asked
    assert (server, route.fields) == ("nameserver-0", {"topic": "storm"})
    assert (client, node, message.code) == ("t", "broker-1", Request.UPDATE_AND_CREATE_TOPIC)
    wanted: Mapping[str, str] = {"topic": "made-0", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6"}
    assert message.fields == wanted


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        (says(Response.SYSTEM_BUSY), Failed),
        (says(Response.SYSTEM_ERROR, "in-sync replicas not enough"), Failed),
        (Disconnected("refused", sent=False), Failed),
        (says(Response.FLUSH_SLAVE_TIMEOUT), Unknown),
        (says(Response.SYSTEM_ERROR), Unknown),
        (TimeoutError(), Unknown),
    ],
)
def test_a_creation_is_refused_or_unclear(answer: Command | Exception, ended: type[Exception]) -> None:
    with pytest.raises(ended):
        create(broker_says(answer))


def test_a_topic_has_as_many_queues_as_all_groups_have_of_it() -> None:
    queues = [{"brokerName": "a", "readQueueNums": 2}, {"brokerName": "b", "readQueueNums": 1}]
    there = find(says(0, body=json.dumps({"queueDatas": queues}).encode()))
    assert (there.node, there.value) == ("nameserver-0", {"queues": 3})
    assert find(says(Response.TOPIC_NOT_EXIST)).value == {"queues": 0}


@pytest.mark.parametrize("answer", [TimeoutError(), says(Response.SYSTEM_ERROR), Disconnected("reset", sent=True)])
def test_who_was_not_answered_has_learned_nothing(answer: Command | Exception) -> None:
    with pytest.raises(Failed):
        find(answer)
