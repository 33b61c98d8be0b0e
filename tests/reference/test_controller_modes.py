"""The two modes of a controller: many requests at once, or one after the other; and what each does with too many."""

from __future__ import annotations

from collections import Counter

import pytest

from drivers.reference.driver import Options, Reference
from reference.controller.dispatch import CLASSIC, MAX_EVENTS, PARALLEL
from reference.controller.liveness import MAX_LOOKS, Agenda, Scan
from reference.raft.read_index import Questions, Rounds
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.raftnet import World
from tests.reference.seam import deliver
from tests.reference.test_controller import (
    BROKERS,
    CONTROLLERS,
    GROUP,
    ask,
    check_roles,
    entries,
    group,
    leader,
    settled,
    storm,
)
from tests.reference.test_controller import make_world as make


def write_many(world: World, to: str, count: int) -> None:
    """Ask for so many changes of the group at one moment. The answers are in the world's inbox."""
    world.inbox.clear()
    for number in range(count):
        fields = {"clusterName": "c", "brokerName": f"other-{number}", "appliedBrokerId": "1"}
        fields |= {"registerCheckCode": f"address-{number};0"}
        request = Command(code=Request.CONTROLLER_APPLY_BROKER_ID, opaque=number, fields=fields)
        deliver(world.nodes[to], world.envs[to], "client", request)


def answers(world: World) -> dict[int, int]:
    """The code of each answer, by the number of its request, in the order in which they came."""
    return {message.opaque: message.code for _, to, message in world.inbox if to == "client"}


# Classic


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_classic_controllers_never_split_and_the_group_recovers(seed: int) -> None:
    world = make(seed, mode=CLASSIC)
    storm(world, seed, 40)
    assert check_roles(world)["elect"] >= 2
    assert sorted(group(world)["set"]) == list(BROKERS)
    states = [world.nodes[name].replicas.snapshot() for name in CONTROLLERS]
    assert states[0] == states[1] == states[2]


def test_a_classic_controller_does_one_request_after_the_other() -> None:
    world = settled(1, mode=CLASSIC)
    node = leader(world)
    write_many(world, node.raft.name, 20)
    most = 0

    def all_answered() -> bool:
        nonlocal most
        most = max(most, node.raft.under_way())
        return len(answers(world)) == 20

    world.run(3000, until=all_answered)
    assert most == 1
    assert list(answers(world).items()) == [(number, Response.SUCCESS) for number in range(20)]


def test_a_classic_read_is_an_entry_of_the_leader_alone() -> None:
    world = settled(2, mode=CLASSIC)
    name = leader(world).raft.name
    before = leader(world).raft.commit
    found = ask(world, name, Request.CONTROLLER_GET_REPLICA_INFO, brokerName=GROUP)
    assert found is not None
    assert found.fields["masterAddress"] == group(world)["master"]
    assert leader(world).raft.commit > before
    follower = next(other for other in CONTROLLERS if other != name)
    refused = ask(world, follower, Request.CONTROLLER_GET_REPLICA_INFO, brokerName=GROUP)
    assert refused is not None
    assert refused.code == Response.CONTROLLER_NOT_LEADER


def test_what_waits_in_the_queue_of_a_deposed_classic_leader_has_not_happened() -> None:
    """Only the request that was logged has an unknown outcome; the others may be asked again elsewhere."""
    world = settled(3, mode=CLASSIC)
    old = leader(world).raft.name
    for other in CONTROLLERS:
        if other != old:
            world.block(old, other)
    write_many(world, old, 5)
    world.run(5000)
    codes = answers(world)
    assert codes[0] == Response.SYSTEM_ERROR
    assert [codes[number] for number in range(1, 5)] == [Response.CONTROLLER_NOT_LEADER] * 4
    assert not any(f"other-{number}" in str(entry) for entry in entries(world) for number in range(1, 5))


def test_a_full_queue_is_busy() -> None:
    world = settled(4, mode=CLASSIC)
    write_many(world, leader(world).raft.name, MAX_EVENTS + 10)
    world.run(1)
    assert Counter(answers(world).values())[Response.SYSTEM_BUSY] >= 10


# Parallel


def test_beyond_the_window_the_answer_is_busy_until_there_is_room() -> None:
    world = settled(5, window=4)
    name = leader(world).raft.name
    write_many(world, name, 10)
    world.run(1)
    assert answers(world) == dict.fromkeys(range(4, 10), Response.SYSTEM_BUSY)
    world.run(500)
    assert Counter(answers(world).values()) == {Response.SUCCESS: 4, Response.SYSTEM_BUSY: 6}
    write_many(world, name, 4)
    world.run(500)
    assert list(answers(world).values()) == [Response.SUCCESS] * 4


