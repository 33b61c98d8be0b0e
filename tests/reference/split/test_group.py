"""The state machine of a group, and the interleaving that each of its rules is there for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chaos.node import Malformed
from reference.split.requests import MAX_COMMITS, MAX_QUEUES, Commit, FenceAnswer, Window
from reference.split.segments import Segment, digest_of
from reference.split.store import entries
from reference.split.store.entries import BY_TIME, DELETED, Append, CommitOffset, Seal, Trim, Uploaded
from reference.split.store.group import MAX_REPEATS, Group
from reference.split.store.group_snapshot import files_in, lacking, restored, snapshot_of, with_files
from reference.wire.codec import MAX_FRAME_BYTES
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import MAX_NAME_BYTES
from tests.reference.split.owner import TOPICS, append, fence, fenced, records_at, seal

ORDERS, AUDIT = (11, 0), (12, 0)


def commit(epoch: int, offset: int, consumer: str = "shop") -> CommitOffset:
    return CommitOffset(epoch=epoch, consumer=consumer, topic_id=11, number=0, offset=offset)


def trim(starts: dict[int, int], *, version: int = 1, now_ms: int = 9000, rule: str = BY_TIME) -> Trim:
    return Trim(topic_id=11, version=version, rule=rule, now_ms=now_ms, starts=starts)


def sealed_group() -> Group:
    """Two segments of `orders` with an offset each, one of `audit`, and a tail with one record."""
    group = fenced()
    for offset in range(3):
        audit = [("audit", 0, 0, b"a")] if offset == 0 else []
        assert group.apply(append(1, group.end, ("orders", 0, offset, b"x" * 9), *audit)).code == 0
        if offset < 2:
            assert group.apply(seal(group, group.end)).code == 0
    return group


# R1: decided when applied


def test_an_append_that_was_proposed_before_a_fence_and_lands_behind_it_is_refused() -> None:
    group = fenced(1)
    late = append(1, 0, ("orders", 0, 0, b"late"))  # a check made now would let it pass
    assert group.has_epoch(late.epoch)
    assert group.apply(fence(2, "broker-1", 2)).code == 0
    assert group.apply(late).code == Response.GROUP_FENCED
    assert group.end == 0 and group.maximum(ORDERS) == 0, "a refused append uses no offset"
    assert group.apply(append(2, 0, ("orders", 0, 0, b"mine"))).code == 0


def test_nothing_is_appended_before_the_first_fence() -> None:
    group = Group(5)
    assert group.apply(append(0, 0, ("orders", 0, 0, b"x"))).code == Response.GROUP_FENCED
    assert group.apply(commit(0, 1)).code == Response.GROUP_FENCED


def test_offsets_are_dense_in_each_queue() -> None:
    group = fenced()
    first = append(1, 0, ("orders", 0, 0, b"a"), ("orders", 3, 0, b"b"), ("orders", 0, 1, b"c"))
    assert group.apply(first).code == 0
    assert group.apply(append(1, group.end, ("orders", 0, 3, b"gap"))).code == Response.GROUP_OTHER
    assert group.apply(append(1, group.end, ("orders", 0, 1, b"twice"))).code == Response.GROUP_OTHER
    assert group.apply(append(1, group.end, ("orders", 0, 2, b"next"))).code == 0
    assert (group.maximum(ORDERS), group.maximum((11, 3)), group.maximum((11, 1))) == (3, 1, 0)


def test_a_group_that_is_full_of_queues_goes_on_with_those_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reference.split.store.group.MAX_QUEUES", 1)
    group = fenced()
    for offset in range(2):
        assert group.apply(append(1, group.end, ("orders", 0, offset, b"a"))).code == 0
    assert group.apply(append(1, group.end, ("orders", 1, 0, b"b"))).code == Response.GROUP_OTHER


def test_the_answer_to_a_fence_has_room_for_all_that_a_group_holds() -> None:
    queue, offset = (
        Window(1 << 30, 1 << 20, 1 << 40, 1 << 40),
        Commit("\x01" * MAX_NAME_BYTES, 1 << 30, 1 << 20, 1 << 40),
    )

    def size(**found: Any) -> int:
        answer = FenceAnswer(end=0, **{"queues": (), "commits": (), **found})
        return len(answer.reply(Command(code=0, opaque=1)).body)

    queues, offsets = size(queues=(queue, queue)) - size(queues=(queue,)), size(commits=(offset,))
    assert queues * MAX_QUEUES + offsets * MAX_COMMITS + 4096 < MAX_FRAME_BYTES


def test_a_consumers_offset_follows_the_epoch_and_never_falls() -> None:
    group = fenced()
    assert group.apply(commit(1, 7)).code == 0
    assert group.apply(commit(1, 3)).code == 0
    group.apply(fence(2, life=2))
    assert group.apply(commit(1, 9)).code == Response.GROUP_FENCED
    assert group.commits == {("shop", 11, 0): 7}


# R2, R3: repeats


def test_the_same_append_is_answered_again_and_added_once() -> None:
    group = fenced()
    first = append(1, 0, ("orders", 0, 0, b"a"))
    assert group.apply(first).code == 0
    again = group.apply(first)
    assert (again.code, again.again, group.end) == (0, True, first.end)


def test_other_bytes_at_a_place_that_is_taken_are_refused() -> None:
    """X waits at a leader that is cut off, Y comes at its place through the next one: Y's repeat is not X."""
    group = fenced()
    first, other = append(1, 0, ("orders", 0, 0, b"X")), append(1, 0, ("orders", 0, 0, b"Y"))
    assert group.apply(first).code == 0
    assert group.apply(other).code == Response.GROUP_OTHER
    assert bytes(group.tail.data[: first.end]) == first.records


