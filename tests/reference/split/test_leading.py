"""What a store decides for the groups that it leads: seals, trims, sweeps and changes of members."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chaos.node import DiskFull, Malformed
from reference.metadata.catalog import Entry
from reference.metadata.follower import View
from reference.raft.members import Members
from reference.split.names import TOPIC
from reference.split.segments import Segment
from reference.split.store.copying import Copying
from reference.split.store.describing import LogReads
from reference.split.store.entries import BY_SIZE, BY_TIME, DELETED, Trim, Uploaded
from reference.split.store.group_snapshot import snapshot_of
from reference.split.store.machine import SMALL_TAIL_BYTES, GroupMachine
from reference.split.store.moving import Moving
from reference.split.store.reads import OpenSegment
from reference.split.store.retention import Retention
from reference.split.store.sealing import Sealing
from reference.split.store.segment_files import SegmentFiles
from reference.split.store.sweeping import Sweeper
from reference.split.store.tier import SegmentTier
from reference.split.view import Cluster
from reference.tier.store_client import Answer
from reference.wire.codes import Response
from tests.reference.memory import MemoryFiles
from tests.reference.split.owner import append, fence, seal


class FakeDisk(MemoryFiles):
    """Syncs end when the test says so; beyond ``room`` there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = 0
        self.room = 1 << 30

    def sync(self, paths: Any) -> int:
        self.tokens += 1
        return self.tokens

    def write(self, path: str, offset: int, data: bytes) -> None:
        if len(data) > self.room:
            raise DiskFull(path)
        super().write(path, offset, data)


class FakeEnv:
    """What a group's replica sees of the world, and what its store does."""

    def __init__(self) -> None:
        self.name = "a"
        self.disk = FakeDisk()
        self.now = 0
        self.traces: list[Any] = []

    def mono_ns(self) -> int:
        return self.now

    def trace(self, event: Any) -> None:
        self.traces.append(event)


class FakeLed:
    """A group that is led as long as ``leads``; what is proposed is kept."""

    def __init__(self) -> None:
        self.leads = True
        self.proposed: list[Any] = []

    def propose(self, env: Any, data: bytes, then: Any) -> None:
        self.proposed.append((data, then))


def machine_with(*times: int) -> tuple[Any, GroupMachine]:
    """Return a replica with one segment of `orders` for each of these store times, sealed at the same logged times."""
    env = FakeEnv()
    files = SegmentFiles()
    files.begin(env)  # type: ignore[arg-type]
    machine = GroupMachine(5, files)
    apply(env, machine, fence(1))
    for offset, ms in enumerate(times):
        apply(env, machine, append(1, machine.group.end, ("orders", 0, offset, b"x" * 100), store_ms=ms))
        apply(env, machine, seal(machine.group, machine.group.end, now_ms=ms))
    return env, machine


def apply(env: Any, machine: GroupMachine, entry: Any) -> Any:
    return machine.apply(env, machine.applied + 1, 1, entry.encode())


def sync_all(env: Any, machine: GroupMachine) -> None:
    for token in range(1, env.disk.tokens + 1):
        machine.synced(env, token)


def cluster_with(version: int = 4, **value: Any) -> Cluster:
    """Return a view with the topic `orders` of id 11."""
    view = View()
    view.revision = 50
    topic = {"id": 11, "queues": 1, "retain_ms": 0, "retain_bytes": 0, "deleted": False} | value
    view.entries[TOPIC, "orders"] = Entry(TOPIC, "orders", version, 40, topic)
    return Cluster(view)


# Retention


def test_by_time_goes_what_is_old_enough_by_logged_time_and_not_a_moment_earlier() -> None:
    _, machine = machine_with(1000, 2000, 3000)
    retention = Retention(cluster_with(retain_ms=500))
    assert retention.due(machine.group, 11, 1499) is None
    assert retention.due(machine.group, 11, 1500) == Trim(
        topic_id=11, version=4, rule=BY_TIME, now_ms=1500, starts={0: 1}
    )
    assert retention.due(machine.group, 11, 9999).starts == {0: 3}  # type: ignore[union-attr]


