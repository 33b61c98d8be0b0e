"""Three meta nodes: lives, disks, owners with epochs, members of groups, and what is refused."""

from __future__ import annotations

import pytest

from chaos.node import Malformed
from reference.split.mutants.owners import MUTANTS
from reference.wire.codes import Request, Response
from tests.reference.split.meta_world import METAS, MetaWorld


def with_brokers(seed: int = 1, **options: object) -> MetaWorld:
    it = MetaWorld(seed, **options)
    it.register("broker-0")
    it.register("broker-1")
    it.beat(1000)
    return it


def test_slices_are_spread_evenly_over_brokers_and_a_registration_again_is_the_same_life() -> None:
    it = with_brokers()
    assert sorted(broker for broker, _ in it.owners()) == ["broker-0", "broker-1"]
    before = it.owners()
    assert it.register("broker-0") == it.cluster.broker("broker-0").life  # type: ignore[union-attr]
    it.beat(500)
    assert it.owners() == before


@pytest.mark.parametrize("silently", [True, False])
def test_the_slices_of_a_broker_that_dies_get_another_owner_with_the_next_epoch(silently: bool) -> None:
    it = with_brokers()
    before = dict(enumerate(it.owners()))
    it.die("broker-1", silently=silently)
    it.beat(3000 if silently else 200)
    for number, (broker, epoch) in enumerate(it.owners()):
        assert (broker, epoch) == ("broker-0", before[number][1] + (before[number][0] == "broker-1"))
    assert it.cluster.broker("broker-1").state == "gone"  # type: ignore[union-attr]


def test_an_owner_that_comes_back_gets_an_epoch_of_its_own() -> None:
    it = with_brokers()
    for _ in range(2):
        it.die("broker-1", silently=False)
        it.beat(300)
        it.register("broker-1")
        it.beat(1000)
    epochs: dict[str, list[int]] = {}
    for row in it.entries("owner"):
        epochs.setdefault(row["name"], []).append(row["value"]["epoch"])
    moved = max(epochs.values(), key=len)
    assert len(moved) >= 4 and all(found == list(range(1, len(found) + 1)) for found in epochs.values())


def test_two_incarnations_of_a_broker_never_share_a_life_nor_an_epoch() -> None:
    it = with_brokers()
    first, before = it.cluster.broker("broker-1").life, it.owners()  # type: ignore[union-attr]
    second = it.register("broker-1", "another")
    assert second > first
    it.beat(500)
    number = next(number for number, (broker, _) in enumerate(before) if broker == "broker-1")
    owner = it.cluster.owner(number)
    assert owner.epoch > before[number][1] and (owner.broker, owner.life) != ("broker-1", first)


def test_a_life_that_meta_has_ended_does_not_go_on() -> None:
    it = with_brokers()
    first = it.cluster.broker("broker-1").life  # type: ignore[union-attr]
    it.die("broker-1")
    it.beat(3000)
    it.living["broker-1"] = "life", str(first)  # it was only asleep, and doesn't know
    it.beat(1000)
    assert not it.cluster.broker("broker-1").lives  # type: ignore[union-attr]
    assert it.register("broker-1") > first


def test_a_heartbeat_of_an_older_life_or_of_a_stranger_keeps_nobody_alive() -> None:
    it = with_brokers()
    old = it.living["broker-1"]
    it.register("broker-1", "another")
    it.beat(500)
    it.living["broker-1"] = old
    it.living["broker-9"] = "life", "7"
    it.beat(3000)
    assert not it.cluster.broker("broker-1").lives  # type: ignore[union-attr]
    assert it.cluster.broker("broker-9") is None


def test_nobody_owns_a_slice_while_no_broker_lives() -> None:
    it = MetaWorld()
    it.register("broker-0")
    it.beat(500)
    assert it.owners() == [("broker-0", 1)] * 2
    it.die("broker-0", silently=False)
    it.beat(500)
    assert it.owners() == [("", 2)] * 2


def test_a_new_leader_gives_everybody_a_timeout() -> None:
    it = with_brokers()
    before = it.owners()
    old = it.leader
    it.crash(old)
    it.run(2000, until=lambda: any(name in it.envs and it.nodes[name].raft.leads_committed for name in METAS))
    it.run(1000)
    assert it.owners() == before, "nobody has said anything to the new leader yet"
    it.beat(3000)
    assert it.owners() == before
    it.heal()