def test_a_place_beyond_the_end_is_a_gap() -> None:
    group = fenced()
    assert group.apply(append(1, 8, ("orders", 0, 0, b"x"))).code == Response.GROUP_GAP


def test_a_repeat_of_an_earlier_epoch_is_fenced_not_answered_again() -> None:
    group = fenced()
    first = append(1, 0, ("orders", 0, 0, b"a"))
    group.apply(first)
    group.apply(fence(2, life=2))
    assert group.apply(first).code == Response.GROUP_FENCED
    assert group.apply(replace(first, epoch=2)).code == Response.GROUP_OTHER, "the new epoch never appended it"


def test_repeats_are_known_behind_a_seal_and_bounded_in_number() -> None:
    group = fenced()
    first = append(1, 0, ("orders", 0, 0, b"a"))
    group.apply(first)
    group.apply(seal(group, group.end))
    assert group.apply(first).again
    for offset in range(1, MAX_REPEATS + 1):
        group.apply(append(1, group.end, ("orders", 0, offset, b"")))
    assert len(group.repeats) == MAX_REPEATS
    assert group.apply(first).code == Response.GROUP_OTHER


# R12: fences


def test_a_fence_takes_a_higher_epoch_or_the_same_incarnation_again() -> None:
    group = fenced(4)
    assert group.apply(fence(4)).code == 0
    assert group.apply(fence(4, life=2)).code == Response.GROUP_FENCED
    assert group.apply(fence(4, broker="broker-9")).code == Response.GROUP_FENCED
    assert group.apply(fence(3)).code == Response.GROUP_FENCED
    assert group.fence == fence(4)


def test_a_fence_that_is_tried_again_forgets_no_repeats() -> None:
    group = fenced()
    first = append(1, 0, ("orders", 0, 0, b"a"))
    group.apply(first)
    group.apply(fence(1))
    assert group.apply(first).again


# R5: seals


def test_a_seal_behind_appends_under_way_cuts_where_it_says() -> None:
    """The leader hashes up to 100 while 101 to 105 are in flight: all replicas cut at 100."""
    group = fenced()
    group.apply(append(1, 0, ("orders", 0, 0, b"a"), ("audit", 0, 0, b"b")))
    proposed, end = seal(group, group.end), group.end
    in_flight = append(1, end, ("orders", 0, 1, b"c"))
    group.apply(in_flight)
    outcome = group.apply(proposed)
    assert outcome.code == 0 and not outcome.is_damaged
    assert [(one.topic_id, one.start, one.end) for one in outcome.made] == [(11, 0, end), (12, 0, end)]
    assert group.sealed == end and bytes(group.tail.data) == in_flight.records
    assert group.queues[ORDERS].sealed == 1 and group.maximum(ORDERS) == 2


def test_segments_join_and_a_seal_of_the_same_stretch_is_refused() -> None:
    group = fenced()
    group.apply(append(1, 0, ("orders", 0, 0, b"a")))
    proposed = seal(group, group.end)
    assert group.apply(proposed).code == 0
    assert group.apply(proposed).code == Response.GROUP_OTHER
    assert group.apply(replace(proposed, start=proposed.end, end=proposed.end + 50)).code == Response.GROUP_OTHER


def test_a_seal_ends_where_a_record_ends() -> None:
    group = fenced()
    group.apply(append(1, 0, ("orders", 0, 0, b"a"), ("orders", 0, 1, b"b")))
    boundary = group.tail.heads[1].position
    assert group.apply(Seal(start=0, end=boundary + 1, digests={}, now_ms=1)).code == Response.GROUP_OTHER
    assert group.apply(seal(group, boundary)).code == 0
    assert [one.position for one in group.tail.batches] == [boundary]


