"""Many Raft groups on a few nodes: nothing acknowledged is lost, each goes on by itself, and idle ones cost nothing."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from chaos.node import Env, Malformed
from reference.raft.storage import rewriting, room
from reference.split.hosting import host
from reference.split.hosting.beats import Beat, Clocks
from reference.wire.codes import Request
from reference.wire.command import Command
from tests.reference.raftnet import MS
from tests.reference.split.hosts import Hosts, Store, disk_of, replica_on


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated disks take long to lose what nobody has written."""
    monkeypatch.setattr(host, "KEPT_BYTES", 8192)
    monkeypatch.setattr(room, "STEP_BYTES", 8192)


def leaders_by_term(world: Hosts) -> Counter[tuple[int, int, str]]:
    """Of each group, term and node, how often it became leader."""
    led = [
        (value["group"], value["epoch"], node)
        for node, _, f, value in world.traces
        if f == "raft" and value["role"] == "leader"
    ]
    return Counter(led)


def check_one_leader_a_term(world: Hosts) -> None:
    terms = Counter((group, term) for group, term, _ in leaders_by_term(world))
    assert terms and max(terms.values()) == 1


def check_logs_agree(world: Hosts, acked: dict[int, set[str]]) -> None:
    """Every replica applied the same, and all that was acknowledged."""
    for group in range(world.groups):
        applied = [tuple(world.applied(name, group)) for name in world.replicas(group)]
        assert len(set(applied)) == 1, group
        assert acked.get(group, set()) <= set(applied[0]), group