def test_a_leader_that_was_stopped_forgives_what_it_has_not_heard() -> None:
    it = with_brokers()
    before, leader = it.owners(), it.leader
    node, env = it.nodes[leader], it.envs[leader]
    it.now += 3_000_000_000
    node.timer(env, "scan")
    it.run(50)
    assert it.leader == leader and it.owners() == before


def test_drained_brokers_lose_their_slices_one_at_a_time_and_get_none() -> None:
    it = with_brokers()
    assert it.ask(it.leader, Request.META_DRAIN, node="broker-0").code == 0
    it.beat(1000)
    assert {broker for broker, _ in it.owners()} == {"broker-1"}
    it.register("broker-0", "another life")
    it.beat(1000)
    assert {broker for broker, _ in it.owners()} == {"broker-1"}, "a drained broker stays drained"
    assert it.ask(it.leader, Request.META_UNDRAIN, node="broker-0").code == 0
    it.beat(1000)
    assert {broker for broker, _ in it.owners()} == {"broker-0", "broker-1"}
    assert it.ask(it.leader, Request.META_DRAIN, node="broker-9").code == Response.INVALID_PARAMETER


# Stores and groups


def with_stores(count: int = 4, **options: object) -> MetaWorld:
    it = MetaWorld(**{"store_timeout_ms": 1000, "birth_stores": count, **options})
    for number in range(count):
        it.register(f"store-{number}", f"w{number}", f"z{number % 3}")
    it.beat(500)
    return it


def test_groups_are_born_once_there_are_enough_stores_in_zones_of_their_own() -> None:
    it = with_stores(3, groups=6, birth_stores=3)
    assert len(it.cluster.groups()) == 6
    for group in it.cluster.groups():
        assert sorted(name.partition("#")[0] for name in group.birth) == ["store-0", "store-1", "store-2"]
        assert group.birth == group.voters == group.wanted and group.index == 0


def test_a_store_that_is_silent_is_replaced_and_the_map_follows_reports_alone() -> None:
    it = with_stores()
    victim = next(group for group in it.cluster.groups() if any("store-1#" in name for name in group.voters))
    it.die("store-1")
    it.beat(2500)
    now = it.cluster.group(victim.number)
    assert now is not None and now.voters == victim.voters, "a wish changes no route"
    assert not any("store-1#" in name for name in now.wanted) and len(set(now.wanted)) == 3
    newcomer = next(name for name in now.wanted if name not in now.voters)
    staying = [name for name in now.voters if name in now.wanted]
    assert it.report(now.number, 7, [*staying, "store-1#2"], (newcomer,)).code == 0
    assert it.report(now.number, 9, [*staying, newcomer]).code == 0
    assert it.report(now.number, 8, [*staying, "store-1#2", newcomer]).code == 0, "an older one is no error"
    known = it.cluster.group(now.number)
    assert known is not None and (known.index, list(known.voters)) == (9, [*staying, newcomer]) and known.is_settled


def test_a_store_that_comes_back_in_time_or_later_keeps_its_disk_and_a_wiped_one_does_not() -> None:
    it = with_stores()
    disk = int(it.living["store-1"][1])
    assert it.register("store-1", "w1", "z1") == disk
    it.die("store-1")
    it.beat(2000)
    assert it.cluster.store("store-1").state == "gone"  # type: ignore[union-attr]
    it.living["store-1"] = "disk", str(disk)
    it.beat(500)
    assert it.cluster.store("store-1").state == "up"  # type: ignore[union-attr]
    assert it.register("store-1", "wiped", "z1") > disk
    it.beat(500)
    moving = [group for group in it.cluster.groups() if not group.is_settled]
    assert moving and all(f"store-1#{disk}" not in group.wanted for group in moving)


def test_a_store_whose_connection_broke_may_be_silent_for_as_long_as_any() -> None:
    it = with_stores()
    it.beat(2500)
    it.die("store-1", silently=False)
    it.beat(500)
    assert it.cluster.store("store-1").state == "up"  # type: ignore[union-attr]
    it.beat(2000)
    assert it.cluster.store("store-1").state == "gone"  # type: ignore[union-attr]


def test_a_new_leader_calls_no_store_back_that_it_has_heard_long_ago() -> None:
    it = with_stores()
    it.die("store-1")
    it.beat(2500)
    it.crash(it.leader)
    it.beat(3000)
    states = [row["value"]["state"] for row in it.entries("store") if row["name"] == "store-1"]
    assert states == ["up", "gone"]