def test_each_topic_has_a_segment_of_its_own_with_the_hash_of_its_records() -> None:
    group = fenced()
    entry = append(1, 0, ("orders", 0, 0, b"a"), ("audit", 0, 0, b"b"), ("orders", 1, 0, b"c"))
    group.apply(entry)
    heads = list(group.tail.heads)
    made = group.apply(seal(group, group.end)).made
    orders = b"".join(entry.records[h.position : h.position + h.size] for h in (heads[0], heads[2]))
    assert list(made.values()) == [orders, entry.records[heads[1].position : heads[2].position]]
    assert [one.digest for one in made] == [digest_of(data) for data in made.values()]


def test_another_hash_than_the_entrys_is_damage_here() -> None:
    group = fenced()
    group.apply(append(1, 0, ("orders", 0, 0, b"a")))
    proposed = seal(group, group.end)
    outcome = group.apply(replace(proposed, digests={11: "0" * 32}))
    assert outcome.is_damaged


# R7, R10, R13: uploads and trims


def test_uploaded_marks_a_segment_that_is_kept_and_no_other() -> None:
    group = sealed_group()
    first = group.of_topic(11)[0].segment
    assert group.apply(Uploaded(segment=first)).code == 0
    assert [one.is_uploaded for one in group.of_topic(11)] == [True, False]
    group.apply(trim({0: 1}))
    assert group.apply(Uploaded(segment=first)).code == Response.GROUP_OTHER, "it was trimmed meanwhile"


def test_a_trim_by_an_older_version_of_the_topic_is_refused() -> None:
    """A leader that has not seen the topic's new rule must not go on by the old one, once it is known here."""
    group = sealed_group()
    assert group.apply(trim({0: 1}, version=3)).code == 0
    assert group.apply(trim({0: 2}, version=2)).code == Response.GROUP_OTHER
    assert group.minimum(ORDERS) == 1


def test_a_trim_drops_whole_segments_of_its_topic_alone() -> None:
    group = sealed_group()
    outcome = group.apply(trim({0: 1}))
    assert [one.segment.topic_id for one in outcome.gone] == [11]
    assert (group.minimum(ORDERS), group.minimum(AUDIT)) == (1, 0)
    assert group.trimmed[11].position == outcome.gone[0].segment.end
    assert group.start == 0, "the other topic still begins there"


def test_what_is_not_sealed_is_not_trimmed() -> None:
    group = sealed_group()
    assert group.apply(trim({0: 3})).code == Response.GROUP_OTHER
    assert group.apply(trim({9: 1})).code == Response.GROUP_OTHER
    assert group.apply(trim({0: 2})).code == 0


def test_segments_go_from_the_oldest_on() -> None:
    """A queue that is trimmed further than another must not leave a hole behind which all counts as gone."""
    group = fenced()
    group.apply(append(1, 0, ("orders", 0, 0, b"a"), ("orders", 1, 0, b"b")))
    group.apply(seal(group, group.end))
    group.apply(append(1, group.end, ("orders", 1, 1, b"c")))
    group.apply(seal(group, group.end))
    assert group.apply(trim({1: 2})).gone == ()
    assert group.trimmed[11].position == 0 and len(group.segments) == 2


def test_logged_time_never_falls() -> None:
    group = fenced()
    group.apply(append(1, 0, ("orders", 0, 0, b"a")))
    group.apply(seal(group, group.end, now_ms=9000))
    group.apply(append(1, group.end, ("orders", 0, 1, b"a")))
    group.apply(seal(group, group.end, now_ms=100))
    assert group.now_ms == 9000
    assert [one.sealed_ms for one in group.of_topic(11)] == [9000, 9000]


def test_a_deleted_topic_takes_its_consumers_offsets_along() -> None:
    group = sealed_group()
    group.apply(commit(1, 2))
    group.apply(replace(commit(1, 1), topic_id=12))
    group.apply(trim({0: 2}, rule=DELETED))
    assert group.commits == {("shop", 12, 0): 1}


def test_a_topic_made_again_under_its_name_is_another_one() -> None:
    group = fenced()
    group.apply(append(1, 0, ("orders", 0, 0, b"old")))
    group.apply(append(1, group.end, ("orders", 0, 0, b"new"), topics={"orders": 99}))
    made = group.apply(seal(group, group.end)).made
    assert [one.topic_id for one in made] == [11, 99]
    assert group.maximum((99, 0)) == 1


# Reads


def test_each_offset_is_found_in_one_segment_or_in_the_tail() -> None:
    group = sealed_group()
    found = [group.find(ORDERS, offset) for offset in range(4)]
    first, second = group.of_topic(11)
    assert found == [first, second, None, None]


# Snapshots