def test_a_brokers_clock_that_is_behind_makes_no_record_old() -> None:
    _, machine = machine_with(1000)
    one = machine.group.of_topic(11)[0]
    one.newest_ms = one.oldest_ms = 5
    assert Retention(cluster_with(retain_ms=500)).due(machine.group, 11, 1200) is None
    one.newest_ms = 9000
    assert Retention(cluster_with(retain_ms=500)).due(machine.group, 11, 5000) is None


def test_by_size_at_least_the_limit_is_left_each_record_counted_once() -> None:
    _, machine = machine_with(1, 2, 3, 4)
    size = machine.group.of_topic(11)[0].size
    for limit, gone in ((2 * size, 2), (2 * size + 1, 1), (4 * size, 0), (1, 3)):
        due = Retention(cluster_with(retain_bytes=limit)).due(machine.group, 11, 100)
        assert (due.starts[0] if due else 0, due.rule if due else BY_SIZE) == (gone, BY_SIZE)


def test_without_limits_or_without_knowing_the_topic_nothing_goes() -> None:
    _, machine = machine_with(1, 2)
    assert Retention(cluster_with()).due(machine.group, 11, 1 << 50) is None
    behind = cluster_with(id=12)
    behind._source.revision = 10  # this view ends before the topic was made
    assert Retention(behind).due(machine.group, 11, 1 << 50) is None


def test_a_deleted_topic_goes_as_a_whole_by_the_version_that_deleted_it() -> None:
    _, machine = machine_with(1, 2)
    due = Retention(cluster_with(version=9, deleted=True)).due(machine.group, 11, 50)
    assert due == Trim(topic_id=11, version=9, rule=DELETED, now_ms=50, starts={0: 2})
    again = Retention(cluster_with(version=10, id=45)).due(machine.group, 11, 50)
    assert again is not None and (again.rule, again.version) == (DELETED, 10)


def test_one_trim_is_under_way_and_only_a_leader_proposes() -> None:
    env, machine = machine_with(1000)
    led, retention = FakeLed(), Retention(cluster_with(retain_ms=5))
    led.leads = False
    retention.consider(env, led, machine, 5000)  # type: ignore[arg-type]
    assert led.proposed == []
    led.leads = True
    for _ in range(2):
        retention.consider(env, led, machine, 5000)  # type: ignore[arg-type]
    assert len(led.proposed) == 1
    led.proposed[0][1](env, None, -1)
    retention.consider(env, led, machine, 5000)  # type: ignore[arg-type]
    assert len(led.proposed) == 2


# Seals


def test_a_seal_is_due_by_size_or_age_and_never_before_the_clocks_are_known() -> None:
    env, machine = machine_with()
    led, sealing = FakeLed(), Sealing(400, 1000)
    apply(env, machine, append(1, 0, ("orders", 0, 0, b"x")))
    sealing.consider(env, led, machine, 70)  # type: ignore[arg-type]
    env.now = 999_999_999
    sealing.consider(env, led, machine, 70)  # type: ignore[arg-type]
    assert led.proposed == []
    env.now = 1_000_000_000
    sealing.consider(env, led, machine, 0)  # type: ignore[arg-type]
    assert led.proposed == []
    for _ in range(2):
        sealing.consider(env, led, machine, 70)  # type: ignore[arg-type]
    assert len(led.proposed) == 1, "one is under way"
    led.proposed.pop()[1](env, None, -1)
    apply(env, machine, append(1, machine.group.end, ("orders", 0, 1, b"x" * 400)))
    env.now = 0
    sealing.consider(env, led, machine, 70)  # type: ignore[arg-type]
    assert len(led.proposed) == 1


# Objects that nobody refers to


def test_the_sweeper_touches_only_what_is_trimmed() -> None:
    """R13: a segment of which UPLOADED isn't logged yet has an object that nobody names so far."""
    env, machine = machine_with(1, 2, 3)
    first, second, _ = (one.segment for one in machine.group.of_topic(11))
    apply(env, machine, Trim(topic_id=11, version=1, rule=BY_TIME, now_ms=9, starts={0: 1}))
    zombie = Segment(group=5, topic_id=11, start=0, end=first.end, digest="0" * 32)
    above = Segment(group=5, topic_id=11, start=first.end, end=second.end + 1, digest="0" * 32)
    place, position = (5, 11), machine.group.trimmed[11].position
    sweeper = Sweeper(None, 100)  # type: ignore[arg-type]
    sweeper._due[place] = position, 0
    assert [sweeper.may_delete(machine, one) for one in (first, zombie, second, above)] == [True, True, False, False]
    sweeper._due[place] = 0, 0
    assert not sweeper.may_delete(machine, first), "it was trimmed after this look's delay had begun"


