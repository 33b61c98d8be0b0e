"""Topics of RocketMQ: a master takes them at once, slaves copy them, and a client needs the route to the master too."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.ops import Failed, Unknown
from chaos.services import CanCreateTopics, CanDeleteTopics, DeletesTopics
from drivers.rocketmq.driver import Options, create
from tests.drivers.rocketmq.fake import FakeNetwork
from tests.drivers.rocketmq.test_driver import healthy, route, run

QUEUES = b'"queueDatas":[{"brokerName":"broker-a","readQueueNums":4},{"brokerName":"broker-b","readQueueNums":9}]'


def client(network: FakeNetwork) -> DeletesTopics:
    driver = create(Options())
    assert isinstance(driver, CanCreateTopics) and isinstance(driver, CanDeleteTopics)
    return driver.deleting_topics(network, "topics")


def without(network: FakeNetwork) -> FakeNetwork:
    """No broker knows the topic yet."""
    for name in ("broker-0", "broker-1", "broker-2"):
        network.says(name, 351, result=17, remark="No topic in this broker")
    return network


def there(network: FakeNetwork, queues: int = 4) -> FakeNetwork:
    """The master has the topic with so many queues, the route with four."""
    network.says("nameserver-0", 105, body=route("broker-1", "broker-0").replace(b'"queueDatas":[]', QUEUES))
    network.says("broker-1", 351, body={"topicName": "made-0", "readQueueNums": queues})
    return network


def test_a_topic_is_created_once_at_the_master() -> None:
    network = without(healthy())
    made = run(client(network).create("made-0", 2))
    assert (made.node, made.epoch) == ("broker-1", 3)
    fields = network.fields(17)
    assert (fields["topic"], fields["readQueueNums"], fields["writeQueueNums"]) == ("made-0", "2", "2")
    assert network.codes("broker-1").count(17) == 1


def test_one_that_exists_stays_as_it_is() -> None:
    network = there(healthy())
    assert run(client(network).create("made-0", 2)).node == "broker-1" and 17 not in network.codes("broker-1")


def test_a_creation_that_a_slave_took_is_unclear() -> None:
    network = without(healthy())
    master, slave = network.answers["broker-1", 1007][0], network.answers["broker-0", 1007][0]
    network.answers["broker-1", 1007] = [master, slave]
    with pytest.raises(Unknown, match="broker-1 is not the master"):
        run(client(network).create("made-0", 2))


@pytest.mark.parametrize(
    ("code", "ends"), [(2, Failed), (16, Failed), (1, Unknown), (None, Failed)], ids=["busy", "denied", "error", "down"]
)
def test_how_a_creation_ends(code: int | None, ends: type[Exception]) -> None:
    network = without(healthy())
    if code is None:
        del network.answers["broker-1", 17]
    else:
        network.says("broker-1", 17, result=code)
    with pytest.raises(ends):
        run(client(network).create("made-0", 2))


def test_a_master_that_does_not_say_what_it_has_was_asked_for_nothing() -> None:
    network = healthy()
    network.answers.pop(("broker-1", 351))
    with pytest.raises(Failed):
        run(client(network).create("made-0", 2))
    assert 17 not in network.codes("broker-1")


@pytest.mark.parametrize(("queues", "seen"), [(4, 4), (2, 2), (8, 4)])
def test_a_topic_has_the_queues_that_both_its_route_and_its_master_know(queues: int, seen: int) -> None:
    found = run(client(there(healthy(), queues)).find("made-0"))
    assert (found.node, found.value) == ("broker-1", {"queues": seen})


def test_a_route_to_a_master_that_does_not_know_the_topic_leads_nowhere() -> None:
    assert run(client(without(there(healthy()))).find("made-0")).value == {"queues": 0}


def test_a_topic_without_a_route_is_not_there() -> None:
    network = healthy()
    network.says("nameserver-0", 105, result=17, remark="No topic route info")
    found = run(client(network).find("made-0"))
    assert (found.node, found.value) == ("nameserver-0", {"queues": 0})


@pytest.mark.parametrize(
    "trouble",
    [
        lambda n: n.answers.pop(("nameserver-0", 105)),
        lambda n: n.says("nameserver-0", 105, result=1),
        lambda n: n.answers.pop(("broker-1", 351)),
        lambda n: n.says("broker-1", 351, result=1),
        lambda n: n.says("broker-1", 1007, body={"brokerId": 2, "maxOffset": 900}),
    ],
)
def test_who_was_not_told_knows_nothing(trouble: Any) -> None:
    network = there(healthy())
    trouble(network)
    with pytest.raises(Failed):
        run(client(network).find("made-0"))


def deletable() -> FakeNetwork:
    network = healthy()
    network.says("broker-1", 215)
    network.says("nameserver-0", 216)
    return network


def test_a_topic_is_deleted_at_the_master_and_at_the_name_server() -> None:
    network = deletable()
    gone = run(client(network).delete("made-0"))
    assert (gone.node, gone.epoch) == ("broker-1", 3)
    assert [node for node, message in network.asked if message.code in (215, 216)] == ["broker-1", "nameserver-0"]
    assert network.fields(215) == network.fields(216) == {"topic": "made-0"}


@pytest.mark.parametrize(
    ("trouble", "ends"),
    [
        (lambda n: n.answers.pop(("broker-1", 215)), Failed),
        (lambda n: n.says("broker-1", 215, result=16), Failed),
        (lambda n: n.says("broker-1", 215, result=1), Unknown),
        (lambda n: n.answers.pop(("nameserver-0", 216)), Unknown),
        (lambda n: n.says("nameserver-0", 216, result=1), Unknown),
    ],
)
def test_a_deletion_that_only_the_master_took_is_unclear(trouble: Any, ends: type[Exception]) -> None:
    network = deletable()
    trouble(network)
    with pytest.raises(ends):
        run(client(network).delete("made-0"))


def test_a_deletion_that_a_slave_took_is_unclear() -> None:
    network = deletable()
    master, slave = network.answers["broker-1", 1007][0], network.answers["broker-0", 1007][0]
    network.answers["broker-1", 1007] = [master, slave]
    with pytest.raises(Unknown, match="broker-1 is not the master"):
        run(client(network).delete("made-0"))
    assert 216 not in network.codes("nameserver-0")