def test_the_window_is_for_clients_and_not_for_elections() -> None:
    world = settled(6, window=1)
    name, old = leader(world).raft.name, group(world)["master"]
    write_many(world, name, 1)
    world.crash(old)
    world.run(400)
    assert group(world)["master"] != old


def test_reads_of_one_moment_share_their_rounds() -> None:
    world = settled(7)
    name = leader(world).raft.name
    follower = next(other for other in CONTROLLERS if other != name)
    for asked in (name, follower):
        before = leader(world).raft.rounds.last
        world.inbox.clear()
        for number in range(100):
            request = Command(code=Request.CONTROLLER_GET_REPLICA_INFO, opaque=number, fields={"brokerName": GROUP})
            deliver(world.nodes[asked], world.envs[asked], "client", request)
        world.run(100)
        assert answers(world) == dict.fromkeys(range(100), Response.SUCCESS)
        assert leader(world).raft.rounds.last - before <= 4


@pytest.mark.parametrize("seed", range(3))
def test_the_agenda_sees_what_a_scan_of_all_groups_sees(seed: int) -> None:
    """Step by step the same elections, at the same times."""
    told = []
    for watch in (Agenda, Scan):
        world = make(seed)
        original = world.start

        def start(name: str, watch: type[Agenda] | type[Scan] = watch, original=original, world=world) -> None:  # type: ignore[no-untyped-def]
            original(name)
            if name in CONTROLLERS:
                world.nodes[name]._watch = watch()

        world.start = start  # type: ignore[method-assign]
        for name in CONTROLLERS:
            world.nodes[name]._watch = watch()
        storm(world, seed, 30)
        told.append([(node, f, row) for node, _, f, row in world.traces])
    assert told[0] == told[1]


# Their parts


def test_an_agenda_looks_at_what_has_changed_and_at_silence_in_time() -> None:
    agenda = Agenda()
    agenda.restart(["a", "b"])
    assert agenda.due(0, []) == ["a", "b"]
    agenda.settled("a", 100)
    agenda.gone("b")
    assert agenda.due(100, []) == []
    assert agenda.due(101, []) == ["a"]
    agenda.settled("a", 200)
    agenda.settled("a", 300)
    assert agenda.due(250, []) == []
    agenda.changed("b")
    assert agenda.due(301, []) == ["b", "a"]


def test_an_agenda_is_worked_off_in_slices() -> None:
    agenda = Agenda()
    names = [f"group-{number}" for number in range(MAX_LOOKS + 5)]
    agenda.restart(names)
    first = agenda.due(0, [])
    assert (len(first), agenda.has_more) == (MAX_LOOKS, True)
    assert first + agenda.due(0, []) == names
    assert not agenda.has_more


def test_a_read_never_joins_a_round_that_has_begun() -> None:
    rounds = Rounds()
    rounds.add(1, lambda env, safe: None)
    assert rounds.begin()
    for _ in range(3):
        rounds.add(1, lambda env, safe: None)
        assert not rounds.begin()
    assert [read.round for read in rounds.take(lambda read: read.round <= 1)] == [1]
    assert rounds.begin()
    rounds.add(1, lambda env, safe: None)
    assert [read.round for read in rounds.take(lambda read: True)] == [2, 2, 2]
    assert rounds.begin()
    assert [read.round for read in rounds.take(lambda read: True)] == [3]
    assert not rounds.begin()


def test_a_followers_reads_wait_for_a_question_that_was_asked_after_them() -> None:
    questions = Questions()
    questions.add(lambda env, safe: None)
    assert questions.begin(10) == 1
    questions.add(lambda env, safe: None)
    questions.add(lambda env, safe: None)
    assert questions.begin(50) is None
    assert len(questions.answered(1)) == 1
    assert questions.answered(1) == []
    assert questions.begin(50) == 2
    assert len(questions) == 2
    assert questions.answered(1) == []
    questions.add(lambda env, safe: None)
    assert questions.end_late(49) == []
    assert len(questions.end_late(50)) == 3
    questions.add(lambda env, safe: None)
    assert questions.begin(60) == 3
    assert len(questions.end()) == 1
    assert (len(questions), questions.answered(3)) == (0, [])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"mode": "serial"}, "mode must be parallel or classic, not 'serial'"),
        ({"window": 0}, "window must be 1 or more, not 0"),
        ({"cluster_id": 7}, "cluster_id must be a text, not 7"),
        ({"cluster_id": "x" * 256}, "cluster_id must have at most 255 bytes"),
        ({"snapshot_entries": "many"}, "snapshot_entries must be a whole number, not 'many'"),
    ],
)
def test_wrong_options_are_told(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Reference(Options(controller_options=options)).cluster("")


def test_both_modes_have_names() -> None:
    for mode in (PARALLEL, CLASSIC):
        assert Reference(Options(controller_options={"mode": mode})).cluster("")