@pytest.mark.parametrize("seed", range(3))
def test_nothing_acknowledged_is_lost_while_nodes_crash_and_connections_break(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a file so small that it is rewritten all the time; in one seed, messages and syncs leave in rounds."""
    monkeypatch.setattr(Store, "rewrite_bytes", 4000)
    monkeypatch.setattr(Store, "in_rounds", seed == 2)
    monkeypatch.setattr(rewriting, "STEP_BYTES", 500)
    world, rng, acked = Hosts(seed, 5, 16, snapshot_entries=8), Random(seed), {group: set[str]() for group in range(16)}
    world.run(2000)
    for number in range(1000):
        group, value = rng.randrange(16), f"{number}:{'x' * rng.randrange(50)}"
        world.propose(group, value, lambda index, its=(group, value): acked[its[0]].add(its[1]) if index >= 0 else None)
        world.lost = 0.0 if number % 100 < 50 else 0.01
        world.run(rng.randrange(25))
        if not number % 40:
            trouble(world, rng)
        if not number % 100:
            world.heal()
    world.lost = 0.0
    world.heal()
    world.run(5000)
    assert sum(map(len, acked.values())) > 200
    check_one_leader_a_term(world)
    check_logs_agree(world, acked)
    assert max(world.nodes[name].host.wal.file for name in world.names()) > 3


def trouble(world: Hosts, rng: Random) -> None:
    """Crash a node, if enough of them live, or cut one off."""
    living = [name for name in world.names() if name in world.envs]
    if len(living) > 3 and rng.random() < 0.7:
        world.crash(rng.choice(living))
    else:
        world.isolate(rng.choice(living))


def test_a_restart_finds_every_group_in_a_rewritten_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "rewrite_bytes", 10_000)
    world = Hosts(1, 3, 8, snapshot_entries=10)
    world.run(2000)
    acked = {group: set[str]() for group in range(8)}
    for number in range(30):
        for group in range(8):
            world.propose(group, f"{number:0100}", lambda index, group=group, it=f"{number:0100}": acked[group].add(it))
        world.run(50)
    world.run(500)
    assert all(len(values) == 30 for values in acked.values())
    for name in list(world.names()):
        assert world.nodes[name].host.wal.file > 1
        assert len(world.disks[name].list("raft/log.")) == 1
        world.crash(name)
    world.heal()
    world.run(3000)
    check_logs_agree(world, acked)


def test_one_group_whose_leader_is_lost_elects_another_although_the_node_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CockroachDB 315: beats of a node keep nobody a leader who doesn't lead any more."""
    world = Hosts(2, 3, 4)
    world.run(3000)
    node = world.leader(0)
    before = {group: world.replicas(group)[world.leader(group)].term for group in range(4)}
    sender = world.nodes[node].host.member(0).sender
    for silent in ("show", "send_next"):  # it says nothing in this group any more
        monkeypatch.setattr(sender, silent, lambda env, name, peer: None)
    world.run(2000)
    assert world.leader(0) != node
    for group in range(1, 4):
        assert world.replicas(group)[world.leader(group)].term == before[group]


def idle_frames(groups: int) -> int:
    world = Hosts(3, 3, groups)
    world.run(3000)
    assert all(world.leader(group) for group in range(groups))
    since = world.now
    world.run(1000)
    idle = [message.code for at, _, _, message in world.frames if at > since]
    assert set(idle) == {Request.GROUPS_BEATS}
    return len(idle)


def test_idle_messages_grow_with_pairs_of_nodes_and_not_with_groups() -> None:
    few, many = idle_frames(16), idle_frames(256)
    assert few == many == 3 * 2 * 2 * 20  # both ways, beat and answer, each 50 ms


def test_a_read_is_confirmed_by_beats() -> None:
    world = Hosts(4, 3, 2)
    world.run(2000)
    assert world.commit(0, "seen")
    world.run(500)
    node, reads = world.leader(0), list[bool]()
    since = len(world.frames)
    world.nodes[node].host.read(world.envs[node], 0, lambda env, is_safe: reads.append(is_safe))
    world.nodes[node].host.step_over(world.envs[node])
    world.run(40)
    assert reads == [True]
    assert all(message.code == Request.GROUPS_BEATS for _, _, _, message in world.frames[since:])
    world.isolate(node)
    world.nodes[node].host.read(world.envs[node], 0, lambda env, is_safe: reads.append(is_safe))
    world.nodes[node].host.step_over(world.envs[node])
    world.run(3000)
    assert reads == [True, False]


def test_a_newcomer_joins_by_a_message_and_a_removed_replica_learns_it() -> None:
    world = Hosts(5, 4, 2, born_on=3)
    world.run(2000)
    for number in range(40):
        assert world.commit(0, f"v{number}")
    assert not world.nodes["s3"].host.replicas
    assert world.change(0, "add", replica_on("s3"))
    world.run(2000)
    assert replica_on("s3") in world.replicas(0)[world.leader(0)].members.voters
    gone = next(name for name in ("s0", "s1", "s2") if name != world.leader(0))
    assert world.change(0, "remove", replica_on(gone))
    world.run(2000)
    assert world.nodes[gone].gone == [0] and 0 not in world.replicas(0) and 1 in world.nodes[gone].host.replicas
    world.crash(gone)
    world.start(gone)
    world.run(1000)
    assert 0 not in world.nodes[gone].host.replicas, "its birth does not bring it back"
    assert world.commit(0, "after")
    world.run(500)
    assert world.applied("s3", 0)[-1] == "after" and len(world.applied("s3", 0)) == 41


def test_a_replica_that_is_removed_while_it_is_down_learns_it_when_it_stands_for_election() -> None:
    world = Hosts(6, 4, 1)
    world.run(2000)
    gone = next(name for name in ("s0", "s1", "s2") if name != world.leader(0))
    world.crash(gone)
    assert world.change(0, "remove", replica_on(gone))
    world.run(1000)
    world.start(gone)
    world.run(3000)
    assert world.nodes[gone].gone == [0]


def test_who_joins_by_a_message_has_no_vote_until_an_entry_names_it() -> None:
    world = Hosts(7, 4, 1, born_on=3)
    world.run(2000)
    replica = world.nodes["s3"].host.create(world.envs["s3"], 0, ())
    assert not replica.policy.may_vote(replica_on("s0"), 9, 100, 9)
    world.change(0, "add", replica_on("s3"))
    world.run(1000)
    assert replica.policy.may_vote(replica_on("s0"), replica.term, 1000, 1000) or replica.log.vote


def test_messages_for_another_disk_are_dropped() -> None:
    """A store that lost its disk is nobody whom the old messages are for (R6)."""
    world = Hosts(8, 3, 1)
    world.run(2000)
    follower = next(name for name in world.names() if name != world.leader(0))
    seen = [message for _, _, to, message in world.frames if to == follower and message.code == Request.GROUPS_MESSAGES]
    old = Command(code=seen[0].code, flags=seen[0].flags, fields={**seen[0].fields, "to": "99"}, body=seen[0].body)
    before = len(world.frames)
    world.nodes[follower].message(world.envs[follower], world.leader(0), old)
    assert len(world.frames) == before and disk_of(follower) != 99


@pytest.mark.parametrize(
    "message",
    [
        Command(code=Request.GROUPS_MESSAGES, body=b"\0" * 5, fields={"from": "10", "to": "11", "wall": "1"}),
        Command(code=Request.GROUPS_MESSAGES, body=b"\0" * 11, fields={"from": "10", "to": "11", "wall": "1"}),
        *(
            Command(code=Request.GROUPS_MESSAGES, body=body, fields={"from": "10", "to": "11", "wall": "1"})
            for body in (
                struct.pack(">IHBI", 0, Request.RAFT_APPEND, 99, 0),  # too many numbers
                struct.pack(">IHBI", 0, Request.RAFT_APPEND, 2, 0) + b"\0" * 17,  # cut off
                struct.pack(">IHBIBq", 0, Request.RAFT_VOTE, 1, 0, 99, 1),  # a number without a name
                struct.pack(">IHBIBq", 0, Request.RAFT_VOTE, 1, 0, 0, 1),  # numbers are lacking
                struct.pack(">IHBIBqBqBq", 0, Request.RAFT_VOTE, 3, 0, 0, -1, 1, 1, 2, 1),  # one is too low
                struct.pack(">IHBIBqBqBq", 9, Request.RAFT_VOTE, 3, 0, 0, 1, 1, 1, 2, 1),  # of no group
                struct.pack(">IHBIBq", 0, Request.GROUP_REMOVED, 1, 0, 0, 1),  # without a membership
            )
        ),
        Command(
            code=Request.GROUPS_MESSAGES, body=b"", fields={"from": "10", "to": "11", "wall": "1", "cluster": "other"}
        ),
        Command(code=Request.GROUPS_MESSAGES, body=b"", fields={"from": "-1", "to": "11", "wall": "1"}),
        Command(code=Request.GROUPS_BEATS, body=b"\0" * 29, fields={"from": "10", "to": "11", "wall": "1"}),
        Command(code=Request.GROUPS_BEATS, body=b"\xff" * 28, fields={"from": "10", "to": "11", "wall": "1"}),
        Command(code=Request.GROUPS_BEATS, body=b"", fields={"from": "10", "to": "11"}),
    ],
)
def test_a_malformed_frame_has_no_effect(message: Command) -> None:
    world = Hosts(9, 3, 1)
    with pytest.raises(Malformed):
        world.nodes["s1"].message(world.envs["s1"], "s0", message)


class OneClock:
    """An environment whose clocks are set."""

    name = "s0"

    def __init__(self) -> None:
        self.wall, self.mono = 1_000_000 * MS, 0

    def wall_ns(self) -> int:
        return self.wall

    def mono_ns(self) -> int:
        return self.mono


def test_a_clock_that_jumps_does_not_move_the_median() -> None:
    env, clocks = OneClock(), Clocks()
    nodes = ("s0", "s1", "s2")
    assert clocks.median_ms(env, nodes) is None
    clocks.heard(env, "s1", 1_000_010)
    clocks.heard(env, "s2", 999_990)
    assert clocks.median_ms(env, nodes) == 1_000_000
    env.mono += 500 * MS
    env.wall += 365 * 24 * 3_600_000 * MS
    assert clocks.median_ms(env, nodes) == 1_000_510


def test_a_leader_refused_in_one_group_follows_the_newer_term() -> None:
    world = Hosts(10, 3, 1)
    world.run(2000)
    node = world.leader(0)
    replica, env = world.replicas(0)[node], world.nodes[node].host.env_of(world.envs[node], 0)
    other = next(name for name in replica.members.all if name != replica.name)
    replica.on_beat_answer(env, other, Beat(0, replica.term + 3, 0, 0))
    assert not replica.is_leader
    assert isinstance(world.nodes[node], Store)


def test_a_newcomer_hears_a_leader_whom_the_membership_of_its_snapshot_does_not_name() -> None:
    world = Hosts(11, 6, 1, born_on=3)
    world.run(2000)
    assert world.change(0, "add", replica_on("s3"))
    world.run(1000)
    for number in range(60):
        assert world.commit(0, f"v{number}")
    assert world.change(0, "add", replica_on("s4"))
    world.run(1000)
    old = world.leader(0)
    leader, env = world.replicas(0)[old], world.nodes[old].host.env_of(world.envs[old], 0)
    leader.transfer(env, replica_on("s4"), lambda env, done: None)
    world.nodes[old].host.step_over(world.envs[old])
    world.run(1000)
    assert world.leader(0) == "s4"
    assert world.change(0, "add", replica_on("s5"))
    world.run(2000)
    assert replica_on("s5") in world.replicas(0)["s4"].members.voters
    assert world.applied("s5", 0) == [f"v{number}" for number in range(60)]


class Lingering(Store):
    """Its leaders let proposals gather."""

    linger_ms = 40


def gathered_world(**options: int) -> tuple[Hosts, str, list[int]]:
    """Return a world, a node that leads two groups and more, and these groups."""
    world = Hosts(1, 3, 8, store=Lingering, **options)
    world.run(3000)
    led = Counter(world.leader(group) for group in range(8))
    node = max(led, key=lambda name: led[name])
    return world, node, [group for group in range(8) if world.leader(group) == node]


def test_proposals_gather_over_all_groups() -> None:
    """They leave in one frame for each other node, after as long as the first one has waited for."""
    world, node, groups = gathered_world()
    ends: list[int] = []
    began, world.frames = world.now, []
    for number in range(10):
        assert world.propose(groups[number % 2], str(number), ends.append, node)
        world.run(3)
    world.run(2000, until=lambda: len(ends) == 10)
    appends = [at for at, source, _, one in world.frames if source == node and one.code == Request.GROUPS_MESSAGES]
    assert min(appends) == began + 40 * MS and appends.count(began + 40 * MS) == 2
    assert min(ends) > 0 and ends[0::2] == sorted(ends[0::2])
    world.run(300)
    assert all(world.applied(name, groups[1])[-5:] == ["1", "3", "5", "7", "9"] for name in world.names())


def test_what_gathers_at_a_leader_that_is_deposed_has_no_known_outcome() -> None:
    world, node, groups = gathered_world()
    ends: list[int] = []
    assert world.propose(groups[0], "late", ends.append, node)
    replica, env = world.nodes[node].host.member(groups[0]), world.envs[node]
    replica.roles.follow(world.nodes[node].host.env_of(env, groups[0]), replica.term + 1, "")
    world.nodes[node].host.step_over(env)
    world.run(100, until=lambda: bool(ends))
    assert ends == [-1]


def test_what_a_leader_proposed_that_learns_of_its_removal_has_no_known_outcome() -> None:
    world = Hosts(11, 3, 1)
    world.run(2000)
    node, ends = world.leader(0), list[int]()
    world.isolate(node)
    assert world.propose(0, "never", ends.append, at=node)
    world.nodes[node].host.remove(world.envs[node], 0, 99)
    assert ends == [-1]


def test_no_more_gathers_than_the_window_holds() -> None:
    world, node, groups = gathered_world(window=3)
    host, ends = world.nodes[node].host, list[int]()
    for number in range(3):
        assert host.may_propose(groups[0])
        world.propose(groups[0], str(number), ends.append, node)
    assert not host.may_propose(groups[0])
    world.run(2000, until=lambda: len(ends) == 3)
    assert min(ends) > 0 and host.may_propose(groups[0])


def test_followers_look_for_their_leaders_when_beats_are_due() -> None:
    """So that a node with many groups is woken no more often than one with few."""
    world = Hosts(1, 3, 16)
    world.run(3000)
    woken: Counter[int] = Counter()
    for name in world.names():
        timer = world.nodes[name].timer

        def counted(env: Env, what: str, timer: Callable[[Env, str], None] = timer) -> None:
            woken[world.now % (50 * MS)] += 1
            timer(env, what)

        world.nodes[name].timer = counted
    world.run(2000)
    assert set(woken) == {0} and woken[0] <= 3 * 41


@pytest.mark.parametrize("in_rounds", [False, True])
def test_a_round_makes_one_frame_for_each_peer(monkeypatch: pytest.MonkeyPatch, in_rounds: bool) -> None:
    monkeypatch.setattr(Store, "in_rounds", in_rounds)
    world, acked = Hosts(5, 3, 8), list[int]()
    world.run(2000)
    node = world.leader(0)
    led = [group for group in range(8) if world.leader(group) == node]
    before = len(world.frames)
    host, env = world.nodes[node].host, world.envs[node]
    for group in led:
        host.propose(env, group, b"x", lambda env, outcome, index: acked.append(index))
        host.step_over(env)
    world.run(30)
    assert len(acked) == len(led) > 1 and min(acked) > 0
    sent = [
        to for _, source, to, one in world.frames[before:] if source == node and one.code == Request.GROUPS_MESSAGES
    ]
    assert Counter(sent) == Counter({to: 1 if in_rounds else len(led) for to in world.names() if to != node})
