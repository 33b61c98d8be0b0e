"""Raft's promises under drops, delays, pauses, broken links and crashes that lose unsynced bytes."""

from __future__ import annotations

from random import Random

import pytest

from chaos.node import Env
from reference.raft.policy import RaftPolicy
from reference.raft.state import LEADER
from tests.reference.raft_member import Member, make_world
from tests.reference.raftnet import World


def leaders(world: World) -> list[str]:
    return [name for name in world.envs if world.nodes[name].raft.role == LEADER]


class Storm:
    """Clients and faults drawn from the seed. ``acked``: value → index at which it was applied by its leader."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = Random(f"storm/{world.seed}")
        self.acked: dict[str, int] = {}
        self.sent = 0
        self.stale_reads: list[tuple[int, int]] = []
        self.reads = 0

    def propose(self) -> None:
        for name in leaders(self.world):
            if self.world.nodes[name].raft.is_handing_over:
                continue
            self.sent += 1
            value = f"v{self.sent}"

            def then(env: Env, outcome: object, index: int, value: str = value) -> None:
                if index >= 0:
                    self.acked[value] = index

            self.world.nodes[name].raft.propose(self.world.envs[name], value.encode(), then)

    def read(self) -> None:
        name = self.rng.choice(list(self.world.names()))
        if name not in self.world.envs:
            return
        member = self.world.nodes[name]
        floor = max(self.acked.values(), default=0)

        def then(env: Env, safe: bool) -> None:
            if safe:
                self.reads += 1
                if member.raft.applied < floor:
                    self.stale_reads.append((member.raft.applied, floor))

        member.raft.read(self.world.envs[name], then)

    def fault(self) -> None:
        world, names = self.world, list(self.world.names())
        one, other = self.rng.sample(names, 2)
        kind = self.rng.randrange(10)
        if kind < 2 and one in world.envs:
            world.crash(one)
        elif kind == 2:
            world.isolate(one)
        elif kind == 3:
            world.blocked.add((one, other))
        elif kind == 4:
            world.cut(one, other)
        elif kind == 5:
            world.paused.add(one)
        elif kind == 6:
            world.delay_ms = self.rng.choice([(1, 5), (1, 60), (50, 300)])
        elif kind == 7:
            self.power_cut()
        else:
            world.heal()

    def power_cut(self) -> None:
        """Everybody goes down a few milliseconds after a proposal, and comes back."""
        self.propose()
        self.world.run(self.rng.randint(2, 16))
        for name in list(self.world.envs):
            self.world.crash(name)
        self.world.heal()

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self.world.run(self.rng.randint(5, 120))
            for _ in range(self.rng.randint(0, 3)):
                self.propose()
                self.read()
            if self.rng.random() < 0.15:
                self.fault()


def check_safety(world: World, storm: Storm) -> None:
    leader_of_term: dict[int, str] = {}
    entry_at: dict[int, tuple[int, bytes]] = {}
    for name, _, f, value in world.traces:
        if f == "raft" and value["role"] == LEADER:
            assert leader_of_term.setdefault(value["epoch"], name) == name, f"two leaders in term {value['epoch']}"
        elif f == "term_raised" and not value["transfer"]:
            assert value.get("silence_ms", value["election_ms"]) >= value["election_ms"], f"{name} deserted its leader"
        elif f == "applied":
            entry = (value["epoch"], value["data"])
            assert entry_at.setdefault(value["position"], entry) == entry, f"two entries at {value['position']}"
    for value_text, index in storm.acked.items():
        assert entry_at[index][1] == value_text.encode(), f"{value_text} was acknowledged and is gone"
    assert not storm.stale_reads


@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(20, 40))])
def test_storms_break_no_promise_and_progress_returns_after_healing(seed: int) -> None:
    world = make_world(seed, 5 if seed % 4 == 0 else 3)
    storm = Storm(world)
    storm.run(250)
    world.delay_ms = (1, 5)
    world.heal()
    before = len(storm.acked)
    world.run(5000)
    storm.propose()
    world.run(2000)
    check_safety(world, storm)
    assert len(leaders(world)) == 1
    assert len(storm.acked) > before, "no progress after healing"
    states = [world.nodes[name].applied for name in world.names()]
    assert all(state == states[0] for state in states)


@pytest.mark.parametrize("seed", range(6))
def test_storms_break_no_promise_of_small_batches_and_leases(seed: int) -> None:
    world = make_world(seed, 3, lease_ms=300, append_entries=2, in_flight=2)
    storm = Storm(world)
    storm.run(250)
    world.delay_ms = (1, 5)
    world.heal()
    world.run(5000)
    check_safety(world, storm)
    assert len(leaders(world)) == 1
    states = [world.nodes[name].applied for name in world.names()]
    assert all(state == states[0] for state in states)


class TransferStorm(Storm):
    """Leaders are asked to hand over, too. ``ends``: whether they did."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.ends: list[bool] = []

    def fault(self) -> None:
        super().fault()
        for name in leaders(self.world):
            raft = self.world.nodes[name].raft
            if not raft.is_handing_over:
                raft.transfer(
                    self.world.envs[name], self.rng.choice(raft.others), lambda env, done: self.ends.append(done)
                )


