"""Stores in a small world: appends through crashes, segments in files and objects, members that come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chaos.node import DiskFull, Node, NodeSpec
from reference.broker.records import decode_all
from reference.split.joining import MetaRequest
from reference.split.requests import AppendRequest, ConfirmRequest, FenceRequest, ReadRequest, place_of
from reference.split.store.machine import GroupMachine
from reference.split.store.node import Store
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.split.owner import append
from tests.reference.split.store_world import STORES, TOPIC, StoreWorld


def log_of(world: StoreWorld, node: str, group: int) -> list[tuple[int, int, bytes]]:
    """Return (offset, position, body) of each record that a store has, wherever its bytes lie."""
    state = world.store(node).groups
    assert state is not None
    position, end = state.machines[group].group.start, state.machines[group].group.end
    found = []
    while position < end:
        fields = {"group": str(group), "position": str(position)}
        answer = world.ask(node, MetaRequest(Request.READ_LOG, fields))
        assert answer.code == Response.SUCCESS, answer.remark
        for one in decode_all(answer.body):
            assert place_of(one.position)[0] == group
            found.append((one.offset, place_of(one.position)[1], one.body))
        position = int(answer.fields["next"])
    return found


def check_all_equal(world: StoreWorld) -> None:
    """Every replica has every acknowledged record, dense offsets, and the same bytes."""
    for group in range(2):
        logs = [log_of(world, node, group) for node in world.members(group)]
        assert len(logs) == 3
        assert all(log == logs[0] for log in logs)
        bodies = {offset: body for offset, _, body in logs[0]}
        assert list(bodies) == list(range(len(bodies)))
        for offset, body in enumerate(world.owner.acked[group]):
            assert body in (b"?", bodies[offset]), f"record {offset} of group {group} was acknowledged, and is gone"


@pytest.mark.parametrize("seed", range(2))
def test_appends_through_crashes_of_stores_leave_all_bytes_equal(seed: int) -> None:
    world = StoreWorld(seed, target=60)
    world.make_topic()
    for crashed in [*STORES, STORES[seed]]:
        world.run(world.rng.randint(200, 600))
        world.crash(crashed)
        world.run(world.rng.randint(200, 900))
        world.start(crashed)
    world.run(30_000, until=world.all_is_appended)
    assert world.all_is_appended(), (world.owner.acked.keys(), world.owner.refusals[-5:])
    world.run(2500)
    check_all_equal(world)
    names = [name for _, _, name, _ in world.traces]
    assert "crash" not in names
    assert names.count("sealed") >= 12 and names.count("uploaded") >= 6


def appended(seed: int = 3, target: int = 40, **options: object) -> StoreWorld:
    """A cluster in which all of the owner's records are acknowledged, sealed and uploaded."""
    world = StoreWorld(seed, target=target, **options)
    world.make_topic()
    world.run(30_000, until=world.all_is_appended)
    assert world.all_is_appended(), world.owner.refusals[-5:]
    world.run(2500)
    return world


def read(world: StoreWorld, node: str, offset: int, *, group: int = 0, **more: Any) -> Command:
    topic_id = next(iter(machine_of(world, node, group).group.names))
    limits = {"count": 32, "bytes": 1 << 20, **more}
    request = ReadRequest(group=group, topic_id=topic_id, number=group, offset=offset, **limits)
    return world.ask(node, request)


def machine_of(world: StoreWorld, node: str, group: int) -> GroupMachine:
    groups = world.store(node).groups
    assert groups is not None
    return groups.machines[group]


def traced(world: StoreWorld, name: str, node: str = "") -> list[dict[str, Any]]:
    return [fields for who, _, what, fields in world.traces if what == name and node in ("", who)]


@pytest.fixture(scope="module")
def settled() -> StoreWorld:
    """A cluster that the tests only ask, with a store that has no replicas."""
    return appended(target=20, stores=4)


# Members that come and go


def test_a_wiped_store_is_another_disk_that_votes_once_it_has_all(seed: int = 5) -> None:
    """R6, R4: it comes back under its name and says nothing of what it had promised; then it holds it again."""
    world = StoreWorld(seed, target=80)
    world.make_topic()
    world.run(1200)
    before = world.store("store-1").identity.number
    world.wipe("store-1")
    world.run(300)
    world.start("store-1")
    world.run(40_000, until=world.all_is_appended)
    world.run(6000)
    now = world.store("store-1").identity.number
    assert now > before
    for group in range(2):
        index, members = world.store("store-1").groups.host.replicas[group].committed_members()  # type: ignore[union-attr]
        assert f"store-1#{now}" in members.voters and f"store-1#{before}" not in members.all, members
        reported = world.owner.follower.cluster.group(group)
        assert reported is not None and reported.index <= index
        assert sorted(reported.voters) == sorted(members.voters)
    check_all_equal(world)


