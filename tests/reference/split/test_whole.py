"""All nodes of a split cluster together, as a client sees them."""

from __future__ import annotations

import pytest

from reference.broker.records import decode_all
from reference.wire.codes import Request, Response
from tests.reference.raftnet import MS
from tests.reference.split.whole_world import WholeWorld


def bodies(world: WholeWorld, to: str, number: int = 0, queue: int = 0, **fields: object) -> list[bytes]:
    answer = world.pull(to, 0, number, queue, **fields)
    assert answer.code == 0, answer.remark
    return [record.body for record in decode_all(answer.body)]


def test_what_is_sent_can_be_read_committed_and_looked_for() -> None:
    world = WholeWorld()
    for number in (0, 1):
        owner = world.owner(number)
        for queue in range(4):
            answer = world.send(owner, b"%d%d" % (number, queue), number, queue)
            assert (answer.code, answer.fields["queueOffset"]) == (0, "0"), answer.remark
            assert bodies(world, owner, number, queue) == [b"%d%d" % (number, queue)]
            assert bodies(world, owner, number, queue, demandSource="local") == [b"%d%d" % (number, queue)]
            assert world.pull(owner, 1, number, queue).code == Response.PULL_NOT_FOUND
    owner = world.owner(0)
    known = world.of_queue(owner, Request.GET_MAX_OFFSET)
    assert (known.fields["offset"], known.fields["minOffset"]) == ("1", "0")
    assert world.of_queue(owner, Request.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=1 << 40).fields["offset"] == "1"
    group = {"consumerGroup": "g"}
    assert world.of_queue(owner, Request.QUERY_CONSUMER_OFFSET, **group).code == Response.QUERY_NOT_FOUND
    assert world.of_queue(owner, Request.UPDATE_CONSUMER_OFFSET, commitOffset=1, **group).code == 0
    assert world.of_queue(owner, Request.QUERY_CONSUMER_OFFSET, **group).fields["offset"] == "1"


def test_a_killed_broker_takes_nothing_with_it_and_its_slices_are_open_again_soon() -> None:
    world = WholeWorld()
    first = world.owner(0)
    assert world.send(first, b"one").code == 0
    assert world.of_queue(first, Request.UPDATE_CONSUMER_OFFSET, consumerGroup="g", commitOffset=1).code == 0
    began = world.now
    world.crash(first)
    second = world.owner(0, but=first)
    assert world.now - began < 1000 * MS
    assert bodies(world, second) == [b"one"]
    assert world.of_queue(second, Request.QUERY_CONSUMER_OFFSET, consumerGroup="g").fields["offset"] == "1"
    assert world.send(second, b"two").fields["queueOffset"] == "1"
    world.heal()
    world.run(6000)
    assert {world.owner(0), world.owner(1)} == {"broker-0", "broker-1"}
    assert bodies(world, world.owner(0)) == [b"one", b"two"]


def test_an_owner_that_slept_past_its_end_says_nothing_that_is_not_so() -> None:
    world = WholeWorld(broker_timeout_ms=1000)
    first = world.owner(0)
    assert world.send(first, b"one").code == 0
    world.paused.add(first)
    second = world.owner(0, but=first)
    assert world.send(second, b"two").fields["queueOffset"] == "1"
    for name in world.make:
        if name.startswith("meta"):
            world.block(first, name)  # nobody tells it
    world.paused.clear()
    assert world.pull(first, 1).code == Response.SERVICE_NOT_AVAILABLE
    assert world.send(first, b"lost").code == Response.SERVICE_NOT_AVAILABLE
    assert bodies(world, second) == [b"one", b"two"]
    closed = [row for name, _, f, row in world.traces if f == "closed_slice" and name == first]
    assert closed[-1]["slice"] == "slice-0"


def test_a_send_outlives_the_leader_of_its_group() -> None:
    world = WholeWorld(election_ms=250, heartbeat_ms=50)
    owner = world.owner(0)
    assert world.send(owner, b"one").code == 0
    group = int(world.send(owner, b"two").fields["position"]) >> 40
    world.crash(world.leader(group))
    answer = world.send(owner, b"three")
    assert (answer.code, answer.fields["queueOffset"]) == (0, "2")
    assert bodies(world, owner) == [b"one", b"two", b"three"]
    world.heal()
    world.run(2000)
    assert bodies(world, owner, demandSource="local") == [b"one", b"two", b"three"]


@pytest.mark.parametrize("seed", range(2, 5))
def test_without_meta_open_slices_go_on_and_changes_are_refused(seed: int) -> None:
    world = WholeWorld(seed)
    owner = world.owner(0)
    for name in ("meta-0", "meta-1"):
        world.crash(name)
    world.run(2000)
    assert world.send(owner, b"one").code == 0 and bodies(world, owner) == [b"one"]
    made = world.ask(owner, Request.UPDATE_AND_CREATE_TOPIC, topic="new", writeQueueNums=1)
    assert made is not None and made.code in (Response.SYSTEM_BUSY, Response.FLUSH_SLAVE_TIMEOUT) and made.remark
