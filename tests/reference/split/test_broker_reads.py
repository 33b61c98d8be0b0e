"""What a broker says to readers: R9 of the split, and where records come from."""

from __future__ import annotations

import pytest

from reference.broker.records import decode_all, encode
from reference.split.requests import ReadAnswer, Window
from reference.wire.codes import Request, Response
from tests.reference.split.broker_world import NOT_STORED, TOPIC_ID, BrokerWorld

FIRST, END = 10, 20


def opened(**more: object) -> BrokerWorld:
    """Return a world whose queue 0 holds offsets 10 to 19, in the stores alone."""
    world = BrokerWorld(**more)
    world.fenced(end=4000, queues=(Window(TOPIC_ID, 0, FIRST, END),))
    return world


def records(first: int, count: int, queue: int = 0) -> bytes:
    parts = [
        encode(
            topic="t", queue_id=queue, offset=first + at, position=(first + at) * 100, body=b"m", store_ms=first + at
        )
        for at in range(count)
    ]
    return b"".join(parts)


def give(world: BrokerWorld, first: int, count: int, start: int = FIRST, source: str = "local") -> None:
    asked = world.take(Request.GROUP_READ)
    world.deliver(asked.to, ReadAnswer(start=start, source=source, records=records(first, count)).reply(asked.message))


def send(world: BrokerWorld) -> None:
    world.send(b"new")
    world.stored(world.take(Request.GROUP_APPEND))


def test_records_come_from_any_store_without_a_confirmation() -> None:
    world = opened()
    asked = world.pull(12)
    fields = world.waiting(Request.GROUP_READ)[0].message.fields
    assert (fields["offset"], fields["count"], fields["number"], fields["tier"]) == ("12", "8", "0", "")
    give(world, 12, 8)
    answer = world.answers[asked]
    assert answer.code == 0 and [record.offset for record in decode_all(answer.body)] == list(range(12, 20))
    assert (answer.fields["nextBeginOffset"], answer.fields["minOffset"], answer.fields["maxOffset"]) == (
        "20",
        "10",
        "20",
    )
    assert answer.fields["source"] == "local" and not world.waiting(Request.GROUP_CONFIRM)


def test_reads_are_spread_over_the_stores() -> None:
    world = opened()
    for _ in range(6):
        world.pull(12)
    asked = [one.to for one in world.waiting(Request.GROUP_READ)]
    assert sorted(asked) == sorted(["store-0", "store-1", "store-2"] * 2)


def test_a_store_that_lags_is_not_believed_and_another_one_is_asked() -> None:
    world = opened()
    asked = world.pull(12)
    stores = []
    for code in (Response.GROUP_BEHIND, Response.GROUP_MOVED):
        read = world.take(Request.GROUP_READ)
        stores.append(read.to)
        world.refuse(read, code)
    stores.append(world.waiting(Request.GROUP_READ)[0].to)
    assert sorted(stores) == ["store-0", "store-1", "store-2"]
    world.cut(stores[-1])
    assert world.code(asked) is None
    world.run(60)
    give(world, 12, 2)
    assert world.answers[asked].fields["nextBeginOffset"] == "14"


def test_a_reader_asks_again_where_no_store_gives_what_is_there() -> None:
    world = opened()
    asked = world.pull(12)
    while world.code(asked) is None:
        if world.waiting(Request.GROUP_READ):
            world.refuse(world.take(Request.GROUP_READ), Response.GROUP_BEHIND)
        world.run(60)
    assert world.code(asked) == Response.PULL_RETRY_IMMEDIATELY
    assert world.answers[asked].fields["nextBeginOffset"] == "12"


def test_below_the_start_a_reader_is_given_the_start() -> None:
    world = opened()
    known = world.answers[world.pull(9)]
    assert (known.code, known.fields["nextBeginOffset"]) == (Response.PULL_OFFSET_MOVED, "10")
    asked = world.pull(12)
    world.refuse(world.take(Request.GROUP_READ), Response.GROUP_BELOW_START, start=15)
    answer = world.answers[asked]
    assert (answer.code, answer.fields["nextBeginOffset"]) == (Response.PULL_OFFSET_MOVED, "15")
    assert world.answers[world.pull(14)].code == Response.PULL_OFFSET_MOVED