def test_only_so_many_groups_move_at_once() -> None:
    it = with_stores(groups=12, moves=2)
    assert it.ask(it.leader, Request.META_DRAIN, node="store-0").code == 0
    for index in range(1, 40):
        it.beat(300)
        moving = [group for group in it.cluster.groups() if not group.is_settled]
        assert len(moving) <= 2
        for group in moving:
            it.report(group.number, index, list(group.wanted))
    assert not any("store-0#" in name for group in it.cluster.groups() for name in group.voters)


def test_a_report_of_somebody_else_is_refused() -> None:
    it = with_stores(3)
    group = it.cluster.groups()[0]
    fields = {"group": "0", "index": "3", "node": "store-0", "disk": group.voters[0].partition("#")[2]}
    body = {"voters": list(group.voters), "learners": []}
    assert it.ask(it.leader, Request.META_REPORT, body, "client", **fields).code == Response.NO_PERMISSION
    body = {"voters": ["store-1#1"], "learners": []}
    assert it.ask(it.leader, Request.META_REPORT, body, "store-0", **fields).code == Response.NO_PERMISSION
    for bad in ({"voters": "x"}, {"voters": ["x"], "learners": []}, {"voters": [], "learners": []}, []):
        assert it.ask(it.leader, Request.META_REPORT, bad, "store-0", **fields).code in (16, 29)


def test_a_store_that_joins_gets_replicas_one_at_a_time() -> None:
    it = with_stores(3, groups=6)
    it.register("store-3", "w3", "z0")
    for index in range(1, 40):
        it.beat(300)
        moving = [group for group in it.cluster.groups() if not group.is_settled]
        assert len(moving) <= 1
        for group in moving:
            it.report(group.number, index, list(group.wanted))
    held = [name.partition("#")[0] for group in it.cluster.groups() for name in group.voters]
    assert held.count("store-3") == 3 == held.count("store-0")


# Topics


def test_topics_are_made_changed_deleted_and_made_again_with_another_id() -> None:
    it = MetaWorld()
    made = it.topic("t", 4).fields
    assert made["queues"] == "4" and made["version"] == "1"
    assert it.topic("t", 2).fields == {**made, "revision": made["revision"]}, "fewer queues change nothing"
    grown = it.topic("t", 8, retain_ms="1000").fields
    assert (grown["id"], grown["queues"], grown["version"]) == (made["id"], "8", "2")
    assert it.topic("t", 9, expectedVersion="1").code == Response.METADATA_CONFLICT
    assert it.topic("u", 0).code == Response.INVALID_PARAMETER
    assert it.ask(it.leader, Request.META_DELETE_TOPIC, topic="t").code == 0
    assert it.ask(it.leader, Request.META_DELETE_TOPIC, topic="t").code == Response.TOPIC_NOT_EXIST
    assert it.cluster.topic("t") is None and it.cluster.is_deleted(int(made["id"]))
    again = it.topic("t", 1).fields
    assert int(again["id"]) > int(made["id"]) and again["queues"] == "1" and again["retain_ms"] == "0"
    assert not it.cluster.is_deleted(int(again["id"]))


# Trouble


def test_without_a_majority_changes_are_refused_in_a_sentence() -> None:
    it = with_brokers()
    left = it.leader
    for name in METAS:
        if name != left:
            it.crash(name)
    late = it.ask(left, Request.META_TOPIC, topic="t", queues="1")
    assert late.code == Response.SYSTEM_ERROR and "unknown outcome" in late.remark
    it.run(3000)
    refused = it.ask(left, Request.META_TOPIC, topic="t", queues="1")
    assert refused.code == Response.CONTROLLER_NOT_LEADER and "no leader that a majority follows" in refused.remark
    assert it.ask(left, Request.DESCRIBE).code == 0
    it.heal()
    it.beat(3000)
    assert it.topic("u", 1).code == 0


def test_followers_name_the_leader() -> None:
    it = MetaWorld()
    follower = next(name for name in METAS if name != it.leader)
    answer = it.ask(follower, Request.META_TOPIC, topic="t", queues="1")
    assert answer.code == Response.CONTROLLER_NOT_LEADER and answer.fields == {"leader": it.leader}