class MemberStorm(Storm):
    """Members leave and come back. ``changes``: memberships that were committed."""

    changes = 0

    def propose(self) -> None:
        super().propose()
        for name in leaders(self.world):
            raft, env = self.world.nodes[name].raft, self.world.envs[name]
            if raft.why_no_change() or self.rng.random() < 0.8:
                continue
            gone = [one for one in self.world.names() if one not in raft.members.all]
            if gone:
                raft.add_learner(env, gone[0], self.changed)
            elif raft.members.learners == ():
                raft.remove(env, self.rng.choice(raft.others), self.changed)

    def changed(self, env: Env, outcome: object, index: int) -> None:
        self.changes += index >= 0


@pytest.mark.parametrize("seed", range(5))
def test_storms_break_no_promise_while_members_change(seed: int) -> None:
    world = make_world(seed, 3 if seed % 2 else 4, snapshot_entries=20)
    storm = MemberStorm(world)
    storm.run(300)
    world.delay_ms = (1, 5)
    world.heal()
    world.run(5000)
    for _ in range(20):
        for name in leaders(world):
            raft = world.nodes[name].raft
            gone = [one for one in world.names() if one not in raft.members.all]
            if gone and not raft.why_no_change():
                raft.add_learner(world.envs[name], gone[0], storm.changed)
        world.run(500)
    check_safety(world, storm)
    (name,) = leaders(world)
    assert world.nodes[name].raft.memberships.index > 0
    assert sorted(world.nodes[name].raft.members.voters) == list(world.names())
    states = [world.nodes[name].applied for name in world.names()]
    assert all(state == states[0] for state in states)


@pytest.mark.parametrize("seed", range(4))
def test_storms_break_no_promise_of_transfers_and_snapshots_in_pieces(seed: int) -> None:
    world = make_world(seed, 3, snapshot_entries=20, piece_bytes=24, lease_ms=300 if seed % 2 else 0)
    storm = TransferStorm(world)
    storm.run(250)
    world.delay_ms = (1, 5)
    world.heal()
    world.run(5000)
    check_safety(world, storm)
    assert len(leaders(world)) == 1
    assert {True, False} <= set(storm.ends)
    states = [world.nodes[name].applied for name in world.names()]
    assert all(state == states[0] for state in states)


def test_a_lease_answers_reads_without_a_message_until_it_ends() -> None:
    world = make_world(2, 3, lease_ms=300)
    world.run(3000)
    (name,) = leaders(world)
    raft, env = world.nodes[name].raft, world.envs[name]
    answers: list[bool] = []
    rounds = raft.rounds.last
    raft.read(env, lambda env, safe: answers.append(safe))
    assert (answers, raft.rounds.last) == ([True], rounds)
    world.isolate(name)
    world.run(400)
    raft.read(env, lambda env, safe: answers.append(safe))
    assert answers == [True], "the lease has ended, and no majority answers"
    world.run(2000)
    assert answers == [True, False]