def test_a_store_that_dies_is_replaced_by_another_one() -> None:
    world = StoreWorld(7, target=60, stores=4)
    world.make_topic()
    world.run(1500)
    dead = world.members(0)[0]
    world.crash(dead)
    world.run(40_000, until=world.all_is_appended)
    world.run(8000)
    check_all_equal(world)
    for group in range(2):
        assert dead not in world.members(group)


def test_a_drained_store_holds_nothing() -> None:
    world = StoreWorld(8, target=60, stores=4)
    world.make_topic()
    world.run(1500)
    drained = world.members(0)[0]
    assert world.ask("meta-0", MetaRequest(Request.META_DRAIN, {"node": drained})).code == Response.SUCCESS
    world.run(40_000, until=world.all_is_appended)
    world.run(6000)
    check_all_equal(world)
    assert all(drained not in world.members(group) for group in range(2))
    groups = world.store(drained).groups
    assert groups is not None and not groups.files.held and not world.disks[drained].list("segments/")


def test_a_replica_without_a_vote_asks_whether_it_was_removed() -> None:
    world = StoreWorld(9, target=10, stores=4)
    world.make_topic()
    world.run(1500)
    drained = world.members(0)[0]
    assert world.ask("meta-0", MetaRequest(Request.META_DRAIN, {"node": drained})).code == Response.SUCCESS
    world.run(20_000, until=lambda: drained not in world.members(0))
    world.store(drained).groups.host._begin_log(world.envs[drained], 0, ())  # type: ignore[union-attr]
    assert drained in world.members(0)  # as one that joined late, by a message
    world.run(3000)
    assert drained not in world.members(0)


# Segments and reads


def test_any_member_reads_what_it_has_from_file_or_object(settled: StoreWorld) -> None:
    world = settled
    for node in world.members(0):
        bodies = [one.body for one in decode_all(read(world, node, 0).body)]
        assert bodies == world.owner.acked[0][: len(bodies)] and bodies
        assert read(world, node, 0).fields["source"] == "local"
        tiered = read(world, node, 0, tier="only")
        assert (tiered.fields["source"], tiered.body) == ("tier", read(world, node, 0).body)
        assert read(world, node, 20).code == Response.GROUP_BEHIND, "never empty"
        assert read(world, node, 0, map=0).code == 0
        assert read(world, node, 0, map=9999).code == Response.GROUP_MOVED, "it may be a member no more"


def test_uploaded_segments_beyond_the_limit_are_read_from_the_object_store() -> None:
    world = appended(local_bytes=4000)
    for node in STORES:
        machine = machine_of(world, node, 0)
        assert sum(size for one, size in machine.files.held.items()) <= 4000
        answer = read(world, node, 0)
        assert (answer.code, answer.fields["source"]) == (0, "tier")
        assert read(world, node, 0, tier="no").code == Response.GROUP_BEHIND
    check_all_equal(world)


@pytest.mark.parametrize("is_uploaded", [True, False])
def test_a_damaged_segment_is_copied_again(is_uploaded: bool) -> None:
    world = StoreWorld(4, target=40)
    world.make_topic()
    if not is_uploaded:
        world.crash("tier-0")
    world.run(30_000, until=world.all_is_appended)
    world.run(2000)
    path = world.disks["store-2"].list("segments/")[0]
    content = bytearray(world.disks["store-2"].read(path))
    content[100] ^= 4
    world.crash("store-2")
    world.disks["store-2"].replace(path, bytes(content))
    world.start("store-2")
    world.run(4000)
    assert [one["why"] for one in traced(world, "dropped", "store-2")] == ["damaged"]
    assert traced(world, "held", "store-2")[-1]["source"] == ("tier" if is_uploaded else "replica")
    content[100] ^= 4
    assert world.disks["store-2"].read(path) == bytes(content)
    check_all_equal(world)


def test_a_replica_that_seals_other_bytes_becomes_another_disk() -> None:
    """R5: its hash differs from its leader's."""
    world = StoreWorld(6, target=60)
    world.make_topic()
    world.run(1000)
    follower = next(name for name in STORES if not world.leads(name))
    before = world.store(follower).identity.number
    world.run(3000, until=lambda: len(machine_of(world, follower, 0).group.tail.data) > 200)
    machine_of(world, follower, 0).group.tail.data[150] ^= 1
    world.run(40_000, until=world.all_is_appended)
    world.run(8000)
    assert world.store(follower).identity.number > before
    check_all_equal(world)