def test_nodes_of_another_cluster_are_refused() -> None:
    it = MetaWorld(cluster_id="ours")
    fields = {"node": "store-0", "kind": "store", "word": "w", "cluster": "theirs"}
    answer = it.ask(it.leader, Request.META_REGISTER, None, "store-0", **fields)
    assert answer.code == Response.NO_PERMISSION and "'theirs'" in answer.remark
    assert it.cluster.stores() == []
    fields["cluster"] = "ours"
    assert it.ask(it.leader, Request.META_REGISTER, None, "store-0", **fields).code == 0


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (Request.META_REGISTER, {"node": "broker-0", "kind": "broker"}),
        (Request.META_REGISTER, {"node": "broker-0", "kind": "x", "nonce": "n"}),
        (Request.META_REGISTER, {"node": "broker-1", "kind": "broker", "nonce": "n"}),
        (Request.META_HEARTBEAT, {"node": "broker-0", "kind": "broker"}),
        (Request.META_HEARTBEAT, {"node": "broker-0", "kind": "broker", "life": "-1"}),
        (Request.META_TOPIC, {"queues": "1"}),
        (Request.META_TOPIC, {"topic": "t", "queues": "x"}),
        (Request.META_TOPIC, {"topic": "t", "queues": "-1"}),
        (Request.META_TOPIC, {"topic": "t", "queues": str(1 << 40)}),
        (Request.META_TOPIC, {"topic": "t", "queues": "1", "retain_ms": "-2"}),
        (Request.META_TOPIC, {"topic": "t" * 128, "queues": "1"}),
        (Request.META_DELETE_TOPIC, {}),
        (Request.META_DRAIN, {}),
        (Request.META_REPORT, {"group": "-1", "index": "1", "node": "broker-0", "disk": "1"}),
        (Request.METADATA_PUT, {"kind": "topic", "name": "t"}),
    ],
)
def test_what_makes_no_sense_is_refused_and_logs_nothing(code: int, fields: dict[str, str]) -> None:
    it = MetaWorld()
    answer = it.ask(it.leader, code, None, "broker-0", **fields)
    refusals = (Response.INVALID_PARAMETER, Response.NO_PERMISSION, Response.REQUEST_CODE_NOT_SUPPORTED)
    assert answer.code in refusals and it.cluster.revision == 0


def test_a_member_begins_again_at_a_snapshot() -> None:
    it = MetaWorld(snapshot_entries=8)
    away = next(name for name in METAS if name != it.leader)
    it.crash(away)
    it.register("broker-0")
    for number in range(30):
        it.topic(f"t{number}", 1)
    it.heal()
    it.beat(3000)
    assert it.nodes[away].raft.log.snapshot_index > 8
    assert it.nodes[away].catalog.entries == it.nodes[it.leader].catalog.entries


# Planted bugs


def test_a_planted_bug_takes_the_place_of_one_decision() -> None:
    assert all("meta" in planted.parts for planted in MUTANTS)
    it = MetaWorld(mutant="epoch-used-again")
    it.register("broker-0")
    it.beat(500)
    it.register("broker-1")
    it.beat(500)
    for name in ("broker-1", "broker-0"):
        it.die(name, silently=False)
        it.beat(300)
        it.register(name, "again")
        it.beat(1000)
    epochs: dict[str, list[int]] = {}
    for row in it.entries("owner"):
        epochs.setdefault(row["name"], []).append(row["value"]["epoch"])
    assert any(len(set(found)) < len(found) for found in epochs.values())
    twice = MetaWorld(mutant="two-lives-one-node")
    assert twice.register("broker-0", "first") == twice.register("broker-0", "second")
    dead = MetaWorld(mutant="given-to-the-dead")
    dead.register("broker-0")
    dead.beat(500)
    dead.die("broker-0", silently=False)
    dead.beat(5000)
    assert dead.owners() == [("broker-0", 1)] * 2


def test_a_snapshot_of_another_member_with_what_meta_never_writes_is_refused() -> None:
    it = MetaWorld()
    it.register("broker-0")
    node = it.nodes[it.leader]
    good = b"".join(node.snapshot())
    node.check_snapshot(good)
    for bad in (good.replace(b'"up"', b'"?"'), good.replace(b'"broker-0"', b'""'), b"\nx"):
        with pytest.raises(Malformed):
            node.check_snapshot(bad)
