"""A broker opens slices, and loses them."""

from __future__ import annotations

import json

import pytest

from reference.split.requests import Commit, FenceAnswer, Window
from reference.wire.codes import Request, Response
from tests.reference.split.broker_world import LIFE, NOT_STORED, TOPIC_ID, UNKNOWN, BrokerWorld


def test_a_slice_serves_once_all_of_its_groups_have_answered_the_fence() -> None:
    world = BrokerWorld(groups=2)
    fences = world.waiting(Request.GROUP_FENCE)
    assert [(one.message.fields["group"], one.message.fields["epoch"]) for one in fences] == [("0", "1"), ("1", "1")]
    assert fences[0].message.fields["life"] == str(LIFE) and fences[0].message.fields["broker"] == "broker-0"
    world.fenced(end=70)
    assert world.code(world.send()) == NOT_STORED
    world.fenced(end=90)
    (opened,) = world.traced("opened")
    assert (opened["epoch"], opened["slice"], opened["life"]) == (1, "slice-0", LIFE)
    assert opened["ends"] == {"0": 70, "1": 90}
    assert world.code(world.send()) is None


def test_a_fence_follows_the_leader_and_asks_again_until_it_is_answered() -> None:
    world = BrokerWorld()
    first = world.take(Request.GROUP_FENCE)
    world.refuse(first, Response.GROUP_NOT_LEADER, leader="store-2")
    second = world.take(Request.GROUP_FENCE)
    assert second.to == "store-2"
    world.refuse(second, Response.SYSTEM_BUSY)  # its view of meta doesn't know the epoch yet (R12)
    assert not world.waiting(Request.GROUP_FENCE)
    world.run(60)
    third = world.take(Request.GROUP_FENCE)
    assert third.to == "store-2"
    world.cut("store-2")
    world.run(60)
    fourth = world.take(Request.GROUP_FENCE)
    assert fourth.to != "store-2"
    world.run(600)  # it doesn't answer
    assert world.waiting(Request.GROUP_FENCE)
    world.fenced()
    assert world.traced("opened")


def test_a_leader_that_is_silent_is_not_asked_again_at_once_though_others_still_name_it() -> None:
    world = BrokerWorld()
    silent = world.waiting(Request.GROUP_FENCE)[0].to
    world.run(560)
    second = world.waiting(Request.GROUP_FENCE)[-1]
    world.refuse(second, Response.GROUP_NOT_LEADER, leader=silent)
    world.run(60)
    third = world.waiting(Request.GROUP_FENCE)[-1]
    assert silent not in (second.to, third.to)
    world.run(250)
    world.refuse(third, Response.GROUP_NOT_LEADER, leader=silent)
    assert world.waiting(Request.GROUP_FENCE)[-1].to == silent


def test_a_leader_may_take_longer_where_nobody_has_answered_in_time() -> None:
    world = BrokerWorld()
    asked = 0
    for _ in range(40):  # each request takes 700 ms, there and back
        fence = world.waiting(Request.GROUP_FENCE)[-1]
        asked += 1
        world.run(700)
        world.deliver(fence.to, FenceAnswer(end=0, queues=(), commits=()).reply(fence.message))
        if world.traced("opened"):
            break
    assert asked == 2
    sent = world.send()
    world.run(700)
    world.stored(world.take(Request.GROUP_APPEND))
    assert world.code(sent) == 0


def test_a_store_that_is_not_known_is_never_asked_though_it_is_said_to_lead() -> None:
    world = BrokerWorld()
    world.refuse(world.take(Request.GROUP_FENCE), Response.GROUP_NOT_LEADER, leader="nobody-9")
    world.run(60)
    assert world.take(Request.GROUP_FENCE).to.startswith("store-")


def test_stores_that_name_each_other_as_leader_are_not_asked_in_a_circle() -> None:
    world = BrokerWorld()
    asked = 0
    while world.waiting(Request.GROUP_FENCE):
        fence = world.take(Request.GROUP_FENCE)
        other = "store-1" if fence.to != "store-1" else "store-2"
        world.refuse(fence, Response.GROUP_NOT_LEADER, leader=other)
        asked += 1
        assert asked < 10
    world.run(60)
    assert world.waiting(Request.GROUP_FENCE)


def test_an_epoch_that_is_over_is_not_opened_again() -> None:
    world = BrokerWorld()
    world.refuse(world.take(Request.GROUP_FENCE), Response.GROUP_FENCED)
    world.learn(world.topic(queues=5))
    world.run(3000)
    assert not world.waiting(Request.GROUP_FENCE)
    world.learn(world.owner(0, 3))
    assert world.take(Request.GROUP_FENCE).message.fields["epoch"] == "3"


def test_who_loses_a_slice_answers_what_waits_there_and_opens_it_again_in_a_later_epoch() -> None:
    world = BrokerWorld()
    world.open()
    pulled, sent = world.pull(0, wait_ms=5000), world.send()
    world.learn(world.owner(0, 2, broker="broker-1", life=9))
    assert world.code(pulled) == NOT_STORED and world.code(sent) == UNKNOWN
    assert world.code(world.send()) == NOT_STORED
    assert [(row["epoch"], row["ends"]) for row in world.traced("closed_slice")] == [(1, {"0": 0})]
    world.learn(world.owner(0, 3))
    assert world.take(Request.GROUP_FENCE).message.fields["epoch"] == "3"