# Retention


def objects(world: StoreWorld) -> list[str]:
    return world.disks["tier-0"].list("objects/seg/")


def test_what_is_old_goes_from_files_and_objects_and_is_an_error_with_the_start() -> None:
    world = appended()
    assert objects(world)
    world.make_topic(retain_ms=1000)
    world.run(4000)
    trims = traced(world, "trim")
    assert {one["rule"] for one in trims} == {"time"}
    assert all(one["now_ms"] - one["newest_ms"] >= 1000 for one in trims)
    for node in STORES:
        assert read(world, node, 0).code == Response.GROUP_BELOW_START
        assert int(read(world, node, 0).fields["start"]) == 40
        assert not machine_of(world, node, 0).files.held
    assert objects(world) == []


def test_what_is_too_much_goes_and_the_limit_stays() -> None:
    world = appended()
    world.make_topic(retain_bytes=4000)
    world.run(4000)
    for one in traced(world, "trim"):
        assert one["rule"] == "size" and one["left_bytes"] >= 4000
    key = next(iter(machine_of(world, "store-0", 0).group.queues))
    starts = [machine_of(world, node, 0).minimum(key) for node in STORES]
    assert len(set(starts)) == 1 and 0 < starts[0] < 40
    check_kept = [len(machine_of(world, node, 0).files.held) for node in STORES]
    assert len(set(check_kept)) == 1
    assert len(objects(world)) == sum(len(machine_of(world, "store-0", group).group.segments) for group in range(2))


def test_a_deleted_topic_leaves_nothing_and_its_name_begins_again() -> None:
    world = appended()
    assert world.ask("meta-0", MetaRequest(Request.META_DELETE_TOPIC, {"topic": TOPIC})).code == 0
    world.make_topic()
    world.run(4000)
    assert {one["rule"] for one in traced(world, "trim")} == {"deleted"}
    assert objects(world) == []
    for node in STORES:
        group = machine_of(world, node, 0).group
        assert not group.segments and not group.commits


def test_one_clock_that_leaps_trims_nothing() -> None:
    """R10: the leader's wall clock is a year ahead; the median of the members' is not."""
    world = appended(target=20)
    leader = next(name for name in STORES if world.leads(name))
    env = world.envs[leader]
    env.wall_ns = lambda: world.now + 365 * 86_400 * 1_000_000_000  # type: ignore[method-assign]
    world.make_topic(retain_ms=3_600_000)
    world.run(3000)
    assert traced(world, "trim") == []


# Bad input and trouble


def test_an_epoch_that_meta_does_not_name_is_never_logged(settled: StoreWorld) -> None:
    """R12: a bogus epoch would lock the slice for ever."""
    world = settled
    leader = next(name for name in world.members(0) if world.leads(name))
    bogus = FenceRequest(group=0, slice=0, epoch=1 << 40, broker="broker-0", life=world.owner.joining.number)
    answer = world.ask(leader, bogus)
    assert answer.code == Response.SYSTEM_BUSY and "doesn't know" in answer.remark
    assert machine_of(world, leader, 0).group.fence.epoch == world.owner.fenced_epoch
    late = ConfirmRequest(group=0, epoch=world.owner.fenced_epoch + 1)
    assert world.ask(leader, late).code == Response.GROUP_FENCED
    assert world.ask(leader, ConfirmRequest(group=0, epoch=world.owner.fenced_epoch)).code == 0


def test_who_does_not_lead_names_the_leader_and_who_has_no_replica_says_so(settled: StoreWorld) -> None:
    world = settled
    leader = next(name for name in world.members(0) if world.leads(name))
    other = next(name for name in world.members(0) if name != leader)
    answer = world.ask(other, ConfirmRequest(group=0, epoch=1))
    assert (answer.code, answer.fields["leader"]) == (Response.GROUP_NOT_LEADER, leader)
    outside = next(name for name in ("store-0", "store-1", "store-2", "store-3") if name not in world.members(0))
    assert world.ask(outside, ConfirmRequest(group=0, epoch=1)).code == Response.GROUP_MOVED


