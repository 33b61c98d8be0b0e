"""Trouble that a whole cluster gets into: what is asked for wrongly, and nodes that were set up wrongly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.node import NodeSpec
from reference.split.requests import ConfirmRequest
from reference.split.store.node import Store
from reference.wire.codes import Request, Response
from tests.reference.split.store_world import OPTIONS
from tests.reference.split.test_store import appended, check_all_equal
from tests.reference.split.whole_world import BROKERS, GROUPS, STORES, WholeWorld


def fences(world: WholeWorld) -> list[int]:
    """Return the epoch of each group."""
    machines = {group: world.nodes[world.leader(group)].groups.machines[group] for group in range(GROUPS)}
    return [one.group.fence.epoch for one in machines.values()]


def test_an_epoch_from_the_future_opens_nothing_and_locks_nobody_out() -> None:
    """R12: one broker believes that it was given slice 0 in an epoch that meta's log has not come to."""
    world = WholeWorld()
    owner = world.owner(0)
    other = next(name for name in BROKERS if name != owner)
    node = world.nodes[other]
    before, life, view = fences(world), node.joining.number, node.follower.view
    key = ("owner", "slice-0")
    view.entries[key] = replace(view.entries[key], value={"broker": other, "life": life, "epoch": 1 << 40})
    node.slices.follow(world.envs[other], life)
    world.run(3000)
    assert node.slices.owned[0].epoch == 1 << 40 and not node.slices.owned[0].is_open
    assert world.send(other, b"never").code == Response.SERVICE_NOT_AVAILABLE
    assert fences(world) == before
    assert world.send(owner, b"one").fields["queueOffset"] == "0"
    world.crash(owner)  # and what meta's log says next counts, though it is a lower epoch
    assert world.owner(0, but=owner) == other
    assert before[0] < node.slices.owned[0].epoch < 1 << 40
    assert world.send(other, b"two").fields["queueOffset"] == "1"


def test_a_disk_of_another_cluster_is_left_as_it_is() -> None:
    """Its word is unknown to meta, which would number it as an empty disk that may be wiped."""
    world = appended(target=5)
    make, number = world.make["store-1"], world.store("store-1").identity.number
    world.crash("store-1")
    disk = world.disks["store-1"]
    before = {path: disk.read(path) for path in disk.list()}
    spec = NodeSpec(name="store-1", role="store", package="reference.split", options={**OPTIONS, "cluster_id": "other"})
    world.make["store-1"] = lambda: Store(spec)
    world.start("store-1")
    world.run(3000)
    answer = world.ask("store-1", ConfirmRequest(group=0, epoch=1))
    assert answer.code == Response.SYSTEM_BUSY and "is of cluster '', not 'other'" in answer.remark
    assert {path: disk.read(path) for path in disk.list()} == before
    world.crash("store-1")
    world.make["store-1"] = make
    world.start("store-1")
    world.run(3000)
    assert world.store("store-1").identity.number == number
    check_all_equal(world)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (Request.PULL_MESSAGE, {"queueOffset": 0, "maxMsgNums": 1, "sysFlag": 0}),
        (Request.QUERY_CONSUMER_OFFSET, {"consumerGroup": "g"}),
        (Request.UPDATE_CONSUMER_OFFSET, {"consumerGroup": "g", "commitOffset": 0}),
        (Request.GET_MAX_OFFSET, {}),
        (Request.GET_MIN_OFFSET, {}),
        (Request.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": 0}),
    ],
)
def test_of_an_unknown_topic_it_is_said_that_there_is_none(
    whole: WholeWorld, code: int, fields: dict[str, object]
) -> None:
    answer = whole.of_queue(whole.owner(0), code, topic="nil", **fields)
    assert answer.code == Response.TOPIC_NOT_EXIST and "nil" in answer.remark


@pytest.fixture(scope="module")
def whole() -> WholeWorld:
    """A cluster that the tests only ask."""
    return WholeWorld()


def test_meta_deletes_no_topic_that_it_does_not_know(whole: WholeWorld) -> None:
    answer = whole.ask(whole.meta_leader, Request.META_DELETE_TOPIC, topic="nil")
    assert answer is not None and answer.code == Response.TOPIC_NOT_EXIST and "nil" in answer.remark


def test_below_the_start_there_is_an_error_with_the_start_wherever_readers_look() -> None:
    world = WholeWorld(segment_bytes=500)
    owner = world.owner(0)
    for _ in range(20):
        assert world.send(owner, bytes(100)).code == 0
    changed = world.ask(world.meta_leader, Request.META_TOPIC, topic="t", queues=8, retain_bytes=1000)
    assert changed is not None and changed.code == 0
    world.run(5000)
    start = int(world.of_queue(owner, Request.GET_MIN_OFFSET).fields["offset"])
    assert 0 < start < 20
    for demand in ({}, {"demandSource": "local"}, {"demandSource": "tier"}):
        for offset in (-1, 0, start - 1):
            answer = world.pull(owner, offset, **demand)
            assert (answer.code, answer.fields["nextBeginOffset"]) == (Response.PULL_OFFSET_MOVED, str(start))
    assert world.pull(owner, start).code == 0


@pytest.mark.parametrize("store", STORES)
def test_a_store_whose_disk_is_full_costs_no_service(store: str) -> None:
    """What it leads it gives away, since others have room; what it follows has a majority without it."""
    world = WholeWorld()
    owner = world.owner(0)
    group = group_of_sends(world, owner)
    disk = world.disks[store]
    disk.capacity_bytes = sum(disk.size(path) for path in disk.list())
    assert [world.send(owner, bytes(40_000)).code for _ in range(20)] == [0] * 20
    assert world.leader(group) != store
    disk.capacity_bytes *= 100
    world.run(5000)
    ends = {world.nodes[name].groups.machines[group].group.end for name in STORES}
    assert len(ends) == 1, "it has caught up"


def group_of_sends(world: WholeWorld, owner: str) -> int:
    return int(world.send(owner, b"where").fields["position"]) >> 40


def test_where_all_disks_are_full_the_lead_does_not_go_round() -> None:
    world = WholeWorld()
    owner = world.owner(0)
    group = group_of_sends(world, owner)
    for name in STORES:
        disk = world.disks[name]
        disk.capacity_bytes = sum(disk.size(path) for path in disk.list())
    began, term = world.now, world.nodes[world.leader(group)].groups.host.member(group).term
    assert [world.send(owner, bytes(40_000)).code for _ in range(10)][-1] != 0
    world.run(5000)
    terms = world.nodes[world.leader(group)].groups.host.member(group).term - term
    assert 0 < terms <= 3 * (world.now - began) // 1_000_000_000, "each gives way once a second at most"
    assert world.of_queue(owner, Request.GET_MAX_OFFSET).code == 0, "what needs no room goes on"
    for name in STORES:
        world.disks[name].capacity_bytes *= 100
    world.run(3000)
    assert world.send(owner, b"two").code == 0