def test_an_owner_of_another_life_is_not_this_one() -> None:
    world = BrokerWorld()
    world.open()
    world.learn(world.owner(0, 2, life=LIFE - 1))
    assert world.code(world.send()) == NOT_STORED and not world.waiting(Request.GROUP_FENCE)


@pytest.mark.parametrize(("life", "nonce"), [(LIFE, ""), (120, "n")])
def test_a_life_that_is_over_ends_at_once_and_another_one_begins(life: int, nonce: str) -> None:
    world = BrokerWorld()
    world.open()
    first = world.take(Request.META_HEARTBEAT)
    assert first.message.is_oneway and first.message.fields["life"] == str(LIFE)
    sent = world.send()
    world.learn(world.broker_row(life=life, nonce=nonce))
    assert world.code(sent) == UNKNOWN and world.traced("closed_slice")
    again = world.take(Request.META_REGISTER)
    world.run(1200)
    assert not world.waiting(Request.META_HEARTBEAT)
    world.answer(world.take(Request.META_REGISTER), fields={"life": "130"})
    assert again.message.fields["nonce"] and world.take(Request.META_HEARTBEAT).message.fields["life"] == "130"


def test_what_meta_says_of_a_time_before_this_life_does_not_end_it() -> None:
    world = BrokerWorld()
    world.open()
    world.learn(world.broker_row(life=130))
    world.answer(world.take(Request.META_REGISTER), fields={"life": "10000"})
    world.learn(world.topic(queues=6))
    assert not world.waiting(Request.META_REGISTER)


def test_registration_goes_on_until_meta_has_numbered_the_life() -> None:
    world = BrokerWorld()
    world.learn(world.broker_row(nonce=""))
    asked = world.take(Request.META_REGISTER)
    world.answer(asked, Response.CONTROLLER_NOT_LEADER, {"leader": ""})
    world.run(150)
    world.answer(world.take(Request.META_REGISTER))  # without a number
    world.run(150)
    last = world.take(Request.META_REGISTER)
    assert last.message.fields["nonce"] == asked.message.fields["nonce"]


def test_queues_go_on_where_the_fence_found_them() -> None:
    world = BrokerWorld()
    world.fenced(
        end=500,
        queues=(Window(TOPIC_ID, 1, 3, 7),),
        commits=(Commit("g", TOPIC_ID, 1, 5),),
    )
    sent = world.send(queue=1)
    append = world.take(Request.GROUP_APPEND)
    assert append.message.fields["position"] == "500"
    world.stored(append)
    assert world.answers[sent].fields["queueOffset"] == "7"
    below = world.pull(2, queue=1)
    assert (world.code(below), world.answers[below].fields["nextBeginOffset"]) == (Response.PULL_OFFSET_MOVED, "3")
    committed = world.of_queue(Request.QUERY_CONSUMER_OFFSET, 1, consumerGroup="g")
    world.confirmed()
    assert world.answers[committed].fields["offset"] == "5"


# Names


def test_a_request_without_a_name_is_served_only_where_one_slice_has_such_a_queue() -> None:
    world = BrokerWorld(groups=2, slices=2)
    world.open()
    ambiguous = world.send(name="")
    assert world.code(ambiguous) == Response.INVALID_PARAMETER and "slice-0, slice-1" in world.answers[ambiguous].remark
    world.learn(world.topic(queues=5))  # now one of them has a third queue
    owner = next(number for number in (0, 1) if world.code(world.send(queue=2, name=f"slice-{number}")) is None)
    assert world.code(world.send(queue=2, name="")) is None
    assert world.code(world.send(queue=2, name=f"slice-{1 - owner}")) == Response.INVALID_PARAMETER
    assert world.code(world.send(name="slice-7")) == Response.INVALID_PARAMETER
    assert world.code(world.send(b="nothing")) == Response.TOPIC_NOT_EXIST


def test_a_name_of_a_slice_elsewhere_is_refused() -> None:
    world = BrokerWorld(groups=2, slices=2)
    world.open()
    world.learn(world.owner(1, 2, broker="broker-1"))
    assert world.code(world.send(name="slice-1")) == NOT_STORED
    assert world.code(world.send(name="slice-0")) is None


# The rest