def test_a_leader_with_a_full_disk_refuses_appends_and_gives_way() -> None:
    world = appended(target=10)
    leader = next(name for name in STORES if world.leads(name))
    disk, write = world.disks[leader], world.disks[leader].write

    def full(path: str, offset: int, data: bytes) -> None:
        if len(data) > 2000 or path.startswith("segments/"):
            raise DiskFull("no room")
        write(path, offset, data)

    disk.write = full  # type: ignore[method-assign]
    host = world.store(leader).groups.host  # type: ignore[union-attr]
    host.wal.room.begin(host.wal.size)  # nothing is filled ahead
    big = append(world.owner.fenced_epoch, world.owner.ends[0], (TOPIC, 0, 10, bytes(3000)), group=0, topics={TOPIC: 5})
    request = AppendRequest(
        group=0, epoch=big.epoch, position=big.position, crc=big.crc, topics=big.topics, records=big.records
    )
    answer = world.ask(leader, request)
    assert answer.code == Response.SYSTEM_BUSY and "full" in answer.remark
    world.run(1000)
    other = next(name for name in STORES if world.leads(name))
    assert other != leader
    assert world.ask(other, ConfirmRequest(group=0, epoch=world.owner.fenced_epoch)).code == 0


def test_a_leader_that_meta_cannot_reach_gives_way_to_one_that_knows_the_new_owner() -> None:
    """Else nobody could open its groups before the cut heals: it logs no fence of an owner that it doesn't know."""
    world = appended(target=10)
    leader = next(name for name in STORES if world.leads(name))
    world.block(leader, "meta-0")
    world.crash("broker-0")
    world.start("broker-0")
    world.run(8000, until=lambda: len(world.owner.ends) == 2)
    assert len(world.owner.ends) == 2 and not world.leads(leader)
    assert Response.SYSTEM_BUSY in world.owner.refusals


@pytest.mark.parametrize("path", ["raft/log.", "store/identity"])
def test_a_disk_that_lost_what_was_synced_begins_as_another_one(path: str) -> None:
    """R6: below the bound nobody knows which votes and entries were lost."""
    world = appended(target=10)
    before, disk = world.store("store-1").identity.number, world.disks["store-1"]
    damaged = disk.list(path)[-1]
    content = bytearray(disk.read(damaged))
    content[len(content) // 3 if path == "store/identity" else 60] ^= 1
    world.crash("store-1")
    disk.replace(damaged, bytes(content))
    world.start("store-1")
    world.run(6000)
    now = world.store("store-1").identity.number
    assert now > before
    for group in range(2):
        members = world.store("store-0").groups.host.replicas[group].committed_members()[1]  # type: ignore[union-attr]
        assert f"store-1#{now}" in members.voters and f"store-1#{before}" not in members.all
    check_all_equal(world)


class StrangerWorld(StoreWorld):
    """The last store was set up for another cluster."""

    def make_store(self, name: str) -> Callable[[], Node]:
        options = {**self.options, "cluster_id": "other" if name == "store-3" else ""}
        return lambda: Store(NodeSpec(name=name, role="store", package="reference.split", options=options))


def test_a_store_of_another_cluster_gets_no_number_and_holds_nothing() -> None:
    world = StrangerWorld(2, target=5, stores=4)
    world.make_topic()
    world.run(20_000, until=world.all_is_appended)
    assert world.store("store-3").groups is None and "store-3" not in world.members(0)
    answer = world.ask("store-3", ConfirmRequest(group=0, epoch=1))
    assert answer.code == Response.SYSTEM_BUSY and "no disk that meta knows" in answer.remark
    fields = {"node": "asker", "kind": "store", "cluster": "other"}
    own = world.ask("meta-0", MetaRequest(Request.META_REGISTER, fields))
    assert own.code == Response.NO_PERMISSION and "'other'" in own.remark


def test_a_disk_that_is_being_wiped_takes_no_number_of_what_it_was() -> None:
    """R6: it would vote as the disk whose entries are gone."""
    world = StoreWorld(3, target=10)
    world.run(8000, until=world.all_is_appended)
    world.crash("meta-0")
    world.crash("store-2")
    world.start("store-2")
    world.run(300)
    store, env = world.store("store-2"), world.envs["store-2"]
    assert store.groups is not None and not store.joining.has_joined
    word, number = store.identity.word, store.identity.number
    store._begin_anew(env, is_damaged=True)
    store.joining.number = number
    store._joined(env)  # meta's answer to the word of before comes now
    assert store.identity.word != word and store.identity.number == 0
    assert env.disk.list(), "nothing is removed before the old word is forgotten"
    world.start("meta-0")
    world.run(3000)
    assert store.identity.number > number and store.groups is not None