def state_of(group: Group) -> bytes:
    return b"".join(snapshot_of(group))


def test_a_snapshot_restores_all_that_the_group_is() -> None:
    group = sealed_group()
    group.apply(commit(1, 2))
    group.apply(trim({0: 1}))
    last = append(1, group.end, ("orders", 0, 3, b"e"), ("audit", 0, 1, b"f"))
    group.apply(last)
    again = restored(5, state_of(group))
    assert state_of(again) == state_of(group)
    assert again.tail.heads == group.tail.heads and again.tail.keys == group.tail.keys
    for one in (group, again):
        assert one.apply(last).again
        assert one.apply(append(1, one.end, ("orders", 0, 4, b"g"))).code == 0
        assert one.apply(seal(one, one.end)).code == 0
    assert state_of(again) == state_of(group)


def test_a_snapshot_for_a_follower_brings_what_no_object_holds() -> None:
    """R4: a member that votes holds each committed record that isn't uploaded."""
    group = fenced()
    files: dict[Segment, bytes] = {}
    for offset in range(2):
        group.apply(append(1, group.end, ("orders", 0, offset, b"x")))
        files |= group.apply(seal(group, group.end)).made
    group.apply(Uploaded(segment=group.of_topic(11)[0].segment))
    plain = state_of(group)
    assert lacking(plain) == [group.of_topic(11)[1].segment]
    sent = with_files(plain, files)
    assert files_in(sent) == {one: files[one] for one in lacking(plain)}
    assert state_of(restored(5, sent)) == plain
    with pytest.raises(Malformed, match="damaged"):
        files_in(sent[:-1] + bytes([sent[-1] ^ 1]))
    with pytest.raises(Malformed):
        files_in(sent[:-1])


@pytest.mark.parametrize("cut", [0, 1, 40, -1])
def test_a_snapshot_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(Malformed):
        restored(5, state_of(sealed_group())[:cut])


def test_a_snapshot_of_another_group_or_with_contradictions_is_refused() -> None:
    whole = state_of(sealed_group())
    with pytest.raises(Malformed, match="group 5"):
        restored(6, whole)
    for old, new in (
        (b'"sealed":', b'"sealed":-'),
        (b"[11,0,0,3,2]", b"[11,0,9,3,2]"),
        (b"[11,0,0,3,2]", b"[7,0,0,3,2]"),
    ):
        assert old in whole
        with pytest.raises(Malformed):
            restored(5, whole.replace(old, new))


# Entries


def test_entries_are_read_as_they_were_written() -> None:
    group = sealed_group()
    some = [
        fence(3),
        append(1, 7, ("orders", 0, 0, b"a")),
        commit(2, 4),
        Seal(start=1, end=2, digests={11: "ab" * 16}, now_ms=3),
        Uploaded(segment=next(iter(group.segments))),
        trim({0: 1, 2: 5}),
    ]
    assert [entries.decode(one.encode()) for one in some] == some
    for one in some:
        entries.check(5, one.encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"?",
        b"F",
        b'F{"slice":1,"epoch":-1,"broker":"b","life":0}',
        b'F{"slice":1,"epoch":1,"broker":7,"life":0}',
        b"A",
        b"A" + bytes(24),
        b'S{"start":0,"end":1,"digests":[[1,2]],"now_ms":0}',
        b'U{"group":5,"topic_id":1,"start":4,"end":4,"digest":"' + b"0" * 32 + b'"}',
        b'U{"group":5,"topic_id":1,"start":0,"end":4,"digest":"../../x"}',
        b'T{"topic_id":1,"version":1,"rule":"mood","now_ms":0,"starts":[]}',
        b'T{"topic_id":1,"version":1,"rule":"time","now_ms":0,"starts":[[0,-1]]}',
    ],
)
def test_hostile_entries_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        entries.check(5, data)


def test_hostile_records_are_refused() -> None:
    good = append(1, 0, ("orders", 0, 0, b"abc"), ("orders", 0, 1, b"def"))

    def refused(records: bytes, position: int = 0, group: int = 5, topics: dict[str, int] | None = None) -> None:
        entry = Append(
            epoch=1,
            position=position,
            crc=entries.crc32(records),
            topics=TOPICS if topics is None else topics,
            records=records,
        )
        with pytest.raises(Malformed):
            entries.check(group, entry.encode())

    refused(good.records[:-1])
    refused(good.records + b"\0\0\0")
    refused(good.records, position=1)
    refused(good.records, group=6)
    refused(good.records, topics={"audit": 1})
    refused(b"\0" * 200)
    refused(records_at(5, 0, ("orders", -1, 0, b"x")))
    with pytest.raises(Malformed, match="checksum"):
        entries.check(5, replace(good, crc=good.crc ^ 1).encode())