def test_storms_reach_what_they_are_for() -> None:
    world = make_world(3, 3)
    storm = Storm(world)
    storm.run(400)
    assert len(storm.acked) > 50
    assert storm.reads > 50
    assert max(world.lives.values()) > 2
    assert any(node.raft.log.snapshot_index for node in world.nodes.values())


class ForgetfulVoter(RaftPolicy):
    def may_vote(self, candidate: str, term: int, last_index: int, last_term: int) -> bool:
        return True


class HastyLeader(RaftPolicy):
    def read_is_safe(self, read: object) -> bool:
        return True


class LocalReader(RaftPolicy):
    def reads_locally(self) -> bool:
        return True


class AnswersEarly(RaftPolicy):
    def answer_token(self, env: Env) -> int | None:
        self.log.sync(env.disk)
        return None

    def own_match(self) -> int:
        return self.log.last


@pytest.mark.parametrize("broken", [ForgetfulVoter, HastyLeader, LocalReader, AnswersEarly])
def test_the_storms_find_a_raft_that_is_broken(broken: type[RaftPolicy]) -> None:
    class BrokenMember(Member):
        policy = broken

    for seed in range(60):
        world = make_world(seed, 3, member=BrokenMember)
        storm = Storm(world)
        try:
            storm.run(250)
            world.heal()
            world.run(3000)
            check_safety(world, storm)
        except (AssertionError, KeyError):
            return
    pytest.fail(f"60 storms did not find {broken.__name__}")


def test_one_member_leads_itself_and_keeps_its_log_over_a_crash() -> None:
    world = make_world(1, 1)
    storm = Storm(world)
    world.run(1000)
    storm.propose()
    world.run(100)
    assert storm.acked == {"v1": 2}
    world.crash("c0")
    world.heal()
    world.run(1000)
    assert "v1" in world.nodes["c0"].applied


def test_an_isolated_leader_steps_down_and_its_proposals_end_unknown() -> None:
    world = make_world(5, 3)
    world.run(3000)
    (old,) = leaders(world)
    ends: list[int] = []
    world.isolate(old)
    world.nodes[old].raft.propose(world.envs[old], b"lost?", lambda env, outcome, index: ends.append(index))
    reads: list[bool] = []
    world.nodes[old].raft.read(world.envs[old], lambda env, safe: reads.append(safe))
    world.run(4000)
    assert ends == [-1]
    assert reads == [False]
    (new,) = leaders(world)
    assert new != old


def test_a_member_that_was_cut_off_does_not_depose_the_leader() -> None:
    world = make_world(7, 3)
    world.run(3000)
    (leader,) = leaders(world)
    term = world.nodes[leader].raft.term
    follower = next(name for name in world.names() if name != leader)
    world.isolate(follower)
    world.run(10_000)
    world.heal()
    world.run(3000)
    assert leaders(world) == [leader]
    assert world.nodes[leader].raft.term == term


def test_proposals_are_pipelined() -> None:
    """A hundred proposals of one moment need a few round trips, not a hundred."""
    world = make_world(9, 3, snapshot_entries=1000)
    world.run(3000)
    (leader,) = leaders(world)
    ends: list[int] = []
    for number in range(100):
        data = f"p{number}".encode()
        world.nodes[leader].raft.propose(world.envs[leader], data, lambda env, outcome, index: ends.append(index))
    world.run(150)
    assert len(ends) == 100
    assert ends == sorted(ends)


def test_a_member_far_behind_gets_the_snapshot() -> None:
    world = make_world(11, 3, snapshot_entries=20)
    storm = Storm(world)
    world.run(3000)
    (leader,) = leaders(world)
    follower = next(name for name in world.names() if name != leader)
    world.crash(follower)
    for _ in range(100):
        storm.propose()
        world.run(20)
    world.heal()
    world.run(2000)
    assert world.nodes[follower].applied == world.nodes[leader].applied
    assert world.nodes[follower].raft.log.snapshot_index > 20
