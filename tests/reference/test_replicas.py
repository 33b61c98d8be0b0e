"""The controllers' state machine: ids, incarnations, elections and the SyncStateSet."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from reference.controller.replicas import BY_CONTROLLER, Outcome, Replicas
from reference.wire.codes import Response

GROUP = "broker"


def apply_id(state: Replicas, broker: int, address: str, stamp: str = "1") -> Outcome:
    check_code = f"{address};{stamp}"
    entry = {"op": "apply_id", "group": GROUP, "cluster": "c", "broker_id": broker, "check_code": check_code}
    return state.apply(entry)


def register(state: Replicas, broker: int, generation: int, *, clean: bool = True, life: str = "") -> Outcome:
    entry = {"op": "register", "group": GROUP, "broker_id": broker, "address": f"b{broker}"}
    return state.apply({**entry, "generation": generation, "clean": clean, "life": life or f"life-{generation}"})


def elect(state: Replicas, broker: int, alive: dict[int, tuple[int, int, int]], **more: Any) -> Outcome:
    entry = {"op": "elect", "group": GROUP, "broker_id": broker, "designate": False, "suspect": -1}
    return state.apply({**entry, "alive": {str(key): list(at) for key, at in alive.items()}, **more})


def alter(state: Replicas, members: list[int], alive: dict[int, tuple[int, int, int]], **more: Any) -> Outcome:
    group = state.groups[GROUP]
    entry = {"op": "alter", "group": GROUP, "set": members, "master_id": group.master}
    entry |= {"master_epoch": group.master_epoch, "set_epoch": group.set_epoch}
    return state.apply({**entry, "alive": {str(key): list(at) for key, at in alive.items()}, **more})


ALL = {1: (1, 100, 1), 2: (1, 100, 1), 3: (1, 100, 1)}


def three(*, unclean: bool = False) -> Replicas:
    """Three replicas, all in the set, 1 is master of epoch 1."""
    state = Replicas(unclean=unclean)
    for broker in (1, 2, 3):
        assert apply_id(state, broker, f"b{broker}").code == 0
        assert register(state, broker, 1).code == 0
    assert elect(state, 1, ALL).code == 0
    assert alter(state, [1, 2, 3], ALL).code == 0
    return state


def test_the_first_caller_wins_and_is_flagged_as_bootstrap() -> None:
    changed = elect_first().changed
    assert changed["bootstrap"] is True
    assert (changed["master"], changed["master_epoch"], changed["set"], changed["set_epoch"]) == ("b2", 1, ["b2"], 1)


def elect_first() -> Outcome:
    state = Replicas()
    for broker in (1, 2):
        apply_id(state, broker, f"b{broker}")
        register(state, broker, 1)
    assert elect(state, BY_CONTROLLER, ALL).code == Response.CONTROLLER_ELECT_MASTER_FAILED
    return elect(state, 2, {2: (-1, 0, 1)})


def test_ids_are_given_once() -> None:
    state = Replicas()
    assert apply_id(state, 2, "b2").code == Response.CONTROLLER_BROKER_ID_INVALID
    assert apply_id(state, 1, "b1").code == 0
    assert apply_id(state, 1, "b1").code == 0, "asked again after a lost answer"
    assert apply_id(state, 1, "b2").code == Response.CONTROLLER_BROKER_ID_INVALID
    assert apply_id(state, 2, "b2").code == 0
    assert state.next_id(GROUP) == 3
    state.apply({"op": "clean", "group": GROUP, "ids": [2], "alive": {}, "force": False})
    assert apply_id(state, 2, "b2", "9").code == Response.CONTROLLER_BROKER_ID_INVALID


def test_the_master_comes_from_the_set_by_epoch_then_end_then_id() -> None:
    state = three()
    alive = {2: (1, 100, 1), 3: (1, 200, 1)}
    changed = elect(state, BY_CONTROLLER, alive, suspect=1).changed
    assert (changed["master"], changed["master_epoch"], changed["set"]) == ("b3", 2, ["b3"])
    assert changed["previous_set"] == ["b1", "b2", "b3"]
    state = three()
    assert elect(state, BY_CONTROLLER, {2: (2, 50, 1), 3: (1, 2**33, 1)}, suspect=1).changed["master"] == "b2"
    state = three()
    assert elect(state, BY_CONTROLLER, {2: (1, 9, 1), 3: (1, 9, 1)}, suspect=1).changed["master"] == "b2"


def test_nobody_outside_the_set_is_elected_unless_losses_are_permitted() -> None:
    for unclean in (False, True):
        state = three(unclean=unclean)
        alter(state, [1, 2], ALL)
        outcome = elect(state, BY_CONTROLLER, {3: (1, 500, 1)}, suspect=1)
        if unclean:
            assert (outcome.changed["master"], outcome.changed["unclean"]) == ("b3", True)
        else:
            assert outcome.code == Response.CONTROLLER_MASTER_NOT_AVAILABLE
            assert outcome.changed == {"type": "masterless", "group": GROUP, "master_epoch": 2}
            assert state.groups[GROUP].members == (1, 2)
            assert elect(state, 3, {3: (1, 500, 1)}).code == Response.CONTROLLER_ELECT_MASTER_FAILED


def test_an_empty_disk_is_never_elected_even_uncleanly() -> None:
    state = three(unclean=True)
    alter(state, [1, 2], ALL)
    assert elect(state, BY_CONTROLLER, {3: (0, 0, 1)}, suspect=1).code == Response.CONTROLLER_MASTER_NOT_AVAILABLE


def test_a_replica_that_can_not_lead_is_passed_over() -> None:
    state = three()
    assert elect(state, BY_CONTROLLER, {2: (1, -1, 1), 3: (1, 5, 1)}, suspect=1).changed["master"] == "b3"


def test_a_heartbeat_of_an_earlier_life_does_not_count() -> None:
    state = three()
    register(state, 2, 2)
    assert elect(state, BY_CONTROLLER, {2: (1, 900, 1), 3: (1, 5, 1)}, suspect=1).changed["master"] == "b3"


def test_a_suspicion_that_is_outdated_changes_nothing() -> None:
    state = three()
    elect(state, BY_CONTROLLER, {2: (1, 1, 1)}, suspect=1)
    before = state.snapshot()
    assert elect(state, BY_CONTROLLER, {3: (1, 1, 1)}, suspect=1).code == Response.CONTROLLER_MASTER_STILL_EXIST
    assert state.snapshot() == before


def test_a_living_master_stays_unless_a_switch_is_ordered() -> None:
    state = three()
    assert elect(state, 2, ALL).code == Response.CONTROLLER_MASTER_STILL_EXIST
    assert elect(state, 2, ALL, designate=True).changed["master"] == "b2"
    assert elect(state, 3, ALL, designate=True).code == Response.CONTROLLER_ELECT_MASTER_FAILED, "not in the set"
    state = three()
    without = {1: ALL[1], 3: ALL[3]}
    assert elect(state, 2, without, designate=True).code == Response.CONTROLLER_ELECT_MASTER_FAILED, "not alive"
    assert elect(state, 1, ALL, designate=True).code == Response.CONTROLLER_MASTER_STILL_EXIST


def test_a_restarted_master_needs_a_new_epoch() -> None:
    state = three()
    changed = register(state, 1, 2).changed
    assert (changed["masterless"], changed["master_epoch"]) == (True, 2)
    assert state.groups[GROUP].members == (1, 2, 3), "its log is still good"
    again = register(state, 1, 2)
    assert not again.changed, "the same life asks again"
    assert elect(state, BY_CONTROLLER, {1: (1, 100, 2)}, suspect=-1).changed["master_epoch"] == 3


def test_a_replica_that_lost_its_memory_leaves_the_set_before_any_election() -> None:
    for generation, clean in ((1, True), (2, False)):
        state = three()
        changed = register(state, 2, generation, clean=clean, life="other").changed
        assert (changed["removed"], changed["set"], changed["set_epoch"]) == (["b2"], ["b1", "b3"], 3)
        assert elect(state, BY_CONTROLLER, {2: (1, 900, generation)}, suspect=1).changed["type"] == "masterless"


def test_a_wiped_disk_gets_a_new_id_and_its_old_ones_are_retired() -> None:
    state = three()
    changed = apply_id(state, 4, "b1", "later").changed
    assert changed["removed"] == ["b1"]
    assert changed["masterless"] is True
    group = state.groups[GROUP]
    assert sorted(group.replicas) == [2, 3, 4]
    assert group.members == (2, 3)
    assert register(state, 1, 2).code == Response.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


def test_changes_to_the_set_are_guarded() -> None:
    state = three()
    assert alter(state, [1, 2], ALL, master_id=2).code == Response.CONTROLLER_INVALID_MASTER
    assert alter(state, [1, 2], ALL, master_epoch=0).code == Response.CONTROLLER_FENCED_MASTER_EPOCH
    assert alter(state, [1, 2], ALL, set_epoch=1).code == Response.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
    assert alter(state, [1, 7], ALL).code == Response.CONTROLLER_INVALID_REPLICAS
    assert alter(state, [1, 2], {1: ALL[1]}).code == Response.CONTROLLER_BROKER_NOT_ALIVE
    assert alter(state, [2, 3], ALL).code == Response.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
    assert alter(state, [1, 2], ALL).changed["set_epoch"] == 3


def test_the_same_set_again_fences_older_proposals() -> None:
    state = three()
    assert alter(state, [1, 2, 3], ALL).changed["set_epoch"] == 3
    assert alter(state, [1, 2], ALL, set_epoch=2).code == Response.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH


def test_living_replicas_are_not_cleaned() -> None:
    state = three()
    entry: dict[str, Any] = {"op": "clean", "group": GROUP, "ids": [3], "alive": {"3": [1, 1, 1]}, "force": False}
    assert state.apply(entry).code == Response.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert state.apply({**entry, "alive": {}}).changed["set"] == ["b1", "b2"]
    assert 3 not in state.groups[GROUP].replicas


WEIGHTS = {"apply_id": 3, "register": 4, "elect": 8, "alter": 8, "clean": 1}


def _random_entry(rng: Random) -> dict[str, Any]:
    broker, generation = rng.randint(1, 5), rng.randint(1, 4)
    alive = {str(b): [rng.randint(0, 4), rng.randint(-1, 9), rng.randint(1, 4)] for b in rng.sample(range(1, 6), 4)}
    common = {"group": GROUP, "cluster": "c", "broker_id": broker, "alive": alive}
    kind = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    more: dict[str, dict[str, Any]] = {
        "apply_id": {"check_code": f"b{rng.randint(1, 4)};{rng.randint(1, 3)}"},
        "register": {"address": f"b{broker}", "generation": generation, "clean": rng.random() < 0.8, "life": "x"},
        "elect": {"designate": rng.random() < 0.3, "suspect": rng.randint(-1, 4)},
        "alter": {"set": rng.sample(range(1, 6), rng.randint(1, 4)), "master_id": broker},
        "clean": {"ids": [broker], "force": rng.random() < 0.1},
    }
    if kind == "elect" and rng.random() < 0.5:
        common["broker_id"] = BY_CONTROLLER
    guards = {"master_epoch": rng.randint(0, 30), "set_epoch": rng.randint(0, 30)} if kind == "alter" else {}
    return {"op": kind, **common, **more[kind], **guards}


def _make_likely(state: Replicas, entry: dict[str, Any], rng: Random) -> None:
    """Bend a random entry so that it has a chance to be taken."""
    group = state.groups.get(GROUP)
    if entry["op"] == "apply_id":
        entry["broker_id"] = state.next_id(GROUP)
    if group is None or not group.replicas:
        return
    if entry["broker_id"] != BY_CONTROLLER:
        entry["broker_id"] = rng.choice(sorted(group.replicas)) if entry["op"] != "apply_id" else group.next_id
    for broker, replica in group.replicas.items():
        entry["alive"][str(broker)] = [rng.randint(0, 4), rng.randint(-1, 9), replica.generation]
    entry["alive"].pop(str(rng.choice(sorted(group.replicas))))
    if entry["op"] == "register":
        entry["generation"] = group.replicas[entry["broker_id"]].generation + 1
    elif entry["op"] == "elect":
        entry["suspect"] = rng.choice([-1, group.master])
    elif entry["op"] == "alter":
        entry |= {"master_id": group.master, "master_epoch": group.master_epoch, "set_epoch": group.set_epoch}
        others = rng.sample(sorted(group.replicas), rng.randint(0, len(group.replicas)))
        entry["set"] = sorted({*others, group.master})


def test_random_entries_keep_the_invariants_and_snapshots_lose_nothing() -> None:
    elections = alterations = 0
    for seed in range(60):
        rng = Random(seed)
        state, epoch, set_epoch = Replicas(), 0, 0
        for _ in range(120):
            entry = _random_entry(rng)
            group = state.groups.get(GROUP)
            if rng.random() < 0.8:
                _make_likely(state, entry, rng)
            members = group.members if group is not None else ()
            twin = Replicas()
            twin.restore(json.dumps(json.loads(state.snapshot())).encode())
            outcome = state.apply(json.loads(json.dumps(entry)))
            assert twin.apply(entry) == outcome
            assert twin.snapshot() == state.snapshot()
            group = state.groups.get(GROUP)
            if group is None:
                continue
            assert group.master_epoch >= epoch and group.set_epoch >= set_epoch
            assert group.members == members or group.set_epoch > set_epoch
            assert group.master == -1 or group.master in group.members
            assert all(broker in group.replicas for broker in group.members)
            if outcome.changed.get("type") == "elect":
                elections += 1
                assert group.master_epoch == epoch + 1
                assert outcome.changed["bootstrap"] or group.master in members
            alterations += outcome.changed.get("type") == "alter"
            epoch, set_epoch = group.master_epoch, group.set_epoch
    assert elections > 120 and alterations > 20


def test_a_forced_switch_leaves_the_set_only_where_losses_are_permitted() -> None:
    for unclean in (False, True):
        state = three(unclean=unclean)
        assert alter(state, [1, 2], ALL).code == 0
        assert elect(state, 3, ALL, designate=True).code == Response.CONTROLLER_ELECT_MASTER_FAILED
        forced = elect(state, 3, ALL, designate=True, forced=True)
        if unclean:
            assert forced.changed["master"] == "b3" and forced.changed["unclean"]
        else:
            assert forced.code == Response.CONTROLLER_ELECT_MASTER_FAILED and state.groups[GROUP].master == 1
        assert not elect(state, 2 if not unclean else 3, ALL, designate=True, forced=True).changed.get("unclean")


def test_a_replica_that_does_not_remember_its_registered_life_leaves_the_set() -> None:
    """However many lives it counts: some of them may have begun unheard of, on a disk that went back in time."""
    state = three()
    told = {"op": "register", "group": GROUP, "broker_id": 2, "address": "b2", "clean": True}
    for generation, lives in ((2, ["life-1", "x"]), (4, ["x", "y", "z"])):
        changed = state.apply({**told, "generation": generation, "life": lives[-1], "lives": lives}).changed
        assert changed["removed"] == []
    changed = state.apply({**told, "generation": 9, "life": "c", "lives": ["x", "y", "c"]}).changed
    assert (changed["removed"], changed["set"]) == (["b2"], ["b1", "b3"])
