"""What a broker appends, and what it says of it: R1 to R3 of the split, at the broker's side."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reference.broker.records import MAX_BODY_BYTES, decode_all
from reference.split.requests import AppendAnswer, Commit, physical_offset
from reference.wire.codes import Request, Response
from tests.reference.split.broker_world import NOT_STORED, TOPIC_ID, UNKNOWN, BrokerWorld, Sent


def opened(**more: object) -> BrokerWorld:
    world = BrokerWorld(**{"append_window": 2, **more})
    world.open()
    return world


def appends(world: BrokerWorld) -> Sequence[Sent]:
    return world.waiting(Request.GROUP_APPEND)


def test_a_message_is_acknowledged_once_it_is_stored_and_can_be_read_then() -> None:
    world = opened()
    sent = world.send(b"one")
    append = world.take(Request.GROUP_APPEND)
    fields = append.message.fields
    assert (fields["group"], fields["epoch"], fields["position"], fields["topics"]) == ("0", "1", "0", '{"t":11}')
    assert world.code(sent) is None
    world.stored(append)
    answer = world.answers[sent]
    assert (answer.code, answer.fields["queueOffset"], answer.fields["queueId"]) == (0, "0", "0")
    assert answer.fields["position"] == "0" and answer.fields["epoch"] == "1"
    assert [(row["group"], row["position"]) for row in world.traced("group_acked")] == [(0, len(append.message.body))]
    pulled = world.answers[world.pull(0)]
    assert pulled.code == 0 and decode_all(pulled.body)[0].body == b"one" and pulled.fields["maxOffset"] == "1"


def test_places_are_physical_offsets_and_queues_are_called_by_their_ranks() -> None:
    world = BrokerWorld(groups=4, slices=2)
    world.open()
    sends = [world.send(name="slice-1", queue=rank) for rank in (0, 1)]
    asked = [world.take(Request.GROUP_APPEND) for _ in sends]
    for rank, (sent, append) in enumerate(zip(sends, asked, strict=True)):
        group = int(append.message.fields["group"])
        (record,) = decode_all(append.message.body)
        assert group % 2 == 1 and record.position == physical_offset(group, 0)
        world.stored(append)
        assert world.answers[sent].fields["position"] == str(physical_offset(group, 0))
        assert world.answers[sent].fields["msgId"].endswith(f"{physical_offset(group, 0):016X}")
        pulled = world.answers[world.pull(0, queue=rank, bname="slice-1")]
        assert [(one.queue_id, one.position) for one in decode_all(pulled.body)] == [(rank, record.position)]
    numbers = {decode_all(append.message.body)[0].queue_id for append in asked}
    assert len(numbers) == 2


def test_messages_gather_while_appends_are_under_way_and_go_on_densely() -> None:
    world = opened()
    sends = [world.send(bytes([65 + number])) for number in range(6)]
    first, second = appends(world)
    world.stored(world.take(Request.GROUP_APPEND))
    assert len(appends(world)) == 2 and first not in appends(world)
    gathered = appends(world)[1]
    records = decode_all(second.message.body) + decode_all(gathered.message.body)
    assert [record.offset for record in records] == [1, 2, 3, 4, 5]
    assert int(gathered.message.fields["position"]) == len(first.message.body) + len(second.message.body)
    assert [world.code(sent) for sent in sends] == [0, None, None, None, None, None]


def test_an_answer_that_overtakes_acknowledges_nothing_before_the_earlier_position_is_stored() -> None:
    world = opened()
    one, two = world.send(b"one"), world.send(b"two")
    first, second = world.take(Request.GROUP_APPEND), world.take(Request.GROUP_APPEND)
    world.stored(second)
    assert world.code(one) is None and world.code(two) is None
    assert world.code(world.pull(0, wait_ms=1000)) is None
    world.stored(first)
    assert world.code(one) == 0 and world.code(two) == 0


@pytest.mark.parametrize(
    "code", [Response.GROUP_GAP, Response.GROUP_NOT_LEADER, Response.SYSTEM_BUSY, Response.GROUP_MOVED]
)
def test_after_a_refusal_all_that_is_unresolved_comes_again_with_the_same_bytes(code: int) -> None:
    world = opened()
    one, two = world.send(b"one"), world.send(b"two")
    first, second = world.take(Request.GROUP_APPEND), world.take(Request.GROUP_APPEND)
    world.refuse(first, code, leader="store-2" if code == Response.GROUP_NOT_LEADER else "")
    world.refuse(second, Response.GROUP_GAP)  # of the attempt before: of no effect
    world.run(60)
    again = [world.take(Request.GROUP_APPEND), world.take(Request.GROUP_APPEND)]
    assert not appends(world)
    for before, after in zip((first, second), again, strict=True):
        assert before.message.body == after.message.body
        assert after.message.fields == before.message.fields
    if code == Response.GROUP_NOT_LEADER:
        assert {asked.to for asked in again} == {"store-2"}
    for asked in again:
        world.stored(asked)
    assert world.code(one) == 0 and world.code(two) == 0


def test_an_append_whose_answer_is_lost_is_made_again_at_another_store() -> None:
    world = opened()
    sent = world.send()
    append = appends(world)[0]
    world.cut(append.to)
    world.run(60)
    again = world.take(Request.GROUP_APPEND)
    assert again.to != append.to and again.message.body == append.message.body
    world.refuse(again, Response.GROUP_NOT_LEADER, leader=append.to)
    third = world.take(Request.GROUP_APPEND)
    assert third.to == append.to
    world.run(600)
    assert appends(world)
    world.stored(appends(world)[0])
    assert world.code(sent) == 0
    world.stored(third)  # late, of no effect


def test_new_messages_go_behind_what_is_unresolved_and_never_in_its_place() -> None:
    world = opened()
    world.send(b"x")
    lost = appends(world)[0]
    world.cut(lost.to)
    world.send(b"y")
    world.run(60)
    again = [world.take(Request.GROUP_APPEND), world.take(Request.GROUP_APPEND)]
    assert again[0].message.body == lost.message.body and again[0].message.fields["position"] == "0"
    assert int(again[1].message.fields["position"]) == len(lost.message.body)


def test_what_is_not_acknowledged_in_time_is_unknown_and_goes_on() -> None:
    world = opened(ack_timeout_ms=1000)
    sent = world.send(b"slow")
    late = world.take(Request.GROUP_APPEND)
    world.run(1100)
    assert world.code(sent) == UNKNOWN
    place = {"queueId": "0", "queueOffset": "0", "msgId": world.answers[sent].fields["msgId"]}
    assert place.items() <= world.answers[sent].fields.items(), "RocketMQ's client takes no answer 12 without them"
    again = appends(world)[-1]
    assert again.message.body == late.message.body
    world.stored(again)
    pulled = world.answers[world.pull(0)]
    assert decode_all(pulled.body)[0].body == b"slow"
    assert not world.traced("group_acked")


def test_a_refusal_of_the_single_try_is_definite_and_what_never_left_is_not_stored() -> None:
    world = opened(append_window=1)
    one, two = world.send(), world.send()
    world.refuse(world.take(Request.GROUP_APPEND), Response.GROUP_FENCED)
    assert world.code(one) == NOT_STORED and world.code(two) == NOT_STORED
    assert world.traced("closed_slice") and world.code(world.send()) == NOT_STORED


def test_what_was_tried_twice_is_unknown_when_it_is_fenced_off() -> None:
    """A commits, its answer is lost, B fences, A tries again (R2)."""
    world = opened()
    sent = world.send()
    world.cut(appends(world)[0].to)
    world.run(60)
    world.refuse(world.take(Request.GROUP_APPEND), Response.GROUP_FENCED)
    assert world.code(sent) == UNKNOWN


def test_of_several_under_way_only_the_one_that_was_refused_is_definite() -> None:
    world = opened()
    one, two = world.send(), world.send()
    world.refuse(world.take(Request.GROUP_APPEND), Response.GROUP_FENCED)
    assert (world.code(one), world.code(two)) == (NOT_STORED, UNKNOWN)


def test_other_bytes_in_its_place_end_the_slice_and_the_groups_are_asked_again_where_they_end() -> None:
    world = opened()
    sent = world.send()
    world.refuse(world.take(Request.GROUP_APPEND), Response.GROUP_OTHER)
    assert world.code(sent) == UNKNOWN and world.traced("closed_slice")
    world.fenced(end=300)
    world.send()
    assert world.take(Request.GROUP_APPEND).message.fields["position"] == "300"


def test_an_answer_of_too_little_acknowledges_nothing() -> None:
    world = opened()
    sent = world.send()
    append = world.take(Request.GROUP_APPEND)
    world.deliver(append.to, AppendAnswer(end=len(append.message.body) - 1).reply(append.message))
    assert world.code(sent) is None
    world.run(60)
    assert appends(world)


@pytest.mark.parametrize("fields", [{}, {"end": "x"}, {"end": "-1"}, {"end": str(1 << 50)}])
def test_an_answer_that_makes_no_sense_counts_as_none(fields: dict[str, str]) -> None:
    world = opened()
    sent = world.send()
    world.answer(world.take(Request.GROUP_APPEND), fields=fields)
    assert world.code(sent) is None
    world.run(600)
    world.stored(appends(world)[-1])
    assert world.code(sent) == 0


def test_an_answer_from_somebody_else_counts_for_nothing() -> None:
    world = opened()
    sent = world.send()
    append = appends(world)[0]
    world.deliver("store-9", AppendAnswer(end=1 << 30).reply(append.message))
    assert world.code(sent) is None


def test_a_topic_that_is_made_again_shares_no_batch_with_the_one_before() -> None:
    world = opened(append_window=1)
    for _ in range(2):
        world.send(b"old")
    world.learn(world.topic(deleted=True))
    assert world.code(world.send()) == Response.TOPIC_NOT_EXIST
    world.learn(world.topic(topic_id=99))
    world.send(b"new")
    tables = []
    while appends(world):
        tables.append(appends(world)[0].message.fields["topics"])
        world.stored(world.take(Request.GROUP_APPEND))
    assert tables == ['{"t":11}', '{"t":11}', '{"t":99}']


def test_what_can_not_be_had_is_refused_before_anything_happens() -> None:
    world = opened()
    assert world.code(world.send(b"")) == Response.MESSAGE_ILLEGAL
    assert world.code(world.send(queue=4)) == Response.INVALID_PARAMETER
    assert world.code(world.send(e="x")) == Response.INVALID_PARAMETER
    assert not appends(world)
    sends = [world.send(bytes(MAX_BODY_BYTES)) for _ in range(6)]
    assert [world.code(sent) for sent in sends][-1] == Response.SYSTEM_BUSY
    assert world.code(sends[0]) is None


def test_a_queue_too_many_is_refused_and_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reference.split.broker.owned.MAX_QUEUES", 2)
    world = opened()
    first, second, third = world.send(), world.send(queue=1), world.send(queue=2)
    assert world.code(third) == Response.NO_PERMISSION
    assert world.code(first) is None and world.code(second) is None


# Consumers' offsets


def commit(world: BrokerWorld, offset: int, **more: object) -> int:
    return world.of_queue(Request.UPDATE_CONSUMER_OFFSET, consumerGroup="g", commitOffset=offset, **more)


def with_messages(count: int = 3) -> BrokerWorld:
    world = opened()
    for _ in range(count):
        world.send()
        world.stored(world.take(Request.GROUP_APPEND))
    return world


def committed(world: BrokerWorld) -> tuple[int, str]:
    asked = world.of_queue(Request.QUERY_CONSUMER_OFFSET, consumerGroup="g")
    world.confirmed()
    return world.answers[asked].code, world.answers[asked].fields.get("offset", "")


def test_a_commit_is_answered_once_it_is_stored() -> None:
    world = with_messages()
    asked = commit(world, 2)
    request = world.take(Request.GROUP_COMMIT)
    fields = request.message.fields
    assert (fields["consumer"], fields["topic_id"], fields["offset"], fields["epoch"]) == ("g", str(TOPIC_ID), "2", "1")
    assert world.code(asked) is None and committed(world)[0] == Response.QUERY_NOT_FOUND
    world.answer(request)
    assert world.code(asked) == 0 and committed(world) == (0, "2")
    assert world.code(commit(world, 4)) == Response.INVALID_PARAMETER
    assert world.code(commit(world, -1)) == Response.INVALID_PARAMETER


def test_of_commits_that_come_while_one_is_under_way_the_highest_is_next() -> None:
    world = with_messages()
    asked = [commit(world, offset) for offset in (1, 3, 2)]
    world.answer(world.take(Request.GROUP_COMMIT))
    assert [world.code(one) for one in asked] == [0, None, None]
    last = world.take(Request.GROUP_COMMIT)
    assert last.message.fields["offset"] == "3"
    world.answer(last)
    assert [world.code(one) for one in asked] == [0, 0, 0] and committed(world) == (0, "3")
    commit(world, 1)
    world.answer(world.take(Request.GROUP_COMMIT))
    assert committed(world) == (0, "3")


def test_a_commit_is_made_again_until_it_is_known_what_became_of_it() -> None:
    world = with_messages()
    asked = commit(world, 2)
    world.cut(world.waiting(Request.GROUP_COMMIT)[0].to)
    world.run(60)
    world.refuse(world.take(Request.GROUP_COMMIT), Response.GROUP_FENCED)
    assert world.code(asked) == UNKNOWN


def test_a_commit_whose_single_try_is_refused_and_one_that_never_left_are_not_stored() -> None:
    world = with_messages()
    asked = [commit(world, 1), commit(world, 2)]
    world.refuse(world.take(Request.GROUP_COMMIT), Response.GROUP_FENCED)
    assert [world.code(one) for one in asked] == [NOT_STORED, NOT_STORED]


def test_a_commit_that_the_group_has_no_room_for_is_refused_and_the_next_one_goes_on() -> None:
    world = with_messages()
    asked = [commit(world, 1), commit(world, 2)]
    world.refuse(world.take(Request.GROUP_COMMIT), Response.GROUP_OTHER)
    assert [world.code(one) for one in asked] == [Response.NO_PERMISSION, None]
    world.cut(world.waiting(Request.GROUP_COMMIT)[0].to)
    world.run(60)
    world.refuse(world.take(Request.GROUP_COMMIT), Response.GROUP_OTHER)
    assert world.code(asked[1]) == UNKNOWN


def test_a_commit_that_is_late_is_unknown_and_goes_on() -> None:
    world = with_messages()
    asked = commit(world, 2)
    world.run(3100)
    assert world.code(asked) == UNKNOWN
    world.answer(world.waiting(Request.GROUP_COMMIT)[-1])
    assert committed(world) == (0, "2")


def test_offsets_of_the_owner_before_are_those_of_the_fence() -> None:
    world = BrokerWorld()
    world.fenced(commits=(Commit("g", TOPIC_ID, 0, 9),))
    assert committed(world) == (0, "9")