class FakeTier:
    """Looks that the test answers."""

    def __init__(self) -> None:
        self.looks: list[Any] = []

    def find(self, env: Any, group: int, topic_id: int, then: Any) -> None:
        self.looks.append(then)


def test_keys_of_another_group_in_an_answer_are_not_looked_at() -> None:
    """Their places say nothing of what was trimmed here."""
    own, other = (Segment(group=number, topic_id=11, start=0, end=9, digest="0" * 32) for number in (5, 6))
    tier, found = SegmentTier("tier-0", 100), list[Any]()
    answer = Answer(code=Response.SUCCESS, keys=(own.key, other.key))
    tier._client.ask = lambda env, verb, key, then, **more: then(env, answer)  # type: ignore[method-assign]
    tier.find(FakeEnv(), 5, 11, lambda env, segments: found.append(segments))  # type: ignore[arg-type]
    assert found == [[own]]


def test_a_look_is_put_off_by_no_later_trim() -> None:
    """A topic that is trimmed more often than its objects' delay would never be looked at."""
    env, machine = machine_with(1, 2, 3)
    led, tier = FakeLed(), FakeTier()
    sweeper = Sweeper(tier, 100)  # type: ignore[arg-type]
    for offset in (1, 2, 3):
        apply(env, machine, Trim(topic_id=11, version=1, rule=BY_TIME, now_ms=9, starts={0: offset}))
        sweeper.consider(env, led, machine)  # type: ignore[arg-type]
        assert len(tier.looks) == (offset == 3)
        env.now += 60_000_000
    tier.looks.pop()(env, [])
    sweeper.consider(env, led, machine)  # type: ignore[arg-type]
    env.now += 100_000_000
    sweeper.consider(env, led, machine)  # type: ignore[arg-type]
    assert len(tier.looks) == 1, "what was trimmed meanwhile is the next look's"


# Members


@pytest.mark.parametrize(
    ("voters", "learners", "wanted", "newcomer", "goner"),
    [
        ("abc", "", "abc", "", ""),
        ("abc", "", "abd", "d", ""),
        ("abc", "d", "abd", "", ""),  # it learns
        ("abcd", "", "abd", "", "c"),
        ("abc", "d", "abe", "", "d"),  # another one is wanted by now
        ("abc", "", "ade", "d", ""),  # nobody leaves before somebody has come
        ("abcd", "", "ade", "e", ""),
        ("abcd", "e", "ade", "", ""),
        ("abc", "", "ab", "", "c"),
    ],
)
def test_members_change_one_at_a_time_and_join_before_others_leave(
    voters: str, learners: str, wanted: str, newcomer: str, goner: str
) -> None:
    members = Members(voters=tuple(voters), learners=tuple(learners))
    moving = Moving(None, cluster_with(), None)  # type: ignore[arg-type]
    assert moving.newcomer(members, tuple(wanted)) == newcomer
    assert moving.goner(members, tuple(wanted)) == goner


# Files and snapshots


def test_the_log_is_kept_until_the_files_of_a_seal_are_synced() -> None:
    """R4: before that the bytes stand in the log alone."""
    env, machine = machine_with(1, 2)
    assert not machine.may_compact()
    machine.synced(env, 1)
    assert not machine.may_compact()
    machine.synced(env, 2)
    assert machine.may_compact()


def test_an_object_is_as_good_as_a_file() -> None:
    env, machine = machine_with(1)
    apply(env, machine, Uploaded(segment=machine.group.of_topic(11)[0].segment))
    assert machine.may_compact()