def test_consumers_are_listed_only_once_all_that_live_have_had_time_to_say_so() -> None:
    world = BrokerWorld(member_grace_ms=2000)
    beat = b'{"clientID":"c","consumerDataSet":[{"groupName":"g"}]}'
    assert world.code(world.ask(Request.HEART_BEAT, beat)) == 0
    early = world.ask(Request.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")
    assert world.code(early) == Response.SYSTEM_ERROR
    world.run(2001)
    late = world.ask(Request.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")
    assert world.answers[late].body == b'{"consumerIdList": ["c"]}'


def test_who_is_given_a_slice_has_yet_to_hear_of_its_consumers() -> None:
    """One that has learned the new route first would be told that it is alone, and would take all queues."""
    world = BrokerWorld(member_grace_ms=2000, groups=2, slices=2)
    world.open()
    world.learn(world.owner(1, 2, broker="broker-1"))
    beat(world, "c", "g")
    world.run(2001)
    assert world.code(world.ask(Request.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")) == 0
    world.learn(world.owner(1, 3))
    world.open()
    assert world.code(world.ask(Request.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")) == Response.SYSTEM_ERROR
    world.run(2001)
    assert world.code(world.ask(Request.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")) == 0


def beat(world: BrokerWorld, source: str, *groups: str) -> list[tuple[str, str]]:
    """Send a heartbeat; return who is then notified of the change of which group."""
    value = {"clientID": source, "consumerDataSet": [{"groupName": one} for one in groups]}
    assert world.code(world.ask(Request.HEART_BEAT, json.dumps(value).encode(), source=source)) == 0
    return notices(world)


def notices(world: BrokerWorld) -> list[tuple[str, str]]:
    found = world.waiting(Request.NOTIFY_CONSUMER_IDS_CHANGED)
    for one in found:
        assert one.message.is_oneway
        world.env.sent.remove(one)
    return sorted((one.to, one.message.fields["consumerGroup"]) for one in found)


def test_members_of_a_group_are_notified_when_one_comes_or_goes() -> None:
    """They share the queues again then; by themselves, Java's clients ask each 20 s."""
    world = BrokerWorld(member_grace_ms=0)
    assert beat(world, "a", "g") == [("a", "g")] and beat(world, "a", "g") == []
    assert beat(world, "b", "h", "g") == [("a", "g"), ("b", "g"), ("b", "h")]
    world.ask(Request.UNREGISTER_CLIENT, source="b", clientID="b", producerGroup="g")
    assert notices(world) == []
    world.ask(Request.UNREGISTER_CLIENT, source="b", clientID="b", consumerGroup="h")
    assert notices(world) == []
    world.cut("a")
    assert notices(world) == [("b", "g")]
    assert world.answers[world.ask(Request.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")].body == (
        b'{"consumerIdList": ["b"]}'
    )


def test_a_topic_is_answered_once_this_broker_knows_it() -> None:
    world = BrokerWorld()
    asked = world.ask(Request.UPDATE_AND_CREATE_TOPIC, topic="new", writeQueueNums=3)
    made = world.take(Request.META_TOPIC)
    assert made.message.fields == {"topic": "new", "queues": "3", "expectedVersion": "0"}
    row = world.topic("new", queues=3)
    world.answer(made, fields={"revision": str(world.revision)})
    assert world.code(asked) is None
    world.learn(row)
    assert world.code(asked) == 0


def test_a_topic_that_is_there_keeps_its_queues_and_meta_is_asked_whether_it_still_is() -> None:
    world = BrokerWorld()
    asked = world.ask(Request.UPDATE_AND_CREATE_TOPIC, topic="t", writeQueueNums=9)
    made = world.take(Request.META_TOPIC)
    assert made.message.fields == {"topic": "t", "queues": "0", "expectedVersion": "1"}
    world.answer(made, Response.METADATA_CONFLICT)  # it was deleted, and this view is behind
    world.learn(world.topic(deleted=True))
    world.run(150)
    assert world.take(Request.META_TOPIC).message.fields == {"topic": "t", "queues": "9", "expectedVersion": "2"}
    assert world.code(asked) is None


@pytest.mark.parametrize(
    ("answer", "code"),
    [(-1, UNKNOWN), (Response.SYSTEM_ERROR, UNKNOWN), (Response.CONTROLLER_NOT_LEADER, Response.SYSTEM_BUSY)],
)
def test_without_a_leader_of_meta_no_topic_is_made(answer: int, code: int) -> None:
    """Who is silent, or leads no more when it answers, may have made it all the same."""
    world = BrokerWorld()
    asked = world.ask(Request.UPDATE_AND_CREATE_TOPIC, topic="new", writeQueueNums=3)
    for _ in range(40):
        if answer >= 0 and world.waiting(Request.META_TOPIC):
            world.answer(world.take(Request.META_TOPIC), answer)
        world.run(150)
    assert world.code(asked) == code


def test_a_broker_describes_what_it_serves() -> None:
    world = BrokerWorld(groups=2, slices=2)
    world.fenced(end=9)
    described = world.ask(Request.DESCRIBE)
    assert b'"slice-0":{"epoch":1,"state":"open","ends":{"0":9}}' in world.answers[described].body
    assert b'"slice-1":{"epoch":1,"state":"opening","ends":{}}' in world.answers[described].body
    assert b'"life":5' in world.answers[described].body
    assert world.code(world.ask(Request.GET_BROKER_RUNTIME_INFO)) == 0
    assert world.code(world.ask(Request.REGISTER_BROKER)) == Response.REQUEST_CODE_NOT_SUPPORTED