@pytest.mark.parametrize(("offset", "code", "following"), [(20, 19, "20"), (25, 21, "20")])
def test_nothing_more_is_said_only_once_the_epoch_is_confirmed(offset: int, code: int, following: str) -> None:
    world = opened()
    asked = world.pull(offset)
    assert world.code(asked) is None
    confirm = world.waiting(Request.GROUP_CONFIRM)[0].message.fields
    assert (confirm["group"], confirm["epoch"]) == ("0", "1")
    world.confirmed()
    assert (world.code(asked), world.answers[asked].fields["nextBeginOffset"]) == (code, following)


def test_what_came_while_the_epoch_was_confirmed_is_given() -> None:
    world = opened()
    asked = world.pull(END)
    send(world)
    world.confirmed()
    assert world.code(asked) == 0


def test_who_comes_while_a_confirmation_is_under_way_waits_for_the_next() -> None:
    world = opened()
    one = world.of_queue(Request.GET_MAX_OFFSET)
    two, three = world.of_queue(Request.GET_MIN_OFFSET), world.pull(END)
    assert len(world.waiting(Request.GROUP_CONFIRM)) == 1
    world.confirmed()
    assert (world.code(one), world.code(two), world.code(three)) == (0, None, None)
    assert len(world.waiting(Request.GROUP_CONFIRM)) == 1
    world.confirmed(starts=[(TOPIC_ID, 0, 12)])
    assert world.answers[one].fields["offset"] == "20" and world.answers[one].fields["minOffset"] == "10"
    assert world.answers[two].fields["offset"] == "12" and world.code(three) == 19


def test_a_confirmation_that_fails_begins_again_for_all_and_nobody_profits_from_an_older_one() -> None:
    world = opened()
    one = world.of_queue(Request.GET_MAX_OFFSET)
    world.refuse(world.take(Request.GROUP_CONFIRM), Response.GROUP_BEHIND)
    two = world.of_queue(Request.GET_MAX_OFFSET)
    assert not world.waiting(Request.GROUP_CONFIRM)
    world.run(60)
    assert len(world.waiting(Request.GROUP_CONFIRM)) == 1
    three = world.of_queue(Request.GET_MAX_OFFSET)
    world.confirmed()
    assert (world.code(one), world.code(two), world.code(three)) == (0, 0, None)


def test_an_owner_that_is_cut_off_says_so_and_never_that_nothing_is_new() -> None:
    world = opened(ack_timeout_ms=1000)
    asked = [world.pull(END), world.of_queue(Request.GET_MAX_OFFSET)]
    asked.append(world.of_queue(Request.QUERY_CONSUMER_OFFSET, consumerGroup="g"))
    asked.append(world.of_queue(Request.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=3))
    world.run(5000)
    assert [world.code(one) for one in asked] == [NOT_STORED] * 4


def test_an_owner_that_was_replaced_says_nothing_of_ends_and_closes() -> None:
    world = opened()
    asked = [world.pull(END), world.of_queue(Request.GET_MAX_OFFSET)]
    held = world.pull(END, wait_ms=9000)
    world.refuse(world.take(Request.GROUP_CONFIRM), Response.GROUP_FENCED)
    assert [world.code(one) for one in (*asked, held)] == [NOT_STORED] * 3
    assert world.traced("closed_slice")


def test_a_read_under_way_when_the_slice_is_lost_is_refused() -> None:
    world = opened()
    asked = world.pull(12)
    world.learn(world.owner(0, 2, broker="broker-1"))
    give(world, 12, 2)
    assert world.code(asked) == NOT_STORED


# Held pulls


def test_a_held_pull_is_answered_when_a_message_is_acknowledged() -> None:
    world = opened()
    asked = world.pull(END, wait_ms=5000)
    world.send(b"new")
    assert world.code(asked) is None
    world.stored(world.take(Request.GROUP_APPEND))
    assert decode_all(world.answers[asked].body)[0].body == b"new"