def test_a_large_tail_is_written_anew_only_after_a_seal() -> None:
    env, machine = machine_with(1)
    sync_all(env, machine)
    list(machine.snapshot())
    assert machine.may_compact()
    apply(env, machine, append(1, machine.group.end, ("orders", 0, 1, bytes(SMALL_TAIL_BYTES))))
    assert not machine.may_compact()
    boundary = machine.group.end
    apply(env, machine, append(1, boundary, ("orders", 0, 2, bytes(SMALL_TAIL_BYTES))))
    apply(env, machine, seal(machine.group, boundary))
    sync_all(env, machine)
    assert machine.may_compact()


def test_a_snapshot_without_the_bytes_that_no_object_holds_is_refused() -> None:
    """R4: 3 lags and takes a snapshot without records; the disks of 1 and 2 are lost one after the other."""
    env, machine = machine_with(1, 2)
    sync_all(env, machine)
    plain = b"".join(snapshot_of(machine.group))
    other_env, other = machine_with()
    with pytest.raises(Malformed, match="without the bytes"):
        other.check_snapshot(plain)
    sent = machine.outgoing(plain)
    other.check_snapshot(sent)
    token = other.prepare(other_env, sent)
    assert token is not None and not other.files.held, "the answer waits for the files"
    other.synced(other_env, token)
    other.restore(other_env, other.kept(sent))
    assert other.kept(sent) == plain
    assert list(other.files.held) == list(machine.files.held) == list(other.group.segments)
    other.check_snapshot(plain)
    assert other.prepare(other_env, sent) is None


def test_what_was_trimmed_or_uploaded_since_a_snapshot_is_sent_without_bytes() -> None:
    """The leader may have no file of it any more; what follows in the log says why."""
    env, machine = machine_with(1, 2, 3)
    sync_all(env, machine)
    plain = b"".join(snapshot_of(machine.group))
    first, second, third = machine.group.segments
    apply(env, machine, Uploaded(segment=second))
    machine.files.drop(env, second, "uploaded")
    apply(env, machine, Trim(topic_id=11, version=1, rule=BY_TIME, now_ms=9, starts={0: 1}))
    assert env.disk.size(first.path) == env.disk.size(second.path) == -1
    sent = machine.outgoing(plain)
    other_env, other = machine_with()
    other.check_snapshot(sent)
    token = other.prepare(other_env, sent)
    assert token is not None
    other.synced(other_env, token)
    other.restore(other_env, other.kept(sent))
    assert list(other.files.held) == [third] and list(other.group.segments) == [first, second, third]
    for one in (Uploaded(segment=second), Trim(topic_id=11, version=1, rule=BY_TIME, now_ms=9, starts={0: 1})):
        apply(other_env, other, one)
    assert b"".join(snapshot_of(other.group)) == b"".join(snapshot_of(machine.group))


def test_a_store_that_lacks_bytes_sends_none_rather_than_others() -> None:
    env, machine = machine_with(1)
    sync_all(env, machine)
    plain = b"".join(snapshot_of(machine.group))
    machine.files.drop(env, next(iter(machine.group.segments)), "damaged")
    assert machine.outgoing(plain) == plain


def test_a_snapshot_for_whose_files_the_disk_has_no_room_does_not_count() -> None:
    env, machine = machine_with(1, 2)
    sync_all(env, machine)
    sent = machine.outgoing(b"".join(snapshot_of(machine.group)))
    other_env, other = machine_with()
    other_env.disk.room = 50
    with pytest.raises(Malformed, match="no room"):
        other.prepare(other_env, sent)
    other_env.disk.room = 1 << 30
    assert other.prepare(other_env, sent) is not None


def test_a_sealed_segment_waits_in_memory_for_room_on_the_disk() -> None:
    env, machine = machine_with()
    env.disk.room = 50
    apply(env, machine, append(1, 0, ("orders", 0, 0, b"x")))
    made = apply(env, machine, seal(machine.group, machine.group.end)).made
    segment, data = next(iter(made.items()))
    assert machine.files.read(segment) == data and not machine.may_compact()
    env.disk.room = 1 << 30
    machine.files.retry(env, 5)
    sync_all(env, machine)
    assert machine.files.held == {segment: len(data)} and machine.may_compact()