def test_a_held_pull_whose_time_is_over_is_answered_after_a_confirmation() -> None:
    world = opened()
    asked = world.pull(END, wait_ms=1000)
    world.run(900)
    assert not world.waiting(Request.GROUP_CONFIRM)
    world.run(200)
    assert world.code(asked) is None
    world.confirmed()
    assert world.code(asked) == 19


def test_who_is_gone_holds_no_pull() -> None:
    world = opened()
    asked = world.pull(END, wait_ms=1000)
    world.cut("client")
    world.run(1500)
    assert world.code(asked) is None and not world.waiting(Request.GROUP_CONFIRM)


# Sources


def test_the_newest_messages_come_from_memory_and_demands_go_to_the_stores() -> None:
    world = opened()
    send(world)
    assert world.code(world.pull(END)) == 0 and not world.waiting(Request.GROUP_READ)
    asked = world.pull(END, demandSource="local")
    assert world.waiting(Request.GROUP_READ)[0].message.fields["tier"] == "no"
    give(world, END, 1)
    assert world.code(asked) == 0
    world.pull(12, demandSource="tier")
    assert world.waiting(Request.GROUP_READ)[0].message.fields["tier"] == "only"
    give(world, 12, 1, source="tier")


def test_a_tier_without_it_is_no_end_of_the_queue() -> None:
    world = opened()
    asked = world.pull(12, demandSource="tier")
    give(world, 12, 0, source="tier")
    answer = world.answers[asked]
    assert (answer.code, answer.fields["nextBeginOffset"], answer.fields["source"]) == (19, "12", "tier")
    local = world.pull(12, demandSource="local")
    for _ in range(3):
        world.refuse(world.take(Request.GROUP_READ), Response.GROUP_BEHIND)
    assert world.code(local) == Response.PULL_RETRY_IMMEDIATELY


@pytest.mark.parametrize(
    "found",
    [b"", b"x", records(12, 2)[:-1], records(13, 1), records(12, 1, queue=1), records(12, 9), records(12, 1)[:-9]],
)
def test_records_that_were_not_asked_for_are_never_passed_on(found: bytes) -> None:
    world = opened()
    asked = world.pull(12)
    read = world.take(Request.GROUP_READ)
    world.deliver(read.to, ReadAnswer(start=FIRST, source="local", records=found).reply(read.message))
    assert world.code(asked) is None
    world.run(1600)
    assert world.take(Request.GROUP_READ).to != read.to
    assert world.code(asked) is None


def test_a_start_above_the_offset_that_was_given_does_not_hide_it() -> None:
    world = opened()
    asked = world.pull(12)
    give(world, 12, 1, start=99)
    assert world.code(asked) == 0
    assert int(world.answers[asked].fields["minOffset"]) <= END


# Search


@pytest.mark.parametrize(("timestamp", "offset"), [(0, 10), (13, 13), (19, 19), (20, 20), (99, 20)])
def test_a_search_by_time_looks_at_few_records(timestamp: int, offset: int) -> None:
    world = opened()
    asked = world.of_queue(Request.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=timestamp)
    world.confirmed()
    looks = 0
    while world.waiting(Request.GROUP_READ):
        at = int(world.waiting(Request.GROUP_READ)[0].message.fields["offset"])
        give(world, at, 1)
        looks += 1
    assert looks <= 5 and world.answers[asked].fields["offset"] == str(offset)


def test_a_search_goes_on_above_what_is_trimmed_meanwhile() -> None:
    world = opened()
    asked = world.of_queue(Request.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=0)
    world.confirmed()
    world.refuse(world.take(Request.GROUP_READ), Response.GROUP_BELOW_START, start=17)
    while world.waiting(Request.GROUP_READ):
        give(world, int(world.waiting(Request.GROUP_READ)[0].message.fields["offset"]), 1, start=17)
    assert world.answers[asked].fields["offset"] == "17"