def test_a_file_that_comes_again_is_not_durable_by_the_sync_of_the_one_before() -> None:
    env, machine = machine_with(1)
    segment = next(iter(machine.group.segments))
    data, first = machine.files.read(segment), env.disk.tokens
    assert data is not None
    machine.files.drop(env, segment, "removed")
    again = machine.flush(env, {segment: data})
    machine.synced(env, first)
    assert again is not None and not machine.files.held and machine.recover() == [segment]
    machine.synced(env, again)
    assert list(machine.files.held) == [segment]


def test_a_replica_that_is_removed_leaves_no_file_behind_durable_or_not() -> None:
    """Else one that joins again would wait for a sync that has long ended."""
    env, machine = machine_with(1, 2)
    first, second = machine.group.segments
    machine.forget(env)
    assert not machine.files.is_pending(first) and not env.disk.list("segments/")
    assert machine.flush(env, {second: b"x"}) == env.disk.tokens


def test_files_that_the_state_has_passed_and_does_not_name_are_strays() -> None:
    env, machine = machine_with(1, 2)
    sync_all(env, machine)
    known = next(iter(machine.group.segments))
    below = Segment(group=5, topic_id=11, start=0, end=known.end, digest="0" * 32)
    beyond = Segment(group=5, topic_id=11, start=machine.group.sealed, end=machine.group.sealed + 9, digest="0" * 32)
    other = Segment(group=6, topic_id=11, start=0, end=known.end, digest="0" * 32)
    assert [machine.is_stray(one) for one in (known, below, beyond, other)] == [False, True, False, False]


def test_what_an_earlier_incarnation_left_is_hashed_and_synced_before_it_counts() -> None:
    """That incarnation may have died before its own sync had ended, and the power may fail yet."""
    env, machine = machine_with(1, 2)
    first, second = machine.group.segments
    env.disk.write(first.path, 3, b"\xff")
    again = SegmentFiles()
    again.begin(env)
    assert not again.is_checked and not again.held
    while not again.is_checked:
        again.go_on(env, lambda group: env)
    assert not again.held and again.is_pending(second) and again.read(second) == machine.files.read(second)
    again.done(env, 5, env.disk.tokens)
    assert list(again.held) == [second] and env.disk.size(first.path) == -1


def test_a_log_is_read_no_further_once_its_replica_is_removed() -> None:
    env, machine = machine_with(1, 2)
    opens: list[Any] = []
    reads = SimpleNamespace(open=lambda env, one, tier, then: opens.append((one.segment, then)))
    groups = SimpleNamespace(machines={5: machine}, reads=reads)
    found: list[Any] = []
    log = LogReads(groups)  # type: ignore[arg-type]
    log.read(env, 5, 1, lambda env, records, end: found.append((records, end)))
    (segment, came), machines = opens.pop(), groups.machines
    machines.clear()
    came(env, OpenSegment.of(segment, machine.files.read(segment)), "local")
    assert found == [(None, segment.end)]
    machine.files.close()
    assert machine.files.read(segment) is None


def test_what_a_member_lacks_is_asked_of_members_and_of_the_object_store_in_turn() -> None:
    """UPLOADED may be forgotten by a restart, when all have let their copies go."""
    env, machine = machine_with(1)
    machine.files.drop(env, next(iter(machine.group.segments)), "uploaded")
    asked: list[str] = []
    tier = SimpleNamespace(fetch=lambda env, segment, then: (asked.append("tier"), then(env, None, True)))
    calls = SimpleNamespace(ask=lambda env, node, request, read, then, ns: (asked.append(node), then(env, None)))
    places = SimpleNamespace(nodes_of=lambda group: ["a", "b", "c"], has=lambda machine: True)
    copying = Copying(machine.files, tier, calls, places, 0)  # type: ignore[arg-type]
    for _ in range(3):
        copying.consider(env, [machine])
    assert sorted(asked) == ["b", "c", "tier"]


def test_every_offset_is_in_one_place() -> None:
    env, machine = machine_with(*range(40))
    group = machine.group
    apply(env, machine, Trim(topic_id=11, version=1, rule=BY_TIME, now_ms=9, starts={0: 7}))
    for offset in range(7, 40):
        found = group.find((11, 0), offset)
        assert found is not None and found.ranges[0] == (offset, offset + 1)
    assert [group.find((11, 0), offset) for offset in (0, 6, 40)] == [None] * 3
